//! One caller, and a bus whose transfers take no time.

use std::cell::RefCell;
use std::hint::black_box;
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use embassy_embedded_hal::shared_bus::asynch::spi::SpiDevice as EmbassyDevice;
use embassy_embedded_hal::shared_bus::blocking::spi::SpiDevice as EmbassyBlocking;
use embassy_sync::blocking_mutex::Mutex as BlockingMutex;
use embassy_sync::blocking_mutex::raw::{CriticalSectionRawMutex, NoopRawMutex};
use embassy_sync::mutex::Mutex as AsyncMutex;
use embedded_hal::spi::SpiDevice;
use embedded_hal_async::spi::SpiDevice as AsyncDevice;
use embedded_hal_bus::spi::{
    CriticalSectionDevice, ExclusiveDevice, MutexDevice, NoDelay, RefCellDevice,
};
use nostall_spi::controllers::Loopback;
use nostall_spi::{Bare, Bus, Config, Slots, Threads, Transfer};

use crate::contended::beside_worker;
use crate::parts::{Nowhere, Pin, awaited, bare, bus, settings};
use nostall_bench::{Effort, Limit, Table, Unit};

const MESSAGE: [u8; 4] = [1, 2, 3, 4];

/// Sends `n` messages.
fn send(device: &mut impl SpiDevice, n: u64) {
    for _ in 0..n {
        device.write(black_box(&MESSAGE)).expect("nothing fails");
    }
}

/// Sends `n` messages asynchronously.
fn send_async(device: &mut impl AsyncDevice, n: u64) {
    let mut future = pin!(async {
        for _ in 0..n {
            device
                .write(black_box(&MESSAGE))
                .await
                .expect("nothing fails");
        }
    });
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(future.as_mut().poll(&mut context), Poll::Ready(()));
}

pub fn tables(effort: Effort) {
    blocking(effort);
    asynchronous(effort);
    memory();
}

fn blocking(effort: Effort) {
    let mutex = Mutex::new(Nowhere(None));
    let mut by_mutex = MutexDevice::new(&mutex, Pin::default(), NoDelay).expect("the pin works");
    let section = critical_section::Mutex::new(RefCell::new(Nowhere(None)));
    let mut by_section =
        CriticalSectionDevice::new(&section, Pin::default(), NoDelay).expect("the pin works");
    let cell = RefCell::new(Nowhere(None));
    let mut by_cell = RefCellDevice::new(&cell, Pin::default(), NoDelay).expect("the pin works");
    let mut exclusive =
        ExclusiveDevice::new(Nowhere(None), Pin::default(), NoDelay).expect("the pin works");
    let embassy = BlockingMutex::<CriticalSectionRawMutex, _>::new(RefCell::new(Nowhere(None)));
    let mut by_embassy = EmbassyBlocking::new(&embassy, Pin::default());

    let alone = bare();
    let mut device = alone.device(settings(0)).expect("it can");
    let native = alone.device(settings(1)).expect("it can");
    let loopback = Bus::new(Loopback, Threads::new());
    let looped = loopback.device(settings(0)).expect("it can");
    let threads = bus(None, Threads::new(), Config::DEFAULT);
    let mut on_threads = threads.device(settings(0)).expect("it can");
    let caller = bus(None, Threads::new(), Config::DEFAULT);

    // The first message wakes the hardware.
    device.write(&MESSAGE).expect("nothing fails");
    let (before, reads) = (alone.statistics(), alone.platform().0.reads());

    beside_worker(&caller, || {
        let mut by_caller = caller.device(settings(0)).expect("it can");
        let mut table = Table::new(
            "A message of 4 bytes on an idle bus that takes no time",
            Unit::Nanoseconds,
        );
        table.row("embedded-hal-bus MutexDevice", None, |n| {
            send(&mut by_mutex, n);
        });
        table.row("embedded-hal-bus CriticalSectionDevice", None, |n| {
            send(&mut by_section, n);
        });
        table.row("embedded-hal-bus RefCellDevice", None, |n| {
            send(&mut by_cell, n);
        });
        table.row("embassy blocking, critical section", None, |n| {
            send(&mut by_embassy, n);
        });
        table.row("not shared, ExclusiveDevice: the limit", None, |n| {
            send(&mut exclusive, n);
        });
        table.row("nostall, SpiDevice", Limit::RatioAtMost(1.5), |n| {
            send(&mut device, n);
        });
        table.row("nostall, SpiDevice, on threads", None, |n| {
            send(&mut on_threads, n);
        });
        table.row(
            "nostall, SpiDevice, beside a worker",
            Limit::RatioAtMost(1.5),
            |n| send(&mut by_caller, n),
        );
        table.row("nostall, Device::sync", Limit::RatioAtMost(1.5), |n| {
            for _ in 0..n {
                let message = &mut [Transfer::write(black_box(&MESSAGE))];
                native.sync(message).expect("nothing fails");
            }
        });
        table.row("nostall, Device::sync, on Loopback", None, |n| {
            for _ in 0..n {
                let message = &mut [Transfer::write(black_box(&MESSAGE))];
                looped.sync(message).expect("nothing fails");
            }
        });
        table.print(effort);
    });

    println!("\n  for each message          messages  wake-ups  teardowns  clock reads");
    let after = alone.statistics();
    let messages = after.messages.wrapping_sub(before.messages);
    let reads = alone.platform().0.reads() - reads;
    let each = |count: u64, messages: u32| count as f64 / f64::from(messages.max(1));
    println!(
        "  nostall                 {messages:10} {:9.4} {:10.4} {:12.4}",
        each((after.wakeups - before.wakeups).into(), messages),
        each((after.teardowns - before.teardowns).into(), messages),
        each(reads, messages),
    );
    let statistics = caller.statistics();
    println!(
        "  nostall, beside a worker{:10} {:9.4} {:10.4}            -",
        statistics.messages,
        each(statistics.wakeups.into(), statistics.messages),
        each(statistics.teardowns.into(), statistics.messages),
    );
}

fn asynchronous(effort: Effort) {
    let section = AsyncMutex::<CriticalSectionRawMutex, _>::new(Nowhere(None));
    let mut by_section = EmbassyDevice::new(&section, Pin::default());
    let noop = AsyncMutex::<NoopRawMutex, _>::new(Nowhere(None));
    let mut by_noop = EmbassyDevice::new(&noop, Pin::default());
    let alone = awaited();
    let mut device = alone.device(settings(0)).expect("it can");

    let mut table = Table::new(
        "The same, awaited, on a bus that is ready at once",
        Unit::Nanoseconds,
    );
    table.row("embassy, critical section", None, |n| {
        send_async(&mut by_section, n);
    });
    table.row("embassy, Noop mutex", None, |n| {
        send_async(&mut by_noop, n);
    });
    table.row("nostall", Limit::RatioAtMost(1.5), |n| {
        send_async(&mut device, n);
    });
    table.print(effort);
}

fn memory() {
    type Of<const W: usize, const S: usize, const B: usize> =
        Bus<Loopback, Bare<()>, Slots<W, S, B>>;
    let of = |name: &str, bytes: usize| println!("  {name:38} {bytes:6} bytes");
    println!("\nMemory of a bus, without its controller and platform");
    let none = size_of::<Of<0, 0, 0>>();
    let place = size_of::<Of<1, 0, 0>>() - none;
    of("no places", none);
    of("a place for a waiter", place);
    of(
        "a submitted message of 64 bytes",
        size_of::<Of<0, 1, 64>>() - none,
    );
    of("8 waiters, 8 submitted messages", size_of::<Of<8, 8, 64>>());
    let met = |is: bool| if is { "met" } else { "NOT met" };
    println!(
        "  of no places: 56 bytes are 14 counters, 32 two wakers, 16 capabilities, 8 the time-outs"
    );
    println!(
        "  limits: no places <= 128, {}; a waiter <= 32, {}",
        met(none <= 128),
        met(place <= 32)
    );
}

//! One caller, and a bus that takes no time.

use std::hint::black_box;
use std::sync::Mutex;
use std::thread;

use embedded_hal::spi::SpiDevice;
use embedded_hal_bus::spi::{MutexDevice, NoDelay};
use nostall_spi::controllers::Loopback;
use nostall_spi::{Bus, Config, Strategy, Threads, Transfer};

use crate::parts::{Nowhere, Pin, bare, bus, settings};
use nostall_bench::{Effort, Limit, Table, Unit};

const MESSAGE: [u8; 4] = [1, 2, 3, 4];

pub fn tables(effort: Effort) {
    let mutex = Mutex::new(Nowhere(None));
    let mut peer = MutexDevice::new(&mutex, Pin::default(), NoDelay).expect("the pin works");

    let alone = bare();
    let mut device = alone.device(settings(0)).expect("it can");
    let native = alone.device(settings(1)).expect("it can");
    let loopback: Bus<_, _> = Bus::new(Loopback, Threads::new(), Config::DEFAULT);
    let looped = loopback.device(settings(0)).expect("it can");

    let config = Config {
        strategy: Strategy::Pump,
        ..Config::DEFAULT
    };
    let pump = bus(None, Threads::new(), config);
    let caller = bus(None, Threads::new(), Config::DEFAULT);

    // The hardware is awake.
    device.write(&MESSAGE).expect("nothing fails");
    let (before, reads) = (alone.statistics(), alone.platform().0.reads());

    thread::scope(|scope| {
        scope.spawn(|| Threads::serve(&pump));
        scope.spawn(|| Threads::serve(&caller));
        while !pump.platform().serves() || !caller.platform().serves() {
            thread::yield_now();
        }
        let mut by_pump = pump.device(settings(0)).expect("it can");
        let mut by_caller = caller.device(settings(0)).expect("it can");
        let mut table = Table::new(
            "A message of 4 bytes on an idle bus that takes no time",
            Unit::Nanoseconds,
        );
        table.row("embedded-hal-bus MutexDevice", None, |n| {
            for _ in 0..n {
                peer.write(black_box(&MESSAGE)).expect("nothing fails");
            }
        });
        table.row("caller, SpiDevice", Limit::RatioAtMost(2.0), |n| {
            for _ in 0..n {
                SpiDevice::write(&mut device, black_box(&MESSAGE)).expect("nothing fails");
            }
        });
        table.row(
            "caller, SpiDevice, beside a worker",
            Limit::RatioAtMost(2.0),
            |n| {
                for _ in 0..n {
                    SpiDevice::write(&mut by_caller, black_box(&MESSAGE)).expect("nothing fails");
                }
            },
        );
        table.row("caller, Device::sync", Limit::RatioAtMost(2.0), |n| {
            for _ in 0..n {
                let message = &mut [Transfer::write(black_box(&MESSAGE))];
                native.sync(message).expect("nothing fails");
            }
        });
        table.row("caller, Device::sync, on Loopback", None, |n| {
            for _ in 0..n {
                let message = &mut [Transfer::write(black_box(&MESSAGE))];
                looped.sync(message).expect("nothing fails");
            }
        });
        table.row("pump, SpiDevice", None, |n| {
            for _ in 0..n {
                SpiDevice::write(&mut by_pump, black_box(&MESSAGE)).expect("nothing fails");
            }
        });
        table.print(effort);
        pump.platform().stop();
        caller.platform().stop();
    });

    println!("\n  for each message          messages  wake-ups  teardowns  clock reads");
    let after = alone.statistics();
    let messages = after.messages - before.messages;
    let reads = alone.platform().0.reads() - reads;
    let each = |count: usize, messages: usize| count as f64 / messages.max(1) as f64;
    println!(
        "  caller                  {messages:10} {:9.4} {:10.4} {:12.4}",
        each(after.wakeups - before.wakeups, messages),
        each(after.teardowns - before.teardowns, messages),
        each(reads as usize, messages),
    );
    for (name, statistics) in [
        ("caller, beside a worker", caller.statistics()),
        ("pump", pump.statistics()),
    ] {
        let messages = statistics.messages;
        println!(
            "  {name:23} {messages:10} {:9.4} {:10.4}            -",
            each(statistics.wakeups, messages),
            each(statistics.teardowns, messages),
        );
    }
}

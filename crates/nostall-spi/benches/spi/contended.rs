//! Four threads and one bus.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use embedded_hal::spi::SpiDevice;
use embedded_hal_bus::spi::{MutexDevice, NoDelay};
use nostall_spi::{Config, Threads};

use crate::parts::{Nowhere, Pin, bus, settings};
use crate::table::Effort;

const THREADS: usize = 4;
const MESSAGE: [u8; 4] = [1, 2, 3, 4];

/// What came of one round.
struct Round {
    messages_a_second: f64,
    /// Of a message, less its own time, in microseconds: median, 99.9th percentile,
    /// longest.
    waits: [f64; 3],
}

/// Four threads send as fast as they can, each with what `device` made for it.
fn round<D: SpiDevice + Send>(
    span: Duration,
    message: Option<Duration>,
    device: impl Fn(u8) -> D + Sync,
) -> Round {
    let ready = AtomicUsize::new(0);
    let mut waits: Vec<Duration> = Vec::new();
    let mut longest = Duration::ZERO;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS as u8)
            .map(|line| {
                let (ready, device) = (&ready, &device);
                scope.spawn(move || {
                    let mut device = device(line);
                    ready.fetch_add(1, Ordering::AcqRel);
                    while ready.load(Ordering::Acquire) < THREADS {
                        thread::yield_now();
                    }
                    let mut waits = Vec::with_capacity(1 << 20);
                    let start = Instant::now();
                    let mut now = start;
                    while now - start < span {
                        device.write(&MESSAGE).expect("nothing fails");
                        let then = Instant::now();
                        waits.push((then - now).saturating_sub(message.unwrap_or_default()));
                        now = then;
                    }
                    (waits, now - start)
                })
            })
            .collect();
        for thread in threads {
            let (its, took) = thread.join().expect("nothing panics");
            waits.extend(its);
            longest = longest.max(took);
        }
    });
    waits.sort_unstable();
    let at = |share: f64| {
        let index = ((waits.len() - 1) as f64 * share) as usize;
        waits[index].as_nanos() as f64 / 1e3
    };
    Round {
        messages_a_second: waits.len() as f64 / longest.as_secs_f64(),
        waits: [at(0.5), at(0.999), at(1.0)],
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn table(effort: Effort, title: &str, message: Option<Duration>) {
    let (rounds, span) = match effort.is_test() {
        true => (1, Duration::from_millis(1)),
        false => (15, Duration::from_millis(200)),
    };
    let ours = bus(message, Threads::new(), Config::DEFAULT);
    let mutex = Mutex::new(Nowhere(message));
    let alone = Mutex::new(Nowhere(message));
    let (mut one, mut by_mutex, mut by_us) = (Vec::new(), Vec::new(), Vec::new());
    thread::scope(|scope| {
        scope.spawn(|| Threads::serve(&ours));
        while !ours.platform().serves() {
            thread::yield_now();
        }
        for _ in 0..rounds {
            // What the bus takes: one thread, and nobody to share it with.
            let mut device =
                MutexDevice::new(&alone, Pin::default(), NoDelay).expect("the pin works");
            let (start, mut sent) = (Instant::now(), 0);
            while start.elapsed() < span / 4 {
                device.write(&MESSAGE).expect("nothing fails");
                sent += 1;
            }
            one.push(f64::from(sent) / start.elapsed().as_secs_f64());
            by_mutex.push(round(span, message, |_| {
                MutexDevice::new(&mutex, Pin::default(), NoDelay).expect("the pin works")
            }));
            by_us.push(round(span, message, |line| {
                ours.device(settings(line)).expect("it can")
            }));
        }
        ours.platform().stop();
    });
    let limit = median(one);
    println!("\n{title}; medians of {rounds} rounds");
    println!(
        "                                messages/s  of one's  wait: median      99.9 %     longest"
    );
    println!("  one thread, nobody beside it  {limit:10.0}     1.000");
    for (name, rounds) in [
        ("embedded-hal-bus MutexDevice", &by_mutex),
        ("caller, SpiDevice", &by_us),
    ] {
        let rate = median(rounds.iter().map(|round| round.messages_a_second).collect());
        let wait = |which: usize| median(rounds.iter().map(|round| round.waits[which]).collect());
        println!(
            "  {name:28}  {rate:10.0} {:9.3} {:10.1} us {:8.0} us {:8.0} us",
            rate / limit,
            wait(0),
            wait(1),
            wait(2)
        );
    }
    let statistics = ours.statistics();
    println!(
        "  ours: {} messages, {} run at once by their callers, {} by the worker, {} wake-ups of it",
        statistics.messages, statistics.sync_immediate, statistics.by_worker, statistics.wakeups
    );
}

pub fn tables(effort: Effort) {
    let message = Duration::from_micros(4);
    table(
        effort,
        "Four threads, one bus, messages of 4 us",
        Some(message),
    );
    table(effort, "Four threads, one bus that takes no time", None);
}

//! Two threads compared with one.

use crate::record::{IP, PARENT, counter, memory, plain, ram, recorder, ticks};
use nostall_bench::{Effort, Limit, Table, Unit};
use nostall_pstore::{LockedRecorder, OwnCounter, SharedCounter};
use spin::mutex::SpinMutex;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A value with its own cache lines: neighbours share neither a line nor a pair of lines.
#[repr(align(128))]
struct Apart<T>(T);

/// Returns the time in which `threads` threads make `records` records in total. They start
/// together, and each has its own worker.
fn race<T: Send>(
    records: u64,
    workers: &mut [Apart<T>],
    record: impl Fn(&mut T, u8, u64) + Sync,
) -> Duration {
    // Without a `Barrier`: a thread that sleeps in one wakes up on the CPU of the last thread.
    let (all, ready) = (workers.len(), AtomicUsize::new(0));
    let each = records / workers.len() as u64 + 1;
    let ran: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let mut running = Vec::new();
        for (number, Apart(worker)) in workers.iter_mut().enumerate() {
            let (ready, record) = (&ready, &record);
            running.push(scope.spawn(move || {
                ready.fetch_add(1, Ordering::AcqRel);
                while ready.load(Ordering::Acquire) < all {
                    std::hint::spin_loop();
                }
                let start = Instant::now();
                record(worker, number as u8, each);
                (start, Instant::now())
            }));
        }
        let ended = running.into_iter().map(|thread| thread.join().unwrap());
        ended.collect()
    });
    let start = ran.iter().map(|(start, _)| *start).min();
    let end = ran.iter().map(|(_, end)| *end).max();
    start
        .zip(end)
        .map_or(Duration::ZERO, |(start, end)| end - start)
}

/// Methods of recording, measured with one thread and with two.
struct Ways<'a> {
    table: Table<'a>,
    /// Name of each method, and the index of the earlier method that is its limit.
    ways: Vec<(&'static str, Option<usize>)>,
}

impl<'a> Ways<'a> {
    fn add<T: Send + 'a>(
        &mut self,
        name: &'static str,
        peer: Option<usize>,
        mut worker: impl FnMut() -> T,
        record: impl Fn(&mut T, u8, u64) + Sync + Copy + 'a,
    ) {
        self.ways.push((name, peer));
        for threads in [1, 2] {
            let mut workers: Vec<_> = (0..threads).map(|_| Apart(worker())).collect();
            let run = move |records| race(records, &mut workers, record);
            self.table.timed(name, None, run);
        }
    }

    fn print(mut self, effort: Effort) {
        let medians = self.table.measure(effort);
        let medians: Vec<_> = medians
            .chunks(2)
            .map(|both| [both[0][1], both[1][1]])
            .collect();
        let gain = |way: usize| medians[way][0] / medians[way][1];
        println!(
            "\nTwo threads beside one: ns a record of all threads, and the growth of the throughput"
        );
        println!(
            "  {:40} {:>9} {:>9} {:>7} {:>14}",
            "", "one", "two", "growth", "of the plain's"
        );
        for (way, (name, peer)) in self.ways.iter().enumerate() {
            let [one, two] = medians[way];
            let beside = peer.map(|peer| gain(way) / gain(peer));
            let of = beside.map_or(String::new(), |ratio| format!("{ratio:.2}"));
            let verdict = beside.map_or(String::new(), |ratio| {
                Limit::RatioAtLeast(0.9).verdict(two, ratio)
            });
            let line = format!(
                "  {name:40} {one:9.2} {two:9.2} {:7.2} {of:>14}  {verdict}",
                gain(way)
            );
            println!("{}", line.trim_end());
        }
    }
}

pub fn tables(effort: Effort) {
    static SHARED: Apart<AtomicUsize> = Apart(AtomicUsize::new(0));
    let own = || recorder(ram(), OwnCounter::new());
    let mut ways = Ways {
        table: Table::new("", Unit::Nanoseconds),
        ways: Vec::new(),
    };
    ways.add("plain loop, counter", None, memory, |memory, _, n| {
        plain(memory, n, counter());
    });
    ways.add("plain loop, clock", None, memory, |memory, _, n| {
        plain(memory, n, ticks);
    });
    ways.add(
        "a zone each, own counter",
        Some(0),
        own,
        |recorder, _, n| {
            times(n, |ip| recorder.record(ip, PARENT));
        },
    );
    let clock = || recorder(ram(), ticks);
    ways.add("a zone each, clock", Some(1), clock, |recorder, _, n| {
        times(n, |ip| recorder.record(ip, PARENT));
    });
    let shared = || recorder(ram(), SharedCounter(&SHARED.0));
    ways.add(
        "a zone each, shared counter",
        None,
        shared,
        |recorder, _, n| {
            times(n, |ip| recorder.record(ip, PARENT));
        },
    );
    let locked = LockedRecorder::<SpinMutex<()>, _>::new([own(), own()]);
    ways.add(
        "a zone each, one lock for all",
        None,
        || &locked,
        |locked, cpu, n| {
            times(n, |ip| locked.record_in(cpu, ip, PARENT));
        },
    );
    let one = LockedRecorder::<SpinMutex<()>, _>::new(own());
    ways.add(
        "one zone for all, locked",
        None,
        || &one,
        |one, cpu, n| {
            times(n, |ip| one.record(cpu, ip, PARENT));
        },
    );
    ways.print(effort);
}

fn times(records: u64, mut record: impl FnMut(u64)) {
    for _ in 0..records {
        record(black_box(IP));
    }
}

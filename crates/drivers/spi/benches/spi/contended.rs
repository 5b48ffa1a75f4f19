//! Four threads and one bus.

use std::cell::RefCell;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use embassy_embedded_hal::shared_bus::asynch::spi::SpiDevice as EmbassyDevice;
use embassy_embedded_hal::shared_bus::blocking::spi::SpiDevice as EmbassyBlocking;
use embassy_sync::blocking_mutex::Mutex as BlockingMutex;
use embassy_sync::blocking_mutex::raw::CriticalSectionRawMutex;
use embassy_sync::mutex::Mutex as AsyncMutex;
use embedded_hal::spi::{ErrorType, Operation, SpiDevice};
use embedded_hal_async::spi::SpiDevice as AsyncDevice;
use embedded_hal_bus::spi::{CriticalSectionDevice, MutexDevice, NoDelay};
use nostall_spi::{Bus, Config, Controller, Threads};

use crate::parts::{Fifo, Nowhere, Pin, bus, settings};
use nostall_bench::Effort;

const THREADS: usize = 4;
const MESSAGE: [u8; 4] = [1, 2, 3, 4];
const NONE: Duration = Duration::ZERO;

/// Minimum throughput of four threads, relative to the mutex in the same run.
const LEAST: f64 = 0.8;

/// Results of one round.
struct Round {
    messages_a_second: f64,
    /// Waits of messages without their own transfer time, in microseconds: median, 99.9th
    /// percentile, maximum.
    waits: [f64; 3],
    /// Number of messages of the slowest thread, divided by that of the fastest one.
    share: f64,
    /// Context switches of the threads per message.
    switches: f64,
}

/// Returns the context switches of the calling thread (proc_pid_status(5)), or 0 if they are not
/// available.
fn switches() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let counts = status.lines().filter(|line| line.contains("ctxt_switches"));
    counts
        .filter_map(|line| line.rsplit('\t').next()?.parse::<u64>().ok())
        .sum()
}

/// An awaited device on a thread of its own, which is parked while the bus is taken.
struct Awaited<D> {
    device: D,
    waker: Waker,
}

impl<D> Awaited<D> {
    /// Called on the thread that sends.
    fn new(device: D) -> Self {
        let waker = Arc::new(Unpark(thread::current())).into();
        Self { device, waker }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl<D: ErrorType> ErrorType for Awaited<D> {
    type Error = D::Error;
}

impl<D: AsyncDevice> SpiDevice for Awaited<D> {
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), D::Error> {
        let mut context = Context::from_waker(&self.waker);
        let mut sent = pin!(self.device.transaction(operations));
        loop {
            match sent.as_mut().poll(&mut context) {
                Poll::Ready(result) => return result,
                Poll::Pending => thread::park(),
            }
        }
    }
}

/// Runs threads that send as fast as they can, or with sleeps between messages, each with its own
/// device.
fn round<D: SpiDevice + Send>(
    count: usize,
    think: Duration,
    span: Duration,
    message: Option<Duration>,
    device: impl Fn(u8) -> D + Sync,
) -> Round {
    let ready = AtomicUsize::new(0);
    let mut waits: Vec<Duration> = Vec::new();
    let mut counts = Vec::new();
    let mut longest = Duration::ZERO;
    let mut switched = 0;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count as u8)
            .map(|line| {
                let (ready, device) = (&ready, &device);
                scope.spawn(move || {
                    let mut device = device(line);
                    ready.fetch_add(1, Ordering::AcqRel);
                    while ready.load(Ordering::Acquire) < count {
                        thread::yield_now();
                    }
                    let mut waits = Vec::with_capacity(1 << 20);
                    let switched = switches();
                    let start = Instant::now();
                    let mut now = start;
                    while now - start < span {
                        device.write(&MESSAGE).expect("nothing fails");
                        let then = Instant::now();
                        waits.push((then - now).saturating_sub(message.unwrap_or_default()));
                        now = then;
                        if !think.is_zero() {
                            thread::sleep(think);
                            now = Instant::now();
                        }
                    }
                    (waits, now - start, switches() - switched)
                })
            })
            .collect();
        for thread in threads {
            let (its, took, its_switches) = thread.join().expect("nothing panics");
            switched += its_switches;
            counts.push(its.len());
            waits.extend(its);
            longest = longest.max(took);
        }
    });
    waits.sort_unstable();
    let at = |share: f64| {
        let index = ((waits.len() - 1) as f64 * share) as usize;
        waits[index].as_nanos() as f64 / 1e3
    };
    let fewest = counts.iter().min().copied().unwrap_or_default();
    let most = counts.iter().max().copied().unwrap_or_default();
    Round {
        messages_a_second: waits.len() as f64 / longest.as_secs_f64(),
        waits: [at(0.5), at(0.999), at(1.0)],
        share: fewest as f64 / most.max(1) as f64,
        switches: switched as f64 / waits.len() as f64,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the medians of the rounds.
fn medians(rounds: &[Round]) -> Round {
    let of = |value: &dyn Fn(&Round) -> f64| median(rounds.iter().map(value).collect());
    Round {
        messages_a_second: of(&|round| round.messages_a_second),
        waits: [0, 1, 2].map(|which| of(&|round| round.waits[which])),
        share: of(&|round| round.share),
        switches: of(&|round| round.switches),
    }
}

/// Runs `act` while the worker of `bus` runs. If `act` panics, the worker ends, too.
pub fn beside_worker<C: Controller + Send>(bus: &Bus<C, Threads>, act: impl FnOnce()) {
    struct Stop<'a>(&'a Threads);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.stop();
        }
    }
    thread::scope(|scope| {
        let worker = scope.spawn(|| Threads::serve(bus).expect("the only one"));
        let _stop = Stop(bus.platform());
        while !bus.platform().serves() {
            assert!(!worker.is_finished(), "the worker does not serve");
            thread::yield_now();
        }
        act();
    });
}

fn told<C: Controller>(name: &str, bus: &Bus<C, Threads>) {
    let statistics = bus.statistics();
    println!(
        "  {name}: {} messages, {} run at once by their callers, {} by the worker, {} wake-ups of it",
        statistics.messages, statistics.sync_immediate, statistics.by_worker, statistics.wakeups
    );
}

fn met(is: bool) -> &'static str {
    if is { "met" } else { "NOT met" }
}

fn table(effort: Effort, title: &str, message: Option<Duration>) {
    let (rounds, span) = match effort.is_test() {
        true => (1, Duration::from_millis(1)),
        false => (15, Duration::from_millis(200)),
    };
    let ours = bus(message, Threads::new(), Config::DEFAULT);
    let fifo = Bus::new(Fifo::new(message), Threads::new());
    let mutex = Mutex::new(Nowhere(message));
    let section = critical_section::Mutex::new(RefCell::new(Nowhere(message)));
    let embassy = BlockingMutex::<CriticalSectionRawMutex, _>::new(RefCell::new(Nowhere(message)));
    let awaited = AsyncMutex::<CriticalSectionRawMutex, _>::new(Nowhere(message));
    let alone = Mutex::new(Nowhere(message));
    let mut one = Vec::new();
    let [
        mut by_mutex,
        mut by_section,
        mut by_embassy,
        mut by_awaited,
        mut by_us,
        mut by_fifo,
    ] = [const { Vec::new() }; 6];
    let measure = || {
        for _ in 0..rounds {
            // Measures the rate of one thread alone.
            let mut device =
                MutexDevice::new(&alone, Pin::default(), NoDelay).expect("the pin works");
            let (start, mut sent) = (Instant::now(), 0);
            while start.elapsed() < span / 4 {
                device.write(&MESSAGE).expect("nothing fails");
                sent += 1;
            }
            one.push(f64::from(sent) / start.elapsed().as_secs_f64());
            by_mutex.push(round(THREADS, NONE, span, message, |_| {
                MutexDevice::new(&mutex, Pin::default(), NoDelay).expect("the pin works")
            }));
            by_section.push(round(THREADS, NONE, span, message, |_| {
                CriticalSectionDevice::new(&section, Pin::default(), NoDelay)
                    .expect("the pin works")
            }));
            by_embassy.push(round(THREADS, NONE, span, message, |_| {
                EmbassyBlocking::new(&embassy, Pin::default())
            }));
            by_awaited.push(round(THREADS, NONE, span, message, |_| {
                Awaited::new(EmbassyDevice::new(&awaited, Pin::default()))
            }));
            by_us.push(round(THREADS, NONE, span, message, |line| {
                ours.device(settings(line)).expect("it can")
            }));
            by_fifo.push(round(THREADS, NONE, span, message, |line| {
                fifo.device(settings(line)).expect("it can")
            }));
        }
    };
    beside_worker(&ours, || beside_worker(&fifo, measure));
    // The best round counts, because other processes may have used the CPU in the others.
    let limit = one.into_iter().fold(0.0, f64::max);
    println!("\n{title}; medians of {rounds} rounds");
    println!(
        "                                messages/s  of one's  wait: median      99.9 %     longest  fewest/most"
    );
    println!("  one thread alone: the limit   {limit:10.0}     1.000");
    let [
        peer,
        by_section,
        by_embassy,
        by_awaited,
        ours_over_hal,
        ours_over_fifo,
    ] = [by_mutex, by_section, by_embassy, by_awaited, by_us, by_fifo].map(|all| medians(&all));
    for (name, round) in [
        ("embedded-hal-bus MutexDevice", &peer),
        ("hal-bus CriticalSectionDevice", &by_section),
        ("embassy blocking SpiDevice", &by_embassy),
        ("embassy SpiDevice, awaited", &by_awaited),
        ("caller, over SpiBus", &ours_over_hal),
        ("caller, over a FIFO", &ours_over_fifo),
    ] {
        let [median, rare, longest] = round.waits;
        println!(
            "  {name:29} {:10.0} {:9.3} {median:10.1} us {rare:8.0} us {longest:8.0} us {:12.2}",
            round.messages_a_second,
            round.messages_a_second / limit,
            round.share,
        );
    }
    if message.is_some() {
        for (name, round) in [("SpiBus", &ours_over_hal), ("FIFO", &ours_over_fifo)] {
            println!(
                "  limits, over {name:6}: of MutexDevice's >= {LEAST}, {}; 99.9 % below MutexDevice's, {}; longest below, {}",
                met(round.messages_a_second >= LEAST * peer.messages_a_second),
                met(round.waits[1] < peer.waits[1]),
                met(round.waits[2] < peer.waits[2]),
            );
        }
    }
    told("over SpiBus", &ours);
    told("over a FIFO", &fifo);
}

/// Measures two and three threads on a slow bus.
fn slow(effort: Effort) {
    let (rounds, span) = match effort.is_test() {
        true => (1, Duration::from_millis(1)),
        false => (7, Duration::from_millis(300)),
    };
    // The transmission time of 4 bytes at 1 MHz.
    let message = Some(Duration::from_micros(32));
    println!("\nA bus of 1 MHz, messages of 4 bytes; medians of {rounds} rounds");
    println!(
        "                                             messages/s  wait: 99.9 %     longest  switches a message"
    );
    for count in [2, 3] {
        for think in [NONE, Duration::from_micros(200)] {
            let ours = bus(message, Threads::new(), Config::DEFAULT);
            let mutex = Mutex::new(Nowhere(message));
            let (mut by_mutex, mut by_us) = (Vec::new(), Vec::new());
            beside_worker(&ours, || {
                for _ in 0..rounds {
                    by_mutex.push(round(count, think, span, message, |_| {
                        MutexDevice::new(&mutex, Pin::default(), NoDelay).expect("the pin works")
                    }));
                    by_us.push(round(count, think, span, message, |line| {
                        ours.device(settings(line)).expect("it can")
                    }));
                }
            });
            let [peer, us] = [by_mutex, by_us].map(|all| medians(&all));
            for (name, it) in [("MutexDevice", &peer), ("nostall", &us)] {
                println!(
                    "  {count} threads, think {:3} us, {name:11}      {:10.0} {:10.0} us {:8.0} us {:10.3}",
                    think.as_micros(),
                    it.messages_a_second,
                    it.waits[1],
                    it.waits[2],
                    it.switches,
                );
            }
            println!(
                "    limits: 99.9 % below MutexDevice's, {}; switches <= 1.2 of MutexDevice's, {}; wake-ups of the worker {}",
                met(us.waits[1] <= peer.waits[1]),
                met(us.switches <= 1.2 * peer.switches),
                ours.statistics().wakeups,
            );
        }
    }
}

pub fn tables(effort: Effort) {
    slow(effort);
    let message = Duration::from_micros(4);
    table(
        effort,
        "Four threads, one bus, messages of 4 us",
        Some(message),
    );
    table(effort, "Four threads, one bus that takes no time", None);
}

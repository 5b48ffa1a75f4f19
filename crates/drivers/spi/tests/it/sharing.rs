//! Several callers of a bus: order, hand-over, the worker, and sleep of the hardware.

use crate::common;

use std::sync::Mutex;

use crate::common::*;
use nostall_io::Nanos;
use nostall_spi::{Completed, Config, Transfer};

const IDLE_TIMEOUT: Nanos = Config::DEFAULT.idle_timeout;

#[test]
fn a_busy_period_has_one_teardown_an_idle_timeout_after_its_end() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    for period in 1..=3 {
        for _ in 0..100 {
            device.write(&[1]).unwrap();
            assert!(bus.poll().is_some());
            clock.advance(Nanos::from_millis(1));
        }
        probe.told();
        clock.advance(IDLE_TIMEOUT - Nanos::from_millis(2));
        assert!(bus.poll().is_some());
        assert_eq!(probe.told(), []);
        clock.advance(Nanos::from_millis(1));
        // There is no further work to poll for.
        assert_eq!(bus.poll(), None);
        assert_eq!(probe.told(), [Unprepare]);
        clock.advance(IDLE_TIMEOUT * 10);
        assert_eq!(bus.poll(), None);
        assert_eq!(probe.told(), []);
        let statistics = bus.statistics();
        assert_eq!(
            (statistics.preparations, statistics.teardowns),
            (period, period)
        );
    }
}

#[test]
fn time_outs_are_rounded_up_to_milliseconds_and_more_than_49_days_are_never() {
    let config = |idle_timeout| {
        let config = Config {
            idle_timeout,
            ..Config::DEFAULT
        };
        bus(config).0.config()
    };
    assert_eq!(config(IDLE_TIMEOUT), Config::DEFAULT);
    for (asked, kept) in [
        (0, 0),
        (1, 1_000_000),
        (1_000_001, 2_000_000),
        (86_400_000_000_000 * 49, 86_400_000_000_000 * 49),
        (86_400_000_000_000 * 50, u64::MAX),
    ] {
        assert_eq!(config(Nanos(asked)).idle_timeout, Nanos(kept));
    }
}

#[test]
fn without_a_worker_a_submitted_message_waits_for_poll_or_the_next_caller() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let one = bus.device(device(1)).unwrap();
    let two = bus.device(device(2)).unwrap();
    let mut first = one
        .submit(&mut [Transfer::write(&[1]), Transfer::in_place(&mut [2, 3])])
        .unwrap();
    assert!(!first.is_done());
    assert_eq!(first.received(1, &mut [0; 2]), 0);
    bus.poll();
    assert!(first.is_done());
    let mut came = [0; 4];
    assert_eq!(first.received(0, &mut came), 0);
    assert_eq!(first.received(1, &mut came), 2);
    assert_eq!(came, [3, 4, 0, 0]);
    assert_eq!(first.wait(), Ok(()));

    let second = one.submit(&mut [Transfer::write(&[4])]).unwrap();
    two.write(&[5]).unwrap();
    assert!(second.is_done());
    // A message of another device may be overtaken.
    assert_eq!(probe.sent(), [vec![1], vec![2, 3], vec![5], vec![4]]);
}

#[cfg(feature = "std")]
#[test]
fn a_task_runs_its_message_to_an_idle_bus_itself() {
    let probe = Probe::default();
    let threads = nostall_spi::Threads::new();
    let bus: nostall_spi::Bus<_, _> = nostall_spi::Bus::new(controller(&probe), threads);
    let device = bus.device(device(1)).unwrap();
    let submitted = device.submit(&mut [Transfer::write(&[1])]).unwrap();
    assert!(submitted.is_done());
}

#[cfg(feature = "std")]
#[test]
fn a_thread_that_waits_for_the_bus_keeps_its_own_unpark() {
    use std::{sync::mpsc, thread};

    use nostall_spi::{Platform, Threads};

    let (tell, told) = mpsc::channel();
    let caller = thread::spawn(move || {
        let platform = Threads::new();
        thread::current().unpark();
        platform.current().unwrap().wake();
        platform.block(Nanos(u64::MAX));
        thread::park();
        let _ = tell.send(());
    });
    let kept = told.recv_timeout(common::HANG_LIMIT);
    caller.thread().unpark();
    assert_eq!(kept, Ok(()));
}

#[test]
fn a_callback_gets_the_received_bytes_and_may_submit() {
    static SEEN: Mutex<Vec<(usize, Vec<u8>)>> = Mutex::new(Vec::new());
    let (bus, probe, _) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    let seen = |completed: Completed<'_>| {
        let came = completed.received(0).to_vec();
        SEEN.lock().unwrap().push((completed.number, came));
    };
    let seen: &'static _ = Box::leak(Box::new(seen));
    for number in 0..3 {
        let mut byte = [number as u8 * 10];
        let mut parts = [Transfer::in_place(&mut byte)];
        device.submit_then(&mut parts, seen, number).unwrap();
    }
    bus.poll();
    let expected = [(0, vec![1]), (1, vec![11]), (2, vec![21])];
    assert_eq!(*SEEN.lock().unwrap(), expected);
    assert_eq!(probe.sent(), [[0], [10], [20]]);
}

#[test]
fn a_caller_on_a_free_bus_runs_its_message_however_many_were_submitted() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let one = bus.device(device(1)).unwrap();
    let two = bus.device(device(2)).unwrap();
    // This takes longer than any share of time: 20 ms.
    let mut long = two
        .submit(&mut [Transfer::write(&[2]).delay(Nanos::from_millis(20))])
        .unwrap();
    let mut own = one.submit(&mut [Transfer::write(&[1; 16])]).unwrap();
    assert_eq!(one.write(&[3]), Ok(()));
    // The earlier message of its own device was sent first.
    assert_eq!(own.wait(), Ok(()));
    assert_eq!(long.wait(), Ok(()));
    let sent = probe.sent();
    let at = |byte: u32| sent.iter().position(|words| words[0] == byte);
    assert!(at(1) < at(3), "{sent:?}");
    assert_eq!(bus.poll(), Some(now(&clock) + IDLE_TIMEOUT));
}

#[test]
fn a_submitted_write_enable_goes_before_a_page_program_of_any_length() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let flash = bus.device(device(1)).unwrap();
    let other = bus.device(device(2)).unwrap();
    let locked = other.lock().unwrap();
    let enable = flash.submit(&mut [Transfer::write(&[6])]).unwrap();
    drop(locked);
    // This message is longer than a submitted one may be.
    flash
        .sync(&mut [Transfer::write(&[2, 0, 0, 0]), Transfer::write(&[9; 256])])
        .unwrap();
    assert!(enable.is_done());
    let first: Vec<_> = probe.sent().iter().map(|words| words[0]).collect();
    assert_eq!(first, [6, 2, 9]);
}

#[test]
fn an_owner_ends_however_many_messages_are_submitted() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static RAN: AtomicUsize = AtomicUsize::new(0);
    fn again(completed: Completed<'_>) {
        RAN.fetch_add(1, Ordering::Relaxed);
        let device = DEVICE.get().unwrap();
        let number = completed.number + 1;
        device
            .0
            .submit_then(&mut [Transfer::write(&[1])], &again, number)
            .unwrap();
    }
    struct Shared(common::VirtualDevice<'static>);
    // SAFETY: only the test's thread uses this bus.
    unsafe impl Sync for Shared {}
    // SAFETY: as above.
    unsafe impl Send for Shared {}
    static DEVICE: std::sync::OnceLock<Shared> = std::sync::OnceLock::new();
    let (bus, _, _) = bus(Config::DEFAULT);
    let bus: &'static Virtual = Box::leak(Box::new(bus));
    let device = bus.device(device(1)).unwrap();
    assert!(
        DEVICE
            .set(Shared(bus.device(common::device(2)).unwrap()))
            .is_ok()
    );
    let submitting = &DEVICE.get().unwrap().0;
    submitting
        .submit_then(&mut [Transfer::write(&[1])], &again, 0)
        .unwrap();
    device.write(&[3]).unwrap();
    assert_eq!(RAN.load(Ordering::Relaxed), 1024);
    bus.poll();
    assert_eq!(RAN.load(Ordering::Relaxed), 1024 + 64);
}

#[cfg(feature = "std")]
mod threads {
    use std::sync::mpsc;
    use std::thread::{self, ScopedJoinHandle};
    use std::time::Duration;

    use super::*;
    use nostall_spi::{Bus, Error, Fault, Settings, Slots, Submitted, Threads, Worker};

    type Shared = Bus<Probed, Threads, Slots<8, 8, 16>>;

    /// A time limit for tests that must not depend on it: more than any pause of a machine.
    const LONG: Nanos = Nanos::from_secs(600);

    fn shared(config: Config) -> (Shared, Probe) {
        let probe = Probe::default();
        let config = Config {
            lock_timeout: LONG,
            ..config
        };
        let bus = Bus::sized(controller(&probe), Threads::new()).with_config(config);
        (bus, probe)
    }

    /// Ends the worker even if the test fails. Otherwise, the worker would wait forever.
    struct Stop<'b>(&'b Shared);

    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.platform().stop();
        }
    }

    /// Waits until a worker serves the bus. A worker that ends before is a failure.
    fn until_served<T>(bus: &Shared, worker: &ScopedJoinHandle<'_, T>) {
        while !bus.platform().serves() {
            assert!(!worker.is_finished(), "the worker does not serve");
            thread::yield_now();
        }
    }

    /// Runs `act` while a worker runs.
    fn with_worker(bus: &Shared, act: impl FnOnce()) {
        thread::scope(|scope| {
            let worker = scope.spawn(|| Threads::serve(bus).unwrap());
            let stop = Stop(bus);
            until_served(bus, &worker);
            act();
            drop(stop);
            worker.join().unwrap();
        });
    }

    /// Runs four threads, each with messages of its own device, synchronous and submitted in turn.
    /// Each message is run once, and each device's messages in order.
    fn race(bus: &Shared, probe: &Probe) {
        const EACH: u32 = if cfg!(miri) { 10 } else { 500 };
        thread::scope(|scope| {
            for line in 0..4_u8 {
                scope.spawn(move || {
                    let device = bus.device(device(line)).unwrap();
                    let mut pending = None;
                    for number in 0..EACH {
                        let word = u32::from(line) << 24 | number;
                        let bytes = word.to_ne_bytes();
                        if number % 2 == 0 {
                            let submitted = loop {
                                match device.submit(&mut [Transfer::write(&bytes)]) {
                                    Ok(submitted) => break submitted,
                                    Err(Error::LineFull) => thread::yield_now(),
                                    Err(error) => panic!("{error}"),
                                }
                            };
                            pending = Some(submitted);
                        } else {
                            let mut came = bytes;
                            device.sync(&mut [Transfer::in_place(&mut came)]).unwrap();
                            assert_eq!(came, bytes.map(|byte| byte.wrapping_add(1)));
                            // It was submitted earlier, so it is complete.
                            assert!(pending.take().unwrap().is_done());
                        }
                    }
                });
            }
        });
        let sent: Vec<u32> = probe
            .sent()
            .iter()
            .map(|bytes| {
                let bytes: Vec<u8> = bytes.iter().map(|&byte| byte as u8).collect();
                u32::from_ne_bytes(bytes.try_into().unwrap())
            })
            .collect();
        for line in 0..4 {
            let of = sent.iter().filter(|&&word| word >> 24 == line);
            assert!(of.map(|&word| word & 0xff_ffff).eq(0..EACH));
        }
        let statistics = bus.statistics();
        assert_eq!(statistics.messages, 4 * EACH);
        assert_eq!(statistics.errors, 0);
        assert_eq!(probe.selected(), None);
    }

    #[test]
    fn messages_of_a_device_are_run_once_and_in_order_with_a_worker() {
        let (bus, probe) = shared(Config::DEFAULT);
        with_worker(&bus, || race(&bus, &probe));
    }

    #[test]
    fn messages_of_a_device_are_run_once_and_in_order_without_a_worker() {
        let (bus, probe) = shared(Config::DEFAULT);
        race(&bus, &probe);
        assert_eq!(bus.statistics().wakeups, 0);
    }

    #[test]
    fn the_worker_times_a_busy_period() {
        let config = Config {
            idle_timeout: Nanos::from_millis(1),
            ..Config::DEFAULT
        };
        let (bus, probe) = shared(config);
        with_worker(&bus, || {
            bus.device(device(1)).unwrap().write(&[1]).unwrap();
            while bus.statistics().teardowns == 0 {
                thread::yield_now();
            }
        });
        // Only the worker's own timer has called it.
        assert_eq!(bus.statistics().teardowns, 1);
        assert_eq!(probe.told().last(), Some(&Unprepare));
    }

    #[test]
    fn the_worker_runs_a_message_to_an_idle_bus_if_configured() {
        let config = Config {
            submitted: Submitted::ByWorker,
            idle_timeout: LONG,
            ..Config::DEFAULT
        };
        let (bus, _) = shared(config);
        with_worker(&bus, || {
            let device = bus.device(device(1)).unwrap();
            let mut pending = device.submit(&mut [Transfer::write(&[1])]).unwrap();
            // If a caller waited before the worker took the bus, the caller would take it.
            while bus.statistics().by_worker == 0 {
                thread::yield_now();
            }
            pending.wait().unwrap();
        });
        let statistics = bus.statistics();
        assert_eq!(statistics.by_worker, 1);
        // A worker that has just begun runs the message without a call.
        assert!(statistics.wakeups <= 1);
    }

    #[test]
    fn interrupts_wake_the_context_that_waits_for_them() {
        let (bus, probe) = shared(Config::DEFAULT);
        // At 1 Hz, the time limit is not reached even on a busy machine.
        let device = bus.device(Settings::new(1, 1)).unwrap();
        probe.next(&[Act::Interrupts; 50]);
        thread::scope(|scope| {
            let caller = scope.spawn(|| {
                for _ in 0..50 {
                    device.write(&[1; 200]).unwrap();
                }
            });
            while !caller.is_finished() {
                probe.complete();
                bus.on_interrupt();
                thread::yield_now();
            }
        });
        let statistics = bus.statistics();
        assert_eq!((statistics.messages, statistics.errors), (50, 0));
    }

    #[test]
    fn a_worker_that_ends_leaves_no_message_behind() {
        const ROUNDS: usize = if cfg!(miri) { 3 } else { 200 };
        for _ in 0..ROUNDS {
            let (bus, _) = shared(Config { ..Config::DEFAULT });
            thread::scope(|scope| {
                let worker = scope.spawn(|| Threads::serve(&bus).unwrap());
                let stop = Stop(&bus);
                until_served(&bus, &worker);
                for line in 0..2 {
                    let bus = &bus;
                    scope.spawn(move || {
                        let device = bus.device(device(line)).unwrap();
                        let mut pending = device.submit(&mut [Transfer::write(&[1])]).unwrap();
                        device.write(&[2]).unwrap();
                        pending.wait().unwrap();
                        device
                            .submit(&mut [Transfer::write(&[3])])
                            .unwrap()
                            .wait()
                            .unwrap();
                    });
                }
                drop(stop);
            });
            assert_eq!(bus.statistics().messages, 6);
        }
    }

    #[test]
    fn a_driver_that_panics_in_the_worker_leaves_a_bus_without_one() {
        let config = Config {
            submitted: Submitted::ByWorker,
            ..Config::DEFAULT
        };
        let (bus, probe) = shared(config);
        let device = bus.device(device(1)).unwrap();
        probe.next(&[Act::Panics]);
        thread::scope(|scope| {
            let worker = scope.spawn(|| Threads::serve(&bus));
            let _stop = Stop(&bus);
            until_served(&bus, &worker);
            let mut pending = device.submit(&mut [Transfer::write(&[1])]).unwrap();
            // If a caller waited before the worker took the bus, the caller would run the message.
            while !pending.is_done() && !worker.is_finished() {
                thread::yield_now();
            }
            let panicked = Error::Failed {
                transfer: 0,
                fault: Fault::Dropped,
            };
            assert_eq!(pending.wait(), Err(panicked));
            assert!(worker.join().is_err());
        });
        assert!(!bus.platform().serves());
        device
            .submit(&mut [Transfer::write(&[2])])
            .unwrap()
            .wait()
            .unwrap();
        assert_eq!(probe.selected(), None);
    }

    /// Runs `act` on a thread. If a wake-up is lost, the test fails instead of hanging.
    fn soon<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, ended) = mpsc::channel();
        thread::spawn(move || done.send(act()));
        ended
            .recv_timeout(common::HANG_LIMIT)
            .expect("a waiter is stranded")
    }

    fn leaked() -> (&'static Shared, Probe) {
        let (bus, probe) = shared(Config {
            idle_timeout: LONG,
            ..Config::DEFAULT
        });
        (Box::leak(Box::new(bus)), probe)
    }

    /// Waits until this number of contexts is in line behind the owner.
    fn until_in_line(bus: &Shared, count: usize) {
        while bus.in_line() < count {
            thread::yield_now();
        }
    }

    #[test]
    fn a_message_behind_a_long_one_is_not_stranded() {
        for with_worker in [false, true] {
            let (bus, probe) = leaked();
            let worker = with_worker.then(|| Worker::start(bus).unwrap());
            let a = bus.device(device(0)).unwrap();
            let locked = a.lock().unwrap();
            let b = thread::spawn(move || {
                let b = bus.device(device(1)).unwrap();
                b.write(&[1; 512]).unwrap();
            });
            until_in_line(bus, 1);
            let c = thread::spawn(move || {
                let c = bus.device(device(2)).unwrap();
                let mut pending = c.submit(&mut [Transfer::write(&[2; 4])]).unwrap();
                pending.wait().unwrap();
            });
            until_in_line(bus, 2);
            drop(locked);
            soon(move || (b.join().unwrap(), c.join().unwrap()));
            drop(worker);
            let mut lens: Vec<_> = probe.sent().iter().map(Vec::len).collect();
            lens.sort_unstable();
            assert_eq!(lens, [4, 512]);
        }
    }

    #[test]
    fn waiters_of_every_kind_are_all_served() {
        const ROUNDS: usize = if cfg!(miri) { 2 } else { 200 };
        let (bus, _) = leaked();
        soon(move || {
            thread::scope(|scope| {
                for line in 0..4_u8 {
                    scope.spawn(move || {
                        let device = bus.device(device(line)).unwrap();
                        for _ in 0..ROUNDS {
                            match line {
                                0 => drop(device.lock().unwrap()),
                                1 => device.write(&[1; 100]).unwrap(),
                                2 => device.write(&[1]).unwrap(),
                                _ => {
                                    let mut parts = [Transfer::write(&[1])];
                                    device.submit(&mut parts).unwrap().wait().unwrap();
                                }
                            }
                        }
                    });
                }
            });
        });
        assert_eq!(bus.statistics().messages, 3 * ROUNDS as u32);
    }

    #[test]
    fn on_a_slow_bus_callers_wake_no_worker_and_run_all_their_messages() {
        // A message of 20 bytes at 1 MHz.
        const ROUNDS: usize = if cfg!(miri) { 2 } else { 100 };
        let (bus, probe) = leaked();
        let worker = Worker::start(bus).unwrap();
        probe.next(&[Act::Takes(Nanos::from_micros(160)); 3 * ROUNDS]);
        thread::scope(|scope| {
            for line in 0..3 {
                scope.spawn(move || {
                    let device = bus.device(device(line)).unwrap();
                    (0..ROUNDS).for_each(|_| device.write(&[1; 20]).unwrap());
                });
            }
        });
        let statistics = bus.statistics();
        assert_eq!((statistics.wakeups, statistics.by_worker), (0, 0));
        assert_eq!(statistics.messages, 3 * ROUNDS as u32);
        drop(worker);
    }

    #[test]
    fn hardware_that_was_woken_before_there_was_a_worker_is_put_to_sleep() {
        let (bus, probe) = shared(Config {
            idle_timeout: Nanos::from_millis(1),
            ..Config::DEFAULT
        });
        bus.device(device(1)).unwrap().write(&[1]).unwrap();
        with_worker(&bus, || {
            while bus.statistics().teardowns == 0 {
                thread::yield_now();
            }
        });
        assert_eq!(probe.told().last(), Some(&Unprepare));
    }

    #[test]
    fn an_idle_bus_that_the_worker_finds_in_use_is_put_to_sleep_later() {
        let (bus, _) = shared(Config {
            idle_timeout: Nanos::from_millis(1),
            ..Config::DEFAULT
        });
        with_worker(&bus, || {
            let device = bus.device(device(1)).unwrap();
            for period in 1..=10 {
                let mut locked = device.lock().unwrap();
                locked.sync(&mut [Transfer::write(&[1])]).unwrap();
                // The worker's timer expires twice meanwhile.
                bus.poll();
                thread::sleep(Duration::from_millis(3));
                drop(locked);
                while bus.statistics().teardowns < period {
                    thread::yield_now();
                }
            }
        });
    }

    #[test]
    fn a_bus_has_one_worker_at_a_time_and_may_have_another_later() {
        let (bus, _) = leaked();
        let worker = Worker::start(bus).unwrap();
        let refused = Worker::start(bus).err().map(|error| error.kind());
        assert_eq!(refused, Some(std::io::ErrorKind::AlreadyExists));
        assert!(bus.platform().serves());
        drop(worker);
        assert!(!bus.platform().serves());
        let again = Worker::start(bus).unwrap();
        assert!(bus.platform().serves());
        drop(again);
    }
}

/// Futures and threads on [`Threads`](nostall_spi::Threads), without a worker or a main loop.
#[cfg(feature = "std")]
mod on_threads {
    use super::*;
    use common::{Act, HANG_LIMIT, Probed};
    use nostall_spi::{Bus, Error, Slots, Submitted, Threads, Worker};
    use std::cell::RefCell;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::{Context, Poll, Waker};
    use std::thread;
    use std::time::Duration;

    type Shared = Bus<Probed, Threads, Slots<8, 4, 16>>;

    fn shared(lock_timeout: Nanos) -> (&'static Shared, Probe) {
        let probe = Probe::default();
        let config = Config {
            lock_timeout,
            ..Config::DEFAULT
        };
        let bus = Bus::sized(controller(&probe), Threads::new()).with_config(config);
        (Box::leak(Box::new(bus)), probe)
    }

    /// Polls a future on a thread of its own, only when it is woken.
    fn run<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            struct Unpark(thread::Thread);
            impl std::task::Wake for Unpark {
                fn wake(self: std::sync::Arc<Self>) {
                    self.0.unpark();
                }
            }
            let waker = Waker::from(std::sync::Arc::new(Unpark(thread::current())));
            let mut future = pin!(future);
            loop {
                let mut context = Context::from_waker(&waker);
                if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                    return tell.send(output);
                }
                thread::park();
            }
        });
        told.recv_timeout(HANG_LIMIT).expect("the future must end")
    }

    #[test]
    fn an_awaited_transfer_of_a_controller_that_never_interrupts_ends() {
        for has_worker in [false, true] {
            let (bus, probe) = shared(Config::DEFAULT.lock_timeout);
            let worker = has_worker.then(|| Worker::start(bus).unwrap());
            let device = bus.device(device(1)).unwrap();
            probe.next(&[Act::NeverInterrupts]);
            let ended =
                run(async move { device.transfer_async(&mut [Transfer::write(&[1])]).await });
            assert_eq!(ended, Err(Error::Timeout { transfer: 0 }));
            drop(worker);
        }
    }

    #[test]
    fn a_task_that_finds_the_line_full_on_an_idle_bus_empties_it() {
        for panics in [false, true] {
            the_submitter_empties_the_line(panics);
        }
    }

    fn the_submitter_empties_the_line(panics: bool) {
        let (bus, probe) = shared(Config::DEFAULT.lock_timeout);
        let device = bus.device(device(0)).unwrap();
        let submit = |byte| device.submit_then(&mut [Transfer::write(&[byte])], &|_| {}, 0);
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(Ok(locked)) = pin!(device.lock_async()).poll(&mut context) else {
            panic!("the bus is idle");
        };
        for byte in 1..=4 {
            submit(byte).unwrap();
        }
        assert_eq!(submit(9), Err(Error::LineFull));
        // A future must not block, so its lock leaves the messages in line.
        drop(locked);
        assert_eq!((bus.in_line(), probe.count()), (4, 0));
        if panics {
            probe.next(&[Act::Panics]);
        }
        submit(5).unwrap();
        assert_eq!(bus.statistics().panics, panics.into());
        assert_eq!(probe.sent(), [[1], [2], [3], [4], [5]][panics.into()..]);
    }

    #[test]
    fn all_futures_in_line_end_behind_an_owner_that_never_comes_back() {
        let (bus, _) = shared(Nanos::from_millis(20));
        let owner = bus.device(device(0)).unwrap();
        std::mem::forget(owner.lock().unwrap());
        let waiters: Vec<_> = (0..6)
            .map(|_| {
                let device = bus.device(device(1)).unwrap();
                thread::spawn(move || {
                    run(async move { device.transfer_async(&mut [Transfer::write(&[1])]).await })
                })
            })
            .collect();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Err(Error::Abandoned));
        }
    }

    #[test]
    fn a_woken_future_that_is_never_polled_delays_no_other_device() {
        let (bus, probe) = shared(Nanos::from_secs(3_600));
        let [owner, never, other] = [0, 1, 2].map(|line| bus.device(device(line)).unwrap());
        let locked = owner.lock().unwrap();
        let (tell, told) = mpsc::channel();
        run(async move {
            let mut never =
                Box::pin(async move { never.transfer_async(&mut [Transfer::write(&[1])]).await });
            poll_fn(|_| {
                let polled = never.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert!(polled.is_pending());
                Poll::Ready(())
            })
            .await;
            std::mem::forget(never);
        });
        let waiter = thread::spawn(move || tell.send(other.write(&[2])));
        while bus.in_line() < 2 {
            thread::yield_now();
        }
        drop(locked);
        assert_eq!(told.recv_timeout(HANG_LIMIT), Ok(Ok(())));
        waiter.join().unwrap().unwrap();
        assert_eq!(probe.sent(), [[2]]);
    }

    #[test]
    fn a_bus_served_by_a_future_has_no_thread_as_its_worker_and_the_reverse() {
        let (bus, _) = shared(Config::DEFAULT.lock_timeout);
        let mut context = Context::from_waker(Waker::noop());
        let mut serving = Box::pin(bus.serve());
        assert!(serving.as_mut().poll(&mut context).is_pending());
        let refused = Worker::start(bus).err().map(|error| error.kind());
        assert_eq!(refused, Some(std::io::ErrorKind::AlreadyExists));
        drop(serving);
        let worker = Worker::start(bus).unwrap();
        let refused = pin!(bus.serve()).poll(&mut context);
        assert_eq!(refused, Poll::Ready(Error::AlreadyServed));
        assert!(bus.platform().serves());
        drop(worker);
        assert!(pin!(bus.serve()).poll(&mut context).is_pending());
    }

    #[test]
    fn a_bus_whose_worker_no_longer_serves_may_have_another_at_once() {
        const ROUNDS: usize = if cfg!(miri) { 5 } else { 500 };
        let (bus, _) = shared(Config::DEFAULT.lock_timeout);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..ROUNDS {
            let worker = Worker::start(bus).unwrap();
            bus.platform().stop();
            while bus.platform().serves() {
                std::hint::spin_loop();
            }
            // A future, because it begins without the pause of a new thread.
            assert!(pin!(bus.serve()).poll(&mut context).is_pending());
            drop(worker);
        }
    }

    /// Keeps its thread in its last destructor until the other end is dropped.
    struct Lasting(mpsc::Receiver<()>);

    impl Drop for Lasting {
        fn drop(&mut self) {
            let _ = self.0.recv();
        }
    }

    thread_local! {
        static LASTING: RefCell<Option<Lasting>> = const { RefCell::new(None) };
    }

    #[test]
    fn dropping_a_worker_whose_thread_no_longer_serves_does_not_end_its_successor() {
        let config = Config {
            submitted: Submitted::ByWorker,
            ..Config::DEFAULT
        };
        let probe = Probe::default();
        let bus: Shared = Bus::sized(controller(&probe), Threads::new()).with_config(config);
        let bus: &'static Shared = Box::leak(Box::new(bus));
        let device = bus.device(device(0)).unwrap();
        let (release, released) = mpsc::channel();
        let released = Mutex::new(Some(Lasting(released)));
        let on_worker: &'static _ = Box::leak(Box::new(move |_: Completed<'_>| {
            LASTING.set(released.lock().unwrap().take());
        }));
        let first = Worker::start(bus).unwrap();
        let message = &mut [Transfer::write(&[1])];
        device.submit_then(message, on_worker, 0).unwrap();
        while bus.statistics().by_worker == 0 {
            thread::yield_now();
        }
        bus.platform().stop();
        while bus.platform().serves() {
            thread::yield_now();
        }
        let second = Worker::start(bus).unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                // The successor would end meanwhile.
                thread::sleep(Duration::from_millis(50));
                drop(release);
            });
            // Waits for the end of its thread.
            drop(first);
        });
        assert!(bus.platform().serves());
        drop(second);
        assert!(!bus.platform().serves());
    }

    #[test]
    fn dropping_a_worker_that_has_ended_does_not_withdraw_a_later_stop() {
        let (bus, _) = shared(Config::DEFAULT.lock_timeout);
        let worker = Worker::start(bus).unwrap();
        bus.platform().stop();
        while bus.platform().serves() {
            thread::yield_now();
        }
        bus.platform().stop();
        drop(worker);
        let (tell, told) = mpsc::channel();
        thread::spawn(move || tell.send(Threads::serve(bus).is_ok()));
        assert_eq!(told.recv_timeout(HANG_LIMIT), Ok(true));
    }

    #[test]
    fn a_worker_that_is_stopped_before_it_serves_ends() {
        let (bus, _) = shared(Config::DEFAULT.lock_timeout);
        bus.platform().stop();
        let (tell, told) = mpsc::channel();
        thread::spawn(move || tell.send(Threads::serve(bus).is_ok()));
        assert_eq!(told.recv_timeout(HANG_LIMIT), Ok(true));
        // The next one serves.
        let worker = Worker::start(bus).unwrap();
        assert!(bus.platform().serves());
        drop(worker);
    }
}

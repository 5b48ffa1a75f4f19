//! Several who share a bus: order, hand-over, the worker, and sleep.

mod common;

use std::sync::Mutex;

use common::*;
use nostall_io::Nanos;
use nostall_spi::{Completed, Config, Part, Submitted, Transfer};

const LINGER: Nanos = Config::DEFAULT.linger;

#[test]
fn a_busy_period_has_one_teardown_a_linger_after_its_end() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    for period in 1..=3 {
        for _ in 0..100 {
            device.write(&[1]).unwrap();
            assert!(bus.poll(now(&clock)).is_some());
            clock.advance(Nanos::from_millis(1));
        }
        probe.told();
        clock.advance(LINGER - Nanos::from_millis(2));
        assert!(bus.poll(now(&clock)).is_some());
        assert_eq!(probe.told(), []);
        clock.advance(Nanos::from_millis(1));
        // Nothing more to come for.
        assert_eq!(bus.poll(now(&clock)), None);
        assert_eq!(probe.told(), [Unprepare]);
        clock.advance(LINGER * 10);
        assert_eq!(bus.poll(now(&clock)), None);
        assert_eq!(probe.told(), []);
        let statistics = bus.statistics();
        assert_eq!(
            (statistics.preparations, statistics.teardowns),
            (period, period)
        );
    }
}

#[test]
fn what_is_submitted_without_a_worker_waits_for_poll_or_for_the_next_caller() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let one = bus.device(device(1)).unwrap();
    let two = bus.device(device(2)).unwrap();
    let mut first = one
        .submit(&[Part::write(&[1]), Part::exchange(&[2, 3])])
        .unwrap();
    assert!(!first.is_done());
    assert_eq!(first.received(1, &mut [0; 2]), 0);
    bus.poll(now(&clock));
    assert!(first.is_done());
    let mut came = [0; 4];
    assert_eq!(first.received(0, &mut came), 0);
    assert_eq!(first.received(1, &mut came), 2);
    assert_eq!(came, [3, 4, 0, 0]);
    assert_eq!(first.wait(), Ok(()));

    let second = one.submit(&[Part::write(&[4])]).unwrap();
    two.write(&[5]).unwrap();
    assert!(second.is_done());
    assert_eq!(probe.sent(), [vec![1], vec![2, 3], vec![4], vec![5]]);
}

#[test]
fn what_is_submitted_may_be_run_by_its_sender() {
    let config = Config {
        submitted: Submitted::ByCaller,
        ..Config::DEFAULT
    };
    let (bus, _, _) = bus(config);
    let device = bus.device(device(1)).unwrap();
    assert!(device.submit(&[Part::write(&[1])]).unwrap().is_done());
}

#[test]
fn a_callback_has_what_came_in_and_may_submit() {
    static SEEN: Mutex<Vec<(usize, Vec<u8>)>> = Mutex::new(Vec::new());
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    let seen = |completed: Completed<'_>| {
        let came = completed.received(0).to_vec();
        SEEN.lock().unwrap().push((completed.number, came));
    };
    let seen: &'static _ = Box::leak(Box::new(seen));
    for number in 0..3 {
        let byte = [number as u8 * 10];
        let parts = [Part::exchange(&byte)];
        device.submit_then(&parts, seen, number).unwrap();
    }
    bus.poll(now(&clock));
    let expected = [(0, vec![1]), (1, vec![11]), (2, vec![21])];
    assert_eq!(*SEEN.lock().unwrap(), expected);
    assert_eq!(probe.sent(), [[0], [10], [20]]);
}

#[test]
fn a_higher_priority_goes_first_and_nobody_starves() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let low = bus.device(device(1)).unwrap();
    let high = bus.device(device(2).priority(1)).unwrap();
    let locked = low.lock().unwrap();
    let kept: Vec<_> = [(&low, 1), (&low, 2), (&high, 3), (&high, 4)]
        .iter()
        .map(|(device, byte)| device.submit(&[Part::write(&[*byte])]).unwrap())
        .collect();
    drop(locked);
    assert_eq!(probe.sent(), [[3], [4], [1], [2]]);
    drop(kept);

    // Whenever one of high priority has gone, the next is there.
    let locked = low.lock().unwrap();
    let patient = low.submit(&[Part::write(&[0])]).unwrap();
    let mut others: Vec<_> = (0..3)
        .map(|_| high.submit(&[Part::write(&[9])]).unwrap())
        .collect();
    drop(locked);
    // The bus does one at a time for others: 8 us each, of 10.
    let mut passed = 0;
    while !patient.is_done() {
        passed += 1;
        assert!(passed < 100, "starved");
        others.retain(|other| !other.is_done());
        while let Ok(other) = high.submit(&[Part::write(&[9])]) {
            others.push(other);
        }
        bus.run_queued();
    }
}

#[test]
fn whoever_has_the_bus_does_no_more_for_others_than_he_must() {
    let config = Config {
        most_bytes: 4,
        ..Config::DEFAULT
    };
    let (bus, probe, clock) = bus(config);
    let one = bus.device(device(1)).unwrap();
    let two = bus.device(device(2)).unwrap();
    let locked = one.lock().unwrap();
    let kept: Vec<_> = (0..3)
        .map(|byte| two.submit(&[Part::write(&[byte; 2])]).unwrap())
        .collect();
    drop(locked);
    assert_eq!(probe.sent(), [[0; 2], [1; 2]]);
    // What would take too long is not begun.
    assert!(!kept[2].is_done());
    bus.poll(now(&clock));
    assert_eq!(probe.sent(), [[2; 2]]);
    let locked = one.lock().unwrap();
    let parts = [Part::write(&[7]).with(Transfer::pause(Nanos::from_millis(1)).options)];
    let slow = two.submit(&parts).unwrap();
    drop(locked);
    assert!(!slow.is_done());
    bus.poll(now(&clock));
    assert!(slow.is_done());
}

#[cfg(feature = "std")]
mod threads {
    use std::collections::HashSet;
    use std::thread::{self, Thread, ThreadId};

    use super::*;
    use nostall_io::Clock;
    use nostall_spi::{
        Bus, Error, Fault, HasWorker, Platform, Select, Settings, Strategy, Threads,
    };

    type Shared = Bus<Probed, Threads, 8, 16>;

    /// Longer than any machine stands still, where nothing may depend on how long it
    /// takes.
    const LONG: Nanos = Nanos::from_secs(600);

    fn shared(config: Config) -> (Shared, Probe) {
        let probe = Probe::default();
        let config = Config {
            patience: LONG,
            ..config
        };
        let bus = Bus::new(controller(&probe), Threads::new(), config);
        (bus, probe)
    }

    /// Ends the worker, also of a test that fails: else it would wait for ever.
    struct Stop<'b>(&'b Shared);

    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.platform().stop();
        }
    }

    /// Runs `act` beside a worker.
    fn with_worker(bus: &Shared, act: impl FnOnce()) {
        thread::scope(|scope| {
            let worker = scope.spawn(|| Threads::serve(bus));
            let stop = Stop(bus);
            while !bus.platform().serves() {
                thread::yield_now();
            }
            act();
            drop(stop);
            worker.join().unwrap();
        });
    }

    /// Four threads, each with messages of a device of its own, by sync and by
    /// submit in turn: all are run once, and each device's in order.
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
                                match device.submit(&[Part::write(&bytes)]) {
                                    Ok(submitted) => break submitted,
                                    Err(Error::QueueFull) => thread::yield_now(),
                                    Err(error) => panic!("{error}"),
                                }
                            };
                            pending = Some(submitted);
                        } else {
                            let mut came = bytes;
                            device.sync(&mut [Transfer::in_place(&mut came)]).unwrap();
                            assert_eq!(came, bytes.map(|byte| byte.wrapping_add(1)));
                            // Before it in order, so through.
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
        assert_eq!(statistics.messages, 4 * EACH as usize);
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
    fn messages_of_a_device_are_run_once_and_in_order_by_the_pump() {
        let config = Config {
            strategy: Strategy::Pump,
            ..Config::DEFAULT
        };
        let (bus, probe) = shared(config);
        with_worker(&bus, || race(&bus, &probe));
    }

    #[test]
    fn messages_of_a_device_are_run_once_and_in_order_by_those_who_do_little_for_others() {
        let config = Config {
            most_bytes: 4,
            ..Config::DEFAULT
        };
        let (bus, probe) = shared(config);
        with_worker(&bus, || race(&bus, &probe));
        let (bus, probe) = shared(config);
        race(&bus, &probe);
    }

    #[test]
    fn a_caller_on_an_idle_bus_wakes_the_worker_once_after_all_to_tear_down() {
        const MESSAGES: usize = if cfg!(miri) { 5 } else { 1_000 };
        let config = Config {
            linger: LONG,
            ..Config::DEFAULT
        };
        let (bus, probe) = shared(config);
        with_worker(&bus, || {
            let device = bus.device(device(1)).unwrap();
            for _ in 0..MESSAGES {
                device.write(&[1]).unwrap();
            }
            // A linger in which something has happened, and one in which nothing has.
            bus.on_timer();
            let statistics = bus.statistics();
            assert_eq!((statistics.wakeups, statistics.teardowns), (0, 0));
            bus.on_timer();
            while bus.statistics().teardowns == 0 {
                thread::yield_now();
            }
            let statistics = bus.statistics();
            assert_eq!((statistics.wakeups, statistics.by_worker), (1, 0));
            assert_eq!(statistics.sync_immediate, MESSAGES);
        });
        assert_eq!(probe.told().last(), Some(&Unprepare));
        assert_eq!(bus.statistics().teardowns, 1);
    }

    #[test]
    fn the_worker_keeps_the_time_of_a_busy_period() {
        let config = Config {
            linger: Nanos::from_millis(1),
            ..Config::DEFAULT
        };
        let (bus, probe) = shared(config);
        with_worker(&bus, || {
            bus.device(device(1)).unwrap().write(&[1]).unwrap();
            while bus.statistics().teardowns == 0 {
                thread::yield_now();
            }
        });
        let statistics = bus.statistics();
        assert_eq!((statistics.wakeups, statistics.teardowns), (1, 1));
        assert_eq!(probe.told().last(), Some(&Unprepare));
    }

    #[test]
    fn the_pump_wakes_the_worker_again_and_again() {
        let config = Config {
            strategy: Strategy::Pump,
            ..Config::DEFAULT
        };
        let (bus, _) = shared(config);
        with_worker(&bus, || {
            let device = bus.device(device(1)).unwrap();
            for round in 1..=20 {
                device.write(&[1]).unwrap();
                while bus.statistics().teardowns < round {
                    thread::yield_now();
                }
            }
        });
        let statistics = bus.statistics();
        assert_eq!((statistics.preparations, statistics.teardowns), (20, 20));
        // More, if he was woken to find that another's call had him look already.
        assert!(statistics.wakeups >= 20);
    }

    #[test]
    fn the_pump_puts_the_hardware_to_sleep_after_what_was_submitted_too() {
        let config = Config {
            strategy: Strategy::Pump,
            ..Config::DEFAULT
        };
        let (bus, probe) = shared(config);
        with_worker(&bus, || {
            let device = bus.device(device(1)).unwrap();
            device.submit(&[Part::write(&[1])]).unwrap().wait().unwrap();
            while bus.statistics().teardowns == 0 {
                thread::yield_now();
            }
        });
        assert_eq!(probe.told().last(), Some(&Unprepare));
    }

    #[test]
    fn what_is_submitted_to_an_idle_bus_the_worker_runs() {
        let config = Config {
            linger: LONG,
            ..Config::DEFAULT
        };
        let (bus, _) = shared(config);
        with_worker(&bus, || {
            let device = bus.device(device(1)).unwrap();
            let mut pending = device.submit(&[Part::write(&[1])]).unwrap();
            pending.wait().unwrap();
        });
        let statistics = bus.statistics();
        assert_eq!((statistics.wakeups, statistics.by_worker), (1, 1));
    }

    #[test]
    fn interrupts_wake_whoever_waits_for_them() {
        let (bus, probe) = shared(Config::DEFAULT);
        // So slow that its time is not over whatever the machine does: 1 Hz.
        let device = bus.device(Settings::new(1, Select::line(1))).unwrap();
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
    fn a_worker_that_ends_leaves_nothing_to_nobody() {
        const ROUNDS: usize = if cfg!(miri) { 3 } else { 200 };
        for _ in 0..ROUNDS {
            let (bus, _) = shared(Config {
                most_bytes: 0,
                ..Config::DEFAULT
            });
            thread::scope(|scope| {
                scope.spawn(|| Threads::serve(&bus));
                while !bus.platform().serves() {
                    thread::yield_now();
                }
                for line in 0..2 {
                    let bus = &bus;
                    scope.spawn(move || {
                        let device = bus.device(device(line)).unwrap();
                        let mut pending = device.submit(&[Part::write(&[1])]).unwrap();
                        device.write(&[2]).unwrap();
                        pending.wait().unwrap();
                        device.submit(&[Part::write(&[3])]).unwrap().wait().unwrap();
                    });
                }
                bus.platform().stop();
            });
            assert_eq!(bus.statistics().messages, 6);
        }
    }

    #[test]
    fn a_driver_that_panics_in_the_worker_leaves_a_bus_without_one() {
        let (bus, probe) = shared(Config::DEFAULT);
        let device = bus.device(device(1)).unwrap();
        probe.next(&[Act::Panics]);
        thread::scope(|scope| {
            let worker = scope.spawn(|| Threads::serve(&bus));
            while !bus.platform().serves() {
                thread::yield_now();
            }
            let mut pending = device.submit(&[Part::write(&[1])]).unwrap();
            let panicked = Error::Failed {
                transfer: 0,
                fault: Fault::Panicked,
            };
            assert_eq!(pending.wait(), Err(panicked));
            assert!(worker.join().is_err());
        });
        assert!(!bus.platform().serves());
        device.submit(&[Part::write(&[2])]).unwrap().wait().unwrap();
        assert_eq!(probe.selected(), None);
    }

    /// Threads, which note how many transfers had been when one was woken, and who has
    /// gone to sleep.
    struct Noting {
        threads: Threads,
        probe: Probe,
        wakes: Mutex<Vec<usize>>,
        asleep: Mutex<HashSet<ThreadId>>,
    }

    impl Clock for Noting {
        fn now(&self) -> Nanos {
            self.threads.now()
        }
        fn wait_until(&self, deadline: Nanos) {
            self.threads.wait_until(deadline);
        }
    }

    impl Platform for Noting {
        type Task = Thread;

        fn current(&self) -> Option<Thread> {
            self.threads.current()
        }
        fn block(&self, until: Nanos) {
            self.asleep.lock().unwrap().insert(thread::current().id());
            self.threads.block(until);
        }
        fn wake(&self, task: &Thread) {
            self.wakes.lock().unwrap().push(self.probe.count());
            self.threads.wake(task);
        }
        fn has_worker(&self) -> HasWorker {
            HasWorker::No
        }
    }

    /// How many transfers had been when each of two who wait was woken; the second
    /// one's takes `span` longer.
    fn woken_after(span: Nanos) -> Vec<usize> {
        let probe = Probe::default();
        let config = Config {
            patience: LONG,
            most_time: LONG,
            ..Config::DEFAULT
        };
        let platform = Noting {
            threads: Threads::new(),
            probe: probe.clone(),
            wakes: Mutex::default(),
            asleep: Mutex::default(),
        };
        let bus: Bus<_, _, 4, 16> = Bus::new(controller(&probe), platform, config);
        let owner = bus.device(device(0)).unwrap();
        thread::scope(|scope| {
            let locked = owner.lock().unwrap();
            for (line, span) in [(1, Nanos::ZERO), (2, span)] {
                let bus = &bus;
                scope.spawn(move || {
                    let device = bus.device(device(line)).unwrap();
                    let byte = [line];
                    let message = &mut [Transfer::write(&byte).delay(span)];
                    device.sync(message).unwrap();
                });
                while bus.platform().asleep.lock().unwrap().len() < line.into() {
                    thread::yield_now();
                }
            }
            drop(locked);
        });
        assert_eq!(probe.sent(), [[1], [2]]);
        bus.platform().wakes.lock().unwrap().clone()
    }

    #[test]
    fn nobody_is_woken_while_the_bus_could_run_another_short_message() {
        // Fewer if one was awake already, for no reason.
        let wakes = woken_after(Nanos::ZERO);
        assert!(wakes.iter().all(|&sent| sent == 2), "{wakes:?}");
    }

    #[test]
    fn nobody_waits_for_anothers_long_message_to_be_told_of_his_own() {
        let wakes = woken_after(Nanos::from_millis(1));
        let first = wakes.first();
        assert!(first.is_none_or(|&sent| sent == 1), "{wakes:?}");
    }
}

#[cfg(feature = "std")]
#[test]
fn whoever_waits_without_a_worker_goes_on_when_his_share_is_spent() {
    // For what he waits there is nobody else, and his patience would be over first.
    let config = Config {
        most_bytes: 1,
        patience: Nanos::from_secs(600),
        ..Config::DEFAULT
    };
    let probe = Probe::default();
    let bus: nostall_spi::Bus<_, _, 4, 16> =
        nostall_spi::Bus::new(controller(&probe), nostall_spi::Threads::new(), config);
    let device = bus.device(device(1)).unwrap();
    let (through, is_through) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut all: Vec<_> = (0..4)
                .map(|byte| device.submit(&[Part::write(&[byte; 2])]).unwrap())
                .collect();
            let last = all.last_mut().map(nostall_spi::Pending::wait);
            through.send(last).unwrap();
        });
        let soon = is_through.recv_timeout(std::time::Duration::from_secs(20));
        // Whatever comes of it, the thread ends.
        waiter.thread().unpark();
        bus.run_queued();
        bus.run_queued();
        bus.run_queued();
        bus.run_queued();
        assert_eq!(soon, Ok(Some(Ok(()))));
    });
    assert_eq!(probe.count(), 4);
}

#[test]
fn the_time_for_others_is_bounded_whatever_their_bytes_are() {
    let config = Config {
        most_bytes: u32::MAX,
        most_time: Nanos::from_micros(10),
        ..Config::DEFAULT
    };
    let (bus, probe, _) = bus(config);
    let device = bus.device(device(1)).unwrap();
    let _all: Vec<_> = (0..4)
        .map(|byte| device.submit(&[Part::write(&[byte])]).unwrap())
        .collect();
    // 8 us each.
    bus.run_queued();
    assert_eq!(probe.count(), 1);
}

//! Controllers that fail, callers that vanish: each has a defined outcome, no device
//! stays selected, and the bus goes on.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::*;
use nostall_io::Nanos;
use nostall_spi::{Completed, Config, Error, Fault, Part, Transfer};

#[test]
fn a_controller_that_never_completes_is_given_twice_its_time_and_a_grace() {
    // Miri: 202,000 looks are too slow for it.
    let acts = [Act::Never, Act::NeverInterrupts];
    for &act in &acts[..if cfg!(miri) { 1 } else { 2 }] {
        let (bus, probe, clock) = bus(Config::DEFAULT);
        let device = bus.device(device(1)).unwrap();
        probe.next(&[Act::Well, act]);
        let message = &mut [Transfer::write(&[0; 2]), Transfer::write(&[0; 125])];
        assert_eq!(device.sync(message), Err(Error::Timeout { transfer: 1 }));
        // 1 ms at 1 MHz.
        assert_eq!(now(&clock), Nanos::from_millis(2 + 200));
        let told = probe.told();
        assert_eq!(told.last(), Some(&Abort));
        let statistics = bus.statistics();
        assert_eq!((statistics.errors, statistics.timeouts), (1, 1));
        goes_on(&device, &probe);
    }
}

#[test]
fn a_controller_that_completes_twice_does_no_harm() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    probe.next(&[Act::Interrupts]);
    bus.on_interrupt();
    probe.complete();
    device.write(&[1]).unwrap();
    bus.on_interrupt();
    bus.on_interrupt();
    goes_on(&device, &probe);
    assert_eq!(bus.statistics().messages, 2);
}

#[test]
fn an_error_in_mid_message_ends_it_and_says_where() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    for (act, fault) in [
        (Act::FailsInTheMiddle, Fault::Gone),
        (Act::Fails(Fault::Refused), Fault::Refused),
        (Act::StopsShort, Fault::Short),
    ] {
        probe.next(&[Act::Well, act]);
        let message = &mut [
            Transfer::write(&[1]),
            Transfer::write(&[2]),
            Transfer::write(&[3]),
        ];
        assert_eq!(device.sync(message), failed(1, fault));
        assert_eq!(probe.sent(), [[1]]);
        goes_on(&device, &probe);
    }
    assert_eq!(bus.statistics().errors, 3);
}

#[test]
fn hardware_that_does_not_wake_is_tried_again_by_the_next_message() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    probe.prepare_fails(2);
    assert_eq!(device.write(&[1]), failed(0, Fault::Gone));
    assert_eq!(device.write(&[1]), failed(0, Fault::Gone));
    assert_eq!(probe.told(), []);
    goes_on(&device, &probe);
}

#[test]
fn a_driver_that_panics_leaves_nothing_selected() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    probe.next(&[Act::Panics]);
    let panicked = catch_unwind(AssertUnwindSafe(|| device.write(&[1])));
    assert!(panicked.is_err());
    assert_eq!(probe.told().last(), Some(&Abort));
    goes_on(&device, &probe);
}

#[test]
fn a_driver_that_panics_on_a_queued_message_fails_that_message() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    let mut pending = device.submit(&[Part::write(&[1])]).unwrap();
    probe.next(&[Act::Panics]);
    assert!(catch_unwind(AssertUnwindSafe(|| bus.run_queued())).is_err());
    assert_eq!(pending.wait(), failed(0, Fault::Panicked));
    goes_on(&device, &probe);
}

#[test]
fn a_device_that_is_dropped_takes_its_queued_messages_with_it() {
    static CALLED: AtomicUsize = AtomicUsize::new(0);
    fn called(completed: Completed<'_>) {
        assert_eq!(completed.result, Err(Error::Cancelled));
        CALLED.fetch_add(completed.number, Ordering::Relaxed);
    }
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let (gone, stays) = (
        bus.device(device(1)).unwrap(),
        bus.device(device(2)).unwrap(),
    );
    let mut pending = gone.submit(&[Part::write(&[1])]).unwrap();
    gone.submit_then(&[Part::write(&[2])], &called, 7).unwrap();
    let mut others = stays.submit(&[Part::write(&[3])]).unwrap();
    drop(gone);
    assert_eq!(CALLED.load(Ordering::Relaxed), 7);
    assert_eq!(pending.wait(), Err(Error::Cancelled));
    bus.poll(now(&clock));
    assert_eq!(others.wait(), Ok(()));
    assert_eq!(probe.sent(), [[3]]);
    assert_eq!(bus.statistics().cancelled, 2);
    goes_on(&stays, &probe);
}

#[test]
fn a_message_whose_handle_is_dropped_is_not_run() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    drop(device.submit(&[Part::write(&[1])]).unwrap());
    bus.poll(now(&clock));
    assert_eq!(probe.sent(), Vec::<Vec<u32>>::new());
    goes_on(&device, &probe);
}

#[test]
fn what_has_no_place_in_the_queue_is_refused() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    let submit = |parts: &[Part<'_>]| device.submit(parts).map(drop);
    assert_eq!(
        submit(&[Part::write(&[0; 17])]),
        Err(Error::TooLongToQueue { room: 16 })
    );
    assert_eq!(
        submit(&[Part::read(0); 9]),
        Err(Error::TooManyToQueue { room: 8 })
    );
    assert_eq!(submit(&[]), Err(Error::NoTransfers));
    let kept: Vec<_> = (0..4)
        .map(|byte| device.submit(&[Part::write(&[byte])]).unwrap())
        .collect();
    assert_eq!(submit(&[Part::write(&[5])]), Err(Error::QueueFull));
    // By sync, everything that waits is run first.
    device.write(&[9]).unwrap();
    assert_eq!(probe.sent(), [[0], [1], [2], [3], [9]]);
    assert!(kept.iter().all(|kept| kept.is_done()));
    goes_on(&device, &probe);
}

#[cfg(feature = "std")]
#[test]
fn a_callback_that_panics_harms_nobody() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    let panics = |_: Completed<'_>| panic!("on purpose");
    let panics: &'static _ = Box::leak(Box::new(panics));
    for number in 0..8 {
        let submitted = device.submit_then(&[Part::write(&[1])], panics, number);
        submitted.unwrap();
        bus.poll(now(&clock));
    }
    assert_eq!(bus.statistics().panics, 8);
    goes_on(&device, &probe);
}

#[cfg(feature = "std")]
#[test]
fn whoever_waits_for_a_bus_that_is_never_let_go_loses_patience() {
    use nostall_spi::{Bus, Threads};
    let config = Config {
        patience: Nanos::from_millis(5),
        ..Config::DEFAULT
    };
    let probe = Probe::default();
    let bus: Bus<_, _, 4, 16> = Bus::new(controller(&probe), Threads::new(), config);
    let one = bus.device(device(1)).unwrap();
    let two = bus.device(device(2)).unwrap();
    let locked = one.lock().unwrap();
    assert_eq!(two.write(&[1]), Err(Error::BusHeld));
    // Too long for a place.
    assert_eq!(two.write(&[1; 100]), Err(Error::BusHeld));
    drop(locked);
    assert_eq!(probe.sent(), Vec::<Vec<u32>>::new());
    two.write(&[2]).unwrap();
    assert_eq!(probe.sent(), [[2]]);
}

#[test]
fn a_controller_that_vanishes_fails_every_message_until_it_is_back() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    probe.next(&[Act::Fails(Fault::Gone); 5]);
    for _ in 0..2 {
        assert_eq!(device.write(&[1]), failed(0, Fault::Gone));
    }
    // What is queued fails too, and is not left there.
    let mut kept: Vec<_> = (0..3)
        .map(|_| device.submit(&[Part::write(&[1])]).unwrap())
        .collect();
    bus.poll(now(&clock));
    for kept in &mut kept {
        assert_eq!(kept.wait(), failed(0, Fault::Gone));
    }
    drop(kept);
    goes_on(&device, &probe);
}

#[test]
fn messages_that_move_nothing_select_and_release() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    device.write(&[]).unwrap();
    let mut kept = device
        .submit(&[Part::read(0), Part::exchange(&[])])
        .unwrap();
    bus.poll(now(&clock));
    assert_eq!(kept.wait(), Ok(()));
    assert_eq!(kept.received(1, &mut [0; 4]), 0);
    drop(kept);
    let told = probe.told();
    let edges = [Select(1), Release(1), Select(1), Release(1)];
    assert_eq!(told[told.len() - 4..], edges);
    goes_on(&device, &probe);
}

#[cfg(feature = "std")]
#[test]
fn a_callback_that_submits_for_ever_keeps_nobody_for_ever() {
    use nostall_spi::{Bus, Threads};
    type Shared = Bus<Probed, Threads, 4, 16>;
    static RAN: AtomicUsize = AtomicUsize::new(0);
    let bus: &'static Shared = Box::leak(Box::new(Bus::new(
        controller(&Probe::default()),
        Threads::new(),
        Config::DEFAULT,
    )));
    static AGAIN: std::sync::OnceLock<Box<dyn Fn() + Send + Sync>> = std::sync::OnceLock::new();
    fn again(_: Completed<'_>) {
        RAN.fetch_add(1, Ordering::Relaxed);
        AGAIN.get().unwrap()();
    }
    let device = Box::leak(Box::new(bus.device(common::device(1)).unwrap()));
    let submit = || device.submit_then(&[Part::write(&[])], &again, 0).unwrap();
    assert!(AGAIN.set(Box::new(submit)).is_ok());
    AGAIN.get().unwrap()();
    let mut ran = 0;
    // Each comes to an end, and gets on.
    let mut gets_on = |act: &dyn Fn()| {
        act();
        let after = RAN.load(Ordering::Relaxed);
        assert!(after > ran && after <= ran + 200, "{ran}..{after}");
        ran = after;
    };
    gets_on(&|| assert_eq!(bus.poll(Nanos::ZERO), Some(Nanos::ZERO)));
    gets_on(&|| bus.work());
    gets_on(&|| bus.run_queued());
    gets_on(&|| bus.device(common::device(2)).unwrap().write(&[1]).unwrap());
}

#[cfg(feature = "std")]
mod loud {
    use std::sync::mpsc;
    use std::thread::{self, Thread};

    use super::*;
    use nostall_io::Clock;
    use nostall_spi::{Bus, HasWorker, Platform, Threads};

    /// Threads, and a panic whenever one is woken.
    struct Loud(Threads);

    impl Clock for Loud {
        fn now(&self) -> Nanos {
            self.0.now()
        }
        fn wait_until(&self, deadline: Nanos) {
            self.0.wait_until(deadline);
        }
    }

    impl Platform for Loud {
        type Task = Thread;

        fn current(&self) -> Option<Thread> {
            self.0.current()
        }
        fn block(&self, until: Nanos) {
            self.0.block(until);
        }
        fn wake(&self, task: &Thread) {
            self.0.wake(task);
            panic!("on purpose");
        }
        fn has_worker(&self) -> HasWorker {
            HasWorker::No
        }
    }

    #[test]
    fn who_hands_over_the_bus_does_not_let_it_go_again_if_waking_panics() {
        let probe = Probe::default();
        let platform = Loud(Threads::new());
        let bus: Bus<_, _, 4, 16> = Bus::new(controller(&probe), platform, Config::DEFAULT);
        let (has, had) = mpsc::channel();
        let (go, gone) = mpsc::channel();
        thread::scope(|scope| {
            let device = bus.device(device(1)).unwrap();
            let locked = device.lock().unwrap();
            let bus = &bus;
            scope.spawn(move || {
                let device = bus.device(common::device(2)).unwrap();
                let locked = device.lock().unwrap();
                has.send(()).unwrap();
                let _ = gone.recv();
                drop(locked);
            });
            // Owned, and something is queued.
            while !format!("{bus:?}").contains("Gate(3)") {
                thread::yield_now();
            }
            assert!(catch_unwind(AssertUnwindSafe(|| drop(locked))).is_err());
            had.recv().unwrap();
            let free = bus.with_controller(|_| ());
            go.send(()).unwrap();
            assert_eq!(free, None);
        });
        assert!(bus.with_controller(|_| ()).is_some());
    }
}

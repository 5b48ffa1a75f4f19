//! Controllers that fail, and callers that vanish. Each has a defined result, no device stays
//! selected, and the bus continues to work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::common::*;
use nostall_devices::VirtualClock;
use nostall_io::Nanos;
use nostall_spi::{
    Bare, Bus, Capabilities, Completed, Config, Controller, Error, Fault, Level, Progress,
    Settings, Slots, Transfer, Wire, Words,
};

fn poll<F: Future>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
    let mut context = Context::from_waker(Waker::noop());
    future.as_mut().poll(&mut context)
}

#[test]
fn a_controller_that_never_completes_is_given_twice_its_time_and_a_grace() {
    // Miri is too slow for 202,000 polls.
    let acts = [Act::Never, Act::NeverInterrupts];
    for &act in &acts[..if cfg!(miri) { 1 } else { 2 }] {
        let (bus, probe, clock) = bus(Config::DEFAULT);
        let device = bus.device(device(1)).unwrap();
        probe.next(&[Act::Well, act]);
        let message = &mut [Transfer::write(&[0; 2]), Transfer::write(&[0; 125])];
        assert_eq!(device.sync(message), Err(Error::Timeout { transfer: 1 }));
        // The transfer takes 1 ms at 1 MHz.
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
fn an_error_in_mid_message_ends_it_and_gives_the_transfer() {
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
    // The bus is in order after a panic, so no `AssertUnwindSafe` is needed.
    let panicked = catch_unwind(|| device.write(&[1]));
    assert!(panicked.is_err());
    assert_eq!(probe.told().last(), Some(&Abort));
    goes_on(&device, &probe);
}

#[cfg(feature = "std")]
#[test]
fn a_driver_that_panics_on_a_locked_bus_is_not_called_again_before_the_panic_is_caught() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    probe.next(&[Act::Panics]);
    let mut stored = None;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut locked = device.lock().unwrap();
        stored = device.submit(&mut [Transfer::write(&[2])]).ok();
        locked.sync(&mut [Transfer::write(&[1])])
    }));
    assert!(panicked.is_err());
    // A second panic would end the program.
    assert_eq!(probe.sent(), [[0; 0]; 0]);
    bus.poll();
    assert!(stored.unwrap().is_done());
    assert_eq!(probe.sent(), [[2]]);
    goes_on(&device, &probe);
}

/// Submits a message whose driver panics, and catches the panic. The message is run within `submit`
/// on an idle bus of tasks.
#[cfg(feature = "std")]
fn panics_within_submit<C: Controller>(
    device: &nostall_spi::Device<'_, C, nostall_spi::Threads>,
    probe: &Probe,
) {
    probe.next(&[Act::Panics]);
    let submit = || drop(device.submit(&mut [Transfer::write(&[1])]));
    assert!(catch_unwind(AssertUnwindSafe(submit)).is_err());
}

#[cfg(feature = "std")]
#[test]
fn a_driver_that_panics_within_submit_keeps_no_place_of_the_line() {
    let probe = Probe::default();
    let threads = nostall_spi::Threads::new();
    let bus: Bus<_, _, Slots<4, 8, 16>> = Bus::sized(controller(&probe), threads);
    let device = bus.device(device(1)).unwrap();
    for _ in 0..8 {
        panics_within_submit(&device, &probe);
    }
    probe.told();
    let ran = device.submit(&mut [Transfer::write(&[2])]);
    assert_eq!(ran.map(|mut ran| ran.wait()), Ok(Ok(())));
    assert_eq!(probe.sent(), [[2]]);
}

#[test]
fn a_reset_does_not_access_hardware_that_sleeps() {
    let (mut bus, probe, clock) = bus(Config::DEFAULT);
    bus.reset();
    assert_eq!(probe.told(), []);
    bus.device(device(1)).unwrap().write(&[1]).unwrap();
    bus.poll();
    clock.advance(Config::DEFAULT.idle_timeout);
    bus.poll();
    assert_eq!(probe.told().last(), Some(&Unprepare));
    bus.reset();
    assert_eq!(probe.told(), []);
    goes_on(&bus.device(device(1)).unwrap(), &probe);
}

#[test]
fn a_reset_frees_the_places_of_leaked_handles_and_devices() {
    let (mut bus, probe, _) = bus(Config::DEFAULT);
    for _ in 0..64 {
        std::mem::forget(bus.device(device(1)).unwrap());
        bus.reset();
    }
    for number in 0..4 {
        let device = bus.device(device(1)).unwrap();
        let stored = device.submit(&mut [Transfer::write(&[number])]).unwrap();
        bus.poll();
        std::mem::forget(stored);
    }
    bus.reset();
    let device = bus.device(device(1)).unwrap();
    assert_eq!(device.submit(&mut [Transfer::write(&[9])]).err(), None);
    goes_on(&device, &probe);
}

#[test]
fn a_handle_of_a_message_that_was_not_begun_withdraws_it_from_a_bus_whose_owner_is_gone() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let [gone, device] = [1, 2].map(|line| bus.device(device(line)).unwrap());
    let locked = gone.lock().unwrap();
    let mut stored = device.submit(&mut [Transfer::write(&[1])]).unwrap();
    let abandoned = Err(Error::Abandoned);
    assert_eq!(stored.wait(), Err(Error::Unfinished));
    {
        let mut waits = pin!(stored.finished());
        assert_eq!(poll(&mut waits), Poll::Pending);
        clock.advance(Config::DEFAULT.lock_timeout);
        assert_eq!(poll(&mut waits), Poll::Ready(abandoned));
    }
    // A caller that sends it again does not send it twice.
    let mut again = device.submit(&mut [Transfer::write(&[1])]).unwrap();
    drop(locked);
    bus.poll();
    assert_eq!((stored.wait(), again.wait()), (abandoned, Ok(())));
    assert_eq!(probe.sent(), [[1]]);
}

#[test]
fn an_owner_that_works_again_is_no_longer_gone() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let [owner, first, other] = [1, 2, 3].map(|line| bus.device(device(line)).unwrap());
    let mut locked = owner.lock().unwrap();
    let mut message = [Transfer::write(&[1])];
    {
        let mut waits = pin!(first.transfer_async(&mut message));
        assert_eq!(poll(&mut waits), Poll::Pending);
        clock.advance(Config::DEFAULT.lock_timeout);
        assert_eq!(poll(&mut waits), Poll::Ready(Err(Error::Abandoned)));
    }
    let mut message = [Transfer::write(&[2])];
    assert_eq!(
        poll(&mut pin!(other.transfer_async(&mut message))),
        Poll::Ready(Err(Error::Abandoned))
    );
    locked.sync(&mut [Transfer::write(&[3])]).unwrap();
    let mut message = [Transfer::write(&[4])];
    let mut waits = pin!(other.transfer_async(&mut message));
    assert_eq!(poll(&mut waits), Poll::Pending);
    drop(locked);
    assert_eq!(poll(&mut waits), Poll::Ready(Ok(())));
    assert_eq!(probe.sent(), [[3], [4]]);
}

#[test]
fn a_handle_of_a_message_that_was_begun_reports_that_the_rest_may_follow() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    let mut stored = device
        .submit(&mut [Transfer::write(&[1]), Transfer::write(&[2])])
        .unwrap();
    probe.next(&[Act::Well, Act::Interrupts]);
    let unfinished = Err(Error::Unfinished);
    let mut message = [Transfer::write(&[3])];
    {
        // In line behind the stored message, which it runs first.
        let mut slow = pin!(device.transfer_async(&mut message));
        assert_eq!(poll(&mut slow), Poll::Pending);
        assert_eq!(stored.wait(), unfinished);
        {
            let mut waits = pin!(stored.finished());
            assert_eq!(poll(&mut waits), Poll::Pending);
            clock.advance(Config::DEFAULT.lock_timeout);
            assert_eq!(poll(&mut waits), Poll::Ready(unfinished));
        }
        assert_eq!(probe.sent(), [[1]]);
        probe.complete();
        bus.on_interrupt();
        assert_eq!(poll(&mut slow), Poll::Ready(Ok(())));
    }
    assert_eq!(stored.wait(), Ok(()));
    assert_eq!(probe.sent(), [[2], [3]]);
}

#[test]
fn a_driver_that_panics_in_a_locked_message_leaves_nothing_selected_although_the_lock_is_kept() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let [device, other] = [1, 2].map(|line| bus.device(device(line)).unwrap());
    let mut locked = device.lock().unwrap();
    probe.next(&[Act::Panics]);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        locked.sync(&mut [Transfer::write(&[1])])
    }));
    assert!(panicked.is_err());
    assert_eq!(probe.selected(), None);
    // The lock is still held.
    assert_eq!(other.write(&[2]), Err(Error::WouldBlock));
    drop(locked);
    goes_on(&other, &probe);
}

#[test]
fn a_driver_that_panics_on_a_queued_message_fails_that_message() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    let mut pending = device.submit(&mut [Transfer::write(&[1])]).unwrap();
    probe.next(&[Act::Panics]);
    assert!(catch_unwind(AssertUnwindSafe(|| assert!(bus.poll().is_some()))).is_err());
    assert_eq!(pending.wait(), failed(0, Fault::Dropped));
    goes_on(&device, &probe);
}

#[test]
fn a_dropped_device_withdraws_its_queued_messages() {
    static CALLED: AtomicUsize = AtomicUsize::new(0);
    fn called(completed: Completed<'_>) {
        assert_eq!(completed.result, Err(Error::Cancelled));
        CALLED.fetch_add(completed.number, Ordering::Relaxed);
    }
    let (bus, probe, _) = bus(Config::DEFAULT);
    let (gone, stays) = (
        bus.device(device(1)).unwrap(),
        bus.device(device(2)).unwrap(),
    );
    let mut pending = gone.submit(&mut [Transfer::write(&[1])]).unwrap();
    gone.submit_then(&mut [Transfer::write(&[2])], &called, 7)
        .unwrap();
    let mut others = stays.submit(&mut [Transfer::write(&[3])]).unwrap();
    drop(gone);
    assert_eq!(CALLED.load(Ordering::Relaxed), 7);
    assert_eq!(pending.wait(), Err(Error::Cancelled));
    bus.poll();
    assert_eq!(others.wait(), Ok(()));
    assert_eq!(probe.sent(), [[3]]);
    assert_eq!(bus.statistics().cancelled, 2);
    goes_on(&stays, &probe);
}

#[test]
fn a_message_whose_handle_is_dropped_is_not_run() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    drop(device.submit(&mut [Transfer::write(&[1])]).unwrap());
    bus.poll();
    assert_eq!(probe.sent(), Vec::<Vec<u32>>::new());
    goes_on(&device, &probe);
}

#[test]
fn a_message_without_a_place_in_the_queue_is_refused() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    let submit = |parts: &mut [Transfer<'_>]| device.submit(parts).map(drop);
    assert_eq!(
        submit(&mut [Transfer::write(&[0; 17])]),
        Err(Error::TooLongToStore { room: 16 })
    );
    assert_eq!(
        submit(&mut [const { Transfer::write(&[]) }; 9]),
        Err(Error::TooManyToStore { room: 8 })
    );
    assert_eq!(submit(&mut []), Err(Error::NoTransfers));
    let kept: Vec<_> = (0..4)
        .map(|byte| device.submit(&mut [Transfer::write(&[byte])]).unwrap())
        .collect();
    assert_eq!(submit(&mut [Transfer::write(&[5])]), Err(Error::LineFull));
    // A synchronous call first runs all waiting messages.
    device.write(&[9]).unwrap();
    assert_eq!(probe.sent(), [[0], [1], [2], [3], [9]]);
    assert!(kept.iter().all(|kept| kept.is_done()));
    goes_on(&device, &probe);
}

#[cfg(feature = "std")]
#[test]
fn a_callback_that_panics_leaves_the_bus_to_the_next_message() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    let panics = |_: Completed<'_>| panic!("on purpose");
    let panics: &'static _ = Box::leak(Box::new(panics));
    for number in 0..8 {
        let submitted = device.submit_then(&mut [Transfer::write(&[1])], panics, number);
        submitted.unwrap();
        bus.poll();
    }
    assert_eq!(bus.statistics().panics, 8);
    goes_on(&device, &probe);
}

#[cfg(feature = "std")]
#[test]
fn a_caller_that_waits_for_a_bus_that_is_never_released_gives_up() {
    use nostall_spi::{Bus, Slots, Threads};
    let config = Config {
        lock_timeout: Nanos::from_millis(5),
        ..Config::DEFAULT
    };
    let probe = Probe::default();
    let bus: Bus<_, _, Slots<4, 4, 16>> =
        Bus::sized(controller(&probe), Threads::new()).with_config(config);
    let one = bus.device(device(1)).unwrap();
    let two = bus.device(device(2)).unwrap();
    let locked = one.lock().unwrap();
    assert_eq!(two.write(&[1]), Err(Error::Abandoned));
    // From now on, calls fail immediately.
    assert_eq!(two.write(&[1; 100]), Err(Error::Abandoned));
    drop(locked);
    assert_eq!(probe.sent(), Vec::<Vec<u32>>::new());
    two.write(&[2]).unwrap();
    assert_eq!(probe.sent(), [[2]]);
}

#[test]
fn a_controller_that_vanishes_fails_every_message_until_it_is_back() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    probe.next(&[Act::Fails(Fault::Gone); 5]);
    for _ in 0..2 {
        assert_eq!(device.write(&[1]), failed(0, Fault::Gone));
    }
    // Queued messages also fail, and do not stay in the queue.
    let mut kept: Vec<_> = (0..3)
        .map(|_| device.submit(&mut [Transfer::write(&[1])]).unwrap())
        .collect();
    bus.poll();
    for kept in &mut kept {
        assert_eq!(kept.wait(), failed(0, Fault::Gone));
    }
    drop(kept);
    goes_on(&device, &probe);
}

#[test]
fn messages_without_data_select_and_release() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    device.write(&[]).unwrap();
    let mut kept = device
        .submit(&mut [Transfer::read(&mut [0; 0]), Transfer::in_place(&mut [])])
        .unwrap();
    bus.poll();
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
fn a_callback_that_always_submits_does_not_block_callers() {
    use nostall_spi::{Bus, Slots, Threads};
    type Shared = Bus<Probed, Threads, Slots<4, 4, 16>>;
    static RAN: AtomicUsize = AtomicUsize::new(0);
    let bus: &'static Shared = Box::leak(Box::new(Bus::sized(
        controller(&Probe::default()),
        Threads::new(),
    )));
    static AGAIN: std::sync::OnceLock<Box<dyn Fn() + Send + Sync>> = std::sync::OnceLock::new();
    fn again(_: Completed<'_>) {
        RAN.fetch_add(1, Ordering::Relaxed);
        AGAIN.get().unwrap()();
    }
    let device = Box::leak(Box::new(bus.device(crate::common::device(1)).unwrap()));
    let submit = || {
        device
            .submit_then(&mut [Transfer::write(&[])], &again, 0)
            .unwrap()
    };
    assert!(AGAIN.set(Box::new(submit)).is_ok());
    AGAIN.get().unwrap()();
    let mut ran = 0;
    // Each call ends, although the callback always submits.
    let mut gets_on = |act: &dyn Fn()| {
        act();
        let after = RAN.load(Ordering::Relaxed);
        assert!(after > ran && after <= ran + 2_000, "{ran}..{after}");
        ran = after;
    };
    gets_on(&|| {
        assert!(
            bus.poll()
                .is_some_and(|at| at <= nostall_io::Clock::now(bus.platform()))
        )
    });
    gets_on(&|| _ = bus.poll());
    gets_on(&|| assert!(bus.poll().is_some()));
    gets_on(&|| {
        bus.device(crate::common::device(2))
            .unwrap()
            .write(&[1])
            .unwrap()
    });
}

#[test]
fn a_time_out_is_computed_from_the_clock_that_was_set() {
    // The transfer has 512 KiB. The device allows 104 MHz, and the controller runs at 16 MHz.
    let asked = Settings::new(104_000_000, 1);
    let took = Nanos::from_millis(262);
    let probe = Probe::default();
    let bus: Virtual = Bus::sized(
        Probed {
            rate: Some(16_000_000),
            ..controller(&probe)
        },
        Bare(VirtualClock::new()),
    );
    let device = bus.device(asked).unwrap();
    // In several pieces, as a FIFO is filled.
    probe.next(&[Act::Takes(took)]);
    probe.pieces(3);
    device.write(&vec![0; 512 << 10]).unwrap();
    // If a controller reports its limit, the bus itself lowers the clock.
    let bus: Virtual = Bus::sized(
        Probed {
            capabilities: Capabilities::all(4).fastest(16_000_000),
            ..controller(&probe)
        },
        Bare(VirtualClock::new()),
    );
    assert_eq!(bus.device(asked).unwrap().settings().clock, 16_000_000);
}

/// A controller whose chip selects and settings panic on request.
struct Fragile {
    probed: Probed,
    panics: Arc<Mutex<Option<Panics>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Panics {
    Setting,
    Selecting,
    Releasing,
}

impl Fragile {
    fn at(&self, point: Panics) {
        let told = self.panics.lock().unwrap().take_if(|told| *told == point);
        assert!(told.is_none(), "on purpose");
    }
}

impl Controller for Fragile {
    fn capabilities(&self) -> Capabilities {
        self.probed.capabilities()
    }
    fn set(&mut self, wire: &Wire) -> Result<u32, Fault> {
        let set = self.probed.set(wire);
        self.at(Panics::Setting);
        set
    }
    fn select(&mut self, level: Level) -> Result<(), Fault> {
        self.at(match level {
            Level::Asserted => Panics::Selecting,
            Level::Released => Panics::Releasing,
        });
        self.probed.select(level)
    }
    fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault> {
        self.probed.transfer(words)
    }
    fn abort(&mut self) -> Result<(), Fault> {
        self.probed.abort()
    }
}

#[test]
fn after_a_panic_in_chip_select_the_next_message_selects_its_own_line() {
    for point in [Panics::Setting, Panics::Selecting, Panics::Releasing] {
        let probe = Probe::default();
        let panics = Arc::new(Mutex::new(None));
        let fragile = Fragile {
            probed: controller(&probe),
            panics: panics.clone(),
        };
        let clock = Bare(VirtualClock::new());
        let bus: Bus<_, _, Slots<4, 4, 16>> = Bus::sized(fragile, clock);
        let one = bus.device(device(1)).unwrap();
        let two = bus.device(device(2)).unwrap();
        one.write(&[1]).unwrap();
        *panics.lock().unwrap() = Some(point);
        assert!(catch_unwind(AssertUnwindSafe(|| two.write(&[2]))).is_err());
        assert_eq!(probe.selected(), None);
        probe.told();
        one.write(&[3]).unwrap();
        let told = probe.told();
        assert!(told.contains(&Select(1)), "{point:?}: {told:?}");
        assert!(!told.contains(&Select(2)), "{point:?}: {told:?}");
    }
}

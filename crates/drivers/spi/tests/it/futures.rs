//! Futures that are dropped, leaked or late, and wakers that panic. The bus continues to work, and
//! no other message is lost, reordered or sent to the wrong device.

use crate::common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};

use crate::common::*;
use embedded_hal::spi::Operation;
use embedded_hal_async::spi::SpiDevice;
use nostall_io::{Clock, Nanos};
use nostall_spi::{
    Bare, Bus, Completed, Config, Error, Fault, Platform, Settings, Slots, Transfer,
};

/// A waker that counts its calls, or panics.
struct Woken(AtomicUsize, bool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        assert!(!self.1, "on purpose");
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Woken {
    fn times(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn waker(panics: bool) -> (Arc<Woken>, Waker) {
    let woken = Arc::new(Woken(AtomicUsize::new(0), panics));
    (woken.clone(), woken.into())
}

fn poll<F: Future>(future: &mut Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(waker))
}

const TIMEOUT: Nanos = Config::DEFAULT.lock_timeout;

#[cfg(feature = "std")]
#[test]
fn a_waker_that_panics_leaves_the_bus_to_the_next_message() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    let locked = device.lock().unwrap();
    let mut pending = device.submit(&mut [Transfer::write(&[1])]).unwrap();
    let (_, waker) = waker(true);
    {
        let mut future = pin!(pending.finished());
        assert!(poll(&mut future, &waker).is_pending());
        drop(locked);
        bus.poll();
    }
    assert_eq!(bus.statistics().panics, 1);
    assert_eq!(pending.wait(), Ok(()));
    goes_on(&device, &probe);
}

#[test]
fn a_waker_whose_clone_panics_does_not_block_the_bus() {
    static PANICS: AtomicBool = AtomicBool::new(false);
    fn clone(_: *const ()) -> RawWaker {
        assert!(!PANICS.load(Ordering::Relaxed), "on purpose");
        RawWaker::new(std::ptr::null(), &TABLE)
    }
    static TABLE: RawWakerVTable = RawWakerVTable::new(clone, |_| {}, |_| {}, |_| {});
    // SAFETY: the functions in the table do not use the pointer.
    let fragile = unsafe { Waker::new(std::ptr::null(), &TABLE) };

    let (bus, probe, _) = bus(Config::DEFAULT);
    let mut first = bus.device(device(1)).unwrap();
    let second = bus.device(device(2)).unwrap();
    PANICS.store(true, Ordering::Relaxed);
    // The future owns the bus, and waits for the controller.
    probe.next(&[Act::Interrupts]);
    {
        let mut operations = [Operation::Write(&[1])];
        let mut future = pin!(SpiDevice::transaction(&mut first, &mut operations));
        let polled = AssertUnwindSafe(|| poll(&mut future, &fragile));
        assert!(catch_unwind(polled).is_err());
    }
    goes_on(&second, &probe);
    // The future joins the line.
    let locked = second.lock().unwrap();
    {
        let mut operations = [Operation::Write(&[1])];
        let mut future = pin!(SpiDevice::transaction(&mut first, &mut operations));
        let polled = AssertUnwindSafe(|| poll(&mut future, &fragile));
        assert!(catch_unwind(polled).is_err());
    }
    drop(locked);
    goes_on(&second, &probe);
    assert_eq!(bus.in_line(), 0);
}

#[test]
fn a_future_that_is_dropped_while_it_waits_for_an_interrupt_leaves_nothing_selected() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let mut first = bus.device(device(1)).unwrap();
    let second = bus.device(device(2)).unwrap();
    probe.next(&[Act::Interrupts]);
    let (_, waker) = waker(false);
    {
        let mut operations = [Operation::Write(&[1])];
        let mut future = pin!(first.transaction(&mut operations));
        assert!(poll(&mut future, &waker).is_pending());
        assert_eq!(probe.selected(), Some(1));
        assert_eq!(second.write(&[2]), Err(Error::WouldBlock));
    }
    assert_eq!(probe.told().last(), Some(&Abort));
    goes_on(&second, &probe);
}

#[test]
fn a_future_continues_when_the_controller_interrupts() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let mut device = bus.device(device(1)).unwrap();
    probe.next(&[Act::Interrupts, Act::Interrupts]);
    let (woken, waker) = waker(false);
    let mut came = [0; 2];
    let mut operations = [Operation::Write(&[1]), Operation::Read(&mut came)];
    {
        let mut future = pin!(device.transaction(&mut operations));
        assert!(poll(&mut future, &waker).is_pending());
        for interrupts in 1..=2 {
            assert!(poll(&mut future, &waker).is_pending());
            probe.complete();
            bus.on_interrupt();
            assert_eq!(woken.times(), interrupts);
            assert_eq!(poll(&mut future, &waker).is_ready(), interrupts == 2);
        }
    }
    assert_eq!(came, [1, 1]);
    let statistics = bus.statistics();
    assert_eq!((statistics.sync, statistics.asynchronous), (1, 0));
    assert_eq!(probe.selected(), None);
}

#[test]
fn a_future_whose_controller_never_interrupts_is_woken_by_poll_when_its_time_is_over() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let mut device = bus.device(device(1)).unwrap();
    probe.next(&[Act::NeverInterrupts]);
    let (woken, waker) = waker(false);
    {
        let mut operations = [Operation::Write(&[1])];
        let mut future = pin!(device.transaction(&mut operations));
        assert!(poll(&mut future, &waker).is_pending());
        // The time is in the future: otherwise, a main loop that sleeps until then would spin.
        let next = bus.poll().unwrap();
        assert!(next > now(&clock));
        assert_eq!(woken.times(), 0);
        clock.advance(Nanos::from_secs(1));
        bus.poll();
        assert_eq!(woken.times(), 1);
        let timeout = Err(Error::Timeout { transfer: 0 });
        assert_eq!(poll(&mut future, &waker), Poll::Ready(timeout));
    }
    goes_on(&device, &probe);
}

#[test]
fn a_driver_that_panics_on_a_future_that_has_the_bus_frees_it_once() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let mut first = bus.device(device(1)).unwrap();
    let second = bus.device(device(2)).unwrap();
    probe.next(&[Act::Interrupts, Act::Panics]);
    let (_, waker) = waker(false);
    let mut operations = [Operation::Write(&[1]), Operation::Write(&[2])];
    {
        let mut future = pin!(first.transaction(&mut operations));
        assert!(poll(&mut future, &waker).is_pending());
        probe.complete();
        bus.on_interrupt();
        let polled = AssertUnwindSafe(|| poll(&mut future, &waker));
        assert!(catch_unwind(polled).is_err());
    }
    // A second abort could affect another owner of the bus.
    let aborts = probe.told().iter().filter(|told| **told == Abort).count();
    assert_eq!(aborts, 1);
    goes_on(&second, &probe);
}

#[test]
fn futures_are_served_in_turn_and_a_dropped_one_passes_its_wake_up_on() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let mut first = bus.device(device(1)).unwrap();
    let mut second = bus.device(device(2)).unwrap();
    let mut third = bus.device(device(3)).unwrap();
    probe.next(&[Act::Interrupts]);
    let (_, waker_of_first) = waker(false);
    let (woken_second, waker_of_second) = waker(false);
    let (woken_third, waker_of_third) = waker(false);
    let (mut one, mut two, mut three) = (
        [Operation::Write(&[1])],
        [Operation::Write(&[2])],
        [Operation::Write(&[3])],
    );
    let mut last = pin!(third.transaction(&mut three));
    {
        let mut dropped = pin!(second.transaction(&mut two));
        {
            let mut future = pin!(first.transaction(&mut one));
            assert!(poll(&mut future, &waker_of_first).is_pending());
            assert!(poll(&mut dropped, &waker_of_second).is_pending());
            assert!(poll(&mut last, &waker_of_third).is_pending());
            probe.complete();
            bus.on_interrupt();
            assert_eq!(poll(&mut future, &waker_of_first), Poll::Ready(Ok(())));
        }
        assert_eq!((woken_second.times(), woken_third.times()), (1, 0));
    }
    assert_eq!(woken_third.times(), 1);
    assert_eq!(poll(&mut last, &waker_of_third), Poll::Ready(Ok(())));
    assert_eq!(probe.sent(), [[1], [3]]);
}

#[test]
fn a_handle_whose_future_was_dropped_also_passes_its_wake_up_on() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let owner = bus.device(device(0)).unwrap();
    let first = bus.device(device(1)).unwrap();
    let mut second = bus.device(device(2)).unwrap();
    let locked = owner.lock().unwrap();
    let mut pending = first.submit(&mut [Transfer::write(&[1])]).unwrap();
    let (stale, waker_of_stale) = waker(false);
    let (woken, waker_of_second) = waker(false);
    {
        let mut future = pin!(pending.finished());
        assert!(poll(&mut future, &waker_of_stale).is_pending());
    }
    let mut operations = [Operation::Write(&[2])];
    let mut future = pin!(second.transaction(&mut operations));
    assert!(poll(&mut future, &waker_of_second).is_pending());
    drop(locked);
    assert_eq!((stale.times(), woken.times()), (0, 1));
    assert_eq!(poll(&mut future, &waker_of_second), Poll::Ready(Ok(())));
    bus.poll();
    assert!(pending.is_done());
    assert_eq!(probe.sent().len(), 2);
}

#[test]
fn a_future_that_runs_its_own_submitted_message_and_is_dropped_ends_that_message() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let first = bus.device(device(1)).unwrap();
    let second = bus.device(device(2)).unwrap();
    probe.next(&[Act::Interrupts]);
    let (_, waker) = waker(false);
    let mut pending = first.submit(&mut [Transfer::write(&[1])]).unwrap();
    {
        let mut future = pin!(pending.finished());
        assert!(poll(&mut future, &waker).is_pending());
        assert_eq!(probe.selected(), Some(1));
    }
    assert_eq!(probe.told().last(), Some(&Abort));
    goes_on(&second, &probe);
    assert_eq!(pending.wait(), failed(0, Fault::Dropped));
    assert!(bus.poll().is_some());
}

#[test]
fn after_a_leaked_future_nothing_is_clocked_until_the_bus_is_reset() {
    let (mut bus, probe, clock) = bus(Config::DEFAULT);
    {
        let mut leaked = bus.device(device(1)).unwrap();
        let mut other = bus.device(device(2)).unwrap();
        let other_too = bus.device(device(3)).unwrap();
        probe.next(&[Act::Interrupts]);
        let (_, waker) = waker(false);
        {
            let mut operations = [Operation::Write(&[1])];
            let mut future = Box::pin(leaked.transaction(&mut operations));
            assert!(poll(&mut future.as_mut(), &waker).is_pending());
            std::mem::forget(future);
        }
        probe.told();
        assert_eq!(other_too.write(&[3]), Err(Error::WouldBlock));
        {
            let mut operations = [Operation::Write(&[2])];
            let mut future = pin!(other.transaction(&mut operations));
            assert!(poll(&mut future, &waker).is_pending());
            clock.advance(TIMEOUT);
            assert_eq!(
                poll(&mut future, &waker),
                Poll::Ready(Err(Error::Abandoned))
            );
        }
        // From now on, calls fail immediately, and `poll` has no effect.
        assert_eq!(other_too.write(&[3]), Err(Error::Abandoned));
        bus.poll();
        assert_eq!(probe.told(), []);
        std::mem::forget(leaked);
    }
    bus.reset();
    assert_eq!(probe.told(), [Abort]);
    let device = bus.device(device(2)).unwrap();
    goes_on(&device, &probe);
}

#[test]
fn after_a_reset_a_bus_whose_worker_was_leaked_is_served_by_another() {
    for owns in [false, true] {
        let (mut bus, probe, _) = bus(Config::DEFAULT);
        let (_, waker) = waker(false);
        {
            let device = bus.device(device(1)).unwrap();
            probe.next(&[Act::Interrupts]);
            if owns {
                std::mem::forget(device.submit(&mut [Transfer::write(&[1])]).unwrap());
            }
            let mut leaked = Box::pin(bus.serve());
            assert!(poll(&mut leaked.as_mut(), &waker).is_pending());
            assert_eq!(probe.selected().is_some(), owns);
            std::mem::forget((leaked, device));
        }
        bus.reset();
        let mut worker = pin!(bus.serve());
        assert!(poll(&mut worker, &waker).is_pending());
    }
}

#[test]
#[allow(unsafe_code)]
fn after_a_reset_of_a_shared_bus_its_leaked_owner_does_not_count_as_its_worker() {
    for serves in [false, true] {
        let (bus, probe, _) = bus(Config::DEFAULT);
        let device = bus.device(device(1)).unwrap();
        let (_, waker) = waker(false);
        let mut stored = device.submit(&mut [Transfer::write(&[1])]).unwrap();
        probe.next(&[Act::Interrupts]);
        let mut worker = Box::pin(bus.serve());
        if serves {
            assert!(poll(&mut worker.as_mut(), &waker).is_pending());
            std::mem::forget(worker);
        } else {
            let mut leaked = Box::pin(stored.finished());
            assert!(poll(&mut leaked.as_mut(), &waker).is_pending());
            std::mem::forget(leaked);
            assert!(poll(&mut worker.as_mut(), &waker).is_pending());
            // Kept, and still the worker.
            std::mem::forget(worker);
        }
        // SAFETY: the future that owned the bus was leaked.
        unsafe { bus.reset_leaked() };
        assert_eq!(stored.wait(), failed(0, Fault::Dropped));
        let mut another = pin!(bus.serve());
        assert_eq!(poll(&mut another, &waker).is_pending(), serves);
    }
}

#[test]
fn a_future_that_was_woken_for_the_bus_and_does_not_poll_loses_its_place() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let owner = bus.device(device(0)).unwrap();
    let mut late = bus.device(device(1)).unwrap();
    let mut second = bus.device(device(2)).unwrap();
    let (woken, waker_of_late) = waker(false);
    let (_, waker_of_second) = waker(false);
    let mut operations = [Operation::Write(&[1])];
    let mut future = pin!(late.transaction(&mut operations));
    let locked = owner.lock().unwrap();
    assert!(poll(&mut future, &waker_of_late).is_pending());
    // The future is overdue, so the owner hands the bus over to it.
    clock.advance(Nanos::from_millis(1));
    assert!(poll(&mut future, &waker_of_late).is_pending());
    let mut others = [Operation::Write(&[2])];
    let mut other = pin!(second.transaction(&mut others));
    assert!(poll(&mut other, &waker_of_second).is_pending());
    drop(locked);
    assert_eq!(woken.times(), 1);
    assert!(poll(&mut other, &waker_of_second).is_pending());
    assert_eq!(owner.write(&[9]), Err(Error::WouldBlock));
    clock.advance(TIMEOUT - Nanos::from_millis(1));
    assert!(poll(&mut other, &waker_of_second).is_pending());
    clock.advance(Nanos::from_millis(1));
    assert_eq!(poll(&mut other, &waker_of_second), Poll::Ready(Ok(())));
    // The late future comes now, behind the others.
    assert_eq!(poll(&mut future, &waker_of_late), Poll::Ready(Ok(())));
    assert_eq!(probe.sent(), [[2], [1]]);
    let counted = bus.statistics();
    assert_eq!((counted.sync, counted.sync_immediate), (2, 0));
}

#[test]
fn a_future_that_finds_the_line_full_returns_an_error() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let owner = bus.device(device(0)).unwrap();
    let locked = owner.lock().unwrap();
    let (_, waker) = waker(false);
    let devices: Vec<_> = (0..5)
        .map(|line| bus.device(device(line % 4)).unwrap())
        .collect();
    let mut futures: Vec<_> = devices
        .iter()
        .map(|device| {
            Box::pin(async move {
                let mut message = [Transfer::write(&[1])];
                device.transfer_async(&mut message).await
            })
        })
        .collect();
    for (index, future) in futures.iter_mut().enumerate() {
        let polled = poll(&mut future.as_mut(), &waker);
        match index {
            4 => assert_eq!(polled, Poll::Ready(Err(Error::LineFull))),
            _ => assert!(polled.is_pending()),
        }
    }
    drop(futures);
    drop(locked);
    goes_on(&owner, &probe);
}

#[test]
fn a_message_of_any_length_is_awaited_and_behind_a_long_one_none_is_stranded() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let owner = bus.device(device(0)).unwrap();
    let mut long = bus.device(device(1)).unwrap();
    let mut short = bus.device(device(2)).unwrap();
    let stored = bus.device(device(3)).unwrap();
    let locked = owner.lock().unwrap();
    let (woken_long, waker_of_long) = waker(false);
    let (woken_short, waker_of_short) = waker(false);
    let (mut page, mut four) = ([0; 512], [4; 4]);
    let mut of_long = [Operation::Read(&mut page)];
    let mut of_short = [Operation::TransferInPlace(&mut four)];
    let mut first = pin!(long.transaction(&mut of_long));
    let mut second = pin!(short.transaction(&mut of_short));
    assert!(poll(&mut first, &waker_of_long).is_pending());
    let kept = stored.submit(&mut [Transfer::write(&[3])]).unwrap();
    assert!(poll(&mut second, &waker_of_short).is_pending());
    drop(locked);
    assert_eq!((woken_long.times(), woken_short.times()), (1, 0));
    assert_eq!(poll(&mut first, &waker_of_long), Poll::Ready(Ok(())));
    assert_eq!(woken_short.times(), 1);
    assert_eq!(poll(&mut second, &waker_of_short), Poll::Ready(Ok(())));
    assert!(kept.is_done());
    assert_eq!(probe.sent().len(), 3);
    assert_eq!(bus.poll(), Some(now(&clock) + Config::DEFAULT.idle_timeout));
}

/// A platform of futures whose clock only the test advances, and which records its timers.
struct Timers(nostall_devices::VirtualClock, std::sync::Mutex<Vec<Nanos>>);

impl Clock for Timers {
    fn now(&self) -> Nanos {
        self.0.now()
    }
    fn wait_until(&self, _: Nanos) {
        panic!("a future blocks its executor")
    }
}

impl Platform for Timers {
    fn current(&self) -> Option<Waker> {
        None
    }
    fn block(&self, _: Nanos) {
        panic!("a future blocks its executor")
    }
    fn wake_at(&self, at: Nanos, _: &Waker) -> bool {
        self.1.lock().unwrap().push(at);
        true
    }
}

#[test]
fn delays_and_transfers_of_a_future_do_not_hold_its_executor() {
    let probe = Probe::default();
    let clock = nostall_devices::VirtualClock::new();
    let platform = Timers(clock.clone(), std::sync::Mutex::default());
    let bus: Bus<_, _, Slots<4, 0, 0>> = Bus::sized(controller(&probe), platform);
    let device = bus.device(device(1)).unwrap();
    let span = Nanos::from_millis(50);
    probe.next(&[Act::Takes(span)]);
    let (_, waker) = waker(false);
    let mut message = [
        Transfer::write(&[1]).delay(span).cs_change(span),
        Transfer::write(&[2]),
    ];
    let mut future = pin!(device.transfer_async(&mut message));
    for _ in 0..3 {
        // The future stays pending however often it is polled.
        assert!(poll(&mut future, &waker).is_pending());
        assert!(poll(&mut future, &waker).is_pending());
        let timer = bus.platform().1.lock().unwrap().iter().min().copied();
        bus.platform().1.lock().unwrap().clear();
        assert_eq!(timer, Some(now(&clock) + span));
        clock.advance(span);
    }
    assert_eq!(poll(&mut future, &waker), Poll::Ready(Ok(())));
    assert_eq!(probe.sent(), [[1], [2]]);
}

#[test]
fn a_sequence_is_awaited_on_a_locked_bus() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    let other = bus.device(common::device(2)).unwrap();
    let (_, waker) = waker(false);
    let mut sequence = pin!(async {
        let mut locked = device.lock_async().await.unwrap();
        SpiDevice::write(&mut locked, &[1]).await.unwrap();
        assert_eq!(other.write(&[9]), Err(Error::WouldBlock));
        SpiDevice::write(&mut locked, &[2]).await.unwrap();
    });
    assert_eq!(poll(&mut sequence, &waker), Poll::Ready(()));
    assert_eq!(probe.sent(), [[1], [2]]);
    goes_on(&other, &probe);
}

#[test]
fn a_future_of_a_send_bus_is_send() {
    fn sent<T: Send>(value: T) -> T {
        value
    }
    let bus: Bus<_, _> = Bus::new(
        nostall_spi::controllers::Loopback,
        Bare(nostall_io::HostClock::default()),
    );
    let device = bus.device(device(1)).unwrap();
    let mut message = [Transfer::write(&[1])];
    drop(sent(device.transfer_async(&mut message)));
    let mut pending = device.submit(&mut [Transfer::write(&[1])]).unwrap();
    drop(sent(pending.finished()));
    drop(sent(bus.serve()));
}

#[test]
fn a_handle_that_was_woken_for_the_bus_and_stops_waiting_wakes_the_next_in_line() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let [owner, stores, waits] = [0, 1, 2].map(|line| bus.device(device(line)).unwrap());
    let mut lock = Box::pin(owner.lock_async());
    let Poll::Ready(Ok(locked)) = poll(&mut lock.as_mut(), Waker::noop()) else {
        panic!("the bus is not in use");
    };
    let mut stored = stores.submit(&mut [Transfer::write(&[1])]).unwrap();
    let (first, its_waker) = waker(false);
    let mut finished = Box::pin(stored.finished());
    assert!(poll(&mut finished.as_mut(), &its_waker).is_pending());
    let (next, next_waker) = waker(false);
    let mut message = [Transfer::write(&[2])];
    let mut future = pin!(waits.transfer_async(&mut message));
    assert!(poll(&mut future, &next_waker).is_pending());
    // A future that releases the bus runs no stored messages.
    drop(locked);
    assert_eq!((first.times(), next.times()), (1, 0));
    drop(finished);
    assert_eq!(next.times(), 1);
    assert_eq!(poll(&mut future, &next_waker), Poll::Ready(Ok(())));
    assert!(stored.is_done());
    assert_eq!(probe.sent(), [[2], [1]]);
}

#[test]
fn a_callback_of_a_dropped_device_is_called() {
    static TOLD: AtomicUsize = AtomicUsize::new(0);
    fn told(completed: Completed<'_>) {
        assert_eq!(completed.result, Err(Error::Cancelled));
        TOLD.fetch_add(1, Ordering::Relaxed);
    }
    let (bus, probe, _) = bus(Config::DEFAULT);
    let dropped = bus.device(device(1)).unwrap();
    dropped
        .submit_then(&mut [Transfer::write(&[1])], &told, 0)
        .unwrap();
    drop(dropped);
    bus.poll();
    assert_eq!(TOLD.load(Ordering::Relaxed), 1);
    assert_eq!(probe.count(), 0);
}

type Served = Bus<Probed, Timers, Slots<4, 4, 16>>;

fn served() -> (Served, Probe, nostall_devices::VirtualClock) {
    let (probe, clock) = (Probe::default(), nostall_devices::VirtualClock::new());
    let platform = Timers(clock.clone(), std::sync::Mutex::default());
    let bus = Bus::sized(controller(&probe), platform);
    (bus, probe, clock)
}

/// Returns the earliest timer since the last call.
fn timer(bus: &Served) -> Option<Nanos> {
    std::mem::take(&mut *bus.platform().1.lock().unwrap())
        .into_iter()
        .min()
}

/// Polls a worker until it sleeps.
fn until_asleep<F: Future>(worker: &mut Pin<&mut F>, (woken, waker): &(Arc<Woken>, Waker)) {
    for _ in 0..10 {
        let before = woken.times();
        assert!(poll(worker, waker).is_pending());
        if woken.times() == before {
            return;
        }
    }
    panic!("the worker does not sleep");
}

#[test]
fn an_awaited_worker_runs_submitted_messages_and_puts_the_hardware_to_sleep() {
    let (bus, probe, clock) = served();
    let device = bus.device(device(1)).unwrap();
    let task = waker(false);
    let (woken, waker) = &task;
    let mut worker = pin!(bus.serve());
    assert!(poll(&mut worker, waker).is_pending());
    assert_eq!((woken.times(), timer(&bus)), (0, None));
    // Submitted in an interrupt handler.
    let span = Nanos::from_millis(5);
    probe.next(&[Act::Takes(span)]);
    let first = device.submit(&mut [Transfer::write(&[1])]).unwrap();
    let second = device.submit(&mut [Transfer::write(&[2])]).unwrap();
    assert_eq!(woken.times(), 1);
    // The worker awaits the controller. The platform would panic if it blocked.
    assert!(poll(&mut worker, waker).is_pending());
    assert_eq!(timer(&bus), Some(now(&clock) + span));
    assert!(!first.is_done());
    clock.advance(span);
    assert!(poll(&mut worker, waker).is_pending());
    assert!(first.is_done() && second.is_done());
    let idle_timeout = Config::DEFAULT.idle_timeout;
    let mut polls = 0;
    while bus.statistics().teardowns == 0 {
        polls += 1;
        assert!(polls <= 2);
        let at = timer(&bus).unwrap();
        assert!(at - now(&clock) <= idle_timeout);
        clock.advance(at - now(&clock));
        until_asleep(&mut worker, &task);
    }
    assert_eq!(probe.told().last(), Some(&Unprepare));
    // The worker sleeps until there is work again.
    assert_eq!(timer(&bus), None);
    let statistics = bus.statistics();
    assert_eq!((statistics.by_worker, statistics.teardowns), (2, 1));
    // It was called for the messages. Its own timer is no wake-up.
    assert_eq!(statistics.wakeups, 1);
}

#[test]
fn a_synchronous_caller_does_not_wake_an_awaited_worker() {
    let (bus, _, _) = served();
    let device = bus.device(device(1)).unwrap();
    let (woken, waker) = waker(false);
    let mut worker = pin!(bus.serve());
    assert!(poll(&mut worker, &waker).is_pending());
    for _ in 0..10 {
        device.write(&[1]).unwrap();
    }
    // It is called once, for the idle timer after the hardware was woken.
    assert_eq!((woken.times(), bus.statistics().wakeups), (1, 0));
}

#[test]
fn an_awaited_worker_yields_to_other_tasks_after_64_messages() {
    fn nothing(_: Completed<'_>) {}
    let (probe, clock) = (Probe::default(), nostall_devices::VirtualClock::new());
    let platform = Timers(clock, std::sync::Mutex::default());
    let bus: Bus<_, _, Slots<4, 100, 16>> = Bus::sized(controller(&probe), platform);
    let device = bus.device(device(0)).unwrap();
    let (woken, waker) = waker(false);
    let mut worker = pin!(bus.serve());
    assert!(poll(&mut worker, &waker).is_pending());
    for _ in 0..100 {
        let message = &mut [Transfer::write(&[1])];
        device.submit_then(message, &nothing, 0).unwrap();
    }
    let before = woken.times();
    assert!(poll(&mut worker, &waker).is_pending());
    assert_eq!(bus.statistics().messages, 64);
    assert!(woken.times() > before);
    assert!(poll(&mut worker, &waker).is_pending());
    assert_eq!(bus.statistics().messages, 100);
}

#[test]
fn an_awaited_worker_that_is_dropped_wakes_the_handle_of_a_message_that_was_left_to_it() {
    let (bus, probe, _) = served();
    let device = bus.device(device(1)).unwrap();
    let (woken, waker) = waker(false);
    let mut worker = Box::pin(bus.serve());
    assert!(poll(&mut worker.as_mut(), Waker::noop()).is_pending());
    let mut stored = device.submit(&mut [Transfer::write(&[1])]).unwrap();
    let mut finished = pin!(stored.finished());
    // The worker was called, and has to run the message.
    assert!(poll(&mut finished, &waker).is_pending());
    drop(worker);
    assert_eq!(woken.times(), 1);
    assert_eq!(poll(&mut finished, &waker), Poll::Ready(Ok(())));
    assert_eq!(probe.sent(), [[1]]);
}

#[test]
fn an_awaited_worker_that_is_dropped_strands_no_message_and_may_have_a_successor() {
    let (bus, probe, clock) = served();
    let device = bus.device(device(1)).unwrap();
    let (_, waker) = waker(false);
    let running = {
        let mut worker = Box::pin(bus.serve());
        assert!(poll(&mut worker.as_mut(), &waker).is_pending());
        let mut other = pin!(bus.serve());
        let refused = Poll::Ready(Error::AlreadyServed);
        assert_eq!(poll(&mut other, &waker), refused);
        probe.next(&[Act::Interrupts]);
        let running = device.submit(&mut [Transfer::write(&[1])]).unwrap();
        let _ = poll(&mut worker.as_mut(), &waker);
        assert_eq!(probe.selected(), Some(1));
        running
    };
    assert!(running.is_done());
    assert_eq!(probe.told().last(), Some(&Abort));
    let mut stored = device.submit(&mut [Transfer::write(&[2])]).unwrap();
    {
        let mut finished = pin!(stored.finished());
        assert_eq!(poll(&mut finished, &waker), Poll::Ready(Ok(())));
    }
    // A successor knows that the hardware was woken earlier.
    timer(&bus);
    let mut worker = pin!(bus.serve());
    assert!(poll(&mut worker, &waker).is_pending());
    assert_eq!(
        timer(&bus),
        Some(now(&clock) + Config::DEFAULT.idle_timeout)
    );
}

#[test]
fn an_awaited_worker_takes_the_bus_back_from_a_granted_future_that_does_not_come() {
    let (bus, probe, clock) = served();
    let [owner, late, next] = [0, 1, 2].map(|line| bus.device(device(line)).unwrap());
    let task = waker(false);
    let waker_of_worker = &task.1;
    let mut worker = pin!(bus.serve());
    assert!(poll(&mut worker, waker_of_worker).is_pending());
    let (woken, waker_of_next) = waker(false);
    let (mut first, mut second) = ([Transfer::write(&[1])], [Transfer::write(&[2])]);
    let mut late = Box::pin(late.transfer_async(&mut first));
    let mut next = pin!(next.transfer_async(&mut second));
    let locked = owner.lock().unwrap();
    assert!(poll(&mut late.as_mut(), waker_of_worker).is_pending());
    clock.advance(Nanos::from_millis(1));
    assert!(poll(&mut late.as_mut(), waker_of_worker).is_pending());
    drop(locked);
    std::mem::forget(late);
    assert!(poll(&mut next, &waker_of_next).is_pending());
    while woken.times() == 0 {
        until_asleep(&mut worker, &task);
        let at = timer(&bus).expect("a timer");
        assert!(at <= Nanos::from_millis(1) + TIMEOUT);
        clock.advance(at - now(&clock));
        until_asleep(&mut worker, &task);
    }
    assert_eq!(now(&clock), Nanos::from_millis(1) + TIMEOUT);
    assert_eq!(poll(&mut next, &waker_of_next), Poll::Ready(Ok(())));
    assert_eq!(probe.sent(), [[2]]);
}

#[test]
fn an_awaited_worker_does_not_put_hardware_to_sleep_that_was_used_since_its_predecessor() {
    let (bus, _, clock) = served();
    let device = bus.device(device(1)).unwrap();
    let (_, waker) = waker(false);
    {
        let mut worker = pin!(bus.serve());
        assert!(poll(&mut worker, &waker).is_pending());
        device.write(&[1]).unwrap();
        clock.advance(Config::DEFAULT.idle_timeout);
        assert!(poll(&mut worker, &waker).is_pending());
    }
    // The idle time that the predecessor began is over.
    clock.advance(Config::DEFAULT.idle_timeout);
    device.write(&[2]).unwrap();
    let mut worker = pin!(bus.serve());
    assert!(poll(&mut worker, &waker).is_pending());
    assert_eq!(bus.statistics().teardowns, 0);
}

#[test]
fn a_worker_without_timers_is_woken_by_poll_when_the_time_of_its_transfer_is_over() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    let (woken, waker) = waker(false);
    let mut worker = pin!(bus.serve());
    assert!(poll(&mut worker, &waker).is_pending());
    probe.next(&[Act::NeverInterrupts]);
    let mut message = device.submit(&mut [Transfer::write(&[1])]).unwrap();
    assert_eq!(woken.times(), 1);
    assert!(poll(&mut worker, &waker).is_pending());
    let at = bus.poll().unwrap();
    assert!(at > now(&clock) && at <= Nanos::from_millis(201), "{at}");
    clock.advance(at - now(&clock) - Nanos(1));
    bus.poll();
    assert_eq!(woken.times(), 1);
    clock.advance(Nanos(1));
    bus.poll();
    assert_eq!(woken.times(), 2);
    let _ = poll(&mut worker, &waker);
    assert!(message.is_done());
    let timeout = Err(Error::Timeout { transfer: 0 });
    assert_eq!(message.wait(), timeout);
}

/// A worker that is a future without timers has none that could stay set.
#[test]
fn poll_returns_no_time_for_ever_that_it_has_handled() {
    for is_served in [false, true] {
        let (bus, probe, clock) = bus(Config::DEFAULT);
        let device = bus.device(device(1)).unwrap();
        let (_, waker) = waker(false);
        let mut worker = pin!(bus.serve());
        if is_served {
            assert!(poll(&mut worker, &waker).is_pending());
        }
        device.write(&[1]).unwrap();
        let mut polls = 0;
        while let Some(at) = bus.poll() {
            assert!(at > now(&clock), "{at} has passed");
            clock.advance(at - now(&clock));
            polls += 1;
            assert!(polls <= 2);
        }
        assert_eq!(probe.told().last(), Some(&Unprepare));
        assert!(!is_served || poll(&mut worker, &waker).is_pending());
        assert_eq!(bus.poll(), None);
    }
}

/// A clock that advances by a millisecond with each read.
#[derive(Default)]
struct Hasty(AtomicUsize);

impl Clock for Hasty {
    fn now(&self) -> Nanos {
        Nanos::from_millis(self.0.fetch_add(1, Ordering::Relaxed) as u64)
    }
}

impl Platform for Hasty {
    fn current(&self) -> Option<Waker> {
        None
    }
    fn block(&self, _: Nanos) {}
}

#[test]
fn an_awaited_worker_yields_however_often_its_timer_goes_off() {
    // In a thread, so that an endless loop makes the test fail.
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let probe = Probe::default();
        let config = Config {
            idle_timeout: Nanos::from_millis(1),
            ..Config::DEFAULT
        };
        let bus: Bus<_, _, Slots<4, 4, 16>> =
            Bus::sized(controller(&probe), Hasty::default()).with_config(config);
        let device = bus.device(device(1)).unwrap();
        let (woken, waker) = waker(false);
        let mut worker = pin!(bus.serve());
        assert!(poll(&mut worker, &waker).is_pending());
        let mut locked = device.lock().unwrap();
        locked.sync(&mut [Transfer::write(&[1])]).unwrap();
        // Another task on this executor owns the bus.
        let before = woken.times();
        assert!(poll(&mut worker, &waker).is_pending());
        let _ = tell.send(woken.times() - before);
    });
    let ended = told.recv_timeout(common::HANG_LIMIT);
    assert_eq!(ended, Ok(1), "the worker does not yield");
}

/// Drops a device, then the future of one of its messages before any word was transferred.
#[test]
fn a_message_that_returns_to_the_line_after_its_device_was_dropped_is_withdrawn() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let slow = Settings {
        setup: Nanos::from_micros(10),
        ..device(1)
    };
    for next_takes_the_number in [false, true] {
        let slow = bus.device(slow).unwrap();
        let mut pending = slow.submit(&mut [Transfer::write(&[1])]).unwrap();
        let next;
        {
            let mut future = pin!(pending.finished());
            assert!(poll(&mut future, Waker::noop()).is_pending());
            assert_eq!(probe.selected(), Some(1));
            drop(slow);
            next = next_takes_the_number.then(|| bus.device(device(2)).unwrap());
        }
        assert_eq!(pending.wait(), Err(Error::Cancelled));
        bus.poll();
        assert_eq!(probe.sent(), [[0; 0]; 0]);
        drop(next);
    }
    assert_eq!(bus.statistics().cancelled, 2);
}

/// On a locked bus: the transaction is dropped or leaked, but the lock is kept.
#[test]
fn a_dropped_transaction_on_a_locked_bus_leaves_nothing_selected_for_the_next_owner() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let first = bus.device(device(1)).unwrap();
    let second = bus.device(device(2)).unwrap();
    let (_, waker) = waker(false);
    for (goes_on_in_the_lock, leaked) in [0, 1, 2, 3].map(|it| (it & 1 != 0, it & 2 != 0)) {
        let mut locked = first.lock().unwrap();
        probe.next(&[Act::Interrupts]);
        {
            let mut operations = [Operation::Write(&[1])];
            let mut future = Box::pin(SpiDevice::transaction(&mut locked, &mut operations));
            assert!(poll(&mut future.as_mut(), &waker).is_pending());
            assert_eq!(probe.selected(), Some(1));
            if leaked {
                std::mem::forget(future);
                probe.told();
            }
        }
        // A dropped one is stopped at once.
        assert_eq!(probe.selected().is_some(), leaked);
        if goes_on_in_the_lock {
            locked.sync(&mut [Transfer::write(&[2])]).unwrap();
            let told = probe.told();
            let aborts = told.iter().position(|told| *told == Abort);
            let sends = told.iter().position(|told| *told == Sent(vec![2]));
            assert!(aborts.is_some() && aborts < sends, "{told:?}");
            assert_eq!(told.last(), Some(&Told::Release(1)), "{told:?}");
        }
        drop(locked);
        assert_eq!(probe.selected(), None);
        goes_on(&second, &probe);
    }
}

/// The model is Linux, where `spi_sync_immediate` counts messages, and not locks of the bus.
#[test]
fn a_wait_counts_only_with_a_message_that_is_run_after_it() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let [first, second] = [1, 2].map(|line| bus.device(device(line)).unwrap());
    let (_, waker) = waker(false);
    let counted = || {
        let statistics = bus.statistics();
        (statistics.sync, statistics.sync_immediate)
    };
    // A lock that waited, without a message.
    let owner = first.lock().unwrap();
    let mut locking = pin!(second.lock_async());
    assert!(poll(&mut locking, &waker).is_pending());
    drop(owner);
    let Poll::Ready(Ok(mut locked)) = poll(&mut locking, &waker) else {
        panic!("the bus is free");
    };
    assert_eq!(counted(), (0, 0));
    // The lock's message finds the bus owned by its caller.
    locked.sync(&mut [Transfer::write(&[1])]).unwrap();
    assert_eq!(counted(), (1, 1));
    {
        let mut message = [Transfer::write(&[2])];
        let mut dropped = pin!(first.transfer_async(&mut message));
        assert!(poll(&mut dropped, &waker).is_pending());
        drop(locked);
        probe.next(&[Act::Interrupts]);
        assert!(poll(&mut dropped, &waker).is_pending());
    }
    assert_eq!(counted(), (1, 1));
    let owner = first.lock().unwrap();
    let mut message = [Transfer::write(&[3])];
    let mut waited = pin!(second.transfer_async(&mut message));
    assert!(poll(&mut waited, &waker).is_pending());
    drop(owner);
    assert_eq!(poll(&mut waited, &waker), Poll::Ready(Ok(())));
    assert_eq!(counted(), (2, 1));
}

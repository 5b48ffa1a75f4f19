//! Contexts that do not come, clocks that stop, and owners that are gone. Each wait ends, and every
//! other message is sent.

use crate::common;

use std::cell::{Cell, RefCell};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
#[cfg(feature = "std")]
use std::task::{RawWaker, RawWakerVTable};

use crate::common::*;
use nostall_io::{Clock, Nanos};
use nostall_spi::{
    AnySlots, Bare, Bus, Completed, Config, Device, Error, Fault, Invalid, Platform, Settings,
    Slots, Submitted, Transfer,
};

/// A waker that counts its calls.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn waker() -> (Arc<Woken>, Waker) {
    let woken = Arc::new(Woken::default());
    (woken.clone(), woken.into())
}

fn times(woken: &Woken) -> usize {
    woken.0.load(Ordering::Relaxed)
}

fn poll<F: Future>(future: &mut Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(waker))
}

const TIMEOUT: Nanos = Config::DEFAULT.lock_timeout;

#[test]
fn a_handle_that_polls_after_a_waiter_was_late_wakes_the_next_one() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let [owner, late, next, other] = [0, 1, 2, 3].map(|line| bus.device(device(line)).unwrap());
    let mut done = other.submit(&mut [Transfer::write(&[7])]).unwrap();
    bus.poll();
    assert!(done.is_done());
    let ((_, late_waker), (woken, next_waker)) = (waker(), waker());
    let (mut first, mut second) = ([Transfer::write(&[1])], [Transfer::write(&[2])]);
    let mut late = pin!(late.transfer_async(&mut first));
    let mut next = pin!(next.transfer_async(&mut second));
    let locked = owner.lock().unwrap();
    assert!(poll(&mut late, &late_waker).is_pending());
    assert!(poll(&mut next, &next_waker).is_pending());
    drop(locked);
    clock.advance(TIMEOUT);
    // The message is complete. The handle's poll must not lose the wake-up of the others.
    assert_eq!(done.wait(), Ok(()));
    assert_eq!(owner.write(&[9]), Ok(()));
    bus.poll();
    assert_eq!(times(&woken), 1);
    assert_eq!(poll(&mut next, &next_waker), Poll::Ready(Ok(())));
    assert_eq!(probe.sent(), [[7], [9], [2]]);
}

#[test]
fn poll_takes_the_bus_back_from_a_granted_future_that_does_not_come() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let [owner, late, other] = [0, 1, 2].map(|line| bus.device(device(line)).unwrap());
    let (woken, waker) = waker();
    let mut message = [Transfer::write(&[1])];
    let mut late = pin!(late.transfer_async(&mut message));
    let locked = owner.lock().unwrap();
    assert!(poll(&mut late, &waker).is_pending());
    clock.advance(Nanos::from_millis(1));
    assert!(poll(&mut late, &waker).is_pending());
    drop(locked);
    assert_eq!(times(&woken), 1);
    // Submitted in an interrupt handler. Only the main loop calls later.
    let stored = other.submit(&mut [Transfer::write(&[2])]).unwrap();
    bus.poll();
    assert!(!stored.is_done());
    clock.advance(TIMEOUT);
    bus.poll();
    bus.poll();
    assert!(stored.is_done());
    assert_eq!(probe.sent(), [[2]]);
}

#[test]
fn poll_runs_messages_stored_behind_a_waiter_that_does_not_come() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let [owner, device] = [0, 1].map(|line| bus.device(device(line)).unwrap());
    let (_, waker) = waker();
    let mut message = [Transfer::write(&[1])];
    let mut late = Box::pin(device.transfer_async(&mut message));
    let locked = owner.lock().unwrap();
    assert!(poll(&mut late.as_mut(), &waker).is_pending());
    let stored = device.submit(&mut [Transfer::write(&[2])]).unwrap();
    drop(locked);
    std::mem::forget(late);
    bus.poll();
    assert!(!stored.is_done());
    clock.advance(TIMEOUT);
    bus.poll();
    bus.poll();
    assert!(stored.is_done());
    assert_eq!(probe.sent(), [[2]]);
}

#[test]
fn poll_wakes_a_future_without_a_timer_when_its_wait_is_over() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let [gone, device] = [0, 1].map(|line| bus.device(device(line)).unwrap());
    std::mem::forget(gone.lock().unwrap());
    let (woken, waker) = waker();
    let mut message = [Transfer::write(&[1])];
    let mut future = pin!(device.transfer_async(&mut message));
    assert!(poll(&mut future, &waker).is_pending());
    bus.poll();
    assert_eq!(times(&woken), 0);
    clock.advance(TIMEOUT);
    bus.poll();
    assert_eq!(times(&woken), 1);
    assert_eq!(
        poll(&mut future, &waker),
        Poll::Ready(Err(Error::Abandoned))
    );
    assert_eq!(probe.sent(), [[0; 0]; 0]);
}

#[test]
fn an_overdue_waiter_goes_before_messages_that_were_submitted_after_it() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let [owner, waits, other] = [0, 1, 2].map(|line| bus.device(device(line)).unwrap());
    let mut message = [Transfer::write(&[3])];
    let mut waiter = pin!(waits.transfer_async(&mut message));
    let locked = owner.lock().unwrap();
    // One of another device, and one of its own device, came before the waiter.
    let first = other.submit(&mut [Transfer::write(&[1])]).unwrap();
    let own = waits.submit(&mut [Transfer::write(&[2])]).unwrap();
    assert!(poll(&mut waiter, Waker::noop()).is_pending());
    clock.advance(Nanos::from_millis(1));
    assert!(poll(&mut waiter, Waker::noop()).is_pending());
    let later = other.submit(&mut [Transfer::write(&[4])]).unwrap();
    drop(locked);
    assert!(first.is_done() && own.is_done());
    assert_eq!(poll(&mut waiter, Waker::noop()), Poll::Ready(Ok(())));
    // The waiter's release runs it, although the bus was not idle in between.
    assert!(later.is_done());
    assert_eq!(probe.sent(), [[1], [2], [3], [4]]);
}

type Sending = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

thread_local! {
    /// Becomes overdue in a callback.
    static WAITER: RefCell<Option<Sending>> = const { RefCell::new(None) };
    static TIME: nostall_devices::VirtualClock = nostall_devices::VirtualClock::new();
    static LATER: RefCell<Option<VirtualDevice<'static>>> = const { RefCell::new(None) };
}

fn poll_waiter() -> Poll<Result<(), Error>> {
    let mut context = Context::from_waker(Waker::noop());
    WAITER.with_borrow_mut(|waiter| waiter.as_mut().unwrap().as_mut().poll(&mut context))
}

fn waiter_becomes_overdue(_: Completed<'_>) {
    assert!(poll_waiter().is_pending());
    TIME.with(|clock| clock.advance(Nanos::from_millis(1)));
    assert!(poll_waiter().is_pending());
    LATER.with_borrow(|device| {
        let later = &mut [Transfer::write(&[4])];
        let device = device.as_ref().unwrap();
        device.submit_then(later, &|_| {}, 0).unwrap();
    });
}

#[test]
fn an_owner_of_any_kind_hands_the_bus_over_between_the_messages_of_others() {
    for kind in ["poll", "a handle", "a caller"] {
        let probe = Probe::default();
        let clock = TIME.with(Clone::clone);
        let bus = Virtual::sized(controller(&probe), Bare(clock.clone()));
        let bus: &'static Virtual = Box::leak(Box::new(bus));
        let [caller, waits, other] = [0, 1, 2].map(|line| bus.device(device(line)).unwrap());
        WAITER.set(Some(Box::pin(async move {
            waits.transfer_async(&mut [Transfer::write(&[3])]).await
        })));
        LATER.set(Some(bus.device(device(3)).unwrap()));
        let message = &mut [Transfer::write(&[1])];
        other
            .submit_then(message, &waiter_becomes_overdue, 0)
            .unwrap();
        let mut second = other.submit(&mut [Transfer::write(&[2])]).unwrap();
        match kind {
            "poll" => drop(bus.poll()),
            "a handle" => assert_eq!(second.wait(), Ok(())),
            _ => caller.write(&[0]).unwrap(),
        }
        assert_eq!(poll_waiter(), Poll::Ready(Ok(())), "{kind}");
        let mut sent = probe.sent();
        sent.retain(|words| *words != [0]);
        assert_eq!(sent, [[1], [2], [3], [4]], "{kind}");
        WAITER.set(None);
        LATER.set(None);
    }
}

/// A platform whose worker and timer are called from the test.
#[derive(Default)]
struct Manual {
    now: Cell<Nanos>,
}

impl Clock for &Manual {
    fn now(&self) -> Nanos {
        self.now.get()
    }
    /// Returns immediately: the clock does not advance.
    fn wait_until(&self, _: Nanos) {}
}

impl Platform for &Manual {
    fn current(&self) -> Option<Waker> {
        None
    }
    fn block(&self, _: Nanos) {}
    fn poll_at(&self, _: Nanos) -> bool {
        true
    }
}

#[test]
fn a_worker_that_finds_a_full_round_of_messages_at_the_time_of_a_teardown_runs_again() {
    let probe = Probe::default();
    let bus: Bus<_, _, Slots<4, 64, 16>> = Bus::sized(controller(&probe), called());
    let bus: &'static Bus<_, _, Slots<4, 64, 16>> = Box::leak(Box::new(bus));
    let device: &'static _ = Box::leak(Box::new(bus.device(device(0)).unwrap()));
    device.write(&[1]).unwrap();
    work(bus);
    fn nothing(_: Completed<'_>) {}
    pass(bus.platform());
    for _ in 0..64 {
        let message = &mut [Transfer::write(&[2])];
        device.submit_then(message, &nothing, 0).unwrap();
    }
    work(bus);
    assert_eq!(bus.in_line(), 0);
    let statistics = bus.statistics();
    assert_eq!((statistics.messages, statistics.teardowns), (65, 0));
    // It polls again, until the hardware sleeps.
    while bus.platform().next.get() < NEVER {
        work(bus);
    }
    assert_eq!(bus.statistics().teardowns, 1);
}

#[test]
fn a_controller_that_never_completes_is_given_up_even_with_a_stopped_clock() {
    // In a thread, so that an endless loop makes the test fail.
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let manual = Manual::default();
        let probe = Probe::default();
        let bus: Bus<_, _, Slots<4, 4, 16>> = Bus::sized(controller(&probe), &manual);
        let device = bus.device(device(0)).unwrap();
        probe.next(&[Act::NeverAtOnce]);
        let _ = tell.send(device.write(&[1]));
    });
    let ended = told.recv_timeout(common::HANG_LIMIT);
    assert_eq!(ended, Ok(Err(Error::Timeout { transfer: 0 })));
}

#[test]
fn a_future_calls_its_controller_again_at_once_even_with_a_stopped_clock() {
    let manual = Manual::default();
    let probe = Probe::default();
    let bus: Bus<_, _, Slots<4, 4, 16>> = Bus::sized(controller(&probe), &manual);
    let device = bus.device(device(0)).unwrap();
    probe.next(&[Act::Takes(Nanos::ZERO)]);
    let (_, waker) = waker();
    let mut message = [Transfer::write(&[1])];
    let mut future = pin!(device.transfer_async(&mut message));
    assert!(poll(&mut future, &waker).is_pending());
    assert_eq!(poll(&mut future, &waker), Poll::Ready(Ok(())));
}

/// A platform with tasks, and with a worker that is called but never comes.
#[derive(Default)]
struct Deaf(Cell<Nanos>);

impl Clock for Deaf {
    fn now(&self) -> Nanos {
        self.0.get()
    }
}

impl Platform for Deaf {
    fn current(&self) -> Option<Waker> {
        Some(waker().1)
    }
    fn block(&self, until: Nanos) {
        self.0.set(until);
    }
    fn poll_at(&self, _: Nanos) -> bool {
        true
    }
}

#[test]
fn a_handle_waits_for_an_absent_worker_no_longer_than_the_lock_timeout() {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let probe = Probe::default();
        let config = Config {
            submitted: Submitted::ByWorker,
            ..Config::DEFAULT
        };
        let bus: Bus<_, _, Slots<4, 4, 16>> =
            Bus::sized(controller(&probe), Deaf::default()).with_config(config);
        let device = bus.device(device(0)).unwrap();
        let mut pending = device.submit(&mut [Transfer::write(&[1])]).unwrap();
        let ended = pending.wait();
        let _ = tell.send((ended, bus.platform().now()));
    });
    let ended = told.recv_timeout(common::HANG_LIMIT);
    assert_eq!(ended, Ok((Ok(()), TIMEOUT)));
}

#[test]
#[allow(unsafe_code)]
fn a_reset_ends_the_submitted_message_that_a_leaked_future_was_running() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let device = bus.device(device(0)).unwrap();
    let mut pending = Box::new(device.submit(&mut [Transfer::write(&[1])]).unwrap());
    probe.next(&[Act::Interrupts]);
    let (_, waker) = waker();
    let mut message = [Transfer::write(&[2])];
    {
        // In line behind the stored message, which it runs first.
        let mut leaked = Box::pin(device.transfer_async(&mut message));
        assert!(poll(&mut leaked.as_mut(), &waker).is_pending());
        std::mem::forget(leaked);
    }
    assert!(!pending.is_done());
    clock.advance(TIMEOUT);
    // SAFETY: the future that owned the bus was leaked.
    unsafe { bus.reset_leaked() };
    assert_eq!(pending.wait(), failed(0, Fault::Dropped));
    goes_on(&device, &probe);
}

#[test]
fn a_future_that_is_dropped_after_any_number_of_polls_leaves_a_free_bus() {
    let mut polls = 0;
    loop {
        let (bus, probe, clock) = bus(Config::DEFAULT);
        let slow = Settings {
            setup: Nanos::from_micros(10),
            hold: Nanos::from_micros(10),
            ..device(1)
        };
        let slow = bus.device(slow).unwrap();
        let other = bus.device(device(2)).unwrap();
        let kept = slow
            .submit(&mut [Transfer::write(&[7]).delay(Nanos::from_micros(9))])
            .unwrap();
        probe.next(&[Act::Takes(Nanos::from_micros(5)), Act::Takes(Nanos::ZERO)]);
        let mut message = [
            Transfer::write(&[1])
                .delay(Nanos::from_micros(3))
                .cs_change(Nanos::from_micros(4)),
            Transfer::write(&[2]),
        ];
        let mut ready = false;
        {
            let mut future = pin!(slow.transfer_async(&mut message));
            for _ in 0..polls {
                ready = poll(&mut future, Waker::noop()).is_ready();
                clock.advance(Nanos::from_micros(2));
                if ready {
                    break;
                }
            }
        }
        assert_eq!(probe.selected(), None, "after {polls} polls");
        // Until the device is set up, no word of the submitted message is clocked.
        let clocked = polls > 5;
        assert_eq!(bus.in_line(), usize::from(!clocked), "after {polls} polls");
        assert_eq!(kept.is_done(), clocked);
        bus.poll();
        assert!(kept.is_done());
        let sent = probe.sent();
        let times = sent.iter().filter(|sent| **sent == [7]).count();
        assert!(times == 1 || clocked && times == 0, "after {polls} polls");
        goes_on(&other, &probe);
        if ready {
            break;
        }
        polls += 1;
        assert!(polls < 200);
    }
    assert!(polls > 15, "{polls}");
}

#[cfg(feature = "std")]
static CLONES: AtomicUsize = AtomicUsize::new(0);

#[cfg(feature = "std")]
#[allow(unsafe_code)]
fn drop_panics() -> Waker {
    static TABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            CLONES.fetch_add(1, Ordering::Relaxed);
            RawWaker::new(data, &TABLE)
        },
        |_| {},
        |_| {},
        |data| {
            if !data.is_null() && CLONES.load(Ordering::Relaxed) >= 2 {
                panic!("on purpose")
            }
        },
    );
    // SAFETY: the functions in the table do not use the pointer.
    unsafe { Waker::from_raw(RawWaker::new(&raw const TABLE as *const (), &TABLE)) }
}

#[cfg(feature = "std")]
#[test]
fn a_waker_whose_drop_panics_does_not_block_the_bus() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let [owner, device, other] = [0, 1, 2].map(|line| bus.device(device(line)).unwrap());
    let locked = owner.lock().unwrap();
    let waker = std::mem::ManuallyDrop::new(drop_panics());
    let mut message = [Transfer::write(&[1])];
    {
        let mut future = Box::pin(device.transfer_async(&mut message));
        assert!(poll(&mut future.as_mut(), &waker).is_pending());
        drop(locked);
        // This poll takes the bus, and drops a waker.
        assert_eq!(poll(&mut future.as_mut(), &waker), Poll::Ready(Ok(())));
    }
    goes_on(&other, &probe);
}

#[test]
fn a_temporary_device_withdraws_no_message_of_a_living_one() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let first = bus.device(device(1)).unwrap();
    let kept = first.submit(&mut [Transfer::write(&[1])]).unwrap();
    for _ in 0..1 << 16 {
        drop(bus.device(device(2)).unwrap());
    }
    bus.poll();
    assert!(kept.is_done());
    assert_eq!(probe.sent(), [[1]]);
}

#[test]
fn a_bus_has_64_devices_at_a_time_and_the_next_one_is_refused() {
    let (bus, _, _) = bus(Config::DEFAULT);
    let refused = Settings {
        clock: 0,
        ..device(0)
    };
    // A refused device uses no number.
    for _ in 0..100 {
        assert_eq!(bus.device(refused).err(), Some(Invalid::ClockZero));
    }
    let mut devices: Vec<_> = (0..64).map(|_| bus.device(device(0)).unwrap()).collect();
    assert_eq!(bus.device(device(0)).err(), Some(Invalid::TooManyDevices));
    devices.remove(20);
    devices.push(bus.device(device(0)).unwrap());
    assert_eq!(bus.device(device(0)).err(), Some(Invalid::TooManyDevices));
}

#[test]
fn a_new_device_does_not_wait_behind_a_leaked_future_of_a_dropped_one() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let owner = bus.device(device(0)).unwrap();
    let locked = owner.lock().unwrap();
    {
        let gone = bus.device(device(1)).unwrap();
        let mut message = [Transfer::write(&[1])];
        let mut leaked = Box::pin(gone.transfer_async(&mut message));
        assert!(poll(&mut leaked.as_mut(), Waker::noop()).is_pending());
        std::mem::forget(leaked);
    }
    let new = bus.device(device(1)).unwrap();
    let stored = new.submit(&mut [Transfer::write(&[2])]).unwrap();
    drop(locked);
    bus.poll();
    assert!(stored.is_done());
    assert_eq!(probe.sent(), [[2]]);
}

thread_local! {
    /// The bus that the clock accesses.
    static SEEN: Cell<Option<&'static Bus<Probed, Curious, Slots<4, 4, 16>>>> = const { Cell::new(None) };
}

/// A clock that can be read only outside of the bus's critical sections.
#[derive(Default)]
struct Curious(Cell<Nanos>);

impl Clock for Curious {
    fn now(&self) -> Nanos {
        if let Some(bus) = SEEN.get() {
            // This call panics within the critical section.
            bus.in_line();
        }
        self.0.set(self.0.get() + Nanos::from_millis(1));
        self.0.get()
    }
}

impl Platform for Curious {
    fn current(&self) -> Option<Waker> {
        None
    }
    fn block(&self, _: Nanos) {}
}

#[test]
fn the_clock_is_read_outside_of_critical_sections() {
    let probe = Probe::default();
    let bus: Bus<_, _, Slots<4, 4, 16>> = Bus::sized(controller(&probe), Curious::default());
    let bus: &'static Bus<_, _, Slots<4, 4, 16>> = Box::leak(Box::new(bus));
    SEEN.set(Some(bus));
    let [owner, first] = [0, 1].map(|line| bus.device(device(line)).unwrap());
    for polls in 1..=2 {
        let locked = owner.lock().unwrap();
        let (woken, waker) = waker();
        let mut message = [Transfer::write(&[1])];
        let mut future = pin!(first.transfer_async(&mut message));
        // Woken after one poll, and granted the bus after two.
        for _ in 0..polls {
            assert!(poll(&mut future, &waker).is_pending());
        }
        let kept = owner.submit(&mut [Transfer::write(&[2])]).unwrap();
        drop(locked);
        assert_eq!(times(&woken), 1);
        assert_eq!(poll(&mut future, &waker), Poll::Ready(Ok(())));
        bus.poll();
        assert!(kept.is_done());
    }
}

/// A platform whose worker and clock are controlled in the test.
struct Called {
    clock: nostall_devices::VirtualClock,
    /// Time of the next poll.
    next: Cell<Nanos>,
    /// The next poll is at once.
    woken: Cell<bool>,
}

const NEVER: Nanos = Nanos(u64::MAX);

impl Clock for Called {
    fn now(&self) -> Nanos {
        self.clock.now()
    }
}

impl Platform for Called {
    fn current(&self) -> Option<Waker> {
        None
    }
    fn block(&self, _: Nanos) {}
    fn poll_at(&self, at: Nanos) -> bool {
        if at == NEVER {
            return true;
        }
        let at = at.max(self.now());
        self.woken.set(self.woken.get() || at == self.now());
        self.next.set(self.next.get().min(at));
        true
    }
}

type Calling = Bus<Probed, Called, Slots<4, 4, 16>>;

fn called() -> Called {
    Called {
        clock: nostall_devices::VirtualClock::new(),
        next: Cell::new(NEVER),
        woken: Cell::new(false),
    }
}

fn calling(config: Config) -> (Calling, Probe) {
    let probe = Probe::default();
    let bus = Bus::sized(controller(&probe), called());
    (bus.with_config(config), probe)
}

/// Passes the time until the worker's next poll.
fn pass(platform: &Called) {
    platform.clock.advance(platform.next.get() - platform.now());
}

/// Acts as the worker at its next time, which passes.
fn work<T: AnySlots + ?Sized>(bus: &Bus<Probed, Called, T>)
where
    Bus<Probed, Called, T>: std::ops::Deref<Target = Bus<Probed, Called, dyn AnySlots>>,
{
    let platform = bus.platform();
    pass(platform);
    platform.next.set(NEVER);
    platform.woken.set(false);
    let next = bus.poll().unwrap_or(NEVER);
    platform.next.set(platform.next.get().min(next));
}

/// Acts as the worker until it has no time, or until the time `until`.
fn serve(bus: &Calling, until: Nanos) {
    let platform = bus.platform();
    while platform.next.get() <= until {
        work(bus);
    }
    platform.clock.advance(until - platform.now());
}

thread_local! {
    static ENDLESS: RefCell<Option<Device<'static, Probed, Called>>> =
        const { RefCell::new(None) };
}

fn submit_again() {
    ENDLESS.with_borrow(|device| {
        let message = &mut [Transfer::write(&[1])];
        if let Some(device) = device {
            device.submit_then(message, &|_| submit_again(), 0).unwrap();
        }
    });
}

#[test]
fn a_caller_leaves_endless_messages_to_the_worker() {
    let (bus, probe) = calling(Config {
        submitted: Submitted::ByWorker,
        ..Config::DEFAULT
    });
    let bus: &'static Calling = Box::leak(Box::new(bus));
    ENDLESS.set(Some(bus.device(device(1)).unwrap()));
    let caller = bus.device(device(0)).unwrap();
    let locked = caller.lock().unwrap();
    submit_again();
    assert!(!bus.platform().woken.get());
    drop(locked);
    assert_eq!(probe.count(), 1024);
    assert!(bus.platform().woken.get());
    work(bus);
    assert_eq!(probe.count(), 1024 + 64);
    // The last message may end when its device is dropped, and then looks for the device.
    drop(ENDLESS.take());
}

#[test]
fn the_worker_takes_the_bus_back_from_a_granted_future_that_does_not_come() {
    for idle_timeout in [Nanos::ZERO, Nanos::from_secs(1), TIMEOUT * 2] {
        // Sleeping hardware sets no timer of its own.
        for awake in [false, true] {
            let (bus, probe) = calling(Config {
                idle_timeout,
                ..Config::DEFAULT
            });
            let [owner, late, next, other] =
                [0, 1, 2, 3].map(|line| bus.device(device(line)).unwrap());
            if awake {
                owner.write(&[9]).unwrap();
                probe.told();
            }
            let (woken, next_waker) = waker();
            let (mut first, mut second) = ([Transfer::write(&[1])], [Transfer::write(&[2])]);
            let mut late = Box::pin(late.transfer_async(&mut first));
            let mut next = pin!(next.transfer_async(&mut second));
            let locked = owner.lock().unwrap();
            assert!(poll(&mut late.as_mut(), Waker::noop()).is_pending());
            serve(&bus, Nanos::from_millis(1));
            assert!(poll(&mut late.as_mut(), Waker::noop()).is_pending());
            assert!(poll(&mut next, &next_waker).is_pending());
            drop(locked);
            let stored = other.submit(&mut [Transfer::write(&[3])]).unwrap();
            std::mem::forget(late);
            // The bus was granted at 1 ms.
            let over = Nanos::from_millis(1) + TIMEOUT;
            serve(&bus, over - Nanos(1));
            assert_eq!((times(&woken), stored.is_done()), (0, false));
            serve(&bus, over);
            assert_eq!(times(&woken), 1, "{idle_timeout}, {awake}");
            assert!(stored.is_done(), "{idle_timeout}, {awake}");
            assert_eq!(poll(&mut next, &next_waker), Poll::Ready(Ok(())));
            assert_eq!(probe.sent(), [[3], [2]]);
        }
    }
}

#[test]
fn each_of_four_futures_behind_a_leaked_owner_ends_after_its_own_lock_timeout() {
    // A worker's platform without timers for futures: the bus's timer wakes them.
    let (bus, _) = calling(Config::DEFAULT);
    let devices = [0, 1, 2, 3, 0].map(|line| bus.device(device(line)).unwrap());
    let [owner, others @ ..] = &devices;
    std::mem::forget(owner.lock().unwrap());
    let mut messages: [_; 4] = std::array::from_fn(|n| [[n as u8]]);
    let mut waits: Vec<_> = others
        .iter()
        .zip(&mut messages)
        .map(|(device, message)| {
            let (woken, waker) = waker();
            let send = async move {
                let mut transfers = [Transfer::write(&message[0])];
                device.transfer_async(&mut transfers).await
            };
            (Some(Box::pin(send)), woken, waker, bus.platform().now())
        })
        .collect();
    for (future, _, waker, _) in &mut waits {
        assert!(poll(&mut future.as_mut().unwrap().as_mut(), waker).is_pending());
    }
    let tick = Nanos::from_millis(10);
    let mut ends = Vec::new();
    while bus.platform().now() < TIMEOUT * 7 && ends.len() < 4 {
        serve(&bus, bus.platform().now() + tick);
        for (future, woken, waker, since) in &mut waits {
            if let Some(pending) = future
                && woken.0.swap(0, Ordering::Relaxed) > 0
                && poll(&mut pending.as_mut(), waker).is_ready()
            {
                *future = None;
                ends.push(bus.platform().now() - *since);
            }
        }
    }
    assert_eq!(ends.len(), 4);
    assert!(
        ends.iter().all(|took| *took <= TIMEOUT + tick * 2),
        "{ends:?}"
    );
}

#[test]
fn a_handle_behind_a_leaked_owner_is_woken_by_the_workers_timer() {
    // Sleeping hardware sets no timer of its own.
    for awake in [false, true] {
        let (bus, probe) = calling(Config::DEFAULT);
        let [owner, device] = [0, 1].map(|line| bus.device(device(line)).unwrap());
        if awake {
            owner.write(&[9]).unwrap();
            probe.told();
        }
        std::mem::forget(owner.lock().unwrap());
        let mut pending = device.submit(&mut [Transfer::write(&[1])]).unwrap();
        let (woken, waker) = waker();
        let mut future = pin!(pending.finished());
        assert!(poll(&mut future, &waker).is_pending());
        serve(&bus, TIMEOUT - Nanos(1));
        assert_eq!(times(&woken), 0, "{awake}");
        serve(&bus, TIMEOUT);
        assert_eq!(times(&woken), 1, "{awake}");
        let abandoned = Err(Error::Abandoned);
        assert_eq!(poll(&mut future, &waker), Poll::Ready(abandoned));
        assert_eq!(probe.count(), 0);
    }
}

#[test]
fn a_handle_whose_message_a_leaked_owner_was_running_is_woken_by_the_workers_timer() {
    let (bus, probe) = calling(Config::DEFAULT);
    let device = bus.device(device(0)).unwrap();
    let mut pending = device.submit(&mut [Transfer::write(&[1])]).unwrap();
    probe.next(&[Act::Interrupts]);
    let mut message = [Transfer::write(&[2])];
    {
        // In line behind the stored message, which it runs first.
        let mut leaked = Box::pin(device.transfer_async(&mut message));
        assert!(poll(&mut leaked.as_mut(), Waker::noop()).is_pending());
        std::mem::forget(leaked);
    }
    let (woken, waker) = waker();
    let mut future = pin!(pending.finished());
    assert!(poll(&mut future, &waker).is_pending());
    serve(&bus, TIMEOUT);
    assert_eq!(times(&woken), 1);
    let unfinished = Err(Error::Unfinished);
    assert_eq!(poll(&mut future, &waker), Poll::Ready(unfinished));
}

#[test]
fn poll_returns_the_end_of_the_wait_of_a_handle() {
    let (bus, _, clock) = bus(Config {
        idle_timeout: TIMEOUT * 100,
        ..Config::DEFAULT
    });
    let [owner, device] = [0, 1].map(|line| bus.device(device(line)).unwrap());
    std::mem::forget(owner.lock().unwrap());
    let mut pending = device.submit(&mut [Transfer::write(&[1])]).unwrap();
    let (woken, waker) = waker();
    let mut future = pin!(pending.finished());
    assert!(poll(&mut future, &waker).is_pending());
    assert_eq!(bus.poll(), Some(TIMEOUT));
    clock.advance(TIMEOUT);
    // A handle that was woken and does not come sets no earlier time.
    assert_eq!(bus.poll(), Some(TIMEOUT * 2));
    assert_eq!(times(&woken), 1);
    clock.advance(TIMEOUT);
    assert_eq!(bus.poll(), Some(TIMEOUT * 102));
    let abandoned = Err(Error::Abandoned);
    assert_eq!(poll(&mut future, &waker), Poll::Ready(abandoned));
}

#[test]
fn a_wait_shorter_than_the_idle_timeout_does_not_put_the_hardware_to_sleep_early() {
    let lock_timeout = Nanos::from_millis(100);
    let (bus, probe) = calling(Config {
        lock_timeout,
        ..Config::DEFAULT
    });
    let idle = Config::DEFAULT.idle_timeout;
    let [owner, waits] = [0, 1].map(|line| bus.device(device(line)).unwrap());
    owner.write(&[1]).unwrap();
    let joined = idle - lock_timeout / 2;
    serve(&bus, joined);
    owner.write(&[2]).unwrap();
    {
        let mut message = [Transfer::write(&[3])];
        let mut future = pin!(waits.transfer_async(&mut message));
        let _locked = owner.lock().unwrap();
        assert!(poll(&mut future, Waker::noop()).is_pending());
    }
    probe.told();
    // The waiter's timer expires here, with half the idle timeout left.
    serve(&bus, joined + lock_timeout);
    assert_eq!(probe.told(), []);
    owner.write(&[4]).unwrap();
    serve(&bus, idle * 10);
    let statistics = bus.statistics();
    assert_eq!((statistics.preparations, statistics.teardowns), (1, 1));
}

#[test]
fn a_message_longer_than_the_idle_timeout_wakes_no_worker() {
    let (bus, probe) = calling(Config::DEFAULT);
    let device = bus.device(device(0)).unwrap();
    let idle = Config::DEFAULT.idle_timeout;
    {
        let mut locked = device.lock().unwrap();
        locked.sync(&mut [Transfer::write(&[1])]).unwrap();
        serve(&bus, idle * 10);
        assert_eq!(bus.statistics().wakeups, 0);
    }
    assert_eq!(probe.told().last(), Some(&Release(0)));
    serve(&bus, idle * 20);
    let statistics = bus.statistics();
    // The timer of the worker is no wake-up.
    assert_eq!((statistics.wakeups, statistics.teardowns), (0, 1));
    assert_eq!(probe.told(), [Unprepare]);
}

#[test]
fn a_caller_on_an_idle_bus_wakes_no_worker_and_the_teardown_is_no_wake_up_either() {
    const MESSAGES: u32 = if cfg!(miri) { 5 } else { 1_000 };
    let (bus, probe) = calling(Config::DEFAULT);
    let device = bus.device(device(1)).unwrap();
    for _ in 0..MESSAGES {
        device.write(&[1]).unwrap();
    }
    // The first idle timeout had traffic, the second one had none.
    work(&bus);
    let statistics = bus.statistics();
    assert_eq!((statistics.wakeups, statistics.teardowns), (0, 0));
    assert!(!bus.platform().woken.get());
    work(&bus);
    let statistics = bus.statistics();
    assert_eq!((statistics.wakeups, statistics.teardowns), (0, 1));
    assert_eq!(statistics.by_worker, 0);
    assert_eq!(statistics.sync_immediate, MESSAGES);
    assert_eq!(probe.told().last(), Some(&Unprepare));
}

#[test]
fn a_message_left_to_the_worker_on_an_idle_bus_wakes_it_once() {
    let (bus, probe) = calling(Config {
        submitted: Submitted::ByWorker,
        ..Config::DEFAULT
    });
    let device = bus.device(device(1)).unwrap();
    let pending = [1, 2].map(|byte| device.submit(&mut [Transfer::write(&[byte])]).unwrap());
    assert!(bus.platform().woken.get());
    work(&bus);
    assert!(pending.iter().all(|pending| pending.is_done()));
    let statistics = bus.statistics();
    assert_eq!((statistics.wakeups, statistics.by_worker), (1, 2));
    assert_eq!(probe.sent(), [[1], [2]]);
}

#[test]
fn a_worker_that_finds_the_bus_in_use_at_the_time_of_a_teardown_runs_again() {
    let (bus, probe) = calling(Config::DEFAULT);
    let bus: &'static Calling = Box::leak(Box::new(bus));
    let device: &'static _ = Box::leak(Box::new(bus.device(device(1)).unwrap()));
    device.write(&[1]).unwrap();
    work(bus);
    pass(bus.platform());
    std::mem::forget(device.lock().unwrap());
    work(bus);
    assert_eq!(bus.statistics().teardowns, 0);
    assert_eq!(probe.told().last(), Some(&Release(1)));
    // SAFETY: the lock was leaked.
    unsafe { bus.reset_leaked() };
    probe.told();
    serve(bus, Config::DEFAULT.idle_timeout * 4);
    assert_eq!(probe.told(), [Unprepare]);
}

#[test]
fn an_awaited_delay_ends_even_if_the_clock_stops_or_is_set_back() {
    for back in [false, true] {
        let manual = Manual::default();
        manual.now.set(Nanos::from_secs(7_200));
        let probe = Probe::default();
        let bus: Bus<_, _, Slots<4, 4, 16>> = Bus::sized(controller(&probe), &manual);
        let device = bus.device(device(0)).unwrap();
        let span = Nanos::from_millis(1);
        let mut message = [Transfer::write(&[1]).delay(span)];
        let mut future = pin!(device.transfer_async(&mut message));
        let mut polls = 0;
        while poll(&mut future, Waker::noop()).is_pending() {
            polls += 1;
            assert!(polls < 20_000_000, "back: {back}");
            if back {
                // The clock goes back by an hour once, then continues.
                let now = match polls {
                    1 => Nanos::from_secs(3_600),
                    _ => manual.now.get() + span / 4,
                };
                manual.now.set(now);
            }
        }
        assert_eq!(polls < 10, back);
    }
}

/// A clock whose time changes only after a number of reads.
#[derive(Default)]
struct Ticks(Cell<u64>);

impl Clock for Ticks {
    fn now(&self) -> Nanos {
        self.0.set(self.0.get() + 1);
        Nanos::from_millis(10) * (self.0.get() / 100_000)
    }
}

impl Platform for Ticks {
    fn current(&self) -> Option<Waker> {
        None
    }
    fn block(&self, _: Nanos) {}
}

#[test]
fn a_delay_is_not_shortened_by_a_clock_with_long_ticks() {
    let probe = Probe::default();
    let bus: Bus<_, _, Slots<4, 4, 16>> = Bus::sized(controller(&probe), Ticks::default());
    let device = bus.device(device(0)).unwrap();
    let span = Nanos::from_millis(30);
    let start = bus.platform().now();
    device
        .sync(&mut [Transfer::write(&[1]).delay(span)])
        .unwrap();
    assert!(bus.platform().now() - start >= span);
}

#[test]
fn a_submitted_message_without_a_clocked_word_outlives_the_future_that_ran_it() {
    let (bus, probe, _) = bus(Config::DEFAULT);
    let slow = Settings {
        setup: Nanos::from_micros(10),
        ..device(1)
    };
    let slow = bus.device(slow).unwrap();
    let mut pending = slow.submit(&mut [Transfer::write(&[1])]).unwrap();
    let later = slow.submit(&mut [Transfer::write(&[2])]).unwrap();
    {
        let mut future = pin!(pending.finished());
        assert!(poll(&mut future, Waker::noop()).is_pending());
        assert_eq!(probe.selected(), Some(1));
    }
    assert_eq!(probe.selected(), None);
    assert!(!pending.is_done());
    bus.poll();
    assert_eq!(pending.wait(), Ok(()));
    assert!(later.is_done());
    assert_eq!(probe.sent(), [[1], [2]]);
}

#[test]
fn a_controller_that_never_completes_is_given_up_after_a_bounded_number_of_polls() {
    for act in [Act::Never, Act::NeverInterrupts] {
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let manual = Manual::default();
            let probe = Probe::default();
            let bus: Bus<_, _, Slots<4, 4, 16>> = Bus::sized(controller(&probe), &manual);
            let device = bus.device(device(0)).unwrap();
            probe.next(&[act]);
            let _ = tell.send(device.write(&[1]));
        });
        let ended = told.recv_timeout(common::HANG_LIMIT);
        assert_eq!(ended, Ok(Err(Error::Timeout { transfer: 0 })), "{act:?}");
    }
}

/// A platform of tasks whose clock is stopped, and which does not block.
#[derive(Default)]
struct Frozen(Cell<u32>);

impl Clock for Frozen {
    fn now(&self) -> Nanos {
        Nanos::from_secs(1)
    }
}

impl Platform for Frozen {
    fn current(&self) -> Option<Waker> {
        Some(Waker::noop().clone())
    }
    fn block(&self, _: Nanos) {
        self.0.set(self.0.get() + 1);
        // Two waits of ten seconds each, with 200 us per poll.
        assert!(self.0.get() < 110_000);
    }
}

#[test]
fn a_caller_and_a_handle_wait_for_a_bounded_number_of_polls_even_with_a_stopped_clock() {
    for granted in [false, true] {
        let probe = Probe::default();
        let bus: Bus<_, _, Slots<4, 4, 16>> = Bus::sized(controller(&probe), Frozen::default());
        let [owner, late, other] = [0, 1, 2].map(|line| bus.device(device(line)).unwrap());
        let locked = owner.lock().unwrap();
        let mut message = [Transfer::write(&[1])];
        let mut leaked = Box::pin(late.transfer_async(&mut message));
        // Overdue after this number of polls.
        for _ in 0..20 {
            assert!(poll(&mut leaked.as_mut(), Waker::noop()).is_pending());
        }
        match granted {
            true => drop(locked),
            false => std::mem::forget(locked),
        }
        std::mem::forget(leaked);
        let mut stored = other.submit(&mut [Transfer::write(&[2])]).unwrap();
        assert_eq!(stored.wait(), Err(Error::Abandoned));
        let ended = other.write(&[3]);
        let over = [Err(Error::Abandoned), Err(Error::BusHeld)].contains(&ended);
        assert!(over, "{ended:?}");
        assert_eq!(probe.count(), 0);
    }
}

#[test]
fn an_owner_in_a_long_transfer_is_not_gone_before_the_time_limit_of_the_transfer() {
    for leaked in [false, true] {
        let (bus, probe, clock) = bus(Config::DEFAULT);
        let [owner, device, other] = [0, 1, 2].map(|line| bus.device(device(line)).unwrap());
        // At 1 MHz, the transfer takes 16 s, and its limit is 32.2 s.
        let span = Nanos::from_secs(16);
        probe.next(&[Act::Takes(span)]);
        let bytes = vec![1; 2_000_000];
        let mut long = [Transfer::write(&bytes)];
        let mut long = Box::pin(owner.transfer_async(&mut long));
        assert!(poll(&mut long.as_mut(), Waker::noop()).is_pending());
        let mut pending = other.submit(&mut [Transfer::write(&[2])]).unwrap();
        let mut finished = pin!(pending.finished());
        assert!(poll(&mut finished, Waker::noop()).is_pending());
        let send = async || device.transfer_async(&mut [Transfer::write(&[3])]).await;
        let mut waits = pin!(send());
        assert!(poll(&mut waits, Waker::noop()).is_pending());
        clock.advance(TIMEOUT);
        let held = Err(Error::BusHeld);
        assert_eq!(poll(&mut waits, Waker::noop()), Poll::Ready(held));
        assert!(poll(&mut finished, Waker::noop()).is_pending());
        if !leaked {
            clock.advance(span - TIMEOUT);
            assert_eq!(poll(&mut long.as_mut(), Waker::noop()), Poll::Ready(Ok(())));
            assert_eq!(poll(&mut finished, Waker::noop()), Poll::Ready(Ok(())));
            continue;
        }
        std::mem::forget(long);
        clock.advance(TIMEOUT);
        let mut waits = pin!(send());
        assert!(poll(&mut waits, Waker::noop()).is_pending());
        clock.advance(TIMEOUT + Nanos::from_secs(3));
        let abandoned = Err(Error::Abandoned);
        assert_eq!(poll(&mut waits, Waker::noop()), Poll::Ready(abandoned));
        assert_eq!(poll(&mut finished, Waker::noop()), Poll::Ready(abandoned));
    }
}

#[test]
fn an_owner_in_a_long_message_of_short_transfers_is_not_gone() {
    let (bus, probe, clock) = bus(Config::DEFAULT);
    let [owner, device] = [0, 1].map(|line| bus.device(device(line)).unwrap());
    // At 1 MHz, each transfer takes 16 ms, and all take 16 s.
    let span = Nanos::from_millis(16);
    probe.next(&[Act::Takes(span); 1000]);
    let bytes = [1; 2_000];
    let mut long: Vec<_> = (0..1000).map(|_| Transfer::write(&bytes)).collect();
    let mut long = pin!(owner.transfer_async(&mut long));
    let mut message = [Transfer::write(&[3])];
    let mut waits = pin!(device.transfer_async(&mut message));
    let mut ended = None;
    while poll(&mut long, Waker::noop()).is_pending() {
        if ended.is_none()
            && let Poll::Ready(result) = poll(&mut waits, Waker::noop())
        {
            ended = Some((result, now(&clock) >= TIMEOUT));
        }
        clock.advance(span);
    }
    assert_eq!(ended, Some((Err(Error::BusHeld), true)));
}

/// Calls `poll` only at the times that it returned, up to `until`.
fn poll_as_asked(bus: &Virtual, clock: &nostall_devices::VirtualClock, until: Nanos) {
    let mut calls = 0;
    while let Some(at) = bus.poll().filter(|at| *at <= until) {
        clock.advance(at - now(clock));
        calls += 1;
        assert!(calls < 100_000);
    }
}

#[test]
fn poll_returns_the_end_of_a_wait_for_any_idle_timeout() {
    for idle_timeout in [Nanos::from_millis(1), TIMEOUT * 2, Nanos(u64::MAX)] {
        for granted in [false, true] {
            let (bus, probe, clock) = bus(Config {
                idle_timeout,
                ..Config::DEFAULT
            });
            let [owner, device] = [0, 1].map(|line| bus.device(device(line)).unwrap());
            owner.write(&[9]).unwrap();
            probe.told();
            let mut message = [Transfer::write(&[1])];
            let mut late = Box::pin(device.transfer_async(&mut message));
            let locked = owner.lock().unwrap();
            assert!(poll(&mut late.as_mut(), Waker::noop()).is_pending());
            if granted {
                clock.advance(Nanos::from_millis(1));
                assert!(poll(&mut late.as_mut(), Waker::noop()).is_pending());
            }
            let stored = device.submit(&mut [Transfer::write(&[2])]).unwrap();
            drop(locked);
            std::mem::forget(late);
            poll_as_asked(&bus, &clock, TIMEOUT * 3);
            assert!(stored.is_done(), "{idle_timeout}, granted: {granted}");
            assert_eq!(probe.sent(), [[2]]);
        }
    }
}

#[test]
fn poll_returns_the_end_of_a_transfer_for_any_idle_timeout() {
    let (bus, probe, clock) = bus(Config {
        idle_timeout: Nanos(u64::MAX),
        ..Config::DEFAULT
    });
    let device = bus.device(device(0)).unwrap();
    let (woken, waker) = waker();
    probe.next(&[Act::NeverInterrupts]);
    let mut message = [Transfer::write(&[1])];
    let mut future = pin!(device.transfer_async(&mut message));
    assert!(poll(&mut future, &waker).is_pending());
    let at = bus.poll().unwrap();
    assert!(at <= Nanos::from_secs(1), "{at}");
    clock.advance(at - now(&clock));
    bus.poll();
    assert_eq!(times(&woken), 1);
    let timeout = Err(Error::Timeout { transfer: 0 });
    assert_eq!(poll(&mut future, &waker), Poll::Ready(timeout));
}

/// A clock with ticks of 100 ms but exact waits.
#[derive(Default)]
struct Coarse(Cell<Nanos>);

impl Clock for Coarse {
    fn now(&self) -> Nanos {
        let tick = Nanos::from_millis(100);
        tick * (self.0.get().0 / tick.0)
    }
    fn wait_until(&self, deadline: Nanos) {
        // Waits at least for the time since the last tick.
        self.0.set(self.0.get() + (deadline - self.now()));
    }
}

impl Platform for Coarse {
    fn current(&self) -> Option<Waker> {
        None
    }
    fn block(&self, _: Nanos) {}
}

#[test]
fn a_transfer_that_completes_in_time_is_not_given_up_if_waits_are_finer_than_the_clock() {
    let probe = Probe::default();
    let bus: Bus<_, _, Slots<4, 4, 16>> = Bus::sized(controller(&probe), Coarse::default());
    let device = bus.device(device(0)).unwrap();
    // The transfer takes 16 ms at 1 MHz, in FIFOs of 8 bytes.
    let bytes = [1; 2_000];
    probe.next(&[Act::Takes(Nanos::from_millis(16))]);
    probe.pieces(250 * 10);
    assert_eq!(device.write(&bytes), Ok(()));
    // The caller polls for the interrupt, with 1 us per poll.
    probe.next(&[Act::InterruptsAfter(10_000)]);
    assert_eq!(device.write(&bytes), Ok(()));
}

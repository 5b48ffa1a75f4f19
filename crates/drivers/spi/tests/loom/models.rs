//! The models: three contexts or more for every hand-over.
//!
//! | the bus is | contexts in the models |
//! | --- | --- |
//! | idle, taken | callers, futures, a turn of several messages, an interrupt handler, a beginning worker |
//! | owned while another waits | callers, futures, submitters; a future that is dropped, a driver or a callback that panics |
//! | granted | the waiter that comes, comes late, never comes or is dropped; callers, a handle, an interrupt handler, `poll` |
//! | left with stored messages | the worker, a worker that ends, handles, dropped handles, a dropped device, callers, an interrupt handler, `poll` |
//! | waiting for the controller | its interrupt handler, a caller, a future; the timer if no interrupt comes |
//! | owned by a context that is gone | futures, the timer |

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc as StdArc;
use std::sync::atomic::{AtomicUsize, Ordering as StdOrdering};
use std::task::{Context, Poll, Waker};

use embedded_hal::spi::Operation;
use loom::sync::Arc;
use loom::thread;
use nostall_io::Nanos;

use crate::platform::Platform;
use crate::sync::{AtomicU32, Ordering};
use crate::world::{HasWorker, Token, World, ahead, in_interrupt};
use crate::{
    AsyncController, Bus, Capabilities, Completed, Config, Controller, Error, Fault, Level,
    Progress, Select, Settings, Slots, Submitted, Transfer, Waits, Wire, Words,
};

/// A controller that records the sent bytes.
struct Paper {
    sent: Vec<u8>,
    selected: bool,
    prepared: bool,
    aborts: usize,
    /// Not 0 after the interrupt handler has seen the end of the transfer of [`INTERRUPTS`].
    through: Arc<AtomicU32>,
}

impl Default for Paper {
    fn default() -> Self {
        Self {
            sent: Vec::new(),
            selected: false,
            prepared: false,
            aborts: 0,
            through: Arc::new(AtomicU32::new(0)),
        }
    }
}

impl Controller for Paper {
    fn capabilities(&self) -> Capabilities {
        Capabilities::all(1)
    }

    fn prepare(&mut self) -> Result<(), Fault> {
        assert!(!std::mem::replace(&mut self.prepared, true));
        Ok(())
    }

    fn unprepare(&mut self) {
        assert!(std::mem::replace(&mut self.prepared, false));
        assert!(!self.selected);
    }

    fn set(&mut self, wire: &Wire) -> Result<u32, Fault> {
        Ok(wire.clock)
    }

    fn select(&mut self, level: Level) -> Result<(), Fault> {
        self.selected = level == Level::Asserted;
        Ok(())
    }

    fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault> {
        assert!(self.prepared && self.selected);
        let interrupts = matches!(words.operation(), Operation::Write([INTERRUPTS]));
        if interrupts && self.through.load(Ordering::Acquire) == 0 {
            return Ok(Progress::Interrupt);
        }
        while let Some(word) = words.next_word() {
            if word == PANICS {
                on_purpose();
            }
            self.sent.push(word as u8);
            words.receive(word + 100);
        }
        Ok(Progress::Done)
    }

    fn abort(&mut self) -> Result<(), Fault> {
        self.selected = false;
        self.aborts += 1;
        Ok(())
    }
}

/// Panics without a message, because there would be thousands of them.
fn on_purpose() -> ! {
    resume_unwind(Box::new("on purpose"))
}

/// The byte on which the driver panics.
const PANICS: u32 = 99;

/// The byte whose transfer ends with an interrupt.
const INTERRUPTS: u8 = 98;

/// Every transfer takes one poll.
impl AsyncController for Paper {
    async fn transfer_async(
        &mut self,
        words: &mut Words<'_>,
        waits: &impl Waits,
    ) -> Result<(), Fault> {
        let mut polled = false;
        std::future::poll_fn(|context| {
            if std::mem::replace(&mut polled, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        while self.transfer(words)? == Progress::Interrupt {
            waits.wait(Progress::Interrupt).await;
        }
        Ok(())
    }
}

type Paperwork = Bus<Paper, World, Slots<3, 2, 2>>;

fn bus(has_worker: HasWorker) -> Arc<Paperwork> {
    on(World::new(has_worker))
}

fn on(world: World) -> Arc<Paperwork> {
    made(Bus::sized(Paper::default(), world))
}

/// Returns a bus that leaves submitted messages to its worker.
fn left_to_worker(has_worker: HasWorker) -> Arc<Paperwork> {
    let config = Config {
        submitted: Submitted::ByWorker,
        ..Config::DEFAULT
    };
    made(Bus::sized(Paper::default(), World::new(has_worker)).with_config(config))
}

fn made(bus: Paperwork) -> Arc<Paperwork> {
    // The bus reads the capabilities once.
    drop(bus.device(settings()).unwrap());
    Arc::new(bus)
}

/// Runs another context of the same bus.
fn spawn<T: 'static>(
    bus: &Arc<Paperwork>,
    context: impl FnOnce(&Paperwork) -> T + 'static,
) -> thread::JoinHandle<T> {
    let bus = bus.clone();
    thread::spawn(move || context(&bus))
}

/// Polls a future in this context.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    let waker = Token::mine().into();
    future.poll(&mut Context::from_waker(&waker))
}

fn settings() -> Settings {
    Settings::new(1_000_000, 0)
}

/// Starts a worker as in a kernel.
fn worker(bus: &Arc<Paperwork>) -> thread::JoinHandle<()> {
    let its = bus.clone();
    thread::spawn(move || {
        while its.platform.stop.load(Ordering::Acquire) == 0 {
            if its.platform.woken.swap(0, Ordering::AcqRel) != 0 {
                its.poll();
            } else {
                its.platform.worker.park();
            }
        }
    })
}

fn stop(bus: &Paperwork, worker: thread::JoinHandle<()>) {
    bus.platform.stop.store(1, Ordering::Release);
    bus.platform.worker.unpark();
    worker.join().unwrap();
}

/// Sends a message of one byte on a device of its own.
fn sync(bus: &Paperwork, byte: u8) {
    let device = bus.device(settings()).unwrap();
    let mut came = [byte];
    device.sync(&mut [Transfer::in_place(&mut came)]).unwrap();
    assert_eq!(came, [byte + 100]);
}

/// Sends the same message as a future, on an executor of its own.
fn awaited(bus: &Paperwork, byte: u8) {
    let device = bus.device(settings()).unwrap();
    let mut came = [byte];
    let mut message = [Transfer::in_place(&mut came)];
    block_on(pin!(device.transfer_async(&mut message))).unwrap();
    assert_eq!(came, [byte + 100]);
}

fn block_on<F: Future>(mut future: Pin<&mut F>) -> F::Output {
    let token = Token::mine();
    let waker = Waker::from(token.clone());
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => token.park(),
        }
    }
}

/// Returns all sent bytes. Checks that the bus is idle and empty.
fn sent(bus: &Paperwork) -> Vec<u8> {
    assert_eq!(bus.gate.word(), 0, "the gate of an idle bus");
    let sent = bus.with_controller(|paper| {
        assert!(!paper.selected);
        std::mem::take(&mut paper.sent)
    });
    sent.expect("the bus is free")
}

fn sorted(mut sent: Vec<u8>) -> Vec<u8> {
    sent.sort_unstable();
    sent
}

/// Runs a model in every order with this number of preemptions, and prints the number of orders.
fn model(name: &str, preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    run(name, bound().unwrap_or(preemptions), model);
}

/// The same for a model with a timer that loops: at most two preemptions, and one by default. Three
/// take more than ten minutes.
fn model_with_timer(name: &str, model: impl Fn() + Sync + Send + 'static) {
    run(name, bound().unwrap_or(1).min(2), model);
}

fn bound() -> Option<usize> {
    let bound = std::env::var("NOSTALL_LOOM_BOUND").ok()?;
    bound.parse().ok()
}

fn run(name: &str, bound: usize, model: impl Fn() + Sync + Send + 'static) {
    let orders = StdArc::new(AtomicUsize::new(0));
    let counted = orders.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound);
    builder.max_branches = 10_000;
    builder.check(move || {
        counted.fetch_add(1, StdOrdering::Relaxed);
        model();
    });
    let orders = orders.load(StdOrdering::Relaxed);
    println!("{name}: {orders} orders with {bound} preemptions");
    assert!(orders > 1, "no contexts ran concurrently");
}

#[test]
fn three_callers_are_all_served_once() {
    model("three callers", 3, || {
        let bus = bus(HasWorker::No);
        let others = [1, 2].map(|byte| spawn(&bus, move |its| sync(its, byte)));
        sync(&bus, 3);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(sorted(sent(&bus)), [1, 2, 3]);
        assert_eq!(bus.statistics().messages, 3);
    });
}

#[test]
fn a_caller_a_future_and_a_submitter_are_all_served_once() {
    model("caller, future, submitter", 2, || {
        let bus = bus(HasWorker::No);
        let caller = spawn(&bus, move |its| sync(its, 1));
        let future = spawn(&bus, move |its| awaited(its, 2));
        let device = bus.device(settings()).unwrap();
        let mut pending = device.submit(&mut [Transfer::write(&[3])]).unwrap();
        pending.wait().unwrap();
        drop(pending);
        caller.join().unwrap();
        future.join().unwrap();
        assert_eq!(sorted(sent(&bus)), [1, 2, 3]);
        assert_eq!(bus.statistics().messages, 3);
    });
}

#[test]
fn a_locked_bus_is_handed_on_and_no_message_comes_between() {
    model("turn, caller, caller", 3, || {
        let bus = bus(HasWorker::No);
        let turn = spawn(&bus, move |its| {
            let device = its.device(settings()).unwrap();
            let mut locked = device.lock().unwrap();
            locked.sync(&mut [Transfer::write(&[1])]).unwrap();
            locked.sync(&mut [Transfer::write(&[2])]).unwrap();
        });
        let long = spawn(&bus, move |its| {
            // This message is longer than a submitted one may be.
            let device = its.device(settings()).unwrap();
            device.write(&[7, 8, 9]).unwrap();
        });
        sync(&bus, 3);
        turn.join().unwrap();
        long.join().unwrap();
        let sent = sent(&bus);
        let follows = |a: u8, b: u8| sent.windows(2).any(|pair| pair == [a, b]);
        assert!(follows(1, 2) && follows(7, 8) && follows(8, 9), "{sent:?}");
        assert_eq!(sent.len(), 6);
    });
}

#[test]
fn messages_of_one_device_keep_their_order() {
    model("order within a device", 2, || {
        let bus = bus(HasWorker::No);
        let other = spawn(&bus, move |its| sync(its, 9));
        let locks = spawn(&bus, move |its| {
            drop(its.device(settings()).unwrap().lock())
        });
        let device = bus.device(settings()).unwrap();
        let mut first = device.submit(&mut [Transfer::write(&[1])]).unwrap();
        device.sync(&mut [Transfer::write(&[2, 3, 4])]).unwrap();
        assert!(first.is_done());
        first.wait().unwrap();
        drop(first);
        other.join().unwrap();
        locks.join().unwrap();
        let sent = sent(&bus);
        let ours: Vec<_> = sent.into_iter().filter(|byte| *byte != 9).collect();
        assert_eq!(ours, [1, 2, 3, 4]);
    });
}

#[test]
fn a_message_of_an_interrupt_handler_is_run_once() {
    model("interrupt, caller, worker", 2, || {
        let mut world = World::new(HasWorker::Yes);
        world.tasks = false;
        let bus = on(world);
        let worker = worker(&bus);
        let handler = spawn(&bus, move |its| {
            let device = its.device(settings()).unwrap();
            let kept = device.submit(&mut [Transfer::write(&[1])]).unwrap();
            // The handle is kept.
            while !kept.is_done() {
                thread::yield_now();
            }
        });
        let device = bus.device(settings()).unwrap();
        match device.write(&[2]) {
            Ok(()) | Err(Error::WouldBlock) => {}
            Err(error) => panic!("{error}"),
        }
        handler.join().unwrap();
        stop(&bus, worker);
        bus.poll();
        assert!(sent(&bus).contains(&1));
        // The worker is woken at most once for it.
        assert!(bus.statistics().wakeups <= 1);
    });
}

#[test]
fn a_message_left_to_the_worker_is_run_in_it_or_in_a_waiting_context() {
    model("worker, submitter, caller", 2, || {
        let bus = left_to_worker(HasWorker::Yes);
        let worker = worker(&bus);
        let caller = spawn(&bus, move |its| sync(its, 1));
        {
            let device = bus.device(settings()).unwrap();
            let mut pending = device.submit(&mut [Transfer::write(&[2])]).unwrap();
            pending.wait().unwrap();
        }
        caller.join().unwrap();
        stop(&bus, worker);
        assert_eq!(sorted(sent(&bus)), [1, 2]);
        assert!(bus.statistics().wakeups <= 1);
    });
}

#[test]
fn a_worker_that_ends_leaves_no_message_behind() {
    model("ending worker, submitter, caller", 2, || {
        let bus = left_to_worker(HasWorker::Yes);
        // The worker ends without having run once.
        let ends = spawn(&bus, |its| {
            its.platform.serves.swap(0, Ordering::AcqRel);
            its.poll();
        });
        let caller = spawn(&bus, move |its| sync(its, 1));
        {
            let device = bus.device(settings()).unwrap();
            let mut pending = device.submit(&mut [Transfer::write(&[2])]).unwrap();
            pending.wait().unwrap();
        }
        caller.join().unwrap();
        ends.join().unwrap();
        assert_eq!(sorted(sent(&bus)), [1, 2]);
    });
}

#[test]
fn a_future_that_is_dropped_anywhere_strands_no_waiter() {
    model("dropped future, caller, future", 3, || {
        let bus = bus(HasWorker::No);
        let caller = spawn(&bus, move |its| sync(its, 1));
        let future = spawn(&bus, move |its| awaited(its, 2));
        {
            let device = bus.device(settings()).unwrap();
            let mut message = [Transfer::write(&[3])];
            let mut dropped = pin!(device.transfer_async(&mut message));
            // After one poll, it waits in line or for the controller, or was already woken.
            let _ = poll_once(dropped.as_mut());
        }
        caller.join().unwrap();
        future.join().unwrap();
        let sent = sorted(sent(&bus));
        assert_eq!(sent, [1, 2]);
    });
}

#[test]
fn a_handle_that_is_dropped_or_whose_future_is_strands_no_waiter() {
    model("dropped handle, caller, caller", 2, || {
        let bus = bus(HasWorker::No);
        let caller = spawn(&bus, move |its| sync(its, 1));
        let other = spawn(&bus, move |its| sync(its, 2));
        {
            let device = bus.device(settings()).unwrap();
            let mut pending = device.submit(&mut [Transfer::write(&[3])]).unwrap();
            let mut dropped = pin!(pending.finished());
            let _ = poll_once(dropped.as_mut());
        }
        caller.join().unwrap();
        other.join().unwrap();
        bus.poll();
        let sent = sorted(sent(&bus));
        assert!(sent == [1, 2] || sent == [1, 2, 3], "{sent:?}");
    });
}

#[test]
fn an_overdue_waiter_is_granted_the_bus_and_a_late_one_loses_it() {
    model("granted, late, caller", 2, || {
        let bus = bus(HasWorker::No);
        let device = bus.device(settings()).unwrap();
        let late = bus.device(settings()).unwrap();
        let mut message = [Transfer::write(&[3])];
        let mut granted = pin!(late.transfer_async(&mut message));
        let waker = Token::mine().into();
        let mut context = Context::from_waker(&waker);
        let locked = device.lock().unwrap();
        assert!(granted.as_mut().poll(&mut context).is_pending());
        // More than its limit.
        bus.platform.now.fetch_add(1_000, Ordering::AcqRel);
        assert!(granted.as_mut().poll(&mut context).is_pending());
        // The time jumps, so another context's wait may have expired before it begins.
        let write = |bus: &Paperwork, byte: u8| {
            let written = bus.device(settings()).unwrap().write(&[byte]);
            let over = Err(Error::Abandoned) == written || Err(Error::BusHeld) == written;
            assert!(over || written == Ok(()), "{written:?}");
            written.is_ok()
        };
        let other = spawn(&bus, move |its| write(its, 1));
        let hurries = spawn(&bus, move |its| {
            // More than any limit: the grant has expired.
            its.platform.now.fetch_add(20_000_000, Ordering::AcqRel);
            write(its, 2)
        });
        drop(locked);
        let ended = block_on(granted.as_mut());
        let over = Err(Error::Abandoned) == ended || Err(Error::BusHeld) == ended;
        assert!(over || ended == Ok(()), "{ended:?}");
        let ran = [
            other.join().unwrap(),
            hurries.join().unwrap(),
            ended.is_ok(),
        ];
        let sent = sent(&bus);
        let expected = [1, 2, 3].map(|byte| sent.iter().filter(|sent| **sent == byte).count());
        assert_eq!(expected, ran.map(usize::from));
    });
}

#[test]
fn a_driver_that_panics_strands_no_waiter() {
    model("panicking owner, caller, caller", 3, || {
        let bus = bus(HasWorker::No);
        let others = [1, 2].map(|byte| spawn(&bus, move |its| sync(its, byte)));
        let device = bus.device(settings()).unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| device.write(&[PANICS as u8])));
        assert!(panicked.is_err());
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(sorted(sent(&bus)), [1, 2]);
    });
}

#[test]
fn the_hardware_is_put_to_sleep_once_and_not_while_it_is_used() {
    model("timer, caller, worker", 2, || {
        let bus = bus(HasWorker::Yes);
        let worker = worker(&bus);
        sync(&bus, 1);
        // The timer of the busy period expires twice, first after a message.
        bus.platform.now.fetch_add(IDLE, Ordering::AcqRel);
        bus.poll();
        bus.platform.now.fetch_add(IDLE, Ordering::AcqRel);
        let caller = spawn(&bus, move |its| sync(its, 2));
        let next = bus.poll();
        caller.join().unwrap();
        stop(&bus, worker);
        assert_eq!(sorted(sent(&bus)), [1, 2]);
        let statistics = bus.statistics();
        assert!(statistics.teardowns <= 1);
        assert!(statistics.preparations - statistics.teardowns <= 1);
        // Hardware that is awake has a next poll. The last poll returned its time, or the caller
        // that woke the hardware set a timer.
        if statistics.preparations > statistics.teardowns {
            let timers = bus.platform.timers.load(Ordering::Relaxed);
            assert!(next.is_some() || timers >= 2);
        }
        assert_eq!(statistics.wakeups, 0);
    });
}

#[test]
fn a_worker_that_begins_sees_hardware_that_was_woken_before() {
    model("beginning worker, caller, caller", 2, || {
        let bus = bus(HasWorker::No);
        let begins = spawn(&bus, move |its| {
            its.platform.serves.store(1, Ordering::Release);
            its.poll()
        });
        let other = spawn(&bus, move |its| sync(its, 1));
        sync(&bus, 2);
        let next = begins.join().unwrap();
        other.join().unwrap();
        assert_eq!(sorted(sent(&bus)), [1, 2]);
        assert!(next.is_some() || bus.platform.timers.load(Ordering::Relaxed) >= 1);
    });
}

/// A future in line that receives the bus when its present owner releases it.
macro_rules! overdue {
    ($bus:ident, $future:ident, $message:ident, $device:ident) => {
        let $device = $bus.device(settings()).unwrap();
        let mut $message = [Transfer::write(&[3])];
        let mut $future = Box::pin($device.transfer_async(&mut $message));
    };
}

/// Polls `future`, which waits in line, until it is overdue.
fn become_overdue<F: Future>(bus: &Paperwork, future: &mut Pin<Box<F>>) {
    assert!(poll_once(future.as_mut()).is_pending());
    // More than its limit.
    bus.platform.now.fetch_add(1_000, Ordering::AcqRel);
    assert!(poll_once(future.as_mut()).is_pending());
}

/// Idle timeout in microseconds.
const IDLE: u32 = 1_000_000;

/// A time above any limit, in microseconds.
const FOREVER: u32 = 20_000_000;

/// Returns whether a message was sent. The time jumps, so its wait may have expired before it
/// began.
fn in_time(ended: Result<(), Error>) -> bool {
    let late = matches!(ended, Err(Error::Abandoned | Error::BusHeld));
    assert!(late || ended == Ok(()), "{ended:?}");
    ended.is_ok()
}

#[test]
fn a_handle_that_gives_up_has_withdrawn_its_message_or_reports_that_it_was_begun() {
    model("handle that gives up, caller, owner", 2, || {
        let bus = bus(HasWorker::No);
        let device = bus.device(settings()).unwrap();
        let locked = device.lock().unwrap();
        let gives_up = spawn(&bus, move |its| {
            let device = its.device(settings()).unwrap();
            let mut pending = device.submit(&mut [Transfer::write(&[3])]).unwrap();
            let mut waits = pin!(pending.finished());
            if let Poll::Ready(ended) = poll_once(waits.as_mut()) {
                return Some(ended);
            }
            its.platform.now.fetch_add(FOREVER, Ordering::AcqRel);
            match poll_once(waits.as_mut()) {
                Poll::Ready(ended) => Some(ended),
                Poll::Pending => None,
            }
        });
        let caller = spawn(&bus, move |its| {
            in_time(its.device(settings()).unwrap().write(&[2]))
        });
        drop(locked);
        let (ended, sent_2) = (gives_up.join().unwrap(), caller.join().unwrap());
        bus.poll();
        let sent = sent(&bus);
        let count = |byte| sent.iter().filter(|sent| **sent == byte).count();
        assert_eq!(count(2), sent_2.into());
        match ended {
            Some(Ok(()) | Err(Error::Unfinished)) => assert_eq!(count(3), 1),
            Some(Err(Error::Abandoned)) => assert_eq!(count(3), 0),
            Some(Err(error)) => panic!("{error}"),
            // The handle was dropped while it waited.
            None => assert!(count(3) <= 1),
        }
    });
}

#[test]
fn a_granted_future_that_is_dropped_hands_the_bus_on() {
    model("dropped granted future, caller, future", 3, || {
        let bus = bus(HasWorker::No);
        let device = bus.device(settings()).unwrap();
        overdue!(bus, granted, message, late);
        let locked = device.lock().unwrap();
        become_overdue(&bus, &mut granted);
        let caller = spawn(&bus, move |its| sync(its, 1));
        let future = spawn(&bus, move |its| awaited(its, 2));
        drop(locked);
        drop(granted);
        caller.join().unwrap();
        future.join().unwrap();
        assert_eq!(sorted(sent(&bus)), [1, 2]);
    });
}

/// Acts as a platform's timer, whose time passes, until both other contexts have ended.
fn time_passes(bus: &Paperwork) {
    while bus.platform.stop.load(Ordering::Acquire) < 2 {
        bus.platform.now.fetch_add(FOREVER, Ordering::AcqRel);
        bus.poll();
        thread::yield_now();
    }
}

#[test]
fn a_transfer_that_never_ends_and_a_future_behind_it_are_woken_by_the_timer() {
    model_with_timer("transfer without interrupt, future, timer", || {
        let bus = bus(HasWorker::No);
        let send = |byte| {
            spawn(&bus, move |its| {
                let device = its.device(settings()).unwrap();
                let mut message = [Transfer::write(std::slice::from_ref(byte))];
                let ended = block_on(pin!(device.transfer_async(&mut message)));
                its.platform.stop.fetch_add(1, Ordering::AcqRel);
                ended
            })
        };
        let (never, other) = (send(&INTERRUPTS), send(&1));
        time_passes(&bus);
        let never = never.join().unwrap();
        assert!(never.is_err(), "its interrupt never comes");
        in_time(other.join().unwrap());
    });
}

#[test]
fn futures_behind_a_gone_owner_are_all_woken_by_the_timer() {
    model_with_timer("gone owner, future, future, timer", || {
        let bus = bus(HasWorker::No);
        let device = bus.device(settings()).unwrap();
        std::mem::forget(device.lock().unwrap());
        let others = [1, 2].map(|byte| {
            spawn(&bus, move |its| {
                let device = its.device(settings()).unwrap();
                let byte = [byte];
                let mut message = [Transfer::write(&byte)];
                let ended = block_on(pin!(device.transfer_async(&mut message)));
                assert!(!in_time(ended));
                its.platform.stop.fetch_add(1, Ordering::AcqRel);
            })
        });
        time_passes(&bus);
        for other in others {
            other.join().unwrap();
        }
    });
}

#[test]
fn a_woken_future_that_is_never_polled_stops_no_waiter_that_asks_for_its_turn() {
    model("unpolled woken future, caller, overdue future", 2, || {
        let bus = on(World {
            has_sleep: true,
            ..World::new(HasWorker::No)
        });
        let device = bus.device(settings()).unwrap();
        overdue!(bus, unpolled, message, late);
        let locked = device.lock().unwrap();
        assert!(poll_once(unpolled.as_mut()).is_pending());
        // It is woken here.
        drop(locked);
        let busy = spawn(&bus, move |its| {
            let device = its.device(settings()).unwrap();
            device.write(&[1]).unwrap();
            device.write(&[2]).unwrap();
        });
        let asks = spawn(&bus, move |its| {
            overdue!(its, future, message, device);
            loop {
                if let Poll::Ready(ended) = poll_once(future.as_mut()) {
                    return ended.unwrap();
                }
                // Its own timer wakes it after 500 us.
                its.platform.block(Nanos::ZERO);
            }
        });
        busy.join().unwrap();
        asks.join().unwrap();
        drop(unpolled);
        assert_eq!(sorted(sent(&bus)), [1, 2, 3]);
    });
}

#[test]
fn a_granted_future_that_does_not_come_is_expired_in_poll() {
    model("granted, caller, poll", 3, || {
        let bus = bus(HasWorker::No);
        let device = bus.device(settings()).unwrap();
        overdue!(bus, granted, message, late);
        let locked = device.lock().unwrap();
        become_overdue(&bus, &mut granted);
        let caller = spawn(&bus, move |its| {
            sync(its, 1);
            its.platform.stop.store(1, Ordering::Release);
        });
        drop(locked);
        // The future is not polled before the caller was served.
        while bus.platform.stop.load(Ordering::Acquire) == 0 {
            ahead(FOREVER, || bus.poll());
            thread::yield_now();
        }
        caller.join().unwrap();
        block_on(granted.as_mut()).unwrap();
        assert_eq!(sorted(sent(&bus)), [1, 3]);
    });
}

#[test]
fn a_granted_future_comes_while_poll_expires_it() {
    model("coming granted future, caller, poll", 2, || {
        let bus = bus(HasWorker::No);
        let device = bus.device(settings()).unwrap();
        overdue!(bus, granted, message, late);
        let locked = device.lock().unwrap();
        become_overdue(&bus, &mut granted);
        let caller = spawn(&bus, move |its| sync(its, 1));
        let main_loop = spawn(&bus, move |its| {
            ahead(FOREVER, || its.poll());
        });
        drop(locked);
        block_on(granted.as_mut()).unwrap();
        main_loop.join().unwrap();
        caller.join().unwrap();
        assert_eq!(sorted(sent(&bus)), [1, 3]);
    });
}

#[test]
fn a_handle_polled_after_a_lost_grant_has_its_message_run_once() {
    model("granted, late handle, caller", 2, || {
        let bus = bus(HasWorker::No);
        let device = bus.device(settings()).unwrap();
        overdue!(bus, granted, message, late);
        let locked = device.lock().unwrap();
        become_overdue(&bus, &mut granted);
        let caller = spawn(&bus, move |its| {
            let device = its.device(settings()).unwrap();
            in_time(device.write(&[1]))
        });
        let handle = spawn(&bus, move |its| {
            let device = its.device(settings()).unwrap();
            let mut pending = device.submit(&mut [Transfer::write(&[2])]).unwrap();
            // If the bus has been granted by now, the grant has expired.
            its.platform.now.fetch_add(FOREVER, Ordering::AcqRel);
            let ended = block_on(pin!(pending.finished()));
            let through = pending.is_done();
            (in_time(ended), through)
        });
        drop(locked);
        let granted = in_time(block_on(granted.as_mut()));
        let caller = caller.join().unwrap();
        let (waited, through) = handle.join().unwrap();
        assert!(!waited || through);
        let sent = sent(&bus);
        let times = [1, 2, 3].map(|byte| sent.iter().filter(|sent| **sent == byte).count());
        assert_eq!(times[0], usize::from(caller));
        assert_eq!(times[1], usize::from(through));
        assert_eq!(times[2], usize::from(granted));
    });
}

#[test]
fn an_interrupt_handler_submits_while_the_bus_is_granted_and_waited_for() {
    model("interrupt, granted, caller", 3, || {
        let bus = bus(HasWorker::No);
        let device = bus.device(settings()).unwrap();
        overdue!(bus, granted, message, late);
        let locked = device.lock().unwrap();
        become_overdue(&bus, &mut granted);
        let calls = StdArc::new(AtomicUsize::new(0));
        let its = bus.clone();
        let called = calls.clone();
        let handler = thread::spawn(move || {
            // The device exists as long as the callback may be called.
            let device = its.device(settings()).unwrap();
            let then: &'static _ = Box::leak(Box::new(move |completed: Completed<'_>| {
                assert_eq!(completed.result, Ok(()));
                called.fetch_add(1, StdOrdering::Relaxed);
            }));
            let message = &mut [Transfer::write(&[2])];
            in_interrupt(|| device.submit_then(message, then, 0)).unwrap();
            std::mem::forget(device);
        });
        let caller = spawn(&bus, move |its| sync(its, 1));
        drop(locked);
        block_on(granted.as_mut()).unwrap();
        caller.join().unwrap();
        handler.join().unwrap();
        bus.poll();
        assert_eq!(sorted(sent(&bus)), [1, 2, 3]);
        assert_eq!(calls.load(StdOrdering::Relaxed), 1);
    });
}

#[cfg(feature = "std")]
#[test]
fn a_callback_that_panics_strands_no_waiter() {
    model("panicking callback, caller, future", 2, || {
        fn panics(_: Completed<'_>) {
            on_purpose();
        }
        let bus = bus(HasWorker::No);
        let caller = spawn(&bus, move |its| sync(its, 1));
        let future = spawn(&bus, move |its| awaited(its, 2));
        let device = bus.device(settings()).unwrap();
        let message = &mut [Transfer::write(&[3])];
        device.submit_then(message, &panics, 0).unwrap();
        caller.join().unwrap();
        future.join().unwrap();
        bus.poll();
        assert_eq!(sorted(sent(&bus)), [1, 2, 3]);
        assert_eq!(bus.statistics().panics, 1);
    });
}

#[test]
fn a_future_that_is_dropped_while_it_runs_a_stored_message_ends_it_and_strands_no_waiter() {
    model(
        "dropped runner of a stored message, caller, caller",
        2,
        || {
            let bus = left_to_worker(HasWorker::No);
            let others = [1, 2].map(|byte| spawn(&bus, move |its| sync(its, byte)));
            let device = bus.device(settings()).unwrap();
            let mut pending = device.submit(&mut [Transfer::write(&[3])]).unwrap();
            {
                let mut runs = pin!(pending.finished());
                let _ = poll_once(runs.as_mut());
            }
            for other in others {
                other.join().unwrap();
            }
            let ended = pending.wait();
            drop(pending);
            let sent = sorted(sent(&bus));
            match ended {
                Ok(()) => assert_eq!(sent, [1, 2, 3]),
                Err(Error::Failed {
                    fault: Fault::Dropped,
                    ..
                }) => assert_eq!(sent, [1, 2]),
                Err(error) => panic!("{error}"),
            }
        },
    );
}

#[test]
fn a_device_that_is_dropped_withdraws_its_message_or_has_it_run() {
    model("dropped device, caller, worker", 2, || {
        let bus = bus(HasWorker::Yes);
        let worker = worker(&bus);
        let caller = spawn(&bus, move |its| sync(its, 1));
        let device = bus.device(settings()).unwrap();
        let message = &mut [Transfer::write(&[2])];
        let pending = in_interrupt(|| device.submit(message)).unwrap();
        drop(device);
        let run = bus.statistics().cancelled == 0;
        caller.join().unwrap();
        stop(&bus, worker);
        bus.poll();
        assert!(pending.is_done());
        drop(pending);
        let sent = sorted(sent(&bus));
        assert_eq!(sent, if run { vec![1, 2] } else { vec![1] });
    });
}

#[test]
fn a_worker_that_ends_leaves_messages_of_an_interrupt_handler_to_the_others() {
    model("ending worker, interrupt, caller", 2, || {
        let bus = bus(HasWorker::Yes);
        let ends = spawn(&bus, move |its| {
            its.platform.serves.swap(0, Ordering::AcqRel);
            its.poll();
        });
        let handler = spawn(&bus, move |its| {
            let device = its.device(settings()).unwrap();
            let message = &mut [Transfer::write(&[2])];
            let mut pending = in_interrupt(|| device.submit(message)).unwrap();
            // This task waits for the handler's message.
            pending.wait().unwrap();
        });
        sync(&bus, 1);
        handler.join().unwrap();
        ends.join().unwrap();
        assert_eq!(sorted(sent(&bus)), [1, 2]);
    });
}

#[test]
fn an_owner_that_waits_for_the_controller_sees_its_interrupt() {
    for is_future in [false, true] {
        model("controller's interrupt, owner, caller", 3, move || {
            let paper = Paper::default();
            let through = paper.through.clone();
            let world = World::new(HasWorker::No);
            let bus = made(Bus::sized(paper, world));
            let interrupt = spawn(&bus, move |its| {
                through.store(1, Ordering::Release);
                in_interrupt(|| its.on_interrupt());
            });
            let caller = spawn(&bus, move |its| sync(its, 1));
            let device = bus.device(settings()).unwrap();
            let mut message = [Transfer::write(&[INTERRUPTS])];
            match is_future {
                true => block_on(pin!(device.transfer_async(&mut message))).unwrap(),
                false => device.sync(&mut message).unwrap(),
            }
            interrupt.join().unwrap();
            caller.join().unwrap();
            assert_eq!(sorted(sent(&bus)), [1, INTERRUPTS]);
        });
    }
}

#[test]
fn a_turn_of_a_future_that_is_dropped_leaves_nothing_selected() {
    model("dropped turn, caller, future", 2, || {
        let bus = bus(HasWorker::No);
        let caller = spawn(&bus, move |its| sync(its, 1));
        let future = spawn(&bus, move |its| awaited(its, 2));
        {
            let device = bus.device(settings()).unwrap();
            let mut turn = pin!(async {
                let mut locked = device.lock_async().await?;
                embedded_hal_async::spi::SpiDevice::write(&mut locked, &[3]).await
            });
            let _ = poll_once(turn.as_mut());
        }
        caller.join().unwrap();
        future.join().unwrap();
        assert_eq!(sorted(sent(&bus)), [1, 2]);
    });
}

/// Starts a worker that is a future, in its own context, until `stop` is set.
fn server(bus: &Arc<Paperwork>, token: StdArc<Token>) -> thread::JoinHandle<()> {
    spawn(bus, move |its| {
        let waker = Waker::from(token.clone());
        let mut worker = pin!(its.serve());
        while its.platform.stop.load(Ordering::Acquire) == 0 {
            let mut context = Context::from_waker(&waker);
            assert!(worker.as_mut().poll(&mut context).is_pending());
            token.park();
        }
    })
}

#[test]
fn an_awaited_worker_that_ends_leaves_its_messages_to_the_contexts_that_wait_for_them() {
    model("awaited worker, interrupt and its task, caller", 2, || {
        let bus = bus(HasWorker::No);
        let token = StdArc::new(Token::new());
        let server = server(&bus, token.clone());
        let caller = spawn(&bus, |its| sync(its, 1));
        let device = bus.device(settings()).unwrap();
        let message = &mut [Transfer::write(&[2])];
        let mut pending = in_interrupt(|| device.submit(message)).unwrap();
        let ends = spawn(&bus, move |its| {
            its.platform.stop.store(1, Ordering::Release);
            token.unpark();
        });
        let ended = pending.wait();
        drop(pending);
        caller.join().unwrap();
        ends.join().unwrap();
        server.join().unwrap();
        let sent = sorted(sent(&bus));
        match ended {
            Ok(()) => assert_eq!(sent, [1, 2]),
            // The worker ended in the middle of the message.
            Err(Error::Failed {
                fault: Fault::Dropped,
                ..
            }) => assert_eq!(sent, [1]),
            Err(error) => panic!("{error}"),
        }
    });
}

#[test]
fn a_message_that_is_put_back_while_its_device_is_dropped_is_run_or_withdrawn() {
    model("dropped runner, dropped device, caller", 3, || {
        let bus = bus(HasWorker::No);
        let slow = Settings {
            setup: Nanos::from_micros(10),
            ..settings()
        };
        let device = bus.device(slow).unwrap();
        let runner = spawn(&bus, |its| {
            let device = its.device(settings()).unwrap();
            let mut message = [Transfer::write(&[1])];
            let mut future = pin!(device.transfer_async(&mut message));
            // The third poll is in the setup time of the stored message.
            let ended = |_| poll_once(future.as_mut()).is_ready();
            (0..3).any(ended)
        });
        let caller = spawn(&bus, |its| sync(its, 2));
        let message = &mut [Transfer::write(&[3])];
        let mut pending = in_interrupt(|| device.submit(message)).unwrap();
        drop(device);
        runner.join().unwrap();
        caller.join().unwrap();
        assert!(pending.is_done());
        let ended = pending.wait();
        assert!(
            [Ok(()), Err(Error::Cancelled)].contains(&ended),
            "{ended:?}"
        );
        drop(pending);
        let sent = sent(&bus);
        let times = |byte: u8| sent.iter().filter(|sent| **sent == byte).count();
        assert_eq!(times(2), 1);
        assert_eq!(times(3), usize::from(ended.is_ok()));
    });
}

#[test]
fn the_timer_of_the_worker_takes_the_bus_back_and_has_the_stored_messages_run() {
    model("granted, timer, interrupt, worker", 2, || {
        let bus = bus(HasWorker::Yes);
        let device = bus.device(settings()).unwrap();
        overdue!(bus, granted, message, late);
        let locked = device.lock().unwrap();
        become_overdue(&bus, &mut granted);
        drop(locked);
        let worker = worker(&bus);
        let timer = spawn(&bus, |its| {
            // The grant has expired.
            its.platform.now.fetch_add(FOREVER, Ordering::AcqRel);
            in_interrupt(|| its.poll());
        });
        let handler = spawn(&bus, |its| {
            let device = its.device(settings()).unwrap();
            let message = &mut [Transfer::write(&[2])];
            let kept = in_interrupt(|| device.submit(message)).unwrap();
            // The handle is kept, and is not polled.
            while !kept.is_done() {
                thread::yield_now();
            }
        });
        timer.join().unwrap();
        handler.join().unwrap();
        drop(granted);
        stop(&bus, worker);
        bus.poll();
        assert_eq!(sent(&bus), [2]);
    });
}

#[test]
fn an_awaited_worker_that_begins_while_its_predecessor_ends_is_called() {
    model(
        "ending server, beginning server, interrupt and its task",
        2,
        || {
            let bus = bus(HasWorker::No);
            let ends = spawn(&bus, |its| {
                let mut worker = pin!(its.serve());
                let _ = poll_once(worker.as_mut());
            });
            let token = StdArc::new(Token::new());
            let wakes = token.clone();
            let begins = spawn(&bus, move |its| {
                let waker = Waker::from(token.clone());
                let mut worker = pin!(its.serve());
                let mut context = Context::from_waker(&waker);
                while its.platform.stop.load(Ordering::Acquire) == 0 {
                    if worker.as_mut().poll(&mut context).is_ready() {
                        // The other worker has not ended yet.
                        return;
                    }
                    token.park();
                }
            });
            let device = bus.device(settings()).unwrap();
            let message = &mut [Transfer::write(&[1])];
            let mut pending = in_interrupt(|| device.submit(message)).unwrap();
            let ended = pending.wait();
            drop(pending);
            bus.platform.stop.store(1, Ordering::Release);
            wakes.unpark();
            ends.join().unwrap();
            begins.join().unwrap();
            let dropped = matches!(
                ended,
                Err(Error::Failed {
                    fault: Fault::Dropped,
                    ..
                })
            );
            assert!(ended.is_ok() || dropped, "{ended:?}");
            assert_eq!(sent(&bus).len(), usize::from(!dropped));
        },
    );
}

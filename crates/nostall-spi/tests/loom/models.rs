//! The models.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc as StdArc;
use std::sync::atomic::{AtomicUsize, Ordering as StdOrdering};
use std::task::{Context, Poll, Waker};

use loom::sync::Arc;
use loom::thread;
use nostall_io::Nanos;

use crate::platform::Platform;
use crate::sync::Ordering;
use crate::world::{Token, World};
use crate::{
    AsyncController, Bus, Capabilities, Config, Controller, Error, Fault, HasWorker, Level,
    Progress, Select, Settings, Submitted, Transfer, Waits, Wire, Words,
};

/// Writes down the bytes that are sent.
#[derive(Default)]
struct Paper {
    sent: Vec<u8>,
    selected: bool,
    prepared: bool,
    aborts: usize,
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
        while let Some(word) = words.next_word() {
            assert_ne!(word, PANICS, "on purpose");
            self.sent.push(word as u8);
            words.receive(word + 100);
        }
        Ok(Progress::Done)
    }

    fn abort(&mut self) {
        self.selected = false;
        self.aborts += 1;
    }
}

/// The driver panics on this byte.
const PANICS: u32 = 99;

/// Every transfer takes one poll.
impl AsyncController for Paper {
    async fn transfer_async(
        &mut self,
        words: &mut Words<'_>,
        _waits: &impl Waits,
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
        self.transfer(words).map(drop)
    }
}

type Paperwork = Bus<Paper, World, 3, 2, 2>;

fn bus(has_worker: HasWorker) -> Arc<Paperwork> {
    on(World::new(has_worker))
}

fn on(world: World) -> Arc<Paperwork> {
    let bus = Arc::new(Bus::new(Paper::default(), world, Config::DEFAULT));
    // The abilities are asked for once.
    drop(bus.device(settings()).unwrap());
    bus
}

fn settings() -> Settings {
    Settings::new(1_000_000, Select::line(0))
}

/// The worker of a kernel.
fn worker(bus: &Arc<Paperwork>) -> thread::JoinHandle<()> {
    let its = bus.clone();
    thread::spawn(move || {
        while its.platform.stop.load(Ordering::Acquire) == 0 {
            if its.platform.woken.swap(0, Ordering::AcqRel) != 0 {
                its.work();
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

/// A message of one byte, on a device of its own.
fn sync(bus: &Paperwork, byte: u8) {
    let device = bus.device(settings()).unwrap();
    let mut came = [byte];
    device.sync(&mut [Transfer::in_place(&mut came)]).unwrap();
    assert_eq!(came, [byte + 100]);
}

/// The same as a future, on an executor of its own.
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

/// All that was sent; the bus is idle, and nothing is left in it.
fn sent(bus: &Paperwork) -> Vec<u8> {
    assert_eq!(bus.ownership.word(), 0, "the gate of an idle bus");
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

/// Runs a model in every order with so many preemptions, and prints how many those were.
fn model(name: &str, preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let bound = std::env::var("NOSTALL_LOOM_BOUND").ok();
    let bound = bound.and_then(|bound| bound.parse().ok());
    let bound = bound.unwrap_or(preemptions);
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
    assert!(orders > 1, "nothing ran at once");
}

#[test]
fn three_callers_are_all_served_once() {
    model("three callers", 3, || {
        let bus = bus(HasWorker::No);
        let others = [1, 2].map(|byte| {
            let its = bus.clone();
            thread::spawn(move || sync(&its, byte))
        });
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
        let its = bus.clone();
        let caller = thread::spawn(move || sync(&its, 1));
        let its = bus.clone();
        let future = thread::spawn(move || awaited(&its, 2));
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
        let its = bus.clone();
        let turn = thread::spawn(move || {
            let device = its.device(settings()).unwrap();
            let mut locked = device.lock().unwrap();
            locked.sync(&mut [Transfer::write(&[1])]).unwrap();
            locked.sync(&mut [Transfer::write(&[2])]).unwrap();
        });
        let its = bus.clone();
        let long = thread::spawn(move || {
            // Longer than a submitted message may be.
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
        let its = bus.clone();
        let other = thread::spawn(move || sync(&its, 9));
        let its = bus.clone();
        let locks = thread::spawn(move || drop(its.device(settings()).unwrap().lock()));
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
fn what_an_interrupt_handler_submits_is_run_once() {
    model("interrupt, caller, worker", 3, || {
        let mut world = World::new(HasWorker::Yes);
        world.tasks = false;
        let bus = on(world);
        let worker = worker(&bus);
        let its = bus.clone();
        let handler = thread::spawn(move || {
            let device = its.device(settings()).unwrap();
            let kept = device.submit(&mut [Transfer::write(&[1])]).unwrap();
            // Its handle lives on.
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
        bus.work();
        assert!(sent(&bus).contains(&1));
        // The worker is woken for it once, at most.
        assert!(bus.statistics().wakeups <= 1);
    });
}

#[test]
fn what_is_left_to_the_worker_is_run_by_it_or_by_those_who_wait() {
    model("worker, submitter, caller", 3, || {
        let mut world = World::new(HasWorker::Yes);
        world.tasks = true;
        let config = Config {
            submitted: Submitted::ByWorker,
            ..Config::DEFAULT
        };
        let bus = Arc::new(Bus::new(Paper::default(), world, config));
        drop(bus.device(settings()).unwrap());
        let worker = worker(&bus);
        let its = bus.clone();
        let caller = thread::spawn(move || sync(&its, 1));
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
        let config = Config {
            submitted: Submitted::ByWorker,
            ..Config::DEFAULT
        };
        let bus: Arc<Paperwork> = Arc::new(Bus::new(
            Paper::default(),
            World::new(HasWorker::Yes),
            config,
        ));
        drop(bus.device(settings()).unwrap());
        let its = bus.clone();
        // It ends without having come once.
        let ends = thread::spawn(move || {
            its.platform.serves.swap(0, Ordering::AcqRel);
            its.work();
        });
        let its = bus.clone();
        let caller = thread::spawn(move || sync(&its, 1));
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
        let its = bus.clone();
        let caller = thread::spawn(move || sync(&its, 1));
        let its = bus.clone();
        let future = thread::spawn(move || awaited(&its, 2));
        {
            let device = bus.device(settings()).unwrap();
            let mut message = [Transfer::write(&[3])];
            let mut dropped = pin!(device.transfer_async(&mut message));
            let waker = Token::mine().into();
            // Once: it waits in line, or for the controller, or is woken already.
            let _ = dropped.as_mut().poll(&mut Context::from_waker(&waker));
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
        let its = bus.clone();
        let caller = thread::spawn(move || sync(&its, 1));
        let its = bus.clone();
        let other = thread::spawn(move || sync(&its, 2));
        {
            let device = bus.device(settings()).unwrap();
            let mut pending = device.submit(&mut [Transfer::write(&[3])]).unwrap();
            let mut dropped = pin!(pending.finished());
            let waker = Token::mine().into();
            let _ = dropped.as_mut().poll(&mut Context::from_waker(&waker));
        }
        caller.join().unwrap();
        other.join().unwrap();
        bus.poll(Nanos::ZERO);
        let sent = sorted(sent(&bus));
        assert!(sent == [1, 2] || sent == [1, 2, 3], "{sent:?}");
    });
}

#[test]
fn an_overdue_waiter_is_granted_the_bus_and_a_late_one_loses_it() {
    model("granted, late, caller", 3, || {
        let bus = bus(HasWorker::No);
        let device = bus.device(settings()).unwrap();
        let late = bus.device(settings()).unwrap();
        let mut message = [Transfer::write(&[3])];
        let mut granted = pin!(late.transfer_async(&mut message));
        let waker = Token::mine().into();
        let mut context = Context::from_waker(&waker);
        let locked = device.lock().unwrap();
        assert!(granted.as_mut().poll(&mut context).is_pending());
        // Longer than it need wait.
        bus.platform.now.fetch_add(1_000, Ordering::AcqRel);
        assert!(granted.as_mut().poll(&mut context).is_pending());
        // As time leaps, the wait of another may be over before it begins.
        let write = |bus: &Paperwork, byte: u8| {
            let written = bus.device(settings()).unwrap().write(&[byte]);
            let over = Err(Error::Abandoned) == written || Err(Error::BusHeld) == written;
            assert!(over || written == Ok(()), "{written:?}");
            written.is_ok()
        };
        let its = bus.clone();
        let other = thread::spawn(move || write(&its, 1));
        let its = bus.clone();
        let hurries = thread::spawn(move || {
            // Longer than anything may take: the grant is over.
            its.platform.now.fetch_add(20_000_000, Ordering::AcqRel);
            write(&its, 2)
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
        let others = [1, 2].map(|byte| {
            let its = bus.clone();
            thread::spawn(move || sync(&its, byte))
        });
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
    model("timer, caller, worker", 3, || {
        let bus = bus(HasWorker::Yes);
        let worker = worker(&bus);
        sync(&bus, 1);
        // The timer of the busy period goes off: a message has passed. And again.
        bus.on_timer();
        let its = bus.clone();
        let caller = thread::spawn(move || sync(&its, 2));
        bus.on_timer();
        caller.join().unwrap();
        stop(&bus, worker);
        bus.work();
        assert_eq!(sorted(sent(&bus)), [1, 2]);
        let statistics = bus.statistics();
        assert!(statistics.teardowns <= 1);
        assert!(statistics.preparations - statistics.teardowns <= 1);
        // If it is awake, a timer was set after the last look.
        if statistics.preparations > statistics.teardowns {
            assert!(bus.platform.timers.load(Ordering::Relaxed) >= 2);
        }
    });
}

#[test]
fn a_worker_that_begins_sees_hardware_that_was_woken_before() {
    model("beginning worker, caller, caller", 3, || {
        let bus = bus(HasWorker::No);
        let its = bus.clone();
        let begins = thread::spawn(move || {
            its.platform.serves.store(1, Ordering::Release);
            its.begin_work();
        });
        let its = bus.clone();
        let other = thread::spawn(move || sync(&its, 1));
        sync(&bus, 2);
        begins.join().unwrap();
        other.join().unwrap();
        assert_eq!(sorted(sent(&bus)), [1, 2]);
        assert!(bus.platform.timers.load(Ordering::Relaxed) >= 1);
    });
}

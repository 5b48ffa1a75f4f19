//! The bus itself, its own files, in every order in which its users can run (loom).
//!
//! What is included here is what the crate is made of; only the atomics and the lock
//! are loom's. The lock fails the test if anybody has to wait in it: the gate alone
//! keeps users apart.
#![cfg(target_pointer_width = "64")]
#![allow(dead_code, unused_imports, missing_docs)]

#[path = "../../src/bus.rs"]
mod bus;
#[path = "../../src/capabilities.rs"]
mod capabilities;
#[path = "../../src/config.rs"]
mod config;
#[path = "../../src/controller.rs"]
mod controller;
#[path = "../../src/device.rs"]
mod device;
#[path = "../../src/drive.rs"]
mod drive;
#[path = "../../src/duty.rs"]
mod duty;
#[path = "../../src/error.rs"]
mod error;
#[path = "../../src/finish.rs"]
mod finish;
#[path = "../../src/gate.rs"]
mod gate;
#[path = "../../src/held.rs"]
mod held;
#[path = "../../src/interrupt.rs"]
mod interrupt;
#[path = "../../src/line.rs"]
mod line;
#[path = "../../src/locked.rs"]
mod locked;
#[path = "../../src/parked.rs"]
mod parked;
#[path = "../../src/platform.rs"]
mod platform;
#[path = "../../src/queue.rs"]
mod queue;
#[path = "../../src/run.rs"]
mod run;
#[path = "../../src/settings.rs"]
mod settings;
#[path = "../../src/sleep.rs"]
mod sleep;
#[path = "../../src/slot.rs"]
mod slot;
#[path = "../../src/statistics.rs"]
mod statistics;
#[path = "../../src/submitted.rs"]
mod submitted;
#[path = "../../src/transfer.rs"]
mod transfer;
#[path = "../../src/words.rs"]
mod words;

mod sync;
mod world;

pub use bus::Bus;
pub use capabilities::Capabilities;
pub use config::{Config, Strategy, Submitted};
pub use controller::{Controller, Level, Progress};
pub use device::Device;
pub use error::{Error, Fault, Invalid};
pub use locked::Locked;
pub use platform::{HasWorker, Platform};
pub use settings::{BitOrder, Mode, Polarity, Select, Settings, Wire, Wires, WordSize};
pub use submitted::Pending;
pub use transfer::{Buffers, Message, Options, Outline, Part, Shape, Transfer};
pub use words::{Directions, Words};

use loom::sync::Arc;
use loom::thread;
use nostall_io::{Clock, Nanos};
use slot::{Callback, Completed};
use sync::{AtomicBool, AtomicUsize, Ordering};
use world::{Token, World};

/// Writes down what is sent.
#[derive(Default)]
struct Paper {
    sent: Vec<u8>,
    selected: bool,
    prepared: bool,
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

    fn set(&mut self, _wire: &Wire) -> Result<(), Fault> {
        Ok(())
    }

    fn select(&mut self, level: Level) -> Result<(), Fault> {
        self.selected = level == Level::Asserted;
        Ok(())
    }

    fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault> {
        assert!(self.prepared && self.selected);
        while let Some(word) = words.next_word() {
            self.sent.push(word as u8);
            words.receive(word + 100);
        }
        Ok(Progress::Done)
    }

    fn abort(&mut self) {
        unreachable!("nothing fails here");
    }
}

type Paperwork = Bus<Paper, World, 2, 2>;

fn bus(has_worker: HasWorker, config: Config) -> Arc<Paperwork> {
    Arc::new(Bus::new(Paper::default(), World::new(has_worker), config))
}

fn settings() -> Settings {
    Settings::new(1_000_000, Select::line(0))
}

/// The worker of a kernel.
fn worker(bus: &Arc<Paperwork>) -> thread::JoinHandle<()> {
    let its = bus.clone();
    thread::spawn(move || {
        while !its.platform.stop.load(Ordering::Acquire) {
            if its.platform.woken.swap(false, Ordering::AcqRel) {
                its.work();
            } else {
                its.platform.worker.park();
            }
        }
    })
}

fn stop(bus: &Paperwork, worker: thread::JoinHandle<()>) {
    bus.platform.stop.store(true, Ordering::Release);
    bus.platform.worker.unpark();
    worker.join().unwrap();
}

/// A message of one byte, by sync; what comes back is its own.
fn sync(bus: &Paperwork, byte: u8) {
    let device = bus.device(settings()).unwrap();
    let mut came = [byte];
    device.sync(&mut [Transfer::in_place(&mut came)]).unwrap();
    assert_eq!(came, [byte + 100]);
}

/// What was sent in all; the bus is idle, and nothing is left in it.
fn sent(bus: &Paperwork) -> Vec<u8> {
    assert!(
        bus.queue
            .slots()
            .iter()
            .all(|slot| slot.state() == queue::State::Free)
    );
    let sent = bus.with_controller(|paper| {
        assert!(!paper.selected);
        std::mem::take(&mut paper.sent)
    });
    sent.expect("the bus was let go")
}

fn sorted(mut sent: Vec<u8>) -> Vec<u8> {
    sent.sort_unstable();
    sent
}

/// In every order with so many involuntary switches of threads.
fn model(switches: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(switches);
    builder.check(model);
}

const NOTHING_FOR_OTHERS: Config = Config {
    most_bytes: 0,
    ..Config::DEFAULT
};

#[test]
fn two_callers_are_both_served_once() {
    model(3, || {
        let bus = bus(HasWorker::No, Config::DEFAULT);
        let its = bus.clone();
        let other = thread::spawn(move || sync(&its, 1));
        sync(&bus, 2);
        other.join().unwrap();
        assert_eq!(sorted(sent(&bus)), [1, 2]);
        assert_eq!(bus.statistics().messages, 2);
    });
}

#[test]
fn three_callers_are_all_served_once() {
    model(2, || {
        let bus = bus(HasWorker::No, Config::DEFAULT);
        let others = [1, 2].map(|byte| {
            let its = bus.clone();
            thread::spawn(move || sync(&its, byte))
        });
        sync(&bus, 3);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(sorted(sent(&bus)), [1, 2, 3]);
    });
}

#[test]
fn callers_who_do_nothing_for_others_hand_the_bus_on() {
    model(2, || {
        let bus = bus(HasWorker::No, NOTHING_FOR_OTHERS);
        let others = [1, 2].map(|byte| {
            let its = bus.clone();
            thread::spawn(move || sync(&its, byte))
        });
        sync(&bus, 3);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(sorted(sent(&bus)), [1, 2, 3]);
    });
}

#[test]
fn a_turn_is_handed_over_and_nobody_comes_between() {
    model(3, || {
        let bus = bus(HasWorker::No, Config::DEFAULT);
        let its = bus.clone();
        let other = thread::spawn(move || {
            let device = its.device(settings()).unwrap();
            let mut locked = device.lock().unwrap();
            locked.sync(&mut [Transfer::write(&[1])]).unwrap();
            locked.sync(&mut [Transfer::write(&[2])]).unwrap();
        });
        // Longer than a place in the queue: a turn too.
        let device = bus.device(settings()).unwrap();
        device.write(&[7, 8, 9]).unwrap();
        other.join().unwrap();
        let sent = sent(&bus);
        assert!(
            sent == [1, 2, 7, 8, 9] || sent == [7, 8, 9, 1, 2],
            "{sent:?}"
        );
    });
}

#[test]
fn what_is_submitted_is_run_once_by_the_caller_or_by_the_worker() {
    model(2, || {
        let bus = bus(HasWorker::Yes, Config::DEFAULT);
        let worker = worker(&bus);
        let its = bus.clone();
        let caller = thread::spawn(move || sync(&its, 1));
        let device = bus.device(settings()).unwrap();
        let mut pending = device.submit(&[Part::write(&[2])]).unwrap();
        pending.wait().unwrap();
        drop(pending);
        caller.join().unwrap();
        stop(&bus, worker);
        assert_eq!(sorted(sent(&bus)), [1, 2]);
        let statistics = bus.statistics();
        assert_eq!(statistics.messages, 2);
        // Nobody else was woken, and nobody twice.
        assert!(statistics.wakeups <= 1);
    });
}

#[test]
fn what_a_caller_leaves_the_worker_runs() {
    model(2, || {
        let bus = bus(HasWorker::Yes, NOTHING_FOR_OTHERS);
        let worker = worker(&bus);
        let its = bus.clone();
        let caller = thread::spawn(move || sync(&its, 1));
        sync(&bus, 2);
        caller.join().unwrap();
        stop(&bus, worker);
        assert_eq!(sorted(sent(&bus)), [1, 2]);
    });
}

#[test]
fn messages_of_one_device_keep_their_order() {
    model(2, || {
        let bus = bus(HasWorker::Yes, Config::DEFAULT);
        let worker = worker(&bus);
        let its = bus.clone();
        let caller = thread::spawn(move || sync(&its, 9));
        let device = bus.device(settings()).unwrap();
        let mut first = device.submit(&[Part::write(&[1])]).unwrap();
        // If there is no place left, sync waits for one.
        device.sync(&mut [Transfer::write(&[2])]).unwrap();
        assert!(first.is_done());
        first.wait().unwrap();
        drop(first);
        caller.join().unwrap();
        stop(&bus, worker);
        let sent = sent(&bus);
        let ours: Vec<_> = sent.into_iter().filter(|byte| *byte != 9).collect();
        assert_eq!(ours, [1, 2]);
    });
}

#[test]
fn what_is_given_up_is_run_once_or_not_at_all_and_leaves_its_place() {
    model(3, || {
        let bus = bus(HasWorker::No, Config::DEFAULT);
        let its = bus.clone();
        let caller = thread::spawn(move || sync(&its, 1));
        let device = bus.device(settings()).unwrap();
        drop(device.submit(&[Part::write(&[2])]));
        caller.join().unwrap();
        bus.run_queued();
        let sent = sent(&bus);
        assert!(sent == [1] || sorted(sent.clone()) == [1, 2], "{sent:?}");
    });
}

#[test]
fn a_device_that_is_dropped_leaves_nothing_behind() {
    model(3, || {
        let bus = bus(HasWorker::No, Config::DEFAULT);
        let its = bus.clone();
        let caller = thread::spawn(move || sync(&its, 1));
        let device = bus.device(settings()).unwrap();
        let mut pending = device.submit(&[Part::write(&[2])]).unwrap();
        drop(device);
        let result = pending.wait();
        drop(pending);
        caller.join().unwrap();
        let sent = sorted(sent(&bus));
        match result {
            Ok(()) => assert_eq!(sent, [1, 2]),
            Err(error) => {
                assert_eq!(error, Error::Cancelled);
                assert_eq!(sent, [1]);
            }
        }
    });
}

#[test]
fn a_handle_and_its_device_may_be_dropped_at_once() {
    model(3, || {
        let bus = bus(HasWorker::No, Config::DEFAULT);
        let device = bus.device(settings()).unwrap();
        let pending = device.submit(&[Part::write(&[1])]).unwrap();
        let its = bus.clone();
        // What dropping the first device does.
        let dropped = thread::spawn(move || its.withdraw(0));
        drop(pending);
        let other = bus.device(settings()).unwrap();
        let mut kept = other.submit(&[Part::write(&[2])]).unwrap();
        dropped.join().unwrap();
        bus.run_queued();
        assert!(kept.is_done());
        assert_eq!(kept.wait(), Ok(()));
        drop(kept);
        assert_eq!(sent(&bus), [2]);
    });
}

#[test]
fn the_hardware_sleeps_once_and_not_while_somebody_uses_it() {
    model(2, || {
        let bus = bus(HasWorker::Yes, Config::DEFAULT);
        let worker = worker(&bus);
        sync(&bus, 1);
        // The timer of the busy period goes off twice: something has happened, and
        // nothing has happened since.
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
fn who_is_awake_takes_the_bus_that_was_left_and_the_worker_does_no_harm() {
    model(2, || {
        let mut world = World::new(HasWorker::Yes);
        world.looks = Nanos(2);
        let bus = Arc::new(Bus::new(Paper::default(), world, NOTHING_FOR_OTHERS));
        let worker = worker(&bus);
        let its = bus.clone();
        let caller = thread::spawn(move || sync(&its, 1));
        sync(&bus, 2);
        caller.join().unwrap();
        stop(&bus, worker);
        assert_eq!(sorted(sent(&bus)), [1, 2]);
    });
}

#[test]
fn a_worker_that_ends_leaves_nothing_to_nobody() {
    model(3, || {
        let bus = bus(HasWorker::Yes, Config::DEFAULT);
        let its = bus.clone();
        let worker = thread::spawn(move || {
            its.platform.serves.store(false, Ordering::Release);
            its.gate.answer();
            its.pass_on();
            its.work();
        });
        let device = bus.device(settings()).unwrap();
        let mut pending = device.submit(&[Part::write(&[1])]).unwrap();
        // Nobody wakes us but who passes it on.
        pending.wait().unwrap();
        drop(pending);
        worker.join().unwrap();
        assert_eq!(sent(&bus), [1]);
    });
}

/// Is through when the interrupt has been.
struct Slow(Arc<AtomicBool>);

impl Controller for Slow {
    fn capabilities(&self) -> Capabilities {
        Capabilities::all(1)
    }
    fn set(&mut self, _wire: &Wire) -> Result<(), Fault> {
        Ok(())
    }
    fn select(&mut self, _level: Level) -> Result<(), Fault> {
        Ok(())
    }
    fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault> {
        if !self.0.load(Ordering::Acquire) {
            return Ok(Progress::Interrupt);
        }
        words.complete();
        Ok(Progress::Done)
    }
    fn abort(&mut self) {
        unreachable!("nothing fails here");
    }
}

/// Polls a future until it is through.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unparks(Token);
    impl std::task::Wake for Unparks {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unparks(Token::mine())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => {
                Token::mine().park();
                // One who comes again at once leaves others their turn.
                thread::yield_now();
            }
        }
    }
}

#[test]
fn a_future_and_whoever_finds_it_late_do_not_both_have_the_bus() {
    model(3, || {
        let ready = Arc::new(AtomicBool::new(false));
        let world = World::new(HasWorker::No);
        let bus: Bus<_, _, 1, 1> = Bus::new(Slow(ready.clone()), world, Config::DEFAULT);
        let bus = Arc::new(bus);
        let its = bus.clone();
        let other = thread::spawn(move || {
            ready.store(true, Ordering::Release);
            its.on_interrupt();
            // Whatever the time is, it is over.
            its.poll(Nanos(u64::MAX));
        });
        let mut device = bus.device(settings()).unwrap();
        let operations = &mut [embedded_hal::spi::Operation::Write(&[1])];
        block_on(device.transaction(operations)).unwrap();
        other.join().unwrap();
        let statistics = bus.statistics();
        assert_eq!((statistics.messages, statistics.errors), (1, 0));
        assert!(bus.with_controller(|_| ()).is_some());
    });
}

#[test]
fn a_future_is_told_of_a_bus_that_was_let_go_while_it_looked() {
    model(3, || {
        let bus = bus(HasWorker::No, NOTHING_FOR_OTHERS);
        let its = bus.clone();
        let other = thread::spawn(move || sync(&its, 1));
        let mut device = bus.device(settings()).unwrap();
        let operations = &mut [embedded_hal::spi::Operation::Write(&[2])];
        block_on(device.transaction(operations)).unwrap();
        other.join().unwrap();
        assert_eq!(sorted(sent(&bus)), [1, 2]);
    });
}

#[test]
fn who_waits_for_what_he_submitted_is_told_of_a_bus_that_was_let_go_while_he_looked() {
    model(3, || {
        let bus = bus(HasWorker::No, NOTHING_FOR_OTHERS);
        let its = bus.clone();
        let other = thread::spawn(move || sync(&its, 1));
        let device = bus.device(settings()).unwrap();
        let mut pending = device.submit(&[Part::write(&[2])]).unwrap();
        pending.wait().unwrap();
        drop(pending);
        other.join().unwrap();
        assert_eq!(sorted(sent(&bus)), [1, 2]);
    });
}

#[test]
fn an_interrupt_is_never_missed() {
    model(3, || {
        let ready = Arc::new(AtomicBool::new(false));
        let world = World::new(HasWorker::No);
        let bus: Bus<_, _, 1, 1> = Bus::new(Slow(ready.clone()), world, Config::DEFAULT);
        let bus = Arc::new(bus);
        let its = bus.clone();
        let hardware = thread::spawn(move || {
            ready.store(true, Ordering::Release);
            its.on_interrupt();
        });
        let device = bus.device(settings()).unwrap();
        device.write(&[1]).unwrap();
        hardware.join().unwrap();
        assert_eq!(bus.statistics().messages, 1);
    });
}

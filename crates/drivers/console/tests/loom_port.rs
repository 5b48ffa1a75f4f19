//! The hand-over of the port's interrupts and of received bytes, in every order of the steps of
//! three contexts (loom).
//!
//! This test includes the crate's own files. Only the atomics and the lock are loom's.
#![cfg(target_pointer_width = "64")]
#![allow(dead_code, missing_docs)]

#[path = "../src/input.rs"]
mod input;
#[path = "../src/shared.rs"]
mod shared;
#[path = "../src/sink.rs"]
mod sink;

mod sync {
    use std::ops::{Deref, DerefMut};

    pub(crate) use loom::sync::atomic::{AtomicU8, AtomicUsize, Ordering, fence};
    use loom::sync::{Mutex, MutexGuard};

    /// A lock with the same memory orders as the one of `spin`.
    #[derive(Debug)]
    pub(crate) struct TryLock<T> {
        is_locked: AtomicUsize,
        data: Mutex<T>,
    }

    impl<T> TryLock<T> {
        pub(crate) fn new(data: T) -> Self {
            Self {
                is_locked: AtomicUsize::new(0),
                data: Mutex::new(data),
            }
        }

        pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
            self.is_locked
                .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                .ok()?;
            Some(Guard {
                lock: self,
                data: Some(self.data.lock().unwrap()),
            })
        }
    }

    pub(crate) struct Guard<'l, T> {
        lock: &'l TryLock<T>,
        data: Option<MutexGuard<'l, T>>,
    }

    impl<T> Deref for Guard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            self.data.as_ref().unwrap()
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.data.as_mut().unwrap()
        }
    }

    impl<T> Drop for Guard<'_, T> {
        fn drop(&mut self) {
            self.data = None;
            self.lock.is_locked.store(0, Ordering::Release);
        }
    }
}

use std::array;

use input::Input;
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;
use shared::Shared;
use sink::Caller;
use sync::{AtomicU8, AtomicUsize, Ordering, TryLock};

/// A port, its driver's lock, and the bytes that were received.
struct Machine {
    /// 1 while the port's interrupt is enabled. Only the lock's holder changes it.
    enabled: AtomicUsize,
    /// Number of bytes in the receive FIFO. The interrupt line is high while it is not 0.
    fifo: AtomicUsize,
    port: Shared<()>,
    received: AtomicUsize,
    edges: AtomicUsize,
}

impl Machine {
    fn new() -> Self {
        Self {
            enabled: AtomicUsize::new(1),
            fifo: AtomicUsize::new(0),
            port: Shared {
                port: TryLock::new(()),
                spares: array::from_fn(|_| TryLock::new(())),
                pending: AtomicUsize::new(0),
                late: AtomicUsize::new(0),
            },
            received: AtomicUsize::new(0),
            edges: AtomicUsize::new(0),
        }
    }

    /// Empties the FIFO.
    fn serve(&self) -> usize {
        let bytes = self.fifo.swap(0, Ordering::SeqCst);
        self.received.fetch_add(bytes, Ordering::Relaxed);
        bytes
    }

    fn uses_port(&self) {
        drop(self.port.take(Caller::Normal, |(), _| self.serve()));
    }

    /// Uses the port for a long time, with interrupts enabled except at the start and the end.
    fn writes_directly(&self, meanwhile: impl FnOnce()) {
        let Some(port) = self.port.take(Caller::Normal, |(), _| self.serve()) else {
            return;
        };
        self.enabled.swap(0, Ordering::SeqCst);
        meanwhile();
        self.enabled.swap(1, Ordering::SeqCst);
        drop(port);
    }

    /// Runs the handler while the line is high, as a level-triggered controller does, but at most
    /// `most` times. Returns the number of runs.
    fn handles_level(&self, most: usize) -> usize {
        let is_high = || now(&self.enabled) != 0 && now(&self.fifo) != 0;
        let run = |_: &usize| is_high() && self.port.interrupt(|(), _| self.serve()) < usize::MAX;
        (0..most).take_while(run).count()
    }

    /// Receives a byte. An edge-triggered controller calls the handler only if the line was low.
    fn byte_comes_in(&self) {
        if self.fifo.fetch_add(1, Ordering::SeqCst) == 0 {
            self.port.interrupt(|(), _| self.serve());
        }
    }
}

/// Reads a register or a wire. It never shows an old value.
fn now(wire: &AtomicUsize) -> usize {
    wire.fetch_add(0, Ordering::SeqCst)
}

fn model(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(test);
}

#[test]
fn a_handler_a_slice_and_a_direct_writer_leave_no_byte_in_the_port() {
    model(3, || {
        let machine = Arc::new(Machine::new());
        let others = [0, 1].map(|_| {
            let machine = Arc::clone(&machine);
            thread::spawn(move || machine.uses_port())
        });
        machine.byte_comes_in();
        machine.byte_comes_in();
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(
            machine.fifo.load(Ordering::SeqCst),
            0,
            "no further edge arrives"
        );
        assert_eq!(machine.received.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn two_panics_beside_a_direct_writer_each_find_a_way_to_the_port() {
    model(3, || {
        let machine = Arc::new(Machine::new());
        let panics = |machine: &Machine| {
            // The first way is free, or is given back meanwhile, or a spare is left.
            for _ in 0..2 {
                let port = machine.port.take(Caller::Panic, |(), _| machine.serve());
                assert!(port.is_some(), "silent");
            }
        };
        let other = {
            let machine = Arc::clone(&machine);
            thread::spawn(move || panics(&machine))
        };
        let writer = {
            let machine = Arc::clone(&machine);
            thread::spawn(move || machine.writes_directly(|| ()))
        };
        panics(&machine);
        other.join().unwrap();
        writer.join().unwrap();
    });
}

#[test]
fn a_panic_that_interrupts_a_panic_that_interrupts_a_user_of_the_port_finds_a_way() {
    model(3, || {
        let machine = Arc::new(Machine::new());
        let others = [0, 1].map(|_| {
            let machine = Arc::clone(&machine);
            thread::spawn(move || {
                machine.uses_port();
                machine.byte_comes_in();
            })
        });
        let take = || machine.port.take(Caller::Panic, |(), _| machine.serve());
        let (outer, inner) = (take(), take());
        assert!(outer.is_some() && inner.is_some(), "silent");
        drop(inner);
        drop(outer);
        for other in others {
            other.join().unwrap();
        }
        assert!(now(&machine.fifo) == 0 || machine.port.is_late());
    });
}

#[test]
fn two_handlers_and_a_slice_leave_no_byte_in_the_port() {
    model(3, || {
        let machine = Arc::new(Machine::new());
        let handlers = [0, 1].map(|_| {
            let machine = Arc::clone(&machine);
            thread::spawn(move || machine.byte_comes_in())
        });
        machine.uses_port();
        for handler in handlers {
            handler.join().unwrap();
        }
        assert_eq!(machine.fifo.load(Ordering::SeqCst), 0);
        assert_eq!(machine.received.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn a_byte_that_a_user_leaves_after_its_rounds_is_kept_for_a_later_one() {
    model(3, || {
        let machine = Arc::new(Machine::new());
        // Each user receives as much as one use may.
        let serve = |machine: &Machine| machine.serve() * 256;
        let comes_in = move |machine: &Machine| {
            if machine.fifo.fetch_add(1, Ordering::SeqCst) == 0 {
                machine.port.interrupt(|(), _| serve(machine));
            }
        };
        let handlers = [0, 1].map(|_| {
            let machine = Arc::clone(&machine);
            thread::spawn(move || comes_in(&machine))
        });
        comes_in(&machine);
        for handler in handlers {
            handler.join().unwrap();
        }
        assert!(now(&machine.fifo) == 0 || machine.port.is_late());
        assert!(!machine.port.serve_late(|(), _| serve(&machine)));
        assert_eq!(now(&machine.fifo), 0);
    });
}

#[test]
fn a_handler_that_interrupts_the_ports_user_is_served_while_another_uses_the_port() {
    model(3, || {
        let machine = Arc::new(Machine::new());
        let other = {
            let machine = Arc::clone(&machine);
            thread::spawn(move || machine.uses_port())
        };
        let port = machine.port.take(Caller::Normal, |(), _| machine.serve());
        machine.byte_comes_in();
        drop(port);
        other.join().unwrap();
        assert_eq!(machine.fifo.load(Ordering::SeqCst), 0);
        assert_eq!(machine.received.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_level_triggered_handler_ends_on_a_direct_writers_cpu_and_on_another_one_beside_a_slice() {
    model(3, || {
        let machine = Arc::new(Machine::new());
        machine.fifo.store(1, Ordering::SeqCst);
        let slice = {
            let machine = Arc::clone(&machine);
            thread::spawn(move || machine.uses_port())
        };
        let handler = {
            let machine = Arc::clone(&machine);
            thread::spawn(move || machine.handles_level(2))
        };
        machine.writes_directly(|| {
            let runs = machine.handles_level(2);
            assert_eq!(runs, 0, "the writer would never continue");
        });
        slice.join().unwrap();
        handler.join().unwrap();
        // The other users are gone, so one run is enough.
        assert!(machine.handles_level(9) <= 1);
        assert_eq!((now(&machine.enabled), now(&machine.fifo)), (1, 0));
        assert_eq!(machine.received.load(Ordering::Relaxed), 1);
    });
}

fn input<const N: usize>() -> Input<N> {
    Input {
        bytes: array::from_fn(|_| AtomicU8::new(0)),
        stored: AtomicUsize::new(0),
        taken: AtomicUsize::new(0),
        lost: AtomicUsize::new(0),
        news: AtomicUsize::new(0),
    }
}

#[test]
fn two_readers_take_each_byte_once_and_in_order() {
    model(3, || {
        let input = Arc::new(input::<2>());
        let reader = {
            let input = Arc::clone(&input);
            thread::spawn(move || [input.take(), input.take()])
        };
        for byte in 1..=3 {
            input.put(byte);
        }
        let mine = input.take();
        let theirs = reader.join().unwrap();
        assert!(theirs[0].is_none() || theirs[1].is_none_or(|byte| Some(byte) > theirs[0]));
        let rest: Vec<_> = std::iter::from_fn(|| input.take()).collect();
        let mut all: Vec<_> = theirs
            .into_iter()
            .flatten()
            .chain(mine)
            .chain(rest)
            .collect();
        all.sort_unstable();
        let lost = input.lost.load(Ordering::Relaxed);
        assert_eq!(all.len() + lost, 3, "{all:?}");
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "{all:?}");
    });
}

#[test]
fn a_reader_that_was_woken_finds_the_byte() {
    model(3, || {
        let input = Arc::new(input::<4>());
        let owner = {
            let input = Arc::clone(&input);
            thread::spawn(move || input.put(7))
        };
        if input.take_news() {
            assert_eq!(input.take(), Some(7));
        }
        owner.join().unwrap();
        assert!(input.take() != Some(7) || input.take_news());
    });
}

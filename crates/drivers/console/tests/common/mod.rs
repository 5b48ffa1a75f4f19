//! Helpers that the tests share.
#![allow(dead_code)]

pub mod rejoin;

use std::cell::Cell;
use std::sync::Mutex;

use nostall_console::{Caller, Drain, Level, Meta, Next, Offered, Priority, Sink};
use nostall_io::{Clock, Nanos};

/// Metadata of most records in the tests.
pub const META: Meta<'static> = Meta {
    time: Nanos(1_234_567_000),
    cpu: 0,
    level: Level::Info,
    priority: Priority::Normal,
    target: "",
};

/// The prefix of each line.
pub const P: &str = "[    1.234567] ";

pub fn of(priority: Priority) -> Meta<'static> {
    Meta { priority, ..META }
}

/// A sink that takes a given number of bytes per offer, and reports when it can take more.
pub struct Line {
    pub load: Mutex<usize>,
    pub ready_at: Mutex<Option<Nanos>>,
    pub taken: Mutex<Vec<u8>>,
    pub offers: Mutex<usize>,
}

impl Sink for Line {
    fn offer(&self, text: &[u8], _: Caller) -> Offered {
        let taken = text.len().min(*self.load.lock().unwrap());
        self.taken.lock().unwrap().extend(&text[..taken]);
        *self.offers.lock().unwrap() += 1;
        Offered {
            taken,
            ready_at: *self.ready_at.lock().unwrap(),
        }
    }
}

impl Line {
    pub fn new(load: usize) -> Self {
        Self {
            load: load.into(),
            ready_at: Some(Nanos(0)).into(),
            taken: Mutex::default(),
            offers: Mutex::default(),
        }
    }

    pub fn text(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.taken.lock().unwrap())).unwrap()
    }
}

pub fn drain_all(drain: &Drain<'_, impl Sink>, priority: Priority) {
    let mut slices = 0;
    while !matches!(
        drain.drain_bounded(0, priority, &At(0)),
        Next::Empty | Next::Backlog(_)
    ) {
        slices += 1;
        assert!(slices < 100_000);
    }
}

/// A clock that always shows this time.
pub struct At(pub u64);

impl Clock for At {
    fn now(&self) -> Nanos {
        Nanos(self.0)
    }
}

/// The duration of one read of a virtual clock.
pub const CLOCK_READ: Nanos = Nanos(if cfg!(miri) { 10_000 } else { 500 });

/// Virtual time that advances with each read.
#[derive(Default)]
pub struct Virtual(pub Cell<u64>);

impl Virtual {
    pub fn set(&self, time: Nanos) {
        self.0.set(time.0);
    }
}

impl Clock for Virtual {
    fn now(&self) -> Nanos {
        let now = Nanos(self.0.get());
        self.0.set((now + CLOCK_READ).0);
        now
    }
}

/// A virtual clock that advances when a panic reads it.
pub struct Advancing<C>(pub C);

impl<C: Clock> Clock for Advancing<C> {
    fn now(&self) -> Nanos {
        let now = self.0.now();
        self.0.wait_until(now + CLOCK_READ);
        now
    }
}

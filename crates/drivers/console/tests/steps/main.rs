//! Producers, readers and owners that die or are interrupted at each of their steps. Also the last
//! sequences before a wrap.
//!
//! This test includes the crate's own files. Their atomics count operations, and stop or interrupt
//! the caller after a given number (`sync.rs`).
#![allow(dead_code, unused_imports, missing_docs, clippy::duplicate_mod)]

#[path = "../../src/cursor.rs"]
mod cursor;
#[path = "../../src/drain.rs"]
mod drain;
#[path = "../../src/feed.rs"]
mod feed;
#[path = "../../src/flush.rs"]
mod flush;
#[path = "../../src/kept.rs"]
mod kept;
#[path = "../../src/lane.rs"]
mod lane;
#[path = "../../src/layout.rs"]
mod layout;
#[path = "../../src/level.rs"]
mod level;
#[path = "../../src/line.rs"]
mod line;
#[path = "../../src/next_offer.rs"]
mod next_offer;
#[path = "../../src/options.rs"]
mod options;
#[path = "../../src/owner.rs"]
mod owner;
#[path = "../../src/parts.rs"]
mod parts;
#[path = "../../src/pieces.rs"]
mod pieces;
#[path = "../../src/prefix.rs"]
mod prefix;
#[path = "../../src/record.rs"]
mod record;
#[path = "../../src/render.rs"]
mod render;
#[path = "../../src/ring.rs"]
mod ring;
#[path = "../../src/sequence.rs"]
mod sequence;
#[path = "../../src/sink.rs"]
mod sink;
#[path = "../../src/slot.rs"]
mod slot;
#[path = "../../src/storage.rs"]
mod storage;
#[path = "../../src/tail.rs"]
mod tail;

#[path = "../common/rejoin.rs"]
mod rejoin;
mod sync;

mod interrupted;
mod killed;
mod wrapped;

pub use cursor::{Cursor, Read};
pub use drain::{Drain, Next};
pub use flush::{FlushLimits, FlushReport, flush};
pub use level::{Level, Priority};
pub use nostall_io::Offered;
pub use options::{Charset, OverflowPolicy, SinkOptions};
pub use record::{Meta, Record};
pub use ring::{Logged, Ring};
pub use sink::{Caller, Sink};
pub use slot::Slot;

use std::cell::Cell;
use std::sync::Mutex;

use nostall_io::{Clock, Nanos};

const META: Meta<'static> = Meta {
    time: Nanos(0),
    cpu: 3,
    level: Level::Info,
    priority: Priority::Normal,
    target: "",
};

/// The prefix of each line.
const P: &str = "[    0.000000] ";

fn of(priority: Priority) -> Meta<'static> {
    Meta { priority, ..META }
}

/// Runs `ends_before` with 0, 1, 2 ... steps, until it returns true.
fn at_every_step(ends_before: impl FnMut(usize) -> bool) {
    assert!((0..20_000).any(ends_before), "it never ends");
}

fn texts(ring: &Ring, cursor: &mut Cursor) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        match cursor.read(ring) {
            Read::Record(record) => {
                seen.push(String::from_utf8(record.text().to_vec()).unwrap());
            }
            Read::Pending => cursor.skip(),
            Read::Empty => return seen,
        }
    }
}

#[derive(Default)]
struct Memory {
    load: usize,
    taken: Mutex<Vec<u8>>,
}

impl Sink for Memory {
    fn offer(&self, text: &[u8], _: Caller) -> Offered {
        let taken = text.len().min(self.load);
        self.taken.lock().unwrap().extend(&text[..taken]);
        Offered {
            taken,
            ready_at: Some(Nanos(0)),
        }
    }
}

impl Memory {
    fn of(load: usize) -> Self {
        Self {
            load,
            ..Self::default()
        }
    }

    fn text(&self) -> String {
        String::from_utf8(self.taken.lock().unwrap().clone()).unwrap()
    }
}

/// A clock that always shows this time.
struct At(u64);

impl Clock for At {
    fn now(&self) -> Nanos {
        Nanos(self.0)
    }
}

/// Virtual time that advances by a microsecond with each read.
#[derive(Default)]
struct Virtual(Cell<u64>);

impl Clock for Virtual {
    fn now(&self) -> Nanos {
        let now = self.0.get();
        self.0.set(now + 1_000);
        Nanos(now)
    }
}

/// Asserts that `sent` has exactly these lines, with those of `first` before the others. Each line
/// comes once. If an owner died in an offer, some lines may come twice, with the beginning of one
/// before them.
fn assert_has(sent: &str, first: &[&str], then: &[&str]) {
    use rejoin::Joined;
    let joined = rejoin::rejoin(sent);
    let again = joined.iter().filter(|it| **it == Joined::Again).count();
    let mut seen = Vec::new();
    for it in &joined {
        match it {
            Joined::Line(line) => {
                let is_new = !seen.contains(&line.as_str());
                assert!(is_new || again > 0, "twice: {sent}");
                if is_new {
                    seen.push(line);
                }
            }
            Joined::Fragment(text) => {
                let mut lines = first.iter().chain(then);
                let is_start = lines.any(|line| line.starts_with(text));
                assert!(again > 0 && is_start, "{text}: {sent}");
            }
            Joined::Again => {}
        }
    }
    let of = |lines: &[&str]| -> Vec<&str> {
        let seen = seen.iter().copied();
        seen.filter(|line| lines.contains(line)).collect()
    };
    assert_eq!(of(first), first, "{sent}");
    assert_eq!(of(then), then, "{sent}");
    assert_eq!(seen.len(), first.len() + then.len(), "garbled: {sent}");
}

/// Returns the size of the lines without their ends, plus the space for markers and repeated
/// beginnings.
fn bytes(lines: &[&str], deaths: usize) -> usize {
    let longest = lines.iter().map(|line| line.len()).max().unwrap_or(0);
    let all: usize = lines.iter().map(|line| line.len() + 1).sum();
    all + deaths * (longest + "\n{again}\n".len())
}

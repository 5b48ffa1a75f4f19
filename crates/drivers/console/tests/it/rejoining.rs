//! A program that reads the output of a drain restores each line as it was logged, wherever lines
//! were interrupted.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::common::rejoin::{Joined, rejoin};
use crate::common::{At, P, Virtual, of};
use nostall_console::{
    Caller, Drain, FlushLimits, Next, Offered, Priority, Ring, Sink, SinkOptions, Slot, flush,
};
use nostall_io::Nanos;

/// Reproducible random numbers (xorshift).
struct Random(Cell<u64>);

impl Random {
    fn new(seed: u64) -> Self {
        let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        state ^= state >> 29;
        Self(Cell::new(state | 1))
    }

    fn below(&self, end: usize) -> usize {
        let mut x = self.0.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.0.set(x);
        (x >> 20) as usize % end
    }
}

/// A serial port. Each LF is sent as CR LF, and an offer may end between the two.
struct Port {
    wire: RefCell<Vec<u8>>,
    cr_sent: Cell<bool>,
    /// Number of bytes on the wire that an offer takes.
    load: Cell<usize>,
    /// The number of bytes after which the owner dies.
    dies_after: Cell<usize>,
}

impl Port {
    fn new(load: usize) -> Self {
        Self {
            wire: RefCell::default(),
            cr_sent: Cell::new(false),
            load: Cell::new(load),
            dies_after: Cell::new(usize::MAX),
        }
    }

    fn text(&self) -> String {
        latin(&self.wire.borrow())
    }
}

impl Sink for Port {
    fn offer(&self, text: &[u8], _: Caller) -> Offered {
        let mut taken = 0;
        for _ in 0..self.load.get() {
            let Some(&byte) = text.get(taken) else { break };
            if self.dies_after.get() == 0 {
                self.dies_after.set(usize::MAX);
                resume_unwind(Box::new("dies"));
            }
            self.dies_after.set(self.dies_after.get().saturating_sub(1));
            if byte == b'\n' && !self.cr_sent.replace(false) {
                self.cr_sent.set(true);
                self.wire.borrow_mut().push(b'\r');
            } else {
                self.cr_sent.set(false);
                self.wire.borrow_mut().push(byte);
                taken += 1;
            }
        }
        Offered {
            taken,
            ready_at: Some(Nanos::ZERO),
        }
    }
}

/// Returns one character per byte, because a multi-byte character may be cut.
fn latin(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// Texts that imitate markers, prefixes and escapes.
const FEIGNED: [&str; 10] = [
    "{cut 0}",
    "{rest 0}",
    "{rest 1}rest",
    "{again}",
    "[cut]",
    "[rest]",
    "x{cut 1}",
    "[    1.234567] ",
    "[3 records lost]",
    "{",
];

/// Asserts that `sent` has these lines of each priority, in order.
fn assert_rejoined(sent: &str, wanted: &[Vec<String>; 3], deaths: usize, seed: u64) {
    let joined = rejoin(sent);
    let mut seen: [Vec<&str>; 3] = Default::default();
    let mut again = 0;
    for it in &joined {
        match it {
            Joined::Line(line) => {
                let of = wanted.iter().position(|lines| lines.contains(line));
                let of = of.unwrap_or_else(|| panic!("{seed}: garbled {line:?}: {sent}"));
                if seen[of].contains(&line.as_str()) {
                    assert!(again > 0, "{seed}: twice {line:?}: {sent}");
                } else {
                    seen[of].push(line);
                }
            }
            Joined::Fragment(text) => {
                let is_start = wanted.iter().flatten().any(|line| line.starts_with(text));
                assert!(deaths > 0 && is_start, "{seed}: {text:?}: {sent}");
            }
            Joined::Again => again += 1,
        }
    }
    assert!(again <= deaths, "{seed}: {sent}");
    for (seen, wanted) in seen.iter().zip(wanted) {
        assert_eq!(seen, wanted, "{seed}: {sent}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "counts, of many schedules")]
fn ten_thousand_random_schedules_are_rejoined() {
    for seed in 0..10_000 {
        let random = Random::new(seed);
        let ring = Ring::<[Slot; 256]>::new();
        let options = SinkOptions::DEFAULT.slice(1 + random.below(60));
        let drain = Drain::new(&ring, Port::new(1), options);
        let mut wanted: [Vec<String>; 3] = Default::default();
        let dies = seed % 4 == 3;
        if dies {
            drain.sink().dies_after.set(random.below(400));
        }
        // After a death, a line of several records is repeated from one of its records on.
        let longest = if dies { 60 } else { 200 };
        let mut deaths = 0;
        for n in 0..2 + random.below(20) as u64 {
            if random.below(2) == 0 {
                let urgent = [0, 0, 0, 1, 1, 2][random.below(6)];
                let priority = [Priority::Normal, Priority::Emergency, Priority::Panic][urgent];
                let feigned = FEIGNED[random.below(FEIGNED.len())];
                let text = format!("{feigned}{n}{}", "x".repeat(random.below(longest)));
                let text = if random.below(2) == 0 {
                    format!("{n}{feigned}")
                } else {
                    text
                };
                // The text has two parts, and the second one is empty.
                ring.format(&of(priority), format_args!("{text}{}", ""));
                wanted[urgent].push(format!("{P}{text}"));
                continue;
            }
            drain.sink().load.set(1 + random.below(40));
            let priority = [Priority::Normal, Priority::Emergency][random.below(2)];
            let slice = || {
                let _ = drain.drain_bounded(0, priority, &At(n * LATER));
            };
            if catch_unwind(AssertUnwindSafe(slice)).is_err() {
                deaths += 1;
            }
        }
        drain.sink().load.set(1 + random.below(40));
        if random.below(2) == 0 || deaths > 0 {
            ring.log(&of(Priority::Panic), b"panic");
            wanted[2].push(format!("{P}panic"));
            loop {
                let flushes = || flush(&[&drain], 1, &Virtual::default(), FlushLimits::DEFAULT);
                match catch_unwind(AssertUnwindSafe(flushes)) {
                    Ok(flushed) => break assert_eq!(flushed.complete, 1),
                    Err(_) => deaths += 1,
                }
            }
        } else {
            drain.sink().dies_after.set(usize::MAX);
            let slices =
                (0..100_000).map(|n| drain.drain_bounded(0, Priority::Normal, &At(n * LATER)));
            assert!(slices.into_iter().any(|next| next == Next::Empty), "{seed}");
        }
        assert_rejoined(&drain.sink().text(), &wanted, deaths, seed);
        assert_eq!((drain.lost(), drain.unread()), (0, 0));
    }
}

/// Returns the number of lost records that a line of this kind reports.
fn told(line: &str) -> Option<u64> {
    let (number, unit) = line.strip_prefix('[')?.split_once(' ')?;
    matches!(unit, "record lost]" | "records lost]").then(|| number.parse().ok())?
}

#[test]
#[cfg_attr(miri, ignore = "counts, of many schedules")]
fn lines_are_rejoined_even_if_records_are_overwritten_and_each_loss_is_reported() {
    let mut all_lost = 0;
    for seed in 0..5_000 {
        let random = Random::new(seed);
        let ring = Ring::<[Slot; 16]>::new();
        let options = SinkOptions::DEFAULT.slice(1 + random.below(60));
        let drain = Drain::new(&ring, Port::new(1), options);
        let mut logged: Vec<String> = Vec::new();
        for n in 0..random.below(60) as u64 {
            if random.below(3) > 0 {
                let urgent = [0, 0, 0, 0, 1, 2][random.below(6)];
                let priority = [Priority::Normal, Priority::Emergency, Priority::Panic][urgent];
                let feigned = FEIGNED[random.below(FEIGNED.len())];
                let text = format!("{n}{feigned}{}", "x".repeat(random.below(200)));
                ring.log(&of(priority), text.as_bytes());
                logged.push(text);
            } else {
                drain.sink().load.set(1 + random.below(200));
                let priority = [Priority::Normal, Priority::Emergency][random.below(2)];
                let _ = drain.drain_bounded(0, priority, &At(n * LATER));
            }
        }
        let mut slices =
            (100..100_000).map(|n| drain.drain_bounded(0, Priority::Normal, &At(n * LATER)));
        assert!(slices.any(|next| next == Next::Empty), "{seed}");
        let sent = drain.sink().text();
        let mut lost = 0;
        let mut whole = 0;
        for joined in rejoin(&sent) {
            let text = match &joined {
                Joined::Line(line) => line,
                Joined::Fragment(line) => line,
                Joined::Again => panic!("{seed}: {sent}"),
            };
            if let Some(more) = told(text) {
                lost += more;
                continue;
            }
            // Records of a longer line may be lost at its beginning or its end. Without its
            // beginning, it is marked.
            let marked = format!("(cont.) {P}");
            let is_known = if let Some(start) = text.strip_prefix(P) {
                whole += u64::from(logged.iter().any(|line| line == start));
                logged.iter().any(|line| line.starts_with(start))
            } else if let Some(part) = text.strip_prefix(&marked) {
                logged.iter().any(|line| line.contains(part))
            } else {
                P.starts_with(text) || marked.starts_with(text)
            };
            assert!(
                is_known,
                "{seed}: garbled {text:?}, logged {logged:?}: {sent}"
            );
        }
        assert_eq!(lost, drain.lost(), "{seed}: {sent}");
        // A lost record accounts for one line at most.
        assert!(whole + lost >= logged.len() as u64, "{seed}: {sent}");
        all_lost += lost;
    }
    assert!(all_lost > 10_000, "{all_lost}");
}

/// More than the pause after a port took only a CR, and so nothing of the text.
const LATER: u64 = 10_000_000;

/// Sends `bytes` bytes, CRs included, one per offer.
fn send(drain: &Drain<'_, Port>, priority: Priority, bytes: u64) {
    for n in 0..bytes {
        let _ = drain.drain_bounded(0, priority, &At(n * LATER));
    }
}

#[test]
#[cfg_attr(miri, ignore = "counts, of many schedules")]
fn a_line_is_rejoined_after_an_interruption_at_any_byte_that_is_interrupted_at_any_byte() {
    for first in 0..60 {
        for second in 0..60 {
            let ring = Ring::<[Slot; 64]>::new();
            let drain = Drain::new(&ring, Port::new(1), SinkOptions::DEFAULT.slice(1));
            let normal = "norm\u{e4}l, \u{201c}\u{1f600}";
            let line = |text: &str| vec![format!("{P}{text}")];
            let wanted = [
                vec![P.to_owned() + &latin(normal.as_bytes()), format!("{P}next")],
                line("urgent"),
                line("panic"),
            ];
            ring.log(&of(Priority::Normal), normal.as_bytes());
            ring.log(&of(Priority::Normal), b"next");
            send(&drain, Priority::Normal, first);
            ring.log(&of(Priority::Emergency), b"urgent");
            send(&drain, Priority::Emergency, second);
            ring.log(&of(Priority::Panic), b"panic");
            flush(&[&drain], 0, &Virtual::default(), FlushLimits::DEFAULT);
            let sent = drain.sink().text();
            assert_rejoined(&sent, &wanted, 0, first * 100 + second);
            // A CR alone would overwrite the line on a terminal, so an LF follows each.
            for (at, _) in sent.match_indices('\r') {
                assert_eq!(sent.as_bytes()[at + 1], b'\n', "{sent:?}");
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "counts, of many schedules")]
fn a_line_is_sent_again_whole_if_its_owner_dies_at_any_byte() {
    for dies_after in 0..120 {
        let ring = Ring::<[Slot; 64]>::new();
        let drain = Drain::new(&ring, Port::new(16), SinkOptions::DEFAULT.slice(1));
        let line = |text: &str| vec![format!("{P}{text}")];
        let wanted = [line("normal"), line("urgent"), line("panic")];
        drain.sink().dies_after.set(dies_after);
        let dies = || {
            ring.log(&of(Priority::Normal), b"normal");
            let _ = drain.drain_bounded(0, Priority::Normal, &At(0));
            ring.log(&of(Priority::Emergency), b"urgent");
            let _ = drain.drain_bounded(0, Priority::Emergency, &At(0));
            ring.log(&of(Priority::Panic), b"panic");
            flush(&[&drain], 0, &Virtual::default(), FlushLimits::DEFAULT);
        };
        let died = catch_unwind(AssertUnwindSafe(dies)).is_err();
        let logged = ring.newest();
        for (text, priority) in [("urgent", Priority::Emergency), ("panic", Priority::Panic)] {
            if logged < 1 + priority as u64 {
                ring.log(&of(priority), text.as_bytes());
            }
        }
        flush(&[&drain], 1, &Virtual::default(), FlushLimits::DEFAULT);
        let sent = drain.sink().text();
        assert_rejoined(&sent, &wanted, usize::from(died), dies_after as u64);
    }
}

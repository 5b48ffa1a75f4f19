//! Whether what arrived is what was logged: nothing lost in silence, nothing twice.

use std::collections::{HashMap, VecDeque};
use std::mem;

use nostall_console::{Cursor, Priority, Read, Record, Ring};
use nostall_io::Nanos;

use super::bus::Wire;
use super::cut::{self, Cut};

/// Faults are told up to so many.
const TOLD: usize = 10;

/// All that was logged, in order, whatever is overwritten later.
#[derive(Debug)]
pub(super) struct Logged {
    cursor: Cursor,
    lines: Vec<Line>,
}

/// A line that was logged: a record, or more if it is long.
#[derive(Debug)]
struct Line {
    records: Vec<Record>,
}

impl Logged {
    pub(super) fn new() -> Self {
        Self {
            cursor: Cursor::START,
            lines: Vec::new(),
        }
    }

    /// To be called each time that something was logged.
    pub(super) fn note(&mut self, ring: &Ring) {
        let mut open = false;
        while let Read::Record(record) = self.cursor.read(ring) {
            self.add(record, open);
            open = record.continues;
        }
    }

    /// All that a dead machine's ring holds.
    pub(super) fn found(records: impl Iterator<Item = Record>) -> Self {
        let mut logged = Self::new();
        let mut open = false;
        for record in records {
            logged.add(record, open);
            open = record.continues;
        }
        logged
    }

    fn add(&mut self, record: Record, goes_on: bool) {
        match self.lines.last_mut().filter(|_| goes_on) {
            Some(line) => line.records.push(record),
            None => self.lines.push(Line {
                records: vec![record],
            }),
        }
    }

    pub(super) fn lines(&self) -> usize {
        self.lines.len()
    }
}

/// What arrived, line by line.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Lines that arrived.
    pub arrived: usize,
    /// Records that did not.
    pub missing: u64,
    /// Records that are told to be lost, on the line.
    pub told: u64,
    /// Lines that were cut by one that is more urgent, and went on after it.
    pub cut: usize,
    /// Lines of which only the beginning arrived; `None` if none begins so.
    pub unfinished: Vec<Option<String>>,
    /// Times that the end of what had arrived came once more, or a line's beginning: who
    /// sent it was stopped in mid-FIFO, and nobody can know how far he was.
    pub sent_again: usize,
    /// What is not as it should be, the first few.
    pub damage: Vec<Damage>,
    /// When each line that arrived was logged, and when its end arrived.
    pub(super) times: Vec<(Nanos, Nanos)>,
}

/// What is not as it should be on the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It was not logged so.
    Garbled(String),
    /// It had arrived already.
    Twice(String),
    /// One that was logged later had arrived before, though it is not more urgent.
    OutOfOrder(String),
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (what, line) = match self {
            Self::Garbled(line) => ("not what was logged", line),
            Self::Twice(line) => ("arrived twice", line),
            Self::OutOfOrder(line) => ("out of order", line),
        };
        write!(f, "{what}: {}", line.escape_debug())
    }
}

/// Compares them.
pub(super) fn check(logged: &Logged, wire: &Wire) -> Checked {
    let mut known = Known::new(&logged.lines);
    let mut checked = Checked::default();
    let mut cut = Vec::new();
    let mut before = Vec::new();
    let mut from = 0;
    let ends = wire.bytes.iter().enumerate();
    for (end, _) in ends.filter(|(_, byte)| **byte == b'\n') {
        let line = &wire.bytes[from..end];
        from = end + 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(lost) = records_lost(line) {
            checked.told += lost;
            continue;
        }
        let mut line = line.to_vec();
        if let Some(rest) = line.strip_prefix(b"[rest]") {
            match known.resume(&mut cut, rest) {
                Some(Resumed::Line { whole, again }) => {
                    checked.sent_again += usize::from(again);
                    line = whole;
                }
                Some(Resumed::HadArrived) => {
                    checked.sent_again += 1;
                    continue;
                }
                None => {}
            }
        }
        match line.strip_suffix(b"[cut]") {
            Some(begun) if !known.has(&line) => {
                checked.cut += 1;
                cut.push(Cut {
                    before: mem::take(&mut before),
                    begun: begun.strip_suffix(b"\r").unwrap_or(begun).to_vec(),
                });
            }
            _ => {
                known.arrive(&line, wire.times[end], &mut checked);
                before = line;
            }
        }
    }
    let rest = &wire.bytes[from..];
    if !rest.is_empty() {
        cut.push(Cut {
            before,
            begun: rest.to_vec(),
        });
    }
    for Cut { begun, .. } in cut {
        match known.begins(&begun, false) {
            None if known.begins(&begun, true).is_some() => checked.sent_again += 1,
            line => checked.unfinished.push(line),
        }
    }
    let missing = known.arrived.iter().zip(&logged.lines);
    checked.missing = missing
        .map(|(arrived, line)| line.records.len().saturating_sub(*arrived) as u64)
        .sum();
    checked
}

/// `[12 records lost]`, `[1 record lost]`.
fn records_lost(line: &[u8]) -> Option<u64> {
    let told = line.strip_prefix(b"[")?.strip_suffix(b" lost]")?;
    let number = match told.strip_suffix(b" records") {
        Some(number) => number,
        None => told.strip_suffix(b" record")?,
    };
    str::from_utf8(number).ok()?.parse().ok()
}

/// What the rest of a line made.
enum Resumed {
    /// Some of it may have come again.
    Line { whole: Vec<u8>, again: bool },
    /// Nothing: the end of a line that had arrived whole came again.
    HadArrived,
}

/// The lines that were logged, by how they look.
struct Known<'l> {
    lines: &'l [Line],
    /// Which line, and how many of its records this is.
    by_text: HashMap<Vec<u8>, VecDeque<(usize, usize)>>,
    /// Records of each line that have arrived.
    arrived: Vec<usize>,
    /// The newest line of normal priority that has.
    newest: usize,
}

impl<'l> Known<'l> {
    fn new(lines: &'l [Line]) -> Self {
        let mut by_text: HashMap<_, VecDeque<_>> = HashMap::new();
        for (n, line) in lines.iter().enumerate() {
            // Of a long line the first records may be lost.
            for first in 0..line.records.len() {
                let rest = &line.records[first..];
                by_text
                    .entry(text(rest))
                    .or_default()
                    .push_back((n, rest.len()));
            }
        }
        Self {
            lines,
            by_text,
            arrived: vec![0; lines.len()],
            newest: 0,
        }
    }

    fn has(&self, line: &[u8]) -> bool {
        self.by_text.contains_key(line)
    }

    /// The newest line of those that were cut that goes on with `rest`. It may be cut once
    /// more.
    fn resume(&self, cut: &mut Vec<Cut>, rest: &[u8]) -> Option<Resumed> {
        for again in 0..=cut::FIFO {
            let found = cut.iter().enumerate().rev().find_map(|(at, cut)| {
                let (whole, had_arrived) = cut.resume(rest, again)?;
                let is_known = self.has(&whole) || again == 0 && whole.ends_with(b"[cut]");
                is_known.then_some((at, whole, had_arrived))
            });
            if let Some((at, whole, had_arrived)) = found {
                cut.remove(at);
                return Some(match had_arrived {
                    true => Resumed::HadArrived,
                    false => Resumed::Line {
                        whole,
                        again: again > 0,
                    },
                });
            }
        }
        None
    }

    /// A line that begins so, of those that have arrived or those that have not.
    fn begins(&self, begun: &[u8], arrived: bool) -> Option<String> {
        let begun = begun.strip_suffix(b"\r").unwrap_or(begun);
        let mut lines = self.by_text.iter();
        // One that has arrived whole has not left its last records alone to come.
        let to_come = |&(n, _): &(usize, usize)| self.arrived[n] == 0;
        let (line, _) = lines.find(|(line, places)| {
            places.iter().any(to_come) != arrived && line.starts_with(begun)
        })?;
        Some(String::from_utf8_lossy(line).into_owned())
    }

    fn arrive(&mut self, line: &[u8], at: Nanos, checked: &mut Checked) {
        let told = String::from_utf8_lossy(line);
        let mut damage = |damage: fn(String) -> Damage| {
            if checked.damage.len() < TOLD {
                checked.damage.push(damage(told.clone().into_owned()));
            }
        };
        let Some(places) = self.by_text.get_mut(line) else {
            return damage(Damage::Garbled);
        };
        let Some((n, records)) = places.pop_front() else {
            return damage(Damage::Twice);
        };
        if self.arrived[n] > 0 {
            return damage(Damage::Twice);
        }
        self.arrived[n] = records;
        let first = &self.lines[n].records[0];
        if first.priority == Priority::Normal {
            if n < self.newest {
                damage(Damage::OutOfOrder);
            }
            self.newest = self.newest.max(n);
        }
        checked.arrived += 1;
        checked.times.push((first.time, at));
    }
}

/// As it should look, but for its end.
fn text(records: &[Record]) -> Vec<u8> {
    let mut text = String::new();
    for (n, record) in records.iter().enumerate() {
        let mut record = *record;
        record.adjoins &= n > 0;
        text += &record.to_string();
    }
    text.trim_end_matches('\n').into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nostall_console::layout::PAYLOAD;
    use nostall_console::{Level, Meta, Slot};

    fn meta(us: u64, priority: Priority) -> Meta<'static> {
        Meta {
            time: Nanos::from_micros(us),
            cpu: 0,
            level: Level::Info,
            priority,
            target: "",
        }
    }

    fn logged() -> Logged {
        let ring = Ring::<[Slot; 16]>::new();
        let mut logged = Logged::new();
        let long = "x".repeat(150);
        for (us, text) in [(1, "one"), (2, "two"), (3, "two"), (4, long.as_str())] {
            ring.log(&meta(us, Priority::Normal), text.as_bytes());
            logged.note(&ring);
        }
        ring.log(&meta(5, Priority::Emergency), b"urgent");
        logged.note(&ring);
        logged
    }

    fn checked(lines: &[&str]) -> Checked {
        let bytes = (lines.join("\r\n") + "\r\n").into_bytes();
        let wire = Wire {
            times: vec![Nanos(7); bytes.len()],
            bytes,
            ..Wire::default()
        };
        check(&logged(), &wire)
    }

    const ONE: &str = "[    0.000001] one";
    const TWO: &str = "[    0.000002] two";
    const THREE: &str = "[    0.000003] two";
    const URGENT: &str = "[    0.000005] urgent";

    fn long() -> String {
        format!("[    0.000004] {}", "x".repeat(150))
    }

    #[test]
    fn what_arrives_as_it_was_logged_is_no_damage() {
        let checked = checked(&[ONE, TWO, URGENT, THREE, &long()]);
        assert_eq!(checked.damage, []);
        assert_eq!((checked.arrived, checked.missing, checked.told), (5, 0, 0));
        assert_eq!(checked.times[0], (Nanos(1_000), Nanos(7)));
    }

    #[test]
    fn a_line_that_is_cut_and_goes_on_is_whole() {
        let one = [&ONE[..9], "[cut]"].concat();
        let checked = checked(&[&one, URGENT, "[rest]0001] one", TWO, THREE, &long()]);
        assert_eq!(checked.damage, []);
        assert_eq!((checked.arrived, checked.cut), (5, 1));
    }

    #[test]
    fn a_fifo_full_may_come_again_where_a_line_was_cut() {
        let (begun, rest) = ONE.split_at(9);
        let cut = |begun: &str| format!("{begun}[cut]");
        // Three bytes that nobody knew to be out; the last of them of the next line.
        let again = |begun: &str, rest: &str| {
            checked(&[
                &cut(begun),
                URGENT,
                &format!("[rest]{rest}"),
                TWO,
                THREE,
                &long(),
            ])
        };
        let checked_again = again(&ONE[..12], rest);
        assert_eq!(
            (checked_again.damage.len(), checked_again.sent_again),
            (0, 1)
        );
        assert_eq!((checked_again.arrived, checked_again.missing), (5, 0));
        // Not so many, and not others.
        assert_eq!(again(&ONE[..17], ONE).damage.len(), 1);
        assert_eq!(again(&[begun, "xy"].concat(), rest).damage.len(), 1);
        for next in [0, 1, 5] {
            let next = cut(&TWO[..next]);
            let lines = [ONE, &next, URGENT, "[rest]one", TWO, THREE, &long()];
            let checked_again = checked(&lines);
            assert_eq!(checked_again.damage, [], "{next}");
            assert_eq!(checked_again.unfinished, [], "{next}");
            assert_eq!((checked_again.arrived, checked_again.sent_again), (5, 1));
        }
    }

    #[test]
    fn what_is_missing_is_counted_in_records() {
        let lost = checked(&["[2 records lost]", THREE, URGENT]);
        assert_eq!(lost.damage, []);
        assert_eq!((lost.missing, lost.told), (4, 2));
        let lost = checked(&["[1 record lost]", TWO, THREE, &long(), URGENT]);
        assert_eq!(lost.damage, []);
        assert_eq!((lost.missing, lost.told), (1, 1));
    }

    #[test]
    fn the_rest_of_a_line_whose_beginning_is_lost_is_known() {
        let rest = format!("[    0.000004] {}", "x".repeat(150 - PAYLOAD));
        let checked = checked(&["[4 records lost]", &rest, URGENT]);
        assert_eq!(checked.damage, []);
        assert_eq!((checked.missing, checked.told), (4, 4));
    }

    #[test]
    fn damage_is_told() {
        let damage = |lines: &[&str]| checked(lines).damage;
        assert_eq!(damage(&[ONE, ONE]), [Damage::Twice(ONE.into())]);
        assert_eq!(damage(&[TWO, ONE]), [Damage::OutOfOrder(ONE.into())]);
        let garbled = "[    0.000001] o[    0.000002] two";
        assert_eq!(damage(&[garbled]), [Damage::Garbled(garbled.into())]);
        assert_eq!(damage(&["[rest]x"]), [Damage::Garbled("[rest]x".into())]);
    }

    /// Whether this is all that should have arrived, and nothing else.
    fn is_sound(bytes: Vec<u8>) -> bool {
        let wire = Wire {
            times: vec![Nanos(7); bytes.len()],
            bytes,
            ..Wire::default()
        };
        let checked = check(&logged(), &wire);
        let faults = checked.damage.len() + checked.unfinished.len() + checked.sent_again;
        faults == 0 && (checked.arrived, checked.missing, checked.told) == (5, 0, 0)
    }

    #[test]
    fn whatever_is_dropped_changed_or_comes_twice_is_found() {
        let long = long();
        let lines = [ONE, TWO, URGENT, THREE, &long].map(|line| format!("{line}\r\n"));
        let whole = lines.concat().into_bytes();
        assert!(is_sound(whole.clone()));
        let changed = |at: usize, with: &[u8]| {
            let mut bytes = whole.clone();
            bytes.splice(at..=at, with.iter().copied());
            bytes
        };
        for (at, &byte) in whole.iter().enumerate() {
            // A CR alone says nothing of a line, and the urgent line may come anywhere.
            if byte == b'\r' {
                continue;
            }
            assert!(!is_sound(changed(at, &[])), "without byte {at}");
            assert!(
                !is_sound(changed(at, &[byte ^ 1])),
                "with bit 0 of {at} flipped"
            );
            assert!(
                !is_sound(changed(at, &[byte, byte])),
                "with byte {at} twice"
            );
            assert!(!is_sound(whole[..at].to_vec()), "the first {at} bytes");
        }
        for n in 0..lines.len() {
            let mut without = lines.to_vec();
            let line = without.remove(n);
            assert!(!is_sound(without.concat().into_bytes()), "without {line}");
            for other in 0..lines.len() {
                let mut twice = lines.to_vec();
                twice.insert(other, line.clone());
                assert!(!is_sound(twice.concat().into_bytes()), "twice {line}");
                let mut swapped = lines.to_vec();
                swapped.swap(n, other);
                // An urgent line overtakes, so that its neighbours may change with it.
                let in_order = |line: &&String| !line.contains("urgent");
                let order =
                    |lines: &[String]| lines.iter().filter(in_order).cloned().collect::<String>();
                let is_same = order(&swapped) == order(&lines);
                assert_eq!(is_sound(swapped.concat().into_bytes()), is_same);
            }
        }
    }

    #[test]
    fn a_line_that_does_not_go_on_is_unfinished() {
        let begun = "[    0.000001] o[cut]";
        let checked_begun = checked(&[begun]);
        assert_eq!(checked_begun.unfinished, [Some(ONE.into())]);
        assert_eq!(checked_begun.sent_again, 0);
        let again = checked(&[begun, ONE]);
        assert_eq!((again.unfinished.len(), again.sent_again), (0, 1));
        assert_eq!(checked(&["o[cut]"]).unfinished, [None]);
        // As its last record alone would begin, too.
        let again = checked(&[&long(), "[    0.000004] xx[cut]"]);
        assert_eq!((again.unfinished, again.sent_again), (vec![], 1));
    }
}

//! Compares the lines that arrived with those that were logged: no line is lost in silence, and
//! none comes twice.

use std::collections::{HashMap, VecDeque};
use std::mem;

use nostall_console::{Cursor, Priority, Read, Record, Ring};
use nostall_io::Nanos;

use nostall_vm::model::LineOutput;

/// Bytes of `[    0.000001] `.
const PREFIX: usize = 15;

/// Mark before a part of a line that does not follow its previous part.
const CONTINUED: &[u8] = b"(cont.) ";

/// Number of faults that are reported.
const TOLD: usize = 10;

/// All logged lines, in order, also those that are overwritten later.
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

    /// Collects all records that a crashed machine's ring holds.
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

/// Result of checking the arrived lines.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Lines that arrived.
    pub arrived: usize,
    /// Records that did not.
    pub missing: u64,
    /// Records that the line reports as lost.
    pub result: u64,
    /// Lines that were cut by one that is more urgent, and went on after it.
    pub cut: usize,
    /// Lines of which only the beginning arrived; `None` if none begins so.
    pub unfinished: Vec<Option<String>>,
    /// Times that lines came again: their owner was stopped in an offer, and it is not
    /// known how much of that was out.
    pub sent_again: usize,
    /// Lines that came again from a later record on, and whose beginning is a fragment.
    pub rejoined: usize,
    /// Damage on the line, the first few.
    pub damage: Vec<Damage>,
    /// When each line that arrived was logged, and when its end arrived.
    pub(super) times: Vec<(Nanos, Nanos)>,
}

/// Damage on the line.
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
pub(super) fn check(logged: &Logged, wire: &LineOutput) -> Checked {
    let mut known = Known::new(&logged.lines);
    let mut checked = Checked::default();
    let mut lines = Vec::new();
    let mut from = 0;
    for (end, _) in wire.bytes.iter().enumerate().filter(|(_, b)| **b == b'\n') {
        lines.push((strip_cr(&wire.bytes[from..end]), end));
        from = end + 1;
    }
    let mut cut = Cut::default();
    let mut fragments = Vec::new();
    let mut lines = lines.into_iter().peekable();
    while let Some((line, end)) = lines.next() {
        let next = lines.peek().map_or(&b""[..], |(line, _)| line);
        if let Some(lane) = lane(next, b"{cut ") {
            lines.next();
            checked.cut += 1;
            // A mark that was cut itself comes again.
            if !is_begun(line) {
                let whole = cut.whole(strip_cr(line));
                fragments.push(mem::replace(&mut cut.begun[lane], whole));
            }
        } else if line == AGAIN || next == AGAIN {
            if line != AGAIN {
                lines.next();
                if !is_begun(line) {
                    // The CR of its own end may be out already.
                    fragments.push(cut.whole(strip_cr(line)));
                }
            }
            fragments.extend(cut.begun.iter_mut().map(mem::take));
            checked.sent_again += 1;
            known.may_come_again(end);
        } else {
            let line = cut.whole(line);
            match records_lost(&line) {
                Some(lost) => checked.result += lost,
                None => known.arrive(&line, end, wire.times[end], &mut checked),
            }
        }
    }
    let rest = strip_cr(&wire.bytes[from..]);
    if !is_begun(rest) {
        fragments.push(cut.whole(rest));
    }
    fragments.extend(cut.begun);
    fragments.retain(|begun| !begun.is_empty());
    for begun in &fragments {
        known.complete(begun, &mut checked);
    }
    for begun in fragments {
        let is_here = checked.sent_again > 0 && known.begins(&begun, true).is_some();
        match known.begins(&begun, false) {
            None if is_here => {}
            line => checked.unfinished.push(line),
        }
    }
    let missing = known.arrived.iter().zip(&logged.lines);
    checked.missing = missing
        .map(|(arrived, line)| line.records.len().saturating_sub(*arrived) as u64)
        .sum();
    checked
}

fn strip_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// `[12 records lost]`, `[1 record lost]`.
fn records_lost(line: &[u8]) -> Option<u64> {
    let result = line.strip_prefix(b"[")?.strip_suffix(b" lost]")?;
    let number = match result.strip_suffix(b" records") {
        Some(number) => number,
        None => result.strip_suffix(b" record")?,
    };
    str::from_utf8(number).ok()?.parse().ok()
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
    /// Lines as they arrived, and where they ended: those near the end.
    recent: VecDeque<(Vec<u8>, usize)>,
    /// Lines that may come again.
    again: Vec<Vec<u8>>,
}

impl<'l> Known<'l> {
    fn new(lines: &'l [Line]) -> Self {
        let mut by_text: HashMap<_, VecDeque<_>> = HashMap::new();
        for (n, line) in lines.iter().enumerate() {
            // The first records of a long line may be lost.
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
            recent: VecDeque::new(),
            again: Vec::new(),
        }
    }

    /// An owner was stopped in an offer, near byte `end`: lines of that offer come again.
    fn may_come_again(&mut self, end: usize) {
        let recent = self.recent.drain(..);
        let near = recent.filter(|(_, ended)| ended + OFFER >= end);
        self.again.extend(near.map(|(line, _)| line));
    }

    /// A line that begins so, of those that have arrived or those that have not.
    fn begins(&self, begun: &[u8], arrived: bool) -> Option<String> {
        let mut lines = self.by_text.iter();
        // One that has arrived whole has not left its last records alone to come.
        let to_come = |&(n, _): &(usize, usize)| self.arrived[n] == 0;
        let (line, _) = lines.find(|(line, places)| {
            places.iter().any(to_come) != arrived && line.starts_with(begun)
        })?;
        Some(String::from_utf8_lossy(line).into_owned())
    }

    /// Completes a line that came again from a later record on: its first records are in
    /// `begun`, all of them.
    fn complete(&mut self, begun: &[u8], checked: &mut Checked) {
        if checked.sent_again == 0 {
            return;
        }
        let lines = self.lines.iter().zip(&mut self.arrived);
        for (Line { records }, arrived) in lines {
            let missing = records.len() - *arrived;
            if (1..records.len()).contains(&missing)
                && begun.starts_with(&text(&records[..missing]))
                && text(records).starts_with(begun)
            {
                *arrived = records.len();
                checked.rejoined += 1;
                return;
            }
        }
    }

    fn arrive(&mut self, line: &[u8], end: usize, at: Nanos, checked: &mut Checked) {
        // The last records of a line of several may come again alone, after a mark.
        let part = line.strip_prefix(CONTINUED).unwrap_or(line);
        let (time, text) = part.split_at(part.len().min(PREFIX));
        let comes_again = |whole: &Vec<u8>| whole.starts_with(time) && whole.ends_with(text);
        if let Some(again) = self.again.iter().position(comes_again) {
            self.again.swap_remove(again);
            return;
        }
        self.recent.push_back((line.to_vec(), end));
        if self.recent.len() > OFFER {
            self.recent.pop_front();
        }
        let result = String::from_utf8_lossy(line);
        let mut damage = |damage: fn(String) -> Damage| {
            if checked.damage.len() < TOLD {
                checked.damage.push(damage(result.clone().into_owned()));
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

/// Returns the expected text, without its end.
fn text(records: &[Record]) -> Vec<u8> {
    let mut text = String::new();
    for (n, record) in records.iter().enumerate() {
        let mut record = *record;
        record.adjoins &= n > 0;
        text += &record.to_string();
    }
    text.trim_end_matches('\n').into()
}

// Markers of lines that were cut by more urgent ones. The book has their grammar.

/// Marker before lines that come again.
const AGAIN: &[u8] = b"{again}";

/// Bytes on the wire that may come again: those of an offer, and a CR for each LF.
const OFFER: usize = 256 + 16;

/// Beginnings of lines that are cut, by the number in their marks.
#[derive(Default)]
struct Cut {
    begun: [Vec<u8>; 3],
}

impl Cut {
    /// Returns a line with its beginning, if it was cut.
    fn whole(&mut self, line: &[u8]) -> Vec<u8> {
        match lane(line, b"{rest ") {
            Some(lane) => {
                let mut whole = mem::take(&mut self.begun[lane]);
                whole.extend_from_slice(&line[b"{rest 0}".len()..]);
                whole
            }
            None => line.to_vec(),
        }
    }
}

/// The number in a marker with this start.
fn lane(line: &[u8], start: &[u8]) -> Option<usize> {
    match line.strip_prefix(start)? {
        [digit @ b'0'..=b'2', b'}', ..] => Some(usize::from(digit - b'0')),
        _ => None,
    }
}

/// Whether this is the beginning of a marker: no other line begins with a brace.
fn is_begun(line: &[u8]) -> bool {
    line.first() == Some(&b'{') && line != AGAIN && !line.contains(&b'}')
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
        let times = vec![Nanos(7); bytes.len()];
        let wire = LineOutput::new(bytes, times);
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
    fn unchanged_lines_are_no_damage() {
        let checked = checked(&[ONE, TWO, URGENT, THREE, &long()]);
        assert_eq!(checked.damage, []);
        assert_eq!(
            (checked.arrived, checked.missing, checked.result),
            (5, 0, 0)
        );
        assert_eq!(checked.times[0], (Nanos(1_000), Nanos(7)));
    }

    #[test]
    fn a_line_that_is_cut_and_goes_on_is_whole() {
        for at in 1..=ONE.len() {
            let (begun, rest) = ONE.split_at(at);
            let rest = ["{rest 0}", rest].concat();
            let lines = [begun, "{cut 0}", URGENT, &rest, TWO, THREE, &long()];
            let checked = checked(&lines);
            assert_eq!(checked.damage, []);
            assert_eq!(checked.unfinished, []);
            assert_eq!((checked.arrived, checked.cut), (5, 1));
        }
        // The mark may be cut, too.
        let lines = [
            &ONE[..9],
            "{cut 0}",
            "{res",
            "{cut 0}",
            URGENT,
            "{rest 0}0001] one",
        ];
        let checked = checked(&[&lines[..], &[TWO, THREE, &long()]].concat());
        assert_eq!((checked.damage, checked.unfinished), (vec![], vec![]));
    }

    #[test]
    fn a_line_that_comes_again_from_its_second_record_on_is_there_if_its_first_one_is() {
        let long = long();
        let first = PREFIX + PAYLOAD;
        let rest = ["(cont.) ", &long[..PREFIX], &long[first..]].concat();
        for (at, missing) in [(first, 0), (first + 1, 0), (long.len(), 0), (first - 1, 1)] {
            let lines = [ONE, TWO, THREE, &long[..at], "{again}", URGENT, &rest];
            let checked = checked(&lines);
            assert_eq!((checked.damage, checked.missing), (vec![], missing), "{at}");
        }
        // Without a death nothing excuses it.
        let lines = [ONE, TWO, THREE, &long[..first], "{cut 0}", URGENT, &rest];
        assert_eq!(checked(&lines).missing, 1);
    }

    #[test]
    fn lines_come_again_where_an_owner_was_stopped() {
        let long = long();
        for next in [0, 1, 5, 9] {
            let lines = [ONE, TWO, &THREE[..next], "{again}", URGENT];
            let whole = checked(&[&lines[..], &[TWO, THREE, &long]].concat());
            assert_eq!(
                (&whole.damage[..], &whole.unfinished[..]),
                (&[][..], &[][..])
            );
            assert_eq!((whole.arrived, whole.sent_again), (5, 1));
            // Only that offer's lines may come again, and only once.
            let twice = checked(&[&lines[..], &[TWO, TWO, THREE, &long]].concat());
            assert_eq!(twice.damage, [Damage::Twice(TWO.into())]);
        }
        let far = [ONE, &long, &long, &long, "", "{again}", ONE];
        assert!(checked(&far).damage.contains(&Damage::Twice(ONE.into())));
    }

    #[test]
    fn missing_records_are_counted() {
        let lost = checked(&["[2 records lost]", THREE, URGENT]);
        assert_eq!(lost.damage, []);
        assert_eq!((lost.missing, lost.result), (4, 2));
        let lost = checked(&["[1 record lost]", TWO, THREE, &long(), URGENT]);
        assert_eq!(lost.damage, []);
        assert_eq!((lost.missing, lost.result), (1, 1));
    }

    #[test]
    fn the_rest_of_a_line_whose_beginning_is_lost_is_known() {
        let rest = format!("(cont.) [    0.000004] {}", "x".repeat(150 - PAYLOAD));
        let checked = checked(&["[4 records lost]", &rest, URGENT]);
        assert_eq!(checked.damage, []);
        assert_eq!((checked.missing, checked.result), (4, 4));
    }

    #[test]
    fn damage_is_reported() {
        let damage = |lines: &[&str]| checked(lines).damage;
        assert_eq!(damage(&[ONE, ONE]), [Damage::Twice(ONE.into())]);
        assert_eq!(damage(&[TWO, ONE]), [Damage::OutOfOrder(ONE.into())]);
        let garbled = "[    0.000001] o[    0.000002] two";
        assert_eq!(damage(&[garbled]), [Damage::Garbled(garbled.into())]);
        assert_eq!(damage(&["{rest 0}x"]), [Damage::Garbled("x".into())]);
    }

    /// Whether this is all that should have arrived, and nothing else.
    fn is_sound(bytes: Vec<u8>) -> bool {
        let times = vec![Nanos(7); bytes.len()];
        let wire = LineOutput::new(bytes, times);
        let checked = check(&logged(), &wire);
        let faults = checked.damage.len() + checked.unfinished.len() + checked.sent_again;
        faults == 0 && (checked.arrived, checked.missing, checked.result) == (5, 0, 0)
    }

    #[test]
    fn dropped_changed_and_doubled_lines_are_found() {
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
        let begun = "[    0.000001] o";
        let checked_begun = checked(&[begun, "{cut 0}"]);
        assert_eq!(checked_begun.unfinished, [Some(ONE.into())]);
        assert_eq!(checked_begun.sent_again, 0);
        let again = checked(&[begun, "{again}", ONE]);
        assert_eq!((again.unfinished.len(), again.sent_again), (0, 1));
        assert_eq!(checked(&["o", "{cut 0}"]).unfinished, [None]);
    }
}

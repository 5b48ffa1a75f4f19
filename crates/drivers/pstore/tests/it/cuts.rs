//! A loss of power after each stored byte. Any remaining memory can be read, and every byte that
//! was never written is marked.

use std::cell::RefCell;

use crate::common::open;

use nostall_pstore::{
    Code, DumpHeader, Flushed, HEADER, LinuxVersion, Load, Matches, Memory, OwnCounter, Ram,
    RecordFormat, Recorder, Trust, Zone, ZoneKind,
};
use proptest::prelude::*;

/// Memory that records every stored byte in order.
struct Journal {
    now: RefCell<Vec<u8>>,
    stored: RefCell<Vec<Stored>>,
    header: Header,
}

/// Offset and bytes of a store that is atomic.
type Stored = (usize, Vec<u8>);

/// Method of storing a word of the header.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Header {
    /// One store, as memory with word access guarantees.
    Whole,
    /// One store for each byte.
    InPieces,
}

impl Journal {
    fn new(bytes: Vec<u8>, header: Header) -> Self {
        Self {
            now: bytes.into(),
            stored: RefCell::default(),
            header,
        }
    }
}

impl Load for Journal {
    fn len(&self) -> usize {
        self.now.borrow().len()
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        self.now.borrow()[..].load(at, into);
    }
}

impl Memory for Journal {
    fn store(&self, at: usize, bytes: &[u8]) {
        self.now.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
        let mut stored = self.stored.borrow_mut();
        if at + bytes.len() <= HEADER && self.header == Header::Whole {
            stored.push((at, bytes.to_vec()));
        } else {
            let each = bytes.iter().enumerate();
            stored.extend(each.map(|(i, &byte)| (at + i, vec![byte])));
        }
    }
}

/// Calls `look` with the memory before the first piece of `journal`, and after each piece. Also
/// passes the number of pieces.
fn at_every_cut(before: &[u8], journal: &Journal, mut look: impl FnMut(&[u8], usize)) {
    let mut image = before.to_vec();
    look(&image, 0);
    for (count, (at, bytes)) in journal.stored.borrow().iter().enumerate() {
        image[*at..at + bytes.len()].copy_from_slice(bytes);
        look(&image, count + 1);
    }
}

const LEN: usize = 24;

/// Returns the address in record number `n`.
const fn ip(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The records of one boot. Their numbers begin with `first`. `complete` has the number of stored
/// pieces at the end of each record.
struct Life {
    before: Vec<u8>,
    journal: Journal,
    first: u64,
    complete: Vec<usize>,
}

impl Life {
    fn record(
        before: Vec<u8>,
        code: Option<&Code>,
        header: Header,
        first: u64,
        count: u64,
    ) -> Self {
        let journal = Journal::new(before.clone(), header);
        let mut complete = Vec::new();
        {
            let (zone, _) =
                Zone::attach(&journal, ZoneKind::Ftrace, LinuxVersion(0), code).unwrap();
            let mut recorder =
                Recorder::with_record_format(zone, 0, OwnCounter::new(), RecordFormat::Bits64);
            for n in first..first + count {
                recorder.record(ip(n), !ip(n));
                complete.push(journal.stored.borrow().len());
            }
        }
        Self {
            before,
            journal,
            first,
            complete,
        }
    }

    /// Returns the number of the first record that is incomplete after `pieces` pieces.
    fn next(&self, pieces: usize) -> u64 {
        self.first + self.complete.iter().filter(|&&at| at <= pieces).count() as u64
    }

    fn check_every_cut(&self, code: Option<&Code>) {
        at_every_cut(&self.before, &self.journal, |image, pieces| {
            check(image, code, self.next(pieces), pieces);
        });
    }
}

/// Checks the records in `image`, as described at the start of this file. Record number `next` was
/// being written.
fn check(image: &[u8], code: Option<&Code>, next: u64, pieces: usize) {
    let zone = open(image, ZoneKind::Ftrace, code);
    let data = zone.place().division.data();
    let traces: Vec<_> = zone.traces(RecordFormat::Bits64).collect();
    let say = || format!("after {pieces} pieces, record {next}: {traces:x?}");

    let number = |ip: u64| (0..=next).find(|&n| self::ip(n) == ip);
    let sure = traces
        .iter()
        .filter(|it| !it.suspect && it.trust != Trust::Unverified);
    let numbers: Vec<_> = sure
        .map(|it| {
            assert_eq!(it.record.parent, !it.record.ip, "{}", say());
            number(it.record.ip).unwrap_or_else(|| panic!("{}", say()))
        })
        .collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{}", say());

    // Only the record that makes room for the next one may be missing, and marked records.
    let room = (data / LEN) as u64;
    let unverified = traces
        .iter()
        .filter(|it| it.trust == Trust::Unverified)
        .count() as u64;
    let least = next.min(room - 1).saturating_sub(1 + unverified);
    assert!(
        numbers.len() as u64 >= least,
        "{} of {least}; {}",
        numbers.len(),
        say()
    );
    // A loss of power at the end of a block's parity hides a few records at most.
    assert!(unverified <= 2 * 128 / LEN as u64 + 3, "{}", say());
    if unverified == 0 && next > 0 {
        let newest = numbers.last().copied();
        assert!(
            newest == Some(next - 1) || newest == Some(next) || next == 1,
            "{}",
            say()
        );
    }
}

fn attach_dmesg<'a>(journal: &'a Journal, code: Option<&'a Code>) -> Zone<'a, &'a Journal> {
    Zone::attach(journal, ZoneKind::Dmesg, LinuxVersion(0), code)
        .unwrap()
        .0
}

fn code(parity: usize) -> Option<Box<Code>> {
    Code::new(parity).map(Box::new)
}

#[test]
fn a_trace_without_error_correction_survives_a_power_loss_after_every_byte() {
    for size in [HEADER + LEN * 5, HEADER + LEN * 12 + 10, 1_000] {
        let life = Life::record(vec![0; size], None, Header::Whole, 0, 100);
        life.check_every_cut(None);
    }
}

#[test]
fn a_trace_with_error_correction_survives_a_power_loss_after_every_byte() {
    for (parity, header) in [
        (2, Header::Whole),
        (4, Header::Whole),
        (8, Header::Whole),
        (16, Header::Whole),
        (16, Header::InPieces),
        (32, Header::InPieces),
    ] {
        let code = code(parity);
        let life = Life::record(vec![0x5a; 700], code.as_deref(), header, 0, 60);
        life.check_every_cut(code.as_deref());
    }
}

/// Returns whether every unmarked record was really written.
fn nothing_is_made_up(image: &[u8], code: Option<&Code>) -> bool {
    let traces = open(image, ZoneKind::Ftrace, code).traces(RecordFormat::Bits64);
    let mut sure = traces.filter(|it| !it.suspect && it.trust != Trust::Unverified);
    sure.all(|it| it.record.parent == !it.record.ip)
}

#[test]
fn a_bit_flip_in_a_header_invents_no_records() {
    for parity in [2, 8, 15, 16, 32] {
        let code = code(parity);
        let life = Life::record(vec![0; 1_500], code.as_deref(), Header::Whole, 0, 80);
        let image = life.journal.now.into_inner();
        for bit in 32..8 * HEADER {
            let mut image = image.clone();
            image[bit / 8] ^= 1 << (bit % 8);
            assert!(
                nothing_is_made_up(&image, code.as_deref()),
                "{parity}, bit {bit}"
            );
        }
    }
}

#[test]
fn erasing_survives_a_power_loss_after_every_byte() {
    for parity in [0, 2, 8, 16] {
        let code = code(parity);
        for count in [3, 80] {
            let life = Life::record(vec![0; 1_500], code.as_deref(), Header::Whole, 0, count);
            let before = life.journal.now.into_inner();
            let journal = Journal::new(before.clone(), Header::Whole);
            let (mut zone, _) =
                Zone::attach(&journal, ZoneKind::Ftrace, LinuxVersion(0), code.as_deref()).unwrap();
            zone.erase();
            at_every_cut(&before, &journal, |image, pieces| {
                assert!(
                    nothing_is_made_up(image, code.as_deref()),
                    "{parity}, {pieces}"
                );
            });
            assert!(open(&journal.now.borrow(), ZoneKind::Ftrace, code.as_deref()).is_empty());
        }
    }
}

#[test]
fn foreign_bytes_never_follow_our_signature() {
    for header in [Header::Whole, Header::InPieces] {
        let life = Life::record(vec![0; 700], None, Header::Whole, 0, 80);
        let mut before = life.journal.now.into_inner();
        before[..4].copy_from_slice(b"else");
        before[HEADER..].fill(0x77);
        let journal = Journal::new(before.clone(), header);
        Zone::attach(&journal, ZoneKind::Ftrace, LinuxVersion(0), None).unwrap();
        at_every_cut(&before, &journal, |image, _| {
            assert!(nothing_is_made_up(image, None))
        });
    }
}

/// Memory behind a cache with lines of 64 bytes. It has the stored bytes, and the bytes that have
/// certainly reached the memory.
struct Cached {
    cache: RefCell<Vec<u8>>,
    memory: RefCell<Vec<u8>>,
    /// Offset of the first byte in its line.
    base: usize,
    /// Every memory that a loss of power may leave: the written-back bytes, and any one further
    /// line.
    cuts: RefCell<Vec<Vec<u8>>>,
}

impl Cached {
    fn copy_lines(&self, at: usize, len: usize, to: &mut [u8]) {
        let first = (self.base + at) / 64 * 64;
        let end = (self.base + at + len).next_multiple_of(64);
        let lines = first.saturating_sub(self.base)..(end - self.base).min(to.len());
        to[lines.clone()].copy_from_slice(&self.cache.borrow()[lines]);
    }
}

impl Load for Cached {
    fn len(&self) -> usize {
        self.cache.borrow().len()
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        self.cache.borrow()[..].load(at, into);
    }
}

impl Memory for Cached {
    fn store(&self, at: usize, bytes: &[u8]) {
        self.cache.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
        let mut line_too = self.memory.borrow().clone();
        self.copy_lines(at, bytes.len(), &mut line_too);
        self.cuts
            .borrow_mut()
            .extend([self.memory.borrow().clone(), line_too]);
    }

    fn persist(&self, at: usize, len: usize) {
        self.copy_lines(at, len, &mut self.memory.borrow_mut());
    }
}

#[test]
fn behind_a_cache_nothing_is_lost_for_any_alignment_of_its_lines() {
    for base in (0..64).step_by(4) {
        let memory = Cached {
            cache: vec![0; 500].into(),
            memory: vec![0; 500].into(),
            base,
            cuts: RefCell::default(),
        };
        let (zone, _) = Zone::attach(&memory, ZoneKind::Ftrace, LinuxVersion(0), None).unwrap();
        let mut recorder =
            Recorder::with_record_format(zone, 0, OwnCounter::new(), RecordFormat::Bits64);
        memory.cuts.take();
        for n in 0..60 {
            recorder.record(ip(n), !ip(n));
            for image in memory.cuts.take() {
                check(&image, None, n, 0);
            }
        }
    }
}

#[test]
fn exactly_the_stored_bytes_are_persisted_and_the_data_before_the_header() {
    let mut bytes = [0; 12 + 60];
    let persisted = RefCell::new(Vec::new());
    let memory = Flushed::new(Ram::of(&mut bytes), |at, len| {
        persisted.borrow_mut().push((at, len));
    });
    let (zone, _) = Zone::attach(memory, ZoneKind::Ftrace, LinuxVersion(0), None).unwrap();
    // An empty zone: size, start, then the signature.
    assert_eq!(persisted.take(), [(8, 4), (4, 4), (0, 4)]);
    let mut recorder =
        Recorder::with_record_format(zone, 0, OwnCounter::new(), RecordFormat::Bits64);
    let mut record = || {
        recorder.record(ip(1), ip(2));
        persisted.take()
    };
    // The record, then its size and the start.
    assert_eq!(record(), [(12, 24), (8, 4), (4, 4)]);
    assert_eq!(record(), [(36, 24), (8, 4), (4, 4)]);
    // The ring wraps, and is full: the start first.
    assert_eq!(record(), [(60, 12), (12, 12), (4, 4), (8, 4)]);
    // The size stays.
    assert_eq!(record(), [(24, 24), (4, 4)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_second_boot_continues_where_the_first_lost_power(
        parity in prop::sample::select(vec![0usize, 2, 8, 16]),
        size in 600usize..1_500,
        cut in any::<prop::sample::Index>(),
        garbage: u8,
    ) {
        let code = code(parity);
        let first = Life::record(vec![garbage; size], code.as_deref(), Header::Whole, 0, 70);
        let cut = cut.index(first.journal.stored.borrow().len());
        let mut left = Vec::new();
        at_every_cut(&first.before, &first.journal, |image, pieces| {
            if pieces == cut {
                left = image.to_vec();
            }
        });
        // The record that was being written may be complete or missing.
        let next = first.next(cut);
        let second = Life::record(left, code.as_deref(), Header::Whole, next + 1, 60);
        // Records of the first boot remain until they are overwritten.
        at_every_cut(&second.before, &second.journal, |image, pieces| {
            if pieces < 24 {
                check(image, code.as_deref(), next, pieces);
            }
        });
        at_every_cut(&second.before, &second.journal, |image, _| {
            let traces = open(image, ZoneKind::Ftrace, code.as_deref()).traces(RecordFormat::Bits64);
            for trace in traces.filter(|it| !it.suspect && it.trust != Trust::Unverified) {
                assert_eq!(trace.record.parent, !trace.record.ip);
            }
        });
    }

    #[test]
    fn a_text_survives_a_power_loss_after_every_byte(
        parity in prop::sample::select(vec![0usize, 4, 16]),
        lines in prop::collection::vec(1usize..200, 1..30),
        size in 600usize..1_500,
    ) {
        let code = code(parity);
        let journal = Journal::new(vec![0; size], Header::Whole);
        // Every three bytes identify their position in the text.
        let byte = |at: usize| b'0' + (at / 3 % 64) as u8;
        let (mut written, mut complete) = (0, vec![(0, 0)]);
        let data = {
            let (mut zone, _) =
                Zone::attach(&journal, ZoneKind::Console, LinuxVersion(0), code.as_deref()).unwrap();
            for len in &lines {
                let line: Vec<u8> = (written..written + len).map(byte).collect();
                zone.append_text(&line);
                written += len;
                complete.push((journal.stored.borrow().len(), written));
            }
            zone.division().data()
        };
        at_every_cut(&vec![0; size], &journal, |image, pieces| {
            let done = complete.iter().rfind(|(at, _)| *at <= pieces).unwrap().1;
            let doing = complete.iter().find(|(at, _)| *at > pieces).map_or(done, |it| it.1);
            let mut zone = open(image, ZoneKind::Console, code.as_deref());
            let (len, mut at, mut read) = (zone.len(), 0, Vec::new());
            while let Some((bytes, trust)) = zone.chunk(at) {
                read.extend(bytes.iter().map(|&byte| (byte, trust)));
                at += bytes.len();
            }
            // Some blocks of the line that is being written may be complete already.
            let fits = |end: usize| {
                let from = end - len;
                let overwritten = if end > data || doing > data { doing - done } else { 0 };
                read.iter().enumerate().skip(overwritten).all(|(i, &(it, trust))| {
                    it == byte(from + i) || trust == Trust::Unverified
                })
            };
            let end = (done..=doing).find(|&end| end >= len && len == end.min(data) && fits(end));
            assert!(end.is_some(), "after {pieces} pieces: {done} to {doing} of {data}, {len} read");
        });
    }

    #[test]
    fn a_last_log_is_the_old_one_or_the_written_part_of_the_new_one(
        parity in prop::sample::select(vec![0usize, 16]),
        old in "[a-z ]{1,40}\n{1,20}",
        new in "([A-Z]{1,50}\n){1,30}",
        deflated: bool,
    ) {
        let code = code(parity);
        let size = 1_200;
        let before = Journal::new(vec![0; size], Header::Whole);
        attach_dmesg(&before, code.as_deref()).write_dmesg(&DumpHeader::PANIC, old.as_bytes());
        let before = before.now.borrow().clone();
        let journal = Journal::new(before.clone(), Header::Whole);
        let words = DumpHeader { reason: "Oops", ..DumpHeader::PANIC };
        if deflated {
            let (mut matches, mut room) = (Matches::new(), vec![0; size]);
            attach_dmesg(&journal, code.as_deref()).write_dmesg_deflated(&words, new.as_bytes(), &mut matches, &mut room);
        } else {
            attach_dmesg(&journal, code.as_deref()).write_dmesg(&words, new.as_bytes());
        }
        let read = |image: &[u8]| {
            let mut zone = open(image, ZoneKind::Dmesg, code.as_deref());
            let mut bytes = vec![0; zone.len()];
            let trust = zone.read(0, &mut bytes);
            (bytes, trust == Some(Trust::Unverified))
        };
        let (old, new) = (read(&before).0, read(&journal.now.borrow()).0);
        at_every_cut(&before, &journal, |image, pieces| {
            let (read, unverified) = read(image);
            let right = read == old || new.starts_with(&read);
            assert!(right || unverified, "after {pieces} pieces: {}", read.escape_ascii());
        });
    }
}

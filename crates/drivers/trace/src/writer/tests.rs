//! Interrupts and NMIs at every step of a record, and an interruption after every store.

extern crate std;
use super::*;
use crate::image::Image;
use crate::layout::{Order, Role, ZoneHeader, lap};
use crate::records::{Chunk, Event, FunctionId, Record, ZoneInfo, ZoneReader};
use std::boxed::Box;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::vec::Vec;

/// Base-2 logarithm of the number of slots.
const BITS: u32 = 4;
const SLOTS: u64 = 1 << BITS;
const WORDS: usize = (ZONE_HEADER + SLOT * SLOTS as usize) / 8;

/// A zone and the records made in it.
struct Cpu {
    words: RefCell<Vec<u64>>,
    size: Size,
    time: Cell<u64>,
    /// Index of the slots that were reserved at each time.
    reserved: RefCell<BTreeMap<u64, u64>>,
    /// Time, index, and completion of each record that got slots.
    records: RefCell<BTreeMap<u64, (u64, u64, bool)>>,
    refused: Cell<u64>,
    /// Number of records in progress: one for each context.
    writing: Cell<u64>,
    /// Steps until the next interrupt, and its handler.
    interrupt: RefCell<Option<(usize, Handler)>>,
}

type Handler = Box<dyn FnOnce()>;

impl Cpu {
    fn new(stop_when_full: bool) -> Rc<Self> {
        let header = ZoneHeader {
            order: Order::NATIVE,
            zone: 0,
            boot: 0,
            slots: SLOTS as u32,
        };
        let mut words = std::vec![0; WORDS];
        for (word, bytes) in words.iter_mut().zip(header.encode().as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        Rc::new(Self {
            words: words.into(),
            size: Size {
                bits: BITS,
                stop_when_full,
            },
            time: Cell::new(0),
            reserved: RefCell::default(),
            records: RefCell::default(),
            refused: Cell::new(0),
            writing: Cell::new(0),
            interrupt: RefCell::default(),
        })
    }

    /// Runs the handler of an interrupt that is due at this step.
    fn step(&self) {
        let due = match &mut *self.interrupt.borrow_mut() {
            Some((0, _)) => true,
            Some((left, _)) => {
                *left -= 1;
                false
            }
            None => false,
        };
        if due && let Some((_, handler)) = self.interrupt.take() {
            handler();
        }
    }

    /// Records an entry of the function `id`, with its complement as argument.
    fn record(&self, id: u64) {
        self.writing.set(self.writing.get() + 1);
        let now = || {
            self.step();
            self.time.set(self.time.get() + 1);
            self.time.get()
        };
        let written = write(self, self.size, now, |time| {
            let record = (time, self.reserved.borrow()[&time], false);
            self.records.borrow_mut().insert(id, record);
            [
                (time, Meta::new(Kind::Enter, id, 0)),
                (!id, Meta::argument(Role::Argument)),
            ]
        });
        match written {
            true => self.records.borrow_mut().get_mut(&id).unwrap().2 = true,
            false => self.refused.set(self.refused.get() + 1),
        }
        self.writing.set(self.writing.get() - 1);
        self.check();
    }

    fn found(&self) -> (Vec<Record>, ZoneReader<Chunk>) {
        let info = ZoneInfo {
            order: Order::NATIVE,
            at: 0,
            zone: 0,
            boot: 0,
            bits: BITS,
            stop_when_full: self.size.stop_when_full,
            whole: true,
        };
        let mut reader = ZoneReader::new(self, info, [0; size_of::<Chunk>()]);
        let mut records = Vec::new();
        while let Some(record) = reader.next(self) {
            records.push(record);
        }
        (records, reader)
    }

    /// Checks the result of a reader at this point.
    fn check(&self) {
        let (found, reader) = self.found();
        let known = self.records.borrow();
        let mut ids = Vec::new();
        for record in &found {
            match record.event {
                Event::Enter {
                    function: FunctionId::Address(id),
                    argument,
                } => {
                    assert_eq!(argument, Some(!id), "{found:?}");
                    assert_eq!(
                        Some(record.time),
                        known.get(&id).map(|it| it.0),
                        "{found:?}"
                    );
                    ids.push(id);
                }
                Event::Lost { .. } => {}
                _ => panic!("never written: {record:?}"),
            }
        }
        let head = self.words.borrow()[word(HEAD)];
        for (id, (_, at, complete)) in &*known {
            if *complete && at + SLOTS >= head {
                assert!(ids.contains(id), "record {id} at {at} of {head}: {found:?}");
            }
        }
        assert!(found.is_sorted_by_key(|it| it.time), "{found:?}");
        assert!(
            reader.missing().unwritten <= 3 * self.writing.get(),
            "{found:?}"
        );
        assert_eq!(reader.missing().damaged, 0, "{found:?}");
    }

    /// Checks the end of a test with `count` records.
    fn check_end(&self, mut count: u64) {
        assert!(self.interrupt.borrow().is_none());
        // A handler may lose a record after the interrupted record has reported losses. The next
        // record reports it.
        if self.words.borrow()[word(UNREPORTED)] != 0 {
            self.record(3_000);
            count += 1;
        }
        let words = self.words.borrow();
        assert_eq!(words[word(LOST)], self.refused.get());
        assert_eq!(words[word(UNREPORTED)], 0);
        let written = self.records.borrow().len() as u64;
        assert_eq!(written + self.refused.get(), count);
        drop(words);
        assert_eq!(self.found().1.missing().unwritten, 0);
    }
}

impl Cells for Cpu {
    fn get(&self, word: usize) -> u64 {
        self.step();
        self.words.borrow()[word]
    }
    fn set(&self, word: usize, value: u64) {
        self.step();
        self.words.borrow_mut()[word] = value;
        self.check();
    }
    fn publish(&self, word: usize, value: u64) {
        self.set(word, value);
    }
    fn replace(&self, at: usize, from: u64, to: u64) -> bool {
        self.step();
        let same = self.words.borrow()[at] == from;
        if same {
            self.words.borrow_mut()[at] = to;
            if at == word(HEAD) {
                let at = to.wrapping_sub(2);
                self.reserved.borrow_mut().insert(self.time.get(), at);
            }
            self.check();
        }
        same
    }
}

impl Image for Cpu {
    fn len(&self) -> u64 {
        8 * WORDS as u64
    }
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let words = self.words.borrow();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes[..].read(at, into)
    }
}

/// Schedules a handler that records `ids` after `steps` more steps. After `later` steps of it,
/// another handler records `inner`. Returns whether both ran.
fn interrupt(
    cpu: &Rc<Cpu>,
    steps: usize,
    ids: std::ops::Range<u64>,
    later: usize,
    inner: std::ops::Range<u64>,
) -> Rc<Cell<(bool, bool)>> {
    let came = Rc::new(Cell::new((false, false)));
    let (told, handler_cpu) = (came.clone(), cpu.clone());
    let handler = move || {
        told.set((true, false));
        let (told, nmi_cpu) = (told.clone(), handler_cpu.clone());
        let nmi = move || {
            told.set((true, true));
            inner.for_each(|id| nmi_cpu.record(id));
        };
        handler_cpu.interrupt.replace(Some((later, Box::new(nmi))));
        ids.for_each(|id| handler_cpu.record(id));
        handler_cpu.interrupt.replace(None);
    };
    cpu.interrupt.replace(Some((steps, Box::new(handler))));
    came
}

/// Interrupts a task's record at each step with a handler, which is itself interrupted at each
/// step. `handlers` and `nmis` are the numbers of their records.
fn nested(before: u64, handlers: u64, nmis: u64) -> u64 {
    let mut lost = 0;
    for steps in 0.. {
        let mut handler_came = false;
        for later in 0.. {
            let cpu = Cpu::new(false);
            (0..before).for_each(|id| cpu.record(id));
            let ids = 1_000..1_000 + handlers;
            let came = interrupt(&cpu, steps, ids, later, 2_000..2_000 + nmis);
            cpu.record(500);
            cpu.interrupt.replace(None);
            let (handler, nmi) = came.get();
            handler_came |= handler;
            let count = before + 1;
            let count = count + if handler { handlers } else { 0 };
            cpu.check_end(count + if nmi { nmis } else { 0 });
            lost += cpu.refused.get();
            if !nmi {
                break;
            }
        }
        if !handler_came {
            return lost;
        }
    }
    unreachable!()
}

#[test]
fn a_handler_and_an_nmi_may_record_at_every_step_and_a_cut_may_follow_every_store() {
    for before in [0, 5, 9] {
        assert_eq!(nested(before, 1, 1), 0);
    }
}

#[test]
fn handlers_that_record_a_whole_lap_pass_the_slots_of_the_interrupted_record() {
    assert_eq!(nested(2, 9, 1), 0);
    assert_eq!(nested(0, 2, 8), 0);
}

/// Runs `test` for each step at which a handler may interrupt a task's record, in an empty and in a
/// full zone. The handler records `count` entries.
fn at_each_step(count: u64, abandons: bool, test: impl Fn(&Rc<Cpu>)) {
    for before in [0, 20] {
        for steps in 0.. {
            let cpu = Cpu::new(false);
            (0..before).for_each(|id| cpu.record(id));
            let (came, handler_cpu) = (Rc::new(Cell::new(false)), cpu.clone());
            let told = came.clone();
            let handler = move || {
                told.set(true);
                (1_000..1_000 + count).for_each(|id| handler_cpu.record(id));
                if abandons {
                    resume_unwind(Box::new(()));
                }
            };
            cpu.interrupt.replace(Some((steps, Box::new(handler))));
            _ = catch_unwind(AssertUnwindSafe(|| cpu.record(500)));
            cpu.interrupt.replace(None);
            if !came.get() {
                break;
            }
            assert_eq!(cpu.refused.get(), 0);
            test(&cpu);
        }
    }
}

#[test]
fn a_record_that_is_completed_laps_later_returns_its_slots_and_overwrites_no_other_one() {
    // The laps of a slot repeat after 15.
    for count in [9, 60, 8 * 15, 200] {
        at_each_step(count, false, |cpu| {
            (2_000..2_020).for_each(|id| cpu.record(id));
            let (found, reader) = cpu.found();
            assert_eq!(found.len() as u64, SLOTS / 2 + 1, "{found:?}");
            assert_eq!(
                (reader.missing().unwritten, reader.missing().passed),
                (0, 0)
            );
        });
    }
}

#[test]
fn an_abandoned_record_costs_its_own_slots_in_each_lap_until_it_is_forgotten() {
    at_each_step(1, true, |cpu| {
        (2_000..2_400).for_each(|id| cpu.record(id));
        assert_eq!(cpu.refused.get(), 0);
        let (found, reader) = cpu.found();
        // Each of both slots may leave a neighbour without a record.
        assert!(found.len() as u64 >= SLOTS / 2 - 2, "{found:?}");
        assert!(reader.missing().passed <= 2);
        if reader.missing().passed > 0 {
            let incomplete = reader.incomplete(&**cpu).unwrap();
            let first_after = cpu.records.borrow()[&1_000]
                .0
                .min(cpu.records.borrow()[&2_000].0);
            assert!(
                incomplete.since <= first_after + 2,
                "{incomplete:?} {first_after}"
            );
            let laps = (800 - SLOTS) / SLOTS;
            assert!(
                incomplete.passed >= laps * reader.missing().passed,
                "{incomplete:?}"
            );
        }
        forget(&**cpu);
        (3_000..3_020).for_each(|id| cpu.record(id));
        let (found, reader) = cpu.found();
        assert_eq!(
            found.iter().filter(|it| it.depth == 0).count() as u64,
            SLOTS / 2 + 1
        );
        assert_eq!(
            (reader.missing().unwritten, reader.missing().passed),
            (0, 0)
        );
    });
}

#[test]
fn a_zone_full_of_abandoned_records_counts_its_losses_and_reports_them_after_it_is_forgotten() {
    let cpu = Cpu::new(false);
    for id in 0..100 {
        let handler = || -> () { resume_unwind(Box::new(())) };
        // After the reservation.
        cpu.interrupt.replace(Some((5, Box::new(handler))));
        _ = catch_unwind(AssertUnwindSafe(|| cpu.record(id)));
        cpu.interrupt.replace(None);
    }
    let lost = cpu.refused.get();
    cpu.record(500);
    assert_eq!(cpu.refused.get(), lost + 1);
    forget(&*cpu);
    cpu.record(501);
    let (found, _) = cpu.found();
    let events: Vec<_> = found.iter().map(|it| it.event).collect();
    let counted = cpu.words.borrow()[word(LOST)];
    assert!(counted > lost);
    assert_eq!(events.last(), Some(&Event::Lost { records: counted }));
    assert!(
        matches!(events[events.len() - 2], Event::Enter { .. }),
        "{events:?}"
    );
}

#[test]
fn a_cut_after_any_store_of_many_laps_loses_the_record_in_flight_at_most() {
    let cpu = Cpu::new(false);
    (0..1_000).for_each(|id| cpu.record(id));
    assert_eq!(cpu.refused.get(), 0);
}

#[test]
fn a_full_zone_is_not_overwritten() {
    let cpu = Cpu::new(true);
    (0..14).for_each(|id| cpu.record(id));
    assert_eq!((cpu.records.borrow().len(), cpu.refused.get()), (8, 6));
    let (found, _) = cpu.found();
    assert_eq!(found.last().unwrap().event, Event::Lost { records: 6 });
}

#[test]
fn laps_of_neighbouring_rounds_differ_and_are_never_0() {
    for index in (0..40 * SLOTS).step_by(3) {
        let laps = [lap(index, BITS), lap(index + SLOTS, BITS)];
        assert!(laps[0] != laps[1] && !laps.contains(&0));
    }
}

/// Words without checks.
struct Plain(RefCell<Vec<u64>>);

impl Cells for Plain {
    fn get(&self, word: usize) -> u64 {
        self.0.borrow()[word]
    }
    fn set(&self, word: usize, value: u64) {
        self.0.borrow_mut()[word] = value;
    }
    fn publish(&self, word: usize, value: u64) {
        self.set(word, value);
    }
    fn replace(&self, word: usize, from: u64, to: u64) -> bool {
        let same = self.get(word) == from;
        if same {
            self.set(word, to);
        }
        same
    }
}

#[test]
fn a_record_in_a_damaged_zone_neither_panics_nor_leaves_the_zone() {
    let ends = [0, 1, 2, u64::MAX - 1, u64::MAX];
    for (head, forgotten, unreported) in ends
        .into_iter()
        .flat_map(|head| ends.map(|it| (head, it)))
        .flat_map(|(head, it)| ends.map(|lost| (head, it, lost)))
    {
        for stop_when_full in [false, true] {
            let cells = Plain(RefCell::new(std::vec![0; WORDS]));
            cells.set(word(HEAD), head);
            cells.set(word(FORGOTTEN), forgotten);
            cells.set(word(UNREPORTED), unreported);
            cells.set(word(LOST), u64::MAX);
            let size = Size {
                bits: BITS,
                stop_when_full,
            };
            let slot = Meta::new(Kind::Enter, 1, 0);
            write(
                &cells,
                size,
                || 1,
                |time| [(time, slot), (2, Meta::argument(Role::Argument))],
            );
        }
    }
}

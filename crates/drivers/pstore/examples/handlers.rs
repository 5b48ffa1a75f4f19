//! Three methods of recording in interrupt handlers:
//! `cargo run -p nostall-pstore --example handlers`.
//!
//! The task records, and an interrupt arrives in the middle of each of its records. The handler
//! also records. In this example, the stamp raises the interrupt, so that it always arrives at the
//! same step.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use nostall_io::Processor;
use nostall_pstore::{
    Dropping, HEADER, LinuxVersion, Load, Masking, Nesting, Ram, RecordFormat, Recorder, Zone,
    ZoneHeader, ZoneKind,
};

/// Number of records of the task.
const RECORDS: u64 = 1_000;

/// The functions whose entries are recorded.
const TASK: u64 = 0xffff_ffff_8100_1000;
const HANDLER: u64 = 0xffff_ffff_8100_2000;

thread_local! {
    static PENDING: RefCell<Option<Rc<dyn Fn()>>> = const { RefCell::new(None) };
    static IS_MASKED: Cell<bool> = const { Cell::new(false) };
    static NOW: Cell<u64> = const { Cell::new(0) };
}

/// Returns this CPU's time.
fn stamp() -> u64 {
    interrupt();
    NOW.set(NOW.get() + 1);
    NOW.get()
}

/// Runs the handler if an interrupt is pending and not masked.
fn interrupt() {
    if !IS_MASKED.get()
        && let Some(handler) = PENDING.take()
    {
        handler();
    }
}

/// The only CPU.
struct Cpu;

impl Processor for Cpu {
    fn id(&self) -> usize {
        0
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        let was_masked = IS_MASKED.replace(true);
        let result = critical();
        IS_MASKED.set(was_masked);
        interrupt();
        result
    }
}

/// Returns a recorder for a zone with space for every record.
fn recorder() -> Recorder<'static, Ram<'static>, fn() -> u64> {
    let bytes = HEADER + 2 * RECORDS as usize * RecordFormat::NATIVE.len();
    let memory = Ram::of(vec![0; bytes].leak());
    let linux = LinuxVersion::new(6, 1, 0);
    let (zone, _) = Zone::attach(memory, ZoneKind::Ftrace, linux, None).expect("there is room");
    Recorder::new(zone, 0, stamp)
}

/// Returns the number of records in a zone, according to its header.
fn held(memory: &impl Load) -> u64 {
    let mut header = [0; HEADER];
    memory.load(0, &mut header);
    let header = ZoneHeader::decode(header, nostall_pstore::ByteOrder::NATIVE);
    u64::from(header.size) / RecordFormat::NATIVE.len() as u64
}

/// Records as a task that is interrupted in each record.
fn run(record: impl Fn(u64, u64) + 'static) {
    let record = Rc::new(record);
    for _ in 0..RECORDS {
        let handler = record.clone();
        PENDING.set(Some(Rc::new(move || handler(HANDLER, TASK))));
        record(TASK, TASK);
    }
}

fn main() {
    let dropping = Rc::new(Dropping::new(recorder()));
    let shared = dropping.clone();
    run(move |ip, parent| shared.record(ip, parent));
    let kept = dropping.with(|recorder| held(recorder.zone().memory()));
    report("Dropping", kept, dropping.missed(), RECORDS);

    let masking = Rc::new(Masking::new(recorder(), Cpu));
    let shared = masking.clone();
    run(move |ip, parent| shared.record(ip, parent));
    let kept = masking.with(|recorder| held(recorder.zone().memory()));
    report("Masking", kept, masking.missed(), 0);

    let nesting = Rc::new(Nesting::new(recorder()).expect("no error correction"));
    let shared = nesting.clone();
    run(move |ip, parent| shared.record(ip, parent));
    report("Nesting", Some(held(nesting.memory())), nesting.missed(), 0);
}

/// Prints a row, and checks that each record is either kept or counted as dropped.
fn report(name: &str, kept: Option<u64>, missed: usize, expected: u64) {
    let (made, kept, missed) = (2 * RECORDS, kept.unwrap_or(0), missed as u64);
    println!("{name}: {kept} of {made} records kept, {missed} dropped");
    assert_eq!((kept, missed), (made - expected, expected));
}

#[test]
fn every_record_of_a_handler_is_kept_or_counted() {
    main();
}

//! The recorder of a kernel: the records of the previous boot, the start, a filter, the waits of
//! drivers and a panic. Here the memory is the program's own.
//!
//!     cargo run -p nostall-trace --features stall-hook --example kernel

use std::sync::atomic::{AtomicUsize, Ordering};

use nostall_io::{Held, Processor, StallCondition};
use nostall_trace::{
    Event, FormatError, Options, Recorder, Region, recover, set_recorder, trace_scope, traced,
};

const MAX_CPUS: usize = 2;

#[derive(Clone, Copy)]
struct Cpu;

impl Processor for Cpu {
    fn id(&self) -> usize {
        0 // the CPU's number
    }
    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        critical() // masked in a kernel
    }
}

/// A clock that is usable in a constant.
#[derive(Clone, Copy)]
struct Counter;

impl nostall_trace::Ticks for Counter {
    fn now(&self) -> u64 {
        static TICKS: AtomicUsize = AtomicUsize::new(0);
        TICKS.fetch_add(1, Ordering::Relaxed) as u64
    }
}

// ANCHOR: start
/// In a kernel for x86-64, the clock is `nostall_trace::Tsc`.
static RECORDER: Recorder<'static, Counter, Cpu> = Recorder::new(Counter, Cpu);

/// Called early in the boot, with interrupts off.
fn start_trace(
    memory: &'static mut [u8],
    ticks_per_second: u64,
    log: impl Fn(&dyn std::fmt::Debug),
) -> Result<(), FormatError> {
    // First the records of the previous boot. This one has the next number.
    let mut boot = 1;
    if let Ok(previous) = recover(&memory[..]) {
        boot = previous.boot().wrapping_add(1);
        for record in previous.merged::<MAX_CPUS>().into_iter().flatten() {
            log(&record);
        }
    }
    let options = Options {
        zones: MAX_CPUS as u32,
        names: 65536,
        ticks_per_second,
        boot,
        ..Options::default()
    };
    RECORDER.start(Region::format(memory, &options)?);
    set_recorder(&RECORDER);
    Ok(())
}
// ANCHOR_END: start

// ANCHOR: stalls
static HOOK: &dyn nostall_io::StallHook = &RECORDER;

/// The drivers report their waits to the recorder.
fn record_stalls() {
    nostall_io::set_stall_hook(&HOOK);
}
// ANCHOR_END: stalls

// ANCHOR: functions
#[traced(arg = bytes.len())]
fn send(bytes: &[u8]) {
    for _ in bytes {
        trace_scope!("byte");
    }
}
// ANCHOR_END: functions

#[repr(align(64))]
struct Memory([u8; 1 << 18]);

fn main() -> Result<(), FormatError> {
    let memory = &mut Box::leak(Box::new(Memory([0; 1 << 18]))).0;
    start_trace(memory, 1_000_000_000, |record| println!("{record:?}"))?;
    record_stalls();
    send(b"ab");
    {
        // A driver's wait.
        let _held = Held::begin(StallCondition::Transmitter);
    }
    RECORDER.freeze();
    let trace = recover(RECORDER.dump().expect("it has started")).expect("it is sound");
    let records = trace.merged::<MAX_CPUS>().into_iter().flatten();
    let stall = |event: &Event| matches!(event, Event::Stall { .. });
    let (stalls, calls): (Vec<_>, Vec<_>) = records.partition(|record| stall(&record.event));
    println!("{} entries and exits, {} stalls", calls.len(), stalls.len());
    assert_eq!((calls.len(), stalls.len()), (6, 1));
    Ok(())
}

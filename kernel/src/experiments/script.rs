//! An access script on the port under test.

use nostall_io::Clock;
use nostall_work::script::{self, JobResult, Values};

use crate::{arch, report};

/// Makes the accesses of job `item`, and reports the values that were read in full reports first.
pub fn run(script: &[u8], item: u16, clock: &impl Clock) {
    let mut first = 0;
    let mut values = Values::new();
    let mut flush = |values: &mut Values| {
        let values = core::mem::take(values);
        let count = values.len() as u32;
        report::tell(item, JobResult { first, values });
        first += count;
    };
    let made = script::run(script, &arch::serial_port(), clock, |value| {
        if values.is_full() {
            flush(&mut values);
        }
        let _ = values.push(value); // there is room now
    });
    if let Err(bad) = made {
        panic!("{bad}");
    }
    flush(&mut values);
}

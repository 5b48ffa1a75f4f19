//! The channel to the machine that runs us.

use core::ffi::CStr;

use nostall_io::Processor;
use nostall_work::Report;
use spin::Mutex;

use crate::arch::{self, Cpu};

/// Held while a line is on its way, so that lines of two CPUs do not mix.
static LINE: Mutex<()> = Mutex::new(());

/// Sends one report.
pub fn send(report: &Report) {
    Cpu.without_interrupts(|| {
        let _line = LINE.lock();
        write(report);
    });
}

/// Sends one report although the line's owner may never let go: after a bounded
/// wait, a mixed line is better than none.
pub fn last_words(report: &Report) {
    Cpu.without_interrupts(|| {
        let line = (0..1_000_000).find_map(|_| {
            Cpu.relax();
            LINE.try_lock()
        });
        write(report);
        drop(line);
    });
}

fn write(report: &Report) {
    // One byte more, so that a zero ends the longest, too.
    let mut line = [0; Report::LONGEST + 1];
    let len = report.encode(&mut line[..Report::LONGEST]).len();
    line[len] = 0;
    if let Ok(line) = CStr::from_bytes_until_nul(&line) {
        arch::send_report(line);
    }
}

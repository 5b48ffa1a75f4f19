//! The channel for reports to the host.

use core::ffi::CStr;

use nostall_io::Processor;
use nostall_work::{Event, LONGEST_REPORT, Report};
use serde::Serialize;
use spin::Mutex;

use crate::arch::{self, Cpu};

/// Held while a line is sent, so that lines of two CPUs do not mix.
static LINE: Mutex<()> = Mutex::new(());

/// Sends one result of job `item` of the list.
pub fn tell<T: Serialize>(item: u16, result: T) {
    send(&Report::Result { item, result });
}

/// Sends one report.
pub fn send<T: Serialize>(report: &Report<T>) {
    Cpu.without_interrupts(|| {
        let _line = LINE.lock();
        write(report);
    });
}

/// Sends one report of a crash. The wait for the line's lock is bounded, because its owner may have
/// stopped: a mixed line is better than none.
pub fn last_words(report: &Event) {
    Cpu.without_interrupts(|| {
        let line = (0..1_000_000).find_map(|_| {
            Cpu.relax();
            LINE.try_lock()
        });
        write(report);
        drop(line);
    });
}

fn write<T: Serialize>(report: &Report<T>) {
    // One more byte, so that the longest report also ends with a zero byte.
    let mut line = [0; LONGEST_REPORT + 1];
    let len = report.encode(&mut line[..LONGEST_REPORT]).len();
    line[len] = 0;
    if let Ok(line) = CStr::from_bytes_until_nul(&line) {
        arch::send_report(line);
    }
}

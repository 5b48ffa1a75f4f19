//! Failing on purpose, so that machines can be tested.

use core::hint::black_box;
use core::ptr;

use nostall_io::Registers;
use nostall_work::{Failure, Report};

use crate::{arch, report};

/// Fails so.
pub fn now(failure: Failure) -> ! {
    match failure {
        Failure::Panic => panic!("on purpose"),
        Failure::NullRead => {
            // SAFETY: page 0 is not mapped: this is an exception, which ends us.
            black_box(unsafe { ptr::read_volatile(black_box(8) as *const u8) });
        }
        Failure::CodeWrite => {
            // SAFETY: code is mapped read-only: an exception, as above.
            unsafe { ptr::write_volatile(black_box(now as fn(Failure) -> !) as *mut u8, 0) };
        }
        Failure::StackOverflow => {
            black_box(recurse(0));
        }
        Failure::Hang => arch::hang(),
        Failure::Flood => loop {
            arch::serial_port().write_burst(0, &[b'!'; 16]);
        },
        Failure::ReportFlood => loop {
            report::send(&Report::Done);
        },
    }
    panic!("{failure:?} did not fail");
}

#[expect(unconditional_recursion, reason = "that is what it is for")]
fn recurse(depth: u64) -> u64 {
    let page = black_box([depth; 64]);
    recurse(depth + 1) + page[0]
}

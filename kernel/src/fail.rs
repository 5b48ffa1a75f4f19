//! Intended failures, for tests of the machines.

use core::hint::black_box;
use core::ptr;

use nostall_console::{Caller, Drain, FlushLimits, Offered, Sink, SinkOptions, flush};
use nostall_io::{Nanos, Registers};
use nostall_work::{Event, Failure};

use crate::arch::MachineClock;
use crate::{arch, log, other_cpus, report};

/// Fails in the given way, on a machine of `cpus` CPUs.
pub fn now(failure: Failure, cpus: u16, clock: &MachineClock) -> ! {
    match failure {
        Failure::Panic => panic!("on purpose"),
        Failure::PanicInFlush => {
            log::last_line(format_args!("Kernel panic: on purpose, before the flush"));
            let drain = Drain::new(&log::RING, Panicking, SinkOptions::DEFAULT);
            flush(&[&drain], 0, &log::Services, FlushLimits::DEFAULT);
        }
        Failure::PanicEverywhere => {
            let errand = |cpu: usize| panic!("on purpose, on CPU {cpu} of {cpus}");
            other_cpus::together(cpus, &errand, clock, Nanos::from_secs(10));
        }
        Failure::NullRead => {
            // SAFETY: page 0 is not mapped, so this is an exception that ends the kernel.
            black_box(unsafe { ptr::read_volatile(black_box(8) as *const u8) });
        }
        Failure::CodeWrite => {
            // SAFETY: code is mapped read-only, so this is also an exception.
            unsafe { ptr::write_volatile(black_box(recurse as fn(u64) -> u64) as *mut u8, 0) };
        }
        Failure::StackOverflow => {
            black_box(recurse(0));
        }
        Failure::Hang => arch::hang(),
        Failure::Flood => loop {
            arch::serial_port().write_burst(0, &[b'!'; 16]);
        },
        Failure::ReportFlood => loop {
            report::send(&Event::Done);
        },
    }
    panic!("{failure:?} did not fail");
}

#[expect(unconditional_recursion, reason = "it fills the stack")]
fn recurse(depth: u64) -> u64 {
    let page = black_box([depth; 64]);
    recurse(depth + 1) + page[0]
}

/// A console that panics.
struct Panicking;

impl Sink for Panicking {
    fn offer(&self, _: &[u8], _: Caller) -> Offered {
        panic!("on purpose, in the flush");
    }
}

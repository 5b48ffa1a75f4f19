//! Rows of Linux beside nostall's.

use nostall_uart::Strategy;
use nostall_vm::qemu::QemuBoard;
use nostall_work::uart::{Driver, Job, Writes};

use super::metrics;
use super::table::single_write_columns;
use crate::experiments::peers::{PeerComparison, ProgramTable, Watch};
use nostall_figures::table::{Column, hundredths, time};

/// Nostall's job beside the peers.
pub const JOB: Job = Job {
    driver: Driver::Ours(Strategy::FifoBurst),
    writes: Writes::Whole,
};

/// Sizes of nostall's writes. Linux has the same ones.
pub const SIZES: [usize; 5] = [1, 16, 80, 2_500, 11_500];

pub const PEERS: PeerComparison = PeerComparison {
    cpus: 1,
    counted: Some(Watch::Accesses),
    ours: Some((JOB.driver.name(), QemuBoard::Q35)),
    columns: &single_write_columns(hundredths),
    legend: "One write of so many bytes. Linux: the write function of its 8250 console.",
    goal: None,
    second: Some(ProgramTable {
        labels: ["bytes", "test program", ""],
        cases: &["1-byte-write", "2500-byte-write", "11500-byte-write"],
        columns: &[
            Column::of("real", metrics::NS, time),
            Column::of("user", metrics::USER_NS, time),
            Column::of("system", metrics::SYSTEM_NS, time),
        ],
        legend: "The test program of Linux's fix: one write. sertest: to a device that calls the write\n\
                 function of the console; tty: to /dev/ttyS0. nostall has no user mode; its system\n\
                 time is the time that a second task on the CPU did not get.",
    }),
};

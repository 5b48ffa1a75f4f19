//! Rows of Linux beside nostall's.

use std::ffi::OsString;

use anyhow::{Result, bail};
use nostall_vm::qemu::QemuBoard;
use nostall_vm::{Ending, Error, Guest, Limits, Machine};
use nostall_work::{CallTimes, Example, LogCost};

use super::metrics;
use crate::experiments::on::On;
use crate::experiments::peers::PeerComparison;
use nostall_figures::figure::{Figure, Figures};
use nostall_figures::table::{Column, time};

pub const PEERS: PeerComparison = PeerComparison {
    cpus: CPUS,
    is_counted: false,
    ours: Some((BOUNDED, QemuBoard::Q35)),
    columns: &[
        Column::of("time/message", metrics::NS_PER_PRINTK, time),
        Column::of("longest", metrics::LONGEST_PRINTK_NS, time),
    ],
    legend: "Linux: printk of 100 bytes to QEMU's serial port, which has no line: time for the\n\
             caller. hidden: by the log level. On a line of 115,200 baud, 100 bytes take 8.7 ms.\n\
             nostall: the same log calls; longest is a call, or a slice of the timer that prints\n\
             the rest.",
    second: None,
};

/// CPUs of each system.
const CPUS: u16 = 2;

/// Name of the strategy that is measured.
const BOUNDED: &str = "bounded";

/// Bytes on the line, at most: every message, its time and its line's end, and as much again.
const SERIAL_BYTES: u64 = 200_000;

/// Measures log calls on nostall's kernel.
pub fn measure(on: &On, qemu_args: &[OsString]) -> Result<Vec<Figure>> {
    let On::Qemu { qemu, kernel } = on else {
        bail!("log calls are measured in QEMU");
    };
    let guest = Guest {
        work: &[Example::LogCost.into()],
        qemu_args,
        ..Guest::new(kernel, CPUS)
    };
    let limits = Limits::of(1, SERIAL_BYTES);
    let ran = qemu.run(&guest, &limits, Ending::Done, &mut |_| {})?;
    let [(0, cost)] = ran.results::<LogCost>()?[..] else {
        bail!(Error::Undone);
    };
    let mut figures = Figures::new("console", on.name());
    for (way, CallTimes { sum, longest }) in [("hidden", cost.hidden), ("printed", cost.printed)] {
        let mut record = figures.record(BOUNDED).on_port(way);
        let messages = f64::from(cost.messages.max(1));
        record.value(metrics::NS_PER_PRINTK, sum as f64 / messages);
        record.value(metrics::LONGEST_PRINTK_NS, longest as f64);
    }
    Ok(figures.to_vec())
}

//! Rows of Linux beside nostall's.

use std::ffi::OsString;

use anyhow::{Result, bail};
use nostall_vm::qemu::QemuBoard;
use nostall_vm::{Ending, Error, Guest, Limits, Machine};
use nostall_work::{CallTimes, Example, LogCost};

use super::metrics;
use crate::experiments::on::On;
use crate::experiments::peers::{BY_INSTRUCTIONS, PeerComparison, Watch};
use nostall_figures::figure::{Figure, Figures};
use nostall_figures::table::{Column, time, whole};

pub const PEERS: PeerComparison = PeerComparison {
    cpus: CPUS,
    counted: Some(Watch::Instructions),
    ours: Some((BOUNDED, QemuBoard::Q35)),
    columns: &[
        Column::of("time/message", metrics::NS_PER_PRINTK, time),
        Column::of("longest", metrics::LONGEST_PRINTK_NS, time),
        Column::of("instructions", metrics::INSTRUCTIONS_PER_PRINTK, whole),
        Column::of("most", metrics::LONGEST_PRINTK_INSTRUCTIONS, whole),
    ],
    legend: "Linux: printk of 100 bytes to QEMU's serial port, which has no line: time for the\n\
             caller. hidden: by the log level. On a line of 115,200 baud, 100 bytes take 8.7 ms.\n\
             nostall: the same log calls; longest is a call, or a slice of the timer that prints\n\
             the rest. task: a task prints, as Linux's thread does. instructions, most: of a call,\n\
             counted by QEMU in another boot, with one CPU on Linux.",
    second: None,
    goal: Some(goal),
};

/// The Linux whose thread prints.
const THREAD: &str = "linux-6.12-rt";

/// Returns whether each call with a printer task has fewer instructions than Linux's average.
fn goal(figures: &Figures) -> Option<String> {
    let linux = figures.row(THREAD).on_port("printed");
    let linux = linux.get(metrics::INSTRUCTIONS_PER_PRINTK)?;
    let ours = figures.row("nostall").on_port(TASK);
    let ours = ours.get(metrics::LONGEST_PRINTK_INSTRUCTIONS)?;
    let met = if ours < linux { "met" } else { "NOT met" };
    Some(format!(
        "goal: nostall, {TASK}: most fewer than {THREAD}'s instructions: {met}"
    ))
}

/// Log calls whose message a printer task prints.
const TASK: &str = "task";

/// CPUs of each system.
const CPUS: u16 = 2;

/// Name of the strategy that is measured.
const BOUNDED: &str = "bounded";

/// Bytes on the line, at most: every message, its time and its line's end, and as much again.
const SERIAL_BYTES: u64 = 200_000;

/// Measures log calls on nostall's kernel, and counts their instructions.
pub fn measure(on: &On, qemu_args: &[OsString]) -> Result<Vec<Figure>> {
    let counted = [qemu_args, &BY_INSTRUCTIONS.map(OsString::from)].concat();
    let (timed, counted) = (log_cost(on, qemu_args)?, log_cost(on, &counted)?);
    let messages = f64::from(timed.messages.max(1));
    let mut figures = Figures::new("console", on.name());
    for (way, calls) in [
        ("hidden", (|cost| cost.hidden) as fn(&LogCost) -> CallTimes),
        ("printed", |cost| cost.printed),
        (TASK, |cost| cost.by_task),
    ] {
        let (times, counts) = (calls(&timed), calls(&counted));
        let longest = times.longest.max(times.slice);
        let mut record = figures.record(BOUNDED).on_port(way);
        record.value(metrics::NS_PER_PRINTK, times.sum as f64 / messages);
        record.value(metrics::LONGEST_PRINTK_NS, longest as f64);
        let instructions = counts.sum as f64 / messages;
        record.value(metrics::INSTRUCTIONS_PER_PRINTK, instructions);
        record.value(metrics::LONGEST_PRINTK_INSTRUCTIONS, counts.longest as f64);
    }
    Ok(figures.to_vec())
}

/// Returns the cost of log calls in a boot of nostall's kernel.
fn log_cost(on: &On, qemu_args: &[OsString]) -> Result<LogCost> {
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
    Ok(cost)
}

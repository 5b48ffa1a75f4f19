//! The tables of the floods.

use nostall_console::{FlushLimits, StallDetector, Watchdog};
use nostall_devices::uart::Profile;
use nostall_work::console::Strategy;

use super::fold::{LINE_USE, line_use};
use super::run::{Floods, Setup};
use crate::experiments::figure::Figures;
use crate::experiments::table::{Column, cpus as in_words, host_cpus, percent, table, time, whole};

/// The CPUs, and the callers that log.
const CPUS: [Column; 7] = [
    Column::of("held", "longest_hold_ns", time),
    Column::of("median", "delay_median_ns", time),
    Column::of("99.9 %", "delay_p999_ns", time),
    Column::of("max", "delay_max_ns", time),
    Column::of("missed", "ticks_missed", whole),
    Column::new(
        "fired",
        |row| Some(row.get("lockup_reports")? + row.get("stall_reports")?),
        whole,
    ),
    Column::of("casc.", "cascades", whole),
];

/// The line, and a panic.
const LINE: [Column; 8] = [
    Column::of("task", "second_task_share", percent),
    Column::of("least", "second_task_least_share", percent),
    Column::of("B/s", "bytes_per_second", whole),
    Column::new("line", line_use, percent),
    Column::of("lost", "records_lost", whole),
    Column::of("first", "panic_first_byte_ns", time).or("never"),
    Column::of("last", "panic_last_byte_ns", time).or("never"),
    Column::of("unsent", "panic_records_unsent", whole),
];

pub fn heading(floods: &Floods) -> String {
    let cpus = in_words(floods.cpus);
    let on = match &floods.setup {
        Setup::Model => format!("model, {cpus}, virtual time"),
        Setup::Qemu { name, .. } => {
            let host = host_cpus();
            format!("{name}, {cpus} on {host} of the host, real time")
        }
    };
    format!(
        "console on {on}\n{};\n{} baud, ring of 1 MiB",
        floods.log.describe(),
        floods.rate
    )
}

/// The tables of each profile.
pub fn tables(floods: &Floods, figures: &Figures) -> String {
    let profiles = floods.profiles().map(|pairs| {
        let profile = &pairs[0].profile;
        let rows = || {
            let names = pairs.iter().map(|pair| pair.strategy.name());
            names.map(|name| ([name], figures.row(name).on_port(profile.name)))
        };
        let tables = [&CPUS[..], &LINE].map(|columns| table(["strategy"], columns, rows()));
        let mut text = format!("{}\n{}", profile.name, tables.join("\n\n"));
        // A shorter log is with the port before the gain shows.
        if floods.log.is_flood
            && let Some(gain) = gain(figures, profile)
        {
            text += &format!("\n\n{gain}");
        }
        text
    });
    profiles.collect::<Vec<_>>().join("\n\n")
}

/// The gain of the seed's FIFO writer, in words.
fn gain(figures: &Figures, profile: &Profile) -> Option<String> {
    let of = |strategy: Strategy| figures.row(strategy.name()).on_port(profile.name);
    let (before, fifo) = (of(Strategy::PrintInline), of(Strategy::FifoInline));
    let more = fifo.get("bytes_per_second")? / before.get("bytes_per_second")? - 1.0;
    let why = match *profile {
        Profile::HP_DL380_GEN9 => " The article has 25 %.",
        _ if before.get("line_use") >= Some(LINE_USE) => " The line was full before.",
        _ => "",
    };
    Some(format!(
        "fifo-inline sends {:.0} % more bytes a second than print-inline, and still\n\
         holds a CPU for {}.{why}",
        more * 100.0,
        time(fifo.get("longest_hold_ns")?),
    ))
}

pub fn legend(floods: &Floods) -> String {
    let haste = u64::from(floods.setup.haste());
    let mut legend = format!(
        "\
held: the longest time that a CPU could do nothing but serve the console; median
to max: what was added to a caller who logs; missed: ticks of a timer of 250 Hz
that never came; fired: reports of the detectors of lockups ({}) and stalls
({}); casc.: those that made their interrupt handler the console's owner.
task, least: what a second task got of the CPUs, and of that where it got least;
B/s, line: what arrived while there was something to send, and of what the line
can take; lost: records that the ring lost, and says so.
In a run with a panic, {} after the first line: first, last: how long
until the first byte of its text had arrived, and the last; unsent: records
that did not, of what was logged before (bounded sends for {} at most).
print-inline: as Linux 4.15 to 6.x, byte by byte: who logs prints all there is,
and hands over to who logs next, if somebody does; fifo-inline: the same by the
FIFO; bounded: nostall-console.",
        time((Watchdog::THRESHOLD / haste).0 as f64),
        time((StallDetector::THRESHOLD / haste).0 as f64),
        floods.panic_at,
        FlushLimits::DEFAULT.total,
    );
    if let Setup::Model = &floods.setup {
        legend += "\nOn the model instructions take no time; accesses to the port do.";
    }
    if let Setup::Qemu { part, has_nmi, .. } = &floods.setup {
        legend += &format!(
            "\n\
Real time is short: 1 line in {part} of the log is logged, in as short a time, and\n\
the detectors are {haste} times as impatient (Linux's: 20 s and 21 s). The port\n\
is QEMU's, behind a throttle that makes it as slow as the one named; task: for\n\
how long a CPU had nothing to do, by its clock. What else the host does shows in\n\
these figures: they are told, and not judged."
        );
        if !has_nmi {
            legend += "\n\
Nothing here interrupts a CPU that has masked interrupts: who prints so panics,
or is stopped, when he is through; a panic waits for that, up to a second, and
first and last are counted from when its CPU was told to.";
        }
    }
    legend
}

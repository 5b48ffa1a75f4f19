//! The tables of the floods.

use nostall_console::{FlushLimits, StallDetector, Watchdog};
use nostall_devices::uart::Profile;
use nostall_work::console::PrintStrategy;

use super::fold::{LINE_USE, line_use};
use super::metrics;
use super::run::{Floods, Setup};
use nostall_figures::figure::Figures;
use nostall_figures::table::{Column, cpus as in_words, host_cpus, percent, table, time, whole};

/// Columns about the CPUs, and the callers that log.
const CPUS: [Column; 7] = [
    Column::of("held", metrics::LONGEST_HOLD_NS, time),
    Column::of("median", metrics::DELAY_MEDIAN_NS, time),
    Column::of("99.9 %", metrics::DELAY_P999_NS, time),
    Column::of("max", metrics::DELAY_MAX_NS, time),
    Column::of("missed", metrics::TICKS_MISSED, whole),
    Column::new(
        "fired",
        |row| Some(row.get(metrics::LOCKUP_REPORTS)? + row.get(metrics::STALL_REPORTS)?),
        whole,
    ),
    Column::of("casc.", metrics::CASCADES, whole),
];

/// Columns about the line, and a panic.
const LINE: [Column; 8] = [
    Column::of("task", metrics::SECOND_TASK_SHARE, percent),
    Column::of("least", metrics::SECOND_TASK_LEAST_SHARE, percent),
    Column::of("B/s", metrics::BYTES_PER_SECOND, whole),
    Column::new("line", line_use, percent),
    Column::of("lost", metrics::RECORDS_LOST, whole),
    Column::of("first", metrics::PANIC_FIRST_BYTE_NS, time).or("never"),
    Column::of("last", metrics::PANIC_LAST_BYTE_NS, time).or("never"),
    Column::of("unsent", metrics::PANIC_RECORDS_UNSENT, whole),
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
        // The port's buffer holds a shorter log, so it shows no gain.
        if floods.log.is_flood
            && let Some(gain) = gain(figures, profile)
        {
            text += &format!("\n\n{gain}");
        }
        text
    });
    profiles.collect::<Vec<_>>().join("\n\n")
}

/// Describes the gain of the FIFO writer of Linux's patch (Costa, 2022).
fn gain(figures: &Figures, profile: &Profile) -> Option<String> {
    let of = |strategy: PrintStrategy| figures.row(strategy.name()).on_port(profile.name);
    let (before, fifo) = (
        of(PrintStrategy::PrintInline),
        of(PrintStrategy::FifoInline),
    );
    let more = fifo.get(metrics::BYTES_PER_SECOND)? / before.get(metrics::BYTES_PER_SECOND)? - 1.0;
    let why = match *profile {
        Profile::HP_DL380_GEN9 => " The article has 25 %.",
        _ if before.get(metrics::LINE_USE) >= Some(LINE_USE) => " The line was full before.",
        _ => "",
    };
    Some(format!(
        "fifo-inline sends {:.0} % more bytes a second than print-inline, and still\n\
         holds a CPU for {}.{why}",
        more * 100.0,
        time(fifo.get(metrics::LONGEST_HOLD_NS)?),
    ))
}

pub fn legend(floods: &Floods) -> String {
    let speedup = u64::from(floods.setup.speedup());
    let mut legend = format!(
        "\
held: longest time in which a CPU could do nothing but serve the console; median
to max: time added to a caller that logs; missed: ticks of a 250 Hz timer that
never came; fired: reports of the detectors of lockups ({}) and stalls
({}); casc.: reports whose interrupt handler became the console's owner.
task, least: a second task's share of all CPUs, and of the CPU where it got
least; B/s, line: bytes that arrived while there was something to send, and the
share of the line's rate; lost: records that the ring lost and reported.
In a run with a panic, {} after the first line: first, last: time
until the first and the last byte of the panic message had arrived; unsent:
records logged before the panic that did not arrive (bounded sends for {}
at most).
print-inline: as Linux 4.15 to 6.x, byte by byte: the logging task prints all
records, and hands over to the next task that logs; fifo-inline: the same, using
the FIFO; printer-thread: as Linux's nbcon consoles: a task prints, a FIFO-full
at a time, and a panic prints all in order; bounded: nostall-console.",
        time((Watchdog::THRESHOLD / speedup).0 as f64),
        time((StallDetector::THRESHOLD / speedup).0 as f64),
        floods.panic_at,
        FlushLimits::DEFAULT.total,
    );
    if let Setup::Model = &floods.setup {
        legend += "\nOn the model instructions take no time; accesses to the port do.";
    }
    if let Setup::Qemu { part, has_nmi, .. } = &floods.setup {
        legend += &format!(
            "\n\
In real time, only 1 line in {part} of the log is sent, and in 1/{part} of its time.\n\
The detectors are {speedup} times as impatient as Linux's (20 s and 21 s). The port is\n\
QEMU's, behind a throttle that makes it as slow as the named one; task: time in\n\
which a CPU was idle, on its clock. These figures include the host's other load,\n\
so they are reported without a verdict."
        );
        if !has_nmi {
            legend += "\n\
This machine has no NMI. A CPU that prints with interrupts masked panics, or is
stopped, only after it has finished. A panic waits for that, up to a second, and
first and last are counted from the request to its CPU.";
        }
    }
    legend
}

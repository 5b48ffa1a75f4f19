//! The text about a benchmark of a Linux SPI device.

use std::io::{self, Write};
use std::path::Path;

use comfy_table::Table;
use spidev::SpiModeFlags;

use super::board::{Board, Node, Set, shown};
use super::counters::{COUNTERS, Counters, increase};
use super::figures;
use super::message::{Payload, hex};
use super::methods::{Measured, Method, Row};
use nostall_figures::figure::Figures;
use nostall_figures::numbers::grouped;
use nostall_figures::table::{aligned, percent, time};

/// Wake-ups for each message from which on Linux is reported to wake its worker for every one.
const PUMPS: f64 = 0.5;

pub fn board(out: &mut dyn Write, path: &Path, board: &Board, set: &Set) -> io::Result<()> {
    writeln!(out, "spi at {}, Linux {}\n", shown(path), board.release)?;
    let node = |node: &Option<Node>| {
        let Some(node) = node else {
            return "not known: there is no sysfs".to_owned();
        };
        let parts = [Some(&node.name), node.is.as_ref(), node.driver.as_ref()];
        let parts: Vec<_> = parts.into_iter().flatten().map(String::as_str).collect();
        parts.join("; ")
    };
    writeln!(out, "device      {}", node(&board.device))?;
    writeln!(out, "controller  {}", node(&board.controller))?;
    writeln!(out, "mode        {}", mode(set.mode))?;
    writeln!(out, "clock       {} Hz at most", grouped(set.clock))?;
    writeln!(out, "word        {} bits", set.bits)?;
    let bufsiz = grouped(board.bufsiz);
    writeln!(
        out,
        "message     {bufsiz} bytes each way at most (spidev's bufsiz)"
    )
}

fn mode(mode: SpiModeFlags) -> String {
    let mut text = (mode.bits() & 3).to_string();
    for (flag, is) in [
        (SpiModeFlags::SPI_CS_HIGH, "selected by a high level"),
        (SpiModeFlags::SPI_LSB_FIRST, "least significant bit first"),
        (SpiModeFlags::SPI_3WIRE, "one wire for both directions"),
        (SpiModeFlags::SPI_LOOP, "loopback inside the controller"),
        (SpiModeFlags::SPI_NO_CS, "no chip select"),
        (SpiModeFlags::SPI_READY, "waits for a ready line"),
        (SpiModeFlags::SPI_TX_DUAL, "may send on 2 wires"),
        (SpiModeFlags::SPI_TX_QUAD, "may send on 4 wires"),
        (SpiModeFlags::SPI_RX_DUAL, "may receive on 2 wires"),
        (SpiModeFlags::SPI_RX_QUAD, "may receive on 4 wires"),
    ] {
        if mode.contains(flag) {
            text = text + ", " + is;
        }
    }
    text
}

/// The text without bytes to send.
pub const NOTHING_SENT: &str = "
Nothing was sent, because only you know the effect on the chip. Use --send 9f,
which reads the identity of a serial flash, or --loopback if MOSI is wired to
MISO.";

pub fn measured(
    out: &mut dyn Write,
    board: &Board,
    what: &Payload,
    measured: &Measured,
    figures: &Figures,
) -> io::Result<()> {
    let Measured { rows, answer, .. } = measured;
    let (sent, came) = (hex(&answer.sent), hex(&answer.received));
    writeln!(out, "\nsent {sent}; came {came}\n")?;
    writeln!(out, "{}\n", figures::table(rows, figures))?;
    let worker = board.controller.as_ref().map_or("spi", |node| &node.name);
    writeln!(
        out,
        "spidev: each thread opens the file; mutex: one file behind a mutex; caller: one
file behind nostall's bus. of clock: share of the rate that {} Hz allow
without a gap between bits. median, 99.9 %, longest: time from the end of one
message to the end of the next. switches: context switches of the sending
thread, per message. at once: messages that Linux ran in their caller's
context. woken, its CPU: wake-ups of Linux's worker {worker} per message, and
its share of a CPU (- if this kernel does not report it).\n",
        grouped(measured.clock)
    )?;
    let lines = [
        fit(rows, measured.clock),
        pump(rows, worker, measured.has_worker),
        shared(rows, measured.ours.by_worker, measured.ours.wakeups),
    ];
    for line in lines.iter().flatten() {
        writeln!(out, "{line}")?;
    }
    if *what == Payload::Loopback {
        let messages: u64 = rows.iter().map(|row| row.tally.messages()).sum();
        let (messages, changed) = (grouped(messages), measured.changed());
        writeln!(
            out,
            "Of {messages} messages, {changed} did not come back as they were sent."
        )?;
    }
    Ok(())
}

/// Describes the cost of a message besides its bytes.
fn fit(rows: &[Row], clock: u32) -> Option<String> {
    let alone = |row: &&Row| row.threads == 1 && row.method == Method::Spidev;
    let shortest = rows.iter().filter(alone).min_by_key(|row| row.bytes)?;
    let longest = rows.iter().filter(alone).max_by_key(|row| row.bytes)?;
    let more = longest.bytes - shortest.bytes;
    if more == 0 {
        return None;
    }
    let (short, long) = (shortest.latency(0.5), longest.latency(0.5));
    let byte = (long - short).max(0.0) / more as f64;
    let besides = (short - byte * shortest.bytes as f64).max(0.0);
    let by_clock = 8e9 / f64::from(clock);
    let mut line = format!(
        "A message costs {} besides its bytes, and a byte {}; at the clock rate {}.",
        time(besides),
        time(byte),
        time(by_clock)
    );
    if byte < 0.9 * by_clock {
        line += "\nFaster than that clock: the bus is emulated, or runs at another rate.";
    }
    Some(line)
}

/// Describes how often Linux wakes its worker without need (commit 412e60373245).
fn pump(rows: &[Row], worker: &str, there: bool) -> Option<String> {
    let row = rows.iter().find(|row| row.threads == 1)?;
    if !there {
        return Some(format!(
            "No thread of Linux's named {worker} is to be seen: whether it pumps is not known."
        ));
    }
    let (woken, cpu) = row.worked()?;
    let cpu = percent(cpu);
    Some(if woken >= PUMPS {
        format!(
            "Linux pumps: it woke its worker {woken:.2} times a message, for {cpu} of a CPU.\n\
             A Linux of 2022 or newer does not (its commit ae7d2346dc89)."
        )
    } else {
        format!("Linux does not pump: its worker was woken {woken:.2} times a message.")
    })
}

/// Describes the work of nostall's own bus.
fn shared(rows: &[Row], by_worker: u32, wakeups: u32) -> Option<String> {
    rows.iter().find(|row| row.threads > 1)?;
    let (by_worker, wakeups) = (grouped(by_worker), grouped(wakeups));
    Some(format!(
        "nostall's own worker ran {by_worker} messages, and was woken {wakeups} times."
    ))
}

pub fn counters(
    out: &mut dyn Write,
    board: &Board,
    before: [Option<Counters>; 2],
    after: [Option<Counters>; 2],
) -> io::Result<()> {
    let mut header = vec!["Linux counted".to_owned()];
    let mut columns = Vec::new();
    for (i, node) in [&board.device, &board.controller].into_iter().enumerate() {
        if let (Some(node), Some(before), Some(after)) = (node, before[i], after[i]) {
            header.push(format!("{} before", node.name));
            header.extend(["after", "so"].map(str::to_owned));
            columns.extend([before, after, increase(before, after)]);
        }
    }
    if columns.is_empty() {
        return Ok(());
    }
    let mut table = Table::new();
    table.set_header(header);
    for (i, (name, _)) in COUNTERS.into_iter().enumerate() {
        let counts = columns.iter().map(|counters| grouped(counters[i]));
        table.add_row([name.to_owned()].into_iter().chain(counts));
    }
    writeln!(out, "\n{}", aligned(table, 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Returns a row of `messages` of `bytes` each in a second, of `nanos` nanoseconds each.
    fn row(bytes: usize, messages: u64, nanos: u64, wakeups: u64) -> Row {
        let mut row = Row::new(Method::Spidev, 1, bytes).unwrap();
        row.tally.latency.record_n(nanos, messages).unwrap();
        row.took = Duration::from_secs(1);
        row.worker = Some([wakeups, 310_000_000]);
        row
    }

    #[test]
    fn a_worker_that_is_woken_for_every_message_is_reported() {
        let pumps = pump(&[row(4, 40_000, 25_000, 39_990)], "spi0", true).unwrap();
        assert!(pumps.contains("woke its worker 1.00 times"), "{pumps}");
        assert!(pumps.contains("31.0 % of a CPU"), "{pumps}");
        let does_not = pump(&[row(4, 40_000, 25_000, 1)], "spi0", true).unwrap();
        assert!(does_not.contains("does not pump"), "{does_not}");
        let hidden = pump(&[row(4, 40_000, 25_000, 1)], "spi0", false).unwrap();
        assert!(hidden.contains("not known"), "{hidden}");
    }

    #[test]
    fn the_cost_of_a_message_and_of_its_bytes_are_separate() {
        // 20 us, and 1 us for each byte, as at 8 MHz.
        let rows = [row(4, 9, 24_000, 0), row(1_000, 9, 1_020_000, 0)];
        let told = fit(&rows, 8_000_000).unwrap();
        assert!(told.contains("costs 20."), "{told}");
        assert!(told.contains("at the clock rate 1.00 us"), "{told}");
        assert!(!told.contains("Faster"), "{told}");
        let told = fit(&rows, 1_000_000).unwrap();
        assert!(told.contains("Faster than that clock"), "{told}");
        assert_eq!(fit(&rows[..1], 8_000_000), None);
    }
}

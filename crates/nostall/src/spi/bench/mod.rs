//! `nostall spi bench`: performance of a Linux board's bus, and the cost of its kernel.

mod board;
mod counters;
mod figures;
mod interval;
mod message;
mod methods;
mod text;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use nostall_spi::{BitOrder, MODE_0, MODE_1, MODE_2, MODE_3, Polarity, Select, Settings};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use spidev::{SpiModeFlags, Spidev, SpidevOptions};

use crate::output::{self, note, to_stdout};
use board::{Board, Set, shown};
use message::Payload;
use methods::{MOST_THREADS, Measured, Method, Methods, ROUNDS, Row};

/// Lengths that separate one cost from another, beside the longest there is.
const LENGTHS: [usize; 3] = [4, 64, 1024];

/// Measure an SPI bus of this board through Linux's spidev
///
/// Prints Linux's information about the device and its controller. With --send or --loopback, sends
/// messages of several lengths, from one thread and from several. They go through the file alone,
/// behind a mutex, and over nostall's bus. Prints messages per second beside the limit of the
/// clock, latencies, context switches, and Linux's own counters. Reports whether Linux's worker
/// thread was woken for messages that it did not send.
///
/// Nothing is sent without --send or --loopback, because only you know the effect on the chip.
/// `--send 9f`, for example, reads the identity of a serial flash and changes nothing. --loopback
/// needs MOSI wired to MISO, and compares the returned bytes.
///
/// Needs the right to read and write the device file. Changes only the mode of the device, and
/// restores it at the end.
#[derive(clap::Args)]
pub struct Args {
    /// Device file, such as /dev/spidev0.0
    #[arg(value_name = "DEVICE")]
    device: PathBuf,

    /// Send these bytes (hexadecimal), followed by zeros up to the length of the message
    #[arg(long, value_name = "HEX", value_parser = message::payload, group = "what")]
    send: Option<Payload>,

    /// Send a pattern and compare the returned bytes (MOSI wired to MISO)
    #[arg(long, group = "what")]
    loopback: bool,

    /// Leave the chip unselected, if the controller can
    #[arg(long, requires = "what")]
    no_cs: bool,

    /// Clock in hertz, such as 500k or 10M; the default is the device's own
    #[arg(long, value_name = "HZ", value_parser = hertz, requires = "what")]
    clock: Option<u32>,

    /// Clock polarity and phase; the default is the present mode
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=3), requires = "what")]
    mode: Option<u8>,

    /// Lengths of messages; the default is 4, 64, 1024 and the longest possible
    #[arg(long, value_name = "N,...", value_delimiter = ',', requires = "what",
          value_parser = clap::value_parser!(u32).range(1..))]
    bytes: Vec<u32>,

    /// Threads in the second part; 1 leaves the part out
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=MOST_THREADS as i64))]
    threads: u32,

    /// Seconds for each line of the table
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,

    /// Also write the figures to FILE as JSON
    #[arg(long, value_name = "FILE", requires = "what")]
    json: Option<PathBuf>,
}

/// Runs the command with these arguments.
///
/// # Errors
///
/// Any failure to measure the bus, as one line for the user.
pub fn run(args: &Args) -> Result<()> {
    let path = &*args.device;
    let board = Board::of(path)?;
    let file = open(path)?;
    let set = Set::of(&file)
        .with_context(|| format!("{} does not answer as spidev does", shown(path)))?;
    to_stdout(|out| text::board(out, path, &board, &set))?;
    let Some(what) = args.what() else {
        return to_stdout(|out| writeln!(out, "{}", text::NOTHING_SENT));
    };
    let settings = args.settings(&set)?;
    let lengths = args.lengths(&what, board.bufsiz)?;

    let stop = stops_politely()?;
    // Restored last, also after errors.
    let _as_it_was = AsItWas {
        file,
        mode: set.mode,
    };
    let before = board.counters();
    let measured =
        measure(args, &board, &what, settings, &lengths, &stop).with_context(|| shown(path))?;
    let after = board.counters();
    let figures = figures::figures(&measured);
    to_stdout(|out| {
        text::measured(out, &board, &what, &measured, &figures)?;
        text::counters(out, &board, before, after)
    })?;
    if let Some(file) = &args.json {
        let document = figures::document(&board, measured.clock, &figures)?;
        fs::write(file, document).with_context(|| file.display().to_string())?;
    }
    let changed = measured.changed();
    ensure!(
        changed == 0,
        "{changed} messages did not come back as they were sent: a slower clock (--clock), \
         shorter wires?"
    );
    Ok(())
}

fn measure(
    args: &Args,
    board: &Board,
    what: &Payload,
    settings: Settings,
    lengths: &[usize],
    stop: &AtomicBool,
) -> Result<Measured> {
    let threads = args.threads as usize;
    let methods = Methods::open(&args.device, board, what, settings, threads)?;
    let tried = lengths.iter().map(|&length| methods.try_out(length));
    let mut tried = tried.collect::<Result<Vec<_>>>()?;

    let part = |methods: &[Method], threads, length| -> Result<Vec<Row>> {
        let new = |&method| Row::new(method, threads, length);
        methods.iter().map(new).collect()
    };
    let alone = |&length| part(&[Method::Spidev, Method::Caller], 1, length);
    let mut parts = lengths.iter().map(alone).collect::<Result<Vec<_>>>()?;
    if threads > 1 {
        let all = [Method::Spidev, Method::Mutex, Method::Caller];
        parts.push(part(&all, threads, lengths[0])?);
    }
    note(format_args!(
        "measuring for {} s or a little more",
        parts.iter().flatten().count() as u64 * u64::from(args.seconds)
    ));

    let span = Duration::from_secs(args.seconds.into()) / ROUNDS;
    methods.beside_worker(|| -> Result<()> {
        for part in &mut parts {
            for _ in 0..ROUNDS {
                for row in &mut *part {
                    methods.round(row, span, stop)?;
                    let is_stopped = stop.load(Ordering::Relaxed);
                    ensure!(!is_stopped, "interrupted; the device is set as it was");
                }
            }
        }
        Ok(())
    })?;
    Ok(Measured {
        clock: settings.clock,
        rows: parts.into_iter().flatten().collect(),
        answer: tried.swap_remove(0),
        ours: methods.bus.statistics(),
        has_worker: methods.worker.is_some(),
    })
}

impl Args {
    fn what(&self) -> Option<Payload> {
        let loopback = self.loopback.then_some(Payload::Loopback);
        self.send.clone().or(loopback)
    }

    /// The device's, as far as nothing else was asked for.
    fn settings(&self, set: &Set) -> Result<Settings> {
        let has = |flag| set.mode.contains(flag);
        let clock = self.clock.unwrap_or(set.clock);
        ensure!(
            clock > 0,
            "Linux knows no clock for this device: give one with --clock"
        );
        let has_no_select = self.no_cs || has(SpiModeFlags::SPI_NO_CS);
        let select = match (has_no_select, has(SpiModeFlags::SPI_CS_HIGH)) {
            (true, _) => Select::None,
            (false, true) => Select::Line(0, Polarity::ActiveHigh),
            (false, false) => Select::Line(0, Polarity::ActiveLow),
        };
        let mode = self.mode.map_or(set.mode.bits() & 3, u32::from);
        let mut settings = Settings::new(clock, 0).select(select);
        settings.mode = [MODE_0, MODE_1, MODE_2, MODE_3][mode as usize];
        if has(SpiModeFlags::SPI_LSB_FIRST) {
            settings.order = BitOrder::LsbFirst;
        }
        ensure!(
            !has(SpiModeFlags::SPI_3WIRE),
            "the device has one wire for both directions, and a message here goes both ways"
        );
        Ok(settings)
    }

    /// Returns the lengths of the messages, the shortest first.
    fn lengths(&self, what: &Payload, bufsiz: usize) -> Result<Vec<usize>> {
        let least = what.least();
        let mut lengths: Vec<usize> = self.bytes.iter().map(|&length| length as usize).collect();
        if lengths.is_empty() {
            let usual = LENGTHS.map(|length| length.max(least).min(bufsiz));
            lengths.extend(usual.into_iter().chain([bufsiz]));
        }
        lengths.sort_unstable();
        lengths.dedup();
        let in_range = |length: &usize| (least..=bufsiz).contains(length);
        ensure!(
            lengths.iter().all(in_range),
            "messages are of {least} (as --send says) to {bufsiz} bytes (spidev's bufsiz)"
        );
        Ok(lengths)
    }
}

fn open(path: &Path) -> Result<Spidev> {
    Spidev::open(path).map_err(|error| {
        let name = shown(path);
        match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => anyhow!(
                "{name}: {error}: run it as root, or become a member of the file's group \
                 (ls -l {name})"
            ),
            Some(libc::ENXIO | libc::ENODEV) => {
                anyhow!("{name}: {error}: the device was taken from spidev")
            }
            _ => anyhow!("{name}: {error}"),
        }
    })
}

/// Set when we are to end: the message under way is finished, and the mode set back. A
/// second time ends us at once.
fn stops_politely() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Sets the mode back, which would outlast us.
struct AsItWas {
    file: Spidev,
    mode: SpiModeFlags,
}

impl Drop for AsItWas {
    fn drop(&mut self) {
        let is = Set::of(&self.file).map(|set| set.mode);
        // A device that is gone needs nothing.
        if is.is_ok_and(|is| is != self.mode) {
            let options = SpidevOptions::new().mode(self.mode).build();
            if let Err(error) = self.file.configure(&options) {
                output::error(format_args!("the mode could not be set back: {error}"));
            }
        }
    }
}

/// `500k`, `10M`, `1000000`.
fn hertz(text: &str) -> Result<u32, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'M') => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    let number = digits.parse::<u32>().ok();
    number
        .and_then(|number| number.checked_mul(unit))
        .filter(|&hertz| hertz > 0 && !digits.starts_with('+'))
        .ok_or_else(|| "not a clock in hertz: 10000000, 500k, 10M".to_owned())
}

#[cfg(test)]
mod tests;

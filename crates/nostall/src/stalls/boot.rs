//! The console's cost at boot: kernel parameters that record it, and the report afterwards.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;

use anyhow::{Context, Result};
use nostall_figures::numbers::grouped;
use nostall_tracefile::model::Source;
use nostall_tracefile::read::open_text;
use rustix::fs::OFlags;

use super::paths::{GROUP, PATHS, RETURN};
use super::tracefs::{self, Tracefs};
use super::wrap::wrapped;

/// Size of each CPU's ring during the boot.
const RING: &str = "4M";

/// Register with the third argument of a function. `$arg3` would need quoting in a boot loader.
const THIRD: &str = match cfg!(target_arch = "aarch64") {
    true => "%x2",
    false => "%dx",
};

/// Returns whether this boot recorded.
pub fn is_recorded() -> bool {
    let line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    line.contains(&format!("{GROUP}/"))
}

/// Returns the kernel parameters that record the console from boot on.
pub fn parameters() -> String {
    let symbols = tracefs::symbols();
    let paths = PATHS.iter().filter(|path| path.name.starts_with("console"));
    let functions = paths.flat_map(|path| path.functions);
    let probes: Vec<_> = functions
        .filter(|function| symbols.contains(function.name))
        .map(|function| {
            let name = function.name;
            let bytes = match function.bytes {
                "$arg3" => format!(",bytes={THIRD}:u32"),
                _ => String::new(),
            };
            format!("p:{GROUP}/{name},{name}{bytes};r:{GROUP}/{name}{RETURN},{name}")
        })
        .collect();
    format!(
        "trace_buf_size={RING} trace_event=initcall:initcall_start,initcall:initcall_finish \
         \"kprobe_event={}\"",
        probes.join(";")
    )
}

/// Writes the parameters and how they are used.
///
/// # Errors
///
/// Errors of `out`.
pub fn explain(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}\n", parameters())?;
    wrapped(
        out,
        0,
        "Add these parameters to the kernel's command line, for one boot, and run `nostall stalls \
         --boot` after it. They need Linux 5.1 or newer with CONFIG_KPROBE_EVENTS. The report \
         names the moment from which the kernel recorded: what was printed before is calculated \
         from the log and the baud rate. `nostall stalls --clean` removes the probes.",
    )
}

/// The recording of this boot, and what the log says of it.
pub struct Boot {
    /// Time at which the kernel started the first program, in nanoseconds.
    pub init: Option<u64>,
    /// Time and length of each record of the log, with its level.
    log: Vec<(u64, usize, u8)>,
}

impl Boot {
    /// Reads the log and the kernel's ring, without taking records out of them.
    ///
    /// # Errors
    ///
    /// If there is no tracefs, or it may not be read.
    pub fn read(tracefs: &Tracefs) -> Result<(Self, impl Source + use<>)> {
        let mut copy = tempfile::tempfile().context("a temporary file")?;
        let path = tracefs.path("trace");
        let mut trace = File::open(&path).with_context(|| format!("{}", path.display()))?;
        let length = io::copy(&mut trace, &mut copy).context("copying the trace")?;
        copy.rewind()?;
        let log = kmsg();
        let init = log
            .iter()
            .find(|(_, _, text)| text.starts_with("Run ") && text.ends_with(" as init process"));
        let boot = Self {
            init: init.map(|(time, ..)| *time),
            log: log
                .into_iter()
                .map(|(time, level, text)| (time, text.len(), level))
                .collect(),
        };
        Ok((boot, open_text(io::BufReader::new(copy), length)))
    }

    /// Describes the log until `armed`, the first event, which the recording does not have.
    pub fn before(&self, armed: u64) -> String {
        /// Bytes of a line's time stamp and end.
        const FRAME: usize = "[    0.000000] \r\n".len();
        let line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
        let most = loglevel(&line);
        let early = self
            .log
            .iter()
            .filter(|(time, _, level)| *time < armed && *level < most);
        let bytes: usize = early.map(|(_, length, _)| length + FRAME).sum();
        let armed = armed as f64 / 1e9;
        match baud(&line) {
            Some(baud) => format!(
                "The first event was at {armed:.3} s. Calculated, not measured: the log before it \
                 has {} bytes, which take {:.2} s at {} baud, unless the port is emulated.",
                grouped(bytes),
                bytes as f64 * 10.0 / f64::from(baud),
                grouped(baud)
            ),
            None => format!(
                "The first event was at {armed:.3} s. The log before it has {} bytes; no \
                 console on the command line has a baud rate.",
                grouped(bytes)
            ),
        }
    }
}

/// Returns time in nanoseconds, level and text of the log's records; none if it may not be read.
fn kmsg() -> Vec<(u64, u8, String)> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    let kmsg = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open("/dev/kmsg");
    let Ok(mut kmsg) = kmsg else {
        return Vec::new();
    };
    let mut records = Vec::new();
    let mut record = [0; 8192];
    loop {
        let read = match kmsg.read(&mut record) {
            Ok(read) if read > 0 => read,
            // A record was overwritten before it was read.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => continue,
            _ => return records,
        };
        let text = String::from_utf8_lossy(&record[..read]);
        records.extend(text.lines().next().and_then(kmsg_line));
    }
}

fn kmsg_line(line: &str) -> Option<(u64, u8, String)> {
    let (prefix, text) = line.split_once(';')?;
    let mut numbers = prefix.split(',');
    let priority: u64 = numbers.next()?.parse().ok()?;
    let micros: u64 = numbers.nth(1)?.parse().ok()?;
    Some((
        micros.saturating_mul(1000),
        (priority & 7) as u8,
        text.to_owned(),
    ))
}

/// Returns the level below which records were printed at boot.
fn loglevel(line: &str) -> u8 {
    let mut level = 7;
    for word in line.split_whitespace() {
        level = match word {
            "quiet" => 4,
            "debug" => 10,
            "ignore_loglevel" => return u8::MAX,
            _ => {
                let given = word.strip_prefix("loglevel=");
                given.and_then(|given| given.parse().ok()).unwrap_or(level)
            }
        };
    }
    level
}

/// Returns the baud rate of the last serial console with one.
fn baud(line: &str) -> Option<u32> {
    let words = line.split_whitespace().rev();
    let mut options = words.filter_map(|word| word.strip_prefix("console=tty")?.split_once(','));
    options.find_map(|(_, options)| {
        let end = options.find(|c: char| !c.is_ascii_digit());
        options[..end.unwrap_or(options.len())]
            .parse()
            .ok()
            .filter(|&baud| baud > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_has_level_and_rate() {
        assert_eq!(loglevel("quiet console=ttyS0"), 4);
        assert_eq!(loglevel("quiet loglevel=6"), 6);
        assert_eq!(loglevel(""), 7);
        assert_eq!(baud("console=tty0 console=ttyS0,115200n8"), Some(115_200));
        assert_eq!(baud("console=ttyS0,9600 console=ttyS1"), Some(9600));
        assert_eq!(baud("console=ttyS0"), None);
    }

    #[test]
    fn a_line_of_the_log_has_time_level_and_text() {
        let line = "6,339,5140900,-;Run /init as init process";
        let expected = (5_140_900_000, 6, "Run /init as init process".to_owned());
        assert_eq!(kmsg_line(line), Some(expected));
        assert_eq!(kmsg_line(" DEVICE=+pci:0000"), None);
    }
}

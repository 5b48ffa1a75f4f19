//! The console's cost at boot: kernel parameters that record it, and the report afterwards.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek};
use std::os::unix::fs::OpenOptionsExt;

use anyhow::{Context, Result};
use nostall_figures::numbers::grouped;
use nostall_figures::table::percent;
use nostall_tracefile::model::Source;
use nostall_tracefile::read::open_text;
use rustix::fs::OFlags;

use super::check::line::Line;
use super::check::machine::Machine;
use super::check::system::System;
use super::paths::{GROUP, PATHS, RETURN};
use super::tracefs::{Change, Tracefs};
use super::wrap::wrap;

/// Size of each CPU's ring during the boot.
const RING: &str = "4M";

/// Register with the third argument of a function. `$arg3` would need quoting in a boot loader.
const THIRD: &str = match cfg!(target_arch = "aarch64") {
    true => "%x2",
    false => "%dx",
};

fn command_line() -> String {
    fs::read_to_string("/proc/cmdline").unwrap_or_default()
}

/// Returns whether this boot recorded.
pub fn is_recorded() -> bool {
    command_line().contains(&format!("{GROUP}/"))
}

/// Returns the change that switches off the events of the kernel parameters.
pub fn initcalls_off(tracefs: &Tracefs) -> Change {
    Change::Set(tracefs.path("events/initcall/enable"), "0".to_owned())
}

/// Returns the kernel parameters that record the console from boot on.
fn parameters() -> String {
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let names = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2));
    let names: HashSet<_> = names.collect();
    let paths = PATHS.iter().filter(|path| path.name.starts_with("console"));
    let functions = paths.flat_map(|path| path.functions);
    let probes: Vec<_> = functions
        .filter(|function| names.contains(function.name))
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

/// Returns the parameters and how they are used.
pub fn explain() -> String {
    let mut text = parameters() + "\n\n";
    for paragraph in [
        "Add these parameters to the kernel's command line, for one boot, and run `nostall stalls \
         --boot` after it. In Debian's /etc/default/grub they stand inside single quotes, as in \
         GRUB_CMDLINE_LINUX='...', and `update-grub` follows.",
        "They need Linux 5.1 or newer with CONFIG_KPROBE_EVENTS. The report names the moment from \
         which the kernel recorded: what was printed before is calculated from the log and the \
         baud rate. `nostall stalls --clean` removes the probes until the next boot.",
    ] {
        wrap(&mut text, 0, 0, paragraph);
    }
    text
}

/// The recording of this boot, and what the log says of it.
pub struct Boot {
    /// Time at which the kernel started the first program, in nanoseconds.
    pub init: Option<u64>,
    /// Time, level and text of each record of the log.
    log: Vec<(u64, u8, String)>,
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
            .find(|(_, _, text)| text.starts_with("Run ") && text.ends_with(" as init process"))
            .map(|(time, ..)| *time);
        let source = open_text(io::BufReader::new(copy), length);
        Ok((Self { init, log }, source))
    }

    /// Describes the log until `armed`, the first event, which the recording does not have. Tasks
    /// `printed` for that time from then until the first program started.
    pub fn notes(&self, armed: u64, printed: u64) -> Vec<String> {
        /// Bytes of a line's time stamp and end.
        const FRAME: usize = "[    0.000000] \r\n".len();
        let most = loglevel(&command_line());
        let early = self.log.iter();
        let early = early.filter(|(time, level, _)| *time < armed && *level < most);
        let bytes: usize = early.map(|(_, _, text)| text.len() + FRAME).sum();
        let machine = Machine::new(&System::new("/"));
        let line = Line::named(&machine);
        let cost = match line {
            Some(line) => format!(
                "take {:.2} s at {} baud, unless the port is emulated",
                line.nanoseconds(bytes as u64) as f64 / 1e9,
                grouped(line.baud)
            ),
            None => "have no known time: no console on the command line has a baud rate".to_owned(),
        };
        let seconds = |ns: u64| ns as f64 / 1e9;
        let mut notes = vec![format!(
            "The first event was at {:.3} s. Calculated, not measured: the {} bytes of the log \
             before it {cost}.",
            seconds(armed),
            grouped(bytes)
        )];
        if let Some(init) = self.init.filter(|init| *init > armed) {
            notes.push(format!(
                "From then until the first program started, at {:.3} s, tasks printed for {:.3} s: \
                 {} of that part of the boot.",
                seconds(init),
                seconds(printed),
                percent(printed as f64 / (init - armed) as f64)
            ));
        }
        notes
    }
}

/// Returns time in nanoseconds, level and text of the log's records; none if it may not be read.
fn kmsg() -> Vec<(u64, u8, String)> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    let mut options = OpenOptions::new();
    let Ok(mut kmsg) = options.read(true).custom_flags(flags).open("/dev/kmsg") else {
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
    let time = micros.saturating_mul(1000);
    Some((time, (priority & 7) as u8, text.to_owned()))
}

/// Returns the level below which records were printed at boot.
fn loglevel(line: &str) -> u8 {
    let mut level = 7;
    for word in line.split_whitespace() {
        let given = word.strip_prefix("loglevel=");
        level = match word {
            "quiet" => 4,
            "debug" => 10,
            "ignore_loglevel" => return u8::MAX,
            _ => given.and_then(|given| given.parse().ok()).unwrap_or(level),
        };
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_has_the_level() {
        assert_eq!(loglevel("quiet console=ttyS0"), 4);
        assert_eq!(loglevel("quiet loglevel=6"), 6);
        assert_eq!(loglevel(""), 7);
    }

    #[test]
    fn a_line_of_the_log_has_time_level_and_text() {
        let line = "6,339,5140900,-;Run /init as init process";
        let expected = (5_140_900_000, 6, "Run /init as init process".to_owned());
        assert_eq!(kmsg_line(line), Some(expected));
        assert_eq!(kmsg_line(" DEVICE=+pci:0000"), None);
    }
}

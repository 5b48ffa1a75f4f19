//! Guests of a machine, their failures and their results.

use std::ffi::OsString;
use std::fmt;
use std::time::{Duration, Instant};

use nostall_work::{Job, LONGEST_REPORT};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::exits::{ExitLog, Exits};
use crate::qemu::Drive;
use crate::{Error, GuestRam};

/// Bytes that QEMU may say itself: a warning or two, or a short trace.
pub(crate) const QEMU_BYTES: u64 = 16 << 20;

/// Time between two checks of a run. A check also hands over the writes that KVM collected: well
/// within the 10 ms that are promised.
pub(crate) const LOOK: Duration = Duration::from_millis(2);

/// Bytes of RAM besides the input's.
const RAM_BESIDES_INPUT: u64 = 128 << 20;

/// Exit status after a write to QEMU's `isa-debug-exit`, or to its replacement elsewhere: 2n + 1
/// for a written n.
pub(crate) const SUCCESS: i32 = 2 * 0x10 + 1;
pub(crate) const FAILURE: i32 = 2 * 0x11 + 1;

/// A guest's report, whose result is of no type yet: [`Ran::told`] gives it the experiment's.
pub type Report = nostall_work::Report<Value>;

/// One item of a guest's work list, made from a [`Job`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work(String);

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<J: Job> From<J> for Work {
    fn from(job: J) -> Self {
        let words = job.to_string();
        Self(match &*words {
            "" => J::NAME.to_owned(),
            words => format!("{}:{words}", J::NAME),
        })
    }
}

/// Guest to be run in a machine.
#[derive(Clone, Copy)]
pub struct Guest<'a> {
    /// The kernel, an ELF file: on a PC one with a PVH entry, on RISC-V one that is entered
    /// at its lowest address.
    pub kernel: &'a [u8],
    /// CPUs that run it: 1 to 64, on sifive_u to 4.
    pub cpus: u16,
    /// The work, in order.
    pub work: &'a [Work],
    /// How often all of it is to be done.
    pub repeat: u16,
    /// Input of the work: the text to send.
    pub input: &'a [u8],
    /// Its RAM, if that is to outlive it; else it has its own, of as much as the
    /// input needs.
    pub ram: Option<&'a GuestRam>,
    /// Devices behind its SPI controllers; QEMU's `sifive_u` alone has any. One of a kind at most.
    pub drives: &'a [Drive<'a>],
    /// Further arguments for QEMU; other machines ignore them. With an accelerator among them, ours
    /// is left out.
    pub qemu_args: &'a [OsString],
}

impl<'a> Guest<'a> {
    /// A guest on `cpus` CPUs, with nothing to do, and nothing but its kernel.
    pub const fn new(kernel: &'a [u8], cpus: u16) -> Self {
        Self {
            kernel,
            cpus,
            work: &[],
            repeat: 1,
            input: &[],
            ram: None,
            drives: &[],
            qemu_args: &[],
        }
    }
}

impl Guest<'_> {
    /// The words of its command line: CPUs, repetitions, work.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = vec![
            format!("cpus={}", self.cpus),
            format!("repeat={}", self.repeat),
        ];
        words.extend(self.work.iter().map(Work::to_string));
        words
    }

    /// MiB of its RAM.
    pub(crate) fn mebibytes(&self) -> u64 {
        self.ram
            .map_or(RAM_BESIDES_INPUT + self.input.len() as u64, GuestRam::size)
            .div_ceil(1 << 20)
    }
}

/// When a run has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Until the first report. Our kernel takes a fraction of a second, a busy
    /// machine many times that.
    pub start: Duration,
    /// Without a byte on any channel, after that.
    pub silence: Duration,
    /// Longest duration of the whole run.
    pub total: Duration,
    /// Bytes on the serial line.
    pub serial_bytes: u64,
    /// Bytes of reports.
    pub report_bytes: u64,
    /// Bytes that QEMU says itself; no other machine does.
    pub qemu_bytes: u64,
}

impl Limits {
    /// For a guest that does `pieces` pieces of work and sends `serial_bytes` in
    /// all.
    pub fn of(pieces: u64, serial_bytes: u64) -> Self {
        Self {
            start: Duration::from_secs(20),
            silence: Duration::from_secs(20),
            // An emulated port takes about 1 us a byte; a slow one has 50.
            total: Duration::from_secs(60) + Duration::from_micros(serial_bytes.saturating_mul(50)),
            serial_bytes,
            report_bytes: (pieces + 4) * LONGEST_REPORT as u64,
            qemu_bytes: QEMU_BYTES,
        }
    }

    /// Whether so much may have come over the serial line and the report channel.
    pub(crate) fn check_bytes(&self, (serial, reports): (u64, u64)) -> Result<(), Error> {
        if serial > self.serial_bytes {
            Err(Error::Flood(self.serial_bytes))
        } else if reports > self.report_bytes {
            Err(Error::ReportFlood(self.report_bytes))
        } else {
            Ok(())
        }
    }

    /// Whether a run may go on that began at `start` and from which something came
    /// last at `changed`.
    pub(crate) fn check_time(
        &self,
        start: Instant,
        changed: Instant,
        started: bool,
    ) -> Result<(), Error> {
        if !started && start.elapsed() > self.start {
            Err(Error::NeverStarted(self.start))
        } else if started && changed.elapsed() > self.silence {
            Err(Error::Hung(self.silence))
        } else if start.elapsed() > self.total {
            Err(Error::TooLong(self.total))
        } else {
            Ok(())
        }
    }
}

/// A run that came to its end.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The guest's reports, in order.
    pub reports: Vec<Report>,
    /// Bytes that arrived at the serial line's other end.
    pub serial: Vec<u8>,
    /// From the machine's start to the first report.
    pub first_report: Duration,
    /// VM exits; `None` if the machine cannot count them.
    pub exits: Option<ExitLog>,
}

impl Ran {
    /// Returns the jobs' results, in order, each with its job's place in the work list.
    ///
    /// All jobs must be of the experiment that `T` belongs to.
    ///
    /// # Errors
    ///
    /// [`Error::NotAReport`] if a result is not a `T`.
    pub fn told<T: DeserializeOwned>(&self) -> Result<Vec<(usize, T)>, Error> {
        let all = self.told_with_exits()?;
        Ok(all
            .into_iter()
            .map(|(item, told, _)| (item, told))
            .collect())
    }

    /// Returns the same, each with the VM exits since the report before it; `None` if the
    /// machine cannot count them.
    ///
    /// # Errors
    ///
    /// As [`told`](Self::told).
    pub fn told_with_exits<T: DeserializeOwned>(
        &self,
    ) -> Result<Vec<(usize, T, Option<Exits>)>, Error> {
        let exits = |n| self.exits.as_ref()?.before_report.get(n).copied();
        let results = self.reports.iter().enumerate().filter_map(|(n, report)| {
            let Report::Told { item, told } = report else {
                return None;
            };
            let told = T::deserialize(told).map_err(|_| not_a_report(&told.to_string()));
            Some(told.map(|told| (usize::from(*item), told, exits(n))))
        });
        results.collect()
    }
}

/// How a guest is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With all of its work done.
    Done,
    /// With a panic.
    Panic,
}

impl Ending {
    /// Whether a guest that left with `status` (see [`SUCCESS`]) and these reports
    /// ended so.
    pub(crate) fn judge(self, status: i32, reports: &[Report]) -> Result<(), Error> {
        match (self, status, reports.last()) {
            (Self::Done, SUCCESS, Some(Report::Done))
            | (Self::Panic, FAILURE, Some(Report::Panic { .. })) => Ok(()),
            (Self::Panic, SUCCESS, Some(Report::Done)) => Err(Error::Unbroken),
            (_, _, last) => Err(last.and_then(failure).map_or(Error::Undone, Error::Guest)),
        }
    }
}

/// The reports of `lines`.
pub(crate) fn reports(lines: &[u8]) -> Result<Vec<Report>, Error> {
    lines
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            serde_json::from_slice(line).map_err(|_| not_a_report(&String::from_utf8_lossy(line)))
        })
        .collect()
}

fn not_a_report(line: &str) -> Error {
    Error::NotAReport(line.chars().take(200).collect())
}

/// Returns the guest's report of its own failure, for the user.
fn failure(report: &Report) -> Option<String> {
    match report {
        Report::Panic { cpu, message } => Some(format!("panic on CPU {cpu}: {message}")),
        Report::Exception {
            cpu,
            vector,
            name,
            error,
            pc,
            sp,
            address,
        } => Some(format!(
            "exception {vector} on CPU {cpu}: {name} \
             (pc {pc:#x}, sp {sp:#x}, address {address:#x}, error {error:#x})"
        )),
        _ => None,
    }
}

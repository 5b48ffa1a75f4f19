//! Guests of a machine, their limits and results.

use std::ffi::OsString;
use std::fmt;
use std::time::{Duration, Instant};

use nostall_work::{Job, LONGEST_REPORT};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::exits::{ExitLog, Exits};
use crate::process::MemoryFile;
use crate::{Error, GuestRam};

/// Limit for QEMU's own output in bytes: enough for warnings or a short trace.
pub(crate) const QEMU_BYTES: u64 = 16 << 20;

/// Interval between checks of a run. Each check also drains the writes that KVM collected, well
/// within the promised 10 ms.
pub(crate) const LOOK: Duration = Duration::from_millis(2);

/// RAM in bytes that a guest gets in addition to its input.
const RAM_BESIDES_INPUT: u64 = 128 << 20;

/// Exit statuses after a write of 0x10 or 0x11 to QEMU's `isa-debug-exit`, or its equivalent on
/// other machines: 2n + 1 for a written n.
pub(crate) const SUCCESS: i32 = 2 * 0x10 + 1;
pub(crate) const FAILURE: i32 = 2 * 0x11 + 1;

/// A guest's report with an untyped result: [`GuestRun::results`] converts it to the experiment's
/// type.
pub type Report = nostall_work::Report<Value>;

/// One item of a guest's work list; converted from a [`Job`].
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

/// Size of the flash in bytes: 256 Mibit.
pub const FLASH_BYTES: u64 = 32 << 20;

/// Guest to run on a machine.
#[derive(Clone, Copy)]
pub struct Guest<'a> {
    /// Kernel as an ELF file. A PC's kernel has a PVH entry; a RISC-V kernel starts at its lowest
    /// address, an Arm kernel at its ELF entry.
    pub kernel: &'a [u8],
    /// Number of CPUs that run the guest: 1 to 64, on sifive_u 1 to 4, on KVM 1.
    pub cpus: u16,
    /// Work items in order.
    pub work: &'a [Work],
    /// Number of times that the whole work list is done.
    pub repeat: u16,
    /// Input for the work: the text to send.
    pub input: &'a [u8],
    /// RAM that outlives the guest. With `None`, the guest gets RAM of its own, sized for its
    /// input.
    pub ram: Option<&'a GuestRam>,
    /// Flash on the first SPI controller of QEMU's `sifive_u`, an is25wp256 with [`FLASH_BYTES`]. The
    /// file contains the guest's writes after the run.
    pub flash: Option<&'a MemoryFile>,
    /// Additional arguments for QEMU; other machines ignore them. An accelerator among them
    /// replaces the default.
    pub qemu_args: &'a [OsString],
}

impl<'a> Guest<'a> {
    /// Creates a guest without work or input.
    pub const fn new(kernel: &'a [u8], cpus: u16) -> Self {
        Self {
            kernel,
            cpus,
            work: &[],
            repeat: 1,
            input: &[],
            ram: None,
            flash: None,
            qemu_args: &[],
        }
    }
}

impl Guest<'_> {
    /// Returns the words of the command line: CPUs, repetitions, work.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = vec![
            format!("cpus={}", self.cpus),
            format!("repeat={}", self.repeat),
        ];
        words.extend(self.work.iter().map(Work::to_string));
        words
    }

    /// Returns the size of the RAM in MiB.
    pub(crate) fn mebibytes(&self) -> u64 {
        self.ram
            .map_or(RAM_BESIDES_INPUT + self.input.len() as u64, GuestRam::size)
            .div_ceil(1 << 20)
    }
}

/// Limits of a run. A run that exceeds one fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time until the first report. The kernel takes a fraction of a second, a busy host many times
    /// that.
    pub start: Duration,
    /// Time after the first report without a byte on any channel.
    pub silence: Duration,
    /// Longest duration of the whole run.
    pub total: Duration,
    /// Number of bytes on the serial line.
    pub serial_bytes: u64,
    /// Number of bytes of reports.
    pub report_bytes: u64,
    /// Number of bytes of QEMU's own output; ignored on other machines.
    pub qemu_bytes: u64,
}

impl Limits {
    /// Returns the usual limits for a guest that does `pieces` work items and sends `serial_bytes`
    /// bytes in all.
    pub fn of(pieces: u64, serial_bytes: u64) -> Self {
        Self {
            start: Duration::from_secs(20),
            silence: Duration::from_secs(20),
            // The silence ends a guest that hangs, and the bytes one that goes on for ever. The longest
            // run takes half a minute, and several times that beside other work. An emulated port
            // takes about 1 us per byte, a slow one 50 us.
            total: Duration::from_secs(300)
                + Duration::from_micros(serial_bytes.saturating_mul(50)),
            serial_bytes,
            report_bytes: (pieces + 4) * LONGEST_REPORT as u64,
            qemu_bytes: QEMU_BYTES,
        }
    }

    /// Checks the byte counts of the serial line and the report channel.
    pub(crate) fn check_bytes(&self, (serial, reports): (u64, u64)) -> Result<(), Error> {
        if serial > self.serial_bytes {
            Err(Error::Flood(self.serial_bytes))
        } else if reports > self.report_bytes {
            Err(Error::ReportFlood(self.report_bytes))
        } else {
            Ok(())
        }
    }

    /// Checks the time limits of a run that started at `start` and last sent a byte at `changed`.
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

/// Result of a run that ended as intended.
#[derive(Clone, Debug)]
pub struct GuestRun {
    /// The guest's reports, in order.
    pub reports: Vec<Report>,
    /// Bytes received from the serial line.
    pub serial: Vec<u8>,
    /// Time from the machine's start to the first report.
    pub first_report: Duration,
    /// VM exits; `None` if the machine cannot count them.
    pub exits: Option<ExitLog>,
}

impl GuestRun {
    /// Returns the jobs' results in order, each with its job's index in the work list.
    ///
    /// All jobs must belong to the experiment with the result type `T`.
    ///
    /// # Errors
    ///
    /// [`Error::NotAReport`] if a result is not a `T`.
    pub fn results<T: DeserializeOwned>(&self) -> Result<Vec<(usize, T)>, Error> {
        let all = self.results_with_exits()?;
        Ok(all
            .into_iter()
            .map(|(item, result, _)| (item, result))
            .collect())
    }

    /// Returns the jobs' results like [`results`](Self::results), each with the VM exits since the
    /// previous report. They are `None` if the machine cannot count exits.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`results`](Self::results).
    pub fn results_with_exits<T: DeserializeOwned>(
        &self,
    ) -> Result<Vec<(usize, T, Option<Exits>)>, Error> {
        let exits = |n| self.exits.as_ref()?.before_report.get(n).copied();
        let results = self.reports.iter().enumerate().filter_map(|(n, report)| {
            let Report::Result { item, result } = report else {
                return None;
            };
            let result = T::deserialize(result).map_err(|_| not_a_report(&result.to_string()));
            Some(result.map(|result| (usize::from(*item), result, exits(n))))
        });
        results.collect()
    }
}

/// Intended end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All work done.
    Done,
    /// A panic.
    Panic,
}

impl Ending {
    /// Checks that a guest with exit status `status` (see [`SUCCESS`]) and these reports ended as
    /// intended.
    pub(crate) fn judge(self, status: i32, reports: &[Report]) -> Result<(), Error> {
        match (self, status, reports.last()) {
            (Self::Done, SUCCESS, Some(Report::Done))
            | (Self::Panic, FAILURE, Some(Report::Panic { .. })) => Ok(()),
            (Self::Panic, SUCCESS, Some(Report::Done)) => Err(Error::Unbroken),
            (_, _, last) => Err(last.and_then(failure).map_or(Error::Undone, Error::Guest)),
        }
    }
}

/// Parses one report for each line.
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

/// Returns the text of a report of the guest's own failure.
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

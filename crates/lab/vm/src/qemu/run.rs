//! A watched run of a guest in QEMU.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use nostall_work::FIRMWARE_DONE;

use super::board::QemuBoard;
use super::command::{command, daemonizes};
use super::files::Files;
use super::program_output::{last_words, only_warned};
use super::version::{self, version};
use crate::Error;
use crate::guest::{self, Ending, FAILURE, Guest, GuestRun, LOOK, Limits, SUCCESS};
use crate::machine::Machine;
use crate::need::Need;
use crate::process::{Running, spawn};

/// An installed QEMU for one board.
#[derive(Clone, Debug)]
pub struct Qemu {
    board: QemuBoard,
    version: String,
}

impl Qemu {
    /// Finds the system's QEMU for `board`.
    ///
    /// # Errors
    ///
    /// [`Error::NotInstalled`] if there is none. [`Error::Qemu`] or [`Error::NoVersion`] if it does
    /// not report its version.
    pub fn find(board: QemuBoard) -> Result<Self, Error> {
        let architecture = board.architecture();
        let version =
            version(architecture.program(), version::LIMIT).map_err(|error| match error {
                Error::System(error) if error.kind() == io::ErrorKind::NotFound => {
                    Error::NotInstalled(architecture)
                }
                error => error,
            })?;
        Ok(Self { board, version })
    }

    /// Returns QEMU's version, for example `7.2.22`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the emulated board.
    pub const fn board(&self) -> QemuBoard {
        self.board
    }
}

impl Machine for Qemu {
    fn describe(&self) -> String {
        format!("qemu {}, {}", self.version, self.board)
    }

    fn offers(&self, need: &Need<'_>) -> Result<(), Error> {
        self.board.offers(need)
    }

    fn run(
        &self,
        guest: &Guest<'_>,
        limits: &Limits,
        ending: Ending,
        progress: &mut dyn FnMut(u64),
    ) -> Result<GuestRun, Error> {
        if daemonizes(guest.qemu_args) {
            return Err(Error::Daemonize);
        }
        self.offers(&Need {
            devices: &[],
            cpus: guest.cpus,
        })?;
        let files = Files::new(guest)?;
        let qemu = spawn(command(self.board, guest, &files)?, &files.for_child(guest))?;
        let run = Run {
            board: self.board,
            qemu,
            files,
            limits,
            ending,
            start: Instant::now(),
        };
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| run.guard(&is_over));
            let _ends = SetOnDrop(&is_over);
            run.watch(progress)
        })
    }
}

struct Run<'a> {
    board: QemuBoard,
    qemu: Running,
    files: Files,
    limits: &'a Limits,
    ending: Ending,
    start: Instant,
}

/// Guard that sets a flag when dropped, also during a panic.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Run<'_> {
    /// Kills QEMU as soon as one of its files exceeds its limit. The files occupy the host's
    /// memory, and `progress` may block the watching thread for any time.
    fn guard(&self, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Acquire) {
            if self.sizes().and_then(|now| self.check_bytes(now)).is_err() {
                self.qemu.kill();
                return;
            }
            sleep(LOOK);
        }
    }

    /// Returns the number of bytes on the serial line, the firmware's included, and of reports.
    fn sizes(&self) -> Result<(u64, u64), Error> {
        Ok((self.files.serial.len()?, self.files.reports.len()?))
    }

    /// Watches the run until it ends or must be ended.
    fn watch(&self, progress: &mut dyn FnMut(u64)) -> Result<GuestRun, Error> {
        let mut first_report = None;
        let mut seen = (0, 0);
        let mut changed = self.start;
        loop {
            // The order matters: bytes that arrived before the end are then seen.
            let ended = self.qemu.ended()?;
            let now = self.sizes()?;
            if now != seen {
                (seen, changed) = (now, Instant::now());
                progress(now.0);
            }
            if now.1 > 0 && first_report.is_none() {
                first_report = Some(self.start.elapsed());
            }
            if let Some(status) = ended {
                if status.signal().is_some() {
                    // The guard has probably killed QEMU.
                    self.check_bytes(now)?;
                }
                return self.judge(status, first_report);
            }
            self.check_bytes(now)?;
            self.limits
                .check_time(self.start, changed, first_report.is_some())?;
            sleep(LOOK);
        }
    }

    fn check_bytes(&self, (serial, reports): (u64, u64)) -> Result<(), Error> {
        let firmware = self.board.firmware_bytes();
        let of_guest = serial.saturating_sub(firmware);
        self.limits.check_bytes((of_guest, reports))?;
        if self.files.said.len()? > self.limits.qemu_bytes {
            return Err(Error::QemuFlood(self.limits.qemu_bytes));
        }
        Ok(())
    }

    /// Returns the result of a run that ended without a kill.
    fn judge(&self, status: ExitStatus, first_report: Option<Duration>) -> Result<GuestRun, Error> {
        let reports = guest::reports(&self.files.reports.read_from(0, self.limits.report_bytes)?)?;
        match (status.code(), first_report) {
            (Some(code @ (SUCCESS | FAILURE)), first_report) => {
                self.ending.judge(code, &reports)?;
                let most = self.board.firmware_bytes() + self.limits.serial_bytes + 1;
                let serial = self.files.serial.read_from(0, most)?;
                let serial = after_firmware(serial);
                if serial.len() as u64 > self.limits.serial_bytes {
                    return Err(Error::Flood(self.limits.serial_bytes));
                }
                Ok(GuestRun {
                    reports,
                    serial,
                    first_report: first_report.unwrap_or_default(),
                    exits: None,
                })
            }
            // Without a report and without errors, QEMU may only have been asked for help.
            (Some(0), first_report) if first_report.is_some() || only_warned(&self.files.said)? => {
                Err(Error::Reset)
            }
            _ => {
                let said = last_words(&self.files.said)?;
                if lacks_firmware(&said) {
                    return Err(Error::NoFirmware(said));
                }
                Err(Error::Qemu { status, said })
            }
        }
    }
}

/// Returns whether this is QEMU's error about missing RISC-V firmware, up to version 7.2 or newer.
fn lacks_firmware(said: &str) -> bool {
    let words = [
        "Unable to load the RISC-V firmware",
        "Unable to find the RISC-V BIOS",
    ];
    words.iter().any(|words| said.contains(words))
}

/// Returns the serial bytes that follow the firmware's; all bytes if no firmware has written.
fn after_firmware(mut serial: Vec<u8>) -> Vec<u8> {
    let done = FIRMWARE_DONE.as_bytes();
    let mut places = serial.windows(done.len());
    if let Some(at) = places.position(|window| window == done) {
        serial.drain(..at + done.len());
    }
    serial
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_firmware_is_recognised_in_the_messages_of_each_qemu() {
        let name = "\"opensbi-riscv64-generic-fw_dynamic.bin\"";
        for words in ["load the RISC-V firmware", "find the RISC-V BIOS"] {
            let said = format!("qemu-system-riscv64: Unable to {words} {name}");
            assert!(lacks_firmware(&said), "{said}");
        }
        assert!(!lacks_firmware("Unable to load the kernel"));
    }
}

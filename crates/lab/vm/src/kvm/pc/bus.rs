//! All of the machine that the guest can access, except RAM.

use std::sync::Arc;

use kvm_ioctls::VmFd;
use nostall_devices::uart::Output;

use super::exit::{End, Exit, Next};
use super::mapping::PAGE;
use super::pci::{At, PORTS, PciBus};
use super::ring::{self, CoalescedRing, CoalescedWrite, Place};
use super::serial::KvmSerial;
use super::statistics::KvmStatistics;
use crate::Error;
use crate::exits::{ExitLog, Exits, MapChanges};
use crate::guest::Limits;

/// Port of the report channel. Like QEMU's `isa-debugcon`, a read returns the port's number.
const REPORTS: u16 = 0xe9;

/// Port that ends the run, like QEMU's `isa-debug-exit`.
const END: u16 = 0xf4;

/// The PCI configuration port whose writes are collected.
const INDEX: Place = Place::Port(*PORTS.start());

/// Number of bytes that one exit or drain can still deliver to a full output. It is a string
/// instruction, which KVM splits at pages, and a full ring of single bytes.
const SLACK: usize = PAGE + ring::SIZE;

/// Creates the output for the serial line of a guest with these limits. It holds one byte more than
/// allowed, to detect a flood, plus the slack.
pub fn output(limits: &Limits) -> Output {
    Output::new(one_more_than(limits.serial_bytes), SLACK)
}

fn one_more_than(limit: u64) -> usize {
    usize::try_from(limit)
        .unwrap_or(usize::MAX)
        .saturating_add(1)
}

/// The devices, and the writes that KVM has collected for them.
pub struct KvmBus {
    vm: Arc<VmFd>,
    ring: Option<CoalescedRing>,
    statistics: Option<KvmStatistics>,
    pub serial: KvmSerial,
    pci: PciBus,
    pub reports: Vec<u8>,
    /// Number of report bytes to keep: one more than allowed, to detect a flood.
    keep: usize,
    pub exits: Exits,
    log: Log,
}

impl KvmBus {
    pub fn new(
        vm: Arc<VmFd>,
        ring: Option<CoalescedRing>,
        statistics: Option<KvmStatistics>,
        (serial, pci): (KvmSerial, PciBus),
        limits: &Limits,
    ) -> Self {
        Self {
            vm,
            ring,
            statistics,
            serial,
            pci,
            reports: Vec::new(),
            keep: one_more_than(limits.report_bytes),
            exits: Exits::default(),
            log: Log::default(),
        }
    }

    /// Returns whether the guest has to wait until its output is taken.
    pub fn is_full(&mut self) -> bool {
        self.serial.sent().is_full()
    }

    /// Handles one exit, after all writes that were collected before it.
    ///
    /// Every exit uses this function, so that a guest with a full output waits at any kind of exit.
    pub fn exit(&mut self, exit: Exit<'_>) -> Result<Next, Error> {
        self.drain()?;
        let next = match exit {
            Exit::Read { place, size, data } => self.read(place, size, data)?,
            Exit::Write { place, size, data } => self.write(place, size, data)?,
            Exit::Halt => {
                self.exits.halts += 1;
                Next::Rest
            }
            Exit::Other => {
                self.exits.others += 1;
                Next::GoOn
            }
        };
        Ok(match next {
            Next::GoOn | Next::Rest if self.is_full() => Next::Wait,
            next => next,
        })
    }

    /// Delivers the collected writes.
    fn drain(&mut self) -> Result<(), Error> {
        let Some(mut ring) = self.ring.take() else {
            return Ok(());
        };
        let done = ring.drain().try_for_each(|write| self.hand_over(&write));
        self.ring = Some(ring);
        done
    }

    fn hand_over(&mut self, write: &CoalescedWrite) -> Result<(), Error> {
        self.exits.collected += 1;
        let bytes = write.bytes();
        if let Some(register) = self.serial.register(write.place) {
            self.serial.write(register, bytes);
            self.serial.settle_collected(&self.vm)?;
        } else if write.place == INDEX && bytes.len() == 4 {
            self.pci.write(At::Port(0), bytes);
        } else {
            // KVM collects all writes within the index's four bytes. They caused no exit, so the
            // count is restored.
            let exits = self.exits;
            self.put(write.place, bytes.len(), bytes)?;
            self.exits = exits;
        }
        Ok(())
    }

    /// Handles events that are due without an access. The caller then checks the output.
    pub fn tend(&mut self) -> Result<(), Error> {
        self.drain()?;
        if self.serial.lost() > 0 {
            // The slack excludes this case. An output with a gap must not pass as complete.
            return Err(Error::Flood(self.serial.sent().bytes().len() as u64));
        }
        self.serial.settle_interrupt(&self.vm)
    }

    /// Sets up the accesses without exits before the guest starts.
    pub fn settle(&mut self) -> Result<(), Error> {
        self.serial.settle(&self.vm)?;
        self.log.maps_at_start = self.serial.maps() + self.pci.maps();
        Ok(())
    }

    fn read(&mut self, place: Place, size: usize, data: &mut [u8]) -> Result<Next, Error> {
        match place {
            Place::Port(_) => self.exits.port_reads += 1,
            Place::Memory(_) => self.exits.mmio_reads += 1,
        }
        if let Some(register) = self.serial.register(place) {
            self.exits.uart += 1;
            for item in data.chunks_mut(size.max(1)) {
                self.serial.read(register, item);
            }
            self.serial.settle(&self.vm)?;
        } else if let Some(at) = self.pci.find(place) {
            self.exits.pci += 1;
            for item in data.chunks_mut(size.max(1)) {
                self.pci.read(at, item);
            }
            self.pci.follow(&self.vm)?;
        } else {
            data.fill(match place {
                Place::Port(REPORTS) => REPORTS as u8,
                _ => !0,
            });
        }
        Ok(Next::GoOn)
    }

    fn write(&mut self, place: Place, size: usize, data: &[u8]) -> Result<Next, Error> {
        match place {
            Place::Port(_) => self.exits.port_writes += 1,
            Place::Memory(_) => self.exits.mmio_writes += 1,
        }
        self.put(place, size, data)
    }

    /// Writes `data` to the device at `place`.
    fn put(&mut self, place: Place, size: usize, data: &[u8]) -> Result<Next, Error> {
        if let Some(register) = self.serial.register(place) {
            self.exits.uart += 1;
            for item in data.chunks(size.max(1)) {
                self.serial.write(register, item);
            }
            self.serial.settle(&self.vm)?;
            return Ok(Next::GoOn);
        }
        if let Some(at) = self.pci.find(place) {
            self.exits.pci += 1;
            for item in data.chunks(size.max(1)) {
                self.pci.write(at, item);
            }
            self.pci.follow(&self.vm)?;
            return Ok(Next::GoOn);
        }
        match place {
            Place::Port(REPORTS) => self.report(data),
            Place::Port(END) => {
                let value = data
                    .iter()
                    .take(4)
                    .rev()
                    .fold(0, |n, &b| n << 8 | i32::from(b));
                let status = value.wrapping_mul(2).wrapping_add(1);
                return Ok(Next::End(End::Status(status)));
            }
            _ => {}
        }
        Ok(Next::GoOn)
    }

    fn report(&mut self, data: &[u8]) {
        for &byte in data {
            if self.reports.len() >= self.keep {
                return;
            }
            // An empty line is not a report.
            let begins = self.reports.last().is_none_or(|&last| last == b'\n');
            if begins && byte != b'\n' {
                self.log.report_begins(self.count());
            }
            self.reports.push(byte);
            if byte == b'\n' && !begins {
                self.log.reported = self.count();
            }
        }
    }

    /// Returns the exits so far.
    fn count(&self) -> Exits {
        let ports = self.exits.port_reads + self.exits.port_writes;
        let statistics = self.statistics.as_ref();
        Exits {
            hardware: statistics.and_then(|statistics| statistics.exits(ports)),
            maps: self.serial.maps() + self.pci.maps() - self.log.maps_at_start,
            ..self.exits
        }
    }

    /// Returns the exits of the run.
    pub fn exit_log(&mut self) -> ExitLog {
        ExitLog {
            total: self.count(),
            maps_at_start: self.log.maps_at_start,
            before_report: std::mem::take(&mut self.log.before_report),
        }
    }
}

/// Maximum number of reports with exit counts: far more than any experiment sends. It bounds the
/// memory for a guest that sends very short lines.
const MOST_REPORTS: usize = 1 << 16;

/// Exits between reports.
#[derive(Default)]
struct Log {
    before_report: Vec<Exits>,
    /// Exits when the last report was complete.
    reported: Exits,
    maps_at_start: MapChanges,
}

impl Log {
    /// Handles the first byte of a report. Before the first report, hardware exits count from 0.
    fn report_begins(&mut self, now: Exits) {
        if self.before_report.is_empty() {
            self.reported.hardware = now.hardware.map(|_| 0);
        }
        if self.before_report.len() < MOST_REPORTS {
            self.before_report.push(now - self.reported);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_short_reports_costs_no_more_than_their_bytes() {
        let mut log = Log::default();
        for _ in 0..MOST_REPORTS + 10 {
            log.report_begins(Exits::default());
        }
        assert_eq!(log.before_report.len(), MOST_REPORTS);
    }
}

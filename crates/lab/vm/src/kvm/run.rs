//! A watched run of a guest in KVM.

use std::thread::sleep;
use std::time::{Duration, Instant};

use kvm_ioctls::VcpuFd;
use nostall_work::Timer;

use super::offers;
use super::pc::{self, End, Kvm, KvmMachine, RunningMachine, boot, devices, identify, stuck};
use crate::Error;
use crate::guest::{self, Ending, Guest, GuestRun, LOOK, Limits};
use crate::machine::Machine;
use crate::need::Need;

/// While `progress` runs, collected writes are only drained at exits.
///
/// The signal SIGRTMIN stops the CPU. Its handler has no effect and stays installed for the whole
/// process.
impl Machine for Kvm {
    fn describe(&self) -> String {
        format!("kvm, {}", self.options().uart)
    }

    fn offers(&self, need: &Need<'_>) -> Result<(), Error> {
        offers(need)
    }

    fn run(
        &self,
        guest: &Guest<'_>,
        limits: &Limits,
        ending: Ending,
        progress: &mut dyn FnMut(u64),
    ) -> Result<GuestRun, Error> {
        self.offers(&Need {
            devices: &[],
            cpus: guest.cpus,
        })?;
        let machine = || RunningMachine::start(machine(self, guest, limits)?);
        Run::start(machine, limits, ending)?.watch(progress)
    }
}

fn machine(kvm: &Kvm, guest: &Guest<'_>, limits: &Limits) -> Result<KvmMachine, Error> {
    let memory = boot::memory(guest)?;
    let entry = boot::load(&memory, guest, &command_line(kvm, guest))?;
    let set_up = |cpu: &VcpuFd, tsc_khz| {
        identify(&kvm.system, cpu, tsc_khz)?;
        pc::set_up(cpu, entry)
    };
    let bridge = devices()?.bridge;
    KvmMachine::new(kvm, (memory, bridge), limits, set_up)
}

/// Returns the guest's command line: the work, and the machine's properties. The machine has a
/// timer, but each tick would be an exit unrelated to the driver.
fn command_line(kvm: &Kvm, guest: &Guest<'_>) -> String {
    let mut words = guest.words();
    words.push(format!("uart={}", kvm.options().uart.window()));
    words.push(format!("timer={}", Timer::None));
    words.join(" ")
}

struct Run<'a> {
    running: RunningMachine,
    limits: &'a Limits,
    ending: Ending,
    start: Instant,
}

impl<'a> Run<'a> {
    /// Starts the machine, whose time limits begin before it is set up.
    fn start(
        machine: impl FnOnce() -> Result<RunningMachine, Error>,
        limits: &'a Limits,
        ending: Ending,
    ) -> Result<Self, Error> {
        let start = Instant::now();
        Ok(Self {
            running: machine()?,
            limits,
            ending,
            start,
        })
    }

    /// Watches the run until it ends or must be ended.
    fn watch(mut self, progress: &mut dyn FnMut(u64)) -> Result<GuestRun, Error> {
        let mut first_report = None;
        let mut seen = (0, 0);
        let mut changed = self.start;
        loop {
            // The order matters: bytes that arrived before the end are then seen.
            let ended = self.running.ended();
            // If the bus was never free, no byte is known to have arrived.
            let now = self.look()?.unwrap_or(seen);
            if now != seen {
                (seen, changed) = (now, Instant::now());
                progress(now.0);
            }
            if now.1 > 0 && first_report.is_none() {
                first_report = Some(self.start.elapsed());
            }
            self.limits.check_bytes(now)?;
            if let Some(end) = ended {
                return self.judge(end?, first_report);
            }
            self.limits
                .check_time(self.start, changed, first_report.is_some())?;
            sleep(LOOK);
        }
    }

    /// Drains collected writes and returns the byte counts of both channels; `None` if the bus was
    /// never free.
    fn look(&self) -> Result<Option<(u64, u64)>, Error> {
        let Some(mut bus) = self.running.bus() else {
            return Ok(None);
        };
        bus.tend()?;
        let reports = bus.reports.len() as u64;
        Ok(Some((bus.serial.sent().bytes().len() as u64, reports)))
    }

    fn judge(&self, end: End, first_report: Option<Duration>) -> Result<GuestRun, Error> {
        let mut bus = self.running.bus().ok_or_else(stuck)?;
        let reports = guest::reports(&bus.reports)?;
        match end {
            End::Status(status) => self.ending.judge(status, &reports)?,
            End::Reset => return Err(Error::Reset),
            End::Stopped => return Err(Error::Undone),
        }
        Ok(GuestRun {
            reports,
            serial: bus.serial.sent().take(),
            first_report: first_report.unwrap_or_default(),
            exits: Some(bus.exit_log()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::kvm::pc::CpuThread;
    use crate::kvm::pc::machine_tests::{bus, running};

    #[test]
    fn the_time_limits_end_a_cpu_that_never_unlocks_the_bus() {
        let limits = Limits {
            start: Duration::from_millis(300),
            ..Limits::of(1, 0)
        };
        let Some(bus) = bus("a_cpu_that_never_leaves_the_bus", &limits) else {
            return;
        };
        let held = bus.clone();
        let cpu = CpuThread::start(move |stop| {
            let _bus = held.lock();
            while !stop.load(Ordering::Acquire) {
                sleep(Duration::from_millis(1));
            }
            Ok(End::Stopped)
        });
        let machine = || Ok(running(bus, cpu.unwrap()));
        let run = Run::start(machine, &limits, Ending::Done).unwrap();
        let error = run.watch(&mut |_| {}).unwrap_err();
        assert!(
            matches!(error, Error::NeverStarted(after) if after == limits.start),
            "{error}"
        );
    }
}

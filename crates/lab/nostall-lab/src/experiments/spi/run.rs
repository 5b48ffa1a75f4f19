//! SPI: a flash's sector, and a busy bus.

use std::time::Duration;

use nostall_work::LONGEST_REPORT;
use nostall_work::spi::{BusStrategy, Digest, Job, JobResult, SECTOR, Sector, SpiMeasured};
use sha2::{Digest as _, Sha256};

use nostall_vm::process::MemoryFile;
use nostall_vm::{Ending, Error, FLASH_BYTES, Guest, GuestRun, Limits, Machine};

use crate::experiments::runner::run_jobs;

/// The measurements, beside the test of the flash.
#[derive(Clone, Copy, Debug)]
pub struct SpiPlan {
    /// CAN frames that are received with each strategy.
    pub frames: u32,
    /// Number of rounds through all strategies.
    pub rounds: u16,
}

impl SpiPlan {
    pub(super) fn busy_buses(&self) -> impl Iterator<Item = (BusStrategy, u32)> + use<'_> {
        let round = |_| BusStrategy::ALL.map(|strategy| (strategy, self.frames));
        (0..self.rounds).flat_map(round)
    }

    /// The jobs, in their order.
    pub fn jobs(&self) -> Vec<Job> {
        let mut jobs = vec![Job::Flash];
        let busy = self.busy_buses();
        jobs.extend(busy.map(|(strategy, frames)| Job::Can { strategy, frames }));
        jobs
    }

    fn limits(&self) -> Limits {
        let limits = Limits::of(0, 0);
        // An emulated CPU needs some hundred microseconds for a frame, and has to share
        // the host's.
        let can = Duration::from_millis(2) * self.frames;
        Limits {
            silence: limits.silence + can,
            total: limits.total + can * 2 * u32::from(self.rounds),
            report_bytes: 64 * LONGEST_REPORT as u64,
            ..limits
        }
    }
}

/// The reports of a guest or of the models, put together.
#[derive(Clone, Debug, Default)]
pub struct SpiReports {
    /// The flash's identification.
    pub flash: Option<[u8; 3]>,
    /// The test of a sector, as the driver reports it.
    pub sector: Option<Sector>,
    /// The same sector as found in the flash's memory.
    pub in_flash: Option<InFlash>,
    /// The measurements of the busy bus, round after round.
    pub measured: Vec<SpiMeasured>,
    /// Failures, each with its job.
    pub faults: Vec<(Job, String)>,
}

/// A sector and its flash, read from the flash's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlash {
    /// The sector's content before.
    pub before: Digest,
    /// The sector's content after.
    pub after: Digest,
    /// Whether the rest of the flash is as it was.
    pub rest_kept: bool,
}

impl SpiReports {
    /// Adds a report of `job`; `None` if it is of another job.
    pub(super) fn add(&mut self, job: Job, result: JobResult) -> Option<()> {
        match (job, result) {
            (_, JobResult::Fault(what)) => self.faults.push((job, what.as_str().to_owned())),
            (Job::Flash, JobResult::FlashId(id)) => self.flash = Some(id),
            (Job::Flash, JobResult::Sector(sector)) => self.sector = Some(sector),
            (Job::Can { strategy, .. }, JobResult::Can(measured))
                if measured.strategy == strategy =>
            {
                self.measured.push(measured);
            }
            _ => return None,
        }
        Some(())
    }

    /// Compares the flash's memory before and after the test of a sector.
    pub(super) fn look_into_flash(&mut self, before: &[u8], after: &[u8]) {
        let Some(sector) = &self.sector else { return };
        let start = sector.address as usize;
        let Some(end) = start.checked_add(SECTOR as usize) else {
            return;
        };
        let (Some(was), Some(is)) = (before.get(start..end), after.get(start..end)) else {
            return;
        };
        self.in_flash = Some(InFlash {
            before: Sha256::digest(was).into(),
            after: Sha256::digest(is).into(),
            rest_kept: before[..start] == after[..start] && before[end..] == after[end..],
        });
    }
}

/// Returns the content of a flash before the test: no sector is erased, and no two are the same.
pub(super) fn flash_content() -> Vec<u8> {
    let mut content = vec![0; FLASH_BYTES as usize];
    for (number, sector) in content.chunks_mut(SECTOR as usize).enumerate() {
        sector.fill(number as u8 & 0x7f);
        sector[..4].copy_from_slice(&(number as u32).to_le_bytes());
    }
    content
}

/// Runs `plan` on `machine` in `guest`. The plan replaces the guest's work and flash.
///
/// # Errors
///
/// Returns the errors of [`Machine::run`].
pub fn run(
    machine: &dyn Machine,
    guest: &Guest<'_>,
    plan: &SpiPlan,
) -> Result<(SpiReports, GuestRun), Error> {
    let jobs = plan.jobs();
    let content = flash_content();
    let flash = MemoryFile::new(&content)?;
    let guest = Guest {
        flash: Some(&flash),
        ..*guest
    };
    let limits = plan.limits();
    let ran = run_jobs(
        machine,
        &guest,
        (&jobs, 1),
        &limits,
        Ending::Done,
        &mut |_| {},
    )?;
    let mut reports = SpiReports::default();
    for (item, result) in ran.results()? {
        let job = jobs.get(item);
        let added = job.and_then(|job| reports.add(*job, result));
        added.ok_or_else(|| Error::NotAReport(format!("item {item} tells something else")))?;
    }
    reports.look_into_flash(&content, &flash.read_from(0, FLASH_BYTES)?);
    Ok((reports, ran))
}

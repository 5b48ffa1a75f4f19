//! Experiment spi: a flash, and a busy bus.

mod fold;
pub(super) mod metrics;
pub mod model;
mod peers;
pub mod run;
mod text;
mod threads;
pub(super) mod tour;

use std::ops::RangeInclusive;

use anyhow::Result;
use clap::value_parser;
use nostall_vm::qemu::QemuBoard;
use nostall_vm::{Device, Guest, Machine};
use nostall_work::spi::FRAMES;

use super::args::{Common, OnArg};
use super::experiment::{Answer, Experiment};
use super::on::On;
use super::peers::PeerComparison;
use super::progress::Busy;
use super::runner;
use super::tour::row::TourRows;
use crate::report::part::PagePart;
use nostall_figures::table::{cpus_on_host, host_cpus};
use run::SpiPlan;

/// Use an SPI flash and a busy bus
///
/// Boots a RISC-V board. Identifies its flash, and erases, writes and reads a sector. Receives CAN
/// frames over a busy bus with each strategy. Succeeds only if the host finds the same sector, every
/// frame arrives, and no worker is woken without work.
///
/// `--on model` uses a model of the flash in virtual time, and threads of the host for the busy bus.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    common: Common,

    /// CAN frames to receive; the default is 100000
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=MOST_FRAMES))]
    frames: Option<u32>,
}

/// The most frames that can be asked for: they take a quarter of an hour on the model.
const MOST_FRAMES: i64 = 10_000_000;

const EXAMPLES: &str = "\
Examples:
  nostall-lab run spi                   a flash and a busy bus
  nostall-lab run spi --on model --frames 1000
                                        on a model and threads, in less time";

impl Experiment for Args {
    const NAME: &'static str = "spi";
    const TOUR: TourRows = tour::TOUR;
    const PAGE: PagePart = metrics::PAGE;
    const BEST: &'static [OnArg] = &[OnArg::Qemu, OnArg::Model];
    const DEVICES: &'static [Device] = &[Device::Spi];
    // CPUs of the guest: two tasks and the worker.
    const CPUS: u16 = 3;
    const CPU_RANGE: RangeInclusive<u16> = 3..=4;
    const PEERS: Option<&'static PeerComparison> = Some(&peers::PEERS);
    type Input = ();
    type Found = ();

    fn common(&self) -> &Common {
        &self.common
    }

    fn usual_board(&self) -> QemuBoard {
        QemuBoard::SifiveU
    }

    fn cpus_in_words(&self) -> String {
        cpus_on_host(self.cpus())
    }

    fn read(&self) -> Result<()> {
        Ok(())
    }

    fn measure(&self, on: &On, _: Option<&str>, (): &()) -> Result<Answer<()>> {
        let _busy = Busy::new("trying the flash, receiving frames");
        let plan = SpiPlan {
            frames: self.frames.unwrap_or(FRAMES),
            rounds: 1,
        };
        let run = |machine: &dyn Machine, guest: &Guest<'_>| run::run(machine, guest, &plan);
        let (reports, headline, on) = match runner::in_guest(self, on, run)? {
            Some((reports, headline)) => (reports, headline, [on.name(); 2]),
            None => {
                let headline = format!(
                    "spi on a model, in virtual time; the busy bus on threads, 3 on {} CPUs",
                    host_cpus()
                );
                let reports = model::run(&plan, None);
                (reports, headline, ["model", "host-threads"])
            }
        };
        Ok(text::answer(&headline, on, plan.frames, &reports))
    }
}

//! Experiment pstore: records that survive a crash.

mod fold;
pub(super) mod metrics;
mod peers;
pub mod run;
mod text;
mod threads;
pub(super) mod tour;

use std::ops::RangeInclusive;
use std::path::PathBuf;

use anyhow::Result;
use nostall_vm::{Guest, Machine};
use nostall_work::pstore::{FEWEST_CPUS, MOST_CPUS};

use super::args::{Common, OnArg};
use super::experiment::{Answer, Experiment, capture};
use super::on::On;
use super::peers::PeerComparison;
use super::progress::Busy;
use super::runner;
use super::tour::row::TourRows;
use crate::report::part::PagePart;
use nostall_figures::figure::Figure;
use nostall_figures::table::{cpus_on_host, host_cpus};

/// Trace every function into persistent RAM, crash, and read the records back
///
/// Moves bytes through pipes while every function entry is recorded in persistent RAM, with each
/// strategy, and panics. The records are read from the crashed machine's RAM, and again by a second
/// boot on the same RAM. Succeeds only if both readers find the same records.
///
/// `--on model` runs the recorders on threads of the host, without a crash.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    common: Common,

    /// Write the persistent RAM of the crashed machine to `DIR/pstore.bin`
    #[arg(long, value_name = "DIR")]
    capture: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  nostall-lab run pstore                trace, crash, read the records, reboot
  nostall-lab run pstore --on model     the recorders on threads of the host
  nostall-lab run pstore --capture DIR  keep the region, for
                                        nostall postmortem DIR/pstore.bin";

impl Experiment for Args {
    const NAME: &'static str = "pstore";
    const TOUR: TourRows = tour::TOUR;
    const PAGE: PagePart = metrics::PAGE;
    const BEST: &'static [OnArg] = &[OnArg::Qemu, OnArg::Model];
    // Number of CPUs, as in Linux's measurement: three run a stage each, and the fourth is idle.
    const CPUS: u16 = 4;
    const CPU_RANGE: RangeInclusive<u16> = FEWEST_CPUS..=MOST_CPUS;
    const PEERS: Option<&'static PeerComparison> = Some(&peers::PEERS);
    type Input = ();
    type Found = ();

    fn common(&self) -> &Common {
        &self.common
    }

    fn measure_beside(&self, on: &On, (): &()) -> Result<Vec<Figure>> {
        let figures = self.measure(on, None, &())?.figures.to_vec().into_iter();
        let beside = figures.filter_map(|mut figure| {
            figure.profile = Some(peers::way_of_linux(&figure.strategy)?.to_owned());
            figure.strategy = peers::BESIDE.to_owned();
            Some(figure)
        });
        Ok(beside.collect())
    }

    fn cpus_in_words(&self) -> String {
        cpus_on_host(self.cpus())
    }

    fn read(&self) -> Result<()> {
        Ok(())
    }

    fn measure(&self, on: &On, _: Option<&str>, (): &()) -> Result<Answer> {
        let busy = Busy::new("moving bytes, crashing, reading, booting again");
        let run = |machine: &dyn Machine, guest: &Guest<'_>| run::run(machine, guest, ROUNDS);
        let (survived, headline, name) = match runner::in_guest(self, on, run)? {
            Some((survived, headline)) => (survived, headline, on.name()),
            None => {
                let cpus = host_cpus();
                let headline = format!(
                    "pstore on threads of this host, 3 on {cpus} CPUs; nothing modelled, no crash"
                );
                (threads::run(ROUNDS), headline, "host-threads")
            }
        };
        drop(busy);
        if let Some(dir) = &self.capture {
            capture(dir, [("pstore", &survived.image[..])])?;
        }
        Ok(text::answer(&headline, name, &survived))
    }
}

/// Number of rounds through all strategies.
const ROUNDS: u16 = 5;

//! Experiment trace: the kernel records itself while it sends, and before it crashes.

mod fold;
pub(super) mod metrics;
mod model;
mod picture;
mod run;
mod symbols;
mod text;
pub(super) mod tour;

use std::ops::RangeInclusive;
use std::path::PathBuf;

use anyhow::Result;
use nostall_vm::{Device, Guest, Machine};

use super::args::{Common, GivenOption, OnArg};
use super::experiment::{Answer, Experiment, capture};
use super::on::On;
use super::progress::Busy;
use super::runner;
use super::tour::row::TourRows;
use super::uart::input;
use super::uart::model::PlannedFault;
use crate::report::part::PagePart;
use run::run;

/// Record the kernel while it sends over a slow port, crash it, and read its last calls
///
/// The kernel sends one byte, and then 2,500 bytes, over a slow port with each strategy, and
/// records its calls. The graphs show where the CPU waits. Then the kernel panics. The graph of its
/// last calls is read from the crashed machine's RAM, and again by a second boot on the same RAM.
/// Succeeds only if both graphs are the same.
///
/// The built-in kernel records the accesses to the port. A kernel of `make traced-kernel`, given
/// with --kernel, records every function.
///
/// `--on model` sends over a model of the port in virtual time, without a crash.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    common: Common,

    /// Make the model's port fail after N accesses (with --on model)
    ///
    /// Faults: stuck-lsr, all-ones, no-cts, short-fifo, power-loss, slow-reads. The default of N is
    /// 1000.
    #[arg(long, value_name = "NAME[:N]", value_parser = input::fault)]
    fault: Option<PlannedFault>,

    /// Write the traces to `DIR/<strategy>-<bytes>.bin` and `DIR/crash.bin`
    #[arg(long, value_name = "DIR")]
    capture: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  nostall-lab run trace                 on the best machine
  nostall-lab run trace --on model      on a model of the port, in virtual time
  nostall-lab run trace --machine virt  a RISC-V machine; arm-virt: an Arm machine
  nostall-lab run trace --capture DIR   keep the traces, for
                                        nostall trace report DIR/crash.bin
  make traced-kernel                build kernels for --kernel that record every
                                        function, and print their paths";

impl Experiment for Args {
    const NAME: &'static str = "trace";
    const TOUR: TourRows = tour::TOUR;
    const PAGE: PagePart = metrics::PAGE;
    const BEST: &'static [OnArg] = OnArg::BEST;
    const DEVICES: &'static [Device] = &[Device::Uart16550];
    const CPU_RANGE: RangeInclusive<u16> = 1..=8;
    type Input = ();
    type Found = ();

    fn common(&self) -> &Common {
        &self.common
    }

    fn given(&self) -> Vec<GivenOption> {
        let fault = self.fault.map(|planned| planned.fault);
        let fault = GivenOption::with("--fault", fault, &[OnArg::Model]);
        fault.into_iter().chain(self.common.given_cpus()).collect()
    }

    fn read(&self) -> Result<()> {
        Ok(())
    }

    fn measure(&self, on: &On, note: Option<&str>, (): &()) -> Result<Answer> {
        let busy = Busy::new("sending, crashing, reading, booting again");
        let run = |machine: &dyn Machine, guest: &Guest<'_>| run(machine, guest);
        let (recorded, headline) = match runner::in_guest(self, on, run)? {
            Some(recorded) => recorded,
            None => {
                let fault = PlannedFault::described(self.fault);
                let headline = format!("trace on model{fault}, virtual time; no crash");
                (model::run(self.fault)?, headline)
            }
        };
        drop(busy);
        if let Some(dir) = &self.capture {
            let sendings = recorded.sendings.iter().map(|sending| {
                let name = format!("{}-{}", sending.strategy, sending.bytes);
                (name, &sending.trace[..])
            });
            let crash = recorded.crash.iter();
            let crash = crash.map(|crash| ("crash".to_owned(), &crash.trace[..]));
            capture(dir, sendings.chain(crash))?;
        }
        let symbols = symbols::symbols(on.kernel());
        let heading = runner::heading(&headline, note);
        text::answer(&heading, on.name(), &recorded, &symbols)
    }
}

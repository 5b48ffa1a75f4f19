//! Experiment uart: a text sent over the serial port with each strategy.

mod drawing;
mod fold;
pub(super) mod input;
pub(super) mod metrics;
pub mod model;
mod peers;
pub mod run;
mod table;
pub(super) mod tour;

use std::ops::RangeInclusive;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::value_parser;
use nostall_devices::uart::Profile;
use nostall_vm::kvm;
use nostall_vm::{Device, GuestRun};
use nostall_work::uart::Job;

use super::args::{self, Common, GivenOption, OnArg};
use super::experiment::{Answer, Experiment, capture};
use super::kvm::OnKvm;
use super::on::On;
use super::peers::PeerComparison;
use super::progress::Bar;
use super::runner;
use super::tour::row::TourRows;
use super::verdict::closing;
use crate::report::drawing::Drawings;
use crate::report::part::PagePart;
use fold::{Summary, single_writes};
use input::NamedText;
use model::PlannedFault;
use nostall_figures::figure::Figure;
use run::{Sending, UartPlan, alphabet, run};

/// Send a recorded Linux boot log over a serial port with each strategy
///
/// Compares the received bytes with the log, and prints the cost of each strategy. Succeeds only if
/// every byte arrives.
///
/// `--on auto` takes KVM if hardware runs the guest (some KVMs interpret guest code), else QEMU if
/// it is installed, else the model. If the machine on KVM fails, the next one is tried.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    common: Common,

    /// Access of KVM's guest to the serial port (with --on kvm)
    ///
    /// `ports` (the default): every access is an exit, as on other machines. `ports-coalesced`: the
    /// host's kernel collects transmit writes while no interrupt is expected. `mmio-readonly`: the
    /// port is in memory, and the guest reads the line status from a read-only page without an
    /// exit. Transmit writes are collected.
    #[arg(long, value_name = "MODE", value_parser = super::kvm::uart_mode)]
    uart_mode: Option<kvm::UartMode>,

    /// Serial port of the model (with --on model)
    ///
    /// `vm` (the default) empties at once, as virtual ports do. `pc-16550a` has a line of 115,200
    /// baud, and `fast-16550a` is another such port with a published figure. `hp-dl380-gen9` is the
    /// slow port of a management controller.
    #[arg(long, value_name = "NAME", value_parser = args::profile)]
    profile: Option<Profile>,

    /// Make the model's port fail after N accesses (with --on model)
    ///
    /// Faults: stuck-lsr, all-ones, no-cts, short-fifo, power-loss, slow-reads. The default of N is
    /// 1000.
    #[arg(long, value_name = "NAME[:N]", value_parser = input::fault)]
    fault: Option<PlannedFault>,

    /// Send this file (- for standard input) instead of the boot log
    #[arg(long, value_name = "FILE", conflicts_with = "bytes")]
    input: Option<PathBuf>,

    /// Send N bytes of a repeating alphabet instead of the boot log
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=input::LONGEST))]
    bytes: Option<u64>,

    /// Write the received bytes to `DIR/<strategy>.bin`
    #[arg(long, value_name = "DIR")]
    capture: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  nostall-lab run uart                  on the best machine
  nostall-lab run uart --input dmesg.txt
                                        send your own log
  nostall-lab run uart --bytes 2500     as the test of Linux's fix does
  nostall-lab run uart --on kvm --uart-mode mmio-readonly
                                        with almost no exits
  nostall-lab run uart --on model --profile pc-16550a
                                        a line of 115,200 baud, in virtual time
  nostall-lab run uart --qemu-arg=-accel --qemu-arg=kvm
                                        QEMU with hardware virtualization
  nostall-lab run uart --machine virt   a RISC-V machine; arm-virt: an Arm one";

impl Experiment for Args {
    const NAME: &'static str = "uart";
    const TOUR: TourRows = tour::TOUR;
    const PAGE: PagePart = metrics::PAGE;
    const BEST: &'static [OnArg] = OnArg::BEST;
    const DEVICES: &'static [Device] = &[Device::Uart];
    const PEERS: Option<&'static PeerComparison> = Some(&peers::PEERS);
    const CPU_RANGE: RangeInclusive<u16> = 1..=64;
    type Input = NamedText;
    type Found = Drawings;

    fn common(&self) -> &Common {
        &self.common
    }

    fn kvm_options(&self) -> kvm::Options {
        kvm::Options {
            uart: self.uart_mode.unwrap_or_default(),
            ..kvm::Options::default()
        }
    }

    fn given(&self) -> Vec<GivenOption> {
        let profile = self.profile.map(|profile| profile.name);
        let fault = self.fault.map(|planned| planned.fault);
        let all = [
            GivenOption::flag("--uart-mode", self.uart_mode.is_some(), OnArg::KVM),
            GivenOption::with("--profile", profile, &[OnArg::Model]),
            GivenOption::with("--fault", fault, &[OnArg::Model]),
        ];
        all.into_iter()
            .flatten()
            .chain(self.common.given_cpus())
            .collect()
    }

    fn headline_on_kvm(&self, on: &OnKvm, ran: &GuestRun) -> String {
        on.headline(ran)
    }

    fn measure_beside(&self, on: &On, _: &NamedText) -> Result<Vec<Figure>> {
        let mut summary = Summary::new(on.name());
        for size in peers::SIZES {
            let text = alphabet(size);
            let plan = UartPlan {
                jobs: &[peers::JOB],
                repeat: on.rounds(ROUNDS),
                text: &text,
            };
            let (sendings, _) = self.send(on, &plan, &mut |_| {})?;
            // The program's first write in Linux, of one byte, runs code for the first time. QEMU
            // translates that code first. The longer writes follow it. Here, each size has its
            // own boot.
            let earlier = usize::from(size > 1);
            let sending = sendings.get(earlier..=earlier).unwrap_or_default();
            summary.add_program(peers::JOB.driver.name(), &text, sending);
            summary.add_single_writes(&text, sendings);
        }
        match summary.failure() {
            Some(failure) => bail!(failure),
            None => Ok(summary.figures.to_vec()),
        }
    }

    fn read(&self) -> Result<NamedText> {
        input::read(self.input.as_deref(), self.bytes)
    }

    fn measure(&self, on: &On, note: Option<&str>, text: &NamedText) -> Result<Answer<Drawings>> {
        let jobs: Vec<_> = Job::ours().collect();
        let plan = UartPlan {
            jobs: &jobs,
            repeat: if text.bytes.len() < LONG {
                on.rounds(ROUNDS)
            } else {
                1
            },
            text: &text.bytes,
        };
        let line = plan.on_the_line();
        let mut summary = Summary::new(on.name());
        let headline = {
            let bar = Bar::new(line.len() as u64 * plan.sendings().count() as u64);
            let (sendings, headline) = self.send(on, &plan, &mut |bytes| bar.at(bytes))?;
            summary.add(&line, sendings);
            headline
        };
        let profile = self.profile.unwrap_or(Profile::VM);
        // Single writes and published figures need a port without a fault.
        if self.fault.is_none() {
            let jobs = single_writes(on.has(Device::Uart16550));
            for size in table::SIZES {
                // Without a newline: not every driver converts it.
                let text = alphabet(size);
                let plan = UartPlan {
                    jobs: &jobs,
                    repeat: on.rounds(ROUNDS),
                    text: &text,
                };
                summary.add_single_writes(&text, self.send(on, &plan, &mut |_| {})?.0);
            }
            if matches!(on, On::Model) {
                summary.add_published(&profile, &model::published(profile)?);
            }
        }
        if let Some(dir) = &self.capture {
            let captures = summary.captures.iter();
            capture(dir, captures.map(|(name, bytes)| (*name, bytes.as_slice())))?;
        }
        let described = text.describe(line.len(), plan.repeat);
        let heading = runner::heading(&headline, note);
        let mut parts = vec![format!("{heading}\n{described}"), table::table(&summary)];
        parts.extend(table::single_writes(&summary));
        parts.extend(table::published(&profile, &summary));
        let success = || table::success(&summary, line.len());
        parts.push(closing("Not every byte arrived", &summary.faults, success));
        Ok(Answer {
            text: parts.join("\n\n"),
            failure: summary.failure(),
            figures: summary.figures,
            found: drawing::drawings()?,
        })
    }
}

/// Texts from this length on are sent once.
const LONG: usize = 1 << 20;

/// Number of rounds, where time is real.
const ROUNDS: u16 = 5;

impl Args {
    /// Sends on the machine, and describes it in a line.
    fn send(
        &self,
        on: &On,
        plan: &UartPlan<'_>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(Vec<Sending>, String)> {
        let sent = runner::in_guest(self, on, |machine, guest| {
            run(machine, guest, plan, progress)
        })?;
        if let Some(sent) = sent {
            return Ok(sent);
        }
        let profile = self.profile.unwrap_or(Profile::VM);
        let sendings = model::run(profile, self.fault, plan, progress)?;
        let (name, fault) = (profile.name, PlannedFault::described(self.fault));
        let headline = format!("uart on model, profile {name}{fault}, virtual time");
        Ok((sendings, headline))
    }
}

//! Experiment uart: a text over the serial port, sent in every way.

mod beside;
mod figures;
mod input;
mod measured;
pub mod model;
pub mod run;
pub(super) mod tour;

use std::path::PathBuf;

use anyhow::Result;
use clap::value_parser;
use nostall_devices::uart::Profile;
use nostall_vm::Device;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use nostall_vm::kvm;

use super::args::{self, Common, Given, OnArg};
use super::experiment::{Answer, Experiment, capture};
use super::on::On;
use model::Planned;

/// Send a real Linux boot log over a serial port in each way there is
///
/// Compares byte for byte what arrives at the other end, and prints what each way cost.
/// Succeeds only if every byte arrived.
///
/// `--on auto` takes KVM where hardware runs the guest (some KVMs interpret it), else QEMU
/// where it is installed, else the model. If the machine on KVM fails, the next one is taken.
#[derive(clap::Args)]
#[command(
    after_help = EXAMPLES,
    mut_arg("on", args::on(OnArg::BEST)),
    mut_arg("machine", args::boards(DEVICES)),
    mut_arg("cpus", args::cpus(1, 1..=64)),
)]
pub struct Args {
    #[command(flatten)]
    common: Common,

    /// How KVM's guest is offered the serial port (with --on kvm)
    ///
    /// `ports`: every access is an exit, as in other machines. `ports-coalesced`: transmit
    /// writes are collected by the host's kernel while no interrupt is expected.
    /// `mmio-readonly`: in memory, the line status on a page that the guest can read without
    /// an exit, transmit writes likewise. `ports` if not given.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    #[arg(long, value_name = "MODE", value_parser = super::kvm::uart)]
    uart_mode: Option<kvm::UartMode>,

    /// Serial port of the model (with --on model)
    ///
    /// `vm` empties at once, as virtual ports do; `pc-16550a` at 115,200 baud, and
    /// `fast-16550a` is another one of that kind with a published figure;
    /// `hp-dl380-gen9` is the slow port of a management controller. `vm` if not given.
    #[arg(long, value_name = "NAME", value_parser = args::profile)]
    profile: Option<Profile>,

    /// Make the model's port fail after N accesses (with --on model)
    ///
    /// Faults: stuck-lsr, all-ones, no-cts, short-fifo, power-loss, slow-reads. N is
    /// 1000 if not given.
    #[arg(long, value_name = "NAME[:N]", value_parser = input::fault)]
    fault: Option<Planned>,

    /// Send this file (- for standard input) instead of the boot log
    #[arg(long, value_name = "FILE", conflicts_with = "bytes")]
    input: Option<PathBuf>,

    /// Send N bytes of a repeating alphabet instead of the boot log
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=input::LONGEST))]
    bytes: Option<u64>,

    /// Write what arrived to `DIR/<strategy>.bin`
    #[arg(long, value_name = "DIR")]
    capture: Option<PathBuf>,
}

const DEVICES: &[Device] = &[Device::Uart16550];

const EXAMPLES: &str = "\
Examples:
  nostall run uart                  on the best machine
  nostall run uart --input dmesg.txt
                                    send your own log
  nostall run uart --bytes 2500     as the test program of the seed article does
  nostall run uart --on kvm --uart-mode mmio-readonly
                                    with almost no exits
  nostall run uart --on model --profile pc-16550a
                                    a real line's 115,200 baud, in virtual time
  nostall run uart --qemu-arg=-accel --qemu-arg=kvm
                                    QEMU with hardware virtualization
  nostall run uart --machine virt   a RISC-V machine's serial port";

impl Experiment for Args {
    const BEST: &'static [OnArg] = OnArg::BEST;
    const DEVICES: &'static [Device] = DEVICES;
    type Input = input::Text;
    type Found = ();

    fn common(&self) -> &Common {
        &self.common
    }

    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    fn kvm_options(&self) -> kvm::Options {
        kvm::Options {
            uart: self.uart_mode.unwrap_or_default(),
            ..kvm::Options::default()
        }
    }

    fn given(&self) -> Vec<Given> {
        let profile = self.profile.map(|profile| profile.name);
        let fault = self.fault.map(|planned| planned.fault);
        let all = [
            #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
            Given::flag("--uart-mode", self.uart_mode.is_some(), OnArg::KVM),
            Given::flag("--cpus", self.common.cpus.is_some(), OnArg::GUESTS),
            Given::with("--profile", profile, &[OnArg::Model]),
            Given::with("--fault", fault, &[OnArg::Model]),
        ];
        all.into_iter().flatten().collect()
    }

    fn read(&self) -> Result<input::Text> {
        input::read(self.input.as_deref(), self.bytes)
    }

    fn measure(&self, on: &On, note: Option<&str>, text: &input::Text) -> Result<Answer> {
        let cpus = self.cpus();
        let port = (self.profile.unwrap_or(Profile::VM), self.fault);
        let measured = measured::measure(on, cpus, &self.common.qemu_arg, port, text)?;
        if let Some(dir) = &self.capture {
            capture(dir, measured.captures())?;
        }
        let faults = measured.faults();
        let mut heading = vec![measured.headline.as_str()];
        heading.extend(note);
        let text = text.describe(measured.line.len(), measured.rounds);
        heading.push(&text);
        let mut parts = vec![heading.join("\n"), measured.table()];
        if !measured.beside.is_empty() {
            parts.push(beside::table(&measured.beside));
        }
        parts.extend(measured.published());
        parts.push(if faults.is_empty() {
            measured.success()
        } else {
            format!("Not every byte arrived:\n  {}", faults.join("\n  "))
        });
        Ok(Answer {
            text: parts.join("\n\n"),
            figures: figures::figures(on.name(), &measured),
            found: (),
            failure: measured.failure(),
        })
    }
}

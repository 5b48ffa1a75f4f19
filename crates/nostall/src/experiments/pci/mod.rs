//! Experiment pci: what each way to PCI configuration space costs.

mod figures;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod kvm;
mod measured;
pub mod model;
pub mod run;
mod table;
pub(super) mod tour;
mod verdict;

use anyhow::Result;
use nostall_vm::Device;

use super::args::{self, Common, Given, OnArg};
use super::experiment::{Answer, Experiment};
use super::on::On;

/// Read PCI configuration space with each method there is
///
/// Lists the PCI devices with each method (ports, ECAM, and the one chosen of them), and
/// measures reads, writes, a scan, and a scan that sizes BARs and follows capabilities.
/// Succeeds only if all methods show the same.
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
}

const DEVICES: &[Device] = &[Device::Pci];

const EXAMPLES: &str = "\
Examples:
  nostall run pci                   list PCI devices by ports and by ECAM
  nostall run pci --qemu-arg=-device --qemu-arg=virtio-rng-pci
                                    with one more device
  nostall run pci --qemu-arg=-cpu --qemu-arg=max,-hypervisor
                                    as if it were bare metal
  nostall run pci --on kvm          and from memory that the guest can read
  nostall run pci --machine virt    by ECAM alone, assigned by our kernel";

impl Experiment for Args {
    const BEST: &'static [OnArg] = OnArg::BEST;
    const DEVICES: &'static [Device] = DEVICES;
    type Input = ();
    type Found = measured::Devices;

    fn common(&self) -> &Common {
        &self.common
    }

    fn given(&self) -> Vec<Given> {
        let cpus = Given::flag("--cpus", self.common.cpus.is_some(), OnArg::GUESTS);
        cpus.into_iter().collect()
    }

    fn read(&self) -> Result<()> {
        Ok(())
    }

    fn measure(&self, on: &On, note: Option<&str>, (): &()) -> Result<Answer<Self::Found>> {
        let cpus = self.cpus();
        Ok(measured::measure(on, note, cpus, &self.common.qemu_arg)?.answer())
    }
}

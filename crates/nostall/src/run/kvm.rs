//! Our own machine, on the host's KVM.

use std::borrow::Cow;

use anyhow::{Result, bail, ensure};
use nostall_vm::Ran;
use nostall_vm::kvm::{Kvm, Options, Speed, Uart};

use super::on::{self, On};
use super::{Args, IoPath};
use crate::kernel;

/// A KVM, what is known of it, and what to boot on it.
pub struct OnKvm {
    pub kvm: Kvm,
    pub speed: Speed,
    pub kernel: Cow<'static, [u8]>,
}

/// The machine, if the arguments can be meant for it.
pub fn choose(args: &Args) -> Result<On> {
    check(args)?;
    let Some(kernel) = kernel::find(args.kernel.as_deref())? else {
        bail!(kernel::MISSING);
    };
    let kvm = Kvm::find(Options {
        uart: args.uart.unwrap_or_default(),
        ..Options::default()
    })?;
    let speed = kvm.speed()?;
    Ok(On::Kvm(OnKvm { kvm, speed, kernel }))
}

/// The machine if it is the best that there is for what is asked, or else a line
/// that says why it is not, if there is something to say.
pub fn choose_if_good(args: &Args) -> (Option<On>, Option<String>) {
    // What is wrong with arguments or kernel, the next machine tells as well.
    match choose(args) {
        Ok(On::Kvm(OnKvm { speed, .. })) if speed.is_interpreted() => {
            let note = format!("KVM here {speed}: not used (--on kvm does)");
            (None, Some(note))
        }
        chosen => (chosen.ok(), None),
    }
}

fn check(args: &Args) -> Result<()> {
    on::for_model_only(args)?;
    ensure!(
        !args.paths.contains(&IoPath::Pstore),
        "--on kvm is for the paths uart and pci"
    );
    ensure!(
        args.qemu_arg.is_empty(),
        "--qemu-arg has no meaning with --on kvm"
    );
    ensure!(
        args.cpus.is_none_or(|cpus| cpus == 1),
        "--cpus with --on kvm must be 1"
    );
    Ok(())
}

/// A way to offer the serial port, by its name.
pub fn uart(name: &str) -> Result<Uart, String> {
    name.parse()
        .map_err(|()| format!("the ways are {}", Uart::ALL.map(Uart::name).join(", ")))
}

impl OnKvm {
    /// How often everything is measured: an interpreter takes seconds a round, and
    /// its counts are the same each time.
    pub fn rounds(&self, usual: u16) -> u16 {
        if self.speed.is_interpreted() {
            1
        } else {
            usual
        }
    }

    /// What the serial port was measured on.
    pub fn headline(&self, ran: &Ran) -> String {
        let what = format!("uart on kvm, {}", self.kvm.options().uart);
        self.headline_of(&what, ran, self.kvm.notes())
    }

    /// What `what` was measured on, and `notes` on that.
    pub fn headline_of(&self, what: &str, ran: &Ran, notes: &[String]) -> String {
        let up = ran.first_report.as_secs_f64();
        let mut lines = vec![format!("{what}, 1 CPU; up after {up:.2} s")];
        if self.speed.is_interpreted() {
            lines.push(format!("this KVM {}: trust counts, not times", self.speed));
        }
        lines.extend_from_slice(notes);
        lines.join("\n")
    }
}

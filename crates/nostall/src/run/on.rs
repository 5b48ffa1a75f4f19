//! Which machine to run on.

use std::borrow::Cow;

use anyhow::{Result, bail, ensure};
use nostall_devices::Fault;
use nostall_devices::uart::Profile;
use nostall_vm::model::Planned;
use nostall_vm::qemu::{Machine, Qemu};

use super::{Args, MachineArg, OnArg};
use crate::kernel;

/// A machine, and what it needs.
pub enum On {
    Qemu {
        qemu: Qemu,
        kernel: Cow<'static, [u8]>,
    },
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    Kvm(super::kvm::OnKvm),
    Model {
        profile: Profile,
        fault: Option<Planned>,
    },
}

impl On {
    /// The stable word for it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Qemu { .. } => "qemu",
            #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
            Self::Kvm(_) => "kvm",
            Self::Model { .. } => "model",
        }
    }
}

/// The machine that the arguments ask for, and a line about it if there is something
/// to say. `auto` says on stderr if it is less than the best, and why.
pub fn choose(args: &Args) -> Result<(On, Option<String>)> {
    let on = match args.on {
        OnArg::Qemu => qemu(args)?,
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        OnArg::Kvm => super::kvm::choose(args)?,
        OnArg::Model => {
            for_guests_only(args, "--on model")?;
            model(args)
        }
        OnArg::Auto => return best(args),
    };
    Ok((on, None))
}

fn best(args: &Args) -> Result<(On, Option<String>)> {
    let (kvm, note) = kvm(args)?;
    if let Some(kvm) = kvm {
        return Ok((kvm, note));
    }
    let on = qemu(args).or_else(|error| {
        // What was asked of either is not to be dropped in silence.
        if for_guests_only(args, "").is_err() || for_model_only(args).is_err() {
            return Err(error);
        }
        eprintln!("nostall: {error}");
        eprintln!("nostall: going on with --on model");
        Ok(model(args))
    })?;
    Ok((on, note))
}

/// KVM, if it is the best that there is; else a line that says why it is not, if there
/// is something to say.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn kvm(args: &Args) -> Result<(Option<On>, Option<String>)> {
    // What only KVM can do is not dropped in silence.
    if args.uart.is_some() {
        return Ok((Some(super::kvm::choose(args)?), None));
    }
    Ok(super::kvm::choose_if_good(args))
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn kvm(_: &Args) -> Result<(Option<On>, Option<String>)> {
    Ok((None, None))
}

fn qemu(args: &Args) -> Result<On> {
    for_model_only(args)?;
    for_kvm_only(args, "--on qemu")?;
    let machine = match args.machine {
        MachineArg::Q35 => Machine::Q35,
    };
    // First the arguments' mistakes, then the system's.
    let Some(kernel) = kernel::find(args.kernel.as_deref())? else {
        bail!(kernel::MISSING);
    };
    let qemu = Qemu::find(machine)?;
    Ok(On::Qemu { qemu, kernel })
}

const fn model(args: &Args) -> On {
    On::Model {
        profile: args.profile,
        fault: args.fault,
    }
}

pub fn for_model_only(args: &Args) -> Result<()> {
    let (name, vm) = (args.profile.name, Profile::VM.name);
    ensure!(name == vm, "--profile {name} goes with --on model");
    ensure!(args.fault.is_none(), "--fault goes with --on model");
    Ok(())
}

/// What needs a guest.
fn for_guests_only(args: &Args, on: &str) -> Result<()> {
    for_kvm_only(args, on)?;
    ensure!(args.kernel.is_none(), "--kernel has no meaning with {on}");
    ensure!(
        args.qemu_arg.is_empty(),
        "--qemu-arg has no meaning with {on}"
    );
    ensure!(args.cpus.is_none(), "--cpus has no meaning with {on}");
    Ok(())
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn for_kvm_only(args: &Args, on: &str) -> Result<()> {
    ensure!(args.uart.is_none(), "--uart has no meaning with {on}");
    Ok(())
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn for_kvm_only(_: &Args, _: &str) -> Result<()> {
    Ok(())
}

/// A profile by its name.
pub fn profile(name: &str) -> Result<Profile, String> {
    Profile::ALL
        .into_iter()
        .find(|profile| profile.name == name)
        .ok_or_else(|| {
            let names = Profile::ALL.map(|profile| profile.name);
            format!("the profiles are {}", names.join(", "))
        })
}

/// `NAME` or `NAME:AFTER`.
pub fn fault(words: &str) -> Result<Planned, String> {
    let (name, after) = words.split_once(':').unwrap_or((words, "1000"));
    let fault = name.parse().map_err(|_| {
        let names = Fault::ALL.map(Fault::name);
        format!("the faults are {}", names.join(", "))
    })?;
    let after = after
        .parse()
        .map_err(|_| format!("`{after}` is not a number of accesses"))?;
    Ok(Planned { fault, after })
}

//! Which machine to run on.

use std::borrow::Cow;

use anyhow::{Result, bail, ensure};
use nostall_devices::uart::Profile;
use nostall_vm::qemu::{Machine, Qemu};

use super::{Args, MachineArg, OnArg};
use crate::kernel;

/// A machine, and what it needs.
pub enum On {
    Qemu {
        qemu: Qemu,
        kernel: Cow<'static, [u8]>,
    },
    Model(Profile),
}

impl On {
    /// The stable word for it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Qemu { .. } => "qemu",
            Self::Model(_) => "model",
        }
    }
}

/// The machine that the arguments ask for. `auto` says on stderr if it is less
/// than the best, and why.
pub fn choose(args: &Args) -> Result<On> {
    match args.on {
        OnArg::Qemu => qemu(args),
        OnArg::Model => {
            for_qemu_only(args, "--on model")?;
            Ok(On::Model(args.profile))
        }
        OnArg::Auto if args.profile != Profile::VM => {
            bail!("--profile {} goes with --on model", args.profile.name)
        }
        OnArg::Auto => qemu(args).or_else(|error| {
            // What was asked of QEMU is not to be dropped in silence.
            if for_qemu_only(args, "").is_err() {
                return Err(error);
            }
            eprintln!("nostall: {error}");
            eprintln!("nostall: going on with --on model");
            Ok(On::Model(args.profile))
        }),
    }
}

fn qemu(args: &Args) -> Result<On> {
    ensure!(
        args.profile == Profile::VM,
        "--profile {} goes with --on model",
        args.profile.name
    );
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

fn for_qemu_only(args: &Args, on: &str) -> Result<()> {
    ensure!(args.kernel.is_none(), "--kernel has no meaning with {on}");
    ensure!(
        args.qemu_arg.is_empty(),
        "--qemu-arg has no meaning with {on}"
    );
    ensure!(args.cpus == 1, "--cpus has no meaning with {on}");
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

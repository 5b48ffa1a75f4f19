//! Which machine to run on.

use std::borrow::Cow;

use anyhow::{Result, bail, ensure};
use nostall_devices::Fault;
use nostall_devices::uart::Profile;
use nostall_io::Nanos;
use nostall_vm::model::Planned;
use nostall_vm::qemu::{Machine, Qemu};

use super::{Args, IoPath, OnArg};
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

/// Runs `measure` on what was chosen. If that was KVM, and by `auto`, a failure of its
/// machine is no end: says so on stderr, and goes on with the next best.
pub fn on_best<T>(
    args: &Args,
    chosen: (On, Option<String>),
    measure: impl FnMut(&(On, Option<String>)) -> Result<T>,
) -> Result<(On, T)> {
    let is_auto = args.on == OnArg::Auto && for_kvm_only(args, "").is_ok();
    let has_next = is_auto && chosen.0.name() == "kvm";
    let next = has_next.then_some(|| Ok((without_kvm(args)?, None)));
    let ((on, _), measured) = or_next(chosen, next, measure)?;
    Ok((on, measured))
}

/// `measure` on `first`, or if that machine fails on the `next`, if there is one.
fn or_next<M, T>(
    first: M,
    next: Option<impl FnOnce() -> Result<M>>,
    mut measure: impl FnMut(&M) -> Result<T>,
) -> Result<(M, T)> {
    match (measure(&first), next) {
        (Err(error), Some(next)) if error.is::<nostall_vm::Error>() => {
            eprintln!("nostall: going on without KVM, which failed: {error}");
            let next = next()?;
            let measured = measure(&next)?;
            Ok((next, measured))
        }
        (measured, _) => Ok((first, measured?)),
    }
}

fn best(args: &Args) -> Result<(On, Option<String>)> {
    // Our own machine has no SPI.
    if args.paths.contains(&IoPath::Spi) {
        return Ok((without_kvm(args)?, None));
    }
    let (kvm, note) = kvm(args)?;
    if let Some(kvm) = kvm {
        return Ok((kvm, note));
    }
    Ok((without_kvm(args)?, note))
}

/// QEMU, or else the model.
fn without_kvm(args: &Args) -> Result<On> {
    qemu(args).or_else(|error| {
        // What was asked of either is not to be dropped in silence.
        if for_guests_only(args, "").is_err() || for_model_only(args).is_err() {
            return Err(error);
        }
        eprintln!("nostall: {error}");
        eprintln!("nostall: going on with --on model");
        Ok(model(args))
    })
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
    let machine = args.machine();
    // First the arguments' mistakes, then the system's.
    let kernel = kernel::find(args.kernel.as_deref(), machine.architecture())?;
    let qemu = Qemu::find(machine)?;
    Ok(On::Qemu { qemu, kernel })
}

/// The model.
pub fn model(args: &Args) -> On {
    On::Model {
        profile: args.profile.unwrap_or(Profile::VM),
        fault: args.fault,
    }
}

pub fn for_model_only(args: &Args) -> Result<()> {
    // A flood's port is made as slow as any.
    let is_throttled = args.paths.iter().all(|path| *path == IoPath::Console);
    let profile = args.profile.filter(|_| !is_throttled);
    if let Some(profile) = profile.filter(|profile| *profile != Profile::VM) {
        bail!("--profile {} goes with --on model", profile.name);
    }
    ensure!(args.fault.is_none(), "--fault goes with --on model");
    Ok(())
}

/// A machine that nobody but QEMU has.
pub fn for_qemu_only(args: &Args, on: &str) -> Result<()> {
    let machine = args.machine();
    let is_usual = args.machine.is_none() || machine == Machine::default();
    ensure!(is_usual, "--machine {machine} has no meaning with {on}");
    Ok(())
}

/// What needs a guest.
fn for_guests_only(args: &Args, on: &str) -> Result<()> {
    for_machines_only(args, on)?;
    ensure!(args.cpus.is_none(), "--cpus has no meaning with {on}");
    Ok(())
}

/// The same where there are CPUs without a guest.
pub fn for_no_guest(args: &Args) -> Result<()> {
    for_machines_only(args, "the path console, which runs on the model")
}

fn for_machines_only(args: &Args, on: &str) -> Result<()> {
    for_kvm_only(args, on)?;
    for_qemu_only(args, on)?;
    ensure!(args.kernel.is_none(), "--kernel has no meaning with {on}");
    ensure!(
        args.qemu_arg.is_empty(),
        "--qemu-arg has no meaning with {on}"
    );
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

/// A time in seconds, of an hour at most.
pub fn seconds(number: &str) -> Result<Nanos, String> {
    let seconds: f64 = number
        .parse()
        .map_err(|_| format!("`{number}` is not a number of seconds"))?;
    if !(0.0..=3_600.0).contains(&seconds) {
        return Err("not from 0 to 3600 seconds".to_owned());
    }
    Ok(Nanos((seconds * 1e9) as u64))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A run on a machine that fails with `error`, and on another.
    fn run(
        error: anyhow::Error,
        has_next: bool,
    ) -> (Result<(&'static str, u8)>, Vec<&'static str>) {
        let mut tried = Vec::new();
        let mut error = Some(error);
        let next = has_next.then_some(|| Ok("next"));
        let result = or_next("first", next, |machine| {
            tried.push(*machine);
            error.take().map_or(Ok(1), Err)
        });
        (result, tried)
    }

    #[test]
    fn a_machine_that_fails_is_not_the_end_where_there_is_another() {
        let (result, tried) = run(nostall_vm::Error::Reset.into(), true);
        assert_eq!(result.unwrap(), ("next", 1));
        assert_eq!(tried, ["first", "next"]);

        let (result, tried) = run(nostall_vm::Error::Reset.into(), false);
        assert!(
            result
                .unwrap_err()
                .to_string()
                .contains("reset the machine")
        );
        assert_eq!(tried, ["first"]);
    }

    #[test]
    fn what_is_not_the_machines_fault_is_not_tried_on_another() {
        let (result, tried) = run(anyhow::anyhow!("--capture x: full"), true);
        assert_eq!(result.unwrap_err().to_string(), "--capture x: full");
        assert_eq!(tried, ["first"]);
    }

    #[test]
    fn the_next_machine_may_fail_as_well() {
        let failed = |_: &u8| -> Result<()> { Err(nostall_vm::Error::Undone.into()) };
        let error = or_next(1, Some(|| Ok(2)), failed).unwrap_err();
        assert!(error.is::<nostall_vm::Error>());
    }
}

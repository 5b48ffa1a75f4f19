//! Which machine to run on.

use std::borrow::Cow;

use anyhow::{Result, anyhow, bail, ensure};
use nostall_vm::qemu::{Qemu, QemuBoard};
use nostall_vm::{Device, Error, GuestRun, Machine, Need};

use super::args::{Common, GivenOption, OnArg};
use super::kvm::{self, OnKvm};
use crate::{kernel, output};

/// A machine, and its kernel.
pub enum On {
    /// QEMU, and the kernel that it boots.
    Qemu {
        qemu: Qemu,
        kernel: Cow<'static, [u8]>,
    },
    /// Our own machine.
    Kvm(OnKvm),
    /// No guest.
    Model,
}

impl On {
    /// Stable word for it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Qemu { .. } => OnArg::Qemu.name(),
            Self::Kvm(_) => OnArg::Kvm.name(),
            Self::Model => OnArg::Model.name(),
        }
    }

    /// Returns the kernel that a guest boots; empty without a guest.
    pub fn kernel(&self) -> &[u8] {
        match self {
            Self::Qemu { kernel, .. } | Self::Kvm(OnKvm { kernel, .. }) => kernel,
            Self::Model => &[],
        }
    }

    /// Returns the machine that runs a guest, if there is one.
    pub fn machine(&self) -> Option<&dyn Machine> {
        match self {
            Self::Qemu { qemu, .. } => Some(qemu),
            Self::Kvm(on) => Some(&on.kvm),
            Self::Model => None,
        }
    }

    /// Returns whether the machine, or the model, has a device.
    pub fn has(&self, device: Device) -> bool {
        let devices = &[device];
        let need = Need { devices, cpus: 1 };
        self.machine()
            .is_none_or(|machine| machine.offers(&need).is_ok())
    }

    /// Returns how often everything is measured, where `usual` is for real time. Virtual time is
    /// the same every time.
    pub fn rounds(&self, usual: u16) -> u16 {
        match self {
            Self::Qemu { .. } => usual,
            Self::Kvm(on) => on.rounds(usual),
            Self::Model => 1,
        }
    }
}

/// Returns the reason why there is no such machine in QEMU, if there is none.
pub fn lacks_qemu(common: &Common, board: QemuBoard) -> Option<String> {
    let kernel = kernel::find(common.kernel.as_deref(), board.architecture());
    let found = kernel.and_then(|_| Ok(Qemu::find(board)?));
    let why = found.err()?.to_string();
    // The rest is advice to the user.
    let (what, _) = why.split_once(": ").unwrap_or((&why, ""));
    Some(what.to_owned())
}

/// Describes the machine of a run in QEMU, on CPUs as described.
pub fn on_qemu(path: &str, qemu: &Qemu, cpus: &str, ran: &GuestRun) -> String {
    let up = ran.first_report.as_secs_f64();
    format!("{path} on {}, {cpus}; up after {up:.2} s", qemu.describe())
}

/// The machine that the arguments ask for.
pub struct MachineRequest<'a> {
    pub common: &'a Common,
    /// QEMU's machine.
    pub board: QemuBoard,
    /// Requirements of the experiment.
    pub need: Need<'static>,
    /// Machines that `auto` chooses from; the best comes first.
    pub best: &'static [OnArg],
    pub given: Vec<GivenOption>,
    /// Options of KVM's machine.
    pub kvm: nostall_vm::kvm::Options,
}

/// A machine that was looked for.
enum Found {
    Machine(On),
    /// It is not as good as the next one; in a line, if there is something to say.
    Unused(Option<String>),
}

impl MachineRequest<'_> {
    /// Runs `measure` on the machine that the arguments ask for. A machine that `auto` chose and
    /// that is not there, or fails as a machine, is no end if there is another. A note reports it,
    /// and the other one runs. Nothing that was asked for is dropped in silence.
    pub fn on_best<T>(
        &self,
        mut measure: impl FnMut(&On, Option<&str>) -> Result<T>,
    ) -> Result<(On, T)> {
        let named = [self.common.on];
        let candidates = match self.common.on {
            OnArg::Auto => self.best,
            _ => &named,
        };
        let mut able = Vec::new();
        let mut refusal = None;
        for &on in candidates {
            match self.offers(on) {
                Ok(()) => able.push(on),
                // QEMU has the most options: its refusal says most.
                Err(why) if refusal.is_none() || on == OnArg::Qemu => refusal = Some(why),
                Err(_) => {}
            }
        }
        let mut note: Option<String> = None;
        for (n, &on) in able.iter().enumerate() {
            let is_last = n + 1 == able.len();
            let found = match self.find(on, is_last) {
                Ok(Found::Machine(found)) => found,
                Ok(Found::Unused(why)) => {
                    note = why;
                    continue;
                }
                Err(error) if is_last => return Err(error),
                Err(error) => {
                    output::note(format_args!("{error}"));
                    output::note(format_args!("going on with --on {}", able[n + 1].name()));
                    continue;
                }
            };
            match measure(&found, note.as_deref()) {
                // An error that is not the machine's would fail on another one as well.
                Err(error) if !is_last && error.is::<nostall_vm::Error>() => {
                    let name = found.name();
                    output::note(format_args!(
                        "going on without --on {name}, which failed: {error}"
                    ));
                }
                measured => return Ok((found, measured?)),
            }
        }
        Err(refusal.unwrap_or_else(|| anyhow!("there is no machine to run on")))
    }

    /// Whether everything that was asked for has a meaning on `on`.
    fn offers(&self, on: OnArg) -> Result<()> {
        for given in &self.given {
            let has_meaning = given.on.contains(&on);
            let (option, instead) = (&given.option, given.on.iter().map(|on| on.name()));
            let instead = instead.collect::<Vec<_>>().join(" and --on ");
            let on = on.name();
            ensure!(
                has_meaning,
                "{option} has no meaning with --on {on}: it goes with --on {instead}"
            );
        }
        let offers = match on {
            OnArg::Qemu => self.board.offers(&self.need),
            OnArg::Kvm => nostall_vm::kvm::offers(&self.need),
            OnArg::Model | OnArg::Auto => Ok(()),
        };
        match offers {
            Err(Error::Cpus {
                machine,
                cpus,
                most,
            }) => bail!("--cpus {cpus}: {machine} has {most} at most that run a kernel"),
            offers => Ok(offers?),
        }
    }

    fn find(&self, on: OnArg, is_last: bool) -> Result<Found> {
        let kernel = self.common.kernel.as_deref();
        Ok(Found::Machine(match on {
            OnArg::Qemu => {
                // First the arguments' mistakes, then the system's.
                let kernel = kernel::find(kernel, self.board.architecture())?;
                let qemu = Qemu::find(self.board)?;
                On::Qemu { qemu, kernel }
            }
            OnArg::Kvm if is_last => On::Kvm(kvm::find(kernel, self.kvm)?),
            OnArg::Kvm => match kvm::find_if_good(kernel, self.kvm) {
                Ok(found) => On::Kvm(found),
                Err(why) => return Ok(Found::Unused(why)),
            },
            OnArg::Model | OnArg::Auto => On::Model,
        }))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        common: Common,
    }

    /// A run on the model, or on the machines of a list, the first of which fails with `error`.
    fn run(
        error: anyhow::Error,
        best: &'static [OnArg],
    ) -> (Result<&'static str>, Vec<&'static str>) {
        let Arguments { common } = Arguments::parse_from(["nostall"]);
        let wish = MachineRequest {
            common: &common,
            board: QemuBoard::default(),
            need: Need {
                devices: &[],
                cpus: 1,
            },
            best,
            given: Vec::new(),
            kvm: Default::default(),
        };
        let mut tried = Vec::new();
        let mut error = Some(error);
        let result = wish.on_best(|on, _| {
            tried.push(on.name());
            error.take().map_or(Ok(()), Err)
        });
        (result.map(|(on, ())| on.name()), tried)
    }

    const TWO: &[OnArg] = &[OnArg::Model, OnArg::Model];

    #[test]
    fn a_machine_that_fails_is_not_the_end_where_there_is_another() {
        let (result, tried) = run(nostall_vm::Error::Reset.into(), TWO);
        assert_eq!(result.unwrap(), "model");
        assert_eq!(tried, ["model", "model"]);

        let (result, tried) = run(nostall_vm::Error::Reset.into(), &[OnArg::Model]);
        let error = result.unwrap_err().to_string();
        assert!(error.contains("reset the machine"), "{error}");
        assert_eq!(tried, ["model"]);
    }

    #[test]
    fn faults_beside_the_machine_are_not_tried_on_another() {
        let (result, tried) = run(anyhow!("--capture x: full"), TWO);
        assert_eq!(result.unwrap_err().to_string(), "--capture x: full");
        assert_eq!(tried, ["model"]);
    }

    #[test]
    fn the_next_machine_may_fail_as_well() {
        let Arguments { common } = Arguments::parse_from(["nostall"]);
        let wish = MachineRequest {
            common: &common,
            board: QemuBoard::default(),
            need: Need {
                devices: &[],
                cpus: 1,
            },
            best: TWO,
            given: Vec::new(),
            kvm: Default::default(),
        };
        let failed =
            |_: &On, _: Option<&str>| -> Result<()> { Err(nostall_vm::Error::Undone.into()) };
        let error = wish.on_best(failed).err().unwrap();
        assert!(error.is::<nostall_vm::Error>());
    }
}

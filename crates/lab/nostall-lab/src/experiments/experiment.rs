//! An experiment: how it is run, and its result.

use std::borrow::Cow;
use std::env;
use std::fmt::Display;
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use clap::Command;
use nostall_vm::qemu::QemuBoard;
use nostall_vm::{Device, Guest, GuestRun, Need};
use serde::Serialize;

use super::args::{self, Common, GivenOption, OnArg};
use super::document::{self, Results};
use super::files::Files;
use super::kvm::OnKvm;
use super::on::{self, On};
use super::peers::{self, PeerArg, PeerStates};
use super::tour::row::TourRows;
use super::verdict::closing;
use crate::report::page::Supplied;
use crate::report::part::PagePart;
use nostall_figures::figure::{Figure, Figures};
use nostall_figures::table::cpus;

/// An experiment, which is its own arguments.
pub trait Experiment: clap::Args {
    /// Its name on the command line and in documents.
    const NAME: &'static str;

    /// Its rows of the tour.
    const TOUR: TourRows;

    /// Its part of a page, with its metrics.
    const PAGE: PagePart;

    /// Machines that `auto` chooses from; the best comes first.
    const BEST: &'static [OnArg];

    /// Devices that it is about.
    const DEVICES: &'static [Device] = &[];

    /// CPUs of the guest, if `--cpus` names no number.
    const CPUS: u16 = 1;

    /// Numbers that `--cpus` may name.
    const CPU_RANGE: RangeInclusive<u16>;

    /// The comparison with Linux, where there is one.
    const PEERS: Option<&'static peers::PeerComparison> = None;

    /// Data that is read before a machine is looked for, so that mistakes in arguments come first.
    type Input;

    /// Further lists in the document for programs: a struct with a field for each.
    type Found: Serialize;

    /// The arguments of every experiment.
    fn common(&self) -> &Common;

    /// CPUs of the guest.
    fn cpus(&self) -> u16 {
        self.common().cpus.unwrap_or(Self::CPUS)
    }

    /// The guest that boots `kernel`, without work.
    fn guest<'a>(&'a self, kernel: &'a [u8]) -> Guest<'a> {
        Guest {
            qemu_args: &self.common().qemu_arg,
            ..Guest::new(kernel, self.cpus())
        }
    }

    /// QEMU's machine, if `--machine` names none.
    fn usual_board(&self) -> QemuBoard {
        QemuBoard::default()
    }

    /// Returns the options of KVM's machine.
    fn kvm_options(&self) -> nostall_vm::kvm::Options {
        nostall_vm::kvm::Options::default()
    }

    /// Describes the CPUs of a guest in QEMU.
    fn cpus_in_words(&self) -> String {
        cpus(self.cpus())
    }

    /// Describes the machine that a guest ran on, in KVM.
    fn headline_on_kvm(&self, on: &OnKvm, ran: &GuestRun) -> String {
        on.headline_of(&format!("{} on kvm", Self::NAME), ran, on.kvm.notes())
    }

    /// Options that were given, and have no meaning on some machine.
    fn given(&self) -> Vec<GivenOption> {
        self.common().given_cpus()
    }

    /// Checks the arguments, and reads the files that they name.
    fn read(&self) -> Result<Self::Input>;

    /// Runs on `on`. `note` is a line about the choice of machine.
    fn measure(
        &self,
        on: &On,
        note: Option<&str>,
        input: &Self::Input,
    ) -> Result<Answer<Self::Found>>;

    /// Measures nostall beside the peers, on a machine in QEMU.
    fn measure_beside(&self, on: &On, input: &Self::Input) -> Result<Vec<Figure>> {
        Ok(self.measure(on, None, input)?.figures.to_vec())
    }
}

/// Adds the arguments of an experiment, narrowed to the values that it can take.
pub fn command<E: Experiment>(command: Command) -> Command {
    E::augment_args(command)
        .mut_arg("on", args::on(E::BEST))
        .mut_arg("machine", args::boards(E::DEVICES))
        .mut_arg("cpus", args::cpus(E::CPUS, E::CPU_RANGE))
}

/// Result of an experiment.
pub struct Answer<F = ()> {
    /// Text for people.
    pub text: String,
    /// Figures for programs.
    pub figures: Figures,
    /// Further lists in the document for programs.
    pub found: F,
    /// In one line, if it is not as it should be.
    pub failure: Option<String>,
}

impl<F> Answer<F> {
    /// Ends a text of `parts` with the faults, or else with `success`. The first fault is the
    /// failure.
    pub fn of(
        mut parts: Vec<String>,
        figures: Figures,
        found: F,
        faults: Vec<String>,
        success: impl FnOnce(&Figures) -> String,
    ) -> Self {
        parts.push(closing("Not as it should be", &faults, || {
            success(&figures)
        }));
        Self {
            text: parts.join("\n\n"),
            figures,
            found,
            failure: faults.into_iter().next(),
        }
    }
}

/// Returns the reason why the machine that the arguments name is not there, if it is not.
pub fn lacks<E: Experiment>(experiment: &E) -> Option<String> {
    let common = experiment.common();
    match common.on {
        OnArg::Qemu => on::lacks_qemu(common, board(experiment)),
        OnArg::Kvm => super::kvm::lacks(common.kernel.as_deref()),
        _ => None,
    }
}

fn board<E: Experiment>(experiment: &E) -> QemuBoard {
    let named = experiment.common().machine;
    named.unwrap_or_else(|| experiment.usual_board())
}

/// Runs an experiment on the machine that its arguments ask for, and the peers beside it.
pub fn answer<E: Experiment>(experiment: &E) -> Result<(On, Answer<E::Found>, PeerStates)> {
    let input = experiment.read()?;
    let common = experiment.common();
    let wish = on::MachineRequest {
        common,
        board: board(experiment),
        need: Need {
            devices: E::DEVICES,
            cpus: experiment.cpus(),
        },
        best: E::BEST,
        given: common
            .given()
            .into_iter()
            .chain(experiment.given())
            .collect(),
        kvm: experiment.kvm_options(),
    };
    let (on, mut answer) = wish.on_best(|on, note| experiment.measure(on, note, &input))?;
    let beside = add_peers(experiment, &input, &mut answer);
    Ok((on, answer, beside))
}

/// Adds the rows of the peers that the arguments name, and returns the state of each.
fn add_peers<E: Experiment>(
    experiment: &E,
    input: &E::Input,
    answer: &mut Answer<E::Found>,
) -> PeerStates {
    let common = experiment.common();
    let linuxes = PeerArg::linuxes(&common.peers);
    if linuxes.is_empty() {
        return PeerStates::default();
    }
    let (text, beside) = match E::PEERS {
        None => {
            let text = "Linux has no rows in this experiment.".to_owned();
            (text, PeerStates::default())
        }
        Some(part) => {
            let compared =
                peers::compare((E::NAME, part), &linuxes, common.kernel.as_deref(), |on| {
                    experiment.measure_beside(on, input)
                });
            answer.figures.add(compared.figures);
            (compared.text, compared.beside)
        }
    };
    answer.text += "\n\n";
    answer.text += &text;
    beside
}

/// Runs an experiment, and writes the result to the files and streams that its arguments name.
pub fn run<E: Experiment>(experiment: &E, supplied: Supplied) -> Result<()> {
    let files = &experiment.common().files;
    files.probe()?;
    let (on, mut answer, beside) = answer(experiment)?;

    // Files first: a reader of our output may stop reading.
    let arguments = env::args_os().skip(1);
    let arguments = arguments.map(|one| one.to_string_lossy().into_owned());
    answer.figures.set_command(&command_line(arguments));
    let results = Results {
        machines: vec![&on],
        beside,
        figures: answer.figures.to_vec(),
        found: answer.found,
    };
    let written = document::write(files, &results, supplied);
    // The table is not lost with the file.
    files.print(&answer.text)?;
    written?;
    answer.failure.map_or(Ok(()), |failure| bail!(failure))
}

/// Returns the command line with these arguments, for a shell. Files of figures are left out.
pub fn command_line(mut arguments: impl Iterator<Item = String>) -> String {
    let mut line = "nostall-lab".to_owned();
    while let Some(argument) = arguments.next() {
        let option = argument.split('=').next().unwrap_or_default();
        let names_file = Files::OPTIONS.contains(&option);
        if names_file && option == argument {
            arguments.next();
        } else if !names_file {
            line.push(' ');
            line += &quoted(&argument);
        }
    }
    line
}

/// Quotes an argument for a shell, if it needs that.
fn quoted(argument: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/+@%".contains(c);
    match !argument.is_empty() && argument.chars().all(is_plain) {
        true => argument.into(),
        false => format!("'{}'", argument.replace('\'', r"'\''")).into(),
    }
}

/// Writes each of `captures` to a file of its name in `dir`.
pub fn capture<'a, N: Display>(
    dir: &Path,
    captures: impl IntoIterator<Item = (N, &'a [u8])>,
) -> Result<()> {
    let write = || -> io::Result<()> {
        fs::create_dir_all(dir)?;
        for (name, bytes) in captures {
            fs::write(dir.join(format!("{name}.bin")), bytes)?;
        }
        Ok(())
    };
    ensure!(
        dir.is_dir() || !dir.exists(),
        "--capture {}: a file, not a directory",
        dir.display()
    );
    write().with_context(|| format!("--capture {}", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figures_command_line_can_be_given_to_a_shell() {
        let given = |words: &[&str]| command_line(words.iter().map(|word| (*word).to_owned()));
        assert_eq!(
            given(&["run", "uart", "--json", "f", "--bytes", "9", "--json=f"]),
            "nostall-lab run uart --bytes 9"
        );
        assert_eq!(
            given(&["run", "--report", "f", "pci", "--report=f"]),
            "nostall-lab run pci"
        );
        assert_eq!(given(&["run", "it's"]), r"nostall-lab run 'it'\''s'");
    }
}

//! The report: each path with its verdict, and the remedies in the order of their effect.

use std::collections::BTreeMap;

use serde::Serialize;

use super::machine::Machine;
use super::system::{Missing, System};

/// Everything that the command says.
#[derive(Serialize)]
pub struct Report {
    pub schema: u32,
    #[serde(flatten)]
    pub machine: Machine,
    pub paths: Vec<Finding>,
    pub remedies: Vec<Remedy>,
    pub missing: Vec<Missing>,
}

/// Judgement of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Stalls,
    Costs,
    Fine,
    Absent,
    Unknown,
}

/// A path with its verdict.
#[derive(Serialize)]
pub struct Finding {
    pub path: String,
    pub verdict: Verdict,
    pub reason: String,
    /// The numbers in the reason.
    pub figures: BTreeMap<&'static str, u64>,
    #[serde(skip)]
    pub remedies: Vec<Remedy>,
}

/// A way to mend a path.
#[derive(Serialize)]
pub struct Remedy {
    pub path: String,
    /// Percent of the path's cost that is left, about: the order of the remedies.
    #[serde(skip)]
    left: u64,
    pub text: String,
    pub commands: Vec<String>,
    /// Drawback of the remedy; empty if there is none.
    pub loses: &'static str,
    pub source: &'static str,
}

impl Report {
    pub fn new(machine: Machine, mut paths: Vec<Finding>, missing: Vec<Missing>) -> Self {
        let findings = paths.iter_mut();
        let mut remedies: Vec<_> = findings.flat_map(|path| path.remedies.drain(..)).collect();
        remedies.sort_by_key(|remedy| remedy.left);
        Self {
            schema: 1,
            machine,
            paths,
            remedies,
            missing,
        }
    }
}

impl Finding {
    pub fn new(path: impl Into<String>, verdict: Verdict, reason: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            verdict,
            reason: reason.into(),
            figures: BTreeMap::new(),
            remedies: Vec::new(),
        }
    }

    /// Adds the numbers in these files of a folder, and returns them.
    pub fn read<const N: usize>(
        &mut self,
        system: &System,
        folder: &str,
        files: [&'static str; N],
        answer: &'static str,
    ) -> [Option<u64>; N] {
        let numbers = files.map(|file| system.number(&format!("{folder}/{file}"), answer));
        let known = files.into_iter().zip(numbers);
        let known = known.filter_map(|(file, number)| Some((file, number?)));
        self.figures.extend(known);
        numbers
    }

    /// Adds a remedy, of whose path's cost so many percent are left.
    pub fn mend(&mut self, left: u64, text: impl Into<String>) -> &mut Remedy {
        self.remedies.push(Remedy {
            path: self.path.clone(),
            left,
            text: text.into(),
            commands: Vec::new(),
            loses: "",
            source: "",
        });
        self.remedies.last_mut().expect("a remedy was added")
    }
}

impl Remedy {
    pub fn command(&mut self, command: impl Into<String>) -> &mut Self {
        self.commands.push(command.into());
        self
    }

    pub const fn but(&mut self, loses: &'static str) -> &mut Self {
        self.loses = loses;
        self
    }

    pub const fn source(&mut self, source: &'static str) {
        self.source = source;
    }
}

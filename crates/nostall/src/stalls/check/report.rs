//! The report: each path with its verdict, and the remedies in the order of their effect.

use std::collections::BTreeMap;

use serde::Serialize;

use super::machine::Machine;
use super::system::Missing;

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
        let mut remedies = Vec::new();
        for finding in &mut paths {
            for mut remedy in finding.remedies.drain(..) {
                remedy.path.clone_from(&finding.path);
                remedies.push(remedy);
            }
        }
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

    pub fn with(mut self, remedy: Remedy) -> Self {
        self.remedies.push(remedy);
        self
    }
}

impl Remedy {
    pub fn new(
        left: u64,
        text: impl Into<String>,
        commands: &[&str],
        loses: &'static str,
        source: &'static str,
    ) -> Self {
        Self {
            path: String::new(),
            left,
            text: text.into(),
            commands: commands.iter().map(|&command| command.into()).collect(),
            loses,
            source,
        }
    }
}

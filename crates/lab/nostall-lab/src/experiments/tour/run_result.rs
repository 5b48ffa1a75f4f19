//! One run of the tour.

use anyhow::Result;
use clap::Command;
use nostall_vm::Error;
use serde_json::{Map, Value};

use crate::experiments::document::Results;
use crate::experiments::experiment::{self, Experiment};
use crate::experiments::on::On;
use crate::experiments::peers::PeerStates;
use crate::report::drawing::DRAWINGS;
use nostall_figures::figure::Figure;

/// Makes a run of one experiment.
pub type Make = fn(arguments: &[&str]) -> Result<RunResult>;

/// Result of a run.
pub enum RunResult {
    Answered {
        on: On,
        /// Text for people.
        text: String,
        figures: Vec<Figure>,
        /// Further lists of the experiment.
        found: Map<String, Value>,
        /// Peers beside it.
        beside: PeerStates,
        failure: Option<String>,
    },
    /// The machine is not there.
    Lacks(String),
}

/// Makes a run of `E`.
pub fn make<E: Experiment>(arguments: &[&str]) -> Result<RunResult> {
    let command = experiment::command::<E>(Command::new("run").no_binary_name(true));
    let experiment = E::from_arg_matches(&command.try_get_matches_from(arguments)?)?;
    if let Some(why) = experiment::lacks(&experiment) {
        return Ok(RunResult::Lacks(why));
    }
    match experiment::answer(&experiment) {
        Ok((on, answer, beside)) => Ok(RunResult::Answered {
            on,
            beside,
            text: answer.text,
            figures: answer.figures.to_vec(),
            found: match serde_json::to_value(answer.found)? {
                Value::Object(found) => found,
                _ => Map::new(),
            },
            failure: answer.failure,
        }),
        Err(error) => match error.downcast_ref() {
            Some(Error::NoFirmware(_)) => Ok(RunResult::Lacks("no firmware (opensbi)".to_owned())),
            _ => Err(error),
        },
    }
}

impl RunResult {
    /// Gives every figure the command line that measures it again.
    pub fn set_command(&mut self, command: &str) {
        if let Self::Answered { figures, .. } = self {
            for figure in figures {
                figure.command = Some(command.to_owned());
            }
        }
    }
}

/// Gathers the figures of several runs. Drawings are kept once each, and other lists of the first
/// run that has one.
pub fn gathered<'a>(runs: impl Iterator<Item = &'a RunResult>) -> Results<'a, Map<String, Value>> {
    let mut all = Results {
        machines: Vec::new(),
        beside: PeerStates::default(),
        figures: Vec::new(),
        found: Map::new(),
    };
    for run in runs {
        let RunResult::Answered {
            on,
            figures,
            found,
            beside,
            ..
        } = run
        else {
            continue;
        };
        all.machines.push(on);
        all.beside.add(beside);
        all.figures.extend_from_slice(figures);
        for (name, list) in found {
            let Some(known) = all.found.get_mut(name) else {
                all.found.insert(name.clone(), list.clone());
                continue;
            };
            if let (DRAWINGS, Value::Array(known), Value::Array(new)) = (&**name, known, list) {
                for drawing in new {
                    if !known.contains(drawing) {
                        known.push(drawing.clone());
                    }
                }
            }
        }
    }
    all
}

//! A run of the tour.

use anyhow::Result;
use clap::Command;
use nostall_vm::Error;

use crate::experiments::experiment::{self, Experiment};
use crate::experiments::figure::Figure;
use crate::experiments::on::On;

/// Makes a run of one experiment.
pub type Make = fn(arguments: &[&str]) -> Result<Ran>;

/// Result of a run.
pub enum Ran {
    Answered {
        on: On,
        figures: Vec<Figure>,
        failure: Option<String>,
    },
    /// The machine is not there.
    Lacks(String),
}

/// Makes a run of `E`.
pub fn make<E: Experiment>(arguments: &[&str]) -> Result<Ran> {
    let command = E::augment_args(Command::new("run").no_binary_name(true));
    let experiment = E::from_arg_matches(&command.try_get_matches_from(arguments)?)?;
    if let Some(why) = experiment::lacks(&experiment) {
        return Ok(Ran::Lacks(why));
    }
    match experiment::answer(&experiment) {
        Ok((on, answer)) => Ok(Ran::Answered {
            on,
            figures: answer.figures.to_vec(),
            failure: answer.failure,
        }),
        Err(error) => match error.downcast_ref() {
            Some(Error::NoFirmware(_)) => Ok(Ran::Lacks("no firmware (opensbi)".to_owned())),
            _ => Err(error),
        },
    }
}

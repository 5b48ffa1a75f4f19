//! An entry of the list of experiments.

use anyhow::Result;
use clap::{ArgMatches, Command};

use super::experiment::{self, Experiment};
use super::tour::ran::{self, Make};
use super::tour::row::Part;
use crate::report::page::Summary;

/// An experiment with arguments of any type.
pub struct Entry {
    pub name: &'static str,
    pub command: fn(Command) -> Command,
    pub parse: fn(&ArgMatches, Summary) -> Result<Run, clap::Error>,
    pub tour: Part,
    /// Makes a run of the tour.
    pub make: Make,
}

pub type Run = Box<dyn FnOnce() -> Result<()>>;

impl Entry {
    pub const fn of<E: Experiment + 'static>(name: &'static str, tour: Part) -> Self {
        Self {
            name,
            command: E::augment_args,
            parse: |matches, summary| {
                let experiment = E::from_arg_matches(matches)?;
                Ok(Box::new(move || experiment::run(&experiment, summary)))
            },
            tour,
            make: ran::make::<E>,
        }
    }
}

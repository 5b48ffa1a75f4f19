//! An entry of the list of experiments.

use anyhow::Result;
use clap::{ArgMatches, Command};

use super::experiment::{self, Experiment};
use super::tour::row::TourRows;
use super::tour::run_result::{self, Make};
use crate::report::page::Supplied;
use crate::report::part::PagePart;

/// An experiment with arguments of any type.
pub struct Entry {
    pub name: &'static str,
    pub command: fn(Command) -> Command,
    pub parse: fn(&ArgMatches, Supplied) -> Result<Run, clap::Error>,
    pub tour: TourRows,
    pub page: PagePart,
    /// Makes a run of the tour.
    pub make: Make,
}

pub type Run = Box<dyn FnOnce() -> Result<()>>;

impl Entry {
    pub const fn of<E: Experiment + 'static>() -> Self {
        Self {
            name: E::NAME,
            command: experiment::command::<E>,
            parse: |matches, supplied| {
                let experiment = E::from_arg_matches(matches)?;
                Ok(Box::new(move || experiment::run(&experiment, supplied)))
            },
            tour: E::TOUR,
            page: E::PAGE,
            make: run_result::make::<E>,
        }
    }
}

//! Files for the figures of a run.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use nostall_postmortem::cli::output;

use crate::report::file::{is_stdout, probe};

/// Arguments that name the files.
#[derive(Clone, Default, clap::Args)]
pub struct Files {
    /// Write the figures to FILE as JSON; `-` is standard output, and tables go to stderr then
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write a page with charts to FILE, for a browser
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
}

impl Files {
    /// The options, in the order of the fields.
    pub const OPTIONS: [&str; 2] = ["--json", "--report"];

    /// Fails if a file cannot be written, before a run takes its time.
    pub fn probe(&self) -> Result<()> {
        for (option, path) in Self::OPTIONS.iter().zip([&self.json, &self.report]) {
            path.as_deref().map_or(Ok(()), |path| probe(option, path))?;
        }
        Ok(())
    }

    /// Prints text for people to standard output, or to stderr if a file is written there.
    pub fn print(&self, text: &str) -> Result<()> {
        let files = [&self.json, &self.report];
        if files.into_iter().flatten().any(|path| is_stdout(path)) {
            return writeln!(io::stderr(), "{text}").context("standard error");
        }
        output::to_stdout(|out| writeln!(out, "{text}"))
    }

    /// Whether a file is to be written.
    pub const fn are_named(&self) -> bool {
        self.json.is_some() || self.report.is_some()
    }
}

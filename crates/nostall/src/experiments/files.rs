//! Files for the figures of a run.

use std::path::PathBuf;

use anyhow::Result;

use crate::report::file::probe;

/// Arguments that name the files.
#[derive(Clone, Default, clap::Args)]
pub struct Files {
    /// Write the figures to FILE as JSON
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

    /// Whether a file is to be written.
    pub const fn are_named(&self) -> bool {
        self.json.is_some() || self.report.is_some()
    }
}

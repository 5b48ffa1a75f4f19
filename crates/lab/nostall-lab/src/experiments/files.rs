//! Files for the figures of a run.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use nostall_postmortem::cli::output;

use crate::report::file::{is_stdout, probe};

/// Arguments that name the files.
#[derive(Clone, Default, clap::Args)]
pub struct Files {
    /// Write the figures to FILE as JSON; with `-`, to standard output, and the tables to stderr
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write a page of HTML with charts to FILE
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
}

impl Files {
    /// The options, in the order of the fields.
    pub const OPTIONS: [&str; 2] = ["--json", "--report"];

    /// Fails if a file cannot be written, or if one would replace the other, before a run takes
    /// its time.
    pub fn probe(&self) -> Result<()> {
        if let (Some(json), Some(report)) = (&self.json, &self.report) {
            let is_same = json == report
                || matches!((json.canonicalize(), report.canonicalize()), (Ok(a), Ok(b)) if a == b);
            ensure!(
                !is_same,
                "--json and --report name the same file, {}: name two",
                json.display()
            );
        }
        for (option, path) in Self::OPTIONS.iter().zip([&self.json, &self.report]) {
            path.as_deref().map_or(Ok(()), |path| probe(option, path))?;
        }
        Ok(())
    }

    /// Whether one of the files is standard output.
    fn take_stdout(&self) -> bool {
        let files = [&self.json, &self.report];
        files.into_iter().flatten().any(|path| is_stdout(path))
    }

    /// Prints text for people to standard output, or to stderr if a file is written there. If the
    /// reader has closed it, files that are named are still written.
    pub fn print(&self, text: &str) -> Result<()> {
        if self.take_stdout() {
            return writeln!(io::stderr(), "{text}").context("standard error");
        }
        match output::to_stdout(|out| writeln!(out, "{text}")) {
            Err(error) if self.are_named() && output::is_closed(&error) => Ok(()),
            printed => printed,
        }
    }

    /// Whether a file is to be written.
    pub const fn are_named(&self) -> bool {
        self.json.is_some() || self.report.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_and_page_in_one_file_are_refused_before_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let (file, other) = (dir.path().join("file"), dir.path().join("other"));
        let probe = |json: &PathBuf, report: &PathBuf| {
            let files = Files {
                json: Some(json.clone()),
                report: Some(report.clone()),
            };
            files.probe().map_err(|error| error.to_string())
        };
        let refused = "--json and --report name the same file, ";
        assert!(probe(&file, &file).unwrap_err().starts_with(refused));
        assert!(probe(&"-".into(), &"-".into()).is_err());
        assert_eq!(probe(&file, &other), Ok(()));
        std::fs::write(&file, "old").unwrap();
        let longer = dir
            .path()
            .join(".")
            .join("..")
            .join(dir.path().file_name().unwrap());
        let error = probe(&file, &longer.join("file")).unwrap_err();
        assert!(error.starts_with(refused), "{error}");
    }
}

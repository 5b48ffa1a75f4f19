//! `nostall trace report`: what ran, how long, and where it stalled.

use std::path::PathBuf;

use anyhow::Result;

use super::input;

/// Report on traces
#[derive(clap::Args)]
pub struct Args {
    /// Traces: recordings of nostall, trace.dat, text of ftrace, images of crashed machines
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
}

/// Prints the report.
///
/// # Errors
///
/// If an input cannot be read or the output cannot be written.
pub fn run(args: &Args) -> Result<()> {
    for path in &args.inputs {
        input::open(path)?;
    }
    Ok(())
}

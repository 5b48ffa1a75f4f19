//! The `nostall-postmortem` command: `nostall postmortem` as a separate program.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::CommandFactory;
use nostall_postmortem::cli::{self, AFTER, Args, output};

fn main() -> ExitCode {
    let command = Args::command()
        .max_term_width(100)
        .after_long_help(AFTER.replace("nostall postmortem", "nostall-postmortem"));
    match output::parse(output::with_version(output::with_color(command), &[])) {
        Ok(args) => cli::run(&args).unwrap_or_else(|error| output::fail(&error)),
        Err(status) => status,
    }
}

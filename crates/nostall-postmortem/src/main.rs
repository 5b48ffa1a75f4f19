//! The `nostall-postmortem` command: `nostall postmortem` as a separate program.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use nostall_postmortem::cli::{self, AFTER, Args};

fn main() -> ExitCode {
    let command = Args::command()
        .version(env!("CARGO_PKG_VERSION"))
        .max_term_width(100)
        .after_long_help(AFTER.replace("nostall postmortem", "nostall-postmortem"));
    let args = Args::from_arg_matches(&command.get_matches());
    let args = args.unwrap_or_else(|error| error.exit());
    cli::run(&args).unwrap_or_else(|error| cli::output::fail(&error))
}

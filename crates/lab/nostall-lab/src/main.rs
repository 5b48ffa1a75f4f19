//! The `nostall-lab` command.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    nostall_lab::main()
}

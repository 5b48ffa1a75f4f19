//! A service that records itself, and that a supervisor restarts.
//!
//!     cargo run -p nostall-trace --features program --example service

// ANCHOR: start
use std::{env, path::Path};

use nostall_trace::{ProgramOptions, ProgramTrace};

/// Records in the directory that systemd makes for the service (`StateDirectory=`), or here.
fn start_trace() {
    let folder = env::var("STATE_DIRECTORY").unwrap_or(".".to_owned());
    let options = ProgramOptions {
        kept: 20, // earlier recordings
        ..ProgramOptions::DEFAULT
    };
    if let Err(error) = ProgramTrace::create(Path::new(&folder).join("server.trace"), &options) {
        eprintln!("no trace in {folder}: {error}"); // the service goes on
    }
}
// ANCHOR_END: start

fn main() {
    start_trace();
    nostall_trace::trace_scope!("serve");
}

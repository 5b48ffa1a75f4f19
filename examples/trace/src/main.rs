//! A server that records its functions into a file. The trace survives SIGKILL.

use std::{hint, io};

use nostall_trace::{ProgramOptions, ProgramTrace, traced};

fn main() -> io::Result<()> {
    ProgramTrace::create("server.trace", &ProgramOptions::DEFAULT)?;
    for request in 1..=1_000 {
        answer(request);
    }
    answer(0);
    Ok(())
}

#[traced(arg = request)] // the argument is recorded
fn answer(request: u32) {
    parse(request);
    search(request);
}

#[traced]
fn parse(request: u32) {
    hint::black_box(request.to_string());
}

#[traced]
fn search(request: u32) {
    let mut steps = 0_u32;
    // Request 0 never ends: the fault to find.
    while request == 0 || steps < 10_000 {
        steps = hint::black_box(steps).wrapping_add(1);
    }
}

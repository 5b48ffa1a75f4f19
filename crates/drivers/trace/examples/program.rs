//! A program that records its own functions: it counts the primes below a number with several
//! threads.
//!
//! ```text
//! cargo build --release --example program --features program
//! nostall trace run -- target/release/examples/program 300000
//! ```

use std::process::exit;
use std::{env, thread};

use nostall_trace::{ProgramOptions, ProgramTrace, trace_scope};

const THREADS: u32 = 2;

// ANCHOR: main
fn main() {
    // Records only if `nostall trace run` has started it. Without a recorder, each scope costs a
    // branch.
    match ProgramTrace::from_environment(&ProgramOptions::DEFAULT) {
        Ok(Some(trace)) => eprintln!("recording into {}", trace.path().display()),
        Ok(None) => {}
        Err(error) => {
            eprintln!("program: the trace: {error}");
            exit(1);
        }
    }
    // ANCHOR_END: main
    let below = env::args().nth(1).and_then(|below| below.parse().ok());
    let below: u32 = below.unwrap_or(100_000);
    let workers = (0..THREADS).map(|part| {
        let work = move || count(below, part);
        let worker = thread::Builder::new().name(format!("worker {part}"));
        worker.spawn(work)
    });
    let mut primes = 0;
    for worker in workers.collect::<Vec<_>>() {
        match worker.map(|worker| worker.join()) {
            Ok(Ok(count)) => primes += count,
            _ => exit(1),
        }
    }
    println!("{primes} primes below {below}");
}

/// Counts the primes of every second thousand of numbers.
fn count(below: u32, part: u32) -> usize {
    trace_scope!("count");
    let thousands = (0..below.div_ceil(1000)).filter(|thousand| thousand % THREADS == part);
    thousands
        .map(|it| sieve(it * 1000..below.min(it * 1000 + 1000)))
        .sum()
}

// ANCHOR: scope
fn sieve(numbers: std::ops::Range<u32>) -> usize {
    // The argument is recorded.
    trace_scope!("sieve", numbers.start);
    numbers.filter(|&number| is_prime(number)).count()
}
// ANCHOR_END: scope

fn is_prime(number: u32) -> bool {
    number > 1
        && (2..)
            .take_while(|divisor| divisor * divisor <= number)
            .all(|divisor| !number.is_multiple_of(divisor))
}

//! rftrace, in a separate program: all of its functions are instrumented, with nightly Rust.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use std::{env, fs};

use tempfile::TempDir;

/// Environment variable with the nightly toolchain, which rftrace requires.
const TOOLCHAIN: &str = "NOSTALL_NIGHTLY";

const MANIFEST: &str = r#"
[package]
name = "traced"
version = "0.0.0"
edition = "2021"
[dependencies]
rftrace = "=0.3.2"
rftrace-frontend = "=0.3.2"
[workspace]
"#;

/// Program that reads numbers from standard input. For each it makes so many instrumented calls,
/// and prints their duration in nanoseconds.
const PROGRAM: &str = r#"
extern crate rftrace as _;
use std::io::BufRead;
#[inline(never)]
fn traced(n: u64) -> u64 {
    std::hint::black_box(n)
}
fn main() {
    let _events = rftrace_frontend::init(1 << 16, true);
    for line in std::io::stdin().lock().lines() {
        let calls: u64 = line.unwrap().trim().parse().unwrap();
        rftrace_frontend::enable();
        let start = std::time::Instant::now();
        for n in 0..calls {
            traced(n);
        }
        let took = start.elapsed();
        rftrace_frontend::disable();
        println!("{}", took.as_nanos());
    }
}
"#;

/// A traced program; dropping it ends the program.
pub struct Rftrace {
    traced: Child,
    answers: BufReader<ChildStdout>,
    _folder: TempDir,
}

impl Drop for Rftrace {
    fn drop(&mut self) {
        _ = self.traced.kill();
        _ = self.traced.wait();
    }
}

impl Rftrace {
    /// Builds and starts the program, or returns the reason why that is impossible.
    pub fn start() -> Result<Self, String> {
        let nightly = env::var(TOOLCHAIN).map_err(|_| {
            format!(
                "needs nightly Rust: {TOOLCHAIN}=$(scripts/setup print-nightly), and its \
                 component llvm-tools (rustup component add)"
            )
        })?;
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let sources = folder.path().join("src");
        let write = |path: &Path, text| fs::write(path, text).map_err(|error| error.to_string());
        fs::create_dir(&sources).map_err(|error| error.to_string())?;
        write(&folder.path().join("Cargo.toml"), MANIFEST)?;
        write(&sources.join("main.rs"), PROGRAM)?;
        let build = Command::new("rustup")
            .args(["run", &nightly, "cargo", "build", "--release"])
            .env(
                "RUSTFLAGS",
                "-Zinstrument-mcount -Cforce-frame-pointers=yes",
            )
            .env("CARGO_TARGET_DIR", folder.path().join("target"))
            .current_dir(folder.path())
            .output()
            .map_err(|error| format!("rustup: {error}"))?;
        if !build.status.success() {
            let text = String::from_utf8_lossy(&build.stderr);
            let reason = text
                .lines()
                .find(|line| line.contains("error") || line.contains("Maybe"));
            return Err(format!(
                "does not build: {}",
                reason.unwrap_or_default().trim()
            ));
        }
        let mut traced = Command::new(folder.path().join("target/release/traced"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        let answers = traced.stdout.take().ok_or("no pipe")?;
        let mut rftrace = Self {
            traced,
            answers: BufReader::new(answers),
            _folder: folder,
        };
        let answer = rftrace.ask(1);
        answer
            .map(|_| rftrace)
            .ok_or_else(|| "the traced program ends at once".to_owned())
    }

    fn ask(&mut self, calls: u64) -> Option<Duration> {
        writeln!(self.traced.stdin.as_mut()?, "{calls}").ok()?;
        let mut answer = String::new();
        // rftrace's frontend prints additional lines.
        loop {
            answer.clear();
            if self.answers.read_line(&mut answer).ok()? == 0 {
                return None;
            }
            if let Ok(nanoseconds) = answer.trim().parse() {
                return Some(Duration::from_nanos(nanoseconds));
            }
        }
    }

    /// Returns the duration of `times` calls.
    pub fn calls(&mut self, times: u64) -> Duration {
        self.ask(times)
            .expect("the program that rftrace traces has ended")
    }
}

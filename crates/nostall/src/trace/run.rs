//! `nostall trace run`: runs a program that records itself, and reports.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use anyhow::{Context, Result, bail};
use clap::Parser;
use nostall_trace::VARIABLE;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::signal_name;

use super::report;
use crate::escape::escape_name;
use crate::output::note;

/// Run a program that records itself, and report when it ends or is killed
///
/// PROGRAM has to call `ProgramTrace::from_environment` of nostall-trace, which reads the path of
/// the recording from the environment variable NOSTALL_TRACE. The trace survives every end of the
/// program, even SIGKILL. SIGTERM and SIGHUP are passed on to PROGRAM.
#[derive(clap::Args)]
#[command(after_long_help = AFTER)]
pub struct Args {
    /// Record into FILE and keep it; an existing file is replaced
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Keep the recording, and print its path. Without --out and --keep, it is removed after the
    /// report
    #[arg(long)]
    keep: bool,

    /// Program to run, with its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

const AFTER: &str = "\
Examples:
  nostall trace run -- target/release/examples/program 100
  nostall trace run --out server.trace -- ./server --port 80
  nostall trace report server.trace --view graph --limit 50

Exit status: that of PROGRAM; 128 plus the number of the signal that ended it;
1 if there is no readable trace.";

/// Folder of recordings without `--out`. Its files are in memory, so recording does not wait for a
/// disk.
const SHARED_MEMORY: &str = "/dev/shm";

/// Runs the program, and prints the table of its functions.
///
/// # Errors
///
/// If the program cannot be started or has recorded nothing, or if the report fails.
pub fn run(args: &Args) -> Result<ExitCode> {
    let file = Recording::create(args)?;
    let Some((program, arguments)) = args.program.split_first() else {
        bail!("there is no program to run");
    };
    let name = escape_name(&program.to_string_lossy());
    // The terminal also sends these signals to the program. The command must survive to report.
    for signal in [SIGINT, SIGQUIT] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let mut command = Command::new(program);
    command.args(arguments).env(VARIABLE, &file.path);
    let status = status(command).with_context(|| name.clone())?;
    if let Some(signal) = status.signal() {
        let signal_name = signal_name(signal).unwrap_or("unknown");
        note(format_args!(
            "{name} was killed by signal {signal} ({signal_name})"
        ));
    }
    if fs::metadata(&file.path)?.len() == 0 {
        bail!(
            "{name} has recorded nothing: it has to call ProgramTrace::from_environment of \
             nostall-trace and to hold the functions that it records; its {status}"
        );
    }
    let reported = report::run(&Report::parse_from([Path::new("report"), &file.path]).args);
    file.keep(args);
    reported.map(|()| code(status))
}

/// Runs a program. Signals that ask this command to end are passed on to the program.
fn status(mut command: Command) -> io::Result<ExitStatus> {
    let mut signals = Signals::new([SIGTERM, SIGHUP])?;
    let end = signals.handle();
    let mut program = command.spawn()?;
    let pid = Pid::from_child(&program);
    // Names this process even after its end, unlike a number.
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    thread::scope(|scope| {
        scope.spawn(|| {
            for signal in signals.forever() {
                if let Some(signal) = Signal::from_named_raw(signal) {
                    // The program may have ended.
                    _ = pidfd_send_signal(&process, signal);
                }
            }
        });
        let status = program.wait();
        end.close();
        status
    })
}

/// Arguments of the report, with its defaults.
#[derive(Parser)]
struct Report {
    #[command(flatten)]
    args: report::Args,
}

/// Returns the status as a shell does.
fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.map_or(ExitCode::FAILURE, |code| ExitCode::from(code as u8))
}

/// File of a recording.
struct Recording {
    path: PathBuf,
    stays: bool,
}

impl Recording {
    /// Creates the empty file into which the program records.
    fn create(args: &Args) -> Result<Self> {
        let (path, stays) = match &args.out {
            Some(path) => (std::path::absolute(path)?, true),
            None => {
                let shared = Path::new(SHARED_MEMORY);
                let folder = match shared.is_dir() {
                    true => shared.to_owned(),
                    false => std::env::temp_dir(),
                };
                let name = format!("nostall-{}.trace", std::process::id());
                (folder.join(name), args.keep)
            }
        };
        // A program that still records into an older file continues in the removed one.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => File::create_new(&path).map(drop),
        }
        .with_context(|| escape_name(&path.to_string_lossy()))?;
        Ok(Self { path, stays })
    }

    /// Prints the name of a recording that was not named with `--out`.
    fn keep(&self, args: &Args) {
        if self.stays && args.out.is_none() {
            note(format_args!("the recording is in {}", self.path.display()));
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let is_empty = || fs::metadata(&self.path).is_ok_and(|file| file.len() == 0);
        if !self.stays || is_empty() {
            // The program may have removed it.
            _ = fs::remove_file(&self.path);
        }
    }
}

//! `nostall stalls`: what slow I/O costs a running Linux.

mod boot;
mod calls;
mod check;
mod holds;
mod live;
mod paths;
mod report;
mod tracefs;
mod wrap;

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, ensure};
use nostall_figures::table::time;
use nostall_tracefile::export::Perfetto;
use nostall_tracefile::model::{Source, TimeUnit};
use nostall_tracefile::read::open_dat;
use rustix::fs::{Access, access};
use rustix::io::Errno;

use self::holds::Holds;
use self::live::{Known, Limits, Measured};
use self::report::Report;
use self::tracefs::Tracefs;
use crate::escape::{escape_name, json_document};
use crate::output::{note, to_stdout};
use crate::trace::input;
use crate::whole_file;

/// Measure how long consoles, PCI, SPI and pstore hold this machine's CPUs
///
/// Traces a running Linux for a time, with an instance and probes of its own, which it removes at
/// the end. Needs root, and a kernel with kprobes (CONFIG_KPROBE_EVENTS). The time of a call is that
/// between entry and return of its function. A task that is preempted in between is counted whole.
///
/// With FILE, reports on a trace.dat of --record or of trace-cmd, or on text of ftrace, without
/// root.
#[derive(clap::Args)]
#[command(after_long_help = AFTER, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    /// Trace that was recorded elsewhere; - for standard input
    #[arg(value_name = "FILE",
          conflicts_with_all = ["seconds", "buffer", "max_overhead", "record", "boot"])]
    file: Option<PathBuf>,

    #[command(flatten)]
    limits: Limits,

    /// Keep the records in FILE, a trace.dat that trace-cmd opens
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Write the calls to FILE, for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,

    /// Write the report to FILE, without names of hosts and programs, to send it
    #[arg(long, value_name = "FILE")]
    report_file: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Print the kernel parameters that record a boot, or after such a boot its report
    #[arg(long, conflicts_with_all = ["seconds", "buffer", "max_overhead", "record"])]
    boot: bool,

    /// Print each change of tracefs that a measurement makes, as commands, and make none
    #[arg(long, conflicts_with_all = ["file", "boot"])]
    plan: bool,

    /// Remove what a killed run or --boot left in tracefs
    #[arg(long, conflicts_with_all = ["file", "boot", "plan"])]
    clean: bool,

    /// Print the trace-cmd command that records the same paths, where no program may be copied to
    #[arg(long, conflicts_with_all = ["file", "boot", "plan", "clean"])]
    trace_cmd: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    Check(check::Args),
}

const AFTER: &str = "\
Examples:
  nostall stalls check               what the machine says of itself
  nostall stalls                     60 s, then a table
  nostall stalls --seconds 10 --record stalls.dat --json
  nostall stalls stalls.dat          the same table from a recording
  nostall stalls --boot              parameters for one boot, then its report

Columns: calls, their time, that time as a share of one CPU, median and 99th
percentile, and the longest. A driver's calls are parts of the console's, or of
a printing thread.

Exit status: 0 if the report was printed, 1 if not, 2 if the arguments are
wrong.";

/// Runs the command with these arguments.
///
/// # Errors
///
/// Any failure to measure, to read the trace or to write the report, as one line for the user.
pub fn run(args: &Args) -> Result<()> {
    if let Some(Command::Check(args)) = &args.command {
        return check::run(args);
    }
    if args.trace_cmd {
        return to_stdout(|out| writeln!(out, "{}", paths::trace_cmd()));
    }
    if args.plan {
        let changes = Tracefs::find()?.plan(args.limits.ring(), live::cost_function());
        return to_stdout(|out| {
            let mut changes = changes.iter();
            changes.try_for_each(|change| writeln!(out, "{}", change.shell()))
        });
    }
    if args.clean {
        let tracefs = Tracefs::find()?;
        let _lock = tracefs::lock(&tracefs)?;
        if boot::is_recorded() {
            // Another program may have done so already.
            _ = boot::initcalls_off(&tracefs).make();
        }
        match tracefs.clean()? {
            true => note(format_args!(
                "the probes and the instance of an earlier run are removed"
            )),
            false => note(format_args!("there was nothing to remove")),
        }
        return Ok(());
    }
    for path in [&args.record, &args.perfetto, &args.report_file] {
        path.as_deref().map_or(Ok(()), ensure_writable)?;
    }
    if let Some(file) = &args.file {
        let mut source = input::open(file, &input::Options::default())?;
        return summarize(args, &mut *source, None, None).with_context(|| input::name(file));
    }
    if !args.boot {
        ensure!(
            !boot::is_recorded() || !Tracefs::find()?.has_probes(),
            "this boot is recorded: run `nostall stalls --boot`, then `nostall stalls --clean`"
        );
        return measured(args, live::measure(&args.limits)?);
    }
    if boot::is_recorded() {
        let (boot, mut source) = boot::Boot::read(&Tracefs::find()?)?;
        return summarize(args, &mut source, None, Some(&boot));
    }
    to_stdout(|out| out.write_all(boot::explain().as_bytes()))
}

/// Reports on a measurement, and keeps its recording.
fn measured(args: &Args, measured: Measured) -> Result<()> {
    let mut dat = tempfile::tempfile().context("a temporary file")?;
    measured
        .recording
        .write(&measured.description, &mut BufWriter::new(&mut dat))
        .context("a temporary file")?;
    dat.rewind()?;
    let mut source = open_dat(BufReader::new(dat.try_clone()?))?;
    let reported = summarize(args, &mut source, Some(&measured.known), None);
    if let Some(path) = &args.record {
        dat.rewind()?;
        write(path, |out| io::copy(&mut dat, out).map(drop))?;
    }
    reported
}

/// Reads all events, and writes the report.
fn summarize(
    args: &Args,
    source: &mut dyn Source,
    known: Option<&Known>,
    boot: Option<&boot::Boot>,
) -> Result<()> {
    let mut holds = Holds::new(boot.and_then(|boot| boot.init));
    let mut perfetto = args.perfetto.as_ref().map(|_| Perfetto::new(Vec::new()));
    let catalog = calls::walk(source, |catalog, step| -> Result<()> {
        holds.step(catalog, &step);
        if let Some(perfetto) = &mut perfetto {
            perfetto.step(catalog, &step)?;
        }
        Ok(())
    })?;
    ensure!(
        source.unit() == TimeUnit::Nanoseconds,
        "the trace's clock has an unknown rate: record with `-C mono`"
    );
    ensure!(
        known.is_some() || holds.span.is_some(),
        match boot {
            Some(_) =>
                "this boot was recorded, but its records are gone (--clean, or another trace)",
            None => {
                "the trace has no call of a function that this command knows: none was called, or \
                 others were recorded (`nostall stalls --trace-cmd` prints a command)"
            }
        }
    );
    let mut notes = source.notes().to_vec();
    let (first, last) = holds.span.unwrap_or((0, 0));
    let elapsed = match (known, boot) {
        (Some(known), _) => known.elapsed.as_nanos() as u64,
        (None, Some(_)) => last,
        (None, None) => last - first,
    };
    match (known, boot) {
        (Some(known), _) => notes.extend_from_slice(&known.notes),
        (None, Some(boot)) => notes.extend(boot.notes(first, holds.before_init)),
        (None, None) => notes.push(format!(
            "Shares are of the {} from the first to the last of these calls.",
            time(elapsed as f64)
        )),
    }
    let report = |is_private| {
        let task = |task| report::task(&catalog, task, is_private);
        Report::new(&holds, elapsed, known, &notes, task)
    };
    let text = match args.json {
        true => json_document(&report(false))?,
        false => report(false).text(),
    };
    to_stdout(|out| out.write_all(text.as_bytes()))?;
    if let (Some(path), Some(perfetto)) = (&args.perfetto, perfetto) {
        let bytes = perfetto.finish()?;
        write(path, |out| out.write_all(&bytes))?;
    }
    if let Some(path) = &args.report_file {
        // A trace from elsewhere tells nothing of this machine.
        let machine = (known.is_some() || boot.is_some()).then(machine);
        let text = machine.unwrap_or_default() + &report(true).text();
        write(path, |out| out.write_all(text.as_bytes()))?;
    }
    Ok(())
}

/// Refuses a file that cannot be written at the end.
fn ensure_writable(path: &Path) -> Result<()> {
    let place = match fs::metadata(path) {
        Ok(there) if there.is_dir() => Err(Errno::ISDIR),
        Ok(there) if !there.is_file() => access(path, Access::WRITE_OK),
        // The dot refuses a file in the place of the folder.
        _ => access(whole_file::folder(path).join("."), Access::WRITE_OK),
    };
    place.map_err(Error::from).with_context(|| shown(path))
}

/// Writes a file, which is complete or as before. A device or a pipe stays, and is written to.
fn write(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    let written = || -> Result<()> {
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return Ok(write(&mut File::options().write(true).open(path)?)?);
        }
        let mut file = whole_file::new(path)?;
        write(file.as_file_mut())?;
        file.persist(path)?;
        Ok(())
    };
    written().with_context(|| shown(path))
}

fn shown(path: &Path) -> String {
    escape_name(&path.to_string_lossy())
}

/// Returns release, processor and consoles of this machine, as the head of a report to be sent.
fn machine() -> String {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    format!(
        "nostall {}, Linux {}, {}\n{}\n",
        env!("CARGO_PKG_VERSION"),
        read("/proc/sys/kernel/osrelease").trim(),
        std::env::consts::ARCH,
        read("/proc/consoles")
    )
}

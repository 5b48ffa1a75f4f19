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
use std::io::{BufReader, BufWriter, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nostall_figures::table::time;
use nostall_tracefile::export::Perfetto;
use nostall_tracefile::graph::{Step, walk};
use nostall_tracefile::model::{Source, TimeUnit};
use nostall_tracefile::read::open_dat;

use self::calls::Calls;
use self::holds::Holds;
use self::live::{Known, Limits, Measured};
use self::report::Report;
use self::tracefs::Tracefs;
use crate::escape::escape_name;
use crate::output::{note, to_stdout};
use crate::trace::input;

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

    /// Length of the measurement; Ctrl-C ends it earlier
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,

    /// Size of the ring of all CPUs in MiB
    #[arg(long, value_name = "MIB", default_value_t = 16,
          value_parser = clap::value_parser!(u64).range(1..=4096))]
    buffer: u64,

    /// Share of a CPU in percent that the measurement may take: above it, the function that is
    /// called most is left out
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    max_overhead: f64,

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
    ensure!(
        args.max_overhead > 0.0 && args.max_overhead <= 100.0,
        "--max-overhead is a percentage above 0, up to 100"
    );
    let limits = Limits {
        time: Duration::from_secs(args.seconds),
        buffer: args.buffer << 20,
        overhead: args.max_overhead / 100.0,
    };
    if args.plan {
        let changes = Tracefs::find()?.plan(limits.ring(), live::cost_function());
        return to_stdout(|out| {
            let mut changes = changes.iter();
            changes.try_for_each(|change| writeln!(out, "{}", change.shell()))
        });
    }
    if args.clean {
        let tracefs = Tracefs::find()?;
        let _lock = tracefs::lock(&tracefs)?;
        let found = tracefs.clean()?;
        note(format_args!(
            "{}",
            match found {
                true => "the probes and the instance of an earlier run are removed",
                false => "there was nothing to remove",
            }
        ));
        return Ok(());
    }
    match &args.file {
        Some(file) => {
            let mut source = input::open(file, &input::Options::default())?;
            summarize(args, &mut *source, None, None).with_context(|| input::name(file))
        }
        None if args.boot => of_boot(args),
        None => {
            ensure!(
                !boot::is_recorded() || !Tracefs::find()?.has_probes(),
                "this boot is recorded: run `nostall stalls --boot`, then `nostall stalls --clean`"
            );
            measured(args, live::measure(&limits)?)
        }
    }
}

fn of_boot(args: &Args) -> Result<()> {
    if !boot::is_recorded() {
        return to_stdout(|out| boot::explain(out));
    }
    let (boot, mut source) = boot::Boot::read(&Tracefs::find()?)?;
    summarize(args, &mut source, None, Some(&boot))
}

/// Reports on a measurement, and keeps its recording.
fn measured(args: &Args, measured: Measured) -> Result<()> {
    let Measured {
        recording,
        description,
        known,
    } = measured;
    let mut dat = tempfile::tempfile().context("a temporary file")?;
    recording
        .write(&description, &mut BufWriter::new(&mut dat))
        .context("a temporary file")?;
    dat.rewind()?;
    let mut source = open_dat(BufReader::new(dat.try_clone()?))?;
    let reported = summarize(args, &mut source, Some(&known), None);
    if let Some(path) = &args.record {
        dat.rewind()?;
        write(path, |out| std::io::copy(&mut dat, out).map(drop))?;
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
    let mut holds = Holds::default();
    let mut perfetto = args.perfetto.as_ref().map(|_| Perfetto::new(Vec::new()));
    let mut calls = Calls::new(source);
    let mut before_init = 0_u64;
    walk(&mut calls, |catalog, step| -> Result<()> {
        holds.step(catalog, &step);
        if let (Step::Leave(slice), Some(init)) = (&step, boot.and_then(|boot| boot.init)) {
            let name = slice.function.map_or("", |name| catalog.text(name));
            if name == "console_unlock" && slice.end.is_some_and(|end| end <= init) {
                before_init = before_init.saturating_add(slice.duration.unwrap_or(0));
            }
        }
        if let Some(perfetto) = &mut perfetto {
            perfetto.step(catalog, &step)?;
        }
        Ok(())
    })?;
    ensure!(
        calls.unit() == TimeUnit::Nanoseconds,
        "the trace's clock has an unknown rate: record with `-C mono`"
    );
    let mut notes = calls.notes().to_vec();
    notes.extend(known.into_iter().flat_map(|known| known.notes.clone()));
    let (first, last) = holds.span.unwrap_or((0, 0));
    let mut elapsed = known.map_or(last - first, |known| known.elapsed.as_nanos() as u64);
    if let Some(boot) = boot {
        elapsed = last;
        notes.push(boot.before(first));
        if let Some(init) = boot.init {
            notes.push(format!(
                "Until the first program started, at {:.3} s, tasks printed for {:.3} s: {:.1} % \
                 of the kernel's boot.",
                init as f64 / 1e9,
                before_init as f64 / 1e9,
                100.0 * before_init as f64 / init.max(1) as f64
            ));
        }
    }
    if known.is_none() {
        ensure!(
            holds.span.is_some(),
            "the trace has no call of a function that this command knows: `nostall stalls \
             --trace-cmd` prints a command that records them"
        );
    }
    if known.is_none() && boot.is_none() {
        let elapsed = time(elapsed as f64);
        notes.push(format!(
            "Shares are of the {elapsed} from the first to the last of these calls."
        ));
    }
    let mut report = Report {
        holds: &holds,
        catalog: calls.catalog(),
        notes: &notes,
        known,
        elapsed,
        is_private: false,
    };
    match args.json {
        true => {
            let json = report.json()?;
            to_stdout(|out| out.write_all(json.as_bytes()))?;
        }
        false => to_stdout(|out| report.text(out))?,
    }
    if let (Some(path), Some(perfetto)) = (&args.perfetto, perfetto) {
        let bytes = perfetto.finish()?;
        write(path, |out| out.write_all(&bytes))?;
    }
    if let Some(path) = &args.report_file {
        report.is_private = true;
        write(path, |out| {
            // A trace from elsewhere tells nothing of this machine.
            if known.is_some() || boot.is_some() {
                writeln!(out, "nostall {}, {}", env!("CARGO_PKG_VERSION"), machine())?;
                writeln!(out, "{}", consoles())?;
            }
            report.text(out)
        })?;
    }
    Ok(())
}

/// Writes a file, which is complete or as before. A device or a pipe stays, and is written to.
fn write(path: &Path, write: impl FnOnce(&mut File) -> std::io::Result<()>) -> Result<()> {
    let written = || -> Result<()> {
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return Ok(write(&mut File::options().write(true).open(path)?)?);
        }
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let mut builder = tempfile::Builder::new();
        builder.permissions(fs::Permissions::from_mode(0o666));
        let mut file = builder.tempfile_in(folder.unwrap_or(Path::new(".")))?;
        write(file.as_file_mut())?;
        file.persist(path)?;
        Ok(())
    };
    written().with_context(|| escape_name(&path.to_string_lossy()))
}

/// Returns release and processor of the running kernel.
fn machine() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {}, {}", release.trim(), std::env::consts::ARCH)
}

fn consoles() -> String {
    fs::read_to_string("/proc/consoles").unwrap_or_default()
}

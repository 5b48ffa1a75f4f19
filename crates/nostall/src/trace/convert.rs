//! `nostall trace convert`: traces for other tools.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use nostall_tracefile::export::{self, Folded, Perfetto, Uftrace, Weight};
use nostall_tracefile::graph::{Step, walk};
use nostall_tracefile::model::{ReadError, Source, TimeUnit};

use super::input;
use super::watched::Watched;
use crate::escape::escape_name;
use crate::output::note;
use crate::whole_file;

/// Convert a trace for another tool: Perfetto, uftrace, trace-cmd, a flame graph
///
/// INPUT is any input of `nostall trace report`, also the recording of a running program, of which
/// OUT is a safe snapshot. OUT is written completely or not at all.
#[derive(clap::Args)]
#[command(after_long_help = AFTER)]
pub struct Args {
    /// Trace to read; - for standard input
    input: PathBuf,

    /// Format of the output
    #[arg(long, value_enum)]
    to: Format,

    /// File to write; for uftrace, a directory
    #[arg(short, long, value_name = "OUT")]
    out: PathBuf,

    /// Overwrite OUT
    #[arg(long)]
    force: bool,

    /// Count the calls of each stack instead of its time (only with --to folded)
    #[arg(long)]
    calls: bool,

    #[command(flatten)]
    reading: input::Options,
}

const AFTER: &str = "\
Examples:
  nostall trace convert trace.dat --to perfetto -o trace.pftrace
  nostall trace convert trace.txt --to uftrace -o uftrace.data
  nostall trace convert boot.nostall --to trace.dat -o trace.dat
  nostall trace convert boot.nostall --to folded -o boot.folded

ui.perfetto.dev, `uftrace report -d uftrace.data`, `trace-cmd report -i \
trace.dat` and inferno-flamegraph read these files. `nostall trace report --view flame` draws \
the flame graph itself.

Exit status: 0 if OUT was written, 1 if not, 2 if the arguments are wrong.";

/// Format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Perfetto's protobuf: slices, stalls, counters
    Perfetto,
    /// Data directory of uftrace: calls
    Uftrace,
    /// File of trace-cmd: calls and other events
    #[value(name = "trace.dat")]
    TraceDat,
    /// Folded stacks: a line a stack, with its own time in nanoseconds
    Folded,
}

/// First bytes of a file in uftrace's directory.
const UFTRACE: &[u8] = b"Ftrace!\0";

/// Converts the trace.
///
/// # Errors
///
/// If the input cannot be read to its end, or the output cannot be written.
pub fn run(args: &Args) -> Result<()> {
    ensure!(
        !args.calls || args.to == Format::Folded,
        "--calls is for --to folded"
    );
    let shown = escape_name(&args.out.to_string_lossy());
    refuse(args, &shown)?;
    let mut source = Watched::new(input::open(&args.input, &args.reading)?);
    let written = match args.to {
        Format::Perfetto => file(args, |out| perfetto(&mut source, out)),
        Format::TraceDat => file(args, |out| Ok(export::dat::write(&mut source, out)?)),
        Format::Folded => file(args, |out| folded(&mut source, out, args.calls)),
        Format::Uftrace => folder(args, |path| uftrace(&mut source, path, &args.input)),
    };
    source.clear();
    let name = input::name(&args.input);
    for line in source.notes() {
        note(format_args!("{name}: {}", escape_name(line)));
    }
    if written.is_ok() && source.unit() == TimeUnit::Ticks {
        note(format_args!(
            "{name}: the clock's rate is unknown: a tick is shown as a nanosecond"
        ));
    }
    written.with_context(|| format!("{name} to {shown}"))
}

/// Refuses to overwrite an existing OUT without `--force`. With `--force`, refuses directories
/// except those of uftrace, and special files.
fn refuse(args: &Args, shown: &str) -> Result<()> {
    let Ok(there) = args.out.symlink_metadata() else {
        return Ok(());
    };
    ensure!(
        args.force,
        "{shown} exists, and nothing was written; give --force to overwrite it, or another path"
    );
    if there.is_dir() {
        let info = fs::read(args.out.join("info")).unwrap_or_default();
        ensure!(
            args.to == Format::Uftrace && info.starts_with(UFTRACE),
            "{shown} is a directory that uftrace did not write: give another path"
        );
    } else {
        ensure!(
            there.is_file() || there.is_symlink(),
            "{shown} is not a file: give another path"
        );
    }
    Ok(())
}

/// Writes a temporary file, and renames it to OUT at the end.
fn file(args: &Args, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let mut file = whole_file::new(&args.out)?;
    let mut out = BufWriter::new(file.as_file_mut());
    write(&mut out)?;
    out.into_inner().map_err(|error| error.into_error())?;
    match args.force {
        true => file.persist(&args.out)?,
        false => file.persist_noclobber(&args.out)?,
    };
    Ok(())
}

/// Writes a temporary directory, and renames it to OUT at the end.
fn folder(args: &Args, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let mut builder = whole_file::temporary();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    let folder = builder.tempdir_in(whole_file::folder(&args.out))?;
    write(folder.path())?;
    match args.out.symlink_metadata() {
        Ok(there) if args.force && there.is_dir() => fs::remove_dir_all(&args.out)?,
        Ok(_) if args.force => fs::remove_file(&args.out)?,
        _ => {}
    }
    fs::rename(folder.path(), &args.out)?;
    // Renamed, so it must not be removed.
    let _ = folder.keep();
    Ok(())
}

fn perfetto(source: &mut Watched, out: &mut dyn Write) -> Result<()> {
    let mut perfetto = Perfetto::new(out);
    walk(source, |catalog, step| perfetto.step(catalog, &step))?;
    perfetto.finish()?;
    Ok(())
}

fn folded(source: &mut Watched, out: &mut dyn Write, is_calls: bool) -> Result<()> {
    let mut folded = Folded::new(match is_calls {
        true => Weight::Calls,
        false => Weight::SelfTime,
    });
    walk(source, |catalog, step| {
        folded.step(catalog, &step);
        Ok::<_, ReadError>(())
    })?;
    let lines = folded.lines(source.catalog());
    if lines.is_empty() {
        match is_calls {
            true => bail!("the trace has no calls"),
            false => bail!("the trace has no call with a duration; --calls counts calls"),
        }
    }
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    Ok(())
}

fn uftrace(source: &mut Watched, folder: &Path, input: &Path) -> Result<()> {
    let mut uftrace = Uftrace::new(folder);
    let mut has_calls = false;
    walk(source, |catalog, step| {
        has_calls |= matches!(step, Step::Enter(_));
        uftrace.step(catalog, &step)
    })?;
    ensure!(has_calls, "the trace has no function with an entry");
    let program = input.file_stem().unwrap_or_default().to_string_lossy();
    let too_deep = uftrace.finish(source.catalog(), &program)?;
    if too_deep > 0 {
        source.clear();
        note(format_args!(
            "{too_deep} calls are inside more than 1,023 others, and are left out"
        ));
    }
    Ok(())
}

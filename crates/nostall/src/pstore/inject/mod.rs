//! `nostall pstore inject`: an image of a region, made from files.

mod args;
mod dmesg;
mod image;
mod region;
mod trace;

use anyhow::{Context, Result, ensure};
use nostall_postmortem::cli::{counted, read_file, region_options, zone_order};
use nostall_postmortem::memory::MAX_READ;
use nostall_pstore::{ByteOrder, Code, Layout, Params, Place, ZoneKind, ZoneOrder};

use crate::output::{note, to_stdout};
pub use args::Args;
use args::{Contents, running};
use region::Region;

/// Bytes that the kernel is taken to have appended at a time.
const PIECE: usize = 16 << 10;

/// Runs the command with these arguments.
///
/// # Errors
///
/// If a file cannot be read or written, or there is no zone for its contents.
pub fn run(args: &Args) -> Result<()> {
    image::may_be_written(args)?;
    let copied = args.into.as_ref().map(|file| {
        image::region(file, args.offset, args.size).with_context(|| file.display().to_string())
    });
    let copied = copied.transpose()?;
    let size = copied.as_ref().map_or(args.size.unwrap_or(0), Vec::len);
    let version = args.linux_version.or_else(running);
    let params = args.sizes.params(Params::command_line(size, args.cpus));
    let zone_order = match (&copied, args.linux_version) {
        (Some(bytes), None) => zone_order(&params, bytes, ByteOrder::NATIVE),
        _ => version.map(ZoneOrder::of),
    };
    let layout = Layout::new(&Params {
        zone_order: zone_order.unwrap_or_default(),
        ..params
    })?;
    let mut report = Report {
        notes: layout.notes().map(|note| note.to_string()).collect(),
        ..Report::default()
    };
    let is_new = copied.is_none();
    let mut region = Region {
        bytes: copied.unwrap_or_else(|| vec![0; size]),
        layout,
        version,
        code: Code::new(params.ecc).map(Box::new),
    };
    if is_new {
        region.make_zones()?;
    }
    fill(&mut region, &args.contents, &mut report)?;
    image::write(args, &region.bytes)?;
    for line in &report.notes {
        note(format_args!("{line}"));
    }
    let (out, offset) = (args.out.display(), args.offset);
    let options = region_options(offset, layout.params(), args.contents.arch);
    let read = format!("To read it:\n  nostall postmortem {out} {options}");
    to_stdout(|stdout| {
        writeln!(stdout, "{out}: a region of {size} bytes at {offset:#x}")?;
        writeln!(stdout, "{}{read}", report.written)
    })
}

/// Report for the user when all is done.
#[derive(Default)]
struct Report {
    /// A line for each record.
    written: String,
    /// Differences from the given input.
    notes: Vec<String>,
}

impl Report {
    /// Adds a zone's line, and notes if only the end of its text was kept.
    fn add(&mut self, place: Place, line: &str, bytes: usize, kept: usize) {
        let Place { kind, index, .. } = place;
        if bytes > kept {
            self.notes.push(format!(
                "{kind} {index}: only the last {kept} of {bytes} bytes fit"
            ));
        }
        self.written += &format!("  {kind} {index}: {line}\n");
    }
}

fn fill(region: &mut Region, contents: &Contents, report: &mut Report) -> Result<()> {
    let mut zones = region.zones(ZoneKind::Dmesg);
    for file in &contents.dmesg {
        let empty = zones.find(|zone| !matches!(zone, Ok((_, zone)) if !zone.is_empty()));
        let (place, mut zone) = empty.with_context(|| {
            format!(
                "no dmesg zone is left for {}: make the region larger, or --record-size smaller",
                file.display()
            )
        })??;
        let log = read_file(file, MAX_READ)?;
        let (found, kept) = dmesg::write(&mut zone, &log, contents.compression, &contents.time)
            .with_context(|| file.display().to_string())?;
        let line = format!("{kept} bytes of text, {} stored", zone.len());
        report.add(place, &line, found, kept);
    }
    drop(zones);
    for (kind, file) in [
        (ZoneKind::Console, &contents.console),
        (ZoneKind::Pmsg, &contents.pmsg),
    ] {
        let Some(file) = file else { continue };
        let (place, mut zone) = region.first_zone(kind)?;
        let text = read_file(file, MAX_READ)?;
        // Piece by piece, as it came to be.
        for piece in text.chunks(PIECE) {
            zone.append_text(piece);
        }
        let line = counted(zone.len(), "byte");
        report.add(place, &line, text.len(), place.division.data());
    }
    if let Some(file) = &contents.ftrace {
        ensure!(
            region.layout.row_of(ZoneKind::Ftrace).is_some(),
            "the region has no ftrace zone: give --ftrace-size"
        );
        ensure!(
            region.version.is_some(),
            "trace zones carry the version of the kernel that is to read them: give --linux-version X.Y.Z"
        );
        let lines = read_file(file, MAX_READ)?;
        let calls = trace::record(region, &lines, contents.arch)
            .with_context(|| file.display().to_string())?;
        report.written += &format!("  ftrace: {}\n", counted(calls, "call"));
    }
    Ok(())
}

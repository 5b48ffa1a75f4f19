//! `nostall pstore inject`: an image of a region, made from files.

mod args;
mod dmesg;
mod image;
mod region;
mod trace;

use std::fmt::Write as _;

use anyhow::{Context, Result, bail, ensure};
use nostall_postmortem::cli::{counted, read_file, region_options, zone_order};
use nostall_postmortem::image::MAX_READ;
use nostall_pstore::{ByteOrder, Code, Layout, Params, ZoneKind, ZoneOrder};

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
    let (bytes, params) = match &args.into {
        Some(file) => {
            let bytes = image::region(file, args.offset, args.size)
                .with_context(|| file.display().to_string())?;
            let params = Params::command_line(bytes.len(), args.cpus);
            (Some(bytes), params)
        }
        None => (
            None,
            Params::command_line(args.size.unwrap_or(0), args.cpus),
        ),
    };
    let version = args.linux_version.or_else(running);
    let params = args.sizes.params(params);
    let zone_order = match (&bytes, args.linux_version) {
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
    let code = Code::new(layout.params().ecc).map(Box::new);
    let mut region = match bytes {
        Some(bytes) => Region {
            bytes,
            layout,
            version,
            code,
        },
        None => Region::blank(layout, version, code)?,
    };
    region.fill(&args.contents, &mut report)?;
    image::write(args, &region.bytes)?;
    for line in &report.notes {
        note(format_args!("{line}"));
    }
    let summary = summary(args, &region, &report.written);
    to_stdout(|out| out.write_all(summary.as_bytes()))
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
    /// Notes that only the end of a text was kept, if there was more of it.
    fn left_out(&mut self, kind: ZoneKind, index: usize, bytes: usize, kept: usize) {
        if bytes > kept {
            self.notes.push(format!(
                "{kind} {index}: only the last {kept} of {bytes} bytes fit"
            ));
        }
    }
}

impl Region {
    fn fill(&mut self, contents: &Contents, report: &mut Report) -> Result<()> {
        self.fill_dmesg(contents, report)?;
        for (kind, file) in [
            (ZoneKind::Console, &contents.console),
            (ZoneKind::Pmsg, &contents.pmsg),
        ] {
            if let Some(file) = file {
                let place = self.only(kind)?;
                let (mut zone, _) = self.zone(place)?;
                let text = read_file(file, MAX_READ)?;
                // Piece by piece, as it came to be.
                for piece in text.chunks(PIECE) {
                    zone.append_text(piece);
                }
                report.left_out(kind, 0, text.len(), zone.division().data());
                let _ = writeln!(
                    report.written,
                    "  {kind} 0: {}",
                    counted(zone.len(), "byte")
                );
            }
        }
        if let Some(file) = &contents.ftrace {
            self.only(ZoneKind::Ftrace)?;
            ensure!(
                self.version.is_some(),
                "trace zones carry the version of the kernel that is to read them: give --linux-version X.Y.Z"
            );
            let lines = read_file(file, MAX_READ)?;
            let calls = trace::record(self, &lines, contents.arch)
                .with_context(|| file.display().to_string())?;
            let _ = writeln!(report.written, "  ftrace: {}", counted(calls, "call"));
        }
        Ok(())
    }

    fn fill_dmesg(&mut self, contents: &Contents, report: &mut Report) -> Result<()> {
        let mut places = self.layout.zones_of(ZoneKind::Dmesg);
        for file in &contents.dmesg {
            let (mut zone, place) = loop {
                let Some(place) = places.next() else {
                    bail!(
                        "no dmesg zone is left for {}: make the region larger, or --record-size smaller",
                        file.display()
                    );
                };
                if self.zone(place)?.0.is_empty() {
                    break (self.zone(place)?.0, place);
                }
            };
            let log = read_file(file, MAX_READ)?;
            let text = dmesg::write(&mut zone, &log, contents.compression, contents.time)
                .with_context(|| file.display().to_string())?;
            report.left_out(ZoneKind::Dmesg, place.index, text.found, text.kept);
            let stored = zone.len();
            let _ = writeln!(
                report.written,
                "  dmesg {}: {} bytes of text, {stored} stored",
                place.index, text.kept
            );
        }
        Ok(())
    }
}

fn summary(args: &Args, region: &Region, written: &str) -> String {
    let params = region.layout.params();
    let (out, offset) = (args.out.display(), args.offset);
    let options = region_options(offset, params, args.contents.arch);
    format!(
        "{out}: a region of {} bytes at {offset:#x}\n{written}\
         To read it:\n  nostall postmortem {out} {options}\n",
        params.mem_size,
    )
}

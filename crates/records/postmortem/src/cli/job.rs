//! Processing of each image.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Error, Result, ensure};
use nostall_pstore::{Damage, Place, Trust, ZoneState};
use nostall_tracefile::linux::Formats;

use super::args::{Args, Format};
use super::cause;
use super::escape::escape_name;
use super::files;
use super::input::Input;
use super::json::{self, About};
use super::kernel_logs;
use super::log_text;
use super::names::{self, Names};
use super::outcome::{Outcome, Status};
use super::output::{self, Style, is_closed, note, to_stdout};
use super::part::{Opening, Output, Part, Parts, Turn};
use super::region::{self, Meant, Region};
use super::swap::Swap;
use super::text::{self, Escaped};
use crate::banner::{self, Banner};
use crate::count::counted;
use crate::detect::Detection;
use crate::discovery::Discovery;
use crate::ftrace_ring;
use crate::kernel::CrashedKernel;
use crate::kinds::KINDS;
use crate::memory::Memory;
use crate::symbols::Symbols;
use crate::{Content, Decoded, FileTrust, LinuxFile, Record, ZoneReport};

/// Runs the command with these arguments.
///
/// # Errors
///
/// If the arguments are inconsistent. An unreadable image only changes the exit status.
pub fn run(args: &Args) -> Result<ExitCode> {
    ensure!(
        !args.per_cpu || args.format != Format::Linux,
        "--per-cpu: Linux's files are merged, whatever the stamps are"
    );
    let symbols = args.symbols.as_deref().map(names::load).transpose()?;
    let formats = match &args.event_formats {
        Some(path) => ftrace_ring::load_formats(path)
            .with_context(|| format!("--event-formats {}", escape_name(&path.to_string_lossy())))?,
        None => Formats::default(),
    };
    let inputs = Input::all(&args.images)?;
    ensure!(
        args.out.is_none() || inputs.len() == 1,
        "--out takes one image, and there are {}",
        inputs.len()
    );
    let job = Job {
        args,
        found: RefCell::default(),
        symbols,
        formats,
        style: Style::of(&io::stdout()),
        several: args.all || inputs.len() > 1,
    };
    let mut status = None;
    for input in &inputs {
        if inputs.len() > 1 {
            job.note(format_args!("{input}:"));
        }
        let next = job.image(input)?;
        status = Some(status.map_or(next, |status| Status::and(status, next)));
    }
    Ok(ExitCode::from(status.unwrap_or(Status::Error) as u8))
}

/// The arguments, and the style of the output.
struct Job<'a> {
    args: &'a Args,
    symbols: Option<Symbols>,
    formats: Formats,
    style: Style,
    /// Whether each region needs a heading.
    several: bool,
    /// Parts of the current image, and their damage.
    found: RefCell<Vec<String>>,
}

/// An image, and what is known of its kernel.
struct Shown<'a> {
    image: &'a Memory,
    input: &'a Input,
    kernel: &'a CrashedKernel,
    /// Symbols in the memory of the kernel.
    symbols: Option<&'a Symbols>,
    /// Whether traces are not shown.
    hides_traces: bool,
    /// The log that was shown before the search.
    log: Option<&'a dyn Part>,
}

/// Number of parts in the line for an image.
const FEW: usize = 3;

impl Job<'_> {
    /// Decodes one image. Prints the error if that fails.
    ///
    /// # Errors
    ///
    /// If the reader of standard output has closed it.
    fn image(&self, input: &Input) -> Result<Status> {
        let outcome = self.regions(input);
        let outcome = outcome.or_else(|error| failed(error, ""))?;
        let mut status = outcome.status;
        if self.args.format == Format::Json && self.args.out.is_none() {
            let Outcome {
                records, message, ..
            } = &outcome;
            let file = input.name();
            let end = to_stdout(|out| json::end(&file, status, *records, message.as_deref(), out));
            if let Err(error) = end {
                let failed = failed(error, "")?;
                status = failed.status;
                output::error(format_args!("{}", failed.message.unwrap_or_default()));
            }
        }
        let found = self.found.take();
        if status == Status::Records && !found.is_empty() {
            self.print(format_args!("{input}: {}; -v explains", few(&found)));
        }
        match outcome.message {
            Some(message) if status.is_error() => output::error(format_args!("{message}")),
            Some(message) => self.print(format_args!("{message}")),
            None => {}
        }
        Ok(status)
    }

    fn regions(&self, input: &Input) -> Result<Outcome> {
        let args = self.args;
        let image = input.open(args.swap)?;
        // The search of all memory takes long, and most readers want this log.
        let mut outcome = None;
        let mut kernel = CrashedKernel::default();
        let is_printed = args.out.is_none();
        let is_whole = args.region.is_whole();
        if let Some(mut log) = log_text::of(&image).filter(|_| is_whole) {
            self.ensure_new([log.name()].into_iter())?;
            log.tell(&mut kernel);
            self.cause(&kernel, &image, input)?;
            self.found(log.describe());
            let outcome = self.part(&image, input, &mut *log, true)?;
            return Ok(checked(outcome, &image, input, None));
        }
        let goes_first = is_printed && is_whole;
        let mut early = goes_first.then(|| kernel_logs::of_header(&image)).flatten();
        if let Some(log) = &mut early {
            log.prepare(None);
            log.tell(&mut kernel);
            self.cause(&kernel, &image, input)?;
            outcome = join(outcome, self.part(&image, input, &mut **log, true)?);
        }
        let found = region::find(&image, &args.region, args.all);
        let (regions, discovery) = found.with_context(|| input.to_string())?;
        let number = regions.decode.len();
        ensure!(
            args.out.is_none() || number <= 1,
            "--out takes one region, and there are {number}: choose one with --offset and --size"
        );
        let mut taken = regions.decode.iter().map(Meant::range).collect();
        let opening = Opening {
            image: &image,
            discovery: &discovery,
            all: args.all,
            symbols: self.symbols.as_ref(),
            formats: &self.formats,
            offset: args.kaslr_offset,
        };
        let parts = opened(&opening, &mut taken);
        self.ensure_new(
            parts
                .iter()
                .flat_map(|(_, parts)| parts)
                .map(|part| part.name()),
        )?;
        let (logs, others): (Vec<_>, Vec<_>) = parts
            .into_iter()
            .partition(|(output, _)| output.turn == Turn::First);
        let first = logs.iter().find_map(|(_, parts)| parts.first());
        if early.is_none() {
            match first {
                // A region may be of an earlier boot.
                Some(log) => log.tell(&mut kernel),
                None => self.tell(&image, regions.decode.first(), &mut kernel),
            }
            self.cause(&kernel, &image, input)?;
        }
        let hides_traces =
            first.is_some() && is_printed && args.format == Format::Text && !args.all;
        let mut on_demand = others
            .iter()
            .filter(|(output, _)| output.turn == Turn::OnDemand);
        let may_name = !regions.decode.is_empty() || on_demand.any(|(_, parts)| !parts.is_empty());
        let first = first.filter(|_| may_name && !hides_traces && self.symbols.is_none());
        let symbols = first.and_then(|log| log.symbols());
        let shown = Shown {
            image: &image,
            input,
            kernel: &kernel,
            symbols: symbols.as_ref(),
            hides_traces,
            log: early.as_deref(),
        };
        for (output, parts) in logs {
            outcome = self.parts(&shown, output, parts, outcome)?;
        }
        for meant in regions.decode {
            let region = meant.read(&image, &args.region);
            let next = region.and_then(|region| self.region(&shown, &region));
            // The other regions are still decoded.
            let next = next.or_else(|error| failed(error, &format!("{input}: ")))?;
            outcome = join(outcome, next);
        }
        for other in &regions.others {
            if args.format == Format::Json && args.out.is_none() {
                to_stdout(|out| json::candidate(&input.name(), other, out))?;
            }
            let lines = other.lines();
            match args.all {
                true => lines
                    .iter()
                    .for_each(|line| self.print(format_args!("{line}"))),
                false => lines.into_iter().for_each(|line| self.found(line)),
            }
        }
        for (output, parts) in others {
            outcome = self.parts(&shown, output, parts, outcome)?;
        }
        let none = || {
            let within = args.region.window();
            no_region(
                &image,
                &discovery,
                input,
                args.swap,
                within,
                regions.unlisted,
            )
        };
        let outcome = outcome.unwrap_or_else(|| Outcome::none(Status::None, none()));
        let cut = (!regions.is_complete).then(|| Detection::CUT_SHORT.to_owned());
        let doubts = cut.into_iter().chain(discovery.doubt());
        Ok(checked(outcome, &image, input, doubts))
    }

    /// Shows the parts of a kind.
    fn parts(
        &self,
        shown: &Shown<'_>,
        output: &Output,
        parts: Parts<'_>,
        mut outcome: Option<Outcome>,
    ) -> Result<Option<Outcome>> {
        self.note_most(parts.len(), output);
        for mut part in parts {
            let early = shown
                .log
                .filter(|log| output.turn == Turn::First && log.address() == part.address());
            if let Some(early) = early {
                // The search tells of other logs.
                self.found(part.describe());
                for line in early.explain() {
                    self.note(format_args!("{line}"));
                }
                continue;
            }
            part.prepare(shown.symbols);
            if shown.hides_traces && output.turn == Turn::OnDemand {
                self.found(format!("{}, which --all shows", part.describe()));
                outcome = join(outcome, part.outcome(shown.input));
                continue;
            }
            self.found(part.describe());
            for line in part.explain() {
                self.note(format_args!("{line}"));
            }
            let next = match part.fault(shown.input) {
                Some(fault) => fault,
                None => self.part(shown.image, shown.input, &mut *part, outcome.is_none())?,
            };
            if output.is_record {
                outcome = join(outcome, next);
            }
        }
        Ok(outcome)
    }

    /// Prints the cause of the crash, if it is known.
    fn cause(&self, kernel: &CrashedKernel, image: &Memory, input: &Input) -> Result<()> {
        let Some(cause) = kernel.cause() else {
            return Ok(());
        };
        let before = match self.several {
            true => format!("{input}: "),
            false => String::new(),
        };
        let text = |out: &mut dyn Write| cause::text(&before, cause, kernel, self.style, out);
        match (self.args.format, &self.args.out) {
            (Format::Text, None) => to_stdout(text),
            (Format::Text, Some(_)) => summarize(text),
            (Format::Json, None) => {
                let file = input.name();
                let about = About::new(&file, image, self.args.swap);
                to_stdout(|out| cause::json(cause, kernel, &about, out))
            }
            _ => Ok(()),
        }
    }

    /// Adds the panics of a region's records.
    fn tell(&self, image: &Memory, region: Option<&Meant>, kernel: &mut CrashedKernel) {
        let (args, unpack) = (self.args, self.args.compression.unwrap_or_default());
        let region = region.and_then(|meant| meant.clone().read(image, &args.region).ok());
        if let Some(region) = region {
            let (bytes, geometry) = (&region.bytes, &region.geometry);
            Decoded::partly(bytes, geometry, args.writer.into(), unpack).tell(kernel);
        }
    }

    fn region(&self, shown: &Shown<'_>, region: &Region<'_>) -> Result<Outcome> {
        let (args, image, input) = (self.args, shown.image, shown.input);
        let unpack = args.compression.unwrap_or_default();
        let decoded = Decoded::partly(&region.bytes, &region.geometry, args.writer.into(), unpack);
        let damaged: Vec<_> = decoded.zones().filter_map(damage).collect();
        let readable = region.geometry.zones.len() - damaged.len();
        if region.found.is_some()
            && let at = (region.start, region.bytes.with_gaps())
            && let Some(swap) = Swap::explains(image, at, readable)
            && args.swap.is_none_or(|given| given == swap)
        {
            let message = match args.swap {
                Some(_) => format!("{input}: the bytes are in the right order without --swap"),
                None => format!(
                    "{input}: the bytes of each {0}-byte word are reversed: --swap {0} puts them right",
                    swap.bytes()
                ),
            };
            return Ok(Outcome::none(Status::None, message));
        }
        let is_json = args.format == Format::Json;
        if is_json && args.out.is_none() {
            let name = input.name();
            let about = About::new(&name, image, args.swap);
            to_stdout(|out| json::region(&about, region, &decoded, out))?;
        }
        if let Some((place, why)) = damaged.first()
            && readable == 0
        {
            let message = format!(
                "{input}: no records here: of {} none can be read ({} zone {} at {:#x}: \
                 {why}); are offset, sizes and --ecc those of the kernel that crashed?",
                counted(damaged.len(), "zone"),
                place.kind,
                place.index,
                region.at(place.offset),
            );
            return Ok(Outcome::none(Status::Damaged, message));
        }
        self.explain(region, &decoded, &damaged);
        let in_memory = shown.symbols.filter(|_| {
            let mut writer = CrashedKernel::default();
            decoded.tell(&mut writer);
            writer.is_of_release(shown.kernel)
        });
        let names = match self.symbols.as_ref().or(in_memory).cloned() {
            Some(symbols) => names::moved(symbols, args.kaslr_offset, &decoded, |line| {
                self.found(line.to_string());
            }),
            None => Names::none(),
        };
        let heading = self
            .several
            .then(|| format!("{input}: region at {:#x}", region.start));
        let records = match (&args.out, args.format) {
            (Some(folder), Format::Linux) => self.linux_folder(&decoded, &names, folder),
            (None, Format::Linux) => self.linux(&decoded, &names, heading),
            (Some(folder), _) => self.folder(&decoded, &names, folder),
            (None, _) => self.records(&decoded, &names, heading, shown.hides_traces),
        }?;
        let status = match (records, damaged.is_empty()) {
            (0, true) => Status::Empty,
            (0, false) => Status::Damaged,
            _ => Status::Records,
        };
        let message = match status {
            Status::Empty => Some(format!("{input}: the region is there, and empty")),
            Status::Damaged => Some(format!(
                "{input}: no records here: {} of {} zones cannot be read, the others are empty",
                damaged.len(),
                region.geometry.zones.len()
            )),
            _ => None,
        };
        Ok(Outcome {
            status,
            records,
            message,
        })
    }

    fn explain(&self, region: &Region<'_>, decoded: &Decoded<'_>, damaged: &[(Place, Damage)]) {
        let mut lines = region.lines().into_iter();
        lines.next().into_iter().for_each(|line| self.found(line));
        for line in lines {
            self.note(format_args!("{line}"));
        }
        if !(damaged.is_empty() || self.args.verbose) {
            let (bad, all) = (damaged.len(), region.geometry.zones.len());
            self.found(format!("{bad} of {} unreadable", counted(all, "zone")));
        }
        for (place, why) in damaged {
            self.note(format_args!(
                "{} zone {} at {:#x} cannot be read: {why}",
                place.kind,
                place.index,
                region.at(place.offset)
            ));
        }
        for zone in decoded.zones() {
            if let Some(misaligned) = zone.misaligned {
                let at = region.at(zone.place.offset);
                let (kind, index) = (zone.place.kind, zone.place.index);
                self.note(format_args!("{kind} zone {index} at {at:#x}: {misaligned}"));
            }
        }
    }

    /// Prints a part of the image, or writes its file. `is_first` is set for an image's first
    /// output.
    fn part(
        &self,
        image: &Memory,
        input: &Input,
        part: &mut dyn Part,
        is_first: bool,
    ) -> Result<Outcome> {
        let (args, style, name) = (self.args, self.style, part.name());
        let file = input.name();
        let about = About::new(&file, image, args.swap);
        match (&args.out, args.format) {
            (Some(folder), format) => {
                let name = part.name() + self.extension();
                files::write(folder, &name, None, args.force, |out| match format {
                    Format::Text => part.text(Style::Plain, out),
                    Format::Json => part.json(&about, out),
                    Format::Linux => part.linux(Style::Plain, out),
                })?;
                if format == Format::Text {
                    summarize(|out| part.summary(style, out))?;
                }
            }
            (None, Format::Text) => to_stdout(|out| {
                if self.several {
                    let heading = format!("{input}: {} at {:#x}", part.kind(), part.address());
                    text::heading(&heading, style, out)?;
                }
                part.summary(style, out)?;
                part.text(style, out)?;
                writeln!(out)
            })?,
            (None, Format::Json) => to_stdout(|out| part.json(&about, out))?,
            (None, Format::Linux) => to_stdout(|out| {
                let between = if is_first { "" } else { "\n" };
                let heading = match self.several {
                    true => format!("{input}: {} at {:#x}: ", part.kind(), part.address()),
                    false => String::new(),
                };
                writeln!(out, "{between}==> {heading}{name} <==")?;
                part.linux(style, out)
            })?,
        }
        for line in part.notes() {
            self.note(format_args!("{line}"));
        }
        if args.format == Format::Linux {
            let trust = text::trust(part.trust());
            self.note(format_args!("{name}: {trust}"));
        }
        Ok(part.outcome(input))
    }

    /// Returns the extension of file names.
    fn extension(&self) -> &'static str {
        match self.args.format {
            Format::Json => ".json",
            _ => "",
        }
    }

    /// Checks that no file of a ring or trace exists, before any file is written.
    fn ensure_new(&self, names: impl Iterator<Item = String>) -> Result<()> {
        let names: Vec<_> = names.map(|name| name + self.extension()).collect();
        match &self.args.out {
            Some(folder) if !names.is_empty() => files::prepare(folder, &names, self.args.force),
            _ => Ok(()),
        }
    }

    /// Prints a note if the search limit was reached.
    fn note_most(&self, count: usize, output: &Output) {
        if count == output.most {
            self.found(format!(
                "only the first {count} {} are shown",
                output.plural
            ));
        }
    }

    /// Adds a fact to the line for the image. With `--verbose` it is a line of its own.
    fn found(&self, fact: String) {
        if self.args.verbose {
            self.print(format_args!("{fact}"));
        } else {
            self.found.borrow_mut().push(fact);
        }
    }

    /// Prints an explanation on standard error with `--verbose`.
    fn note(&self, line: fmt::Arguments<'_>) {
        if self.args.verbose {
            self.print(line);
        }
    }

    /// Prints a line on standard error, unless `--quiet` is set.
    fn print(&self, line: fmt::Arguments<'_>) {
        if !self.args.quiet {
            note(line);
        }
    }

    fn order(&self) -> text::CallSequence {
        if self.args.per_cpu {
            |calls, each| calls.by_cpu().try_for_each(each)
        } else {
            |calls, each| calls.iter().try_for_each(each)
        }
    }

    /// Prints text or JSON on standard output.
    fn records(
        &self,
        decoded: &Decoded<'_>,
        names: &Names,
        heading: Option<String>,
        hides_traces: bool,
    ) -> Result<usize> {
        let (order, style) = (self.order(), self.style);
        let is_json = self.args.format == Format::Json;
        let mut records = 0;
        to_stdout(|out| {
            if let Some(heading) = heading.filter(|_| !is_json) {
                text::heading(&heading, style, out)?;
            }
            decoded.records().try_for_each(|record| {
                records += 1;
                if is_json {
                    return json::record(&record, order, names, decoded.record_format(), out);
                }
                match &record.content {
                    Content::Ftrace(calls) if hides_traces => {
                        let calls = counted(calls.len(), "call");
                        self.found(format!("a trace of {calls}, which --all shows"));
                        Ok(())
                    }
                    _ => text::write(&record, order, names, style, out),
                }
            })
        })?;
        Ok(records)
    }

    /// Writes text or JSON, one file per record.
    fn folder(&self, decoded: &Decoded<'_>, names: &Names, folder: &Path) -> Result<usize> {
        let (order, style, force) = (self.order(), self.style, self.args.force);
        let is_json = self.args.format == Format::Json;
        let name = |record: &Record<'_>| files::name(record) + self.extension();
        let all: Vec<_> = decoded.records().map(|record| name(&record)).collect();
        files::prepare(folder, &all, force)?;
        for record in decoded.records() {
            files::write(folder, &name(&record), None, force, |out| {
                if is_json {
                    json::record(&record, order, names, decoded.record_format(), out)
                } else {
                    text::file(&record, order, names, out)
                }
            })?;
            if !is_json {
                summarize(|out| text::summary(&record, style, out))?;
            }
        }
        Ok(all.len())
    }

    /// Prints Linux's files one after the other, like `tail`. Output to a terminal is escaped.
    fn linux(
        &self,
        decoded: &Decoded<'_>,
        names: &Names,
        heading: Option<String>,
    ) -> Result<usize> {
        let all = decoded.linux_files(names.symbols());
        for (nth, file) in all.iter().enumerate() {
            let between = if nth > 0 { "\n" } else { "" };
            let heading = heading
                .as_ref()
                .map_or(String::new(), |heading| format!("{heading}: "));
            let mut trust = None;
            to_stdout(|out| {
                writeln!(out, "{between}==> {heading}{} <==", file.name)?;
                trust = Some(match self.style {
                    Style::Plain => file.write_to(out)?,
                    Style::Safe | Style::Colour => file.write_to(&mut Escaped(out))?,
                });
                Ok(())
            })?;
            self.note_trust(file, trust);
        }
        Ok(all.len())
    }

    fn linux_folder(&self, decoded: &Decoded<'_>, names: &Names, folder: &Path) -> Result<usize> {
        let all = decoded.linux_files(names.symbols());
        let force = self.args.force;
        let paths: Vec<_> = all.iter().map(|file| file.name.clone()).collect();
        files::prepare(folder, &paths, force)?;
        for file in &all {
            let write = |out: &mut dyn Write| file.write_to(out);
            let trust = files::write(folder, &file.name, file.seconds, force, write)?;
            self.note_trust(file, Some(trust));
        }
        Ok(all.len())
    }

    /// Prints the trust level on standard error, because Linux's files cannot contain it.
    fn note_trust(&self, file: &LinuxFile<'_>, trust: Option<FileTrust>) {
        let Some(FileTrust { trust, unverified }) = trust else {
            return;
        };
        if file.name.ends_with(".enc.z") {
            self.found(format!("{}: not decompressed, as by Linux", file.name));
        }
        let line = format!("{}: {}", file.name, text::trust(trust));
        match trust {
            Trust::Unverified => self.found(line),
            _ => self.note(format_args!("{line}")),
        }
        for ranges in text::ranges(&unverified) {
            self.note(format_args!("{}: unverified bytes: {ranges}", file.name));
        }
    }
}

/// Opens the parts of all kinds outside the memory that is taken.
fn opened<'a>(
    opening: &Opening<'a>,
    taken: &mut Vec<Range<u64>>,
) -> Vec<(&'static Output, Parts<'a>)> {
    let outputs = KINDS.iter().map(|kind| (kind.output, Parts::new()));
    let mut parts: Vec<_> = outputs.collect();
    for takes_memory in [true, false] {
        let outputs = parts.iter_mut();
        for (output, parts) in outputs.filter(|it| it.0.takes_memory == takes_memory) {
            *parts = (output.open)(opening, taken);
            taken.extend(parts.iter().filter_map(|part| part.takes()));
        }
    }
    parts
}

/// Returns the outcome of an error, or the error if the reader of standard output has closed it.
fn failed(error: Error, before: &str) -> Result<Outcome> {
    if is_closed(&error) {
        return Err(error);
    }
    let message = format!("{before}{error:#}");
    Ok(Outcome::failed(&error, message))
}

/// Prints the summary of a file. Without a reader, the files are still written.
fn summarize(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    to_stdout(write).or_else(|error| match is_closed(&error) {
        true => Ok(()),
        false => Err(error),
    })
}

/// Returns the facts for the line of an image.
fn few(found: &[String]) -> String {
    let shown = found.len().min(FEW);
    let line = found[..shown].join("; ");
    match found.len() - shown {
        0 => line,
        more => format!("{line}; and {more} more"),
    }
}

/// Combines the outcome of an image's parts so far with the next one.
fn join(outcome: Option<Outcome>, next: Outcome) -> Option<Outcome> {
    Some(match outcome {
        None => next,
        Some(outcome) => Outcome::and(outcome, next),
    })
}

fn damage(zone: ZoneReport) -> Option<(Place, Damage)> {
    match zone.state {
        ZoneState::Damaged(why) => Some((zone.place, why)),
        _ => None,
    }
}

fn no_region(
    image: &Memory,
    discovery: &Discovery<'_>,
    input: &Input,
    swap: Option<Swap>,
    within: Range<u64>,
    doubtful: usize,
) -> String {
    if swap.is_none()
        && let Some((swap, address)) = Swap::seen(image, 0)
    {
        return format!(
            "{input}: no ramoops region in it, but at {address:#x} a header whose bytes are reversed \
             in each {0}-byte word: --swap {0} puts them right",
            swap.bytes()
        );
    }
    let doubtful = match doubtful {
        0 => String::new(),
        1 => " (1 place is in doubt: --all lists it)".to_owned(),
        number => format!(" ({number} places are in doubt: --all lists them)"),
    };
    let format = image.format();
    let place = match within {
        Range {
            start: 0,
            end: u64::MAX,
        } => {
            let size = image.segments().iter().map(|segment| segment.len).sum();
            format!("in {} of memory ({format})", bytes(size))
        }
        Range { start, end } => format!("from {start:#x} to {end:#x}"),
    };
    if has_only_zeros(image) {
        return format!("{input}: only zeros {place}, as a failed copy or a full disk leaves them");
    }
    // A damaged file explains itself (`checked`).
    let report = match image.doubt() {
        Some(_) => "",
        None => {
            ". If Linux should be in it, report this line and the answer to --version. Send no \
            part of the dump: it may have the machine's keys and passwords"
        }
    };
    let instead = seen_instead(image, discovery).map_or(String::new(), |seen| format!(" {seen};"));
    format!(
        "{input}: no log of Linux 5.10 or later, no ramoops region{doubtful}, no log ring and no trace {place};\
         {instead} if you know where a region is, give its sizes: --offset, --record-size and so on \
         (see --help){report}"
    )
}

/// Adds what is in doubt about an image that was read. Without records it stands first, for it is the
/// likely cause.
fn checked(
    mut outcome: Outcome,
    image: &Memory,
    input: &Input,
    doubts: impl IntoIterator<Item = String>,
) -> Outcome {
    if let Err(error) = image.check() {
        let message = format!("{input}: {error}");
        return outcome.and(Outcome::none(Status::Error, message));
    }
    for doubt in doubts.into_iter().chain(image.doubt()) {
        let doubt = format!("{input}: {doubt}");
        outcome.message = Some(match (outcome.message, outcome.status) {
            (Some(message), Status::None) => format!("{doubt}; {message}"),
            (Some(message), _) => format!("{message}; {doubt}"),
            (None, _) => doubt,
        });
    }
    outcome
}

/// Missing memory is not zeros.
fn has_only_zeros(image: &Memory) -> bool {
    let mut data = image.data();
    !image.segments().is_empty()
        && image.doubt().is_none()
        && data.all(|(_, bytes)| bytes.iter().all(|byte| *byte == 0))
}

/// Returns a sign of Linux in an image without its log: a VMCOREINFO, or a banner.
fn seen_instead(image: &Memory, discovery: &Discovery<'_>) -> Option<String> {
    /// Number of characters of a banner.
    const START: usize = 60;

    if let Some((source, info)) = discovery.vmcoreinfos(&[]).first() {
        let release = escape_name(info.release());
        return Some(format!(
            "Linux {release} is described by {source}, but its log cannot be read"
        ));
    }
    let discovery = Discovery::of_kinds(image, 0..u64::MAX, None, &[&banner::FINDER]);
    let Banner { address, text } = discovery.banners(&[]).into_iter().next()?;
    let text = escape_name(&text.chars().take(START).collect::<String>());
    Some(format!("the text `{text}` is at {address:#x}"))
}

/// Returns a number of bytes as text.
fn bytes(number: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| number >= *unit) {
        Some((unit, name)) => format!("{} {name}", number / unit),
        None => counted(number, "byte"),
    }
}

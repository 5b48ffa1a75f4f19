//! Linux's log in an image, and its output.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;

use serde::Serialize;

use super::input::Input;
use super::json::{About, Hex, Lossy, SCHEMA, escaped};
use super::outcome::{Outcome, Status};
use super::output::Style;
use super::part::{Opening, Output, Part, Parts, Turn, safe};
use super::text::{self, passage};
use crate::count::counted;
use crate::discovery::Discovery;
use crate::kernel::CrashedKernel;
use crate::kernel_log::{ConsoleProgress, KernelLog, LostText, MessageState};
use crate::memory::Memory;
use crate::symbols::Symbols;
use crate::vmcoreinfo::MOST;

/// The output of Linux's logs.
pub static OUTPUT: Output = Output {
    plural: "kernel logs",
    most: MOST,
    takes_memory: false,
    turn: Turn::First,
    is_record: true,
    open,
};

fn open<'a>(opening: &Opening<'a>, taken: &[Range<u64>]) -> Parts<'a> {
    let logs = opening.discovery.kernel_logs(taken);
    let others = logs.len().saturating_sub(1);
    let shown = if opening.all { logs.len() } else { 1 };
    let logs = logs.into_iter().take(shown).enumerate();
    let logs = logs.map(|(index, found)| {
        let others = if opening.all { 0 } else { others };
        Box::new(Log::new(index, found, others)) as _
    });
    logs.collect()
}

/// Returns the log to which the dump's header leads, without a search.
pub fn of_header(image: &Memory) -> Option<Box<dyn Part + '_>> {
    let logs = Discovery::of_header(image).kernel_logs(&[]);
    let found = logs.into_iter().next()?;
    Some(Box::new(Log::new(0, found, 0)))
}

struct Log<'a> {
    /// Index in the image.
    index: usize,
    found: KernelLog<'a>,
    /// The consoles and their progress, if it is known.
    consoles: Option<Vec<ConsoleProgress>>,
    /// Number of other logs that are not shown.
    others: usize,
}

impl<'a> Log<'a> {
    fn new(index: usize, found: KernelLog<'a>, others: usize) -> Self {
        Self {
            index,
            found,
            consoles: None,
            others,
        }
    }

    /// Returns the numbers of its records as text.
    fn counts(&self) -> String {
        let counts = self.found.counts;
        let mut text = format!(
            "{}, {} of {}",
            counted(counts.records, "record"),
            self.sequences(),
            match self.found.info.release() {
                "" => "an unknown Linux".to_owned(),
                release => format!("Linux {release}"),
            }
        );
        for (number, are) in [
            (counts.lost, "without their text"),
            (counts.unfinished, "unfinished"),
            (counts.missing, "missing in the image"),
            (counts.foreign, "damaged"),
        ] {
            if number > 0 {
                text += &format!(", {number} {are}");
            }
        }
        if self.found.is_early {
            text += ", followed by a larger ring whose records the image lacks";
        }
        if self.others > 0 {
            let others = counted(self.others as u64, "other log");
            text += &format!("; {others} in the image: --all shows all");
        }
        text
    }

    /// Returns the consoles that had not printed the last record, the one with most progress first.
    fn behind(&self) -> Vec<ConsoleProgress> {
        let last = self.found.counts.last;
        let consoles = self.consoles.iter().flatten();
        let behind = consoles.filter(|console| Some(console.next_sequence) <= last);
        let mut behind: Vec<_> = behind.cloned().collect();
        behind.sort_by_key(|console| Reverse(console.next_sequence));
        behind
    }

    /// Returns the consoles that printed a record; `None` if it is unknown.
    fn printed(&self, sequence: u64) -> Option<Vec<&str>> {
        let consoles = self.consoles.as_ref()?.iter();
        let printed = consoles.filter(|console| sequence < console.next_sequence);
        Some(printed.map(|console| &*console.name).collect())
    }

    fn sequences(&self) -> String {
        match (self.found.counts.first, self.found.counts.last) {
            (Some(first), Some(last)) => format!("{first} to {last}"),
            _ => "none".to_owned(),
        }
    }
}

impl Part for Log<'_> {
    fn kind(&self) -> &'static str {
        "kernel log"
    }

    fn address(&self) -> u64 {
        self.found.address
    }

    fn name(&self) -> String {
        match self.index {
            0 => "dmesg.txt".to_owned(),
            index => format!("dmesg-{index}.txt"),
        }
    }

    fn describe(&self) -> String {
        format!("Linux's log at {:#x}: {}", self.address(), self.counts())
    }

    fn prepare(&mut self, _: Option<&Symbols>) {
        self.consoles = self.found.consoles();
    }

    fn tell(&self, kernel: &mut CrashedKernel) {
        self.found.tell(kernel);
    }

    fn symbols(&self) -> Option<Symbols> {
        self.found.symbols()
    }

    fn explain(&self) -> Vec<String> {
        let found = &self.found;
        let mut lines = vec![format!("found by {}; {}", found.source, found.ram_layout())];
        if let Some(offset) = found.info.kernel_offset() {
            lines.push(format!("kernel offset {offset:#x}, from {}", found.source));
        }
        if self.consoles.is_none() {
            lines.push("it is unknown which records the consoles had printed".to_owned());
        }
        for ConsoleProgress {
            name,
            next_sequence,
        } in self.consoles.iter().flatten()
        {
            lines.push(match self.found.counts.last {
                Some(last) if *next_sequence <= last => {
                    format!("{name}: the next record that it prints is {next_sequence}")
                }
                _ => format!("{name} has printed all records"),
            });
        }
        lines
    }

    fn summary(&self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        let about = format!("printk's ring at {:#x}, {}", self.address(), self.counts());
        let title = format!("kernel log {}", self.index);
        text::part(&title, &about, self.trust(), style, out)
    }

    fn text(&mut self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        let mut lost = LostRun::default();
        let mut behind = self.behind();
        for message in self.found.messages() {
            // The records that no console printed follow the last mark.
            while let Some(console) = behind.pop_if(|it| it.next_sequence <= message.sequence) {
                lost.end(style, out)?;
                text::heading(&format!("printed to here by {}", console.name), style, out)?;
            }
            match message.state {
                MessageState::Lost(why) => {
                    lost.add(why, message.sequence, style, out)?;
                    continue;
                }
                MessageState::Unfinished => continue,
                MessageState::Complete | MessageState::Reopened => lost.end(style, out)?,
            }
            for line in message.text.split(|&byte| byte == b'\n') {
                write!(out, "{}", Time(message.time_ns))?;
                passage(line, false, out)?;
                writeln!(out)?;
            }
            if message.state == MessageState::Reopened {
                let sequence = message.sequence;
                let note = format!("record {sequence}: a caller was about to continue it");
                text::heading(&note, style, out)?;
            }
        }
        if let Some((_, _, last)) = lost.0
            && Some(last) == self.found.counts.last
        {
            lost.end(style, out)?;
            let note = "the newest records have lost their text: a panic may be among them";
            return text::heading(note, style, out);
        }
        lost.end(style, out)
    }

    fn linux(&mut self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        safe(style, out, |out| {
            let messages = self.found.messages();
            messages
                .filter(|message| message.state.has_text())
                .try_for_each(|message| {
                    let time = Time(message.time_ns);
                    message
                        .text
                        .split(|&byte| byte == b'\n')
                        .try_for_each(|line| {
                            write!(out, "<{}>{time}", message.priority())?;
                            out.write_all(line)?;
                            writeln!(out)
                        })
                })
        })
    }

    fn json(&self, about: &About<'_>, out: &mut dyn Write) -> io::Result<()> {
        let address = format!("{:#x}", self.address());
        let found = &self.found;
        let line = LogLine {
            r#type: "kernel_log",
            image: about,
            index: self.index,
            name: self.name(),
            address: &address,
            size: found.text_size(),
            found: found.source.to_string(),
            memory: found.ram_layout().to_string(),
            release: Some(found.info.release()).filter(|release| !release.is_empty()),
            build_id: found.info.build_id(),
            kernel_offset: found
                .info
                .kernel_offset()
                .map(|offset| format!("{offset:#x}")),
            other_logs: self.others,
            is_early: self.found.is_early,
            consoles: self.consoles.as_ref().map(|consoles| {
                let consoles = consoles.iter();
                consoles.map(|it| (&*it.name, it.next_sequence)).collect()
            }),
            records: found.counts.records,
            first_sequence: found.counts.first,
            last_sequence: found.counts.last,
            lost_texts: found.counts.lost,
            unfinished: found.counts.unfinished,
            missing: found.counts.missing,
            damaged: found.counts.foreign,
            trust: self.trust().name(),
        };
        escaped(&line, out)?;
        found.messages().try_for_each(|message| {
            let is_text = str::from_utf8(&message.text).is_ok();
            let is_known = message.state != MessageState::Unfinished;
            let line = MessageLine {
                r#type: "kernel_message",
                schema: SCHEMA,
                log: &address,
                sequence: message.sequence,
                time_ns: is_known.then_some(message.time_ns),
                facility: is_known.then_some(message.facility),
                level: is_known.then_some(message.level),
                caller: is_known.then(|| message.caller.to_string()),
                subsystem: message.subsystem.as_deref(),
                device: message.device.as_deref(),
                printed: self.printed(message.sequence),
                text: Lossy(&message.text),
                data_hex: (!is_text).then(|| Hex(&message.text)),
                state: message.state.word(),
                trust: message.trust().name(),
            };
            escaped(&line, out)
        })
    }

    fn outcome(&self, _: &Input) -> Outcome {
        Outcome {
            status: Status::Records,
            records: usize::try_from(self.found.counts.records).unwrap_or(usize::MAX),
            message: None,
        }
    }
}

/// Records in a row whose texts are lost for one reason.
#[derive(Default)]
struct LostRun(Option<(LostText, u64, u64)>);

impl LostRun {
    fn add(
        &mut self,
        why: LostText,
        sequence: u64,
        style: Style,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        match &mut self.0 {
            Some((known, _, last)) if *known == why => *last = sequence,
            _ => {
                self.end(style, out)?;
                self.0 = Some((why, sequence, sequence));
            }
        }
        Ok(())
    }

    /// Writes a line about the records, if there are any.
    fn end(&mut self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        match self.0.take() {
            None => Ok(()),
            Some((why, first, last)) if first == last => {
                text::heading(&format!("record {first}: {why}"), style, out)
            }
            Some((why, first, last)) => {
                text::heading(&format!("records {first} to {last}: {why}"), style, out)
            }
        }
    }
}

/// Time as printk prints it: `[    1.234567] `.
struct Time(u64);

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let micros = self.0 / 1_000;
        write!(f, "[{:5}.{:06}] ", micros / 1_000_000, micros % 1_000_000)
    }
}

/// JSON line of a log.
#[derive(Serialize)]
struct LogLine<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    image: &'a About<'a>,
    index: usize,
    name: String,
    address: &'a str,
    size: u64,
    found: String,
    memory: String,
    release: Option<&'a str>,
    build_id: Option<&'a str>,
    kernel_offset: Option<String>,
    other_logs: usize,
    is_early: bool,
    /// Name and next sequence number of each console.
    consoles: Option<BTreeMap<&'a str, u64>>,
    records: u64,
    first_sequence: Option<u64>,
    last_sequence: Option<u64>,
    lost_texts: u64,
    unfinished: u64,
    missing: u64,
    damaged: u64,
    trust: &'static str,
}

/// JSON line of a record.
#[derive(Serialize)]
struct MessageLine<'a> {
    r#type: &'static str,
    schema: u32,
    log: &'a str,
    sequence: u64,
    time_ns: Option<u64>,
    facility: Option<u8>,
    level: Option<u8>,
    caller: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subsystem: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<&'a str>,
    printed: Option<Vec<&'a str>>,
    text: Lossy<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_hex: Option<Hex<'a>>,
    state: &'static str,
    trust: &'static str,
}

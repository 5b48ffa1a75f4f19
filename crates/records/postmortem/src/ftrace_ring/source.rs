//! A ring buffer as a source of events for nostall-tracefile's reports.

use std::io;
use std::path::Path;

use nostall_tracefile::linux::Formats;
use nostall_tracefile::model::{
    Catalog, Event, EventKind, Name, Progress, ReadError, Source, Task,
};

use super::buffer::RingBuffer;
use super::entry::{Common, Entry};
use super::kernel::Kernel;
use super::merge::{Merge, MergeBy, RingRecord};
use super::page::PageState;
use super::trace_text::TraceText;
use crate::memory::Memory;
use crate::symbols::Symbols;

/// The records of one ring buffer, boot by boot.
#[derive(Debug)]
pub struct RingSource {
    image: Memory,
    buffer: RingBuffer,
    kernel: Kernel,
    merge: Merge,
    catalog: Catalog,
    notes: Vec<String>,
    /// Event after a [`EventKind::Lost`].
    pending: Option<Event>,
    /// Number of records read, and number of all records.
    progress: (u64, u64),
    /// Boot of the last record.
    boot: u32,
}

impl RingSource {
    /// Reads a ring buffer of an image.
    ///
    /// # Errors
    ///
    /// If the symbols belong to another kernel.
    pub fn new(
        image: Memory,
        buffer: RingBuffer,
        symbols: Option<Symbols>,
        formats: Formats,
    ) -> Result<Self, ReadError> {
        let kernel =
            Kernel::new(&image, &buffer, symbols, formats, None).map_err(ReadError::new)?;
        let mut notes: Vec<_> = kernel.note().into_iter().collect();
        notes.extend(buffer.notes());
        notes.extend(image.doubt());
        Ok(Self {
            merge: Merge::new(&image, &buffer, MergeBy::Boot),
            image,
            progress: (0, buffer.records()),
            buffer,
            kernel,
            catalog: Catalog::default(),
            notes,
            pending: None,
            boot: 0,
        })
    }

    fn event(&mut self, record: &RingRecord<'_>, text: Option<String>) -> Event {
        let pid = Common::of(&record.payload).pid;
        let task = match pid {
            0 => self.catalog.task(0, "<idle>"),
            pid => self.catalog.task(pid.into(), ""),
        };
        let kind = match (self.kernel.entry(&record.payload), text) {
            (Entry::Call { ip, parent } | Entry::Repeats { ip, parent, .. }, _) => {
                EventKind::Call {
                    function: self.name(ip),
                    caller: (parent != 0).then(|| self.name(parent)),
                }
            }
            (Entry::Enter { function, depth }, _) => EventKind::Enter {
                function: self.name(function),
                depth: depth.try_into().ok(),
                argument: None,
            },
            (
                Entry::Exit {
                    function,
                    depth,
                    duration,
                    ..
                },
                _,
            ) => EventKind::Exit {
                function: Some(self.name(function)),
                depth: depth.try_into().ok(),
                duration: Some(duration),
            },
            (_, text) => EventKind::Mark {
                text: self.catalog.name(text.as_deref().unwrap_or_default()),
            },
        };
        Event {
            time: record.time,
            cpu: record.cpu as u32,
            task,
            kind,
        }
    }

    fn name(&mut self, address: u64) -> Name {
        match self.kernel.function(address) {
            Some(symbol) => self.catalog.name(symbol.name),
            None => self.catalog.name(&format!("{address:#x}")),
        }
    }
}

impl Source for RingSource {
    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        if let Some(event) = self.pending.take() {
            return Ok(Some(event));
        }
        // The record borrows the image, and the rest of `self` is changed.
        let next = self.merge.next(&self.image, &self.buffer);
        let Some(record) = next.map(RingRecord::into_owned) else {
            self.image.check().map_err(ReadError::new)?;
            return Ok(None);
        };
        self.progress.0 += 1;
        if record.boot > self.boot {
            self.boot = record.boot;
            self.notes.push(format!(
                "records of boot {} start at {} ns",
                record.boot, record.time
            ));
        }
        let text = match self.kernel.entry(&record.payload) {
            Entry::Call { .. }
            | Entry::Repeats { .. }
            | Entry::Enter { .. }
            | Entry::Exit { .. } => None,
            _ => {
                let mut text = Vec::new();
                TraceText::new(&self.kernel, &self.buffer).body(&record, None, &mut text);
                Some(String::from_utf8_lossy(&text).trim_end().to_owned())
            }
        };
        let event = self.event(&record, text);
        if record.lost {
            self.pending = Some(event);
            return Ok(Some(Event {
                task: Task::NONE,
                kind: EventKind::Lost { records: 0 },
                ..event
            }));
        }
        Ok(Some(event))
    }

    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn progress(&self) -> Progress {
        Progress {
            done: self.progress.0,
            total: self.progress.1,
        }
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }
}

impl RingBuffer {
    /// Returns sentences about damage, missing parts, boots and the layout.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.version.is_compared() {
            notes.push(format!(
                "the layout is of {}, which was not compared with that kernel's own output",
                self.version.name()
            ));
        }
        if self.boots() > 1 {
            notes.push(format!(
                "the records are of {} boots: the time steps back between them",
                self.boots()
            ));
        }
        for cpu in &self.cpus {
            let number = cpu.number;
            notes.extend(
                cpu.problems
                    .iter()
                    .map(|problem| format!("CPU {number}: {problem}")),
            );
            for page in cpu.damaged() {
                let at = self.page(number, page.index);
                let index = page.index;
                let state = match page.state {
                    PageState::Sound => continue,
                    PageState::Missing => "is not in the image".to_owned(),
                    PageState::Commit(commit) => {
                        format!("is not read: {commit} bytes are committed, more than it holds")
                    }
                    PageState::Cut { offset, unread } => format!(
                        "is damaged at byte {offset} of its data: {} records before that are \
                         unverified, and {unread} bytes are not read",
                        page.records
                    ),
                    PageState::OddTime => format!(
                        "has {} records whose time is not between its neighbours' times",
                        page.records
                    ),
                };
                notes.push(format!(
                    "CPU {number}: sub-buffer {index} at {at:#x} {state}"
                ));
            }
            if !cpu.is_shown_by_linux() {
                let records = cpu.records();
                notes.push(format!(
                    "CPU {number}: Linux drops all of it; {records} records are kept here"
                ));
            }
        }
        notes
    }
}

/// Reads event formats: a directory like tracefs's `events`, or a file with formats in a row. A
/// file `event_ids` in the same directory has the names of the other events.
///
/// # Errors
///
/// If nothing there can be read, or if it holds no format.
pub fn load_formats(path: &Path) -> io::Result<Formats> {
    /// Most files of a tree.
    const MOST: usize = 1 << 16;
    let mut formats = Formats::new(nostall_tracefile::linux::Order::Little, 8);
    let read = |path: &Path| -> io::Result<String> {
        let bytes = std::fs::read(path)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    if path.is_dir() {
        let mut folders = vec![path.to_owned()];
        let mut files = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder)? {
                let entry = entry?;
                let (kind, path) = (entry.file_type()?, entry.path());
                let name = entry.file_name();
                files += 1;
                if files > MOST {
                    return Err(io::Error::other("more files than any kernel has events"));
                }
                if kind.is_dir() {
                    folders.push(path);
                } else if name == "format" || name == "formats" {
                    formats.add(&read(&path)?);
                } else if name == "event_ids" {
                    formats.add_ids(&read(&path)?);
                } else if name == "id"
                    && let Ok(id) = read(&path)?.trim().parse()
                    && let Some(event) = folder.file_name()
                {
                    formats.add_id(id, &event.to_string_lossy());
                }
            }
        }
    } else {
        formats.add(&read(path)?);
        let ids = path.with_file_name("event_ids");
        if ids.is_file() {
            formats.add_ids(&read(&ids)?);
        }
    }
    if formats.is_empty() {
        return Err(io::Error::other(
            "no event format in it; give a copy of tracefs's directory events, or its format files \
             in a row",
        ));
    }
    Ok(formats)
}

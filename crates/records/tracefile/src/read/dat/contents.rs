//! Header of a trace.dat file, versions 6 and 7.

use std::collections::HashMap;
use std::io::{BufReader, Cursor, Read, Seek};

use super::fields::{Fields, LONGEST, lossy};
use super::span::{Compression, Shared, Span};
use super::symbols::Symbols;
use crate::linux::{Formats, Order, PageForm};
use crate::model::ReadError;

/// First bytes of each trace.dat file.
pub(super) const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// Maximum number of CPUs of a buffer.
const MOST_CPUS: u32 = 4096;
/// Maximum number of buffers (trace instances).
const MOST_BUFFERS: usize = 256;
/// Maximum number of option sections.
const MOST_OPTIONS: usize = 1024;

/// Identifiers of options, and of the sections that they refer to.
mod id {
    pub const DONE: u16 = 0;
    pub const DATE: u16 = 1;
    pub const BUFFER: u16 = 3;
    pub const TRACECLOCK: u16 = 4;
    pub const OFFSET: u16 = 7;
    pub const CPUCOUNT: u16 = 8;
    pub const TIME_SHIFT: u16 = 12;
    pub const TSC2NSEC: u16 = 14;
    pub const HEADER_INFO: u16 = 16;
    pub const FTRACE_EVENTS: u16 = 17;
    pub const EVENT_FORMATS: u16 = 18;
    pub const KALLSYMS: u16 = 19;
    pub const PRINTK: u16 = 20;
    pub const CMDLINES: u16 = 21;
    pub const BUFFER_TEXT: u16 = 22;
}

/// A section of version 7 in memory.
type Section = Fields<Cursor<Vec<u8>>>;

/// Flag of a compressed section.
const COMPRESSED: u16 = 1;

/// Contents of the file before the records.
#[derive(Debug)]
pub(super) struct Contents {
    pub form: PageForm,
    pub compression: Compression,
    pub formats: Formats,
    pub symbols: Symbols,
    /// Names of tasks.
    pub commands: HashMap<i32, String>,
    /// Addresses and texts of the kernel's `trace_printk` formats.
    pub printk: HashMap<u64, String>,
    pub buffers: Vec<Buffer>,
    pub times: Times,
    /// Whether the file is a virtual machine's and has the shift to its host's clock.
    pub is_shifted: bool,
    page_size: u32,
    clock: String,
    /// Number of bytes that further version 7 sections may have.
    room: u64,
    /// Number of CPUs in a version 6 table.
    cpus: u32,
    /// Offset of the table and name of each version 6 instance.
    instances: Vec<(u64, String)>,
    /// Format files, which are parsed once the size of a `long` is known.
    files: Vec<String>,
}

/// Records of one trace instance.
#[derive(Debug)]
pub(super) struct Buffer {
    /// Name of the instance; empty for the top one.
    pub name: String,
    pub clock: String,
    pub page_size: u32,
    pub is_compressed: bool,
    pub data: BufferData,
}

#[derive(Debug)]
pub(super) enum BufferData {
    /// Pages of each CPU.
    Cpus(Vec<CpuData>),
    /// Text of tracefs: its offset and length.
    Text(u64, u64),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CpuData {
    pub cpu: u32,
    pub at: u64,
    pub len: u64,
}

/// Correction of time stamps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    offset: i64,
    /// Factor and shift that turn ticks into nanoseconds.
    scale: Option<(u32, u32)>,
}

impl Times {
    pub(super) fn apply(self, time: u64) -> u64 {
        let time = match self.scale {
            Some((factor, shift)) => ((u128::from(time) * u128::from(factor)) >> shift) as u64,
            None => time,
        };
        time.wrapping_add_signed(self.offset)
    }
}

impl Buffer {
    /// Returns the CPUs; empty for a text buffer.
    pub(super) fn cpus(&self) -> &[CpuData] {
        match &self.data {
            BufferData::Cpus(cpus) => cpus,
            BufferData::Text(..) => &[],
        }
    }

    /// Returns whether the clock counts another unit than nanoseconds.
    pub(super) fn is_in_ticks(&self, times: Times) -> bool {
        times.scale.is_none() && matches!(self.clock.as_str(), "counter" | "x86-tsc" | "ppc-tb")
    }
}

impl Contents {
    pub(super) fn read<R: Read + Seek>(input: &Shared<R>) -> Result<Self, ReadError> {
        let file = Span::new(input, 0, u64::MAX);
        let mut fields = Fields::new(BufReader::new(file), Order::Little);
        if fields.bytes(MAGIC.len() as u64)? != MAGIC {
            return Err(ReadError::new("this is no trace.dat file"));
        }
        let version = fields.name()?;
        let order = match fields.byte()? {
            0 => Order::Little,
            _ => Order::Big,
        };
        fields.set_order(order);
        let long = fields.byte()?;
        let page_size = fields.u32()?;
        let mut contents = Self {
            form: PageForm {
                order,
                commit_bytes: if long == 4 { 4 } else { 8 },
            },
            compression: Compression::None,
            formats: Formats::default(),
            symbols: Symbols::default(),
            commands: HashMap::new(),
            printk: HashMap::new(),
            buffers: Vec::new(),
            times: Times::default(),
            is_shifted: false,
            page_size,
            clock: String::new(),
            room: LONGEST,
            cpus: 0,
            instances: Vec::new(),
            files: Vec::new(),
        };
        match version.as_str() {
            "6" => contents.read_version_6(&mut fields, input)?,
            "7" => {
                contents.compression = Compression::named(&fields.name()?)?;
                // Version of the compressor.
                fields.name()?;
                let options = fields.u64()?;
                contents.read_version_7(options, input)?;
            }
            other => {
                return Err(ReadError::new(format!(
                    "trace.dat has version {other:?}: nostall reads 6 and 7"
                )));
            }
        }
        contents.formats = Formats::new(order, contents.form.commit_bytes);
        for file in std::mem::take(&mut contents.files) {
            contents.formats.add(&file);
        }
        Ok(contents)
    }

    fn read_version_6<R: Read + Seek>(
        &mut self,
        fields: &mut Fields<impl Read>,
        input: &Shared<R>,
    ) -> Result<(), ReadError> {
        self.header_info(fields)?;
        self.ftrace_events(fields)?;
        self.event_formats(fields)?;
        for section in [id::KALLSYMS, id::PRINTK, id::CMDLINES] {
            self.texts(section, fields)?;
        }
        self.cpus = fields.u32()?;
        self.records(fields, String::new(), input)?;
        for (at, name) in std::mem::take(&mut self.instances) {
            let table = Span::new(input, at, u64::MAX);
            let mut fields = Fields::new(BufReader::new(table), self.form.order);
            self.records(&mut fields, name, input)?;
        }
        let clock = self.clock.clone();
        for buffer in &mut self.buffers {
            buffer.clock.clone_from(&clock);
        }
        Ok(())
    }

    /// Reads the options and the table of a version 6 buffer.
    fn records<R: Read + Seek>(
        &mut self,
        fields: &mut Fields<impl Read>,
        name: String,
        input: &Shared<R>,
    ) -> Result<(), ReadError> {
        let mut word = fields.bytes(10)?;
        let is_top = name.is_empty();
        if word.starts_with(b"options") {
            loop {
                let option = fields.u16()?;
                if option == id::DONE {
                    break;
                }
                let len = fields.u32()?;
                let data = fields.bytes(len.into())?;
                if is_top {
                    self.option(option, data, false, input)?;
                }
            }
            word = fields.bytes(10)?;
        }
        let data = if word.starts_with(b"latency") {
            // The text is the rest of the file. Only the top buffer has one.
            let at = fields.done();
            BufferData::Text(at, input.len().map_err(ReadError::new)?.saturating_sub(at))
        } else if word.starts_with(b"flyrecord") {
            let table = (0..known_cpus(self.cpus)?).map(|cpu| {
                Ok(CpuData {
                    cpu,
                    at: fields.u64()?,
                    len: fields.u64()?,
                })
            });
            BufferData::Cpus(table.collect::<Result<_, ReadError>>()?)
        } else {
            return Err(ReadError::new("neither records nor text follow the header"));
        };
        self.buffers.push(Buffer {
            name,
            clock: String::new(),
            page_size: self.page_size,
            is_compressed: false,
            data,
        });
        Ok(())
    }

    fn read_version_7<R: Read + Seek>(
        &mut self,
        mut at: u64,
        input: &Shared<R>,
    ) -> Result<(), ReadError> {
        let mut sections = Vec::new();
        let mut left = MOST_OPTIONS;
        while at != 0 && left > 0 {
            left -= 1;
            let (section, mut fields) = self.section(at, input)?;
            if section != id::DONE {
                return Err(ReadError::new(format!("no options at byte {at}")));
            }
            at = loop {
                let option = fields.u16()?;
                let len = fields.u32()?;
                let data = fields.bytes(len.into())?;
                match option {
                    id::DONE => break Fields::new(&data[..], self.form.order).u64()?,
                    id::HEADER_INFO..=id::CMDLINES => {
                        sections.push((option, Fields::new(&data[..], self.form.order).u64()?));
                    }
                    _ => self.option(option, data, true, input)?,
                }
            };
        }
        // A hostile file may refer to the same section a thousand times.
        sections.sort_by_key(|(option, _)| *option);
        sections.dedup_by_key(|(option, _)| *option);
        for (option, at) in sections {
            let (_, mut fields) = self.section(at, input)?;
            match option {
                id::HEADER_INFO => self.header_info(&mut fields)?,
                id::FTRACE_EVENTS => self.ftrace_events(&mut fields)?,
                id::EVENT_FORMATS => self.event_formats(&mut fields)?,
                _ => self.texts(option, &mut fields)?,
            }
        }
        Ok(())
    }

    /// Reads a version 7 section into memory. Also returns its identifier.
    fn section<R: Read + Seek>(
        &mut self,
        at: u64,
        input: &Shared<R>,
    ) -> Result<(u16, Section), ReadError> {
        let mut fields = Fields::new(Span::new(input, at, u64::MAX), self.form.order);
        let (id, flags, _description) = (fields.u16()?, fields.u16()?, fields.u32()?);
        let len = fields.u64()?;
        let bytes = if flags & COMPRESSED == 0 {
            fields.bytes(len.min(self.room + 1))?
        } else {
            let (packed, len) = (fields.u32()?, fields.u32()?);
            let packed = fields.bytes(packed.into())?;
            self.compression.unpack(&packed, len.into(), self.room)?
        };
        // Sections may refer to each other repeatedly.
        let room = self.room.checked_sub(bytes.len() as u64);
        self.room = room.ok_or_else(|| ReadError::new("the file's header is too long"))?;
        Ok((id, Fields::new(Cursor::new(bytes), self.form.order)))
    }

    /// Processes one option. Options unrelated to the events are skipped.
    fn option<R: Read + Seek>(
        &mut self,
        option: u16,
        data: Vec<u8>,
        has_sections: bool,
        input: &Shared<R>,
    ) -> Result<(), ReadError> {
        let mut fields = Fields::new(&data[..], self.form.order);
        match option {
            // Microseconds, and nanoseconds.
            id::DATE => {
                let offset = offset(&data).saturating_mul(1000);
                self.times.offset = self.times.offset.wrapping_add(offset);
            }
            id::OFFSET => self.times.offset = self.times.offset.wrapping_add(offset(&data)),
            id::TSC2NSEC => {
                let (factor, shift) = (fields.u32()?, fields.u32()?);
                self.times.scale = (factor != 0 && shift < 64).then_some((factor, shift));
            }
            id::TRACECLOCK => {
                let text = lossy(data);
                let chosen = text
                    .split_once('[')
                    .and_then(|(_, rest)| rest.split_once(']'));
                self.clock = chosen.map_or("", |(clock, _)| clock).to_owned();
            }
            id::TIME_SHIFT => self.is_shifted = true,
            id::CPUCOUNT => self.cpus = fields.u32()?,
            id::BUFFER if !has_sections && self.instances.len() < MOST_BUFFERS => {
                self.instances.push((fields.u64()?, fields.name()?));
            }
            id::BUFFER | id::BUFFER_TEXT if has_sections && self.buffers.len() < MOST_BUFFERS => {
                let buffer = self.buffer(option, &mut fields, input)?;
                self.buffers.push(buffer);
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads the option that describes a version 7 buffer.
    fn buffer<R: Read + Seek>(
        &self,
        option: u16,
        fields: &mut Fields<&[u8]>,
        input: &Shared<R>,
    ) -> Result<Buffer, ReadError> {
        let at = fields.u64()?;
        let (name, clock) = (fields.name()?, fields.name()?);
        let mut section = Fields::new(Span::new(input, at, u64::MAX), self.form.order);
        let (_id, flags) = (section.u16()?, section.u16()?);
        let (_description, len) = (section.u32()?, section.u64()?);
        let (page_size, data) = if option == id::BUFFER_TEXT {
            (0, BufferData::Text(at.saturating_add(section.done()), len))
        } else {
            let page_size = fields.u32()?;
            let table = (0..known_cpus(fields.u32()?)?).map(|_| {
                Ok(CpuData {
                    cpu: fields.u32()?,
                    at: fields.u64()?,
                    len: fields.u64()?,
                })
            });
            (
                page_size,
                BufferData::Cpus(table.collect::<Result<_, ReadError>>()?),
            )
        };
        Ok(Buffer {
            name,
            clock,
            page_size,
            is_compressed: flags & COMPRESSED != 0,
            data,
        })
    }

    /// Reads the format of pages. The format of records has never changed.
    fn header_info(&mut self, fields: &mut Fields<impl Read>) -> Result<(), ReadError> {
        fields.expect("header_page\0")?;
        let len = fields.u64()?;
        let page = fields.text(len)?;
        let commit = page.lines().find(|line| line.contains(" commit;"));
        let size = commit
            .and_then(|line| line.split_once("size:"))
            .and_then(|(_, size)| size.split(';').next());
        // The kernel's `long` may be longer than its programs'.
        match size {
            Some("4") => self.form.commit_bytes = 4,
            Some("8") => self.form.commit_bytes = 8,
            _ => {}
        }
        fields.expect("header_event\0")?;
        let len = fields.u64()?;
        fields.bytes(len)?;
        Ok(())
    }

    fn ftrace_events(&mut self, fields: &mut Fields<impl Read>) -> Result<(), ReadError> {
        self.files(fields)
    }

    fn event_formats(&mut self, fields: &mut Fields<impl Read>) -> Result<(), ReadError> {
        for _ in 0..fields.u32()? {
            fields.name()?;
            self.files(fields)?;
        }
        Ok(())
    }

    /// Reads a number of format files.
    fn files(&mut self, fields: &mut Fields<impl Read>) -> Result<(), ReadError> {
        for _ in 0..fields.u32()? {
            let len = fields.u64()?;
            self.files.push(fields.text(len)?);
        }
        Ok(())
    }

    /// Reads a section with a single text.
    fn texts(&mut self, section: u16, fields: &mut Fields<impl Read>) -> Result<(), ReadError> {
        let len = match section {
            id::CMDLINES => fields.u64()?,
            _ => fields.u32()?.into(),
        };
        let text = fields.text(len)?;
        match section {
            id::KALLSYMS => self.symbols = Symbols::new(text),
            id::PRINTK => {
                let lines = text.lines().filter_map(|line| {
                    let (address, format) = line.split_once(" : \"")?;
                    let address = address.trim().strip_prefix("0x")?;
                    let format = format.strip_suffix('"').unwrap_or(format);
                    Some((u64::from_str_radix(address, 16).ok()?, format.to_owned()))
                });
                self.printk = lines.collect();
            }
            _ => {
                let lines = text.lines().filter_map(|line| {
                    let (task, name) = line.trim_start().split_once(' ')?;
                    Some((task.parse().ok()?, name.to_owned()))
                });
                self.commands = lines.collect();
            }
        }
        Ok(())
    }
}

fn known_cpus(cpus: u32) -> Result<u32, ReadError> {
    if cpus > MOST_CPUS {
        return Err(ReadError::new(format!(
            "{cpus} CPUs are too many: nostall reads {MOST_CPUS}"
        )));
    }
    Ok(cpus)
}

/// Parses a signed number with an optional `0x`.
fn offset(data: &[u8]) -> i64 {
    let text = lossy(data.to_vec());
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.trim_start_matches('+')),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    let value = value.unwrap_or(0);
    if negative { -value } else { value }
}

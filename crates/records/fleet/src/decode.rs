//! One input as rows of the tables.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read, Seek};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use anyhow::{Result, anyhow, bail, ensure};
use arrow_array::{ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_buffer::BooleanBuffer;
use nostall_postmortem::detect::{Detection, FoundRegion};
use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::ftrace_ring::{Entry, Kernel, Merge, MergeBy, RingBuffer, TraceText};
use nostall_postmortem::kernel::{
    Cause, Crash, CrashedKernel, Evidence, Fact, KernelOffset, Parser, is_name, log_text, prefix,
};
use nostall_postmortem::kernel_log::{Caller, KernelLog};
use nostall_postmortem::log_ring::{LogEntry, LogRing};
use nostall_postmortem::memory::{self, DumpFormat, Memory, Partial};
use nostall_postmortem::symbols::{Symbol, Symbols};
use nostall_postmortem::trace_region::{HeaderState, TraceRegion};
use nostall_postmortem::vmcoreinfo::InfoSource;
use nostall_postmortem::{Calls, Content, Decoded, Packing, Record, Unpack};
use nostall_pstore::{ByteOrder, Trace, Trust, Writer, ZoneKind, ZoneState};
use nostall_tracefile::linux::Formats;
use nostall_tracefile::model::{EventKind, Source as _, TimeUnit};
use sha2::{Digest, Sha256};

use crate::names::Maps;
use crate::schema::{Kind, TABLES};
use crate::signature::signature;
use crate::tables::{
    self, CALLS, CRASHES, Cell, DUMPS, MOST_BYTES, MOST_ROWS, RECORDS, Rows, TableNumber, nulls,
};

/// Size limit in bytes for a file that is read into memory. A larger one is mapped.
const MOST_READ: u64 = 16 << 20;

/// Size limits in bytes for a region, and for a record that may be compressed. Larger ones need much
/// memory.
const LARGE_REGION: usize = 16 << 20;
const LARGE_RECORD: usize = 1 << 20;

/// Maximum number of ramoops regions of an input.
const MOST_REGIONS: usize = 64;

/// Number of records of a ramoops log that must occur in a ring for both to be of one boot.
const SHARED: usize = 8;

/// Maximum length of a line in bytes. A longer one becomes several rows.
const LONGEST_LINE: usize = 16 << 10;

/// First second of the year 1, since 1970.
const FIRST_SECOND: i64 = -62_135_596_800;

/// First second of the year 10000, since 1970.
const LAST_SECOND: i64 = 253_402_300_800;

/// First character of a name that stands for an address in a trace. No program's names contain it.
const ADDRESS: char = '\0';

/// Options of the decoder.
#[derive(Debug, Default)]
pub struct Options {
    /// Symbols of the kernels that crashed.
    pub maps: Maps,
    /// Leaves out text: paths, log lines and messages.
    pub redact: bool,
    /// Fills the column `decode_time`.
    pub timings: bool,
}

/// An input.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A file.
    Path(&'a Path),
    /// Bytes of a dump.
    Bytes(&'a [u8]),
    /// Bytes of a dump, with their path in a store of objects.
    Named(&'a Path, &'a [u8]),
}

/// Receives the rows of a table, as they are decoded.
///
/// A batch without rows announces that the next ones need much memory. A sink for several inputs may
/// then wait until no other input needs it.
pub type Sink<'a> = dyn FnMut(TableNumber, RecordBatch) -> Result<()> + 'a;

/// Decodes an input as number `input`, and passes its rows to `sink`. The row of an unreadable
/// input in the table `dumps` has the error.
///
/// # Errors
///
/// Returns the errors of `sink`, and no others.
pub fn decode(
    source: Source<'_>,
    input: u64,
    options: &Options,
    sink: &mut Sink<'_>,
) -> Result<()> {
    let start = Instant::now();
    let mut dump = Dump::new(input, options, sink);
    match dump.open(source) {
        Ok(image) => {
            match log_text(&image) {
                Some(text) => {
                    dump.text_file(&text);
                    dump.facts.error = image.doubt();
                }
                None => dump.image(&image),
            }
            let checked = image.check().map_err(Into::into);
            let changed = || dump.mapped.as_ref().map_or(Ok(()), Mapped::check);
            if let Err(error) = checked.and_then(|()| changed()) {
                dump.facts.error = Some(error.to_string());
            }
        }
        Err(error) => dump.facts.error = Some(format!("{error:#}")),
    }
    let path = match source {
        Source::Path(path) | Source::Named(path, _) => Some(path),
        Source::Bytes(_) => None,
    };
    dump.finish(path, options.timings.then(|| start.elapsed().as_nanos()))
}

/// Sends the row of an input at which the decoder panicked.
///
/// # Errors
///
/// Returns the errors of `sink`, and no others.
pub fn failed(
    path: Option<&Path>,
    input: u64,
    options: &Options,
    sink: &mut Sink<'_>,
) -> Result<()> {
    let mut dump = Dump::new(input, options, sink);
    dump.facts.error = Some("a fault of the decoder: please report this dump".to_owned());
    dump.finish(path, None)
}

/// Facts about an input, for its row.
#[derive(Default)]
struct Facts {
    size: Option<u64>,
    format: Option<&'static str>,
    error: Option<String>,
    /// Microseconds since 1970.
    time: Option<i64>,
    uptime: Option<i64>,
    regions: u32,
    first: Option<First>,
    trust: Option<Trust>,
    corrected: u64,
    bad_blocks: u64,
    damaged: u32,
    log_rings: u32,
    kernel_logs: u32,
    traces: u32,
    decoded: u64,
    /// Number of records, rings and traces of each source so far.
    numbers: BTreeMap<&'static str, i32>,
}

/// The first region.
struct First {
    start: u64,
    found: FoundRegion,
}

/// An input that is being decoded.
struct Dump<'a> {
    input: i64,
    hash: Option<String>,
    /// The file, if it is mapped.
    mapped: Option<Mapped>,
    options: &'a Options,
    rows: [Rows; 4],
    counts: [i64; 4],
    sink: &'a mut Sink<'a>,
    sent: Result<()>,
    facts: Facts,
    kernel: CrashedKernel,
    /// Records of each log of ramoops: hashes of their times and texts.
    ramoops: Vec<Vec<u64>>,
}

/// Columns that all lines of a log share.
struct Log {
    source: &'static str,
    number: i32,
    trust: Trust,
    time: Option<i64>,
}

impl<'a> Dump<'a> {
    fn new(input: u64, options: &'a Options, sink: &'a mut Sink<'_>) -> Self {
        Self {
            input: i64::try_from(input).unwrap_or(i64::MAX),
            hash: None,
            mapped: None,
            options,
            rows: [DUMPS, RECORDS, CALLS, CRASHES].map(Rows::new),
            counts: [0; 4],
            sink,
            sent: Ok(()),
            facts: Facts::default(),
            kernel: CrashedKernel::default(),
            ramoops: Vec::new(),
        }
    }

    fn push(&mut self, table: TableNumber, cells: &[Cell<'_>]) {
        self.rows[table].push(cells);
        self.counts[table] += 1;
        if self.rows[table].is_full() {
            self.send(table);
        }
    }

    fn send(&mut self, table: TableNumber) {
        if let Some(batch) = self.rows[table].take(self.input, self.hash.as_deref())
            && self.sent.is_ok()
        {
            self.sent = (self.sink)(table, batch);
        }
    }

    /// Returns whether the sink has failed, so that no more rows are needed.
    fn is_stopped(&self) -> bool {
        self.sent.is_err()
    }

    fn open(&mut self, source: Source<'_>) -> Result<Memory> {
        let bytes = match source {
            Source::Bytes(bytes) | Source::Named(_, bytes) => bytes.to_vec(),
            Source::Path(path) => {
                // Checked before opening: some devices treat that as a command.
                let meta = fs::metadata(path)?;
                if meta.is_dir() {
                    // A directory is in the list of inputs only if it could not be read.
                    fs::read_dir(path)?;
                    bail!("a directory");
                }
                if !meta.is_file() {
                    bail!("a pipe or device: copy its bytes to a file");
                }
                let file = memory::open_file(path)?;
                let meta = file.metadata()?;
                self.facts.size = Some(meta.len());
                if meta.len() > MOST_READ {
                    let mapped = self.mapped.insert(Mapped::new(file, &meta)?);
                    let hash = mapped.hash()?;
                    let image = Memory::from_file(mapped.file.try_clone()?);
                    mapped.check()?;
                    self.hash = Some(hash);
                    return Ok(image?);
                }
                memory::read_to_end(&file, memory::MAX_READ)?
            }
        };
        self.facts.size = Some(bytes.len() as u64);
        self.hash = Some(hex(&Sha256::digest(&bytes)));
        Ok(Memory::from_bytes(bytes)?)
    }

    /// Decodes the text of a log, such as systemd-pstore and kdump's tools archive.
    fn text_file(&mut self, text: &[u8]) {
        self.facts.format = Some("text");
        self.trust(Trust::Unchecked);
        let log = self.log("dmesg", Trust::Unchecked, None);
        let crashes = self.text(&log, text, &[]);
        self.kernel.add(crashes, log.trust, log.time);
    }

    fn image(&mut self, image: &Memory) {
        self.facts.format = Some(image.format().word);
        let discovery = Discovery::new(image);
        let detection = &discovery.detection;
        let mut decoded = Vec::new();
        let is_cut = !detection.is_complete || detection.convincing().len() > MOST_REGIONS;
        let cut = is_cut.then(|| Detection::CUT_SHORT.to_owned());
        let mut doubts: Vec<_> = cut.into_iter().chain(image.doubt()).collect();
        if is_scattered(image) || detection.convincing().iter().any(is_large) {
            let none = RecordBatch::new_empty(TABLES[DUMPS].schema());
            self.sent = (self.sink)(DUMPS, none);
        }
        for found in detection.convincing().iter().take(MOST_REGIONS) {
            let Some(bytes) = image.region(found) else {
                doubts.push(format!("the region at {:#x} is scattered", found.start));
                continue;
            };
            let missing = bytes.missing_bytes();
            if missing > 0 {
                let at = found.start;
                doubts.push(format!(
                    "{missing} bytes of the region at {at:#x} are missing"
                ));
            }
            decoded.push(found.start..found.start.saturating_add(bytes.len() as u64));
            self.region(found, &bytes);
        }
        let traces = discovery.traces(&decoded);
        decoded.extend(traces.iter().map(TraceRegion::taken));
        let logs = discovery.kernel_logs(&decoded);
        let infos = discovery.vmcoreinfos(&decoded);
        // If there are several, any of them may be the crashed kernel's.
        let only = infos.first().filter(|_| infos.len() == 1);
        let has_info = |log: &&KernelLog| !matches!(log.source, InfoSource::Structure(_));
        let info = logs.first().filter(has_info).map(|log| &log.info);
        let info = info.or(only.map(|(_, info)| info));
        if let Some(info) = info {
            self.kernel.read_vmcoreinfo(info);
        }
        let crash = info.and_then(|info| microseconds(info.crash_time()?, 0));
        self.facts.time = self.facts.time.max(crash);
        let rings = discovery.log_rings(&decoded);
        doubts.extend(discovery.doubt());
        self.facts.error = (!doubts.is_empty()).then(|| doubts.join("; "));
        self.facts.kernel_logs = logs.len() as u32;
        if let Some(log) = logs.first() {
            self.kernel_log(log, crash);
        }
        for ring in rings {
            self.log_ring(&ring.ring());
        }
        for trace in &traces {
            self.trace(trace);
        }
        for buffer in discovery.ring_buffers(&decoded) {
            self.ring_buffer(image, &buffer);
        }
    }

    fn region(&mut self, found: &FoundRegion, bytes: &Partial<'_>) {
        self.facts.regions += 1;
        self.facts.first.get_or_insert_with(|| First {
            start: found.start,
            found: found.clone(),
        });
        let decoded = Decoded::partly(
            bytes,
            &found.geometry,
            Writer::HeaderFirst,
            Unpack::ByTrying,
        );
        for zone in decoded.zones() {
            self.facts.damaged += u32::from(matches!(zone.state, ZoneState::Damaged(_)));
            let ecc = zone.ecc.unwrap_or_default();
            self.facts.corrected += ecc.corrected_bytes as u64;
            self.facts.bad_blocks += ecc.bad_blocks as u64;
        }
        // Crashes in the console's log count only if the dmesg records have none.
        let mut has_dmesg_crash = false;
        for record in decoded.records() {
            if self.is_stopped() {
                return;
            }
            self.trust(record.trust);
            let source = match record.kind() {
                ZoneKind::Console => "console",
                kind => kind.name(),
            };
            match &record.content {
                Content::Ftrace(calls) => self.calls(&record, calls),
                Content::Dmesg(dmesg) => {
                    let is_known = dmesg.header_trust != Trust::Unverified;
                    let header = dmesg.header.filter(|_| is_known);
                    let time =
                        header.and_then(|header| microseconds(header.seconds, header.micros));
                    self.facts.time = self.facts.time.max(time);
                    let log = self.log(source, record.trust, time);
                    let is_damaged = matches!(dmesg.packing, Packing::Cut(_) | Packing::Packed);
                    self.facts.damaged += u32::from(is_damaged);
                    // Compressed bytes are no text.
                    if dmesg.packing == Packing::Packed {
                        continue;
                    }
                    let crashes = self.text(&log, &dmesg.text.bytes, &dmesg.text.unverified);
                    has_dmesg_crash |= !crashes.is_empty();
                    self.kernel.add(crashes, log.trust, log.time);
                }
                Content::Console(text) | Content::Pmsg(text) => {
                    let log = self.log(source, record.trust, None);
                    let crashes = self.text(&log, &text.bytes, &text.unverified);
                    if record.kind() == ZoneKind::Console && !has_dmesg_crash {
                        self.kernel.add(crashes, log.trust, log.time);
                    }
                }
            }
        }
    }

    /// Returns the symbols of the crashed kernel, with linked addresses.
    fn symbols(&self) -> Option<Arc<Symbols>> {
        let release = self.kernel.release();
        self.options
            .maps
            .of(release.as_ref().map(|fact| &*fact.text))
    }

    fn trust(&mut self, trust: Trust) {
        self.facts.trust = self.facts.trust.max(Some(trust));
    }

    fn log(&mut self, source: &'static str, trust: Trust, time: Option<i64>) -> Log {
        Log {
            source,
            number: self.number(source),
            trust,
            time,
        }
    }

    /// Returns the number of the next record of a source.
    fn number(&mut self, source: &'static str) -> i32 {
        let next = self.facts.numbers.entry(source).or_default();
        *next += 1;
        *next - 1
    }

    /// Adds the lines of a text, and returns the crashes in them.
    fn text(&mut self, log: &Log, bytes: &[u8], unverified: &[Range<usize>]) -> Vec<Crash> {
        let mut parser = Parser::default();
        // Any program may write to pmsg.
        let is_kernels = log.source != "pmsg";
        if is_kernels && self.kernel.offset.is_none() {
            self.kernel.offset = KernelOffset::of_verified(bytes, unverified);
        }
        self.facts.decoded += bytes.len() as u64;
        let (mut at, mut sequence, mut uptime) = (0, 0, None);
        let mut records = Vec::new();
        while at < bytes.len() && !self.is_stopped() {
            let rest = first(&bytes[at..], LONGEST_LINE);
            let end = memchr::memchr(b'\n', rest);
            let raw = &rest[..end.unwrap_or(rest.len())];
            let lossy = readable(raw);
            let (prefix, words) = prefix(&lossy);
            let start = lossy.len() - words.len();
            let unverified = within(unverified, at + start..at + raw.len());
            if is_kernels && !prefix.is_of_program {
                parser.line(words, prefix.time);
                if unverified.is_empty() {
                    self.kernel.read_line(words);
                }
            }
            if is_kernels {
                uptime = prefix.time.or(uptime);
                records.extend(prefix.time.map(|time| hash(time, words)));
            }
            let shown = (!self.options.redact).then_some(words);
            self.push(
                RECORDS,
                &[
                    Cell::Word(log.source),
                    Cell::Int(log.number),
                    Cell::Long(sequence),
                    Cell::maybe_int(prefix.cpu),
                    Cell::maybe_long(prefix.time),
                    Cell::maybe_int(prefix.level),
                    Cell::text(shown),
                    // The recorded length: in `words`, U+FFFD is longer than the invalid bytes.
                    Cell::long(raw.len() - start),
                    ranges(&unverified),
                    Cell::Word(log.trust.name()),
                ],
            );
            sequence += 1;
            at += raw.len() + usize::from(end.is_some());
        }
        self.facts.uptime = self.facts.uptime.max(uptime);
        self.ramoops.push(records);
        parser.finish()
    }

    /// Adds the records of printk's ring.
    fn kernel_log(&mut self, log: &KernelLog<'_>, crash: Option<i64>) {
        let counts = log.counts;
        let damaged = counts.lost + counts.missing + counts.foreign;
        self.facts.damaged += u32::try_from(damaged).unwrap_or(u32::MAX);
        let columns = self.log("printk", Trust::Unchecked, crash);
        let mut parser = Parser::default();
        let mut records = HashMap::new();
        for message in log.messages() {
            if self.is_stopped() {
                return;
            }
            if !message.state.has_text() {
                continue;
            }
            self.trust(message.trust());
            let text = readable(&message.text);
            // Other logs have microseconds, by which their reports are compared.
            let time = i64::try_from(message.time_ns).unwrap_or(i64::MAX);
            if !self.ramoops.is_empty() {
                for line in text.lines() {
                    let place = records.len();
                    records
                        .entry(hash(time - time % 1000, line))
                        .or_insert(place);
                }
            }
            // A program may write lines that look like a panic.
            let first = text.lines().next().filter(|_| message.is_of_kernel());
            if let Some(line) = first {
                self.kernel.read_line(line);
                parser.line(line, Some(time - time % 1000));
            }
            self.facts.uptime = self.facts.uptime.max(Some(time));
            self.facts.decoded += message.text.len() as u64;
            let cpu = match message.caller {
                Caller::Cpu(number) => i32::try_from(number).ok(),
                Caller::Thread(_) => None,
            };
            let shown = (!self.options.redact).then_some(&*text);
            self.push(
                RECORDS,
                &[
                    Cell::Word(columns.source),
                    Cell::Int(columns.number),
                    Cell::long(message.sequence),
                    Cell::maybe_int(cpu),
                    Cell::Long(time),
                    Cell::Int(message.level.into()),
                    Cell::text(shown),
                    Cell::long(message.text.len()),
                    Cell::Null,
                    Cell::Word(message.trust().name()),
                ],
            );
        }
        // ramoops may be of an earlier boot.
        self.kernel.boot = u32::from(!self.ramoops.iter().any(|log| is_part(log, &records)));
        self.kernel
            .add(parser.finish(), columns.trust, columns.time);
        self.kernel.boot = 0;
    }

    fn log_ring(&mut self, ring: &LogRing<'_>) {
        self.facts.log_rings += 1;
        self.facts.damaged += u32::try_from(ring.missing()).unwrap_or(u32::MAX);
        self.trust(Trust::Unchecked);
        let log = self.log("ring", Trust::Unchecked, None);
        let mut parser = Parser::default();
        for entry in ring.records() {
            let LogEntry::Record(record) = entry else {
                self.facts.damaged += 1;
                continue;
            };
            if self.is_stopped() {
                return;
            }
            let text = readable(record.text());
            let time = record.time.is_known().then_some(record.time.0);
            let time = time.and_then(|time| i64::try_from(time).ok());
            parser.line(&text, time);
            self.facts.uptime = self.facts.uptime.max(time);
            self.facts.decoded += record.text().len() as u64;
            let shown = (!self.options.redact).then_some(&*text);
            self.push(
                RECORDS,
                &[
                    Cell::Word(log.source),
                    Cell::Int(log.number),
                    Cell::long(record.sequence),
                    Cell::Int(record.cpu.into()),
                    Cell::maybe_long(time),
                    Cell::Int(record.level as i32),
                    Cell::text(shown),
                    Cell::long(record.text().len()),
                    Cell::Null,
                    Cell::Word(log.trust.name()),
                ],
            );
        }
        self.kernel.add(parser.finish(), log.trust, log.time);
    }

    /// Adds the calls in ramoops' trace zones.
    fn calls(&mut self, record: &Record<'_>, calls: &Calls<'_>) {
        self.facts.decoded += record.stored as u64;
        let number = self.number("ftrace");
        let symbols = self.symbols();
        let symbols = symbols.as_deref();
        self.kernel.offset = self.kernel.offset.or_else(|| {
            let addresses = calls.iter().map(|call| call.record.ip);
            symbols?.solve_offset(addresses).map(KernelOffset::Solved)
        });
        let offset = self.kernel.offset.map_or(0, KernelOffset::value);
        let mut sequence = 0;
        self.send(CALLS);
        let (mut all, mut some) = (calls.iter(), Vec::new());
        while !self.is_stopped() {
            some.clear();
            some.extend(all.by_ref().take(MOST_ROWS));
            if some.is_empty() {
                return;
            }
            let symbols = symbols.map(|symbols| (symbols, offset));
            self.call_columns(number, sequence, &some, symbols);
            sequence += some.len() as i64;
        }
    }

    /// Adds calls in ramoops' trace zones. A fleet has more of them than of all other rows, so they
    /// are added by column, which is faster than by row.
    fn call_columns(
        &mut self,
        number: i32,
        sequence: i64,
        calls: &[Trace],
        symbols: Option<(&Symbols, u64)>,
    ) {
        let rows = calls.len();
        let same = |text: &str| Arc::new(StringArray::new_repeated(text, rows)) as ArrayRef;
        let numbers = |value: fn(&Trace) -> i64| {
            Arc::new(Int64Array::from_iter_values(calls.iter().map(value))) as ArrayRef
        };
        let symbols_of = |address: fn(&Trace) -> u64| -> Option<Vec<Option<Symbol<'_>>>> {
            let (symbols, offset) = symbols?;
            let addresses = calls.iter().map(address);
            Some(
                addresses
                    .map(|address| symbols.lookup(address.wrapping_sub(offset)))
                    .collect(),
            )
        };
        let found = [
            symbols_of(|call| call.record.ip),
            symbols_of(|call| call.record.parent),
        ];
        let names = found.iter().flatten().flatten().flatten();
        if rows > 1 && names.map(|symbol| symbol.name.len()).sum::<usize>() > MOST_BYTES {
            let (first, second) = calls.split_at(rows / 2);
            self.call_columns(number, sequence, first, symbols);
            return self.call_columns(number, sequence + first.len() as i64, second, symbols);
        }
        let functions = |found: Option<Vec<Option<Symbol<'_>>>>| -> [ArrayRef; 2] {
            let Some(found) = found else {
                return [nulls(Kind::Text, rows), nulls(Kind::Long, rows)];
            };
            let names = found.iter().map(|symbol| Some(symbol.as_ref()?.name));
            let distances = found.iter().map(|symbol| {
                let distance = symbol.as_ref()?.offset;
                Some(i64::try_from(distance).unwrap_or(i64::MAX))
            });
            [
                Arc::new(names.collect::<StringArray>()),
                Arc::new(distances.collect::<Int64Array>()),
            ]
        };
        let [[symbol, symbol_offset], [parent_symbol, parent_offset]] = found.map(functions);
        let trust = calls.iter().map(|call| call.trust);
        let trust = match trust.clone().all(|trust| trust == calls[0].trust) {
            true => same(calls[0].trust.name()),
            false => Arc::new(StringArray::from_iter_values(trust.map(Trust::name))),
        };
        let cpus = calls.iter().map(|call| call.record.cpu.into());
        let suspect = BooleanBuffer::collect_bool(rows, |at| calls[at].suspect);
        let own: Vec<ArrayRef> = vec![
            same("ftrace"),
            Arc::new(Int32Array::from_value(number, rows)),
            Arc::new(Int64Array::from_iter_values(
                sequence..sequence + rows as i64,
            )),
            Arc::new(Int32Array::from_iter_values(cpus)),
            numbers(|call| i64::try_from(call.record.stamp).unwrap_or(i64::MAX)),
            nulls(Kind::Long, rows),
            same("call"),
            numbers(|call| call.record.ip as i64),
            numbers(|call| call.record.parent as i64),
            symbol,
            symbol_offset,
            parent_symbol,
            parent_offset,
            nulls(Kind::Long, rows),
            Arc::new(BooleanArray::new(suspect, None)),
            trust,
        ];
        self.counts[CALLS] += rows as i64;
        let batch = tables::batch(CALLS, rows, self.input, self.hash.as_deref(), own);
        if self.sent.is_ok() {
            self.sent = (self.sink)(CALLS, batch);
        }
    }

    /// Adds the events of a trace of nostall-trace.
    fn trace(&mut self, region: &TraceRegion<'_>) {
        self.facts.traces += 1;
        self.trust(Trust::Unchecked);
        let number = self.number("trace");
        let build_id = region.header.build_id.as_bytes();
        if self.kernel.build_id.is_none() && !build_id.is_empty() {
            self.kernel.build_id = Some(Fact {
                text: hex(build_id),
                evidence: Evidence::Trace,
            });
        }
        let loaded = region.load_offset().map(KernelOffset::InTrace);
        if region.state == HeaderState::Sound {
            self.kernel.offset = self.kernel.offset.or(loaded);
        }
        let offset = loaded.or(self.kernel.offset).map_or(0, KernelOffset::value);
        let symbols = self.symbols();
        let symbols = symbols.as_deref();
        // Events have names and no addresses, so an address is named by its digits.
        let numbered = |address| Some(format!("{ADDRESS}{address:x}"));
        let mut source = match region.source_named(numbered) {
            Ok(source) => source,
            Err(_) => {
                self.facts.damaged += 1;
                return;
            }
        };
        let is_nanoseconds = source.unit() == TimeUnit::Nanoseconds;
        let (mut calls, mut records) = (0, 0);
        while !self.is_stopped()
            && let Ok(Some(event)) = source.next_event()
        {
            let redact = self.options.redact;
            let unknown = Cell::Null;
            let (kind, function, duration) = match event.kind {
                EventKind::Enter { function, .. } => ("enter", Some(function), None),
                EventKind::Exit {
                    function, duration, ..
                } => ("exit", function, duration),
                EventKind::Lost { records } => {
                    self.facts.damaged = self
                        .facts
                        .damaged
                        .saturating_add(u32::try_from(records).unwrap_or(1));
                    continue;
                }
                kind => {
                    let words = match kind {
                        EventKind::Stall {
                            condition,
                            duration,
                            ..
                        } => {
                            format!("stall: {} {duration}", source.catalog().text(condition))
                        }
                        EventKind::Counter { counter, value } => {
                            format!("{} = {value}", source.catalog().text(counter))
                        }
                        EventKind::Mark { text } => source.catalog().text(text).to_owned(),
                        _ => String::new(),
                    };
                    self.event("trace", number, records, event.cpu, event.time, &words);
                    records += 1;
                    continue;
                }
            };
            self.facts.decoded += 16;
            let text = function.map(|function| source.catalog().text(function));
            let digits = text.and_then(|text| text.strip_prefix(ADDRESS));
            let address = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            let (symbol, distance) = match address {
                Some(address) => name(symbols, address, offset),
                // The names area of a damaged trace may have any text.
                None => (
                    Cell::text(text.filter(|text| !redact || is_path(text))),
                    unknown,
                ),
            };
            let stamp = Cell::long(event.time);
            let (stamp, time) = if is_nanoseconds {
                (unknown, stamp)
            } else {
                (stamp, unknown)
            };
            self.push(
                CALLS,
                &[
                    Cell::Text("trace"),
                    Cell::Int(number),
                    Cell::Long(calls),
                    Cell::int(event.cpu),
                    stamp,
                    time,
                    Cell::Text(kind),
                    Cell::address(address),
                    unknown,
                    symbol,
                    distance,
                    unknown,
                    unknown,
                    if is_nanoseconds {
                        Cell::maybe_long(duration)
                    } else {
                        unknown
                    },
                    Cell::Bool(false),
                    Cell::Text(Trust::Unchecked.name()),
                ],
            );
            calls += 1;
        }
    }

    /// Adds an event that is no call.
    fn event(
        &mut self,
        source: &'static str,
        number: i32,
        sequence: i64,
        cpu: u32,
        time: u64,
        words: &str,
    ) {
        self.facts.decoded += words.len() as u64;
        let shown = (!self.options.redact).then_some(words);
        self.push(
            RECORDS,
            &[
                Cell::Text(source),
                Cell::Int(number),
                Cell::Long(sequence),
                Cell::int(cpu),
                Cell::long(time),
                Cell::Null,
                Cell::text(shown),
                Cell::long(words.len()),
                Cell::Null,
                Cell::Text(Trust::Unchecked.name()),
            ],
        );
    }

    /// Adds the records of a ring buffer of Linux.
    fn ring_buffer(&mut self, image: &Memory, buffer: &RingBuffer) {
        self.facts.traces += 1;
        self.facts.damaged += buffer
            .cpus
            .iter()
            .map(|cpu| cpu.damaged().count() as u32)
            .sum::<u32>();
        self.trust(Trust::Unchecked);
        let number = self.number("ftrace-ring");
        let symbols = self.symbols();
        let symbols = symbols.map(|symbols| Symbols::clone(&symbols));
        let with = |symbols| Kernel::new(image, buffer, symbols, Formats::default(), None);
        // Symbols of another build are not used.
        let Ok(kernel) = with(symbols).or_else(|_| with(None)) else {
            return;
        };
        self.kernel.offset = self.kernel.offset.or(kernel.offset());
        let mut text = TraceText::new(&kernel, buffer);
        let mut merge = Merge::new(image, buffer, MergeBy::Boot);
        let (mut calls, mut records) = (0, 0);
        while !self.is_stopped()
            && let Some(record) = merge.next(image, buffer)
        {
            let (kind, ip, parent, duration) = match kernel.entry(&record.payload) {
                Entry::Call { ip, parent } | Entry::Repeats { ip, parent, .. } => {
                    ("call", ip, Some(parent), None)
                }
                Entry::Enter { function, .. } => ("enter", function, None, None),
                Entry::Exit {
                    function, duration, ..
                } => ("exit", function, None, Some(duration)),
                _ => {
                    let mut bytes = Vec::new();
                    text.body(&record, None, &mut bytes);
                    let words = String::from_utf8_lossy(&bytes);
                    let words = words.trim_end_matches('\n');
                    let cpu = u32::try_from(record.cpu).unwrap_or(u32::MAX);
                    self.event("ftrace-ring", number, records, cpu, record.time, words);
                    records += 1;
                    continue;
                }
            };
            self.facts.decoded += record.payload.len() as u64 + 4;
            let symbol = |address: u64| match kernel.function(address) {
                Some(symbol) => (Cell::Text(symbol.name), Cell::long(symbol.offset)),
                None => (Cell::Null, Cell::Null),
            };
            let (function, caller) = (symbol(ip), parent.map_or((Cell::Null, Cell::Null), symbol));
            self.push(
                CALLS,
                &[
                    Cell::Text("ftrace-ring"),
                    Cell::Int(number),
                    Cell::Long(calls),
                    Cell::int(record.cpu),
                    Cell::Null,
                    Cell::long(record.time),
                    Cell::Text(kind),
                    Cell::address(ip),
                    Cell::address(parent),
                    function.0,
                    function.1,
                    caller.0,
                    caller.1,
                    Cell::maybe_long(duration),
                    Cell::Bool(false),
                    Cell::Text(record.trust.name()),
                ],
            );
            calls += 1;
        }
    }

    /// Adds the crashes and the row of the input, and sends all rows.
    fn finish(mut self, path: Option<&Path>, nanoseconds: Option<u128>) -> Result<()> {
        let kernel = std::mem::take(&mut self.kernel);
        let release = kernel.release().map(|fact| fact.text);
        for (sequence, cause) in kernel.causes().iter().enumerate() {
            self.crash(sequence, cause, release.as_deref());
        }
        self.dump(path, nanoseconds, &kernel, release.as_deref());
        // Engines read the row of an input only when it is complete.
        for table in [RECORDS, CALLS, CRASHES, DUMPS] {
            self.send(table);
        }
        self.sent
    }

    fn crash(&mut self, sequence: usize, cause: &Cause, release: Option<&str>) {
        let crash = &cause.crash;
        let frames = crash.frames();
        let signature = signature(&frames);
        let release = crash.release.as_deref().or(release);
        let shown = |text: Option<&str>| match text {
            Some(text) if !self.options.redact => Some(text.to_owned()),
            _ => None,
        };
        let (reason, panic) = (shown(Some(&crash.reason)), shown(crash.panic.as_deref()));
        self.push(
            CRASHES,
            &[
                Cell::int(sequence),
                Cell::Text(if crash.panic.is_some() {
                    "panic"
                } else {
                    "oops"
                }),
                Cell::Text(crash.class),
                Cell::text(reason.as_deref()),
                Cell::text(panic.as_deref()),
                Cell::text(signature.as_deref()),
                if frames.is_empty() {
                    Cell::Null
                } else {
                    Cell::Texts(&frames)
                },
                if crash.stack.is_empty() {
                    Cell::Null
                } else {
                    Cell::Texts(&crash.stack)
                },
                Cell::text(crash.taint.as_deref()),
                Cell::maybe_int(crash.cpu),
                Cell::text(release),
                Cell::maybe_long(crash.uptime),
                cause.time.map_or(Cell::Null, Cell::Time),
                Cell::Text(cause.trust.name()),
            ],
        );
    }

    fn dump(
        &mut self,
        path: Option<&Path>,
        nanoseconds: Option<u128>,
        kernel: &CrashedKernel,
        release: Option<&str>,
    ) {
        let facts = std::mem::take(&mut self.facts);
        let counts = self.counts;
        let has_any = facts.regions + facts.log_rings + facts.kernel_logs + facts.traces > 0;
        let has_rows = counts[RECORDS] + counts[CALLS] > 0;
        let (status, reason) = match () {
            () if has_rows => ("records", None),
            () if facts.error.is_some() => ("error", None),
            () if facts.damaged > 0 => ("damaged", Some("no record can be read")),
            () if has_any => ("empty", Some("no record was written")),
            () => ("none", Some("no log, region, log ring or trace")),
        };
        let redact = self.options.redact;
        let error = facts.error.as_deref().or(reason).filter(|_| !redact);
        let shown = path.filter(|_| !redact).map(|path| path.to_string_lossy());
        let machine = path.and_then(|path| machine(path, redact));
        let first = facts.first.as_ref();
        let params = first.map(|first| first.found.params);
        let geometry = first.map(|first| &first.found.geometry);
        self.push(
            DUMPS,
            &[
                Cell::text(shown.as_deref()),
                Cell::text(machine.as_deref()),
                Cell::maybe_long(facts.size),
                Cell::text(facts.format),
                Cell::Text(status),
                Cell::text(error),
                Cell::text(release),
                Cell::text(kernel.build().as_ref().map(|fact| &*fact.text)),
                Cell::text(kernel.build_id.as_ref().map(|fact| &*fact.text)),
                Cell::address(kernel.offset.map(KernelOffset::value)),
                facts.time.map_or(Cell::Null, Cell::Time),
                Cell::maybe_long(facts.uptime),
                Cell::int(facts.regions),
                Cell::address(first.map(|first| first.start)),
                Cell::maybe_long(params.map(|params| params.mem_size)),
                Cell::maybe_long(params.map(|params| params.record_size)),
                Cell::maybe_long(params.map(|params| params.console_size)),
                Cell::maybe_long(params.map(|params| params.ftrace_size)),
                Cell::maybe_long(params.map(|params| params.pmsg_size)),
                Cell::maybe_int(params.map(|params| params.ecc)),
                Cell::maybe_int(
                    geometry.map(|geometry| geometry.zones_of(ZoneKind::Ftrace).count()),
                ),
                Cell::text(geometry.map(|geometry| geometry.record_format.name())),
                Cell::text(geometry.map(|geometry| match geometry.order {
                    ByteOrder::Little => "little",
                    ByteOrder::Big => "big",
                })),
                Cell::text(facts.trust.map(Trust::name)),
                Cell::long(facts.corrected),
                Cell::long(facts.bad_blocks),
                Cell::int(facts.damaged),
                Cell::int(facts.log_rings),
                Cell::int(facts.traces),
                Cell::Long(counts[RECORDS]),
                Cell::Long(counts[CALLS]),
                Cell::Long(counts[CRASHES]),
                Cell::long(facts.decoded),
                Cell::maybe_long(nanoseconds),
                Cell::int(facts.kernel_logs),
            ],
        );
    }
}

/// Returns whether adjacent memory is in several parts of the file, or compressed, so that reading
/// copies it.
fn is_scattered(image: &Memory) -> bool {
    if [DumpFormat::AVML, DumpFormat::KDUMP].contains(&image.format()) {
        return true;
    }
    let mut pairs = image.segments().windows(2);
    pairs.any(|pair| pair[0].is_before(&pair[1]))
}

/// Returns whether decoding a region needs much memory.
fn is_large(found: &FoundRegion) -> bool {
    let mut records = found.geometry.zones_of(ZoneKind::Dmesg);
    found.geometry.len() > LARGE_REGION || records.any(|place| place.division.data() > LARGE_RECORD)
}

/// Returns the name of the machine, which is that of the directory, or of the one above a directory for
/// a time.
fn machine(path: &Path, redact: bool) -> Option<String> {
    let mut names = path.ancestors().skip(1).map_while(Path::file_name);
    let name = names.find_map(|name| Some(without_time(&name.to_string_lossy())?.to_owned()))?;
    Some(match redact {
        true => hex(&Sha256::digest(name.as_bytes())[..8]),
        false => name,
    })
}

/// Returns the name of a directory without a time of kdump's tools: Debian's `202611291205`, SUSE's
/// `2026-11-29-12:05`, and Red Hat's `ADDRESS-2026-11-29-12:05:00`. A dump that was not sent has
/// Red Hat's address 127.0.0.1. Without another name it is `None`.
fn without_time(name: &str) -> Option<&str> {
    let form = name.replace(|letter: char| letter.is_ascii_digit(), "0");
    let is_debians =
        form == "0".repeat(12) && name.starts_with("20") && ("01".."13").contains(&&name[4..6]);
    if is_debians || form == "0000-00-00-00:00" || form == "0000-00-00-00:00:00" {
        return None;
    }
    match form.strip_suffix("-0000-00-00-00:00:00") {
        Some(rest) => Some(&name[..rest.len()]).filter(|address| *address != "127.0.0.1"),
        None => Some(name),
    }
}

/// Returns whether a text has the form of a function's path, such as `uart::Port::send`.
fn is_path(text: &str) -> bool {
    text.split("::").all(is_name)
}

/// Returns a function's name and the distance from its start.
fn name(symbols: Option<&Symbols>, address: u64, offset: u64) -> (Cell<'_>, Cell<'_>) {
    let symbol = symbols.and_then(|symbols| symbols.lookup(address.wrapping_sub(offset)));
    symbol.map_or((Cell::Null, Cell::Null), |symbol| {
        (Cell::Text(symbol.name), Cell::long(symbol.offset))
    })
}

/// Returns bytes as text, with U+FFFD for invalid UTF-8. For valid text, this is faster than
/// `from_utf8_lossy` alone.
fn readable(bytes: &[u8]) -> Cow<'_, str> {
    str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Returns the first `most` bytes. A character that they would cut is left out.
fn first(bytes: &[u8], most: usize) -> &[u8] {
    let Some(first) = bytes.get(..most).filter(|first| first.len() < bytes.len()) else {
        return bytes;
    };
    // A character has four bytes at most, so three of them may be there.
    let last = first[most - 3..].utf8_chunks().last();
    let cut = last.map_or(&[][..], |chunk| chunk.invalid());
    let is_cut = str::from_utf8(cut).is_err_and(|error| error.error_len().is_none());
    &first[..most - if is_cut { cut.len() } else { 0 }]
}

/// Returns the parts of ranges within a part of a text, counted from its start.
fn within(ranges: &[Range<usize>], part: Range<usize>) -> Vec<Range<usize>> {
    let first = ranges.partition_point(|range| range.end <= part.start);
    let some = ranges[first..]
        .iter()
        .take_while(|range| range.start < part.end);
    some.map(|range| range.start.max(part.start) - part.start..range.end.min(part.end) - part.start)
        .collect()
}

fn ranges(ranges: &[Range<usize>]) -> Cell<'_> {
    match ranges {
        [] => Cell::Null,
        ranges => Cell::Ranges(ranges),
    }
}

/// Returns the SHA-256 of a file's bytes, in hexadecimal.
pub(crate) fn hash_of(mut bytes: impl Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut chunk = vec![0; 256 << 10];
    loop {
        match bytes.read(&mut chunk)? {
            0 => return Ok(hex(&hash.finalize())),
            count => hash.update(&chunk[..count]),
        }
    }
}

/// A file that is hashed and then mapped. Its bytes are the same only if no program writes to it.
struct Mapped {
    file: File,
    /// Length and time of the last change, before the first byte was read.
    state: (u64, SystemTime),
}

impl Mapped {
    fn new(file: File, meta: &Metadata) -> io::Result<Self> {
        let state = Self::state(meta)?;
        Ok(Self { file, state })
    }

    fn state(meta: &Metadata) -> io::Result<(u64, SystemTime)> {
        Ok((meta.len(), meta.modified()?))
    }

    fn hash(&self) -> io::Result<String> {
        let hash = hash_of((&self.file).take(self.state.0))?;
        (&self.file).rewind()?;
        Ok(hash)
    }

    /// Checks that the bytes read so far are those of one state.
    fn check(&self) -> Result<()> {
        let is_same = Self::state(&self.file.metadata()?)? == self.state;
        ensure!(
            is_same,
            "the file was changed while it was read; copy it, and read the copy"
        );
        Ok(())
    }
}

/// Returns a time since 1970 in microseconds, in the years 1 to 9999. Readers of the tables have no
/// other ones, so the clock of such a machine is wrong.
fn microseconds(seconds: i64, micros: u64) -> Option<i64> {
    let seconds = seconds.checked_add_unsigned(micros / 1_000_000)?;
    let is_known = (FIRST_SECOND..LAST_SECOND).contains(&seconds);
    is_known.then(|| seconds * 1_000_000 + (micros % 1_000_000) as i64)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes an input into whole tables in memory, with the input number 0. The tables are those of
/// [`TABLES`], in this order.
///
/// # Errors
///
/// Never at present. An unreadable input is a row with its error.
pub fn tables(source: Source<'_>, options: &Options) -> Result<[Vec<RecordBatch>; 4]> {
    let mut all: [Vec<RecordBatch>; 4] = Default::default();
    decode(source, 0, options, &mut |table, batch| {
        all.get_mut(table)
            .ok_or_else(|| anyhow!("no such table"))?
            .push(batch);
        Ok(())
    })?;
    Ok(all)
}

/// Returns a hash of a record's time and text.
fn hash(time: i64, text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (time, text).hash(&mut hasher);
    hasher.finish()
}

/// Returns whether enough records of a log occur in a ring, in their order. `ring` has the places of
/// its records.
fn is_part(log: &[u64], ring: &HashMap<u64, usize>) -> bool {
    let mut next = 0;
    let shared = log.iter().filter(|record| {
        let place = ring.get(record).filter(|place| **place >= next);
        next = place.map_or(next, |place| place + 1);
        place.is_some()
    });
    shared.count() >= SHARED
}

#[cfg(test)]
mod tests {
    use std::io::{SeekFrom, Write};

    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int32Type, TimestampMicrosecondType};

    use super::*;

    #[test]
    fn a_time_before_the_year_1_or_after_9999_is_none() {
        assert_eq!(microseconds(1_700_000_000, 7), Some(1_700_000_000_000_007));
        for wrong in [FIRST_SECOND - 1, LAST_SECOND, i64::MIN, i64::MAX] {
            assert_eq!(microseconds(wrong, 0), None, "{wrong}");
        }
        assert_eq!(microseconds(LAST_SECOND - 1, 1_000_000), None);
    }

    #[test]
    fn a_machine_has_the_name_of_a_directory_that_is_no_time_of_kdumps() {
        for (path, name) in [
            ("web1/dump", Some("web1")),
            ("web1/202611291205/dump.202611291205", Some("web1")),
            ("web1/2026-11-29-12:05/vmcore", Some("web1")),
            ("web1/127.0.0.1-2026-11-29-12:05:00/vmcore", Some("web1")),
            (
                "srv/10.0.0.12-2026-11-29-12:05:00/vmcore",
                Some("10.0.0.12"),
            ),
            (
                "srv/db1.example-2026-11-29-12:05:00/vmcore",
                Some("db1.example"),
            ),
            ("web1/123456789012/dump", Some("123456789012")),
            ("web1/209911291205x/dump", Some("209911291205x")),
            (
                "web1/\u{661}\u{661}202611291205/dump",
                Some("\u{661}\u{661}202611291205"),
            ),
            ("web1/../dump", None),
            ("202611291205/dump", None),
            ("dump", None),
        ] {
            assert_eq!(machine(Path::new(path), false).as_deref(), name, "{path}");
        }
    }

    #[test]
    fn a_time_before_or_at_the_start_of_1970_and_one_with_nanoseconds_is_in_the_row() {
        let region = include_bytes!("../../../drivers/pstore/tests/fixtures/plain/image.bin");
        for (header, time) in [
            ("0000000000.000007", 7),
            ("-000000001.000007", -999_993),
            ("0000001.999999999", 1_000_999_999),
        ] {
            let mut bytes = region.to_vec();
            for at in memchr::memmem::find_iter(region, "====1") {
                bytes[at + 4..][..header.len()].copy_from_slice(header.as_bytes());
            }
            let [dumps, ..] = tables(Source::Bytes(&bytes), &Options::default()).unwrap();
            let times = dumps[0].column_by_name("time").unwrap();
            let times = times.as_primitive::<TimestampMicrosecondType>();
            assert_eq!(times.iter().collect::<Vec<_>>(), [Some(time)], "{header}");
        }
    }

    /// Returns the values of a text column.
    fn column(batches: &[RecordBatch], name: &str) -> Vec<String> {
        let columns = batches.iter().map(|batch| batch.column_by_name(name));
        let columns = columns.map(|column| column.unwrap().as_string::<i32>());
        let values = columns.flat_map(|column| column.iter());
        values
            .map(|value| value.unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        for (first, character) in [(0, "é"), (1, "é"), (1, "\u{20ac}"), (3, "\u{1f980}")] {
            let line = "x".repeat(first) + &character.repeat(20_000);
            let log = format!("Panic#1 Part1\n{line}\n");
            let [_, records, ..] =
                tables(Source::Bytes(log.as_bytes()), &Options::default()).unwrap();
            let texts = column(&records, "text");
            assert!(texts.len() > 2, "{}", texts.len());
            assert!(texts[1..].concat() == line, "{first} {character}");
        }
        // Bytes that are no UTF-8 are cut anywhere.
        for byte in [b"\x80", b"\xc3", b"\xff"] {
            let log = [b"Panic#1 Part1\n", &byte.repeat(40_000)[..]].concat();
            let [_, records, ..] = tables(Source::Bytes(&log), &Options::default()).unwrap();
            let texts = column(&records, "text");
            let replaced = texts.iter().map(|text| text.matches('\u{fffd}').count());
            assert_eq!(replaced.sum::<usize>(), 40_000);
        }
    }

    #[test]
    fn a_log_that_is_larger_than_files_that_are_read_is_a_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let line = "<6>[    1.000000] ".to_owned() + &"x".repeat(8_000) + "\n";
        let lines = MOST_READ as usize / line.len() + 1;
        fs::write(&path, "Panic#1 Part1\n".to_owned() + &line.repeat(lines)).unwrap();
        let [dumps, records, ..] = tables(Source::Path(&path), &Options::default()).unwrap();
        assert_eq!(column(&dumps, "status"), ["records"]);
        assert_eq!(column(&dumps, "format"), ["text"]);
        assert_eq!(column(&records, "text").len(), 1 + lines);
    }

    #[cfg(unix)]
    #[test]
    fn a_dump_that_changes_while_it_is_decoded_is_a_row_with_its_error() {
        let region = include_bytes!("../../../drivers/pstore/tests/fixtures/plain/image.bin");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dump");
        let mut dump = region.to_vec();
        dump.resize(MOST_READ as usize + 1, 0);
        dump.extend(region);
        let end = dump.len() as u64;
        let write_at = |at: u64| {
            let mut file = File::options().write(true).open(&path)?;
            file.seek(SeekFrom::Start(at))?;
            file.write_all(b"x")
        };
        let changes: [(_, &dyn Fn() -> io::Result<()>); 4] = [
            ("truncated", &|| File::create(&path).map(drop)),
            ("changed", &|| write_at(end)),
            ("changed", &|| write_at(end / 2)),
            // The opened file is still the one that was hashed.
            ("", &|| {
                fs::remove_file(&path)?;
                fs::write(&path, "another file")
            }),
        ];
        for (wanted, change) in changes {
            fs::write(&path, &dump).unwrap();
            // File systems have coarse clocks.
            let file = File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
            let (mut dumps, mut is_first) = (Vec::new(), true);
            let options = Options::default();
            decode(Source::Path(&path), 0, &options, &mut |table, batch| {
                if std::mem::take(&mut is_first) {
                    change()?;
                }
                dumps.extend((table == DUMPS).then_some(batch));
                Ok(())
            })
            .unwrap();
            let [error] = &column(&dumps, "error")[..] else {
                panic!("{dumps:?}");
            };
            assert!(error.contains(wanted), "{error}");
            assert_eq!(error.is_empty(), wanted.is_empty(), "{error}");
            assert_eq!(column(&dumps, "dump"), [hex(&Sha256::digest(&dump))]);
        }
    }

    #[test]
    fn bytes_of_a_lime_dump_in_no_range_are_in_the_row() {
        let region = include_bytes!("../../../drivers/pstore/tests/fixtures/plain/image.bin");
        let last = region.len() as u64 - 1;
        let addresses = [[0; 8], last.to_le_bytes(), [0; 8]];
        let lime = [
            b"EMiL\x01\0\0\0",
            addresses.as_flattened(),
            region,
            b"garbage",
        ]
        .concat();
        let [dumps, ..] = tables(Source::Bytes(&lime), &Options::default()).unwrap();
        assert_eq!(column(&dumps, "status"), ["records"]);
        let [error] = &column(&dumps, "error")[..] else {
            panic!("{dumps:?}");
        };
        assert!(error.contains("7 bytes at the end"), "{error}");
    }

    #[test]
    fn the_row_of_a_dump_that_is_cut_off_has_the_number_of_missing_bytes() {
        let region = include_bytes!("../../../drivers/pstore/tests/fixtures/plain/image.bin");
        let last = region.len() as u64 + 0xfff;
        let addresses = [[0; 8], last.to_le_bytes(), [0; 8]];
        let header = [b"EMiL\x01\0\0\0", addresses.as_flattened()].concat();
        let lime = [&header, &[0; 0x1000][..], region].concat();
        for (missing, status) in [(1, "records"), (region.len(), "error")] {
            let cut = &lime[..lime.len() - missing];
            let [dumps, ..] = tables(Source::Bytes(cut), &Options::default()).unwrap();
            assert_eq!(column(&dumps, "status"), [status]);
            let error = column(&dumps, "error").concat();
            assert!(
                error.contains(&format!("{missing} bytes of memory that")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_damaged_compressed_record_has_rows_up_to_the_damage_and_none_of_noise() {
        let region = include_bytes!("../../../drivers/pstore/tests/fixtures/plain/image.bin");
        let end = 12 + u32::from_le_bytes(region[8..12].try_into().unwrap()) as usize;
        let rows = |damaged: Range<usize>| {
            let mut bytes = region.to_vec();
            bytes[damaged].fill(0xff);
            let [dumps, records, ..] = tables(Source::Bytes(&bytes), &Options::default()).unwrap();
            let sources = column(&records, "source").into_iter();
            let trusts = sources.zip(column(&records, "trust"));
            let trusts = trusts.filter(|(source, _)| source == "dmesg");
            let damaged = dumps[0].column_by_name("damaged").unwrap();
            let damaged = damaged.as_primitive::<Int32Type>().value(0);
            (damaged, trusts.map(|(_, trust)| trust).collect::<Vec<_>>())
        };
        let (damaged, whole) = rows(0..0);
        assert_eq!(damaged, 0);
        let (damaged, start) = rows(end - 40..end);
        assert!(start.len() > whole.len() - 10);
        assert!(start.iter().all(|trust| trust == "unverified"));
        assert_eq!(damaged, 1);
        assert_eq!(rows(40..100), (1, Vec::new()));
    }

    #[test]
    fn a_build_id_in_a_log_is_not_that_of_the_kernel() {
        let mut bytes =
            include_bytes!("../../../drivers/pstore/tests/fixtures/plain/image.bin").to_vec();
        let build_id = |bytes: &[u8]| {
            let [dumps, ..] = tables(Source::Bytes(bytes), &Options::default()).unwrap();
            let column = |name| dumps[0].column_by_name(name).unwrap();
            assert_eq!(column("regions").as_primitive::<Int32Type>().value(0), 1);
            let build_id = column("build_id").as_string::<i32>();
            build_id.iter().next().unwrap().map(str::to_owned)
        };
        let line = memchr::memmem::find(&bytes, b"Linux version").unwrap();
        let set = |bytes: &mut Vec<u8>, at: usize, digit: &str| {
            let id = digit.repeat(40);
            let text = format!("OSRELEASE=6.1\nBUILD-ID={id}\nSYMBOL(prb)=0\n");
            bytes[at..at + text.len()].copy_from_slice(text.as_bytes());
            build_id(bytes)
        };
        assert_eq!(set(&mut bytes, line, "a"), None);
        let end = bytes.len();
        bytes.resize(end + 4096, 0);
        assert_eq!(set(&mut bytes, end + 1000, "b"), Some("b".repeat(40)));
    }
}

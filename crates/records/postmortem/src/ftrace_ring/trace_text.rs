//! Lines of Linux's file `trace`.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write};

use nostall_tracefile::linux::{EventFormat, Order, fields};

use super::buffer::RingBuffer;
use super::entry::{Common, Entry};
use super::graph;
use super::kernel::Kernel;
use super::merge::{Merge, RingRecord};
use crate::memory::Memory;

/// Maximum number of reasons that are kept.
const MOST_REASONS: usize = 32;

/// Prints records in the format of Linux's file `trace`.
#[derive(Debug)]
pub struct TraceText<'a> {
    kernel: &'a Kernel,
    /// Digits of the greatest CPU number, for function graphs.
    digits: usize,
    /// Whether to print trace events field by field where the next boot of Linux does.
    as_linux: bool,
    reasons: BTreeSet<String>,
}

impl<'a> TraceText<'a> {
    /// Prints every event with its print format.
    pub fn new(kernel: &'a Kernel, buffer: &RingBuffer) -> Self {
        Self {
            kernel,
            digits: buffer.cpus.len().saturating_sub(1).to_string().len(),
            as_linux: false,
            reasons: BTreeSet::new(),
        }
    }

    /// Prints as the next boot of Linux does. If the crashed kernel ran at another address, it
    /// prints trace events field by field.
    pub fn as_linux(kernel: &'a Kernel, buffer: &RingBuffer) -> Self {
        Self {
            as_linux: true,
            ..Self::new(kernel, buffer)
        }
    }

    /// Writes the rest of a merge. An unreadable part has the line `CPU:1 [LOST EVENTS]`.
    ///
    /// # Errors
    ///
    /// The error of `out`.
    pub fn write_all(
        &mut self,
        image: &Memory,
        buffer: &RingBuffer,
        merge: &mut Merge,
        out: &mut (impl Write + ?Sized),
    ) -> io::Result<()> {
        while let Some(record) = merge.next(image, buffer) {
            if record.lost {
                writeln!(out, "CPU:{} [LOST EVENTS]", record.cpu)?;
            }
            let leaf = self.leaf(image, buffer, merge, &record);
            out.write_all(&self.line(&record, leaf.as_ref()))?;
        }
        for cpu in merge.lost_at_end(buffer) {
            writeln!(out, "CPU:{cpu} [LOST EVENTS]")?;
        }
        Ok(())
    }

    /// Takes the exit of the function that `record` enters, if it is the CPU's next record.
    pub fn leaf<'i>(
        &self,
        image: &'i Memory,
        buffer: &RingBuffer,
        merge: &mut Merge,
        record: &RingRecord<'_>,
    ) -> Option<RingRecord<'i>> {
        let Entry::Enter { function, .. } = self.kernel.entry(&record.payload) else {
            return None;
        };
        let next = merge.peek(image, buffer)?;
        let is_leaf = matches!(
            self.kernel.entry(&next.payload),
            Entry::Exit { function: left, .. } if left == function
        );
        let pid = |record: &RingRecord<'_>| Common::of(&record.payload).pid;
        if !is_leaf || pid(&next) != pid(record) || next.lost {
            return None;
        }
        merge.skip(image, buffer);
        Some(next)
    }

    /// Returns the line of a record, or its lines. `leaf` is the exit of the entered function.
    pub fn line(&mut self, record: &RingRecord<'_>, leaf: Option<&RingRecord<'_>>) -> Vec<u8> {
        let mut line = Vec::with_capacity(160);
        self.context(record, &mut line);
        self.body(record, leaf, &mut line);
        line
    }

    /// Returns the reasons why events could not be printed with their formats.
    pub const fn reasons(&self) -> &BTreeSet<String> {
        &self.reasons
    }

    /// Writes task, CPU, flags and time.
    fn context(&self, record: &RingRecord<'_>, out: &mut Vec<u8>) {
        let common = Common::of(&record.payload);
        let task = match common.pid {
            0 => "<idle>",
            ..0 => "<XXX>",
            _ => "<...>",
        };
        let micros = record.time.saturating_add(500) / 1000;
        let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
        let latency = common.latency();
        let _ = write!(
            out,
            "{task:>16}-{:<7} [{:03}] {latency} {seconds:5}.{micros:06}: ",
            common.pid, record.cpu
        );
    }

    /// Writes a record's text, without task and time, and the line's end.
    pub fn body(
        &mut self,
        record: &RingRecord<'_>,
        leaf: Option<&RingRecord<'_>>,
        out: &mut Vec<u8>,
    ) {
        let payload = &record.payload[..];
        let kernel = self.kernel;
        let _ = match kernel.entry(payload) {
            Entry::Call { ip, parent } => {
                self.call(ip, parent, out);
                writeln!(out)
            }
            Entry::Repeats {
                ip,
                parent,
                count,
                since,
            } => {
                self.call(ip, parent, out);
                let micros = record.time.saturating_sub(since).saturating_add(500) / 1000;
                let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
                writeln!(out, " (repeats: {count}, last_ts: {seconds:5}.{micros:06})")
            }
            Entry::Enter { function, depth } => {
                let leaf = leaf.map(|leaf| kernel.entry(&leaf.payload));
                let column = graph::Column {
                    cpu: record.cpu,
                    digits: self.digits,
                };
                graph::enter(kernel, column, function, depth, leaf, out)
            }
            Entry::Exit {
                function,
                depth,
                duration,
                ..
            } => {
                let column = graph::Column {
                    cpu: record.cpu,
                    digits: self.digits,
                };
                graph::exit(kernel, column, function, depth, duration, out)
            }
            Entry::Stack(callers) => {
                out.extend_from_slice(b"<stack trace>\n");
                // Linux's own code that calls the tracer has this address.
                const TRAMPOLINE: u64 = i32::MAX as u64;
                for caller in addresses(callers).take_while(|address| *address != u64::MAX) {
                    let _ = match caller {
                        TRAMPOLINE => writeln!(out, " => [FTRACE TRAMPOLINE]"),
                        _ => writeln!(out, " => {}", Function(kernel, caller)),
                    };
                }
                Ok(())
            }
            Entry::UserStack(callers) => {
                out.extend_from_slice(b"<user stack trace>\n");
                for caller in addresses(callers)
                    .take(8)
                    .take_while(|address| *address != 0)
                {
                    let _ = writeln!(out, " =>  <{caller:016x}>");
                }
                Ok(())
            }
            Entry::Print { ip, text } => {
                let _ = write!(out, "{}: ", Function(kernel, ip));
                out.write_all(text)
            }
            Entry::RawData(data) => {
                let (id, bytes) = data.split_at(data.len().min(4));
                let _ = write!(out, "# {:x} buf:", Order::Little.number(id));
                let _ = bytes.iter().try_for_each(|byte| write!(out, " {byte:02x}"));
                writeln!(out)
            }
            Entry::Event => {
                self.event(payload, out);
                writeln!(out)
            }
        };
    }

    fn call(&self, ip: u64, parent: u64, out: &mut Vec<u8>) {
        let _ = write!(out, "{}", Function(self.kernel, ip));
        if parent != 0 {
            let _ = write!(out, " <-{}", Function(self.kernel, parent));
        }
    }

    fn event(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        let id = Common::of(payload).id;
        let formats = self.kernel.formats();
        let Some(format) = formats.get(id) else {
            if self.as_linux && formats.name(id).is_none() {
                let _ = write!(out, "Unknown type {id}");
                return;
            }
            let _ = match formats.name(id) {
                Some(name) => write!(out, "{name}: [no format:"),
                None => write!(out, "event {id}: [no format:"),
            };
            let own = payload.get(8..).unwrap_or_default();
            let _ = own.iter().try_for_each(|byte| write!(out, " {byte:02x}"));
            out.push(b']');
            return;
        };
        let is_by_fields = self.as_linux && self.kernel.is_printed_by_fields(id);
        if !is_by_fields && syscall(format, payload, formats.order(), out).is_some() {
            return;
        }
        let _ = write!(out, "{}:", format.name);
        if !is_by_fields {
            match formats.text(format, payload, self.kernel) {
                Ok(text) => {
                    out.push(b' ');
                    return out.extend_from_slice(&text);
                }
                Err(reason) if self.reasons.len() < MOST_REASONS => {
                    let name = &format.name;
                    self.reasons.insert(format!(
                        "{name} is shown field by field: its print format has {reason}"
                    ));
                }
                Err(_) => {}
            }
        }
        out.extend_from_slice(&fields(format, payload, formats.order()));
    }
}

/// Writes the event of a system call as Linux does, without its print format; writes nothing and
/// returns `None` for other events.
fn syscall(event: &EventFormat, payload: &[u8], order: Order, out: &mut Vec<u8>) -> Option<()> {
    let (number, fields) = event.fields.split_first()?;
    if !matches!(number.name.as_str(), "__syscall_nr" | "nr") {
        return None;
    }
    if let Some(name) = event.name.strip_prefix("sys_exit_") {
        let result = event.number("ret", payload, order)?;
        let _ = write!(out, "sys_{name} -> {result:#x}");
        return Some(());
    }
    let name = event.name.strip_prefix("sys_enter_")?;
    let values = fields
        .iter()
        .map(|field| Some((&field.name, field.number(payload, order)?)));
    let values: Vec<_> = values.collect::<Option<_>>()?;
    let _ = write!(out, "sys_{name}(");
    for (at, (name, value)) in values.into_iter().enumerate() {
        let between = if at == 0 { "" } else { ", " };
        let _ = write!(out, "{between}{name}: {value:x}");
    }
    out.push(b')');
    Some(())
}

fn addresses(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|word| Order::Little.number(word))
}

/// A function's name, or its address.
struct Function<'a>(&'a Kernel, u64);

impl fmt::Display for Function<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.function(self.1) {
            _ if self.1 == 0 => f.write_str("0"),
            Some(symbol) => f.write_str(symbol.name),
            None => write!(f, "{:#010x}", self.1),
        }
    }
}

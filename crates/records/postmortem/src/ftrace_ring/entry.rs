//! Meaning of a record.

use nostall_tracefile::linux::{Formats, Order};

use super::version::Version;

/// Meaning of a record, from its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entry<'p> {
    /// A function was called (tracer `function`).
    Call {
        /// Address in the function.
        ip: u64,
        /// Address in its caller.
        parent: u64,
    },
    /// The previous call was repeated.
    Repeats {
        /// Address in the function.
        ip: u64,
        /// Address in its caller.
        parent: u64,
        /// Number of repetitions.
        count: u16,
        /// Time from the last call to this record, in the unit of the trace's clock.
        since: u64,
    },
    /// A function was entered (tracer `function_graph`).
    Enter {
        /// Function's address.
        function: u64,
        /// Number of functions around it.
        depth: i32,
    },
    /// A function returned.
    Exit {
        /// Function's address.
        function: u64,
        /// Number of functions around it.
        depth: i32,
        /// Its duration in the unit of the trace's clock.
        duration: u64,
        /// Its return value, if the kernel recorded it.
        returned: Option<u64>,
    },
    /// Callers on the kernel's stack, 8 bytes each.
    Stack(&'p [u8]),
    /// Callers on the program's stack, 8 bytes each.
    UserStack(&'p [u8]),
    /// A text from `trace_marker` or `trace_printk`.
    Print {
        /// Address in the function that wrote it.
        ip: u64,
        /// Text of the record.
        text: &'p [u8],
    },
    /// Bytes from `trace_marker_raw`.
    RawData(&'p [u8]),
    /// A trace event, or a record whose payload does not fit its type.
    Event,
}

/// Common part of each payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    /// Number of the event type.
    pub id: u16,
    /// Flags of the latency column.
    pub flags: u8,
    /// Preempt count, and the migrate-disable depth in the upper half.
    pub preempt: u8,
    /// Task identifier.
    pub pid: i32,
}

impl Common {
    /// Parses the common part. Bytes beyond the payload's end are zero.
    pub fn of(payload: &[u8]) -> Self {
        let byte = |at: usize| payload.get(at).copied().unwrap_or_default();
        Self {
            id: u16::from_le_bytes([byte(0), byte(1)]),
            flags: byte(2),
            preempt: byte(3),
            pid: i32::from_le_bytes([4, 5, 6, 7].map(byte)),
        }
    }

    /// Returns the five characters of Linux's column of flags.
    pub fn latency(&self) -> String {
        let Self { flags, preempt, .. } = *self;
        let has = |flag: u8| flags & flag != 0;
        let interrupts = match (has(1), has(0x80), has(2)) {
            (true, true, _) => 'D',
            (true, false, _) => 'd',
            (false, true, _) => 'b',
            (false, false, true) => 'X',
            _ => '.',
        };
        let reschedule = match (has(4), has(0x20)) {
            (true, true) => 'N',
            (true, false) => 'n',
            (false, true) => 'p',
            _ => '.',
        };
        let context = match (has(0x40), has(8), has(0x10)) {
            (true, true, _) => 'Z',
            (true, false, _) => 'z',
            (false, true, true) => 'H',
            (false, true, false) => 'h',
            (false, false, true) => 's',
            _ => '.',
        };
        let mut column = String::from_iter([interrupts, reschedule, context]);
        for depth in [preempt & 15, preempt >> 4] {
            column.push(match depth {
                0 => '.',
                depth => char::from_digit(depth.into(), 16).unwrap_or('.'),
            });
        }
        column
    }
}

/// Event types that are the same on all kernels of a version, by their names in tracefs.
const TYPES: [(&str, u16); 8] = [
    ("function", 1),
    ("kernel_stack", 4),
    ("print", 5),
    ("funcgraph_exit", 10),
    ("funcgraph_entry", 11),
    ("user_stack", 12),
    ("raw_data", 18),
    ("func_repeats", 19),
];

/// First number of a trace event in 6.12.
const FIRST_EVENT: u16 = 20;

/// Returns whether the number belongs to a trace event, whose text Linux makes from its print
/// format.
///
/// The first trace event counts as a fixed type here, as in Linux.
pub(super) fn is_trace_event(version: Version, id: u16) -> bool {
    id > version.event_type(FIRST_EVENT)
}

/// Returns the name of an event type.
pub(super) fn type_name(version: Version, formats: &Formats, id: u16) -> Option<&str> {
    let known = TYPES
        .iter()
        .find(|(_, number)| version.event_type(*number) == id);
    formats.name(id).or(known.map(|(name, _)| *name))
}

/// Decodes a payload.
pub(super) fn decode<'p>(version: Version, formats: &Formats, payload: &'p [u8]) -> Entry<'p> {
    let order = Order::Little;
    let id = Common::of(payload).id;
    let format = formats.get(id);
    let name = type_name(version, formats, id).unwrap_or_default();
    // The format file has the offsets of this kernel.
    let number = |field: &str, otherwise: usize, len: usize| {
        let field = format.and_then(|format| format.field(field));
        match field {
            Some(field) => field.number(payload, order),
            None => order.read(payload, otherwise, len),
        }
    };
    let rest = |field: &str, otherwise: usize| {
        let field = format.and_then(|format| format.field(field));
        payload.get(field.map_or(otherwise, |field| field.offset)..)
    };
    let entry = || {
        Some(match name {
            "function" => Entry::Call {
                ip: number("ip", 8, 8)?,
                parent: number("parent_ip", 16, 8)?,
            },
            "func_repeats" => Entry::Repeats {
                ip: number("ip", 8, 8)?,
                parent: number("parent_ip", 16, 8)?,
                count: number("count", 24, 2)? as u16,
                since: number("top_delta_ts", 26, 2)? << 32 | number("bottom_delta_ts", 28, 4)?,
            },
            "funcgraph_entry" | "funcgraph_retaddr_entry" => Entry::Enter {
                function: number("func", 8, 8)?,
                depth: number("depth", 16, 4)? as i32,
            },
            "funcgraph_exit" => {
                // The return value is optional: the length shows whether it is there.
                let has_value = match format {
                    Some(format) => format.field("retval").is_some(),
                    None => payload.len() >= 48,
                };
                let skip = if has_value { 8 } else { 0 };
                let start = number("calltime", 24 + skip, 8)?;
                let end = number("rettime", 32 + skip, 8)?;
                Entry::Exit {
                    function: number("func", 8, 8)?,
                    depth: number("depth", 16 + skip, 4)? as i32,
                    duration: end.wrapping_sub(start),
                    returned: if has_value {
                        number("retval", 16, 8)
                    } else {
                        None
                    },
                }
            }
            "kernel_stack" => Entry::Stack(rest("caller", 16)?),
            "user_stack" => Entry::UserStack(rest("caller", 16)?),
            "print" => {
                let text = rest("buf", 16)?;
                let len = text.iter().position(|byte| *byte == 0);
                Entry::Print {
                    ip: number("ip", 8, 8)?,
                    text: &text[..len.unwrap_or(text.len())],
                }
            }
            "raw_data" => Entry::RawData(rest("id", 8)?),
            _ => Entry::Event,
        })
    };
    entry().unwrap_or(Entry::Event)
}

//! `trace_printk` records: the address of a format, and binary arguments.

use std::collections::HashMap;
use std::fmt::Write;

use crate::linux::{EventFormat, Order, PrintFormat};

/// Maximum number of arguments of a record.
const MOST: usize = 64;

/// Returns the event, with the format and arguments of one record as its print format.
pub(super) fn event(
    event: &EventFormat,
    payload: &[u8],
    order: Order,
    long: usize,
    formats: &HashMap<u64, String>,
) -> Option<EventFormat> {
    let format = formats.get(&event.number("fmt", payload, order)?)?;
    let arguments = payload.get(event.field("buf")?.offset..)?;
    let arguments = Arguments {
        bytes: arguments,
        at: 0,
        order,
        long,
    };
    let print = arguments.print(format)?;
    Some(EventFormat {
        print: PrintFormat::new(&print, long),
        ..event.clone()
    })
}

/// Arguments in the encoding of the kernel's `vbin_printf`.
struct Arguments<'a> {
    bytes: &'a [u8],
    at: usize,
    order: Order,
    long: usize,
}

impl Arguments<'_> {
    /// Returns a print format with the arguments as literals.
    fn print(mut self, format: &str) -> Option<String> {
        let mut print = String::from("\"%ps: ");
        let mut values = String::from(", (void *)REC->ip");
        let mut count = 0;
        let mut rest = format;
        while let Some((text, conversion)) = rest.split_once('%') {
            print.push_str(text);
            if let Some(after) = conversion.strip_prefix('%') {
                print.push_str("%%");
                rest = after;
                continue;
            }
            count += 1;
            if count > MOST {
                return None;
            }
            // A backslash would hide the conversion.
            let end =
                conversion.find(|c: char| c.is_ascii_alphabetic() && !"hlLqzt".contains(c))?;
            let (flags, letter) = conversion.split_at(end);
            for _ in flags.matches('*') {
                let width = self.number(4)? as i32;
                write!(values, ", {width}").ok()?;
            }
            let size = if flags.contains("ll") || flags.contains(['L', 'q']) {
                8
            } else if flags.contains(['l', 'z', 't']) {
                self.long
            } else if flags.contains("hh") {
                1
            } else if flags.contains('h') {
                2
            } else {
                4
            };
            rest = &letter[1..];
            write!(print, "%{flags}").ok()?;
            match letter.as_bytes()[0] {
                b's' => {
                    print.push('s');
                    self.text(&mut values)?;
                }
                b'p' => {
                    let more = rest
                        .find(|c: char| !c.is_ascii_alphanumeric())
                        .unwrap_or(rest.len());
                    let (suffix, after) = rest.split_at(more);
                    rest = after;
                    // The kernel followed any other pointer, and stored its text.
                    if suffix.is_empty() || suffix.starts_with(['S', 's', 'x', 'K', 'F', 'f']) {
                        write!(print, "p{suffix}").ok()?;
                        let address = self.number(self.long)?;
                        write!(values, ", (void *){address:#x}").ok()?;
                    } else {
                        print.push('s');
                        self.text(&mut values)?;
                    }
                }
                letter => {
                    print.push(char::from(letter));
                    write!(values, ", {:#x}", self.number(size)?).ok()?;
                }
            }
        }
        print.push_str(rest);
        print.push('"');
        Some(print + &values)
    }

    fn number(&mut self, size: usize) -> Option<u64> {
        // 8-byte numbers are two of 4 bytes.
        self.at = self.at.next_multiple_of(size.min(4));
        let number = self.order.read(self.bytes, self.at, size)?;
        self.at += size;
        Some(number)
    }

    /// Appends a string as a C literal.
    fn text(&mut self, values: &mut String) -> Option<()> {
        let bytes = self.bytes.get(self.at..)?;
        let len = bytes.iter().position(|byte| *byte == 0)?;
        self.at += len + 1;
        values.push_str(", \"");
        for byte in &bytes[..len] {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b' ' | b'_' => {
                    values.push(char::from(*byte));
                }
                byte => write!(values, "\\x{byte:02x}").ok()?,
            }
        }
        values.push('"');
        Some(())
    }
}

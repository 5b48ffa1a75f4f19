//! An event field by field, in Linux's form for events whose print format cannot be used.

use std::io::Write;

use super::field::{Field, until_nul};
use super::format::EventFormat;
use super::order::Order;

/// Returns ` field=value` for each field, in Linux's form.
pub fn fields(event: &EventFormat, payload: &[u8], order: Order) -> Vec<u8> {
    let mut out = Vec::new();
    for field in &event.fields {
        let _ = write!(out, " {}=", field.name);
        value(field, payload, order, &mut out);
    }
    out
}

fn value(field: &Field, payload: &[u8], order: Order, out: &mut Vec<u8>) {
    const OVERFLOW: &[u8] = b"<OVERFLOW>";
    let Some(bytes) = field.bytes(payload) else {
        return out.extend_from_slice(OVERFLOW);
    };
    let number = order.number(bytes);
    let is_char = field.kind.contains("char");
    if field.is_dynamic() {
        let place = field.location(payload, order);
        let place = place.and_then(|(at, len)| payload.get(at..at.checked_add(len)?));
        match place {
            _ if field.kind.contains("__data_loc") && field.kind.contains("cpumask_t") => {
                out.extend_from_slice(b"<INVALID-TYPE>");
            }
            None => out.extend_from_slice(OVERFLOW),
            Some(text) if is_char => out.extend_from_slice(until_nul(text)),
            Some(array) => {
                for (at, byte) in array.iter().enumerate() {
                    let between = if at == 0 { "" } else { "," };
                    let _ = write!(out, "{between}{byte:02x}");
                }
            }
        }
        return;
    }
    if is_char && field.is_array() {
        return out.extend_from_slice(until_nul(bytes));
    }
    let _ = match (field.kind.as_str(), bytes.len()) {
        // The kernel would follow the pointer into its own memory.
        ("char *" | "const char *", _) => write!(out, "(0x{number:016x})"),
        (_, 1) if (0x20..0x7f).contains(&number) => {
            write!(out, "'{}'({number})", char::from(number as u8))
        }
        (_, 1) => write!(out, "({number})"),
        (_, 2) => write!(out, "{number:#x} ({number})"),
        (_, 4) => write!(out, "{number:#x} ({})", number as i32),
        (_, 8) => write!(out, "{number:#x} ({})", number as i64),
        _ => write!(out, "<INVALID-SIZE>"),
    };
}

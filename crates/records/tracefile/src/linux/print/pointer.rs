//! Linux's extensions of `%p`.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::super::order::Order;
use super::eval::{Record, Value};
use super::lists;

/// Text of a pointer that the record does not contain. Linux prints it when it has no hash.
pub(super) const UNKNOWN: &[u8] = b"(____ptrval____)";

/// Formats `%p` with the following letters. Returns the text and the number of these letters.
/// `width` is the width before the `p`.
///
/// A plain pointer is printed as recorded. Linux prints it hashed with a secret of that boot.
pub(super) fn pointer(
    letters: &[u8],
    value: &Value,
    width: Option<usize>,
    record: &Record<'_>,
) -> Result<(Vec<u8>, usize), String> {
    let letter = |at: usize| letters.get(at).copied().unwrap_or(b' ');
    let memory = || match value {
        Value::Memory(memory) => Ok(record.bytes(*memory)),
        _ => Err(format!(
            "%p{} of a place outside the record",
            char::from(letter(0))
        )),
    };
    let address = match value {
        Value::Number(number) => number.bits,
        _ => 0,
    };
    let exactly = |len: usize| {
        let bytes = memory()?.get(..len);
        bytes.ok_or_else(|| "a place behind the record's end".to_owned())
    };
    Ok(match letter(0) {
        b'S' | b's' | b'B' | b'F' | b'f' => {
            let with_offset = !matches!(letter(0), b's' | b'f');
            let more = letters[1..]
                .iter()
                .take_while(|letter| matches!(letter, b'R' | b'b'));
            (symbol(address, with_offset, record), 1 + more.count())
        }
        b'M' | b'm' => {
            let mut bytes = exactly(6)?.to_vec();
            let mut used = 1;
            let between: &[u8] = match (letter(0), letter(1)) {
                (b'm', b'R') | (b'M', b'R') => {
                    used = 2;
                    bytes.reverse();
                    if letter(0) == b'M' { b":" } else { b"" }
                }
                (b'M', b'F') => {
                    used = 2;
                    b"-"
                }
                (b'M', _) => b":",
                _ => b"",
            };
            (lists::hex(&bytes, between), used)
        }
        b'I' | b'i' => internet(letters, memory()?, record.order)?,
        b'U' => {
            let bytes = exactly(16)?;
            let (used, little, upper) = match letter(1) {
                b'B' => (2, false, true),
                b'l' => (2, true, false),
                b'L' => (2, true, true),
                b'b' => (2, false, false),
                _ => (1, false, false),
            };
            (uuid(bytes, little, upper), used)
        }
        b'h' => {
            let bytes = memory()?;
            let bytes = &bytes[..width.unwrap_or(1).min(64).min(bytes.len())];
            let (used, between): (_, &[u8]) = match letter(1) {
                b'C' => (2, b":"),
                b'D' => (2, b"-"),
                b'N' => (2, b""),
                _ => (1, b" "),
            };
            (lists::hex(bytes, between), used)
        }
        b'b' => {
            let bits = width.unwrap_or(0);
            let bytes = memory()?;
            let len = bits.div_ceil(8 * record.long).saturating_mul(record.long);
            let bytes = &bytes[..len.min(bytes.len())];
            if letter(1) == b'l' {
                (lists::ranges(bytes, record.order, record.long, bits), 2)
            } else {
                (lists::bitmask(bytes, record.order, record.long), 1)
            }
        }
        b'a' => {
            let used = if matches!(letter(1), b'p' | b'd') {
                2
            } else {
                1
            };
            let bytes = memory()?;
            let number = record.order.number(&bytes[..bytes.len().min(8)]);
            (format!("{number:#018x}").into_bytes(), used)
        }
        b'x' | b'K' => (plain(address, record), 1),
        other @ (b'r' | b'R' | b'd' | b'D' | b'g' | b'G' | b'V' | b'N' | b'O' | b'C' | b'E'
        | b't' | b'e' | b'4') => {
            return Err(format!(
                "%p{}, which needs the kernel's memory",
                char::from(other)
            ));
        }
        _ => match value {
            Value::Text(unknown) if unknown == UNKNOWN => (unknown.clone(), 0),
            _ => (plain(address, record), 0),
        },
    })
}

fn plain(address: u64, record: &Record<'_>) -> Vec<u8> {
    format!("{address:0width$x}", width = 2 * record.long).into_bytes()
}

fn symbol(address: u64, with_offset: bool, record: &Record<'_>) -> Vec<u8> {
    let Some(place) = record.names.place(address) else {
        return format!("{address:#x}").into_bytes();
    };
    let mut text = place.name.to_owned();
    if with_offset {
        text += &format!("+{:#x}/{:#x}", place.offset, place.size);
    }
    if let Some(module) = place.module {
        text += &format!(" [{module}]");
    }
    text.into_bytes()
}

fn internet(letters: &[u8], bytes: &[u8], order: Order) -> Result<(Vec<u8>, usize), String> {
    let short = || "a place behind the record's end".to_owned();
    let four = |bytes: &[u8]| -> Result<Ipv4Addr, String> {
        let bytes: [u8; 4] = bytes
            .get(..4)
            .and_then(|b| b.try_into().ok())
            .ok_or_else(short)?;
        Ok(Ipv4Addr::from(bytes))
    };
    let six = |bytes: &[u8]| -> Result<Ipv6Addr, String> {
        let bytes: [u8; 16] = bytes
            .get(..16)
            .and_then(|b| b.try_into().ok())
            .ok_or_else(short)?;
        Ok(Ipv6Addr::from(bytes))
    };
    let is_lower = letters.first() == Some(&b'i');
    let mut out = Vec::new();
    let options = |from: usize, known: &[u8]| {
        let options = letters[from.min(letters.len())..].iter();
        options.take_while(|letter| known.contains(letter)).count()
    };
    match letters.get(1) {
        Some(b'4') => {
            let used = 2 + options(2, b"hnbl");
            let octets = four(bytes)?.octets();
            for (at, octet) in octets.iter().enumerate() {
                let between = if at == 0 { "" } else { "." };
                let _ = match is_lower {
                    true => write!(out, "{between}{octet:03}"),
                    false => write!(out, "{between}{octet}"),
                };
            }
            Ok((out, used))
        }
        Some(b'6') => {
            let used = 2 + options(2, b"c");
            let address = six(bytes)?;
            if used > 2 {
                let _ = write!(out, "{address}");
            } else {
                for (at, segment) in address.segments().iter().enumerate() {
                    let between = if at == 0 || is_lower { "" } else { ":" };
                    let _ = write!(out, "{between}{segment:04x}");
                }
            }
            Ok((out, used))
        }
        Some(b'S') => {
            let used = 2 + options(2, b"pfschnbl");
            let has = |letter: u8| letters[2..used].contains(&letter);
            let family = order.read(bytes, 0, 2).ok_or_else(short)?;
            let port = bytes.get(2..4).ok_or_else(short)?;
            let port = Order::Big.number(port);
            match family {
                2 => {
                    let _ = write!(out, "{}", four(&bytes[4..])?);
                    if has(b'p') {
                        let _ = write!(out, ":{port}");
                    }
                }
                10 => {
                    let address = six(bytes.get(8..).ok_or_else(short)?)?;
                    let text = if has(b'c') {
                        address.to_string()
                    } else {
                        address
                            .segments()
                            .map(|segment| format!("{segment:04x}"))
                            .join(":")
                    };
                    let _ = match has(b'p') {
                        true => write!(out, "[{text}]:{port}"),
                        false => write!(out, "{text}"),
                    };
                }
                _ => return Err(format!("an address of the family {family}")),
            }
            Ok((out, used))
        }
        _ => Err("%pI without a kind".to_owned()),
    }
}

fn uuid(bytes: &[u8], little: bool, upper: bool) -> Vec<u8> {
    const LITTLE: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let mut out = Vec::new();
    for at in 0..16 {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        let byte = bytes[if little { LITTLE[at] } else { at }];
        let _ = match upper {
            true => write!(out, "{byte:02X}"),
            false => write!(out, "{byte:02x}"),
        };
    }
    out
}

//! Text of arrays and bit masks.

use std::io::Write;

use super::super::order::Order;

/// Length limit for an event's text. Linux has 8 KiB for a line.
pub(super) const LONGEST: usize = 8192;

/// Formats bytes as `01 02 03`.
pub(super) fn hex(bytes: &[u8], between: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(3 * bytes.len());
    for (at, byte) in bytes.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"" } else { between });
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// Formats an array as `{0x1,0x2}`.
pub(super) fn array(bytes: &[u8], element: usize, order: Order) -> Vec<u8> {
    let mut out = vec![b'{'];
    // Linux prints other element sizes as bytes, with a warning.
    let element = if matches!(element, 1 | 2 | 4 | 8) {
        element
    } else {
        1
    };
    for (at, element) in bytes.chunks(element).enumerate() {
        let between = if at == 0 { "" } else { "," };
        let _ = write!(out, "{between}{:#x}", order.number(element));
    }
    out.push(b'}');
    out
}

/// Formats a bit mask as 32-bit words, the upper ones first: `00000000,0000000f`.
///
/// A mask is an array of `long`s.
pub(super) fn bitmask(bytes: &[u8], order: Order, long: usize) -> Vec<u8> {
    let mut words = Vec::new();
    for number in bytes.chunks(long) {
        let number = order.number(number);
        words.push(number as u32);
        if long == 8 {
            words.push((number >> 32) as u32);
        }
    }
    let mut out = Vec::new();
    for (at, word) in words.iter().rev().enumerate() {
        let between = if at == 0 { "" } else { "," };
        let _ = write!(out, "{between}{word:08x}");
    }
    out
}

/// Formats the set bits of a mask as ranges: `0-3,7`.
pub(super) fn ranges(bytes: &[u8], order: Order, long: usize, bits: usize) -> Vec<u8> {
    let is_set = |bit: usize| {
        let at = bit / (8 * long) * long;
        let word = bytes.get(at..).unwrap_or_default();
        let word = order.number(&word[..word.len().min(long)]);
        word >> (bit % (8 * long)) & 1 == 1
    };
    let mut out = Vec::new();
    let mut bit = 0;
    let bits = bits.min(8 * bytes.len());
    while bit < bits {
        let start = bit;
        while bit < bits && is_set(bit) {
            bit += 1;
        }
        if bit > start {
            let between = if out.is_empty() { "" } else { "," };
            let _ = match bit - start {
                1 => write!(out, "{between}{start}"),
                _ => write!(out, "{between}{start}-{}", bit - 1),
            };
        }
        bit += 1;
    }
    out
}

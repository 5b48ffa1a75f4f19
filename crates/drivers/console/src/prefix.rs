//! Start of a line: by default the record's time.

use core::fmt::{self, Write};

use crate::{Level, Record};

/// Writer of the start of a line, before its target: for example time, CPU, level and colour, or
/// nothing.
///
/// At most 64 bytes are sent, unescaped. The result must depend on the record only: after an owner
/// has crashed, the line may be sent again with the same start.
pub type Prefix = fn(&Record, &mut dyn fmt::Write) -> fmt::Result;

/// Writes a record's time as `[    1.234567] `, the default start of a line. Blanks replace an
/// unknown time.
///
/// # Errors
///
/// Returns the error of `out`.
pub fn write_time(record: &Record, out: &mut dyn Write) -> fmt::Result {
    let (text, start) = time(record);
    out.write_str(str::from_utf8(&text[start..]).unwrap_or_default())
}

/// Offset of the first byte of a time below 100,000 seconds.
pub(crate) const USUAL_START: usize = 5;

/// Returns the time as text, and the offset of its first byte.
pub(crate) fn time(record: &Record) -> ([u8; 20], usize) {
    // Wide enough for the largest known time, "[9223372036.854775] ".
    let mut text = *b"     [            ] ";
    if !record.time.is_known() {
        return (text, USUAL_START);
    }
    let micros = record.time.0 / 1_000;
    text[10..18].copy_from_slice(&eight_digits(micros % 1_000_000));
    text[11] = b'.';
    let start = put_seconds(&mut text, micros / 1_000_000);
    (text, start)
}

/// Puts whole seconds before the dot of a time. Returns the offset of its first byte.
#[inline(never)] // Inlined, the caller's text would be single bytes, each with its own place.
fn put_seconds(text: &mut [u8; 20], mut seconds: u64) -> usize {
    let mut start = 10;
    for digit in text[1..11].iter_mut().rev() {
        *digit = b'0' + (seconds % 10) as u8;
        start -= 1;
        seconds /= 10;
        if seconds == 0 {
            break;
        }
    }
    start = start.min(USUAL_START);
    text[start] = b'[';
    start
}

/// Returns a number below 10^8 as digits. Divides in several parts of a word at once, by
/// multiplication.
fn eight_digits(number: u64) -> [u8; 8] {
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let pairs = hundreds | ((fours - hundreds * 100) << 16);
    let tens = ((pairs * 103) >> 10) & 0xf_000f_000f_000f;
    let digits = tens | ((pairs - tens * 10) << 8);
    (digits | u64::from_ne_bytes([b'0'; 8])).to_le_bytes()
}

/// Writes [the time](write_time), the CPU's number and the coloured level, as
/// `[    1.234567]   0 INFO   `.
///
/// # Errors
///
/// Returns the error of `out`.
pub fn write_time_cpu_level(record: &Record, out: &mut dyn Write) -> fmt::Result {
    // A format here would cost about 950 instructions a line.
    let level = match record.level {
        Level::Emergency => " \x1b[31mEMERG \x1b[0m ",
        Level::Alert => " \x1b[31mALERT \x1b[0m ",
        Level::Critical => " \x1b[31mCRIT  \x1b[0m ",
        Level::Error => " \x1b[31mERROR \x1b[0m ",
        Level::Warning => " \x1b[33mWARN  \x1b[0m ",
        Level::Notice => " \x1b[36mNOTICE\x1b[0m ",
        Level::Info => " \x1b[32mINFO  \x1b[0m ",
        Level::Debug => " \x1b[34mDEBUG \x1b[0m ",
    };
    write_time(record, out)?;
    let (mut cpu, mut start, mut rest) = ([b' '; 5], 5, record.cpu);
    while start == 5 || rest > 0 {
        start -= 1;
        cpu[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.write_str(str::from_utf8(&cpu[start.min(2)..]).unwrap_or_default())?;
    out.write_str(level)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn the_digits_are_those_of_the_number() {
        let numbers = (0..100_000_000).step_by(9_973);
        for number in numbers.chain([9_999, 10_000, 99_999_999]) {
            let expected = std::format!("{number:08}");
            assert_eq!(eight_digits(number), expected.as_bytes());
        }
    }
}

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

/// Returns the time as text, and the offset of its first byte.
pub(crate) fn time(record: &Record) -> ([u8; 20], usize) {
    // Wide enough for the largest known time, "[9223372036.854775] ".
    let mut text = [b' '; 20];
    let mut start = 5;
    text[18] = b']';
    if record.time.is_known() {
        let micros = record.time.0 / 1_000;
        let mut digits = (micros % 1_000_000) as u32;
        for digit in text[12..18].iter_mut().rev() {
            *digit = b'0' + (digits % 10) as u8;
            digits /= 10;
        }
        text[11] = b'.';
        let mut seconds = micros / 1_000_000;
        for at in (1..11).rev() {
            text[at] = b'0' + (seconds % 10) as u8;
            start = start.min(at - 1);
            seconds /= 10;
            if seconds == 0 {
                break;
            }
        }
    }
    text[start] = b'[';
    (text, start)
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

//! A dmesg record, made from a text.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::str::FromStr;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use nostall_pstore::{DmesgHeader, DumpHeader, Ram, Zone, compress, longest_deflated};

/// How a record is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Packing {
    /// Not at all
    #[default]
    None,
    /// What Linux does unless told otherwise; the only one since 6.6
    Deflate,
    /// One block (pstore.compress=lz4)
    Lz4,
    /// One frame (pstore.compress=zstd)
    Zstd,
}

/// When a record was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    seconds: i64,
    micros: u32,
}

impl FromStr for Time {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "not seconds such as 1700000000 or 1700000000.000042";
        let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
        if !digits || fraction.len() > 6 {
            return Err(WRONG);
        }
        Ok(Self {
            seconds: seconds.parse().map_err(|_| WRONG)?,
            micros: format!("{fraction:0<6}").parse().map_err(|_| WRONG)?,
        })
    }
}

/// Bytes of a text.
pub struct Text {
    /// In the file.
    pub found: u64,
    /// In the record.
    pub kept: usize,
}

/// Replaces what the zone holds by the end of the file, as much as fits.
pub fn write(
    zone: &mut Zone<'_, Ram<'_>>,
    file: &Path,
    packing: Packing,
    time: Time,
) -> Result<Text> {
    let data = zone.division().data();
    let header = DmesgHeader {
        seconds: time.seconds,
        micros: time.micros.into(),
        compressed: packing != Packing::None,
    };
    let (header, header_len) = header.encode();
    let room = data.saturating_sub(header_len);
    // What Linux has a buffer for.
    let most = match packing {
        Packing::None => room,
        Packing::Deflate => longest_deflated(data),
        Packing::Lz4 | Packing::Zstd => data,
    };
    let log = Log::read(file, most)?;
    let record = |text: &[u8]| [&log.title, text].concat();
    let fits = |text: &[u8]| {
        log.title.len() + text.len() <= most && pack(&record(text), packing).len() <= room
    };
    ensure!(
        fits(&[]),
        "a dmesg zone with {data} bytes of data has no room for even the first line: \
         make --record-size larger"
    );
    let text = longest_end(&log.text, fits);
    let body = pack(&record(text), packing);
    match packing {
        Packing::None => {
            zone.erase();
            zone.append_text(&header[..header_len]);
            zone.append_text(&body);
        }
        _ => {
            let words = DumpHeader {
                seconds: time.seconds,
                micros: time.micros,
                ..DumpHeader::PANIC
            };
            zone.write_dmesg_packed(&words, &body)?;
        }
    }
    Ok(Text {
        found: log.bytes,
        kept: text.len(),
    })
}

fn pack(text: &[u8], packing: Packing) -> Vec<u8> {
    match packing {
        Packing::None => text.to_vec(),
        Packing::Deflate => compress::deflate_raw(text),
        Packing::Lz4 => compress::lz4(text),
        Packing::Zstd => compress::zstd(text),
    }
}

/// As much of the end as fits, of which the empty one is known to; in whole lines, if
/// the last line fits.
fn longest_end(text: &[u8], fits: impl Fn(&[u8]) -> bool) -> &[u8] {
    if fits(text) {
        return text;
    }
    let (mut too_long, mut start) = (0, text.len());
    while start - too_long > 1 {
        let middle = usize::midpoint(too_long, start);
        if fits(&text[middle..]) {
            start = middle;
        } else {
            too_long = middle;
        }
    }
    let line = text[start - 1..].iter().position(|&byte| byte == b'\n');
    match line.map(|at| &text[start + at..]) {
        // A shorter text may be larger when compressed, by a little.
        Some(lines) if !lines.is_empty() && fits(lines) => lines,
        _ => &text[start..],
    }
}

/// A kernel log, as much of it as matters.
struct Log {
    /// `Panic#1 Part1`, and a newline.
    title: Vec<u8>,
    /// The end of what follows.
    text: Vec<u8>,
    /// All that follows.
    bytes: u64,
}

impl Log {
    /// At most the last `most` bytes of a file, and its title.
    fn read(file: &Path, most: usize) -> io::Result<Self> {
        let mut from = BufReader::new(File::open(file)?);
        let first = from.fill_buf()?;
        let line = first.split_inclusive(|&byte| byte == b'\n').next();
        let title = match line.filter(|line| is_title(line)) {
            Some(line) => {
                let title = line.to_vec();
                from.consume(title.len());
                title
            }
            None => b"Panic#1 Part1\n".to_vec(),
        };
        let (mut text, mut bytes) = (VecDeque::new(), 0);
        loop {
            let piece = from.fill_buf()?;
            if piece.is_empty() {
                return Ok(Self {
                    title,
                    text: text.into(),
                    bytes,
                });
            }
            let len = piece.len();
            bytes += len as u64;
            text.extend(piece);
            // One more than can be kept: whether a line starts there is to be seen.
            text.drain(..text.len().saturating_sub(most.saturating_add(1)));
            from.consume(len);
        }
    }
}

/// Whether a line is one like `Oops#2 Part1`.
fn is_title(line: &[u8]) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let title = || {
        let line = str::from_utf8(line).ok()?.strip_suffix('\n')?;
        let (reason, rest) = line.split_once('#')?;
        let (count, part) = rest.split_once(" Part")?;
        let word = !reason.is_empty() && reason.bytes().all(|byte| byte.is_ascii_alphabetic());
        Some(word && number(count) && number(part))
    };
    title().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_told_from_a_line_of_the_log() {
        for title in ["Panic#1 Part1\n", "Oops#12 Part3\n"] {
            assert!(is_title(title.as_bytes()), "{title}");
        }
        for line in [
            "",
            "\n",
            "Panic#1 Part1",
            "#1 Part1\n",
            "<6>[0.0] #1 Part1\n",
            "A# Part\n",
        ] {
            assert!(!is_title(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn times_are_seconds_and_micros() {
        let time = |seconds, micros| Ok(Time { seconds, micros });
        assert_eq!("0.0".parse(), time(0, 0));
        assert_eq!("17".parse(), time(17, 0));
        assert_eq!("17.000042".parse(), time(17, 42));
        assert_eq!("17.5".parse(), time(17, 500_000));
        for wrong in ["", ".", "1.", ".5", "1.0000001", "1.-1", "1.+1", "x"] {
            assert!(wrong.parse::<Time>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_end_is_kept_in_whole_lines() {
        let text = b"one\ntwo\nthree\n";
        let end = |most| longest_end(text, |end| end.len() <= most);
        assert_eq!(end(14), text);
        assert_eq!(end(13), b"two\nthree\n");
        assert_eq!(end(10), b"two\nthree\n");
        assert_eq!(end(9), b"three\n");
        assert_eq!(end(3), b"ee\n");
        assert_eq!(end(0), b"");
    }
}

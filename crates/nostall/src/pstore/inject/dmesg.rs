//! A dmesg record, made from a text.

use anyhow::{Result, ensure};
use clap::ValueEnum;
use nostall_pstore::{DmesgHeader, DumpHeader, Ram, Zone, compress, longest_deflated};

/// How a record is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DmesgCompression {
    /// No compression
    #[default]
    None,
    /// Linux's default, and its only method since 6.6
    Deflate,
    /// One block (pstore.compress=lz4)
    Lz4,
    /// One frame (pstore.compress=zstd)
    Zstd,
}

/// Parses a record's time, and returns the header of a panic at that time.
pub fn parse_time(text: &str) -> Result<DumpHeader<'static>, &'static str> {
    const WRONG: &str = "not seconds such as 1700000000 or 1700000000.000042";
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if !(1..=6).contains(&fraction.len()) || fraction.starts_with('+') {
        return Err(WRONG);
    }
    Ok(DumpHeader {
        seconds: seconds.parse().map_err(|_| WRONG)?,
        micros: format!("{fraction:0<6}").parse().map_err(|_| WRONG)?,
        ..DumpHeader::PANIC
    })
}

/// Replaces the zone's contents with the end of the log, as much of it as fits. Returns the number
/// of bytes of its text, and of those that the record has.
pub fn write(
    zone: &mut Zone<'_, Ram<'_>>,
    log: &[u8],
    compression: DmesgCompression,
    time: &DumpHeader<'_>,
) -> Result<(usize, usize)> {
    let data = zone.division().data();
    let header = DmesgHeader {
        seconds: time.seconds,
        micros: time.micros.into(),
        compressed: compression != DmesgCompression::None,
    };
    let (header, header_len) = header.encode();
    let room = data.saturating_sub(header_len);
    // Size of Linux's buffer.
    let most = match compression {
        DmesgCompression::None => room,
        DmesgCompression::Deflate => longest_deflated(data),
        DmesgCompression::Lz4 | DmesgCompression::Zstd => data,
    };
    let (title, text) = split_title(log);
    let body = |text: &[u8]| {
        let record = [title, text].concat();
        match compression {
            DmesgCompression::None => record,
            DmesgCompression::Deflate => compress::deflate_raw(&record),
            DmesgCompression::Lz4 => compress::lz4(&record),
            DmesgCompression::Zstd => compress::zstd(&record),
        }
    };
    let fits = |text: &[u8]| title.len() + text.len() <= most && body(text).len() <= room;
    ensure!(
        fits(&[]),
        "a dmesg zone with {data} bytes of data has no room for even the first line: \
         make --record-size larger"
    );
    // One byte more than can be kept, which shows whether a line starts there.
    let kept = longest_end(&text[text.len().saturating_sub(most + 1)..], fits);
    if compression == DmesgCompression::None {
        zone.erase();
        zone.append_text(&header[..header_len]);
        zone.append_text(&body(kept));
    } else {
        zone.write_dmesg_packed(time, &body(kept))?;
    }
    Ok((text.len(), kept.len()))
}

/// Returns as much of the end as fits. The empty end must fit. The result has whole lines
/// if the last line fits.
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

/// Splits a log into its title and the text after it. A log without a title gets one.
fn split_title(log: &[u8]) -> (&[u8], &[u8]) {
    let end = log.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
    match log.split_at(end.unwrap_or(0)) {
        (line, text) if is_title(line) => (line, text),
        _ => (b"Panic#1 Part1\n", log),
    }
}

/// Whether a line is one like `Oops#2 Part1`.
fn is_title(line: &[u8]) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = || {
        let line = str::from_utf8(line).ok()?.strip_suffix('\n')?;
        let (reason, rest) = line.split_once('#')?;
        let (count, part) = rest.split_once(" Part")?;
        Some((reason, count, part))
    };
    parts().is_some_and(|(reason, count, part)| {
        let is_word = !reason.is_empty() && reason.bytes().all(|byte| byte.is_ascii_alphabetic());
        is_word && number(count) && number(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_distinguished_from_a_line_of_the_log() {
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
        let time = |text| parse_time(text).map(|time| (time.seconds, time.micros));
        assert_eq!(time("0.0"), Ok((0, 0)));
        assert_eq!(time("17"), Ok((17, 0)));
        assert_eq!(time("17.000042"), Ok((17, 42)));
        assert_eq!(time("17.5"), Ok((17, 500_000)));
        for wrong in ["", ".", "1.", ".5", "1.0000001", "1.-1", "1.+1", "x"] {
            assert!(time(wrong).is_err(), "{wrong}");
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

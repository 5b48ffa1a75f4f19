//! Kernel log of a crash: one dmesg record in a zone of its own.

use core::fmt::{self, Write};

use arrayvec::ArrayString;

use crate::deflate::{Matches, deflate};
use crate::dmesg_header::DmesgHeader;
use crate::memory::Memory;
use crate::zone::Zone;

/// Time and reason of a kernel log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpHeader<'a> {
    /// Seconds since 1970, if the clock is set.
    pub seconds: i64,
    /// Microseconds of the second.
    pub micros: u32,
    /// Reason, in Linux's words: `Panic`, `Oops`, `Emergency`, `Shutdown`. At most 32 bytes are
    /// used.
    pub reason: &'a str,
    /// Number of this record among those of this kernel, from 1.
    pub count: u32,
}

impl<'a> DumpHeader<'a> {
    /// Header of a first panic, with an unset clock.
    pub const PANIC: DumpHeader<'static> = DumpHeader {
        seconds: 0,
        micros: 0,
        reason: "Panic",
        count: 1,
    };

    /// Returns the record's first line, `Panic#1 Part1`. Readers use it to check the decompression.
    fn title(&self) -> ArrayString<64> {
        let mut title = ArrayString::new();
        // A reason that is too long is truncated; the rest always fits.
        let end = self.reason.floor_char_boundary(32);
        let _ = writeln!(title, "{}#{} Part1", &self.reason[..end], self.count);
        title
    }
}

/// Returns the longest text that Linux can decompress from a zone with `data` bytes of data.
/// Linux's buffer has this size; a longer record is shown unchanged (`.enc.z`). Source: Linux 6.1,
/// `fs/pstore/platform.c`, `zbufsize_deflate`.
pub const fn longest_deflated(data: usize) -> usize {
    let percent = match data {
        1_000..=2_000 => 56,
        2_001..=3_000 => 54,
        3_001..=3_999 => 52,
        4_000..=10_000 => 45,
        _ => 60,
    };
    data.saturating_mul(100) / percent
}

impl<M: Memory> Zone<'_, M> {
    /// Replaces the zone's contents with the end of `log`, as plain text, as far as it fits. Lines
    /// are kept whole.
    ///
    /// ```
    /// use nostall_pstore::{ZoneKind, DumpHeader, LinuxVersion, Ram, Zone};
    ///
    /// let mut memory = [0; 4096];
    /// let (mut zone, _) = Zone::attach(Ram::of(&mut memory), ZoneKind::Dmesg, LinuxVersion(0), None)?;
    /// zone.write_dmesg(&DumpHeader::PANIC, b"out of coffee\n");
    /// assert!(memory[12..].starts_with(b"====0.000000-D\nPanic#1 Part1\nout of coffee\n"));
    /// # Ok::<(), nostall_pstore::NoRoom>(())
    /// ```
    pub fn write_dmesg(&mut self, words: &DumpHeader<'_>, log: &[u8]) {
        let (header, header_len) = header(words, false);
        let title = words.title();
        let room = self
            .division()
            .data()
            .saturating_sub(header_len + title.len());
        self.erase();
        // The header and title are visible even if a cut follows.
        self.append(&header[..header_len]);
        self.append(title.as_bytes());
        self.append_text(last_lines(log, room));
    }

    /// Replaces the zone's contents with the end of `log`, deflated. About twice as much fits as
    /// with [`write_dmesg`](Self::write_dmesg), and never more than Linux can decompress
    /// ([`longest_deflated`]). The log is compressed in `room`, best as large as the zone's data.
    ///
    /// If not even the last line can be compressed into `room`, plain text is written.
    pub fn write_dmesg_deflated(
        &mut self,
        words: &DumpHeader<'_>,
        log: &[u8],
        matches: &mut Matches,
        room: &mut [u8],
    ) {
        let (_, header_len) = header(words, true);
        let title = words.title();
        let title = title.as_bytes();
        let data = self.division().data();
        let most = data.saturating_sub(header_len).min(room.len());
        let room = &mut room[..most];
        let mut text = last_lines(log, longest_deflated(data).saturating_sub(title.len()));
        // If the log compresses badly, retry with three quarters of it, and so on.
        while !text.is_empty() {
            if let Some(len) = deflate(title, text, matches, room)
                && self.write_dmesg_packed(words, &room[..len]).is_ok()
            {
                return;
            }
            text = last_lines(text, text.len() / 4 * 3);
        }
        self.write_dmesg(words, log);
    }

    /// Replaces the zone's contents with a compressed body: the title line (`Panic#1 Part1`) and
    /// the log, compressed with the method that the next kernel's `pstore.compress` names.
    ///
    /// # Errors
    ///
    /// [`PackedError`]; nothing is written then.
    pub fn write_dmesg_packed(
        &mut self,
        words: &DumpHeader<'_>,
        body: &[u8],
    ) -> Result<(), PackedError> {
        if let Some(9..=13 | 32 | 160) = body.first() {
            return Err(PackedError::LeadingSpace);
        }
        let (header, len) = header(words, true);
        let room = self.division().data().saturating_sub(len);
        if body.len() > room {
            return Err(PackedError::TooLong { room });
        }
        self.erase();
        self.append(&header[..len]);
        self.append(body);
        Ok(())
    }
}

/// Error: the compressed body cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PackedError {
    /// The body starts with white space for Linux (bytes 9 to 13, 32 and 160), which it skips after
    /// the header line. In a deflate stream, an empty stored block before it (`00 00 00 ff ff`)
    /// avoids that.
    LeadingSpace,
    /// The body is longer than the zone's room. A part of it could not be decompressed.
    TooLong {
        /// Number of bytes that fit.
        room: usize,
    },
}

impl fmt::Display for PackedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeadingSpace => {
                f.write_str("the compressed text starts with white space, which Linux would skip")
            }
            Self::TooLong { room } => {
                write!(
                    f,
                    "the compressed text is too long: the zone has room for {room} bytes"
                )
            }
        }
    }
}

impl core::error::Error for PackedError {}

fn header(words: &DumpHeader<'_>, compressed: bool) -> ([u8; crate::DMESG_HEADER], usize) {
    let header = DmesgHeader {
        seconds: words.seconds,
        micros: words.micros.into(),
        compressed,
    };
    header.encode()
}

/// Returns the last whole lines of `log` with at most `most` bytes together. If the last line is
/// longer, returns its end.
fn last_lines(log: &[u8], most: usize) -> &[u8] {
    let start = log.len().saturating_sub(most);
    if start == 0 {
        return log;
    }
    let tail = &log[start..];
    if log[start - 1] == b'\n' {
        return tail;
    }
    match tail.iter().position(|&byte| byte == b'\n') {
        Some(end) if end + 1 < tail.len() => &tail[end + 1..],
        _ => tail,
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::{LinuxVersion, Ram, ZoneKind};
    use miniz_oxide::inflate::decompress_to_vec;
    use proptest::prelude::*;
    use std::vec;

    fn written(size: usize, write: impl FnOnce(&mut Zone<'_, Ram<'_>>)) -> std::vec::Vec<u8> {
        let mut memory = vec![0; size];
        let memory = Ram::of(&mut memory);
        let (mut zone, _) = Zone::attach(memory, ZoneKind::Dmesg, LinuxVersion(0), None).unwrap();
        write(&mut zone);
        let mut contents = vec![0; zone.len()];
        crate::Load::load(zone.memory(), crate::HEADER, &mut contents);
        contents
    }

    #[test]
    fn the_oldest_lines_are_dropped_and_lines_stay_whole() {
        let log = b"one\ntwo\nthree\nfour\n";
        let words = DumpHeader {
            seconds: 7,
            micros: 5,
            reason: "Oops",
            count: 2,
        };
        let text = written(12 + 28 + 11, |zone| zone.write_dmesg(&words, log));
        assert_eq!(
            text,
            b"====7.000005-D\nOops#2 Part1\nthree\nfour\n"[..text.len()]
        );
        assert!(text.ends_with(b"four\n"));
    }

    /// Each range's first and last sizes, and the texts that Linux 6.1 has room for.
    #[test]
    fn linuxs_room_for_a_deflated_text_follows_the_size_of_the_zone() {
        let expected = [
            (999, 1_665),
            (1_000, 1_785),
            (2_000, 3_571),
            (2_001, 3_705),
            (3_000, 5_555),
            (3_001, 5_771),
            (3_999, 7_690),
            (4_000, 8_888),
            (10_000, 22_222),
            (10_001, 16_668),
        ];
        assert_eq!(
            expected.map(|(data, _)| (data, longest_deflated(data))),
            expected
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        #[cfg_attr(miri, ignore = "slow, and no unsafe code")]
        fn linux_has_room_for_every_deflated_text(
            zone in 200usize..12_000,
            line in "[a-z ]{0,80}",
            lines in 0usize..600,
        ) {
            let log = (0..lines).map(|n| std::format!("[{n:12}] {line}\n"));
            let log = log.collect::<std::string::String>();
            let mut room = vec![0; zone];
            let record = written(zone, |zone| {
                let mut matches = Matches::new();
                zone.write_dmesg_deflated(&DumpHeader::PANIC, log.as_bytes(), &mut matches, &mut room);
            });
            let (header, len) = DmesgHeader::decode(&record).unwrap();
            prop_assert_eq!(header.compressed, lines > 0);
            let text = if header.compressed {
                decompress_to_vec(&record[len..]).unwrap()
            } else {
                record[len..].to_vec()
            };
            prop_assert!(text.len() <= longest_deflated(zone - 12));
            let text = std::string::String::from_utf8(text).unwrap();
            let body = text.strip_prefix("Panic#1 Part1\n").unwrap();
            prop_assert!(log.ends_with(body));
        }
    }
}

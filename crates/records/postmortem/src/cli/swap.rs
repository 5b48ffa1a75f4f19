//! Dumps in which the bytes of each word are reversed, because of a memory bus or a debugger.

use nostall_pstore::{ByteOrder, DMESG_HEADER, DmesgHeader, HEADER, SIGNATURE, ZoneHeader};

use crate::memory::{DumpFormat, Memory};

/// A reversal of the bytes in each word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swap(usize);

impl Swap {
    const ALL: [Self; 3] = [Self(4), Self(8), Self(2)];

    /// Parses the option's value.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let all = Self::ALL.into_iter();
        let mut fitting = all.filter(|swap| swap.0.to_string() == text);
        fitting.next().ok_or("must be 2, 4 or 8")
    }

    /// Returns the number of bytes in a word.
    pub const fn bytes(self) -> usize {
        self.0
    }

    /// Reverses the bytes of each whole word.
    pub fn undo(self, bytes: &mut [u8]) {
        for word in bytes.chunks_exact_mut(self.0) {
            word.reverse();
        }
    }

    /// Returns the swap with the most zone headers in the image, if there are more than `than`, and
    /// the position of the first. `None` for a dump with a format, whose headers a swap would break.
    pub fn seen(image: &Memory, than: usize) -> Option<(Self, u64)> {
        if image.format() != DumpFormat::RAW {
            return None;
        }
        let mut seen = Self::ALL.map(|swap| (0, swap, 0));
        for (address, bytes) in image.data() {
            // Words are aligned to the start of the file, and thus of a page.
            let skip = address.wrapping_neg() as usize % 8;
            let (groups, _) = bytes.get(skip..).unwrap_or_default().as_chunks::<8>();
            for (nth, group) in groups.iter().enumerate() {
                if !may_hold(group) {
                    continue;
                }
                let at = skip + nth * 8;
                let there = &bytes[at..bytes.len().min(at + 24)];
                // The header of an empty zone has other zeros around it in each order.
                if has_header(there, BOTH) {
                    continue;
                }
                for (count, swap, first) in &mut seen {
                    if swap.has_header(there) {
                        *first = if *count == 0 {
                            address + at as u64
                        } else {
                            *first
                        };
                        *count += 1;
                    }
                }
            }
        }
        let (count, swap, first) = seen.into_iter().max_by_key(|(count, ..)| *count)?;
        (count > than).then_some((swap, first))
    }

    /// Returns whether the first eight bytes contain a header after the swap.
    fn has_header(self, bytes: &[u8]) -> bool {
        let mut bytes = bytes.to_vec();
        self.undo(&mut bytes);
        // A big-endian header with swapped words is a little-endian one.
        match self.0 {
            4 => has_header(&bytes, &BOTH[..1]),
            _ => has_header(&bytes, BOTH),
        }
    }

    /// Returns the swap that explains the region at `start` better, if the region has no readable
    /// text. The evidence is its text, or more headers in the image than its `headers`.
    pub fn explains(image: &Memory, (start, region): (u64, &[u8]), headers: usize) -> Option<Self> {
        let region = &region[..region.len().min(LOOK)];
        if legible(region) > 0 {
            return None;
        }
        // Words are aligned to the start of the file, and thus of a page.
        let before = (start % 8) as usize;
        let after = Self::ALL.map(|swap| {
            let mut bytes = vec![0; before];
            bytes.extend_from_slice(region);
            swap.undo(&mut bytes);
            (legible(&bytes[before..]), swap)
        });
        let (lines, swap) = after.into_iter().max_by_key(|(lines, _)| *lines)?;
        if lines > 0 {
            return Some(swap);
        }
        Some(Self::seen(image, headers)?.0)
    }
}

const BOTH: &[ByteOrder] = &[ByteOrder::Little, ByteOrder::Big];

/// Returns whether a zone's header is in the first eight bytes.
fn has_header(bytes: &[u8], orders: &[ByteOrder]) -> bool {
    orders.iter().any(|&order| {
        [0, 4].into_iter().any(|at| {
            let bytes = bytes.get(at..at + HEADER).and_then(<[u8]>::first_chunk);
            bytes.is_some_and(|bytes| {
                let header = ZoneHeader::decode(*bytes, order);
                header.signature == SIGNATURE && header.is_valid(LARGEST)
            })
        })
    })
}

/// Number of bytes at a region's start that are checked for legible text. Text zones come first.
const LOOK: usize = 4 << 20;

/// Upper limit for the size of a zone.
const LARGEST: usize = 128 << 20;

/// Returns whether the signature's bytes are among these, in any order.
fn may_hold(group: &[u8; 8]) -> bool {
    b"DBGC".iter().all(|byte| group.contains(byte))
}

/// Returns the number of lines that start like Linux's.
fn legible(region: &[u8]) -> usize {
    // With misread headers, a zone may start anywhere.
    let starts = region.windows(DMESG_HEADER).filter(|start| {
        start.starts_with(b"====")
            && DmesgHeader::decode(start).is_some_and(|(header, _)| {
                let (line, len) = header.encode();
                start.starts_with(&line[..len])
            })
    });
    let lines = region.split(|&byte| byte == b'\n').skip(1);
    starts.count() + lines.filter(|line| is_of_a_log(line)).count()
}

/// Returns whether a line starts with a time, possibly after a level: `<6>[    1.234567] `.
fn is_of_a_log(line: &[u8]) -> bool {
    let line = match line {
        [b'<', level, b'>', line @ ..] if level.is_ascii_digit() => line,
        _ => line,
    };
    let Some(time) = line.strip_prefix(b"[").map(<[u8]>::trim_ascii_start) else {
        return false;
    };
    let digits = time.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let Some((b'.', micros)) = time[digits..].split_first() else {
        return false;
    };
    digits > 0
        && micros.len() > 6
        && micros[..6].iter().all(u8::is_ascii_digit)
        && micros[6] == b']'
}

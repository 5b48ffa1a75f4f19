//! BTF: the types of a Linux kernel, in its own memory.
//!
//! It has a header, then types of 12 bytes and more, then their names. Source: Linux's
//! `Documentation/bpf/btf.rst`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use crate::address_space::AddressSpace;

const MAGIC: u16 = 0xeb9f;

/// Maximum number of bytes. A kernel of a distribution has 4 to 8 MiB.
const MOST: u64 = 32 << 20;

/// Number of bytes that are read at once.
const PAGE: u64 = 4096;

/// Number of bytes of a type before its members, and of a member of a structure.
const TYPE: u64 = 12;
const MEMBER: u64 = 12;

/// Number of bytes of the header that are read.
const HEADER: u64 = 24;

/// The kind of a structure.
const STRUCT: u32 = 4;

/// The types of a kernel. A page is read when it is needed: an eighth of them leads to a structure of
/// Linux's core.
pub(crate) struct Btf<'a> {
    read: Read<'a>,
    pages: RefCell<BTreeMap<u64, Vec<u8>>>,
    len: u64,
    types: Range<u64>,
    strings: Range<u64>,
}

/// Reads bytes at an offset.
type Read<'a> = Box<dyn Fn(u64, usize) -> Option<Vec<u8>> + 'a>;

impl<'a> Btf<'a> {
    /// Opens the types between two virtual addresses; `None` if there are none.
    pub fn open(space: &'a AddressSpace<'_>, start: u64, end: u64) -> Option<Self> {
        let len = end.checked_sub(start).filter(|len| *len <= MOST)?;
        let read = move |at, len| space.read(start.checked_add(at)?, len);
        Self::new(len, Box::new(read))
    }

    fn new(len: u64, read: Read<'a>) -> Option<Self> {
        let mut btf = Self {
            read,
            pages: RefCell::default(),
            len,
            types: 0..0,
            strings: 0..0,
        };
        let header = btf.bytes(0..HEADER)?;
        if u16::from_le_bytes(*header.first_chunk()?) != MAGIC {
            return None;
        }
        let section = |at: usize| {
            let start = u64::from(word(&header, 4)?) + u64::from(word(&header, at)?);
            let end = start + u64::from(word(&header, at + 4)?);
            (end <= len).then_some(start..end)
        };
        (btf.types, btf.strings) = (section(8)?, section(16)?);
        Some(btf)
    }

    /// Returns the offsets in bytes of those members of the first structure with a name and at least
    /// so many members that are wanted. Fields of bits are left out.
    pub fn members(
        &self,
        structure: &str,
        least: u64,
        wanted: &[&'static str],
    ) -> Option<BTreeMap<&'static str, u64>> {
        let mut at = self.types.start;
        while at < self.types.end {
            let head = self.bytes(at..at + TYPE)?;
            let (name, info) = (word(&head, 0)?, word(&head, 4)?);
            let (kind, count) = (info >> 24 & 0x1f, u64::from(info & 0xffff));
            let rest = at + TYPE..at + TYPE + len_of_rest(kind, count)?;
            if rest.end > self.types.end {
                return None;
            }
            at = rest.end;
            if kind == STRUCT && count >= least && self.is_name(name, structure)? {
                // With this flag, the upper 8 bits of an offset are the size of a field of bits.
                let has_sizes = info >> 31 == 1;
                let mut members = BTreeMap::new();
                for member in self.bytes(rest)?.chunks_exact(MEMBER as usize) {
                    let (name, bits) = (word(member, 0)?, word(member, 8)?);
                    let is_whole = bits % 8 == 0 && !(has_sizes && bits >> 24 > 0);
                    for known in wanted.iter().filter(|_| is_whole) {
                        if self.is_name(name, known)? {
                            members.entry(*known).or_insert(u64::from(bits / 8));
                        }
                    }
                }
                return Some(members);
            }
        }
        None
    }

    /// Returns whether there is a name at an offset of the strings; `None` if the dump lacks it.
    fn is_name(&self, at: u32, name: &str) -> Option<bool> {
        let at = self.strings.start + u64::from(at);
        for (at, letter) in (at..).zip(name.bytes().chain([0])) {
            if at >= self.strings.end || self.byte(at)? != letter {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Returns bytes; `None` if the dump lacks any of them.
    fn bytes(&self, range: Range<u64>) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        while let at = range.start + bytes.len() as u64
            && at < range.end
        {
            let most = (range.end - at).min(PAGE - at % PAGE) as usize;
            self.on_page(at, |page| {
                bytes.extend_from_slice(page.get(..most)?);
                Some(())
            })?;
        }
        Some(bytes)
    }

    fn byte(&self, at: u64) -> Option<u8> {
        self.on_page(at, |page| page.first().copied())
    }

    /// Calls `act` with the bytes from an offset to the end of its page.
    fn on_page<T>(&self, at: u64, act: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        let mut pages = self.pages.borrow_mut();
        let first = at - at % PAGE;
        let page = match pages.entry(first) {
            Entry::Occupied(page) => page.into_mut(),
            Entry::Vacant(place) => {
                let len = self.len.checked_sub(first)?.min(PAGE);
                place.insert((self.read)(first, len as usize)?)
            }
        };
        act(page.get((at - first) as usize..)?)
    }
}

/// Returns the number of bytes behind a type of a kind with `count` members.
fn len_of_rest(kind: u32, count: u64) -> Option<u64> {
    Some(match kind {
        // Pointers, names without a type, other names of types, functions, floats, tags of types.
        2 | 7..=12 | 16 | 18 => 0,
        // Integers, variables, tags.
        1 | 14 | 17 => 4,
        // Arrays.
        3 => 12,
        // Enumerations, prototypes of functions.
        6 | 13 => count * 8,
        // Structures, unions, sections, enumerations of 64 bits.
        STRUCT | 5 | 15 | 19 => count * MEMBER,
        _ => return None,
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types of a made kernel: an integer, and a structure with a whole member and two of bits.
    fn example() -> Vec<u8> {
        let strings = b"\0int\0console\0seq\0flag\0";
        let types = [
            [1, 1 << 24, 8].as_slice(),
            &[64],
            &[5, 1 << 31 | 4 << 24 | 3, 16],
            &[13, 1, 64],
            &[17, 1, 1 << 24 | 8],
            &[17, 1, 3],
        ]
        .concat();
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        let (types_len, strings_len) = (types.len() as u32 * 4, strings.len() as u32);
        for number in [24, 0, types_len, types_len, strings_len] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(types.iter().flat_map(|number: &u32| number.to_le_bytes()));
        bytes.extend(strings);
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Btf<'_>> {
        let read = |at: u64, len| Some(bytes.get(at as usize..)?.get(..len)?.to_vec());
        Btf::new(bytes.len() as u64, Box::new(read))
    }

    #[test]
    fn whole_members_of_a_structure_have_offsets() {
        let bytes = example();
        let btf = parse(&bytes).unwrap();
        let members = |structure| btf.members(structure, 1, &["flag", "int", "seq"]);
        assert_eq!(members("console"), Some([("seq", 8)].into()));
        assert_eq!(members("int"), None);
        assert_eq!(members("seq"), None);
    }

    #[test]
    fn damaged_types_are_none_and_end() {
        let bytes = example();
        for len in 0..bytes.len() {
            assert!(parse(&bytes[..len]).is_none(), "{len}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bytes = bytes.clone();
                bytes[at] ^= 1 << bit;
                let _ = parse(&bytes).map(|btf| btf.members("console", 1, &["seq"]).is_some());
            }
        }
    }
}

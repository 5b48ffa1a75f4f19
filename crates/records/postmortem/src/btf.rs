//! BTF: the types of a Linux kernel, in its own memory.
//!
//! It has a header, then types of 12 bytes and more, then their names. Source: Linux's
//! `Documentation/bpf/btf.rst`.

use crate::address_space::AddressSpace;

const MAGIC: u16 = 0xeb9f;

/// Maximum number of bytes. A kernel of a distribution has 4 to 8 MiB.
const MOST: u64 = 32 << 20;

/// Number of bytes of a type before its members, and of a member of a structure.
const TYPE: usize = 12;
const MEMBER: usize = 12;

/// The kind of a structure.
const STRUCT: u32 = 4;

/// The types of a kernel.
#[derive(Debug)]
pub(crate) struct Btf {
    types: Vec<u8>,
    strings: Vec<u8>,
}

impl Btf {
    /// Reads the types between two virtual addresses; `None` if the dump lacks any of them.
    pub fn read(space: &AddressSpace<'_>, start: u64, end: u64) -> Option<Self> {
        let len = end.checked_sub(start).filter(|len| *len <= MOST)?;
        let mut bytes = Vec::new();
        while let left = len - bytes.len() as u64
            && left > 0
        {
            let at = start + bytes.len() as u64;
            bytes.extend(space.read(at, left.min(1 << 20) as usize)?);
        }
        Self::parse(&bytes)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let magic = u16::from_le_bytes(*bytes.first_chunk()?);
        if magic != MAGIC {
            return None;
        }
        let header = word(bytes, 4)? as usize;
        let section = |at: usize| {
            let start = header.checked_add(word(bytes, at)? as usize)?;
            let section = bytes.get(start..)?.get(..word(bytes, at + 4)? as usize)?;
            Some(section.to_vec())
        };
        Some(Self {
            types: section(8)?,
            strings: section(16)?,
        })
    }

    /// Returns the members of the first structure with a name: their names, and their offsets in
    /// bytes. Fields of bits are left out.
    pub fn members(&self, structure: &str) -> Option<Vec<(&[u8], u64)>> {
        let mut types = &self.types[..];
        while !types.is_empty() {
            let (name, info) = (word(types, 0)?, word(types, 4)?);
            let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
            let rest = types.get(TYPE..)?;
            let len = len_of_rest(kind, count)?;
            if kind == STRUCT && self.name(name) == Some(structure.as_bytes()) {
                // With this flag, the upper 8 bits of an offset are the size of a field of bits.
                let has_sizes = info >> 31 == 1;
                let members = rest.get(..len)?.chunks_exact(MEMBER).filter_map(|member| {
                    let (name, bits) = (word(member, 0)?, word(member, 8)?);
                    let is_whole = bits % 8 == 0 && !(has_sizes && bits >> 24 > 0);
                    is_whole.then_some((self.name(name)?, u64::from(bits / 8)))
                });
                return Some(members.collect());
            }
            types = rest.get(len..)?;
        }
        None
    }

    fn name(&self, at: u32) -> Option<&[u8]> {
        let name = self.strings.get(at as usize..)?;
        name.get(..memchr::memchr(0, name)?)
    }
}

/// Returns the number of bytes behind a type of a kind with `count` members.
fn len_of_rest(kind: u32, count: usize) -> Option<usize> {
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

    #[test]
    fn whole_members_of_a_structure_have_offsets() {
        let btf = Btf::parse(&example()).unwrap();
        assert_eq!(btf.members("console"), Some(vec![(&b"seq"[..], 8)]));
        assert_eq!(btf.members("int"), None);
        assert_eq!(btf.members("seq"), None);
    }

    #[test]
    fn damaged_types_are_none_and_end() {
        let bytes = example();
        for len in 0..bytes.len() {
            assert!(Btf::parse(&bytes[..len]).is_none(), "{len}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bytes = bytes.clone();
                bytes[at] ^= 1 << bit;
                let _ = Btf::parse(&bytes).map(|btf| btf.members("console").is_some());
            }
        }
    }
}

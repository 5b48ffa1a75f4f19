//! kallsyms: the names of a Linux kernel's functions and objects, in its own memory.
//!
//! Each name is a length and that number of tokens, and a token stands for a few letters. The first
//! letter is the kind, as `nm` has it. VMCOREINFO names the tables since Linux 6.0. Source:
//! behaviour of Linux's `scripts/kallsyms.c` and `kernel/kallsyms.c`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::iter;
use std::ops::Range;

use crate::address_space::{AddressSpace, Stream};
use crate::symbols::Symbols;
use crate::vmcoreinfo::Vmcoreinfo;

/// Maximum number of symbols; a kernel with all options has about 300,000.
const MOST: u32 = 1 << 20;

/// Maximum length of a name (`KSYM_NAME_LEN` in Linux).
const LONGEST: usize = 512;

/// Maximum number of bytes of a text with all symbols: 300,000 need 15 MiB.
const MOST_TEXT: usize = 64 << 20;

/// Number of tokens.
const TOKENS: usize = 256;

/// Number of symbols from one marker to the next.
const BLOCK: u64 = 256;

/// Number of blocks that are searched below an address.
const NEAR: u64 = 64;

/// The names of a kernel.
#[derive(Debug)]
pub(crate) struct Kallsyms<'a> {
    space: &'a AddressSpace<'a>,
    count: u32,
    tokens: Vec<Vec<u8>>,
    names: u64,
    /// Places in the names of the symbols 0, 256, 512 and so on; empty if they are unknown.
    markers: Vec<u32>,
    offsets: u64,
    base: Base,
}

/// Meaning of the table of offsets.
#[derive(Clone, Copy, Debug)]
enum Base {
    /// Offsets from 0 on are addresses, for data of each CPU; others are below this address.
    Below(u64),
    /// Offsets are above this address.
    Above(u64),
    /// Each offset starts at its own address: Linux 7.
    Itself,
}

impl<'a> Kallsyms<'a> {
    /// Opens the tables; `None` if the dump lacks them, or if they do not have the address of
    /// `_stext` that VMCOREINFO has.
    pub fn open(space: &'a AddressSpace<'a>, info: &Vmcoreinfo) -> Option<Self> {
        let symbol = |name: &str| info.symbol(&format!("kallsyms_{name}"));
        let table = symbol("token_table")?;
        let index = space.read(symbol("token_index")?, 2 * TOKENS)?;
        let tokens = index.chunks_exact(2).map(|at| {
            let at = table.checked_add(u16::from_le_bytes([at[0], at[1]]).into())?;
            let mut stream = space.stream(at);
            let mut token = Vec::new();
            while let letter = stream.take(1)?[0]
                && letter != 0
                && token.len() < LONGEST
            {
                token.push(letter);
            }
            Some(token)
        });
        let count = space.read(symbol("num_syms")?, 4)?;
        let base = symbol("relative_base").and_then(|base| space.word(base));
        let mut names = Self {
            space,
            count: u32::from_le_bytes(*count.first_chunk()?).min(MOST),
            tokens: tokens.collect::<Option<_>>()?,
            names: symbol("names")?,
            markers: Vec::new(),
            offsets: symbol("offsets")?,
            base: Base::Itself,
        };
        let start = info.symbol("_stext")?;
        let bases = match base {
            Some(base) => vec![Base::Below(base), Base::Above(base)],
            None => vec![Base::Itself],
        };
        bases.into_iter().find(|base| {
            names.base = *base;
            names.addresses(&[&["_stext"]], &[]).get("_stext") == Some(&start)
        })?;
        names.markers = names.markers(table).unwrap_or_default();
        Some(names)
    }

    /// Returns the addresses of objects: of each row, that of the first name that is found. The names
    /// of the objects below each address in `below` are read first, because a kernel has ten times
    /// as many.
    pub fn addresses(
        &self,
        wanted: &[&[&'static str]],
        below: &[u64],
    ) -> BTreeMap<&'static str, u64> {
        let mut found = BTreeMap::new();
        let mut rows = wanted.to_vec();
        let ends: Vec<_> = below.iter().filter_map(|at| self.block(*at)).collect();
        let near = (1..=NEAR).flat_map(|back| ends.iter().map(move |end| end.checked_sub(back)));
        let near = near.flatten().map(|block| block..block + 1);
        for blocks in near.chain(iter::once(0..u64::MAX)) {
            self.each(blocks, |nth, tokens| {
                let is_it = |name: &&&str| self.letters(tokens).skip(1).eq(name.bytes());
                let mut numbered = rows.iter().enumerate();
                let it = numbered.find_map(|(row, names)| Some((row, *names.iter().find(is_it)?)));
                if let Some((row, name)) = it {
                    rows.swap_remove(row);
                    found.insert(name, self.address(nth)?);
                }
                (!rows.is_empty()).then_some(())
            });
            if rows.is_empty() {
                break;
            }
        }
        found
    }

    /// Returns the symbols at their linked addresses, `offset` below those in memory.
    pub fn symbols(&self, offset: u64) -> Option<Symbols> {
        let mut table = String::new();
        let mut name = Vec::new();
        let mut offsets = self.space.stream(self.offsets);
        self.each(0..u64::MAX, |nth, tokens| {
            name.clear();
            for letter in self.letters(tokens) {
                name.push(letter);
                if name.len() > LONGEST {
                    return None;
                }
            }
            let (kind, name) = name.split_first()?;
            let address = self.address_of(nth, offsets.take(4)?)?;
            if let Ok(name) = str::from_utf8(name) {
                let (kind, address) = (char::from(*kind), address.wrapping_sub(offset));
                let _ = writeln!(table, "{address:016x} {kind} {name}");
            }
            (table.len() <= MOST_TEXT).then_some(())
        });
        Symbols::parse(table.as_bytes()).ok()
    }

    /// Returns the markers. They are in front of the tokens or, in Linux 6.2 and 6.3, of the order of
    /// the names. `None` if neither place has markers.
    fn markers(&self, tokens: u64) -> Option<Vec<u32>> {
        let count = u64::from(self.count);
        let padded = |len: u64| len.next_multiple_of(8);
        let len = 4 * count.div_ceil(BLOCK);
        [0, padded(3 * count)].into_iter().find_map(|order| {
            let at = tokens.checked_sub(order)?.checked_sub(padded(len))?;
            let markers = self.space.read(at, len as usize)?;
            let markers = markers.chunks_exact(4);
            let markers: Vec<_> = markers
                .map(|it| u32::from_le_bytes([it[0], it[1], it[2], it[3]]))
                .collect();
            let is_ascending = markers.is_sorted_by(|before, after| before < after);
            // The first names lead to the second marker.
            let mut names = self.space.stream(self.names);
            (0..BLOCK).try_for_each(|_| self.tokens(&mut names).map(|_| ()))?;
            let second = self.names.checked_add(u64::from(*markers.get(1)?))?;
            (markers[0] == 0 && is_ascending && names.at() == second).then_some(markers)
        })
    }

    /// Returns the number of blocks up to the symbols of an address; `None` without markers.
    fn block(&self, at: u64) -> Option<u64> {
        let (mut first, mut end) = (0, u64::from(self.count));
        while first < end && !self.markers.is_empty() {
            let middle = u64::midpoint(first, end);
            match self.address(middle)? <= at {
                true => first = middle + 1,
                false => end = middle,
            }
        }
        Some(first.div_ceil(BLOCK)).filter(|_| !self.markers.is_empty())
    }

    fn marker(&self, block: u64) -> Option<u64> {
        self.markers.get(block as usize).map(|at| u64::from(*at))
    }

    /// Calls `next` with the number and the tokens of each symbol of some blocks. Ends at the first
    /// symbol that the dump lacks, or when `next` returns `None`.
    fn each(&self, blocks: Range<u64>, mut next: impl FnMut(u64, &[u8]) -> Option<()>) {
        let place = self.marker(blocks.start).unwrap_or(0);
        let Some(names) = self.names.checked_add(place) else {
            return;
        };
        let mut names = self.space.stream(names);
        let end = blocks.end.saturating_mul(BLOCK).min(self.count.into());
        for nth in blocks.start * BLOCK..end {
            let tokens = self.tokens(&mut names);
            if tokens.and_then(|tokens| next(nth, tokens)).is_none() {
                return;
            }
        }
    }

    /// Returns the tokens of the next symbol.
    fn tokens<'n>(&self, names: &'n mut Stream<'_>) -> Option<&'n [u8]> {
        let mut len = usize::from(names.take(1)?[0]);
        // A length above 127 has a second byte, with the upper bits.
        if len > 127 {
            len = len & 127 | usize::from(names.take(1)?[0]) << 7;
        }
        // Each token has a letter.
        names.take(Some(len).filter(|len| *len <= LONGEST)?)
    }

    /// Returns the letters of tokens: the kind, and the name.
    fn letters(&self, tokens: &[u8]) -> impl Iterator<Item = u8> {
        let letters = tokens.iter().map(|token| &self.tokens[usize::from(*token)]);
        letters.flatten().copied()
    }

    fn address(&self, nth: u64) -> Option<u64> {
        let at = self.offsets.checked_add(4 * nth)?;
        self.address_of(nth, &self.space.read(at, 4)?)
    }

    fn address_of(&self, nth: u64, offset: &[u8]) -> Option<u64> {
        let offset = u32::from_le_bytes(*offset.first_chunk()?);
        let signed = i64::from(offset.cast_signed());
        Some(match self.base {
            Base::Below(_) if signed >= 0 => offset.into(),
            Base::Below(base) => base.wrapping_add_signed(-1 - signed),
            Base::Above(base) => base.wrapping_add(offset.into()),
            Base::Itself => {
                let itself = self.offsets.wrapping_add(4 * nth);
                itself.wrapping_add_signed(signed)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use super::*;
    use crate::address_space::MappedPart;
    use crate::memory::DumpFormat;
    use crate::memory::container::{Chunk, Container, Facts, PhysicalRange};

    const AT: u64 = 0xffff_ffff_8100_0000;
    const TOKEN_TABLE: u64 = 0x3000;
    const COUNT: u64 = 0x4000;
    const OFFSETS: u64 = 0x5000;
    const NAMES: u64 = 0x10000;
    const LEN: u64 = 0x30000;

    /// Number of symbols, and those with the wanted names.
    const SYMBOLS: u64 = 8192;
    const TYPES: u64 = 6000;
    const LIST: u64 = 8000;

    /// Memory that records which of its pages were read.
    #[derive(Debug)]
    struct Watched {
        bytes: Vec<u8>,
        facts: Facts,
        segments: [PhysicalRange; 1],
        pages: Mutex<BTreeSet<u64>>,
    }

    impl Container for Watched {
        fn facts(&self) -> &Facts {
            &self.facts
        }

        fn segments(&self) -> &[PhysicalRange] {
            &self.segments
        }

        fn chunk(&self, at: u64, most: usize) -> Chunk<'_> {
            self.pages.lock().unwrap().insert(at / 4096);
            Chunk::Bytes(self.bytes[at as usize..][..most].into())
        }

        fn data(&self) -> Box<dyn Iterator<Item = PhysicalRange> + '_> {
            Box::new(self.segments.into_iter())
        }
    }

    /// Returns the tables of a kernel, with a marker in front of the tokens for each 256 symbols, and
    /// its VMCOREINFO. The markers are `wrong` bytes too high.
    fn made(wrong: u32) -> (Watched, Vmcoreinfo) {
        let mut bytes = vec![0; LEN as usize];
        let mut put =
            |at: u64, data: &[u8]| bytes[at as usize..][..data.len()].copy_from_slice(data);
        for token in 0..=255_u8 {
            put(u64::from(token) * 2, &(u16::from(token) * 2).to_le_bytes());
            put(TOKEN_TABLE + u64::from(token) * 2, &[token.max(1), 0]);
        }
        let mut names = Vec::new();
        for nth in 0..SYMBOLS {
            if nth % BLOCK == 0 {
                let place = TOKEN_TABLE - 4 * (SYMBOLS / BLOCK) + 4 * (nth / BLOCK);
                let wrong = if nth == 0 { 0 } else { wrong };
                put(place, &(names.len() as u32 + wrong).to_le_bytes());
            }
            let name = match nth {
                0 => "T_stext".to_owned(),
                TYPES => "D__start_BTF".to_owned(),
                LIST => "bconsole_list".to_owned(),
                _ => format!("tname_{nth:05}"),
            };
            names.push(name.len() as u8);
            names.extend(name.bytes());
            put(OFFSETS + 4 * nth, &(16 * nth as u32).to_le_bytes());
        }
        put(NAMES, &names);
        put(COUNT, &(SYMBOLS as u32).to_le_bytes());
        put(COUNT + 8, &AT.to_le_bytes());
        let info = [
            ("kallsyms_token_index", 0),
            ("kallsyms_token_table", TOKEN_TABLE),
            ("kallsyms_num_syms", COUNT),
            ("kallsyms_relative_base", COUNT + 8),
            ("kallsyms_offsets", OFFSETS),
            ("kallsyms_names", NAMES),
            ("_stext", 0),
        ]
        .map(|(name, at)| format!("SYMBOL({name})={:x}\n", AT + at))
        .concat();
        let segments = [PhysicalRange { start: 0, len: LEN }];
        let memory = Watched {
            bytes,
            facts: Facts::of(DumpFormat::LIME),
            segments,
            pages: Mutex::default(),
        };
        let info = Vmcoreinfo::parse(format!("OSRELEASE=6.1.0\n{info}").as_bytes());
        (memory, info.unwrap())
    }

    /// Returns the number of pages with names that a search reads.
    fn pages_with_names(wrong: u32) -> usize {
        let (memory, info) = made(wrong);
        let parts = vec![MappedPart {
            virt: AT,
            physical: 0,
            len: LEN,
        }];
        let space = AddressSpace::of_parts(&memory, parts);
        let names = Kallsyms::open(&space, &info).unwrap();
        let wanted: [&[&str]; 2] = [&["other_list", "console_list"], &["__start_BTF"]];
        let found = names.addresses(&wanted, &[u64::MAX, AT + 16 * (TYPES + 300)]);
        let expected = [("console_list", LIST), ("__start_BTF", TYPES)];
        assert_eq!(
            found,
            expected.map(|(name, nth)| (name, AT + 16 * nth)).into()
        );
        let pages = memory.pages.lock().unwrap();
        pages.range(NAMES / 4096..).count()
    }

    #[test]
    fn names_of_two_objects_are_found_in_the_pages_around_them() {
        // The first block checks the markers. The list's is the last one, and the types' the second.
        assert_eq!(pages_with_names(0), 5);
    }

    #[test]
    fn all_names_are_read_if_the_markers_do_not_lead_to_names() {
        assert_eq!(pages_with_names(1), 24);
    }
}

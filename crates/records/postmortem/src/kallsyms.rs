//! kallsyms: the names of a Linux kernel's functions and objects, in its own memory.
//!
//! Each name is a length and that number of tokens, and a token stands for a few letters. The first
//! letter is the kind, as `nm` has it. VMCOREINFO names the tables since Linux 6.0. Source:
//! behaviour of Linux's `scripts/kallsyms.c` and `kernel/kallsyms.c`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::ControlFlow;

use crate::address_space::AddressSpace;
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

/// Number of bytes that are read at once: a page, because the dump may lack the next one.
const PAGE: u64 = 4096;

/// The names of a kernel.
#[derive(Debug)]
pub(crate) struct Kallsyms<'a> {
    space: &'a AddressSpace<'a>,
    count: u32,
    tokens: Vec<Vec<u8>>,
    names: u64,
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
            let mut stream = Stream::new(space, at);
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
            names.addresses(&["_stext"]).get("_stext") == Some(&start)
        })?;
        Some(names)
    }

    /// Returns the addresses of objects.
    pub fn addresses(&self, wanted: &[&'static str]) -> BTreeMap<&'static str, u64> {
        let mut found = BTreeMap::new();
        self.each(|_, name, address| {
            if let Some(known) = wanted.iter().find(|known| known.as_bytes() == name) {
                found.entry(*known).or_insert(address);
            }
            match found.len() == wanted.len() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        found
    }

    /// Returns the symbols at their linked addresses, `offset` below those in memory.
    pub fn symbols(&self, offset: u64) -> Option<Symbols> {
        let mut table = String::new();
        self.each(|kind, name, address| {
            if let Ok(name) = str::from_utf8(name) {
                let (kind, address) = (char::from(kind), address.wrapping_sub(offset));
                let _ = writeln!(table, "{address:016x} {kind} {name}");
            }
            match table.len() > MOST_TEXT {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        Symbols::parse(table.as_bytes()).ok()
    }

    /// Calls `next` with the kind, the name and the address of each symbol, up to the first that the
    /// dump lacks.
    fn each(&self, mut next: impl FnMut(u8, &[u8], u64) -> ControlFlow<()>) {
        let mut names = Stream::new(self.space, self.names);
        let mut offsets = Stream::new(self.space, self.offsets);
        let mut name = Vec::new();
        for nth in 0..u64::from(self.count) {
            let whole = self.name(&mut names, &mut name);
            let Some(((kind, name), offset)) = whole.zip(offsets.take(4)) else {
                return;
            };
            let offset = u32::from_le_bytes([offset[0], offset[1], offset[2], offset[3]]);
            let signed = i64::from(offset.cast_signed());
            let address = match self.base {
                Base::Below(_) if signed >= 0 => offset.into(),
                Base::Below(base) => base.wrapping_add_signed(-1 - signed),
                Base::Above(base) => base.wrapping_add(offset.into()),
                Base::Itself => {
                    let itself = self.offsets.wrapping_add(4 * nth);
                    itself.wrapping_add_signed(signed)
                }
            };
            if next(kind, name, address).is_break() {
                return;
            }
        }
    }

    fn name<'n>(&self, stream: &mut Stream<'_>, name: &'n mut Vec<u8>) -> Option<(u8, &'n [u8])> {
        name.clear();
        let mut len = usize::from(stream.take(1)?[0]);
        // A length above 127 has a second byte, with the upper bits.
        if len > 127 {
            len = len & 127 | usize::from(stream.take(1)?[0]) << 7;
        }
        // Each token has a letter.
        if len > LONGEST {
            return None;
        }
        for token in stream.take(len)? {
            name.extend_from_slice(self.tokens.get(usize::from(*token))?);
            if name.len() > LONGEST {
                return None;
            }
        }
        let (kind, name) = name.split_first()?;
        Some((*kind, name))
    }
}

/// Bytes from an address on.
struct Stream<'a> {
    space: &'a AddressSpace<'a>,
    at: u64,
    bytes: Vec<u8>,
    taken: usize,
}

impl<'a> Stream<'a> {
    fn new(space: &'a AddressSpace<'a>, at: u64) -> Self {
        Self {
            space,
            at,
            bytes: Vec::new(),
            taken: 0,
        }
    }

    /// Returns the next `len` bytes, at most those of some pages.
    fn take(&mut self, len: usize) -> Option<&[u8]> {
        while self.bytes.len() - self.taken < len {
            let page = PAGE - self.at % PAGE;
            let page = self.space.read(self.at, page as usize)?;
            self.bytes.drain(..self.taken);
            self.taken = 0;
            self.at = self.at.checked_add(page.len() as u64)?;
            self.bytes.extend(page);
        }
        let bytes = &self.bytes[self.taken..][..len];
        self.taken += len;
        Some(bytes)
    }
}

//! The symbol table: selection of symbols and names, and the extent of each symbol.
//!
//! The rules are those of Linux's kallsyms (behaviour of scripts/kallsyms.c and kernel/kallsyms.c,
//! 6.1):
//!
//! - Code is between `_stext` and `_etext` and between `_sinittext` and `_einittext`. There,
//!   symbols of any type count; elsewhere none do.
//! - One of several names for an address is chosen: names that are not weak come first. Names that
//!   no linker script seems to provide come next, then fewer leading underscores, then the order in
//!   the file.
//! - A symbol ends at the next symbol with another address, the last one at the end of its range.

use std::cmp::Reverse;
use std::fmt;
use std::ops::Range;

use super::error::Error;

/// Size limit for an unpacked gzipped table; the largest real ones have about 20 MiB.
pub const MAX_UNPACKED: usize = 256 << 20;

/// Name and extent of the symbol at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Name of the symbol at or below the address, as Linux's `%ps` prints it.
    pub name: &'a str,
    /// Module of the symbol; `None` for the kernel itself.
    pub module: Option<&'a str>,
    /// Distance of the address from the symbol.
    pub offset: u64,
    /// Distance from the symbol to the next one with another address, or to the end of its range of
    /// code.
    pub size: u64,
}

/// Formats as Linux's `%pS`: `name+0xoffset/0xsize`, then the module if there is one.
impl fmt::Display for Symbol<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{:#x}/{:#x}", self.name, self.offset, self.size)?;
        self.module
            .map_or(Ok(()), |module| write!(f, " [{module}]"))
    }
}

/// Maximum number of symbols; a kernel with all options has about 300,000.
pub(super) const MAX_SYMBOLS: usize = 1 << 22;

/// No table contains the end of a module's last function. It is at least the end of its first page.
const PAGE: u64 = 4096;

/// A symbol as in its file; `kind` is nm's letter.
#[derive(Clone, Copy)]
pub(super) struct Raw<'a> {
    pub(super) address: u64,
    pub(super) kind: u8,
    pub(super) name: &'a str,
    pub(super) module: Option<&'a str>,
}

#[derive(Clone, Debug)]
pub(super) struct Table {
    /// Addresses in ascending order, all different.
    starts: Vec<u64>,
    entries: Vec<Entry>,
    names: String,
    /// Addresses of the [`MARKS`] in the file.
    marks: Vec<(&'static str, u64)>,
}

/// Symbols whose addresses are kept although they may be data. They are the two that Linux's
/// persistent ring buffer refers to, the bounds of its interrupt entries, and those of its
/// constants.
const MARKS: [&str; 8] = [
    "rb_meta_init_text_addr",
    "rb_data_ptr",
    "__irqentry_text_start",
    "__irqentry_text_end",
    "_text",
    "linux_banner",
    "__start_rodata",
    "__end_rodata",
];

#[derive(Clone, Debug)]
struct Entry {
    end: u64,
    name: Range<u32>,
    module: Option<Range<u32>>,
}

impl Table {
    /// Creates a table. `code` is the file's ranges of code, if any; Linux's own marks take
    /// precedence.
    pub(super) fn new(mut raws: Vec<Raw>, code: Vec<Range<u64>>) -> Result<Self, Error> {
        let linux = linux_code(&raws);
        let marks = MARKS.into_iter().filter_map(|mark| {
            let raw = raws
                .iter()
                .find(|raw| raw.name == mark && raw.module.is_none())?;
            Some((mark, raw.address))
        });
        let marks = marks.collect();
        let code = if linux.is_empty() {
            code
        } else {
            linux.clone()
        };
        raws.retain(|raw| match raw.module {
            None if !linux.is_empty() => is_kept(raw) && range_of(&code, raw.address).is_some(),
            _ => is_text(raw),
        });
        // The sort is stable: otherwise equal names keep the file's order.
        raws.sort_by_key(|raw| {
            let weak = raw.kind.eq_ignore_ascii_case(&b'w');
            let underscores = raw.name.len() - raw.name.trim_start_matches('_').len();
            (
                raw.address,
                weak,
                may_be_linker_provided(raw.name),
                underscores,
            )
        });
        raws.dedup_by_key(|raw| raw.address);
        let table = Self::fill(&raws, &code)?;
        Ok(Self { marks, ..table })
    }

    fn fill(raws: &[Raw], code: &[Range<u64>]) -> Result<Self, Error> {
        let mut table = Self {
            starts: raws.iter().map(|raw| raw.address).collect(),
            entries: Vec::with_capacity(raws.len()),
            names: String::new(),
            marks: Vec::new(),
        };
        let mut module: Option<(&str, Range<u32>)> = None;
        for (at, raw) in raws.iter().enumerate() {
            let bound = match (raw.module, range_of(code, raw.address)) {
                (None, Some(range)) => range.end,
                _ => (raw.address | (PAGE - 1)).saturating_add(1),
            };
            let next = raws.get(at + 1);
            let end = match next {
                // Up to the next symbol of the same module or code range, at any distance.
                Some(next) if raw.module.is_some() && raw.module == next.module => next.address,
                Some(next) if raw.module.is_none() && code.is_empty() && next.module.is_none() => {
                    next.address
                }
                Some(next) => bound.min(next.address),
                None => bound,
            };
            if module.as_ref().map(|(name, _)| *name) != raw.module {
                module = match raw.module {
                    Some(name) => Some((name, table.keep(name)?)),
                    None => None,
                };
            }
            let name = table.keep(raw.name)?;
            let module = module.as_ref().map(|(_, range)| range.clone());
            table.entries.push(Entry { end, name, module });
        }
        if table.entries.is_empty() {
            return Err(Error::NoTable);
        }
        Ok(table)
    }

    fn keep(&mut self, name: &str) -> Result<Range<u32>, Error> {
        if self.names.len() + name.len() > MAX_UNPACKED {
            return Err(Error::TooLarge);
        }
        let start = self.names.len() as u32;
        self.names.push_str(name);
        Ok(start..self.names.len() as u32)
    }

    /// Returns the addresses of symbols, in ascending order, each once.
    pub(super) fn starts(&self) -> &[u64] {
        &self.starts
    }

    /// Returns the address of one of the [`MARKS`].
    pub(super) fn mark(&self, name: &str) -> Option<u64> {
        let mut marks = self.marks.iter();
        marks
            .find(|(mark, _)| *mark == name)
            .map(|(_, address)| *address)
    }

    pub(super) fn lookup(&self, address: u64) -> Option<Symbol<'_>> {
        let at = self
            .starts
            .partition_point(|start| *start <= address)
            .checked_sub(1)?;
        let (start, entry) = (self.starts[at], &self.entries[at]);
        let name = |range: &Range<u32>| &self.names[range.start as usize..range.end as usize];
        (address < entry.end).then(|| Symbol {
            name: name(&entry.name),
            module: entry.module.as_ref().map(name),
            offset: address - start,
            size: entry.end - start,
        })
    }
}

/// Returns the code ranges that Linux's linker script marks; empty if the table is not Linux's.
fn linux_code(raws: &[Raw]) -> Vec<Range<u64>> {
    let mark = |name: &str| {
        let mut kernel = raws.iter().filter(|raw| raw.module.is_none());
        kernel.find(|raw| raw.name == name).map(|raw| raw.address)
    };
    [("_stext", "_etext"), ("_sinittext", "_einittext")]
        .into_iter()
        .filter_map(|(start, end)| Some(mark(start)?..mark(end)?))
        .filter(|range| !range.is_empty())
        .collect()
}

fn range_of(code: &[Range<u64>], address: u64) -> Option<&Range<u64>> {
    // The closest of nested ranges, which are unusual, is the one that starts last.
    code.iter()
        .filter(|range| range.contains(&address))
        .min_by_key(|range| Reverse(range.start))
}

fn is_text(raw: &Raw) -> bool {
    matches!(raw.kind, b'T' | b't' | b'W' | b'w') && is_kept(raw)
}

/// Returns whether kallsyms keeps a symbol. It drops undefined, absolute and debugging symbols, and
/// labels that assemblers and linkers insert between functions.
fn is_kept(raw: &Raw) -> bool {
    const PREFIXES: [&str; 12] = [
        "$", // ARM mapping symbols
        ".L",
        "__efistub_",
        "__kvm_nvhe_$",
        "__kvm_nvhe_.L",
        "__AArch64ADRPThunk_",
        "__ARMV5PILongThunk_",
        "__ARMV7PILongThunk_",
        "__ThumbV7PILongThunk_",
        "__LA25Thunk_",
        "__microLA25Thunk_",
        "__kcfi_typeid_",
    ];
    const SUFFIXES: [&str; 3] = ["_from_arm", "_from_thumb", "_veneer"];

    !matches!(raw.kind, b'U' | b'u' | b'A' | b'a' | b'N' | b'n')
        && !PREFIXES.iter().any(|prefix| raw.name.starts_with(prefix))
        && !SUFFIXES.iter().any(|suffix| raw.name.ends_with(suffix))
}

/// Returns whether a name is a section mark: `__start_x`, `__stop_x`, `__end_x`, `__x_start`,
/// `__x_end`.
fn may_be_linker_provided(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("__").filter(|_| name.len() >= 8) else {
        return false;
    };
    ["start_", "stop_", "end_"]
        .iter()
        .any(|prefix| rest.starts_with(prefix))
        || ["_start", "_end"]
            .iter()
            .any(|suffix| name.ends_with(suffix))
}

//! VMCOREINFO: a text in the memory of Linux that describes the kernel to readers of its dumps.
//!
//! Each line is `KEY=VALUE`; the first is the release. Addresses and sizes of the kernel's objects
//! are among them. Source: Linux's `Documentation/admin-guide/kdump/vmcoreinfo.rst`.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use memchr::memmem;

use crate::discovery::Discovery;
use crate::memory::container::{Chunk, Container};
use crate::scan::{Finder, Signature};

/// Start of the text.
const START: &[u8] = b"OSRELEASE=";

/// Maximum length of the text. Linux has one page for it, and uses about 4 KiB.
const LONGEST: usize = 16 << 10;

/// Maximum length of a release (`__NEW_UTS_LEN` in Linux).
const LONGEST_RELEASE: usize = 64;

/// Maximum number of texts: memory may be filled with them on purpose. A kernel has two.
pub(crate) const MOST: usize = 1024;

/// Finds texts by their first word.
pub(crate) static FINDER: Finder = Finder {
    signatures: &[Signature::Anywhere(START)],
    is_start: |memory, at| Vmcoreinfo::read(memory, at).is_some(),
    most: MOST,
    on_request: false,
};

/// Returns whether a text starts with a release in a line of its own.
fn has_release(text: &[u8]) -> bool {
    let Some(rest) = text.strip_prefix(START) else {
        return false;
    };
    let line = &rest[..rest.len().min(LONGEST_RELEASE + 1)];
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"._+~-".contains(byte);
    match line.iter().position(|byte| *byte == b'\n') {
        None | Some(0) => false,
        Some(end) => line[..end].iter().all(is_word),
    }
}

impl Discovery<'_> {
    /// Returns the VMCOREINFO of the dump's header, and those in memory outside `besides`. Copies
    /// are left out, but for the time of a crash that the first one lacks.
    pub fn vmcoreinfos(&self, besides: &[Range<u64>]) -> Vec<(InfoSource, Vmcoreinfo)> {
        let memory = self.memory.container();
        let header = memory.facts().vmcoreinfo.as_deref();
        let header = header.and_then(Vmcoreinfo::parse);
        let header = header.map(|info| (InfoSource::Header, info));
        let in_memory = self.addresses(&FINDER, besides);
        let in_memory = in_memory
            .filter_map(|at| Some((InfoSource::Memory(at), Vmcoreinfo::read(memory, at)?)));
        let mut infos = Vec::<(InfoSource, Vmcoreinfo)>::new();
        for (source, info) in header.into_iter().chain(in_memory) {
            match infos.iter_mut().find(|(_, known)| known.is_copy(&info)) {
                Some((_, known)) => known.add(info),
                None => infos.push((source, info)),
            }
        }
        infos
    }
}

/// Place of a VMCOREINFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InfoSource {
    /// Memory at this physical address; in a raw file at this offset.
    Memory(u64),
    /// The dump's header.
    Header,
    /// None: the log was found by its structure, and its records' data has this number of bytes.
    Structure(usize),
}

impl fmt::Display for InfoSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(at) => write!(f, "VMCOREINFO at {at:#x}"),
            Self::Header => f.write_str("the VMCOREINFO of the dump's header"),
            Self::Structure(size) => {
                write!(
                    f,
                    "its structure, without VMCOREINFO; records of {size} bytes"
                )
            }
        }
    }
}

/// The contents of a VMCOREINFO.
///
/// ```
/// use nostall_postmortem::vmcoreinfo::Vmcoreinfo;
///
/// let text = b"OSRELEASE=6.1.0\nPAGESIZE=4096\nSYMBOL(prb)=ffffffffb945c040\n\
///     OFFSET(prb_desc.text_blk_lpos)=8\nNUMBER(phys_base)=-4096\nNUMBER(TCR_EL1_T1SZ)=0x10\n";
/// let info = Vmcoreinfo::parse(text).unwrap();
/// assert_eq!(info.release(), "6.1.0");
/// assert_eq!(info.symbol("prb"), Some(0xffff_ffff_b945_c040));
/// assert_eq!(info.offset("prb_desc.text_blk_lpos"), Some(8));
/// assert_eq!(info.number("phys_base"), Some(-4096));
/// assert_eq!(info.number("TCR_EL1_T1SZ"), Some(16));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vmcoreinfo(BTreeMap<String, String>);

impl Vmcoreinfo {
    /// Parses a text, which ends with its last whole line, before the first byte that is no text and
    /// before another such text. `None` if it does not start with a release, or has no symbol.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = &text[..text.len().min(LONGEST)];
        if !has_release(text) {
            return None;
        }
        let is_end = |byte: &u8| !matches!(byte, b'\n' | b' '..=b'~');
        let text = &text[..text.iter().position(is_end).unwrap_or(text.len())];
        let next = memmem::find(&text[1..], START).map_or(text.len(), |next| next + 1);
        let text = &text[..next];
        let end = text.iter().rposition(|byte| *byte == b'\n')?;
        let text = str::from_utf8(&text[..end]).ok()?;
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        let values: BTreeMap<_, _> = pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let has_symbol = values.keys().any(|key| key.starts_with("SYMBOL("));
        has_symbol.then_some(Self(values))
    }

    /// Returns the release alone, of a kernel without VMCOREINFO, or nothing if it is none.
    pub(crate) fn of_release(release: &str) -> Self {
        let line = format!("OSRELEASE={release}\n");
        let is_release = has_release(line.as_bytes()) && line.lines().count() == 1;
        let release = is_release.then(|| ("OSRELEASE".to_owned(), release.to_owned()));
        Self(release.into_iter().collect())
    }

    /// Reads the text at an address.
    pub(crate) fn read(memory: &dyn Container, at: u64) -> Option<Self> {
        let mut text = Vec::new();
        while text.len() < LONGEST {
            // Most places with the first word have no text.
            let most = if text.is_empty() { 128 } else { 4096 };
            let at = at.checked_add(text.len() as u64)?;
            let Chunk::Bytes(bytes) = memory.chunk(at, most) else {
                break;
            };
            let is_over = bytes.contains(&0) || memmem::find(&bytes[1..], START).is_some();
            text.extend_from_slice(&bytes);
            if is_over || text.len() >= 128 && !has_release(&text) {
                break;
            }
        }
        Self::parse(&text)
    }

    /// Returns the value of a line.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Returns the kernel's release, such as `6.1.0-13-amd64`; empty if it is not known.
    pub fn release(&self) -> &str {
        self.value("OSRELEASE").unwrap_or_default()
    }

    /// Returns a symbol's virtual address.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        u64::from_str_radix(self.value(&format!("SYMBOL({name})"))?, 16).ok()
    }

    /// Returns the offset of a member in bytes: `OFFSET(structure.member)`.
    pub fn offset(&self, member: &str) -> Option<usize> {
        self.value(&format!("OFFSET({member})"))?.parse().ok()
    }

    /// Returns the size of a structure in bytes.
    pub fn size(&self, structure: &str) -> Option<usize> {
        self.value(&format!("SIZE({structure})"))?.parse().ok()
    }

    /// Returns the number of elements of an array.
    pub fn length(&self, array: &str) -> Option<usize> {
        self.value(&format!("LENGTH({array})"))?.parse().ok()
    }

    /// Returns a number. Numbers above 2^63 count as negative.
    pub fn number(&self, name: &str) -> Option<i64> {
        let value = self.value(&format!("NUMBER({name})"))?;
        match value.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok().map(u64::cast_signed),
            None => value.parse().ok(),
        }
    }

    /// Returns the distance of the kernel above its linked address (KASLR), in bytes.
    pub fn kernel_offset(&self) -> Option<u64> {
        u64::from_str_radix(self.value("KERNELOFFSET")?, 16).ok()
    }

    /// Returns the time of the crash in seconds since 1970, if Linux began to dump itself (kdump).
    pub fn crash_time(&self) -> Option<i64> {
        self.value("CRASHTIME")?.parse().ok()
    }

    /// Returns the kernel's build ID: 32 to 64 hexadecimal digits.
    pub fn build_id(&self) -> Option<&str> {
        let is_id = |text: &&str| {
            (32..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        self.value("BUILD-ID").filter(is_id)
    }

    /// Adds the values of a copy that this text lacks.
    fn add(&mut self, copy: Self) {
        for (key, value) in copy.0 {
            self.0.entry(key).or_insert(value);
        }
    }

    /// Returns whether another text is a copy of this one. Linux adds the time of a crash to one of
    /// two copies.
    fn is_copy(&self, other: &Self) -> bool {
        let values = |info: &Self| {
            let mut values = info.0.clone();
            values.remove("CRASHTIME");
            values
        };
        values(self) == values(other)
    }
}

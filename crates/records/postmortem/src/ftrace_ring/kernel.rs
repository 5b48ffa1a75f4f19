//! Names of the kernel that wrote a ring buffer: functions and events.

use nostall_tracefile::linux::{Formats, Names, Place};

use super::buffer::RingBuffer;
use super::constants::{ALIGN, Constants};
use super::entry::{Entry, decode, is_trace_event, type_name};
use super::merge::{Merge, MergeBy};
use super::version::Version;
use crate::kernel::KernelOffset;
use crate::memory::Memory;
use crate::symbols::{Symbol, Symbols};

/// Names of the kernel that wrote a ring buffer.
#[derive(Clone, Debug)]
pub struct Kernel {
    version: Version,
    symbols: Option<Symbols>,
    formats: Formats,
    constants: Option<Constants>,
    /// KASLR offset, if it is known.
    offset: Option<KernelOffset>,
}

/// Symbols of another kernel than the one that wrote a ring buffer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OtherKernel(String);

impl Kernel {
    /// Returns the kernel of a ring buffer, without names.
    pub fn unnamed(buffer: &RingBuffer) -> Self {
        Self {
            version: buffer.version,
            symbols: None,
            formats: Formats::default(),
            constants: None,
            offset: None,
        }
    }

    /// Combines the symbols and formats for a ring buffer. `offset` is the KASLR offset if it is
    /// known; otherwise the ring buffer provides it.
    ///
    /// # Errors
    ///
    /// [`OtherKernel`] if the symbols belong to another build. The ring buffer has the addresses of
    /// a function and an object of its kernel, and both must yield the same offset.
    pub fn new(
        image: &Memory,
        buffer: &RingBuffer,
        symbols: Option<Symbols>,
        formats: Formats,
        offset: Option<u64>,
    ) -> Result<Self, OtherKernel> {
        let mut kernel = Self {
            formats,
            ..Self::unnamed(buffer)
        };
        let Some(symbols) = symbols else {
            return Ok(kernel);
        };
        kernel.offset = match in_ring(buffer, &symbols)? {
            Some(found) => {
                if let Some(offset) = offset.filter(|offset| *offset != found) {
                    return Err(OtherKernel(format!(
                        "--kaslr-offset {offset:#x} is not the ring buffer's, which is {found:#x}"
                    )));
                }
                Some(KernelOffset::InRing(found))
            }
            None => offset
                .map(KernelOffset::Given)
                .or_else(|| kernel.solve(image, buffer, &symbols)),
        };
        let found = kernel.offset.map_or(0, KernelOffset::value);
        let symbols = symbols.with_offset(found);
        kernel.constants = Constants::find(image, &symbols);
        kernel.symbols = Some(symbols);
        Ok(kernel)
    }

    /// Finds the offset with which the traced addresses are functions.
    fn solve(
        &self,
        image: &Memory,
        buffer: &RingBuffer,
        symbols: &Symbols,
    ) -> Option<KernelOffset> {
        const ENOUGH: usize = 1 << 16;
        let mut merge = Merge::new(image, buffer, MergeBy::Linux);
        let mut addresses = Vec::new();
        while let Some(record) = merge.next(image, buffer)
            && addresses.len() < ENOUGH
        {
            match self.entry(&record.payload) {
                Entry::Call { ip, .. } => addresses.push(ip),
                Entry::Enter { function, .. } => addresses.push(function),
                _ => {}
            }
        }
        symbols.solve_offset(addresses).map(KernelOffset::Solved)
    }

    /// Returns a sentence about the kernel's offset, if there is one.
    pub fn note(&self) -> Option<String> {
        self.symbols.as_ref()?;
        match self.offset {
            Some(KernelOffset::Given(_)) => None,
            Some(offset) => Some(offset.to_string()),
            None => Some(
                "the ring buffer does not tell the kernel's offset, so the names may be wrong; \
                 --kaslr-offset sets it"
                    .to_owned(),
            ),
        }
    }

    /// Returns the KASLR offset, if it is known. Without symbols it is not searched for.
    pub const fn offset(&self) -> Option<KernelOffset> {
        self.offset
    }

    /// Returns the event formats.
    pub const fn formats(&self) -> &Formats {
        &self.formats
    }

    /// Returns the name of an event type.
    pub fn event_name(&self, id: u16) -> Option<&str> {
        type_name(self.version, &self.formats, id)
    }

    /// Decodes a record's payload.
    pub fn entry<'p>(&self, payload: &'p [u8]) -> Entry<'p> {
        decode(self.version, &self.formats, payload)
    }

    /// Returns the function that an address is in.
    pub fn function(&self, address: u64) -> Option<Symbol<'_>> {
        self.symbols.as_ref()?.lookup(address)
    }

    /// Returns whether an address is in the kernel's interrupt entry code.
    pub(super) fn is_interrupt(&self, address: u64) -> bool {
        let bounds = self.symbols.as_ref().and_then(|symbols| {
            let start = symbols.linked_address("__irqentry_text_start")?;
            let end = symbols.linked_address("__irqentry_text_end")?;
            Some((start..end).contains(&address.wrapping_sub(symbols.offset())))
        });
        bounds.unwrap_or(false)
    }

    /// Returns whether the next boot of Linux prints an event field by field: a trace event of a
    /// kernel that ran at another address.
    pub(super) fn is_printed_by_fields(&self, id: u16) -> bool {
        self.symbols
            .as_ref()
            .is_some_and(|symbols| symbols.offset() != 0)
            && is_trace_event(self.version, id)
    }
}

impl Names for Kernel {
    fn place(&self, address: u64) -> Option<Place<'_>> {
        let symbol = self.function(address)?;
        Some(Place {
            name: symbol.name,
            module: symbol.module,
            offset: symbol.offset,
            size: symbol.size,
        })
    }

    fn constant(&self, address: u64) -> Option<&[u8]> {
        self.constants.as_ref()?.from(address)
    }
}

/// Returns the KASLR offset in the ring buffer. `None` if the buffer has none, or if the symbols
/// lack both names.
fn in_ring(buffer: &RingBuffer, symbols: &Symbols) -> Result<Option<u64>, OtherKernel> {
    let anchors = buffer.cpus.iter().filter_map(|cpu| cpu.anchors);
    match buffer.version {
        Version::V6_14_9 => {
            let mut offsets = anchors.map(|(offset, _)| offset);
            return Ok(offsets.find(|offset| offset.is_multiple_of(ALIGN)));
        }
        Version::V6_15 | Version::Later => return Ok(None),
        Version::V6_12 => {}
    }
    let text = symbols.linked_address("rb_meta_init_text_addr");
    let data = symbols.linked_address("rb_data_ptr");
    let mut wrong = None;
    for (of_text, of_data) in anchors {
        let of_text = text.map(|linked| of_text.wrapping_sub(linked));
        let of_data = data.map(|linked| of_data.wrapping_sub(linked));
        match (of_text, of_data) {
            (Some(a), Some(b)) if a == b && a.is_multiple_of(ALIGN) => return Ok(Some(a)),
            // /proc/kallsyms may lack objects.
            (Some(one), None) | (None, Some(one)) if one.is_multiple_of(ALIGN) => {
                return Ok(Some(one));
            }
            (None, None) => {}
            offsets => wrong = Some(offsets),
        }
    }
    let Some((text, data)) = wrong else {
        return Ok(None);
    };
    let shown = |name: &str, offset: Option<u64>| {
        offset.map(|offset| match (offset as i64) < 0 {
            true => format!(
                "{name} gives the offset -{:#x}",
                (offset as i64).unsigned_abs()
            ),
            false => format!("{name} gives the offset {offset:#x}"),
        })
    };
    let shown: Vec<_> = [("rb_meta_init_text_addr", text), ("rb_data_ptr", data)]
        .into_iter()
        .filter_map(|(name, offset)| shown(name, offset))
        .collect();
    Err(OtherKernel(format!(
        "the symbols are of another kernel build: {}; a kernel moves as a whole, by a multiple of \
         2 MiB; give the System.map of the kernel that crashed, or none",
        shown.join(", and ")
    )))
}

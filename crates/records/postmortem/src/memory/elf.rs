//! ELF core files: the `PT_LOAD` segments with their physical addresses.

use std::sync::Arc;

use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind};

use super::container::{Container, Facts, MAX_VMCOREINFO};
use super::error::Error;
use super::file::DumpFile;
use super::flattened::Flattened;
use super::format::{DumpFormat, MAX_SEGMENTS};
use super::segments::{FileSegments, Segment};

impl DumpFormat {
    /// An ELF core file: kdump's `vmcore`, QEMU's `dump-guest-memory`.
    pub const ELF_CORE: Self = Self {
        name: "ELF core",
        word: "elf",
    };
}

/// Maximum number of notes that are searched. A core file has a few for each CPU.
const MOST_NOTES: usize = 1 << 16;

/// Opens an ELF core file; `None` if the file is no ELF file.
pub(super) fn open(file: &Arc<DumpFile>) -> Result<Option<Box<dyn Container>>, Error> {
    if file.read(0, elf::ELFMAG.len()).as_deref() != Some(&elf::ELFMAG) {
        return Ok(None);
    }
    let bytes = &*file.head();
    let (segments, vmcoreinfo) = match FileKind::parse(bytes) {
        Ok(FileKind::Elf32) => of::<FileHeader32<Endianness>>(bytes),
        Ok(FileKind::Elf64) => of::<FileHeader64<Endianness>>(bytes),
        _ => Err(damaged("its header is neither 32-bit nor 64-bit ELF")),
    }?;
    let mut facts = Facts {
        vmcoreinfo,
        ..Facts::of(DumpFormat::ELF_CORE)
    };
    let segments = match &file.flattened {
        Some(flattened) => places(flattened, &segments, &mut facts)?,
        None => segments,
    };
    Ok(Some(Box::new(FileSegments::new(file, facts, segments))))
}

/// Returns the parts of segments that a flattened file has, at their offsets in it. Counts the
/// missing bytes.
fn places(
    flattened: &Flattened,
    segments: &[Segment],
    facts: &mut Facts,
) -> Result<Vec<Segment>, Error> {
    let mut parts = Vec::new();
    for segment in segments {
        let start = segment.file_offset;
        let mut missing = segment.len;
        for (offset, place, len) in flattened.places(start..start.saturating_add(segment.len)) {
            // An address beyond 2^64 is no memory.
            let Some(physical) = segment.physical.checked_add(offset - start) else {
                break;
            };
            if parts.len() == MAX_SEGMENTS {
                return Err(Error::TooManySegments {
                    kind: DumpFormat::ELF_CORE,
                });
            }
            missing -= len;
            parts.push(Segment {
                physical,
                file_offset: place,
                len,
            });
        }
        facts.missing = facts.missing.saturating_add(missing);
    }
    Ok(parts)
}

/// Returns the declared segments, and the VMCOREINFO text.
fn of<Elf: FileHeader<Endian = Endianness>>(
    file: &[u8],
) -> Result<(Vec<Segment>, Option<Vec<u8>>), Error> {
    let header = Elf::parse(file).map_err(|_| damaged("its header is cut off"))?;
    let endian = header
        .endian()
        .map_err(|_| damaged("it has no byte order"))?;
    if header.e_type(endian) != elf::ET_CORE {
        return Err(Error::Unsupported {
            format: "an ELF file, but no core file",
            advice: "give the dump here, and a vmlinux where symbols are asked for",
        });
    }
    let headers = header
        .program_headers(endian, file)
        .map_err(|_| damaged("its program headers are not in the file"))?;
    if headers.len() > MAX_SEGMENTS {
        return Err(Error::TooManySegments {
            kind: DumpFormat::ELF_CORE,
        });
    }
    let loads = headers
        .iter()
        .filter(|header| header.p_type(endian) == elf::PT_LOAD);
    let segments: Vec<_> = loads
        .map(|load| Segment {
            physical: load.p_paddr(endian).into(),
            file_offset: load.p_offset(endian).into(),
            len: load.p_filesz(endian).into(),
        })
        // All ones mean "no physical address" (/proc/kcore's vmalloc area).
        .filter(|segment| {
            segment.physical
                != if header.is_type_64() {
                    u64::MAX
                } else {
                    u32::MAX.into()
                }
        })
        .collect();
    if segments.len() > 1 && segments.iter().all(|segment| segment.physical == 0) {
        return Err(Error::Unsupported {
            format: "the core file of a process, which has no physical addresses",
            advice: "give the dump of a machine, or read it as raw memory, by file offset",
        });
    }
    let notes = headers.iter().filter_map(|header| {
        // A damaged note hides the later ones of its segment.
        header.notes(endian, file).ok()?
    });
    let notes = notes.flat_map(|notes| notes.map_while(Result::ok));
    let mut notes = notes.take(MOST_NOTES);
    let note = notes.find(|note| note.name() == b"VMCOREINFO");
    let text = note.map(|note| note.desc()[..note.desc().len().min(MAX_VMCOREINFO)].to_vec());
    Ok((segments, text))
}

fn damaged(problem: &'static str) -> Error {
    Error::Damaged {
        kind: DumpFormat::ELF_CORE,
        problem,
    }
}

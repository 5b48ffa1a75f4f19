//! The symbol table of an ELF file.

use object::elf::{SHF_ALLOC, SHF_EXECINSTR};
use object::{
    Architecture, File, Object, ObjectKind, ObjectSection, ObjectSymbol, SectionFlags, SymbolKind,
    SymbolSection,
};

use super::Error;
use super::table::{MAX_SYMBOLS, Raw, Table};

/// Returns the build ID in an ELF file's note.
pub(super) fn build_id(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(File::parse(bytes).ok()?.build_id().ok()??.to_vec())
}

pub(super) fn table(bytes: &[u8]) -> Result<Table, Error> {
    let file = File::parse(bytes).map_err(|_| Error::Damaged("its ELF headers make no sense"))?;
    if file.kind() == ObjectKind::Relocatable {
        return Err(Error::Relocatable);
    }
    let mut raws: Vec<_> = file
        .symbols()
        .filter_map(|symbol| raw(&file, &symbol))
        .take(MAX_SYMBOLS + 1)
        .collect();
    if raws.len() > MAX_SYMBOLS {
        return Err(Error::TooLarge);
    }
    if raws.is_empty() {
        return Err(Error::Stripped);
    }
    // The order of `nm -n`, on which the choice between names depends.
    raws.sort_by_key(|raw| (raw.address, raw.name));
    let code = file.sections().filter(|section| is_code(section.flags()));
    let code =
        code.map(|section| section.address()..section.address().saturating_add(section.size()));
    Table::new(raws, code.collect())
}

fn raw<'data>(file: &File<'data>, symbol: &object::Symbol<'data, '_>) -> Option<Raw<'data>> {
    if matches!(symbol.kind(), SymbolKind::Section | SymbolKind::File) {
        return None;
    }
    let name = symbol.name().ok().filter(|name| !name.is_empty())?;
    let section = match symbol.section() {
        SymbolSection::Section(index) => file.section_by_index(index).ok(),
        SymbolSection::Absolute => None,
        _ => return None,
    };
    // The letters are those of nm: kallsyms treats a weak object as no weak symbol.
    let kind = match section {
        None => b'A',
        Some(_) if symbol.is_weak() && symbol.kind() == SymbolKind::Data => b'V',
        Some(_) if symbol.is_weak() => b'W',
        Some(section) if is_code(section.flags()) => b'T',
        Some(_) => b'D',
    };
    // Bit 0 of an ARM function's address marks Thumb code.
    let thumb = file.architecture() == Architecture::Arm && symbol.kind() == SymbolKind::Text;
    let address = if thumb {
        symbol.address() & !1
    } else {
        symbol.address()
    };
    Some(Raw {
        address,
        kind,
        name,
        module: None,
    })
}

fn is_code(flags: SectionFlags) -> bool {
    let both = SHF_ALLOC | SHF_EXECINSTR;
    matches!(flags, SectionFlags::Elf { sh_flags, .. } if sh_flags & both == both)
}

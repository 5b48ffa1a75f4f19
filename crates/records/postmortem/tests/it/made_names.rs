//! A writer of a kernel's names and types, and of its list of consoles, for tests.

/// The form of the table of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressForm {
    /// Below a base, or an address: Linux on x86-64 up to 6.14.
    Below,
    /// Above a base.
    Above,
    /// From the place of each on: Linux 7.
    Itself,
}

/// A console in the making: name, number, flags, and the next record that it prints.
pub type MadeConsole = (&'static str, i16, u16, u64);

const TOKEN_TABLE: usize = 0x200;
const COUNT: usize = 0x400;
const BASE: usize = 0x408;
const HEAD: usize = 0x410;
const NAMES: usize = 0x800;
const OFFSETS: usize = 0xa00;
const TYPES: usize = 0x1000;
const CONSOLES: usize = 0x2000;
const CONSOLE: usize = 0x40;

/// Offset of the link to the next console in a console.
pub const LINK: usize = 32;

/// Returns the tables at a virtual address, and their lines for a VMCOREINFO. `is_list` is set for
/// the list of Linux 6.2 and later.
pub fn made_names(
    consoles: &[MadeConsole],
    form: AddressForm,
    is_list: bool,
    at: u64,
) -> (Vec<u8>, Vec<(&'static str, u64)>) {
    let mut bytes = vec![0; CONSOLES + CONSOLE * consoles.len().max(1)];
    let mut put = |at: usize, data: &[u8]| bytes[at..][..data.len()].copy_from_slice(data);
    for token in 0..=255_u8 {
        let place = usize::from(token) * 2;
        put(place, &(place as u16).to_le_bytes());
        put(TOKEN_TABLE + place, &[token.max(1), 0]);
    }
    let types = btf(is_list);
    put(TYPES, &types);
    let head = if is_list {
        "console_list"
    } else {
        "console_drivers"
    };
    let start = at & !0xfffff;
    let symbols = [
        ("T_stext", start),
        ("rlong_name_", start + 0x10),
        ("r__start_BTF", at + TYPES as u64),
        ("r__stop_BTF", at + (TYPES + types.len()) as u64),
        (
            if is_list {
                "bconsole_list"
            } else {
                "bconsole_drivers"
            },
            at + HEAD as u64,
        ),
    ];
    assert_eq!(symbols[4].0[1..], *head);
    put(COUNT, &(symbols.len() as u32).to_le_bytes());
    let base = match form {
        AddressForm::Below => start,
        AddressForm::Above => start - 0x1000,
        AddressForm::Itself => 0,
    };
    put(BASE, &base.to_le_bytes());
    let (mut names, mut offsets) = (Vec::new(), Vec::new());
    for (nth, (name, address)) in symbols.into_iter().enumerate() {
        // One name has a length of two bytes.
        let name = name.replace("long_name_", &"long_name_".repeat(20));
        let len = name.len();
        match len {
            0..128 => names.push(len as u8),
            _ => names.extend([len as u8 | 128, (len >> 7) as u8]),
        }
        names.extend(name.bytes());
        let itself = at + (OFFSETS + 4 * nth) as u64;
        let offset = match form {
            AddressForm::Below => base.wrapping_sub(1).wrapping_sub(address),
            AddressForm::Above => address - base,
            AddressForm::Itself => address.wrapping_sub(itself),
        };
        offsets.extend((offset as u32).to_le_bytes());
    }
    assert!(names.len() <= OFFSETS - NAMES);
    put(NAMES, &names);
    put(OFFSETS, &offsets);
    let place = |nth: usize| at + (CONSOLES + nth * CONSOLE) as u64;
    let link = if is_list { LINK as u64 } else { 0 };
    let first = if consoles.is_empty() {
        0
    } else {
        place(0) + link
    };
    put(HEAD, &first.to_le_bytes());
    for (nth, (name, number, flags, next)) in consoles.iter().enumerate() {
        let here = CONSOLES + nth * CONSOLE;
        put(here, name.as_bytes());
        put(here + 16, &flags.to_le_bytes());
        put(here + 18, &number.to_le_bytes());
        // A console with its own thread has its place elsewhere.
        let atomic = if *flags & 0x100 == 0 { 24 } else { 40 };
        put(here + atomic, &next.to_le_bytes());
        let behind = if nth + 1 < consoles.len() {
            place(nth + 1) + link
        } else {
            0
        };
        put(here + LINK, &behind.to_le_bytes());
    }
    let mut lines = vec![
        ("SYMBOL(_stext)", start),
        ("SYMBOL(kallsyms_token_index)", at),
        ("SYMBOL(kallsyms_token_table)", at + TOKEN_TABLE as u64),
        ("SYMBOL(kallsyms_num_syms)", at + COUNT as u64),
        ("SYMBOL(kallsyms_names)", at + NAMES as u64),
        ("SYMBOL(kallsyms_offsets)", at + OFFSETS as u64),
        ("KERNELOFFSET", 0),
    ];
    if form != AddressForm::Itself {
        lines.push(("SYMBOL(kallsyms_relative_base)", at + BASE as u64));
    }
    (bytes, lines)
}

/// Returns the place of the link of a console in the tables.
pub const fn link(nth: usize) -> usize {
    CONSOLES + nth * CONSOLE + LINK
}

/// Returns types with a structure of a console.
fn btf(is_list: bool) -> Vec<u8> {
    let members = [
        ("name", 0),
        ("flags", 16),
        ("index", 18),
        ("seq", 24),
        (if is_list { "node" } else { "next" }, LINK as u32),
        ("nbcon_seq", 40),
    ];
    let mut strings = b"\0console\0".to_vec();
    let mut types = vec![1, 4 << 24 | members.len() as u32, CONSOLE as u32];
    for (name, offset) in members {
        types.extend([strings.len() as u32, 0, offset * 8]);
        strings.extend(name.bytes());
        strings.push(0);
    }
    let len = types.len() as u32 * 4;
    let words = [24, 0, len, len, strings.len() as u32];
    let words = words.into_iter().chain(types);
    let mut bytes = vec![0x9f, 0xeb, 1, 0];
    bytes.extend(words.flat_map(u32::to_le_bytes));
    bytes.extend(strings);
    bytes
}

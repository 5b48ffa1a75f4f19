//! Progress of a kernel's consoles: the record that each would print next.
//!
//! A list in the kernel has the consoles. kallsyms tells its address, and BTF the members of a
//! console: Linux 6.0 and later, with both.

use crate::address_space::AddressSpace;
use crate::btf::Btf;
use crate::kallsyms::Kallsyms;
use crate::vmcoreinfo::Vmcoreinfo;

/// Maximum number of consoles: a damaged list may have no end.
const MOST: usize = 32;

/// Number of bytes of a console's name.
const NAME: usize = 16;

/// Flag of a console whose position is in `nbcon_seq` (`CON_NBCON` in Linux).
const ATOMIC: u64 = 1 << 8;

/// A console of the kernel that crashed, and its progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleProgress {
    /// Name and number, such as `ttyS0`.
    pub name: String,
    /// Sequence number of the record that it would print next. It has printed all that are below, or
    /// left them out because of their level.
    pub next_sequence: u64,
}

/// Reads the consoles; `None` if they are unknown, or if one is beyond `end`, the number of the
/// next record.
pub(super) fn read(
    space: &AddressSpace<'_>,
    info: &Vmcoreinfo,
    end: u64,
) -> Option<Vec<ConsoleProgress>> {
    const HEADS: [&str; 2] = ["console_list", "console_drivers"];
    const TYPES: [&str; 2] = ["__start_BTF", "__stop_BTF"];
    /// A console's name, flags, index, position and link.
    const LEAST: u64 = 5;
    const MEMBERS: [&str; 7] = ["name", "flags", "index", "seq", "nbcon_seq", "node", "next"];
    let names = Kallsyms::open(space, info)?;
    // The list is in the last section, `.bss`, and the types are in the one before that of `prb`.
    let below = [u64::MAX, info.symbol("prb")?];
    let addresses = names.addresses(&[&HEADS, &[TYPES[0]], &[TYPES[1]]], &below);
    let types = TYPES.map(|name| addresses.get(name));
    let btf = Btf::open(space, *types[0]?, *types[1]?)?;
    let members = btf.members("console", LEAST, &MEMBERS)?;
    let member = |name: &str| members.get(name).copied();
    // From Linux 6.2 on a list's node is in the middle of a console.
    let (head, link, before_link) = match (addresses.get(HEADS[0]), member("node")) {
        (Some(head), Some(node)) => (*head, node, node),
        _ => (*addresses.get(HEADS[1])?, member("next")?, 0),
    };
    let mut consoles = Vec::new();
    let mut at = space.word(head)?;
    while at != 0 {
        let console = at.checked_sub(before_link)?;
        let place = |name: &str| console.checked_add(member(name)?);
        let half = |at: u64| Some(u16::from_le_bytes(*space.read(at, 2)?.first_chunk()?));
        let name = space.read(place("name")?, NAME)?;
        let name: Vec<u8> = name.into_iter().take_while(|byte| *byte != 0).collect();
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
        if name.is_empty() || !name.iter().all(is_name) || consoles.len() == MOST {
            return None;
        }
        let flags = u64::from(half(place("flags")?)?);
        let sequence = match place("nbcon_seq") {
            Some(at) if flags & ATOMIC != 0 => at,
            _ => place("seq")?,
        };
        let next_sequence = space.word(sequence).filter(|next| *next <= end)?;
        let number = half(place("index")?)?.cast_signed();
        let name = String::from_utf8(name).ok()?;
        consoles.push(ConsoleProgress {
            name: match number {
                0.. => format!("{name}{number}"),
                // It has no number.
                _ => name,
            },
            next_sequence,
        });
        at = space.word(console.checked_add(link)?)?;
    }
    // A log without any console is rarer than a damaged list.
    (!consoles.is_empty()).then_some(consoles)
}

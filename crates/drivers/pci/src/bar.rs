//! Base Address Registers: addresses of a function's own registers and memory.

use thiserror::Error;

use crate::registers::{
    BAR_IO, BAR_IO_FLAGS, BAR_MEMORY_FLAGS, BAR_MEMORY_TYPE, BAR_PREFETCHABLE, BASE_ADDRESS,
    BRIDGE_EXPANSION_ROM, COMMAND, COMMAND_IO, COMMAND_MEMORY, EXPANSION_ROM, ROM_ADDRESS,
    ROM_ENABLE,
};
use crate::{AccessError, At, ConfigAccess, Function, Header};

/// A Base Address Register: one register, two that form 64 bits, or that of an expansion ROM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// First register.
    pub register: u16,
    /// Address space and type.
    pub kind: BarKind,
    /// Number of decoded address bits: 16 or 32 for I/O, 20 or 32 for memory. A BAR of two
    /// registers has 64, or as few as 32 if upper bits are hard-wired to 0. Without sizing, I/O
    /// counts as 32 and two registers as 64.
    pub bits: u8,
    /// Address; 0 if unassigned.
    pub address: u64,
    /// Size in bytes, a power of two; `None` if not sized ([`bars_as_set`]).
    pub size: Option<u64>,
}

/// Address space and type of a BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarKind {
    /// I/O space.
    Io,
    /// Memory whose reads may have side effects.
    Memory,
    /// Memory without read side effects, in which writes may be merged.
    Prefetchable,
    /// An expansion ROM. It also needs its own enable bit to decode.
    Rom,
}

impl BarKind {
    /// Returns the bit of Command that enables decoding; none for a ROM, which has an enable bit of
    /// its own.
    pub(crate) const fn command(self) -> u16 {
        match self {
            Self::Io => COMMAND_IO,
            Self::Memory | Self::Prefetchable => COMMAND_MEMORY,
            Self::Rom => 0,
        }
    }
}

/// BARs of a function in the order of their registers, the ROM last, each with its fault if it has
/// one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bars {
    list: [Option<Result<Bar, BarFault>>; MOST],
}

/// Largest number of BARs of a function: six and a ROM.
const MOST: usize = 7;

impl Bars {
    /// Returns each BAR or its fault.
    pub fn iter(&self) -> impl Iterator<Item = Result<Bar, BarFault>> + '_ {
        self.list.iter().flatten().copied()
    }

    /// Returns the BARs without faults.
    pub fn good(&self) -> impl Iterator<Item = Bar> + '_ {
        self.iter().flatten()
    }
}

impl IntoIterator for Bars {
    type Item = Result<Bar, BarFault>;
    type IntoIter = core::iter::Flatten<core::array::IntoIter<Option<Self::Item>, MOST>>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter().flatten()
    }
}

/// Reads the addresses and sizes of the BARs of `function`. It writes ones to them (PCI 3.0,
/// 6.2.5.1), with I/O and memory decoding disabled meanwhile, and then restores everything, even
/// after a failure.
///
/// Takes four accesses for each register (one more if an upper half is all ones), and three to
/// disable and enable decoding. Bus mastering is not changed, because it is independent of
/// decoding.
///
/// No driver may use the function meanwhile, including a console on its display. A bridge does not
/// forward accesses to the devices below it. A host bridge keeps decoding, as in Linux, because on
/// some boards memory or the interrupt controller is behind it.
///
/// # Errors
///
/// [`AccessError`] if an access could not be made; as much as possible was restored.
pub fn bars<A: ConfigAccess>(access: &A, function: &Function) -> Result<Bars, AccessError> {
    let at = access.at(function.address);
    let layout = Layout::of(function);
    let command = match layout {
        Layout { slots: 0, .. } => return Ok(Bars::default()),
        _ if function.is_host_bridge() => None,
        _ => Some(at.read16(COMMAND)?),
    };
    let decoding = COMMAND_IO | COMMAND_MEMORY;
    // All ones: the function is gone, and its BARs will show it.
    let command = command.filter(|on| *on != 0xffff && on & decoding != 0);
    let Some(on) = command else {
        return walk(at, layout, size_word);
    };
    at.write16(COMMAND, on & !decoding)?;
    let sized = walk(at, layout, size_word);
    at.write16(COMMAND, on)?;
    sized
}

/// Reads the BARs of `function` as they are set, without sizes and without writes, for dumps and
/// for devices in use. Takes one access for each register; a 64-bit BAR has two.
///
/// An unassigned BAR seems to be absent, unless its type bits are set.
///
/// # Errors
///
/// [`AccessError`] if an access could not be made.
pub fn bars_as_set<A: ConfigAccess>(access: &A, function: &Function) -> Result<Bars, AccessError> {
    let at = access.at(function.address);
    walk(at, Layout::of(function), |at, register, _| {
        let set = at.read32(register)?;
        Ok(Word { set, mask: None })
    })
}

/// Writes ones to a function's BARs, with decoding disabled, and leaves them there. Then
/// [`bars_left`] can read the sizes.
pub(crate) fn fill<A: ConfigAccess>(at: At<'_, A>, layout: Layout) -> Result<(), AccessError> {
    for register in layout.registers() {
        let ones = if layout.rom == Some(register) {
            ROM_ADDRESS
        } else {
            !0
        };
        at.write32(register, ones)?;
    }
    Ok(())
}

/// Reads the BARs after [`fill`]. Their addresses are meaningless.
pub(crate) fn bars_left<A: ConfigAccess>(
    at: At<'_, A>,
    layout: Layout,
) -> Result<Bars, AccessError> {
    walk(at, layout, |at, register, _| {
        let mask = at.read32(register)?;
        Ok(Word {
            set: mask & BAR_MEMORY_FLAGS, // hard-wired bits
            mask: Some(mask),
        })
    })
}

/// Clears all BARs.
pub(crate) fn clear<A: ConfigAccess>(at: At<'_, A>, layout: Layout) -> Result<(), AccessError> {
    for register in layout.registers() {
        at.write32(register, 0)?;
    }
    Ok(())
}

/// BARs of a header type.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    slots: u8,
    rom: Option<u16>,
}

impl Layout {
    pub(crate) const ENDPOINT: Self = Self {
        slots: 6,
        rom: Some(EXPANSION_ROM),
    };
    pub(crate) const BRIDGE: Self = Self {
        slots: 2,
        rom: Some(BRIDGE_EXPANSION_ROM),
    };

    pub(crate) const fn of(function: &Function) -> Self {
        let (slots, rom) = match function.header {
            Header::Endpoint(_) => return Self::ENDPOINT,
            Header::Bridge(_) => return Self::BRIDGE,
            Header::CardBus { .. } => (1, None),
            Header::Unknown(_) => (0, None),
        };
        Self { slots, rom }
    }

    fn registers(self) -> impl Iterator<Item = u16> {
        let slots = (0..self.slots).map(|slot| BASE_ADDRESS + 4 * u16::from(slot));
        slots.chain(self.rom)
    }
}

/// A register's value, and its value after ones were written.
#[derive(Clone, Copy)]
struct Word {
    set: u32,
    mask: Option<u32>,
}

impl Word {
    /// Corrects a fault: if the mask equals the value, nothing could be written.
    fn judge(self, fault: BarFault) -> BarFault {
        match fault {
            BarFault::NotAPowerOfTwo { register, .. } if self.mask == Some(self.set) => {
                BarFault::DoesNotSize { register }
            }
            other => other,
        }
    }
}

/// Writes `ones`, reads the result, and restores the previous value.
fn size_word<A: ConfigAccess>(
    at: At<'_, A>,
    register: u16,
    ones: u32,
) -> Result<Word, AccessError> {
    let set = at.read32(register)?;
    at.write32(register, ones)?;
    let mask = at.read32(register);
    at.write32(register, set)?;
    Ok(Word {
        set,
        mask: Some(mask?),
    })
}

fn walk<A: ConfigAccess>(
    at: At<'_, A>,
    layout: Layout,
    word: impl Fn(At<'_, A>, u16, u32) -> Result<Word, AccessError>,
) -> Result<Bars, AccessError> {
    let mut bars = Bars::default();
    let mut slot = 0;
    while slot < layout.slots {
        let register = BASE_ADDRESS + 4 * u16::from(slot);
        let place = &mut bars.list[usize::from(slot)];
        let low = word(at, register, !0)?;
        slot += 1;
        *place = match Type::of(low) {
            Type::Absent => None,
            Type::Gone => Some(Err(BarFault::DoesNotSize { register })),
            Type::Reserved => Some(Err(BarFault::ReservedType { register })),
            Type::Io => Some(io(register, low)),
            Type::Memory { bits: 64, .. } if slot == layout.slots => {
                Some(Err(BarFault::NoUpperHalf { register }))
            }
            Type::Memory { kind, bits: 64 } => {
                let high = word(at, register + 4, !0)?;
                slot += 1;
                // All ones may be a valid value. A function that has vanished also reads all ones.
                let gone = high.set == !0 && at.read32(register)? == !0;
                Some(match gone {
                    true => Err(BarFault::DoesNotSize { register }),
                    false => wide(register, kind, low, high),
                })
            }
            Type::Memory { kind, bits } => Some(narrow(register, kind, bits, low)),
        };
    }
    if let Some(register) = layout.rom {
        let found = word(at, register, ROM_ADDRESS)?;
        bars.list[MOST - 1] = rom(register, found);
    }
    Ok(bars)
}

/// Type bits of a BAR.
enum Type {
    Absent,
    Gone,
    Reserved,
    Io,
    Memory { kind: BarKind, bits: u8 },
}

impl Type {
    fn of(word: Word) -> Self {
        let Word { set, mask } = word;
        if set == 0 && mask.is_none_or(|mask| mask == 0) {
            return Self::Absent;
        }
        // These bits are hard-wired. If they change, another device answered, or none.
        let flags = if set & BAR_IO != 0 {
            BAR_IO_FLAGS
        } else {
            BAR_MEMORY_FLAGS
        };
        let changed = mask.is_some_and(|mask| (mask ^ set) & flags != 0);
        if set == !0 || mask == Some(!0) || changed {
            return Self::Gone;
        }
        if set & BAR_IO != 0 {
            return Self::Io;
        }
        let bits = match set & BAR_MEMORY_TYPE {
            0x0 => 32,
            0x2 => 20, // before PCI 3.0: below 1 MiB
            0x4 => 64,
            _ => return Self::Reserved,
        };
        let kind = if set & BAR_PREFETCHABLE != 0 {
            BarKind::Prefetchable
        } else {
            BarKind::Memory
        };
        Self::Memory { kind, bits }
    }
}

fn io(register: u16, word: Word) -> Result<Bar, BarFault> {
    let mut bar = Bar {
        register,
        kind: BarKind::Io,
        bits: 32,
        address: (word.set & !BAR_IO_FLAGS).into(),
        size: None,
    };
    if let Some(mask) = word.mask {
        let mut mask = mask & !BAR_IO_FLAGS;
        // A PC has only 16 bits, so a device may omit the others (PCI 3.0, 6.2.5.1).
        if mask != 0 && mask >> 16 == 0 {
            bar.bits = 16;
            mask |= 0xffff_0000;
        }
        bar.size = Some(size32(register, mask).map_err(|fault| word.judge(fault))?);
    }
    Ok(bar)
}

/// Decodes a memory BAR of one register.
fn narrow(register: u16, kind: BarKind, bits: u8, word: Word) -> Result<Bar, BarFault> {
    // Below 1 MiB, the upper bits are hard-wired to 0.
    let beyond = if bits == 20 { 0xfff0_0000 } else { 0 };
    let size = word
        .mask
        .map(|mask| size32(register, mask & !BAR_MEMORY_FLAGS | beyond))
        .transpose()
        .map_err(|fault| word.judge(fault))?;
    Ok(Bar {
        register,
        kind,
        bits,
        address: (word.set & !BAR_MEMORY_FLAGS).into(),
        size,
    })
}

/// Decodes a memory BAR of two registers.
fn wide(register: u16, kind: BarKind, low: Word, high: Word) -> Result<Bar, BarFault> {
    let join = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low & !BAR_MEMORY_FLAGS);
    let mut bar = Bar {
        register,
        kind,
        bits: 64,
        address: join(low.set, high.set),
        size: None,
    };
    if let (Some(low_mask), Some(high_mask)) = (low.mask, high.mask) {
        let mask = join(low_mask, high_mask);
        // A device may decode fewer bits, but at least those of the lower register.
        let wired = high_mask.leading_zeros();
        let upper = !(u64::MAX >> wired);
        let upper = if mask == 0 { 0 } else { upper };
        bar.size = Some(size(register, mask | upper).map_err(|fault| match fault {
            BarFault::NotAPowerOfTwo { register, .. } => {
                low.judge(BarFault::NotAPowerOfTwo { register, mask })
            }
            other => other,
        })?);
        bar.bits -= wired as u8;
    }
    Ok(bar)
}

fn rom(register: u16, word: Word) -> Option<Result<Bar, BarFault>> {
    let mask = word.mask.map(|mask| (mask, mask & ROM_ADDRESS));
    let size = match mask {
        None if word.set & ROM_ADDRESS == 0 => return None,
        None if word.set == !0 => return Some(Err(BarFault::DoesNotSize { register })),
        None => None,
        // The enable bit was not written.
        Some((mask, _)) if mask & ROM_ENABLE != 0 => {
            return Some(Err(BarFault::DoesNotSize { register }));
        }
        Some((_, 0)) if word.set & ROM_ADDRESS == 0 => return None,
        Some((_, mask)) => match size32(register, mask) {
            Ok(size) => Some(size),
            Err(fault) => return Some(Err(word.judge(fault))),
        },
    };
    Some(Ok(Bar {
        register,
        kind: BarKind::Rom,
        bits: 32,
        address: (word.set & ROM_ADDRESS).into(),
        size,
    }))
}

/// Returns the size from `mask`, whose set bits are the writable address bits.
fn size(register: u16, mask: u64) -> Result<u64, BarFault> {
    let size = mask & mask.wrapping_neg();
    if mask == 0 {
        Err(BarFault::DoesNotSize { register })
    } else if mask != size.wrapping_neg() {
        Err(BarFault::NotAPowerOfTwo { register, mask })
    } else {
        Ok(size)
    }
}

/// Does the same for a mask without an upper half.
fn size32(register: u16, mask: u32) -> Result<u64, BarFault> {
    match mask {
        0 => Err(BarFault::DoesNotSize { register }),
        _ => size(register, u64::from(mask) | 0xffff_ffff_0000_0000),
    }
}

/// Fault of a BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BarFault {
    /// The BAR is hard-wired or changes its type, or the function was removed.
    #[error("BAR at {register:#x} does not take an address")]
    DoesNotSize {
        /// Register of the BAR.
        register: u16,
    },
    /// The writable address bits have gaps.
    #[error("BAR at {register:#x} keeps the address bits {mask:#x}, which make no size")]
    NotAPowerOfTwo {
        /// Register of the BAR.
        register: u16,
        /// Writable address bits.
        mask: u64,
    },
    /// A 64-bit BAR starts in the last register.
    #[error("BAR at {register:#x} has 64 bits, but no register is left for the upper half")]
    NoUpperHalf {
        /// Register of the BAR.
        register: u16,
    },
    /// The type is not defined by any specification.
    #[error("BAR at {register:#x} is of a reserved type")]
    ReservedType {
        /// Register of the BAR.
        register: u16,
    },
}

impl BarFault {
    /// Returns the BAR's register.
    pub const fn register(self) -> u16 {
        match self {
            Self::DoesNotSize { register }
            | Self::NotAPowerOfTwo { register, .. }
            | Self::NoUpperHalf { register }
            | Self::ReservedType { register } => register,
        }
    }

    /// Returns the bits of Command that may make it answer.
    pub(crate) const fn command(self) -> u16 {
        match self.register() {
            EXPANSION_ROM | BRIDGE_EXPANSION_ROM => 0,
            _ => COMMAND_IO | COMMAND_MEMORY,
        }
    }
}

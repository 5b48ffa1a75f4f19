//! Entry of a BAR in the scratch memory of the assignment.

use crate::registers::{COMMAND_IO, COMMAND_MEMORY};
use crate::{Address, Bar, BarFault, BarKind};

/// Space index of a BAR that gets no place.
pub(super) const NOWHERE: u8 = 3;

/// Entry of [`assign`](super::assign())'s scratch memory: one BAR, 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct BarSlot {
    /// Address, or 0. Relative to the bus's window while windows are measured.
    pub(super) place: u64,
    pub(super) bus: u8,
    pub(super) devfn: u8,
    pub(super) register: u8,
    pub(super) kind: BarKind,
    /// Number of address bits that it decodes; 0 if it cannot have a place.
    pub(super) bits: u8,
    /// Size and alignment, as a power of two.
    pub(super) align: u8,
    /// Index of its address space, or [`NOWHERE`].
    pub(super) space: u8,
}

impl BarSlot {
    /// An unused slot.
    pub const EMPTY: Self = Self {
        place: 0,
        bus: 0,
        devfn: 0,
        register: 0,
        kind: BarKind::Memory,
        bits: 0,
        align: 0,
        space: NOWHERE,
    };

    /// Creates a slot for a BAR; `None` if it needs none because it never answers.
    pub(super) fn of(address: Address, bar: Result<Bar, BarFault>) -> Option<Self> {
        let empty = Self {
            bus: address.bus(),
            devfn: address.devfn(),
            ..Self::EMPTY
        };
        match bar {
            Err(fault) => (fault.command() != 0).then_some(empty),
            Ok(bar) => Some(Self {
                register: bar.register as u8,
                kind: bar.kind,
                bits: bar.bits,
                align: bar.size?.checked_ilog2()? as u8,
                ..empty
            }),
        }
    }

    pub(super) fn bar(&self) -> Bar {
        Bar {
            register: self.register.into(),
            kind: self.kind,
            bits: self.bits,
            address: 0,
            size: Some(self.size()),
        }
    }

    pub(super) const fn size(&self) -> u64 {
        1 << self.align
    }

    /// Returns the first address beyond those that the BAR decodes.
    pub(super) fn before(&self) -> u64 {
        1u64.checked_shl(self.bits.into()).unwrap_or(u64::MAX)
    }

    pub(super) fn is_for(&self, space: usize) -> bool {
        usize::from(self.space) == space
    }

    /// Returns the bits of Command that make the BAR answer, or may do so.
    pub(super) const fn command(&self) -> u16 {
        match self.bits {
            0 => COMMAND_IO | COMMAND_MEMORY,
            _ => self.kind.command(),
        }
    }
}

//! A BAR's entry in the scratch memory of the assignment.

use crate::registers::{COMMAND_IO, COMMAND_MEMORY};
use crate::{Address, Bar, BarFault, BarKind};

/// The space of a BAR that gets no place.
pub(super) const NOWHERE: u8 = 3;

/// Memory that [`assign`](super::assign()) notes one BAR in: 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct BarSlot {
    /// Address, or 0; relative to the bus's window while windows are measured.
    pub(super) place: u64,
    pub(super) bus: u8,
    pub(super) devfn: u8,
    pub(super) register: u8,
    pub(super) kind: BarKind,
    /// Address bits that it decodes; 0 for one that cannot have a place.
    pub(super) bits: u8,
    /// Size and alignment, as a power of two.
    pub(super) align: u8,
    /// The space that it is to go to, or [`NOWHERE`].
    pub(super) space: u8,
}

impl BarSlot {
    /// A slot that holds nothing.
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

    /// Returns a slot for a BAR; `None` for one that needs none, since it cannot answer.
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

    /// Returns the latest end.
    pub(super) fn before(&self) -> u64 {
        1u64.checked_shl(self.bits.into()).unwrap_or(u64::MAX)
    }

    pub(super) fn is_for(&self, space: usize) -> bool {
        usize::from(self.space) == space
    }

    /// The bits of Command that make it answer, or could.
    pub(super) const fn command(&self) -> u16 {
        match self.bits {
            0 => COMMAND_IO | COMMAND_MEMORY,
            _ => self.kind.command(),
        }
    }
}

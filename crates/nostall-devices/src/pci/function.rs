//! One function's configuration space.

use std::fmt;
use std::ops::Range;

use super::express::PortType;
use super::registers::{
    BRIDGE_CONTROL, CLASS, DEVICE, EXTENDED, HEADER_TYPE, SECONDARY_BUS, SIZE, SUBCLASS,
    SUBORDINATE_BUS, VENDOR, bridge_control, express, header_type,
};

pub(super) type Image = Box<[u8; SIZE]>;

/// A function: its 4 KiB of configuration space, and what a guest may change in
/// it. Made by [`Function::endpoint`] or [`Function::bridge`].
pub struct Function {
    pub(super) bytes: Image,
    /// What a reset makes of `bytes`.
    pub(super) after_reset: Image,
    /// Bits that a guest's write changes.
    pub(super) writable: Image,
    /// Bits that a guest clears by writing 1.
    pub(super) clears: Image,
    pub(super) header: Header,
    pub(super) port: Option<PortType>,
    /// Where the capabilities are that the tree looks at.
    pub(super) express: Option<usize>,
    pub(super) ari: Option<usize>,
    pub(super) volatile: Option<(Range<usize>, Box<dyn Volatile>)>,
}

/// The device behind registers that memory cannot stand for: a read of them has
/// an effect, or they change without a write.
pub trait Volatile: fmt::Debug + Send {
    /// The guest reads `data.len()` bytes at `register`. `data` holds what is
    /// stored there; the device replaces what is its own.
    fn read(&mut self, register: u16, data: &mut [u8]);

    /// The guest wrote `data`. What the masks let through is stored already.
    fn write(&mut self, register: u16, data: &[u8]);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    Endpoint,
    Bridge,
}

/// What a bridge's registers say of where accesses go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Routing {
    pub(super) secondary: u8,
    pub(super) subordinate: u8,
    /// Whether everything behind it is held in reset.
    pub(super) resets: bool,
    pub(super) below: Below,
}

/// Which devices a bus has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Below {
    /// All 32, with 4 KiB each.
    Internal,
    /// All 32, with 256 bytes each.
    Conventional,
    /// Device 0 alone: a link has two ends (PCI Express Base 4.0, 7.3.1).
    Link,
    /// One device with functions up to 255.
    LinkWithAri,
}

impl Below {
    pub(super) const fn has(self, devfn: u8) -> bool {
        match self {
            Self::Link => devfn < 8,
            _ => true,
        }
    }

    pub(super) const fn is_link(self) -> bool {
        matches!(self, Self::Link | Self::LinkWithAri)
    }
}

impl Function {
    /// A guest's read; `data` lies in the space, whole and aligned.
    pub(super) fn read(&mut self, register: usize, data: &mut [u8]) {
        data.copy_from_slice(&self.bytes[register..register + data.len()]);
        if let Some(device) = self.device(register, data.len()) {
            device.read(register as u16, data);
        }
    }

    /// A guest's write, likewise.
    pub(super) fn write(&mut self, register: usize, data: &[u8]) {
        for (at, &new) in (register..).zip(data) {
            let kept = self.bytes[at] & !self.writable[at];
            self.bytes[at] = (kept | new & self.writable[at]) & !(new & self.clears[at]);
        }
        if let Some(device) = self.device(register, data.len()) {
            device.write(register as u16, data);
        }
    }

    /// The device's own write: of any bits, at any register. What lies outside of
    /// the space (256 bytes, without the PCI Express capability) is left out.
    pub fn store(&mut self, register: u16, bytes: &[u8]) {
        let size = self.size();
        for (at, &new) in (usize::from(register)..size).zip(bytes) {
            self.bytes[at] = new;
        }
    }

    /// What is stored at `register`, as far as `N` bytes lie in the space; all
    /// ones beyond it. No volatile register's device is asked.
    pub fn stored<const N: usize>(&self, register: u16) -> [u8; N] {
        let mut bytes = [0xff; N];
        let from = self.bytes.iter().skip(usize::from(register));
        bytes
            .iter_mut()
            .zip(from)
            .for_each(|(to, &from)| *to = from);
        bytes
    }

    /// Puts every register to what it was when the function was built: what was
    /// stored since is gone too. What the device of volatile registers holds is its
    /// own business.
    pub fn reset(&mut self) {
        self.bytes.copy_from_slice(&*self.after_reset);
    }

    /// Vendor and device.
    pub fn ids(&self) -> (u16, u16) {
        (self.word(VENDOR), self.word(DEVICE))
    }

    /// Whether it is a bridge to another bus.
    pub fn is_bridge(&self) -> bool {
        self.header == Header::Bridge
    }

    /// Bytes of space: what is beyond reads all ones.
    pub(super) fn size(&self) -> usize {
        match self.express {
            Some(_) => SIZE,
            None => EXTENDED,
        }
    }

    /// Who answers for some of these registers beside what is stored.
    fn device(&mut self, register: usize, length: usize) -> Option<&mut dyn Volatile> {
        let (range, device) = self.volatile.as_mut()?;
        let touched = range.start < register + length && register < range.end;
        touched.then_some(&mut **device)
    }

    /// Whether memory cannot stand for the first `size` bytes.
    pub(super) fn is_volatile_below(&self, size: usize) -> bool {
        self.volatile
            .as_ref()
            .is_some_and(|(range, _)| range.start < size)
    }

    /// How it routes; `None` if it is no bridge.
    pub(super) fn routing(&self) -> Option<Routing> {
        self.is_bridge().then(|| Routing {
            secondary: self.bytes[SECONDARY_BUS],
            subordinate: self.bytes[SUBORDINATE_BUS],
            resets: self.word(BRIDGE_CONTROL) & bridge_control::SECONDARY_RESET != 0,
            below: self.below(),
        })
    }

    fn below(&self) -> Below {
        match self.port {
            None | Some(PortType::ToConventional) => Below::Conventional,
            Some(port) if !port.has_link_below() => Below::Internal,
            Some(_) if self.forwards_ari() => Below::LinkWithAri,
            Some(_) => Below::Link,
        }
    }

    fn forwards_ari(&self) -> bool {
        let control = |at| self.word(at + express::DEVICE_CONTROL_2);
        self.express
            .is_some_and(|at| control(at) & express::ARI_FORWARDING != 0)
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    /// What the tree knows: whether its device has several functions, and which
    /// comes next. Resets do not change it.
    pub(super) fn set_siblings(&mut self, multi_function: bool, next: u8) {
        let bit = header_type::MULTI_FUNCTION;
        for image in [&mut self.bytes, &mut self.after_reset] {
            image[HEADER_TYPE] &= !bit;
            if multi_function {
                image[HEADER_TYPE] |= bit;
            }
            if let Some(at) = self.ari {
                // ARI capability register, next function number.
                image[at + 5] = next;
            }
        }
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (vendor, device) = self.ids();
        let class = [self.bytes[CLASS], self.bytes[SUBCLASS]];
        f.debug_struct("Function")
            .field("ids", &format_args!("{vendor:04x}:{device:04x}"))
            .field("class", &format_args!("{:02x}{:02x}", class[0], class[1]))
            .field("port", &self.port)
            .field("routing", &self.routing())
            .finish_non_exhaustive()
    }
}

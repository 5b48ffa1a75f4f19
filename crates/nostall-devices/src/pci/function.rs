//! One function's configuration space.

use std::ops::Range;
use std::{fmt, iter};

use thiserror::Error;

use super::bar::Bar;
use super::express::PortType;
use super::registers::{
    BARS, BRIDGE_CONTROL, CAPABILITIES, CLASS, COMMAND, DEVICE, EXTENDED, HEADER_TYPE,
    SECONDARY_BUS, SIZE, SUBCLASS, SUBORDINATE_BUS, VENDOR, bridge_control, command, express,
    header_type,
};

pub(super) type Image = Box<[u8; SIZE]>;

/// A function: its 4 KiB of configuration space, and the bits of it that a guest may change. Made
/// by [`Function::endpoint`] or [`Function::bridge`].
pub struct Function {
    pub(super) bytes: Image,
    /// Value of `bytes` after a reset.
    pub(super) after_reset: Image,
    /// Bits that a guest's write changes.
    pub(super) writable: Image,
    /// Bits that a guest clears by writing 1.
    pub(super) clears: Image,
    pub(super) header: Header,
    pub(super) port: Option<PortType>,
    /// Offsets of the capabilities that the tree reads.
    pub(super) express: Option<usize>,
    pub(super) ari: Option<usize>,
    pub(super) bars: Vec<(usize, Bar)>,
    /// Apart from each other.
    pub(super) volatile: Vec<(Range<usize>, Box<dyn Volatile>)>,
}

/// Where a BAR is, as the guest has set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarPlace {
    /// The BAR that the function was built with.
    pub bar: Bar,
    /// The first address. While a guest asks for the size, all ones above that.
    pub address: u64,
    /// Whether the function answers there. Bridges above it may not pass accesses on.
    pub decoding: Decoding,
}

/// Whether a function answers at the addresses of its BARs (Command register, bits 0 and 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoding {
    /// It does not; its BARs may hold anything.
    Off,
    /// It does.
    On,
}

/// The device behind registers that memory cannot stand for: a read of them has
/// an effect, or they change without a write.
pub trait Volatile: fmt::Debug + Send {
    /// The guest reads `data.len()` bytes at `register`. `data` holds the stored bytes; the device
    /// replaces its own bytes.
    fn read(&mut self, register: u16, data: &mut [u8]);

    /// The guest wrote `data`. The bits that the masks let through are stored already.
    fn write(&mut self, register: u16, data: &[u8]);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    Endpoint,
    Bridge,
}

/// Routing registers of a bridge.
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
        for device in self.devices(register, data.len()) {
            device.read(register as u16, data);
        }
    }

    /// A guest's write, likewise.
    pub(super) fn write(&mut self, register: usize, data: &[u8]) {
        for (at, &new) in (register..).zip(data) {
            let kept = self.bytes[at] & !self.writable[at];
            self.bytes[at] = (kept | new & self.writable[at]) & !(new & self.clears[at]);
        }
        for device in self.devices(register, data.len()) {
            device.write(register as u16, data);
        }
    }

    /// The device's own write: of any bits, at any register. Bytes outside of the space (256 bytes,
    /// without the PCI Express capability) are left out.
    pub fn store(&mut self, register: u16, bytes: &[u8]) {
        let size = self.size();
        for (at, &new) in (usize::from(register)..size).zip(bytes) {
            self.bytes[at] = new;
        }
    }

    /// Returns the bytes stored at `register`, as far as `N` bytes lie in the space; all ones
    /// beyond it. No volatile register's device is asked.
    pub fn stored<const N: usize>(&self, register: u16) -> [u8; N] {
        let mut bytes = [0xff; N];
        let from = self.bytes.iter().skip(usize::from(register));
        bytes
            .iter_mut()
            .zip(from)
            .for_each(|(to, &from)| *to = from);
        bytes
    }

    /// Resets every register to its value when the function was built: stored values are gone too.
    /// The device of volatile registers keeps its own values.
    pub fn reset(&mut self) {
        self.bytes.copy_from_slice(&*self.after_reset);
    }

    /// Vendor and device.
    pub fn ids(&self) -> (u16, u16) {
        (self.word(VENDOR), self.word(DEVICE))
    }

    /// Returns where BAR `number` is, and whether it is decoded; `None` if the function was built
    /// without it.
    pub fn bar(&self, number: usize) -> Option<BarPlace> {
        let (_, bar) = *self.bars.iter().find(|(at, _)| *at == number)?;
        let register = (BARS + number * 4) as u16;
        let value = match bar.registers() {
            2 => u64::from_le_bytes(self.stored(register)),
            _ => u32::from_le_bytes(self.stored(register)).into(),
        };
        let enable = match bar {
            Bar::Io(_) => command::IO,
            Bar::Memory32(..) | Bar::Memory64(..) => command::MEMORY,
        };
        Some(BarPlace {
            bar,
            address: value & bar.address_bits(),
            decoding: match self.word(COMMAND) & enable {
                0 => Decoding::Off,
                _ => Decoding::On,
            },
        })
    }

    /// Returns the ID and the first register of each capability, in the order of the list: PCI
    /// Express first, or a bridge's subsystem, and then as they were given to the builder.
    pub fn capabilities(&self) -> impl Iterator<Item = (u8, u16)> {
        let image = &self.after_reset;
        let follow = |pointer: usize| Some(image[pointer]).filter(|at| *at != 0);
        let list = iter::successors(follow(CAPABILITIES), move |at| follow(usize::from(*at) + 1));
        list.map(|at| (image[usize::from(at)], at.into()))
    }

    /// Returns the same of extended capabilities.
    pub fn extended_capabilities(&self) -> impl Iterator<Item = (u16, u16)> {
        let header = |at: u16| {
            let bytes = self.after_reset[usize::from(at)..].first_chunk();
            bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
        };
        let has_any = self.express.is_some() && header(EXTENDED as u16) != 0;
        let first = has_any.then_some(EXTENDED as u16);
        let list = iter::successors(first, move |at| {
            Some((header(*at) >> 20) as u16).filter(|next| *next != 0)
        });
        list.map(move |at| (header(at) as u16, at))
    }

    /// Adds registers that no memory can stand for, as
    /// [`FunctionBuilder::volatile`](super::FunctionBuilder::volatile) does: for those of a
    /// capability, whose place is known once the function is built.
    ///
    /// # Errors
    ///
    /// [`BuildError::Volatile`].
    pub fn with_volatile(
        mut self,
        registers: Range<u16>,
        device: impl Volatile + 'static,
    ) -> Result<Self, BuildError> {
        let range = usize::from(registers.start)..usize::from(registers.end);
        self.add_volatile(range, Box::new(device))?;
        Ok(self)
    }

    pub(super) fn add_volatile(
        &mut self,
        range: Range<usize>,
        device: Box<dyn Volatile>,
    ) -> Result<(), BuildError> {
        let others = &mut self.volatile.iter();
        let apart = others.all(|(other, _)| range.end <= other.start || other.end <= range.start);
        if range.is_empty() || range.end > self.size() || !apart {
            return Err(BuildError::Volatile);
        }
        self.volatile.push((range, device));
        Ok(())
    }

    /// Whether it is a bridge to another bus.
    pub fn is_bridge(&self) -> bool {
        self.header == Header::Bridge
    }

    /// Returns the size of the space in bytes. Registers beyond it read all ones.
    pub(super) fn size(&self) -> usize {
        match self.express {
            Some(_) => SIZE,
            None => EXTENDED,
        }
    }

    /// Devices that answer for some of these registers beside the stored bytes.
    fn devices(
        &mut self,
        register: usize,
        length: usize,
    ) -> impl Iterator<Item = &mut Box<dyn Volatile>> {
        let touched =
            move |range: &Range<usize>| range.start < register + length && register < range.end;
        let volatile = self.volatile.iter_mut();
        volatile.filter_map(move |(range, device)| touched(range).then_some(device))
    }

    /// Whether memory cannot stand for the first `size` bytes.
    pub(super) fn is_volatile_below(&self, size: usize) -> bool {
        self.volatile.iter().any(|(range, _)| range.start < size)
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

    /// Stores the function's neighbours: whether its device has several functions, and which comes
    /// next. Resets do not change it.
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

/// Why a function cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// This vendor reads as no function (0x0000, 0xffff) or as one that is not ready (0x0001):
    /// give the number of a real vendor.
    #[error(
        "vendor {0:#06x}: a driver takes the function for absent or not ready; give another number"
    )]
    Vendor(u16),
    /// A BAR's or a ROM's size is none: give a power of two, large enough.
    #[error(
        "a size is none that can be decoded: give a power of two (I/O 4 to 256, memory from 16 on, \
         ROM 2 KiB to 16 MiB)"
    )]
    Size,
    /// A BAR is where no register is for it, or where another one is.
    #[error("BAR {0}: no register is free for it")]
    BarNumber(usize),
    /// Its capabilities do not fit: leave some out.
    #[error("the capabilities do not fit: leave some out")]
    NoRoom,
    /// Extended capabilities need [`express`](super::FunctionBuilder::express).
    #[error("extended capabilities need the PCI Express one: call express()")]
    NotExpress,
    /// This kind of port needs the other header: see [`Function::endpoint`] and
    /// [`Function::bridge`].
    #[error("{0:?} needs the other kind of header")]
    Header(PortType),
    /// A volatile range is empty, overlaps another, or leaves the space (256 bytes, without the
    /// PCI Express capability).
    #[error("volatile registers: give ranges inside the space that are apart")]
    Volatile,
}

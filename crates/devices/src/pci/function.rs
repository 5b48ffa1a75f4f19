//! Configuration space of one function.

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

/// A function: its 4 KiB of configuration space, and the bits that a guest may change. Created with
/// [`Function::endpoint`] or [`Function::bridge`].
pub struct Function {
    pub(super) bytes: Image,
    /// Value of `bytes` after a reset.
    pub(super) after_reset: Image,
    /// Bits that a guest can write.
    pub(super) writable: Image,
    /// Bits that a guest clears by writing 1.
    pub(super) clears: Image,
    pub(super) header: Header,
    pub(super) port: Option<PortType>,
    /// Offsets of the capabilities that the tree reads.
    pub(super) express: Option<usize>,
    pub(super) ari: Option<usize>,
    pub(super) bars: Vec<(usize, Bar)>,
    /// Ranges that trap, with their devices; the ranges do not overlap.
    pub(super) volatile: Vec<(Range<usize>, Box<dyn Volatile>)>,
}

/// Address of a BAR, as set by the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarPlace {
    /// BAR as the function was built.
    pub bar: Bar,
    /// First address. While a guest sizes the BAR, the address bits are all ones.
    pub address: u64,
    /// Whether the function decodes the address. Bridges above it may still not forward accesses.
    pub decoding: Decoding,
}

/// Whether a function decodes the addresses of its BARs (command register, bits 0 and 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoding {
    /// The function does not respond, whatever its BARs contain.
    Off,
    /// The function responds.
    On,
}

/// Device behind registers that plain memory cannot represent, because a read has side effects or
/// the value changes without a write.
pub trait Volatile: fmt::Debug + Send {
    /// Handles a guest's read of `data.len()` bytes at `register`. `data` holds the stored bytes;
    /// the device replaces its own.
    fn read(&mut self, register: u16, data: &mut [u8]);

    /// Handles a guest's write of `data`. The writable bits are already stored.
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
    /// Whether the bridge holds its secondary bus in reset.
    pub(super) resets: bool,
    pub(super) below: Below,
}

/// Addressing on a bridge's secondary bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Below {
    /// 32 devices, with 4 KiB of registers per function.
    Internal,
    /// 32 devices, with 256 bytes of registers per function.
    Conventional,
    /// Device 0 only: a link has two ends (PCI Express Base 4.0, 7.3.1).
    Link,
    /// One device with up to 256 functions.
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

/// Registers of a [`Mirror`](super::Mirror) that trap: the VMM's own model answers.
#[derive(Debug)]
struct Elsewhere;

impl Volatile for Elsewhere {
    fn read(&mut self, _: u16, _: &mut [u8]) {}
    fn write(&mut self, _: u16, _: &[u8]) {}
}

/// No capability is there: the place of a mirrored function's PCI Express capability. With one, the
/// space has all 4 KiB.
const MIRRORED: Option<usize> = Some(0);

impl Function {
    /// Creates a function that shows a VMM's registers and then zeros, or traps. It is an endpoint,
    /// whatever its registers say.
    pub(super) fn mirror(registers: &[u8], traps: bool) -> Self {
        let mut bytes = Box::new([0; SIZE]);
        for (to, from) in bytes.iter_mut().zip(registers) {
            *to = *from;
        }
        let trapping = traps.then(|| (0..SIZE, Box::new(Elsewhere) as Box<dyn Volatile>));
        Self {
            after_reset: bytes.clone(),
            bytes,
            writable: Box::new([0; SIZE]),
            clears: Box::new([0; SIZE]),
            header: Header::Endpoint,
            port: None,
            express: MIRRORED,
            ari: None,
            bars: Vec::new(),
            volatile: trapping.into_iter().collect(),
        }
    }

    /// Handles a guest's read; `data` is aligned and lies inside the space.
    pub(super) fn read(&mut self, register: usize, data: &mut [u8]) {
        data.copy_from_slice(&self.bytes[register..register + data.len()]);
        for device in self.devices(register, data.len()) {
            device.read(register as u16, data);
        }
    }

    /// Handles a guest's write; `data` is aligned and lies inside the space.
    pub(super) fn write(&mut self, register: usize, data: &[u8]) {
        for (at, &new) in (register..).zip(data) {
            let kept = self.bytes[at] & !self.writable[at];
            self.bytes[at] = (kept | new & self.writable[at]) & !(new & self.clears[at]);
        }
        for device in self.devices(register, data.len()) {
            device.write(register as u16, data);
        }
    }

    /// Stores bytes on behalf of the device: any bits, at any register. Bytes outside the space
    /// (256 bytes without the PCI Express capability) are ignored.
    pub fn store(&mut self, register: u16, bytes: &[u8]) {
        let size = self.size();
        for (at, &new) in (usize::from(register)..size).zip(bytes) {
            self.bytes[at] = new;
        }
    }

    /// Returns the bytes stored at `register`; all ones for bytes outside the space. It does not
    /// call the device of volatile registers.
    pub fn stored<const N: usize>(&self, register: u16) -> [u8; N] {
        let mut bytes = [0xff; N];
        let from = self.bytes.iter().skip(usize::from(register));
        bytes
            .iter_mut()
            .zip(from)
            .for_each(|(to, &from)| *to = from);
        bytes
    }

    /// Restores every register to its value when the function was built; values from
    /// [`store`](Self::store) are lost. The device of volatile registers keeps its own state.
    pub fn reset(&mut self) {
        self.bytes.copy_from_slice(&*self.after_reset);
    }

    /// Returns the vendor and device ID.
    pub fn ids(&self) -> (u16, u16) {
        (self.word(VENDOR), self.word(DEVICE))
    }

    /// Returns the address of BAR `number`, and whether it is decoded; `None` if the function has
    /// no such BAR.
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

    /// Returns the ID and first register of each capability, in list order. PCI Express or a
    /// bridge's subsystem is first; the others have the builder's order.
    pub fn capabilities(&self) -> impl Iterator<Item = (u8, u16)> {
        let image = &self.after_reset;
        let follow = |pointer: usize| Some(image[pointer]).filter(|at| *at != 0);
        let list = iter::successors(follow(CAPABILITIES), move |at| follow(usize::from(*at) + 1));
        list.map(|at| (image[usize::from(at)], at.into()))
    }

    /// Returns the ID and first register of each extended capability, in list order.
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

    /// Adds registers that trap, as [`FunctionBuilder::volatile`](super::FunctionBuilder::volatile)
    /// does. Use it for registers of a capability: their offset is known only after the build.
    ///
    /// # Errors
    ///
    /// [`BuildError::Volatile`] for a range that is empty, overlaps another or leaves the space.
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

    /// Returns whether it is a bridge to another bus.
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

    /// Returns the devices whose ranges overlap these registers.
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

    /// Returns whether any of the first `size` bytes is volatile.
    pub(super) fn is_volatile_below(&self, size: usize) -> bool {
        self.volatile.iter().any(|(range, _)| range.start < size)
    }

    /// Returns the routing registers; `None` for an endpoint.
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

    /// Stores whether the device has several functions, and the number of the next one. Resets do
    /// not change this. A mirrored function has the VMM's bits.
    pub(super) fn set_siblings(&mut self, multi_function: bool, next: u8) {
        if self.express == MIRRORED {
            return;
        }
        let bit = header_type::MULTI_FUNCTION;
        for image in [&mut self.bytes, &mut self.after_reset] {
            image[HEADER_TYPE] &= !bit;
            if multi_function {
                image[HEADER_TYPE] |= bit;
            }
            if let Some(at) = self.ari {
                // Next function number in the ARI capability register.
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

/// Reason why a function cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The vendor ID reads as an absent function (0x0000, 0xffff) or one that is not ready
    /// (0x0001). Use the ID of a real vendor.
    #[error("vendor {0:#06x} means an absent or unready function: use another ID")]
    Vendor(u16),
    /// A BAR or ROM size is not a power of two in the allowed range.
    #[error(
        "the size cannot be decoded: use a power of two (I/O 4 to 256 bytes, memory at least 16 \
         bytes, ROM 2 KiB to 16 MiB)"
    )]
    Size,
    /// The BAR number does not exist, or is already in use.
    #[error("BAR {0} does not exist or is already in use")]
    BarNumber(usize),
    /// The capabilities do not fit: omit some.
    #[error("the capabilities do not fit: omit some")]
    NoRoom,
    /// Extended capabilities require [`express`](super::FunctionBuilder::express).
    #[error("extended capabilities require the PCI Express capability: call express()")]
    NotExpress,
    /// The port type requires the other header type: see [`Function::endpoint`] and
    /// [`Function::bridge`].
    #[error("{0:?} requires the other header type: use Function::endpoint or Function::bridge")]
    Header(PortType),
    /// A volatile range is empty, overlaps another, or leaves the space (256 bytes without the PCI
    /// Express capability).
    #[error("volatile registers: use ranges inside the space that do not overlap")]
    Volatile,
}

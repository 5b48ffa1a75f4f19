//! The builder of functions.

use std::ops::Range;

use super::bar::Bar;
use super::capability::{Body, Capability, ExtendedCapability};
use super::express::PortType;
use super::function::{BuildError, Function, Header, Image, Volatile};
use super::registers::{
    BARS, BRIDGE_CONTROL, CACHE_LINE_SIZE, CAPABILITIES, CLASS, COMMAND, DEVICE, EXTENDED,
    FIRST_CAPABILITY, HEADER_TYPE, INTERRUPT_LINE, INTERRUPT_PIN, IO_BASE, IO_BASE_UPPER, IO_LIMIT,
    IO_LIMIT_UPPER, LATENCY_TIMER, MEMORY_BASE, MEMORY_LIMIT, PREFETCHABLE_BASE,
    PREFETCHABLE_BASE_UPPER, PREFETCHABLE_LIMIT, PREFETCHABLE_LIMIT_UPPER, PRIMARY_BUS, PROG_IF,
    REVISION, ROM_TYPE_0, ROM_TYPE_1, SECONDARY_BUS, SECONDARY_LATENCY, SECONDARY_STATUS, SIZE,
    STATUS, SUBCLASS, SUBORDINATE_BUS, SUBSYSTEM, SUBSYSTEM_VENDOR, VENDOR, bridge_control,
    command, header_type, id, status,
};

/// Builder of a [`Function`]: finish it with [`build`](Self::build).
#[derive(Debug)]
pub struct FunctionBuilder {
    header: Header,
    ids: [u16; 2],
    class: Class,
    revision: u8,
    subsystem: Option<[u16; 2]>,
    pin: u8,
    bars: Vec<(usize, Bar)>,
    rom: Option<u32>,
    windows: WindowKinds,
    express: Option<PortType>,
    capabilities: Vec<Capability>,
    extended: Vec<ExtendedCapability>,
    volatile: Vec<(Range<usize>, Box<dyn Volatile>)>,
}

/// Class code of a function (PCI Code and ID Assignment 1.11, 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Base class.
    pub base: u8,
    /// Sub-class.
    pub sub: u8,
    /// Programming interface.
    pub interface: u8,
}

/// An interrupt pin (PCI Local Bus 3.0, 6.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// INTA#.
    A,
    /// INTB#.
    B,
    /// INTC#.
    C,
    /// INTD#.
    D,
}

/// Windows of a bridge in addition to the mandatory memory window (PCI-to-PCI Bridge Architecture
/// 1.2, 3.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowKinds {
    /// I/O window.
    pub io: IoWindow,
    /// Prefetchable memory window.
    pub prefetchable: PrefetchableWindow,
}

/// I/O window of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoWindow {
    /// No window: its registers read 0.
    Absent,
    /// 16-bit addressing: 64 KiB of I/O space.
    Bits16,
    /// 32-bit addressing: 4 GiB of I/O space.
    Bits32,
}

/// Prefetchable memory window of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefetchableWindow {
    /// No window: its registers read 0.
    Absent,
    /// 32-bit addressing: below 4 GiB.
    Bits32,
    /// 64-bit addressing.
    Bits64,
}

impl Function {
    /// Starts a function with a type 0 header.
    pub fn endpoint(vendor: u16, device: u16, class: Class) -> FunctionBuilder {
        FunctionBuilder::new(Header::Endpoint, vendor, device, class)
    }

    /// Starts a bridge to another bus, with a type 1 header. It is a conventional bridge unless
    /// [`express`](FunctionBuilder::express) sets another type.
    pub fn bridge(vendor: u16, device: u16) -> FunctionBuilder {
        FunctionBuilder::new(Header::Bridge, vendor, device, Class::PCI_BRIDGE)
    }
}

impl FunctionBuilder {
    fn new(header: Header, vendor: u16, device: u16, class: Class) -> Self {
        Self {
            header,
            ids: [vendor, device],
            class,
            revision: 0,
            subsystem: None,
            pin: 0,
            bars: Vec::new(),
            rom: None,
            windows: WindowKinds::default(),
            express: None,
            capabilities: Vec::new(),
            extended: Vec::new(),
            volatile: Vec::new(),
        }
    }

    /// Sets the revision ID; the default is 0.
    #[must_use]
    pub fn revision(mut self, revision: u8) -> Self {
        self.revision = revision;
        self
    }

    /// Sets the subsystem IDs: in an endpoint's header, or in a bridge's capability.
    #[must_use]
    pub fn subsystem(mut self, vendor: u16, device: u16) -> Self {
        self.subsystem = Some([vendor, device]);
        self
    }

    /// Sets the interrupt pin; the default is none.
    #[must_use]
    pub fn interrupt(mut self, pin: Pin) -> Self {
        self.pin = match pin {
            Pin::A => 1,
            Pin::B => 2,
            Pin::C => 3,
            Pin::D => 4,
        };
        self
    }

    /// Adds base address register `number`: 0 to 5 of an endpoint, 0 and 1 of a bridge. A 64-bit
    /// BAR also occupies the next register.
    #[must_use]
    pub fn bar(mut self, number: usize, bar: Bar) -> Self {
        self.bars.push((number, bar));
        self
    }

    /// Adds an expansion ROM of `size` bytes: a power of two from 2 KiB to 16 MiB.
    #[must_use]
    pub fn rom(mut self, size: u32) -> Self {
        self.rom = Some(size);
        self
    }

    /// Sets the windows that a bridge forwards. They have no effect on an endpoint.
    #[must_use]
    pub fn windows(mut self, windows: WindowKinds) -> Self {
        self.windows = windows;
        self
    }

    /// Adds the PCI Express capability, and with it the full 4 KiB of configuration space.
    #[must_use]
    pub fn express(mut self, port: PortType) -> Self {
        self.express = Some(port);
        self
    }

    /// Adds a capability. The list has the order of the calls.
    #[must_use]
    pub fn capability(mut self, capability: Capability) -> Self {
        self.capabilities.push(capability);
        self
    }

    /// Adds an extended capability. The list has the order of the calls.
    #[must_use]
    pub fn extended_capability(mut self, capability: ExtendedCapability) -> Self {
        self.extended.push(capability);
        self
    }

    /// Assigns registers that trap to the device that answers for them. The shadow then never maps
    /// the function's page: every access traps.
    ///
    /// The ranges must not overlap. The device leaves other registers within a range as stored.
    #[must_use]
    pub fn volatile(mut self, registers: Range<u16>, device: impl Volatile + 'static) -> Self {
        let range = usize::from(registers.start)..usize::from(registers.end);
        self.volatile.push((range, Box::new(device)));
        self
    }

    /// Builds the function, in its state after a reset.
    ///
    /// # Errors
    ///
    /// [`BuildError`] for a configuration that no function can have.
    pub fn build(mut self) -> Result<Function, BuildError> {
        let [vendor, _] = self.ids;
        // Reserved values (PCI Local Bus 3.0, 6.1; PCI Express Base 4.0, 2.3.2); defective boards
        // read zeros.
        if matches!(vendor, 0x0000 | 0x0001 | 0xffff) {
            return Err(BuildError::Vendor(vendor));
        }
        let mut space = Space::new();
        let port = self.express;
        if let Some(port) = port.filter(|p| p.is_bridge() != (self.header == Header::Bridge)) {
            return Err(BuildError::Header(port));
        }
        self.common(&mut space);
        match self.header {
            Header::Endpoint => self.type_0(&mut space),
            Header::Bridge => self.type_1(&mut space),
        }
        self.lay_bars(&mut space)?;
        self.lay_rom(&mut space)?;
        let express = self.lay_capabilities(&mut space)?;
        let ari = self.lay_extended(&mut space)?;
        let end = if port.is_some() { SIZE } else { EXTENDED };
        space.bytes[end..].fill(0xff);
        let mut function = Function {
            after_reset: space.bytes.clone(),
            bytes: space.bytes,
            writable: space.writable,
            clears: space.clears,
            header: self.header,
            port,
            express,
            ari,
            bars: self.bars,
            volatile: Vec::new(),
        };
        for (range, device) in self.volatile {
            function.add_volatile(range, device)?;
        }
        Ok(function)
    }

    fn common(&self, space: &mut Space) {
        space.set16(VENDOR, self.ids[0], 0);
        space.set16(DEVICE, self.ids[1], 0);
        let io = self.bars.iter().any(|(_, bar)| matches!(bar, Bar::Io(_)))
            || self.header == Header::Bridge && self.windows.io != IoWindow::Absent;
        let memory = self.bars.iter().any(|(_, bar)| !matches!(bar, Bar::Io(_)))
            || self.header == Header::Bridge
            || self.rom.is_some();
        let if_so = |so: bool, bit: u16| if so { bit } else { 0 };
        let commands = command::BUS_MASTER
            | command::PARITY
            | command::SERR
            | command::INTX_DISABLE
            | if_so(io, command::IO)
            | if_so(memory, command::MEMORY);
        space.set16(COMMAND, 0, commands);
        space.clears16(STATUS, status::ERRORS);
        space.set8(REVISION, self.revision, 0);
        space.set8(PROG_IF, self.class.interface, 0);
        space.set8(SUBCLASS, self.class.sub, 0);
        space.set8(CLASS, self.class.base, 0);
        space.set8(CACHE_LINE_SIZE, 0, !0);
        // The latency timer applies only to a shared bus (PCI Express Base 4.0, 7.5.1.1.7).
        space.set8(LATENCY_TIMER, 0, self.conventional(0xf8));
        space.set8(INTERRUPT_LINE, 0, !0);
        space.set8(INTERRUPT_PIN, self.pin, 0);
    }

    fn conventional(&self, bits: u8) -> u8 {
        if self.express.is_none() { bits } else { 0 }
    }

    fn type_0(&self, space: &mut Space) {
        if let Some([vendor, device]) = self.subsystem {
            space.set16(SUBSYSTEM_VENDOR, vendor, 0);
            space.set16(SUBSYSTEM, device, 0);
        }
    }

    fn type_1(&mut self, space: &mut Space) {
        space.set8(HEADER_TYPE, header_type::BRIDGE, 0);
        for bus in [PRIMARY_BUS, SECONDARY_BUS, SUBORDINATE_BUS] {
            space.set8(bus, 0, !0);
        }
        space.set8(SECONDARY_LATENCY, 0, self.conventional(0xf8));
        space.clears16(SECONDARY_STATUS, status::ERRORS);
        for at in [MEMORY_BASE, MEMORY_LIMIT] {
            space.set16(at, 0, 0xfff0);
        }
        self.io_window(space);
        self.prefetchable_window(space);
        let (more, clears) = match self.express {
            None | Some(PortType::ToConventional) => {
                (bridge_control::CONVENTIONAL, bridge_control::CLEARS)
            }
            Some(_) => (0, 0),
        };
        space.set16(BRIDGE_CONTROL, 0, bridge_control::WRITABLE | more);
        space.clears16(BRIDGE_CONTROL, clears);
        if let Some([vendor, device]) = self.subsystem {
            let capability = Capability::subsystem(vendor, device);
            self.capabilities.insert(0, capability);
        }
    }

    fn io_window(&self, space: &mut Space) {
        let wide = match self.windows.io {
            IoWindow::Absent => return,
            IoWindow::Bits16 => 0,
            IoWindow::Bits32 => 1,
        };
        for at in [IO_BASE, IO_LIMIT] {
            space.set8(at, wide, 0xf0);
        }
        if wide == 1 {
            for at in [IO_BASE_UPPER, IO_LIMIT_UPPER] {
                space.set16(at, 0, !0);
            }
        }
    }

    fn prefetchable_window(&self, space: &mut Space) {
        let wide = match self.windows.prefetchable {
            PrefetchableWindow::Absent => return,
            PrefetchableWindow::Bits32 => 0,
            PrefetchableWindow::Bits64 => 1,
        };
        for at in [PREFETCHABLE_BASE, PREFETCHABLE_LIMIT] {
            space.set16(at, wide, 0xfff0);
        }
        if wide == 1 {
            for at in [PREFETCHABLE_BASE_UPPER, PREFETCHABLE_LIMIT_UPPER] {
                space.set32(at, 0, !0);
            }
        }
    }

    fn lay_bars(&self, space: &mut Space) -> Result<(), BuildError> {
        let registers = match self.header {
            Header::Endpoint => 6,
            Header::Bridge => 2,
        };
        let mut taken = [false; 6];
        for &(number, bar) in &self.bars {
            if !bar.is_possible() {
                return Err(BuildError::Size);
            }
            let its = number..number.saturating_add(bar.registers());
            if its.end > registers || taken[its.clone()].contains(&true) {
                return Err(BuildError::BarNumber(number));
            }
            taken[its].fill(true);
            let at = BARS + number * 4;
            let bits = bar.address_bits();
            space.set32(at, bar.type_bits(), bits as u32);
            if bar.registers() == 2 {
                space.set32(at + 4, 0, (bits >> 32) as u32);
            }
        }
        Ok(())
    }

    fn lay_rom(&self, space: &mut Space) -> Result<(), BuildError> {
        const ENABLE: u32 = 1;
        let Some(size) = self.rom else {
            return Ok(());
        };
        if !size.is_power_of_two() || !(1 << 11..=1 << 24).contains(&size) {
            return Err(BuildError::Size);
        }
        let at = match self.header {
            Header::Endpoint => ROM_TYPE_0,
            Header::Bridge => ROM_TYPE_1,
        };
        space.set32(at, 0, !(size - 1) | ENABLE);
        Ok(())
    }

    /// Writes the capability list, and returns the offset of the PCI Express capability.
    fn lay_capabilities(&mut self, space: &mut Space) -> Result<Option<usize>, BuildError> {
        if let Some(port) = self.express {
            self.capabilities.insert(0, port.capability());
        }
        let mut pointer = CAPABILITIES;
        let mut at = FIRST_CAPABILITY;
        let mut express = None;
        for capability in &self.capabilities {
            let end = at + 2 + capability.body.bytes.len();
            if end > EXTENDED {
                return Err(BuildError::NoRoom);
            }
            space.bytes[pointer] = at as u8;
            space.bytes[at] = capability.id;
            space.lay(at + 2, &capability.body);
            if capability.id == id::EXPRESS && self.express.is_some() {
                express = express.or(Some(at));
            }
            pointer = at + 1;
            at = end.next_multiple_of(4);
        }
        if pointer != CAPABILITIES {
            space.bytes[STATUS] |= status::CAPABILITIES as u8;
        }
        Ok(express)
    }

    /// Writes the extended capabilities, and returns the offset of the ARI capability.
    fn lay_extended(&self, space: &mut Space) -> Result<Option<usize>, BuildError> {
        if self.express.is_none() && !self.extended.is_empty() {
            return Err(BuildError::NotExpress);
        }
        let mut before: Option<usize> = None;
        let mut at = EXTENDED;
        let mut ari = None;
        for capability in &self.extended {
            let end = at + 4 + capability.body.bytes.len();
            if end > SIZE {
                return Err(BuildError::NoRoom);
            }
            let version = u32::from(capability.version & 0xf) << 16;
            space.set32(at, u32::from(capability.id) | version, 0);
            space.lay(at + 4, &capability.body);
            if let Some(before) = before {
                // Bits 31:20 hold the offset of the next capability; `at` is a multiple of 4.
                space.bytes[before + 2] |= (at << 4) as u8;
                space.bytes[before + 3] = (at >> 4) as u8;
            }
            if capability.id == id::ARI && capability.body.bytes.len() >= 2 {
                ari = ari.or(Some(at));
            }
            before = Some(at);
            at = end.next_multiple_of(4);
        }
        Ok(ari)
    }
}

impl Class {
    /// Bridge between PCI buses.
    pub const PCI_BRIDGE: Self = Self::new(0x06, 0x04, 0x00);
    /// Host bridge.
    pub const HOST_BRIDGE: Self = Self::new(0x06, 0x00, 0x00);

    /// Creates a class code from its three bytes.
    pub const fn new(base: u8, sub: u8, interface: u8) -> Self {
        Self {
            base,
            sub,
            interface,
        }
    }
}

/// Defaults to 32-bit I/O and 64-bit prefetchable memory windows.
impl Default for WindowKinds {
    fn default() -> Self {
        Self {
            io: IoWindow::Bits32,
            prefetchable: PrefetchableWindow::Bits64,
        }
    }
}

/// Register images of a function under construction.
struct Space {
    bytes: Image,
    writable: Image,
    clears: Image,
}

impl Space {
    fn new() -> Self {
        Self {
            bytes: Box::new([0; SIZE]),
            writable: Box::new([0; SIZE]),
            clears: Box::new([0; SIZE]),
        }
    }

    fn set8(&mut self, at: usize, value: u8, writable: u8) {
        self.bytes[at] = value;
        self.writable[at] = writable;
    }

    fn set16(&mut self, at: usize, value: u16, writable: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        self.writable[at..at + 2].copy_from_slice(&writable.to_le_bytes());
    }

    fn set32(&mut self, at: usize, value: u32, writable: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        self.writable[at..at + 4].copy_from_slice(&writable.to_le_bytes());
    }

    fn clears16(&mut self, at: usize, bits: u16) {
        self.clears[at..at + 2].copy_from_slice(&bits.to_le_bytes());
    }

    /// Writes a capability's body at `at`. Masks longer than the body are truncated.
    fn lay(&mut self, at: usize, body: &Body) {
        let length = body.bytes.len();
        self.bytes[at..at + length].copy_from_slice(&body.bytes);
        for (image, mask) in [
            (&mut self.writable, &body.writable),
            (&mut self.clears, &body.clears),
        ] {
            let length = mask.len().min(length);
            image[at..at + length].copy_from_slice(&mask[..length]);
        }
    }
}

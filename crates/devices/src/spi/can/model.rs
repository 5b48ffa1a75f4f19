//! The CAN controller's model.

use super::frame::{BUFFER, Frame, Identifier, identifier_of};
use super::registers::{
    BUKT, BUKT1, CANCTRL, CANCTRL_RESET, CANINTE, CANINTF, CANSTAT, CNF1, CNF3, EFLG, ERRIF, MODE,
    MODE_CONFIGURATION, MODE_LISTEN_ONLY, MODE_LOOPBACK, MODE_NORMAL, REC, REGISTERS, RX0IF,
    RX0OVR, RXB0CTRL, RXF0SIDH, RXF3SIDH, RXM, RXM0SIDH, RXM1SIDH, RXRTR, TEC, TX0IF, TXB0CTRL,
    TXBCTRL_WRITABLE, TXP, TXREQ, TXRTSCTRL,
};
use crate::spi::Target;

/// Meaning of the next byte while the device is selected ("SPI Instruction Set").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Not selected.
    Idle,
    /// Instruction byte.
    Instruction,
    /// Address byte, and the operation that follows it.
    Address(Then),
    /// Mask byte of BIT MODIFY.
    Mask(u8),
    /// Data byte of BIT MODIFY.
    Modify { address: u8, mask: u8 },
    /// Byte to be written; the address increments.
    Write(u8),
    /// Byte to read at the first value; the address increments. The second value holds the CANINTF
    /// flags to clear when the device is released.
    Read(u8, u8),
    /// READ STATUS, repeated.
    Status,
    /// RX STATUS, repeated.
    RxStatus,
    /// Unknown instruction: all bytes until the release are ignored.
    Deaf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Read,
    Write,
    Modify,
}

/// Model of a Microchip MCP2515 CAN controller, as an SPI [`Target`].
///
/// Its CAN bus takes no time. The owner [delivers](Self::receive) received frames, and
/// [fetches](Self::transmit) sent frames. Frames are always valid and acknowledged, so no error is
/// counted.
#[derive(Clone, Debug)]
pub struct Mcp2515 {
    registers: [u8; REGISTERS],
    phase: Phase,
    overflows: u32,
}

impl Default for Mcp2515 {
    fn default() -> Self {
        Self::new()
    }
}

impl Mcp2515 {
    /// Creates a controller as after a reset: in configuration mode, in which it receives no
    /// frames.
    pub fn new() -> Self {
        let mut registers = [0; REGISTERS];
        registers[usize::from(CANCTRL)] = CANCTRL_RESET;
        registers[usize::from(CANSTAT)] = MODE_CONFIGURATION;
        Self {
            registers,
            phase: Phase::Idle,
            overflows: 0,
        }
    }

    /// Delivers a frame from the bus, and returns whether a buffer stored it. A frame is ignored in
    /// a mode that does not receive, or if no filter accepts it. A frame whose buffer is full is
    /// lost and counted.
    pub fn receive(&mut self, frame: &Frame) -> bool {
        matches!(self.mode(), MODE_NORMAL | MODE_LISTEN_ONLY) && self.take(frame)
    }

    /// Returns whether the first receive buffer is free.
    pub fn has_room(&self) -> bool {
        self.at(CANINTF) & RX0IF == 0
    }

    /// Sends the next frame and returns it; `None` if there is none, or outside normal mode.
    pub fn transmit(&mut self) -> Option<Frame> {
        if self.mode() != MODE_NORMAL {
            return None;
        }
        self.send()
    }

    /// Returns whether the interrupt line is asserted.
    pub fn interrupts(&self) -> bool {
        self.at(CANINTF) & self.at(CANINTE) != 0
    }

    /// Returns the number of frames lost to a full buffer.
    pub const fn overflows(&self) -> u32 {
        self.overflows
    }

    fn mode(&self) -> u8 {
        self.at(CANSTAT) & MODE
    }

    fn at(&self, address: u8) -> u8 {
        self.registers[usize::from(address) % REGISTERS]
    }

    fn at_mut(&mut self, address: u8) -> &mut u8 {
        &mut self.registers[usize::from(address) % REGISTERS]
    }

    fn four(&self, address: u8) -> [u8; 4] {
        [0, 1, 2, 3].map(|offset| self.at(address + offset))
    }

    /// Stores a frame in a receive buffer ("Message Reception").
    fn take(&mut self, frame: &Frame) -> bool {
        let wants: [bool; 2] = [0, 1].map(|buffer| self.wants(buffer, frame));
        let full = |buffer: u8| self.at(CANINTF) & RX0IF << buffer != 0;
        let buffer = match wants {
            [true, _] if !full(0) => 0,
            [true, _] if self.at(RXB0CTRL) & BUKT == 0 => return self.overflow(0),
            // The frame rolls over to the second buffer, regardless of that buffer's filters.
            [true, _] | [_, true] if !full(1) => 1,
            [true, _] | [_, true] => return self.overflow(1),
            _ => return false,
        };
        let control = RXB0CTRL + 16 * buffer;
        let remote = if frame.asks_for().is_some() { RXRTR } else { 0 };
        *self.at_mut(control) = self.at(control) & !RXRTR | remote;
        for (address, byte) in (control + 1..).zip(frame.received()) {
            *self.at_mut(address) = byte;
        }
        *self.at_mut(CANINTF) |= RX0IF << buffer;
        true
    }

    fn overflow(&mut self, buffer: u8) -> bool {
        self.overflows = self.overflows.saturating_add(1);
        *self.at_mut(EFLG) |= RX0OVR << buffer;
        *self.at_mut(CANINTF) |= ERRIF;
        false
    }

    /// Returns whether a filter of `buffer` accepts the frame ("Message Acceptance Filters and
    /// Masks"). The model does not compare the first two data bytes of a standard frame.
    fn wants(&self, buffer: u8, frame: &Frame) -> bool {
        if self.at(RXB0CTRL + 16 * buffer) & RXM == RXM {
            return true;
        }
        let (mask, filters): (u8, &[u8]) = match buffer {
            0 => (RXM0SIDH, &[RXF0SIDH, RXF0SIDH + 4]),
            _ => (
                RXM1SIDH,
                &[RXF0SIDH + 8, RXF3SIDH, RXF3SIDH + 4, RXF3SIDH + 8],
            ),
        };
        let mut mask = self.four(mask);
        filters.iter().any(|&filter| {
            let filter = self.four(filter);
            // A mask has no EXIDE of its own.
            mask[1] =
                mask[1] & !super::registers::SIDL_EXIDE | filter[1] & super::registers::SIDL_EXIDE;
            match (
                frame.identifier(),
                identifier_of(filter),
                identifier_of(mask),
            ) {
                (Identifier::Standard(id), Identifier::Standard(f), Identifier::Standard(m)) => {
                    (id ^ f) & m == 0
                }
                (Identifier::Extended(id), Identifier::Extended(f), Identifier::Extended(m)) => {
                    (id ^ f) & m == 0
                }
                _ => false,
            }
        })
    }

    /// Sends the frame with the highest priority ("Message Transmission"). Among equal priorities,
    /// the buffer with the highest number is first.
    fn send(&mut self) -> Option<Frame> {
        let control = |buffer: &u8| self.at(TXB0CTRL + 16 * buffer);
        let asked = (0..3).filter(|buffer| control(buffer) & TXREQ != 0);
        let buffer = asked.max_by_key(|buffer| (control(buffer) & TXP, *buffer))?;
        let start = TXB0CTRL + 16 * buffer;
        let mut bytes = [0; BUFFER];
        for (byte, address) in bytes.iter_mut().zip(start + 1..) {
            *byte = self.at(address);
        }
        *self.at_mut(start) &= !TXREQ;
        *self.at_mut(CANINTF) |= TX0IF << buffer;
        Some(Frame::transmitted(bytes))
    }

    fn read(&self, address: u8) -> u8 {
        match address & 0x0f {
            0x0e => self.at(CANSTAT) | self.code() << 1,
            0x0f => self.at(CANCTRL),
            _ => self.at(address),
        }
    }

    /// Returns ICOD of CANSTAT: the enabled interrupt with the highest priority ("Interrupt Code
    /// Bits").
    fn code(&self) -> u8 {
        let pending = self.at(CANINTF) & self.at(CANINTE);
        // In order: error, wake-up, TXB0 to TXB2, RXB0, RXB1.
        let order = [5, 6, 2, 3, 4, 0, 1];
        let first = order.iter().position(|bit| pending & 1 << bit != 0);
        first.map_or(0, |first| first as u8 + 1)
    }

    fn write(&mut self, address: u8, value: u8) {
        let address = address % REGISTERS as u8;
        let configures = self.mode() == MODE_CONFIGURATION;
        let old = self.at(address);
        *self.at_mut(address) = match address {
            _ if address & 0x0f == 0x0f => return self.set_control(value),
            _ if address & 0x0f == 0x0e => return,
            TEC | REC => return,
            TXRTSCTRL | CNF3..=CNF1 if !configures => return,
            _ if is_filter(address) && !configures => return,
            EFLG => old & !(RX0OVR | RX0OVR << 1) | value & old & (RX0OVR | RX0OVR << 1),
            0x30 | 0x40 | 0x50 => old & !TXBCTRL_WRITABLE | value & TXBCTRL_WRITABLE,
            // A buffer whose transmission is pending is read-only.
            0x31..=0x3d | 0x41..=0x4d | 0x51..=0x5d if self.at(address & 0xf0) & TXREQ != 0 => {
                return;
            }
            RXB0CTRL => {
                let rollover = if value & BUKT != 0 { BUKT | BUKT1 } else { 0 };
                old & !(RXM | BUKT | BUKT1) | value & RXM | rollover
            }
            0x70 => old & !RXM | value & RXM,
            // Receive buffers are read-only.
            0x61..=0x6d | 0x71..=0x7d => return,
            _ => value,
        };
    }

    /// Writes CANCTRL. The mode changes at once, since no transmission is ever in progress.
    fn set_control(&mut self, value: u8) {
        *self.at_mut(CANCTRL) = value;
        // Values 5 to 7 are not valid modes ("Request Operation Mode bits").
        if value & MODE <= MODE_CONFIGURATION {
            *self.at_mut(CANSTAT) = value & MODE;
        }
    }

    /// Returns the response to READ STATUS.
    fn status(&self) -> u8 {
        let flags = self.at(CANINTF);
        let requested = |buffer: u8| (self.at(TXB0CTRL + 16 * buffer) & TXREQ) >> 3;
        let sent = |buffer: u8| flags >> (2 + buffer) & 1;
        flags & 3
            | requested(0) << 2
            | sent(0) << 3
            | requested(1) << 4
            | sent(1) << 5
            | requested(2) << 6
            | sent(2) << 7
    }

    /// Returns the response to RX STATUS: the full buffers, and the frame type in the first of
    /// them. The model does not report the accepting filter.
    fn rx_status(&self) -> u8 {
        let full = self.at(CANINTF) & 3;
        let buffer = if full & 1 != 0 { 0 } else { 1 };
        if full == 0 {
            return 0;
        }
        let control = RXB0CTRL + 16 * buffer;
        let extended = self.at(control + 2) & super::registers::SIDL_EXIDE != 0;
        let remote = self.at(control) & RXRTR != 0;
        full << 6 | u8::from(extended) << 4 | u8::from(remote) << 3
    }

    fn instruction(&mut self, byte: u8) -> Phase {
        match byte {
            0xc0 => {
                let overflows = self.overflows;
                *self = Self::new();
                self.overflows = overflows;
                Phase::Deaf
            }
            0x03 => Phase::Address(Then::Read),
            0x02 => Phase::Address(Then::Write),
            0x05 => Phase::Address(Then::Modify),
            // READ RX BUFFER: 1001 0nm0.
            0x90 | 0x92 | 0x94 | 0x96 => {
                let buffer = byte >> 2 & 1;
                let start = if byte & 2 == 0 { 1 } else { 6 };
                Phase::Read(RXB0CTRL + 16 * buffer + start, RX0IF << buffer)
            }
            // LOAD TX BUFFER: 0100 0abc.
            0x40..=0x45 => {
                let start = if byte & 1 == 0 { 1 } else { 6 };
                Phase::Write(TXB0CTRL + 16 * (byte >> 1 & 3) + start)
            }
            // RTS: 1000 0nnn.
            0x80..=0x87 => {
                for buffer in (0..3).filter(|buffer| byte & 1 << buffer != 0) {
                    *self.at_mut(TXB0CTRL + 16 * buffer) |= TXREQ;
                }
                Phase::Deaf
            }
            0xa0 => Phase::Status,
            0xb0 => Phase::RxStatus,
            _ => Phase::Deaf,
        }
    }
}

impl Target for Mcp2515 {
    fn select(&mut self) {
        self.phase = Phase::Instruction;
    }

    fn exchange(&mut self, byte: u8) -> u8 {
        let mut out = 0xff;
        self.phase = match self.phase {
            Phase::Idle => Phase::Idle,
            Phase::Instruction => self.instruction(byte),
            Phase::Address(Then::Read) => Phase::Read(byte & 0x7f, 0),
            Phase::Address(Then::Write) => Phase::Write(byte & 0x7f),
            Phase::Address(Then::Modify) => Phase::Mask(byte & 0x7f),
            Phase::Mask(address) => Phase::Modify {
                address,
                mask: byte,
            },
            Phase::Modify { address, mask } => {
                // A register without BIT MODIFY support has all its bits written ("BIT MODIFY
                // Instruction").
                let mask = if knows_bit_modify(address) {
                    mask
                } else {
                    0xff
                };
                let value = self.read(address) & !mask | byte & mask;
                self.write(address, value);
                Phase::Deaf
            }
            Phase::Write(address) => {
                self.write(address, byte);
                Phase::Write((address + 1) & 0x7f)
            }
            Phase::Read(address, flag) => {
                out = self.read(address);
                Phase::Read((address + 1) & 0x7f, flag)
            }
            Phase::Status => {
                out = self.status();
                Phase::Status
            }
            Phase::RxStatus => {
                out = self.rx_status();
                Phase::RxStatus
            }
            Phase::Deaf => Phase::Deaf,
        };
        out
    }

    fn release(&mut self) {
        if let Phase::Read(_, flag) = self.phase {
            *self.at_mut(CANINTF) &= !flag;
        }
        self.phase = Phase::Idle;
        if self.mode() == MODE_LOOPBACK {
            while let Some(frame) = self.send() {
                self.take(&frame);
            }
        }
    }
}

const fn is_filter(address: u8) -> bool {
    matches!(address, 0x00..=0x0b | 0x10..=0x1b | 0x20..=0x27)
}

/// Returns whether a register supports BIT MODIFY (shaded in "CAN Controller Register Map").
const fn knows_bit_modify(address: u8) -> bool {
    address & 0x0f == 0x0f
        || matches!(
            address,
            0x0c | TXRTSCTRL | CNF3..=EFLG | 0x30 | 0x40 | 0x50 | RXB0CTRL | 0x70
        )
}

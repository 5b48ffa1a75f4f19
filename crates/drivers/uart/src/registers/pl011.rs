//! Registers of the PL011, without logic. Source: ARM DDI 0183G, "PrimeCell UART (PL011) Technical
//! Reference Manual", r1p5, Table 3-1 and section 3.3.
//!
//! The first constants are offsets in bytes; each module holds the bits of one register.
//!
//! The SBSA generic UART has [`DR`], [`RSR`], [`FR`], [`IMSC`], [`RIS`], [`MIS`] and [`ICR`]. Source:
//! Server Base System Architecture, ARM DEN 0029, "Generic UART", base UART register set.

/// Data register, section 3.3.1. A write sends a byte; a read takes a received character with its
/// errors.
pub const DR: usize = 0x00;
/// Receive status register (read) and error clear register (write), section 3.3.2.
pub const RSR: usize = 0x04;
/// Flag register, section 3.3.3.
pub const FR: usize = 0x18;
/// IrDA low-power counter register, section 3.3.4.
pub const ILPR: usize = 0x20;
/// Integer baud rate register, section 3.3.5.
pub const IBRD: usize = 0x24;
/// Fractional baud rate register, in units of 1/64, section 3.3.6.
pub const FBRD: usize = 0x28;
/// Line control register, section 3.3.7. Its write makes both baud rate registers take effect.
pub const LCR_H: usize = 0x2c;
/// Control register, section 3.3.8.
pub const CR: usize = 0x30;
/// Interrupt FIFO level select register, section 3.3.9.
pub const IFLS: usize = 0x34;
/// Interrupt mask set/clear register, section 3.3.10. A set bit lets its interrupt through.
pub const IMSC: usize = 0x38;
/// Raw interrupt status register, section 3.3.11.
pub const RIS: usize = 0x3c;
/// Masked interrupt status register, section 3.3.12.
pub const MIS: usize = 0x40;
/// Interrupt clear register, section 3.3.13.
pub const ICR: usize = 0x44;
/// DMA control register, section 3.3.14.
pub const DMACR: usize = 0x48;
/// First of four peripheral identification registers, 4 bytes apart, section 3.3.15. It demands
/// accesses of 32 bits; the model takes any.
pub const PERIPH_ID: usize = 0xfe0;
/// First of four PrimeCell identification registers, 4 bytes apart, section 3.3.16.
pub const PCELL_ID: usize = 0xff0;

/// Number of bytes of all registers, section 3.3.15, note.
pub const SIZE: usize = 0x1000;

/// Value of the four PrimeCell identification registers (section 3.3.16).
pub const PCELL_IDS: [u8; 4] = [0x0d, 0xf0, 0x05, 0xb1];

/// Returns the value of the four peripheral identification registers at `revision`: part 0x011,
/// designer 0x41, configuration 0 (section 3.3.15, Table 3-21 for the revision).
pub const fn periph_ids(revision: u8) -> [u8; 4] {
    [0x11, 0x10, revision << 4 | 0x04, 0x00]
}

/// Errors of a received character, in the data register (Table 3-2).
pub mod dr {
    /// Framing error: no valid stop bit.
    pub const FRAMING: u32 = 1 << 8;
    /// Parity error.
    pub const PARITY: u32 = 1 << 9;
    /// Break: the line was low for longer than a frame.
    pub const BREAK: u32 = 1 << 10;
    /// Overrun: characters before this one were lost.
    pub const OVERRUN: u32 = 1 << 11;
}

/// Receive status register (Table 3-3).
pub mod rsr {
    /// Framing error of the character read last.
    pub const FRAMING: u32 = 1 << 0;
    /// Parity error of the character read last.
    pub const PARITY: u32 = 1 << 1;
    /// Break, read last.
    pub const BREAK: u32 = 1 << 2;
    /// A character was lost, since the last write of this register.
    pub const OVERRUN: u32 = 1 << 3;
}

/// Flag register (Table 3-4).
pub mod fr {
    /// Clear to send.
    pub const CTS: u32 = 1 << 0;
    /// Data set ready.
    pub const DSR: u32 = 1 << 1;
    /// Data carrier detect.
    pub const DCD: u32 = 1 << 2;
    /// Busy: bytes to send, until the last stop bit has left the shift register.
    pub const BUSY: u32 = 1 << 3;
    /// Receive FIFO empty.
    pub const RXFE: u32 = 1 << 4;
    /// Transmit FIFO full.
    pub const TXFF: u32 = 1 << 5;
    /// Receive FIFO full.
    pub const RXFF: u32 = 1 << 6;
    /// Transmit FIFO empty; the shift register may still hold a byte.
    pub const TXFE: u32 = 1 << 7;
    /// Ring indicator.
    pub const RI: u32 = 1 << 8;
}

/// Line control register (Table 3-10).
pub mod lcr_h {
    /// Send break.
    pub const BRK: u32 = 1 << 0;
    /// Parity enable.
    pub const PEN: u32 = 1 << 1;
    /// Even parity select.
    pub const EPS: u32 = 1 << 2;
    /// Two stop bits.
    pub const STP2: u32 = 1 << 3;
    /// Enable FIFOs; without them, each is one byte.
    pub const FEN: u32 = 1 << 4;
    /// Word length: 5 bits plus this field.
    pub const WLEN: u32 = 0b11 << 5;
    /// Stick parity select.
    pub const SPS: u32 = 1 << 7;
}

/// Control register (Table 3-12).
pub mod cr {
    /// UART enable.
    pub const UARTEN: u32 = 1 << 0;
    /// IrDA enable.
    pub const SIREN: u32 = 1 << 1;
    /// IrDA low power.
    pub const SIRLP: u32 = 1 << 2;
    /// Loopback enable.
    pub const LBE: u32 = 1 << 7;
    /// Transmit enable.
    pub const TXE: u32 = 1 << 8;
    /// Receive enable.
    pub const RXE: u32 = 1 << 9;
    /// Data transmit ready.
    pub const DTR: u32 = 1 << 10;
    /// Request to send.
    pub const RTS: u32 = 1 << 11;
    /// Out1.
    pub const OUT1: u32 = 1 << 12;
    /// Out2.
    pub const OUT2: u32 = 1 << 13;
    /// RTS hardware flow control.
    pub const RTSEN: u32 = 1 << 14;
    /// CTS hardware flow control.
    pub const CTSEN: u32 = 1 << 15;
}

/// Interrupts, in IMSC, RIS, MIS and ICR (Tables 3-14 to 3-17).
pub mod int {
    /// Ring indicator changed.
    pub const RI: u32 = 1 << 0;
    /// Clear to send changed.
    pub const CTS: u32 = 1 << 1;
    /// Data carrier detect changed.
    pub const DCD: u32 = 1 << 2;
    /// Data set ready changed.
    pub const DSR: u32 = 1 << 3;
    /// Receive: the FIFO's fill has risen to its level.
    pub const RX: u32 = 1 << 4;
    /// Transmit: the FIFO's fill has fallen to its level.
    pub const TX: u32 = 1 << 5;
    /// Receive timeout.
    pub const RT: u32 = 1 << 6;
    /// Framing error.
    pub const FE: u32 = 1 << 7;
    /// Parity error.
    pub const PE: u32 = 1 << 8;
    /// Break error.
    pub const BE: u32 = 1 << 9;
    /// Overrun error.
    pub const OE: u32 = 1 << 10;
    /// All interrupts.
    pub const ALL: u32 = 0x7ff;
}

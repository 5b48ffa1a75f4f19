//! Registers of the PL011, without logic. Source: Arm PrimeCell UART (PL011) Technical Reference
//! Manual, DDI 0183G (r1p5), section 3.3. The offsets are in bytes, and each register is a word.
//!
//! The SBSA generic UART has [`DR`], [`FR`], [`RIS`], [`MIS`], [`IMSC`] and [`ICR`] alone (Arm
//! DEN0029, "Generic UART").

/// Data register: a byte to send, or a received byte with its [errors](dr).
pub const DR: usize = 0x00;
/// Receive status register (read), error clear register (write).
pub const RSR: usize = 0x04;
/// Flag register.
pub const FR: usize = 0x18;
/// IrDA low-power counter register.
pub const ILPR: usize = 0x20;
/// Integer baud rate register. It has an effect after the next write to [`LCR_H`].
pub const IBRD: usize = 0x24;
/// Fractional baud rate register, in 64ths. It has an effect after the next write to [`LCR_H`].
pub const FBRD: usize = 0x28;
/// Line control register.
pub const LCR_H: usize = 0x2c;
/// Control register.
pub const CR: usize = 0x30;
/// Interrupt FIFO level select register.
pub const IFLS: usize = 0x34;
/// Interrupt mask set/clear register: the enabled [interrupts](int).
pub const IMSC: usize = 0x38;
/// Raw interrupt status register.
pub const RIS: usize = 0x3c;
/// Masked interrupt status register.
pub const MIS: usize = 0x40;
/// Interrupt clear register (write).
pub const ICR: usize = 0x44;
/// DMA control register.
pub const DMACR: usize = 0x48;
/// First of four peripheral identification registers, of a byte each.
pub const PERIPH_ID0: usize = 0xfe0;
/// First of four PrimeCell identification registers, of a byte each.
pub const PCELL_ID0: usize = 0xff0;

/// Bits of the data register (3.3.1).
pub mod dr {
    /// Stop bit missing.
    pub const FRAMING: u32 = 1 << 8;
    /// Wrong parity.
    pub const PARITY: u32 = 1 << 9;
    /// Break: the line was low for longer than a frame. The byte is 0.
    pub const BREAK: u32 = 1 << 10;
    /// A later byte was lost, because the FIFO was full.
    pub const OVERRUN: u32 = 1 << 11;
}

/// Bits of the flag register (3.3.3).
pub mod fr {
    /// Clear to send: the other end takes bytes.
    pub const CTS: u32 = 1 << 0;
    /// Data set ready.
    pub const DSR: u32 = 1 << 1;
    /// Data carrier detect.
    pub const DCD: u32 = 1 << 2;
    /// The transmitter has bytes, in the FIFO or the shift register.
    pub const BUSY: u32 = 1 << 3;
    /// Receive FIFO empty.
    pub const RXFE: u32 = 1 << 4;
    /// Transmit FIFO full.
    pub const TXFF: u32 = 1 << 5;
    /// Receive FIFO full.
    pub const RXFF: u32 = 1 << 6;
    /// Transmit FIFO empty.
    pub const TXFE: u32 = 1 << 7;
    /// Ring indicator.
    pub const RI: u32 = 1 << 8;
}

/// Bits of the line control register (3.3.7).
pub mod lcr_h {
    /// Sends a break while set.
    pub const BREAK: u32 = 1 << 0;
    /// Enables the parity bit.
    pub const PARITY: u32 = 1 << 1;
    /// Even parity.
    pub const EVEN: u32 = 1 << 2;
    /// Two stop bits.
    pub const TWO_STOP_BITS: u32 = 1 << 3;
    /// Enables the FIFOs.
    pub const FEN: u32 = 1 << 4;
    /// Position of the number of data bits, less 5.
    pub const WORD_LENGTH_SHIFT: u32 = 5;
    /// The parity bit is fixed: 1, or 0 with even parity.
    pub const STICK: u32 = 1 << 7;
}

/// Bits of the control register (3.3.8).
pub mod cr {
    /// Enables the UART.
    pub const UARTEN: u32 = 1 << 0;
    /// Loopback.
    pub const LBE: u32 = 1 << 7;
    /// Enables the transmitter.
    pub const TXE: u32 = 1 << 8;
    /// Enables the receiver.
    pub const RXE: u32 = 1 << 9;
    /// Raises DTR.
    pub const DTR: u32 = 1 << 10;
    /// Raises RTS.
    pub const RTS: u32 = 1 << 11;
    /// The receive FIFO controls RTS.
    pub const RTSEN: u32 = 1 << 14;
    /// CTS controls the transmitter.
    pub const CTSEN: u32 = 1 << 15;
}

/// Fields of the interrupt FIFO level select register (3.3.9). Transmit interrupts, which are not
/// used, have level 0.
pub mod ifls {
    /// The receive FIFO interrupts when an eighth is full.
    pub const RECEIVE_EIGHTH: u32 = 0 << 3;
    /// The receive FIFO interrupts when a quarter is full.
    pub const RECEIVE_QUARTER: u32 = 1 << 3;
    /// The receive FIFO interrupts when a half is full.
    pub const RECEIVE_HALF: u32 = 2 << 3;
    /// The receive FIFO interrupts when seven eighths are full.
    pub const RECEIVE_SEVEN_EIGHTHS: u32 = 4 << 3;
}

/// Bits of [`IMSC`], [`RIS`], [`MIS`] and [`ICR`] (3.3.10 to 3.3.13).
pub mod int {
    /// Receive FIFO at its level.
    pub const RECEIVE: u32 = 1 << 4;
    /// Transmit FIFO has *become* as empty as its level. A FIFO that was never filled does not
    /// interrupt.
    pub const TRANSMIT: u32 = 1 << 5;
    /// Received bytes wait, and none came for 32 bit times.
    pub const TIMEOUT: u32 = 1 << 6;
    /// Framing error.
    pub const FRAMING: u32 = 1 << 7;
    /// Parity error.
    pub const PARITY: u32 = 1 << 8;
    /// Break.
    pub const BREAK: u32 = 1 << 9;
    /// Overrun of the receive FIFO.
    pub const OVERRUN: u32 = 1 << 10;
    /// All interrupts.
    pub const ALL: u32 = 0x7ff;
}

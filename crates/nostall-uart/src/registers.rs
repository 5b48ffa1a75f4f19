//! The 16550A's registers, as its data sheet has them: National Semiconductor
//! PC16550D, June 1995, section 8 ("Registers") and Table II. No logic.
//!
//! The first constants are offsets, the modules hold the bits of one register
//! each. Three offsets serve two registers: which one is reached depends on the
//! direction, and at 0 and 1 on [`lcr::DLAB`].

/// Receiver buffer (read, DLAB 0).
pub const RBR: usize = 0;
/// Transmitter holding (write, DLAB 0).
pub const THR: usize = 0;
/// Divisor latch, low byte (DLAB 1).
pub const DLL: usize = 0;
/// Interrupt enable register (DLAB 0).
pub const IER: usize = 1;
/// Divisor latch, high byte (DLAB 1).
pub const DLM: usize = 1;
/// Interrupt identification register (read). A read clears a pending transmit interrupt if it
/// is the reported one.
pub const IIR: usize = 2;
/// FIFO control (write).
pub const FCR: usize = 2;
/// Line control.
pub const LCR: usize = 3;
/// Modem control.
pub const MCR: usize = 4;
/// Line status. Reading it clears its error bits.
pub const LSR: usize = 5;
/// Modem status. Reading it clears its delta bits.
pub const MSR: usize = 6;
/// Scratch: eight bits without a function.
pub const SCR: usize = 7;

/// Enhanced features (16650, 16850, 16950; LCR [`lcr::ENHANCED`]): ST16C650A data
/// sheet, "Enhanced Feature Register".
pub const EFR: usize = 2;
/// Indexed control (16950; LCR without DLAB, EFR bit 4 set): OX16C950 data sheet,
/// "Indexed Control Register Set". [`SCR`] holds the index.
pub const ICR: usize = 5;

/// UART status (DesignWare): DW_apb_uart databook, USR, 0x7c.
pub const DW_USR: usize = 0x7c / 4;
/// Component parameters (DesignWare): DW_apb_uart databook, CPR, 0xf4.
pub const DW_CPR: usize = 0xf4 / 4;
/// Component version (DesignWare): DW_apb_uart databook, UCV, 0xf8.
pub const DW_UCV: usize = 0xf8 / 4;
/// Component type (DesignWare): DW_apb_uart databook, CTR, 0xfc.
pub const DW_CTR: usize = 0xfc / 4;

/// Enhanced feature register.
pub mod efr {
    /// Lets the enhanced bits of other registers be changed.
    pub const ENHANCED: u8 = 1 << 4;
    /// Automatic RTS and CTS.
    pub const FLOW_CONTROL: u8 = 0b11 << 6;
}

/// The 16950's indexed control registers, by their index.
pub mod icr {
    /// Additional control.
    pub const ACR: u8 = 0x00;
    /// Bit of the ACR: [`ICR`](super::ICR) then reads the indexed registers instead of the LSR.
    pub const ACR_READ: u8 = 1 << 6;
    /// The first of three identification registers.
    pub const ID1: u8 = 0x08;
    /// Values of the three identification registers. The last one distinguishes the models with
    /// one, two and four ports.
    pub const IDS: [&[u8]; 3] = [&[0x16], &[0xc9], &[0x50, 0x52, 0x54]];
}

/// The DesignWare's component registers.
pub mod dw {
    /// Bit of the USR: busy; the LCR cannot be written.
    pub const USR_BUSY: u8 = 1 << 0;
    /// Value of the CTR.
    pub const CTR: u32 = 0x4457_0110;
    /// Field of the CPR: the depth of each FIFO, in units of 16 bytes, in bits 16 to 23.
    pub const CPR_FIFO_SHIFT: u32 = 16;
    /// An interrupt that the 16550 does not have: the LCR was written while the
    /// port was busy. Cleared by reading the USR.
    pub const IIR_BUSY: u8 = 0b0111;
}

/// Interrupt enable register, section 8.7.
pub mod ier {
    /// Received data available, and character timeout in FIFO mode.
    pub const RECEIVED_DATA: u8 = 1 << 0;
    /// Transmitter holding register empty.
    pub const TRANSMITTER_EMPTY: u8 = 1 << 1;
    /// Receiver line status: overrun, parity, framing, break.
    pub const LINE_STATUS: u8 = 1 << 2;
    /// Modem status.
    pub const MODEM_STATUS: u8 = 1 << 3;
}

/// Interrupt identification register, section 8.6 and Table IV.
pub mod iir {
    /// No interrupt is pending (0 means pending).
    pub const NONE: u8 = 1 << 0;
    /// The field that identifies the interrupt.
    pub const ID: u8 = 0b1110;
    /// Modem status; the lowest priority.
    pub const MODEM_STATUS: u8 = 0b0000;
    /// Transmitter holding register empty.
    pub const TRANSMITTER_EMPTY: u8 = 0b0010;
    /// Received data available.
    pub const RECEIVED_DATA: u8 = 0b0100;
    /// Receiver line status; the highest priority.
    pub const LINE_STATUS: u8 = 0b0110;
    /// Character timeout: bytes wait in the receive FIFO, and none has come or
    /// been read for four frames. As urgent as received data.
    pub const TIMEOUT: u8 = 0b1100;
    /// The 16750's: the FIFOs are of 64 bytes (TL16C750 data sheet, IIR).
    pub const FIFO_64: u8 = 1 << 5;
    /// FIFOs enabled if both bits are set. With only the upper one: a 16550, whose FIFOs do not
    /// work.
    pub const FIFOS: u8 = 0b1100_0000;
}

/// FIFO control register, section 8.5.
pub mod fcr {
    /// Enables both FIFOs. Must be 1 for the other bits to be programmed.
    pub const ENABLE: u8 = 1 << 0;
    /// Empties the receive FIFO; clears itself.
    pub const CLEAR_RECEIVE: u8 = 1 << 1;
    /// Empties the transmit FIFO; clears itself.
    pub const CLEAR_TRANSMIT: u8 = 1 << 2;
    /// DMA mode 1.
    pub const DMA_MODE: u8 = 1 << 3;
    /// The 16750's: FIFOs of 64 bytes. Only with [`lcr::DLAB`](super::lcr::DLAB)
    /// set can it be changed (TL16C750 data sheet, FCR).
    pub const FIFO_64: u8 = 1 << 5;
    /// Receive interrupt trigger: 0 is 1 byte, 1 is 4, 2 is 8, 3 is 14.
    pub const TRIGGER: u8 = 0b1100_0000;
}

/// Line control register, section 8.1.
pub mod lcr {
    /// Word length: 5 bits plus this field.
    pub const WORD_LENGTH: u8 = 0b11;
    /// Two stop bits (one and a half for 5-bit words).
    pub const STOP: u8 = 1 << 2;
    /// Parity enable.
    pub const PARITY: u8 = 1 << 3;
    /// Even parity.
    pub const EVEN: u8 = 1 << 4;
    /// Stick parity.
    pub const STICK: u8 = 1 << 5;
    /// Set break.
    pub const BREAK: u8 = 1 << 6;
    /// Divisor latch access.
    pub const DLAB: u8 = 1 << 7;
    /// The whole register's value that brings up [`EFR`](super::EFR).
    pub const ENHANCED: u8 = 0xbf;
}

/// Modem control register, section 8.8.
pub mod mcr {
    /// Data terminal ready.
    pub const DTR: u8 = 1 << 0;
    /// Request to send.
    pub const RTS: u8 = 1 << 1;
    /// Auxiliary output 1.
    pub const OUT1: u8 = 1 << 2;
    /// Auxiliary output 2; on a PC it lets the interrupt through.
    pub const OUT2: u8 = 1 << 3;
    /// Loopback.
    pub const LOOP: u8 = 1 << 4;
}

/// Line status register, section 8.4.
pub mod lsr {
    /// Data ready.
    pub const DATA_READY: u8 = 1 << 0;
    /// Overrun error.
    pub const OVERRUN: u8 = 1 << 1;
    /// Parity error.
    pub const PARITY: u8 = 1 << 2;
    /// Framing error.
    pub const FRAMING: u8 = 1 << 3;
    /// Break interrupt.
    pub const BREAK: u8 = 1 << 4;
    /// Transmitter holding register (in FIFO mode: the whole transmit FIFO)
    /// empty.
    pub const THRE: u8 = 1 << 5;
    /// Transmitter empty: holding register or FIFO, and shift register.
    pub const TEMT: u8 = 1 << 6;
    /// An error somewhere in the receive FIFO.
    pub const FIFO_ERROR: u8 = 1 << 7;
}

/// Modem status register, section 8.9.
pub mod msr {
    /// CTS has changed.
    pub const DELTA_CTS: u8 = 1 << 0;
    /// DSR has changed.
    pub const DELTA_DSR: u8 = 1 << 1;
    /// The ring indicator has gone away.
    pub const TRAILING_RI: u8 = 1 << 2;
    /// DCD has changed.
    pub const DELTA_DCD: u8 = 1 << 3;
    /// Clear to send.
    pub const CTS: u8 = 1 << 4;
    /// Data set ready.
    pub const DSR: u8 = 1 << 5;
    /// Ring indicator.
    pub const RI: u8 = 1 << 6;
    /// Data carrier detect.
    pub const DCD: u8 = 1 << 7;
}

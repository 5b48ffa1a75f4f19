//! Registers of the 16550A, without logic. Source: National Semiconductor PC16550D data sheet, June
//! 1995, section 8 ("Registers") and Table II.
//!
//! The first constants are register offsets; each module holds the bits of one register. Offset 0
//! is shared by three registers, offsets 1 and 2 by two. [`lcr::DLAB`] selects one at offsets 0 and
//! 1, the direction of the access at offsets 0 and 2.

pub mod pl011;

/// Receiver buffer register (read, DLAB 0).
pub const RBR: usize = 0;
/// Transmitter holding register (write, DLAB 0).
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
/// FIFO control register (write).
pub const FCR: usize = 2;
/// Line control register.
pub const LCR: usize = 3;
/// Modem control register.
pub const MCR: usize = 4;
/// Line status register. A read clears its error bits.
pub const LSR: usize = 5;
/// Modem status register. A read clears its delta bits.
pub const MSR: usize = 6;
/// Scratch register: eight bits without a function.
pub const SCR: usize = 7;

/// Enhanced feature register (16650, 16850, 16950; LCR [`lcr::ENHANCED`]): ST16C650A data sheet,
/// "Enhanced Feature Register".
pub const EFR: usize = 2;
/// Indexed control (16950; LCR without DLAB, EFR bit 4 set): OX16C950 data sheet,
/// "Indexed Control Register Set". [`SCR`] holds the index.
pub const ICR: usize = 5;

/// UART status register (DesignWare), at byte 0x7c with a stride of 4: DW_apb_uart databook, USR.
pub const DW_USR: usize = 0x7c / 4;
/// Component parameter register (DesignWare), at byte 0xf4 with a stride of 4: DW_apb_uart
/// databook, CPR.
pub const DW_CPR: usize = 0xf4 / 4;
/// Component version register (DesignWare), at byte 0xf8 with a stride of 4: DW_apb_uart databook,
/// UCV.
pub const DW_UCV: usize = 0xf8 / 4;
/// Component type register (DesignWare), at byte 0xfc with a stride of 4: DW_apb_uart databook,
/// CTR.
pub const DW_CTR: usize = 0xfc / 4;

/// Bits of the enhanced feature register (ST16C650A data sheet).
pub mod efr {
    /// Enables changes of the enhanced bits of other registers.
    pub const ENHANCED: u8 = 1 << 4;
    /// Automatic RTS and CTS.
    pub const FLOW_CONTROL: u8 = 0b11 << 6;
}

/// Indexes and values of the 16950's indexed control registers (OX16C950 data sheet).
pub mod icr {
    /// Additional control.
    pub const ACR: u8 = 0x00;
    /// Bit of the ACR: [`ICR`](super::ICR) then reads the indexed registers instead of the LSR.
    pub const ACR_READ: u8 = 1 << 6;
    /// First of three identification registers.
    pub const ID1: u8 = 0x08;
    /// Values of the three identification registers. The last one distinguishes the models with
    /// one, two and four ports.
    pub const IDS: [&[u8]; 3] = [&[0x16], &[0xc9], &[0x50, 0x52, 0x54]];
}

/// Bits and values of the DesignWare's component registers.
pub mod dw {
    /// Bit of the USR: busy; the LCR cannot be written.
    pub const USR_BUSY: u8 = 1 << 0;
    /// Value of the CTR.
    pub const CTR: u32 = 0x4457_0110;
    /// Shift of the CPR's FIFO field, bits 16 to 23: the depth of each FIFO in units of 16 bytes.
    pub const CPR_FIFO_SHIFT: u32 = 16;
    /// Interrupt that the 16550 does not have: the LCR was written while the port was busy. Cleared
    /// with a read of the USR.
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
    /// Field that identifies the interrupt.
    pub const ID: u8 = 0b1110;
    /// Modem status; the lowest priority.
    pub const MODEM_STATUS: u8 = 0b0000;
    /// Transmitter holding register empty.
    pub const TRANSMITTER_EMPTY: u8 = 0b0010;
    /// Received data available.
    pub const RECEIVED_DATA: u8 = 0b0100;
    /// Receiver line status; the highest priority.
    pub const LINE_STATUS: u8 = 0b0110;
    /// Character timeout: bytes wait in the receive FIFO, and none was received or read for four
    /// frames. Same priority as received data.
    pub const TIMEOUT: u8 = 0b1100;
    /// The 16750's FIFOs hold 64 bytes (TL16C750 data sheet, IIR).
    pub const FIFO_64: u8 = 1 << 5;
    /// Both bits are set if the FIFOs are enabled. Only the upper bit is set on a 16550, whose
    /// FIFOs do not work.
    pub const FIFOS: u8 = 0b1100_0000;
}

/// FIFO control register, section 8.5.
pub mod fcr {
    /// Enables both FIFOs. Must be 1 for the other bits to be programmed.
    pub const ENABLE: u8 = 1 << 0;
    /// Clears the receive FIFO. Resets itself.
    pub const CLEAR_RECEIVE: u8 = 1 << 1;
    /// Clears the transmit FIFO. Resets itself.
    pub const CLEAR_TRANSMIT: u8 = 1 << 2;
    /// DMA mode 1.
    pub const DMA_MODE: u8 = 1 << 3;
    /// Enables the 16750's FIFOs of 64 bytes. Can be changed only with
    /// [`lcr::DLAB`](super::lcr::DLAB) set (TL16C750 data sheet, FCR).
    pub const FIFO_64: u8 = 1 << 5;
    /// Receive trigger level: 0 is 1 byte, 1 is 4, 2 is 8, 3 is 14.
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
    /// Value of the whole register that selects [`EFR`](super::EFR).
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
    /// Auxiliary output 2; on a PC it gates the interrupt.
    pub const OUT2: u8 = 1 << 3;
    /// Loopback mode.
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
    /// Transmitter holding register empty; in FIFO mode, the whole transmit FIFO.
    pub const THRE: u8 = 1 << 5;
    /// Transmitter empty: holding register or FIFO, and shift register.
    pub const TEMT: u8 = 1 << 6;
    /// At least one error in the receive FIFO.
    pub const FIFO_ERROR: u8 = 1 << 7;
}

/// Modem status register, section 8.9.
pub mod msr {
    /// CTS has changed.
    pub const DELTA_CTS: u8 = 1 << 0;
    /// DSR has changed.
    pub const DELTA_DSR: u8 = 1 << 1;
    /// The ring indicator has changed to inactive.
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

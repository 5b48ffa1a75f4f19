//! Settings of an interrupt-driven port.

use crate::{LineSettings, Model};

/// Settings of an interrupt-driven port. `LineSettings::into` sets the defaults of the others.
#[derive(Clone, Copy, Debug)]
pub struct PortSettings {
    /// Rate and frame.
    pub line: LineSettings,
    /// Model of the port. Its FIFO depth bounds the work of a handler, and its
    /// [`transmit_load`](Model::transmit_load) is the number of bytes that the transmitter takes.
    /// Usually [`Model::Uart16550A`].
    pub model: Model,
    /// Number of bytes that the transmitter takes when it reports empty, clamped to 1 to 128.
    /// `None` uses the model's table; set it if the table is wrong for this port.
    pub transmit_load: Option<usize>,
    /// Fill level of the receive FIFO at which it interrupts.
    pub trigger: TriggerLevel,
    /// Hardware flow control in both directions.
    pub handshake: Handshake,
}

/// Fill level of the receive FIFO at which it interrupts (PC16550D, section 8.5, FCR bits 6 and 7).
///
/// Fewer bytes also interrupt, four frames after the last one. A model without a FIFO interrupts at
/// each byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerLevel {
    /// Each byte; 8 bytes on a 16650V2.
    Byte = 0x00,
    /// A quarter of the FIFO: 4 bytes on a 16550A.
    Quarter = 0x40,
    /// Half of the FIFO: 8 bytes on a 16550A.
    Half = 0x80,
    /// Nearly full: 14 bytes on a 16550A.
    NearlyFull = 0xc0,
}

/// Hardware flow control in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// No flow control.
    None,
    /// Each end drives RTS, connected to the other end's CTS.
    ///
    /// Each byte is then sent alone after a check of CTS, because bytes in the FIFO are sent
    /// regardless of CTS. After CTS is released, at most two bytes leave. The port releases RTS
    /// when less than a quarter of the receive ring is free, and raises it when half of the ring is
    /// free.
    RtsCts,
}

impl From<LineSettings> for PortSettings {
    /// Creates settings for a 16550A with an interrupt at half of its receive FIFO, without
    /// handshake.
    fn from(line: LineSettings) -> Self {
        Self {
            line,
            model: Model::Uart16550A,
            transmit_load: None,
            trigger: TriggerLevel::Half,
            handshake: Handshake::None,
        }
    }
}

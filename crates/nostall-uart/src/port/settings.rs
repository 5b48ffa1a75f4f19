//! Settings of an interrupt-driven port.

use crate::{LineSettings, Model};

/// Settings of an interrupt-driven port. Converted from [`LineSettings`] for the default of the
/// other settings.
#[derive(Clone, Copy, Debug)]
pub struct PortSettings {
    /// Rate and frame.
    pub line: LineSettings,
    /// The model: the depth of its receive FIFO says how many bytes a handler may
    /// find, its [`transmit_load`](Model::transmit_load) how many the transmitter
    /// takes. Usually [`Model::Uart16550A`].
    pub model: Model,
    /// Number of bytes that the transmitter takes when it reports empty, clamped to 1 to 128.
    /// `None` uses the model's table; set it if the table is wrong for this port.
    pub transmit_load: Option<usize>,
    /// Fill level of the receive FIFO at which it interrupts.
    pub trigger: TriggerLevel,
    /// Hardware flow control in both directions.
    pub handshake: Handshake,
}

/// Fill level of the receive FIFO at which it interrupts (PC16550D, section 8.5, FCR bits 6 and
/// 7).
///
/// Fewer than that interrupt too, four frames after the last one. A model without
/// a FIFO interrupts at each byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerLevel {
    /// Each byte. (16650V2: 8.)
    Byte = 0x00,
    /// A quarter: 4 on a 16550A.
    Quarter = 0x40,
    /// Half: 8 on a 16550A.
    Half = 0x80,
    /// Nearly full: 14 on a 16550A.
    NearlyFull = 0xc0,
}

/// Hardware flow control in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// No flow control.
    None,
    /// Each by its RTS, which is the other's CTS.
    ///
    /// Bytes then go to the port one by one, each after a look at CTS, because
    /// what is in the FIFO goes out whatever CTS says: at most two leave after CTS
    /// has gone. Our RTS goes when less than a quarter of the receive ring is
    /// free, and comes back when half of it is.
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

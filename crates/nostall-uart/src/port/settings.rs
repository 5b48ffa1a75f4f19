//! How a port is to be used.

use crate::{LineSettings, Model};

/// How a port is to be used. Made from [`LineSettings`] where the rest is to be as
/// usual.
#[derive(Clone, Copy, Debug)]
pub struct PortSettings {
    /// Rate and frame.
    pub line: LineSettings,
    /// The model: the depth of its receive FIFO says how many bytes a handler may
    /// find, its [`transmit_load`](Model::transmit_load) how many the transmitter
    /// takes. Usually [`Model::Uart16550A`].
    pub model: Model,
    /// Bytes that the transmitter takes when it says that it is empty, 1 to 128
    /// (the nearest of them otherwise), where the model's table is wrong for this
    /// port; `None` for the table's.
    pub transmit_load: Option<usize>,
    /// How full the receive FIFO gets before it interrupts.
    pub trigger: TriggerLevel,
    /// Whether both ends can hold one another off.
    pub handshake: Handshake,
}

/// How full the receive FIFO gets before it interrupts (PC16550D, section 8.5,
/// FCR bits 6 and 7).
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

/// Whether both ends can hold one another off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// They cannot.
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
    /// For a 16550A that interrupts at half of its receive FIFO, without
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

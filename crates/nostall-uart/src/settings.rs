//! Settings of a console.

use nostall_io::Nanos;

use crate::port::TriggerLevel;
use crate::{LineSettings, Model};

/// Settings of a console. Converted from [`LineSettings`] for the default of the other
/// settings.
#[derive(Clone, Copy, Debug)]
pub struct ConsoleSettings {
    /// Rate and frame.
    pub line: LineSettings,
    /// The model; `None` to [`probe`](crate::probe) for it.
    pub model: Option<Model>,
    /// Number of bytes that the transmitter takes when it reports empty, 1 to 128. `None` uses
    /// the model's table; set it if the table is wrong for this port.
    pub transmit_load: Option<usize>,
    /// Flow control by the other end.
    pub flow_control: FlowControl,
    /// A line that is shared by taking turns.
    pub rs485: Option<Rs485>,
    /// Handling of a port that may lose its power, and its settings.
    pub power_loss: PowerLoss,
    /// Time limit of a write to a port that takes no bytes, from the last byte that it took.
    /// See [`GIVE_UP_AFTER`](Self::GIVE_UP_AFTER).
    pub give_up_after: Nanos,
    /// Fill level of the receive FIFO at which it interrupts, once
    /// [`enable_receive`](crate::Console::enable_receive) is called. By default nearly full, so
    /// that pasted text costs few interrupts. At 14 of 16 bytes, the handler may be late by two
    /// frames.
    pub trigger: TriggerLevel,
    /// Called from time to time inside long waits, to tell a watchdog that all is well.
    pub while_waiting: Option<fn()>,
}

impl ConsoleSettings {
    /// The default of [`give_up_after`](Self::give_up_after), 500 ms.
    ///
    /// A virtual machine's port pauses while its reader on the host is busy; pauses of
    /// 300 ms lose nothing. A port that is stuck costs this time once.
    pub const GIVE_UP_AFTER: Nanos = Nanos::from_millis(500);
}

/// Flow control by the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowControl {
    /// No flow control.
    None,
    /// The other end's RTS is connected to CTS. Each byte is then sent alone after a check of
    /// CTS, because bytes in the FIFO are sent regardless of CTS. A write waits for CTS twice
    /// as long as for a port that is not held off: a second by default.
    Cts,
}

/// Driving a line that is shared by taking turns: RTS enables the transmitter.
///
/// The times are as exact as the clock. With a clock that has long steps, they may be up to
/// one step shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rs485 {
    /// Delay from RTS to the first bit.
    pub before: Nanos,
    /// Delay from the last bit until RTS is released.
    pub after: Nanos,
}

/// Handling of a port that may lose its power, and its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerLoss {
    /// The port keeps its power: no check.
    Ignore,
    /// The console checks for it and sets the port up again. The check is a value in the
    /// scratch register, which does not survive: two more accesses for each write and flush,
    /// one for each offer. [`Model::Uart8250`] has no such register, and is refused.
    Recover,
}

impl From<LineSettings> for ConsoleSettings {
    fn from(line: LineSettings) -> Self {
        Self {
            line,
            model: None,
            transmit_load: None,
            flow_control: FlowControl::None,
            rs485: None,
            power_loss: PowerLoss::Ignore,
            give_up_after: Self::GIVE_UP_AFTER,
            trigger: TriggerLevel::NearlyFull,
            while_waiting: None,
        }
    }
}

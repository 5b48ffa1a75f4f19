//! Settings of a console.

use nostall_io::Nanos;

use crate::{LineSettings, Model};

/// Settings of a console. `LineSettings::into` sets the defaults of the others.
#[derive(Clone, Copy, Debug)]
pub struct ConsoleSettings {
    /// Rate and frame.
    pub line: LineSettings,
    /// Model; `None` to [`probe`](crate::probe) for it.
    pub model: Option<Model>,
    /// Number of bytes that the transmitter takes when it reports empty, 1 to 128. `None` uses
    /// the model's table; set it if the table is wrong for this port.
    pub transmit_load: Option<usize>,
    /// Line ends of written text.
    pub newline: Newline,
    /// Flow control of the sender, controlled by the other end.
    pub flow_control: FlowControl,
    /// Direction control of a shared line; `None` for a line with one sender.
    pub rs485: Option<Rs485>,
    /// Handling of a loss of the port's power and settings.
    pub power_loss: PowerLoss,
    /// Time limit of a write to a port that takes no bytes, from the last byte that it took. See
    /// [`GIVE_UP_AFTER`](Self::GIVE_UP_AFTER).
    pub give_up_after: Nanos,
    /// Fill level of the receive FIFO at which it interrupts, after
    /// [`enable_receive`](crate::Console::enable_receive). The default is nearly full, so that
    /// pasted text costs few interrupts. At 14 of 16 bytes, the handler may be late by two frames.
    pub trigger: TriggerLevel,
    /// Hook called at intervals during long waits, for example to reset a watchdog.
    pub while_waiting: Option<fn()>,
}

impl ConsoleSettings {
    /// Default of [`give_up_after`](Self::give_up_after), 500 ms.
    ///
    /// A virtual machine's port pauses while its reader on the host is busy; pauses of 300 ms lose
    /// nothing. A stuck port costs this time once.
    pub const GIVE_UP_AFTER: Nanos = Nanos::from_millis(500);
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

/// Line ends of written text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newline {
    /// Each LF is sent as CR LF, for a terminal.
    CrLf,
    /// Each byte is sent unchanged, for a program at the other end or for binary data. A report of
    /// lost bytes then also ends in LF.
    Lf,
}

impl Newline {
    /// Returns the bytes of a line end.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::CrLf => "\r\n",
            Self::Lf => "\n",
        }
    }
}

/// Flow control of the sender, controlled by the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowControl {
    /// No flow control.
    None,
    /// The other end's RTS is connected to CTS. Each byte is then sent alone after a check of CTS,
    /// because bytes in the FIFO are sent regardless of CTS. A write waits for CTS for twice the
    /// usual limit: one second by default.
    Cts,
}

/// Direction control of a shared line: RTS enables the transmitter.
///
/// The delays are as exact as the clock. With a clock that has long steps, they may be shorter by
/// up to one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rs485 {
    /// Delay from RTS to the first bit.
    pub before: Nanos,
    /// Delay from the last bit until RTS is released.
    pub after: Nanos,
}

/// Handling of a loss of the port's power and settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerLoss {
    /// The port keeps its power, so it is not checked.
    Ignore,
    /// The console detects a loss and sets the port up again. It checks a value in the scratch
    /// register, which is lost without power. This costs two accesses for each write and flush, and
    /// one for each offer. [`Model::Uart8250`] has no such register and is refused.
    Recover,
}

impl From<LineSettings> for ConsoleSettings {
    fn from(line: LineSettings) -> Self {
        Self {
            line,
            model: None,
            transmit_load: None,
            newline: Newline::CrLf,
            flow_control: FlowControl::None,
            rs485: None,
            power_loss: PowerLoss::Ignore,
            give_up_after: Self::GIVE_UP_AFTER,
            trigger: TriggerLevel::NearlyFull,
            while_waiting: None,
        }
    }
}

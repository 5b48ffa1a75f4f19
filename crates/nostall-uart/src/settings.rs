//! How a console is to use its port.

use nostall_io::Nanos;

use crate::{LineSettings, Model};

/// How a console is to use its port. Made from [`LineSettings`] where the rest
/// is to be as usual.
#[derive(Clone, Copy, Debug)]
pub struct ConsoleSettings {
    /// Rate and frame.
    pub line: LineSettings,
    /// The model; `None` to [`probe`](crate::probe) for it.
    pub model: Option<Model>,
    /// How many bytes the transmitter takes when it says that it is empty, 1 to
    /// 128, where the model's table is wrong for this port; `None` for the
    /// table's.
    pub transmit_load: Option<usize>,
    /// Whether the other end can hold us off.
    pub flow_control: FlowControl,
    /// A line that is shared by taking turns.
    pub rs485: Option<Rs485>,
    /// What to do about a port that loses its power, and with it its settings.
    pub power_loss: PowerLoss,
    /// How long a write waits for a port that takes no bytes, counted from the last byte
    /// that it took. See [`GIVE_UP_AFTER`](Self::GIVE_UP_AFTER).
    pub give_up_after: Nanos,
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

/// Whether the other end can hold us off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowControl {
    /// It cannot.
    None,
    /// By its RTS, our CTS. Bytes then go one by one, each after a look at CTS,
    /// because what is in the FIFO goes out whatever CTS says; and a write waits
    /// for CTS twice as long as for a port that is not held off: a second by default.
    Cts,
}

/// Driving a line that is shared by taking turns: RTS enables the transmitter.
///
/// The times are as exact as the clock. With a clock that has long steps, they may be up to
/// one step shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rs485 {
    /// From RTS to the first bit.
    pub before: Nanos,
    /// From the last bit until RTS goes back.
    pub after: Nanos,
}

/// What to do about a port that loses its power, and with it its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerLoss {
    /// Nothing: it does not happen.
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
            while_waiting: None,
        }
    }
}

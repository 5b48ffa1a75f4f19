//! How a console is to use its port.

use nostall_io::Nanos;

use crate::{LineSettings, Model};

/// How a console is to use its port. Made from [`LineSettings`] where the rest
/// is to be as usual.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
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
    /// Run now and then inside long waits, to tell a watchdog that all is well.
    pub while_waiting: Option<fn()>,
}

/// Whether the other end can hold us off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowControl {
    /// It cannot.
    None,
    /// By its RTS, our CTS. Bytes then go one by one, each after a look at CTS,
    /// because what is in the FIFO goes out whatever CTS says; and a write waits
    /// for CTS up to a second.
    Cts,
}

/// Driving a line that is shared by taking turns: RTS enables the transmitter.
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
    /// Look for it before and after every write, by a value in the scratch
    /// register that would be gone (two accesses a write more), and set the port
    /// up anew.
    Recover,
}

impl From<LineSettings> for Settings {
    fn from(line: LineSettings) -> Self {
        Self {
            line,
            model: None,
            transmit_load: None,
            flow_control: FlowControl::None,
            rs485: None,
            power_loss: PowerLoss::Ignore,
            while_waiting: None,
        }
    }
}

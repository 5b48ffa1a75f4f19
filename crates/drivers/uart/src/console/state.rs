//! State of a console.

use nostall_io::{Nanos, Timeout};

use super::lost::Lost;
use crate::pace::Pace;
use crate::{ConsoleSettings, Strategy};

/// Polled console on a serial port.
///
/// `U` is the port's [hardware](crate::UartHardware): the register window of a 16550, or one of
/// another UART. `C` is the clock. The console owns the port: no other
/// code may reprogram it.
///
/// # Lost bytes
///
/// Bytes that the port does not take in time are dropped and counted. Once the port takes bytes
/// again, the console sends `[N bytes lost]` on a line of its own, before anything else. `N` counts
/// bytes of the line, including inserted CRs, and is exact. If the loss was in the middle of a
/// line, the rest of that line follows the report, on a line of its own.
///
/// If the port itself disappeared or lost its power, the bytes in it may or may not have left: the
/// report is then `[up to N bytes lost]`. With [`PowerLoss::Recover`](crate::PowerLoss::Recover),
/// `N` counts all bytes given to the port since its power was last checked.
#[derive(Clone, Debug)]
pub struct Console<U, C> {
    pub(super) uart: U,
    pub(super) clock: C,
    pub(super) settings: ConsoleSettings,
    pub(super) strategy: Strategy,
    pub(super) port: Port,
    pub(super) pace: Pace,
    /// Time during which the port has taken no byte.
    pub(super) outage: Option<Timeout>,
    /// Time during which CTS has been low.
    pub(super) held_off: Option<Timeout>,
    /// The port takes bytes, but never reports that the last one has left.
    pub(super) never_idle: bool,
    /// The port lost its power, and then stayed too busy for a new set-up.
    pub(super) set_up_failed: bool,
    /// The FIFOs worked when the port was opened, but not after a new set-up.
    pub(super) fifo_missing: bool,
    /// Upper bound of the number of bytes in the transmitter.
    pub(super) in_port: usize,
    /// Upper bound of the number of bytes of texts, including inserted CRs, that were given to the
    /// transmitter and may not have left it.
    pub(super) at_risk: usize,
    /// The CR before the next LF has been sent.
    pub(super) cr_sent: bool,
    pub(super) lost: Lost,
    pub(super) turn: Turn,
    pub(super) seen: LatchedStatus,
    /// The receive interrupt is enabled.
    pub(super) receives: bool,
    /// The receive interrupt is masked until [`resume_receive`](Self::resume_receive).
    pub(super) is_paused: bool,
    /// Errors of the byte at the front of the receive FIFO.
    pub(super) front_errors: u8,
}

/// Properties of the port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port {
    pub(super) model: crate::Model,
    pub(super) frame_time: Nanos,
    /// Number of bytes that the transmitter takes when it reports empty; 1 without a FIFO. Derived
    /// from *this driver's* write to the FIFO control register. That register cannot be read: a
    /// read accesses the IIR, and would clear a pending transmit interrupt.
    pub(super) load: usize,
    /// Load with working FIFOs.
    pub(super) full_load: usize,
}

impl Port {
    /// Returns the initial pace, before anything is learned from the line.
    pub(super) fn pace(&self) -> Pace {
        Pace::new(self.load, self.frame_time, self.longest_pause())
    }
}

/// Direction of an RS-485 line. RTS is raised in every state except the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// RTS is low: the other stations use the line.
    Listening,
    /// RTS was raised at this time, and the delay before the first bit is not over.
    Opening(Nanos),
    /// Bytes may be in transit.
    Talking,
    /// The last bit had left at this time, and the delay before RTS is released is not over.
    Closing(Nanos),
}

/// Status bits that a read of their register clears, latched while the line was polled. The receive
/// side needs them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatchedStatus {
    /// Error bits of the [`LSR`](crate::registers::LSR): overrun, parity, framing, break.
    pub line_status: u8,
    /// Delta bits of the [`MSR`](crate::registers::MSR).
    pub modem_status: u8,
}

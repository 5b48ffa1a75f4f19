//! State of a console.

use nostall_io::{Nanos, Timeout};

use super::lost::Lost;
use crate::pace::Pace;
use crate::{ConsoleSettings, Strategy};

/// Most bytes that are loaded at once: the family's largest FIFO.
pub(super) const LARGEST_LOAD: usize = 128;

/// Value of the scratch register while the port has its power.
pub(super) const CANARY: u8 = 0x5a;

/// A polled console on a port of the 16550's family.
///
/// `R` reaches the port's registers, `C` is the clock. The console owns the port: no other
/// code may reprogram it.
///
/// # What is lost is reported
///
/// Bytes that the port does not take in time are dropped and counted. As soon as the port
/// takes bytes again, the console sends `[N bytes lost]` on a line of its own, before
/// anything else. `N` counts bytes of the line, inserted CRs included, and is exact. Where
/// the port itself vanished or lost its power, the bytes that it held may have left or
/// not: the report is then `[up to N bytes lost]`. With [`PowerLoss::Recover`](crate::PowerLoss::Recover), `N` counts
/// all bytes that the port was given since its power was last checked.
#[derive(Clone, Debug)]
pub struct Console<R, C> {
    pub(super) registers: R,
    pub(super) clock: C,
    pub(super) settings: ConsoleSettings,
    pub(super) strategy: Strategy,
    pub(super) port: Port,
    pub(super) pace: Pace,
    /// The port has taken no byte since the timeout began.
    pub(super) outage: Option<Timeout>,
    /// CTS has been low since the timeout began.
    pub(super) held_off: Option<Timeout>,
    /// The port takes bytes, but never shows that the last one has left.
    pub(super) never_idle: bool,
    /// The port lost its power, and stayed too busy to be set up again.
    pub(super) set_up_failed: bool,
    /// The FIFOs worked when the port was opened, and did not when it was set up again.
    pub(super) fifo_missing: bool,
    /// Upper bound of the bytes that are in the transmitter.
    pub(super) in_port: usize,
    /// Upper bound of the text bytes that were given to the transmitter and are not known to
    /// have left it.
    pub(super) at_risk: usize,
    /// Set if the CR before the next LF has been sent.
    pub(super) cr_sent: bool,
    pub(super) lost: Lost,
    pub(super) turn: Turn,
    pub(super) seen: LatchedStatus,
    /// The receive interrupt is enabled.
    pub(super) receives: bool,
    /// And it is masked until [`resume_receive`](Self::resume_receive).
    pub(super) is_paused: bool,
    /// Errors of the byte at the front of the receive FIFO.
    pub(super) front_errors: u8,
}

/// Properties of the port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port {
    pub(super) model: crate::Model,
    pub(super) frame_time: Nanos,
    /// Number of bytes that the transmitter takes when it reports empty, 1 without a FIFO.
    /// Derived from *our* write to the FIFO control register. That register cannot be read: a
    /// read of the IIR in its place would clear a pending transmit interrupt.
    pub(super) load: usize,
    /// The load while the FIFOs work.
    pub(super) full_load: usize,
}

impl Port {
    /// Returns a pace that has learned nothing of the line yet.
    pub(super) fn pace(&self) -> Pace {
        Pace::new(self.load, self.frame_time, self.longest_pause())
    }
}

/// Direction of an RS-485 line. RTS is raised in every state but the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// RTS is low: the other stations have the line.
    Listening,
    /// RTS was raised at this time, and the time before the first bit runs.
    Opening(Nanos),
    /// Bytes may be in transit.
    Talking,
    /// The last bit had left at this time, and the time until RTS goes back runs.
    Closing(Nanos),
}

/// Status bits that a register shows only once, latched while the line was polled. The
/// receive side needs them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatchedStatus {
    /// Error bits of the [`LSR`](crate::registers::LSR): overrun, parity,
    /// framing, break.
    pub line_status: u8,
    /// Delta bits of the [`MSR`](crate::registers::MSR).
    pub modem_status: u8,
}

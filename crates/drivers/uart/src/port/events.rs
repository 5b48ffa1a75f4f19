//! Results of the handler for the task.

#[cfg(feature = "embedded-io-async")]
use core::task::Waker;

/// Results of one call of the handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// New data can be read, including an overrun or a break without a byte, found by a task's call
    /// since the last handler call.
    pub received: bool,
    /// The transmit ring has more room than before.
    pub room: bool,
    /// All bytes have been given to the transmitter. The last byte is still in transit;
    /// [`Port::is_drained`](super::Port::is_drained) returns whether it has left.
    pub drained: bool,
    /// A modem line has changed; [`Port::modem_status`](super::Port::modem_status) returns the
    /// lines.
    pub modem: bool,
    /// The port no longer answers: all bits of a register read as one. The last received byte may
    /// be wrong too.
    pub gone: bool,
    /// The port had more work than one call does. Its interrupt was raised again, so that nothing
    /// is left. If this repeats, the port is stuck, and its interrupt should be masked.
    pub unfinished: bool,
}

/// Counters since a port was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStatistics {
    /// Number of bytes given to the transmitter.
    pub sent: u64,
    /// Number of bytes taken from the receiver, including dropped ones.
    pub received: u64,
    /// Number of times that the port lost bytes because its FIFO was full. It does not report the
    /// number of bytes.
    pub overruns: u64,
    /// Number of bytes with a wrong parity.
    pub parity: u64,
    /// Number of bytes without a stop bit.
    pub framing: u64,
    /// Number of breaks.
    pub breaks: u64,
    /// Number of bytes and breaks for which the receive ring had no room.
    pub dropped: u64,
}

/// Tasks that wait for the port: one reader and one writer.
#[cfg(feature = "embedded-io-async")]
#[derive(Debug, Default)]
pub(super) struct Wakers {
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
}

#[cfg(feature = "embedded-io-async")]
impl Wakers {
    /// Wakes the reader after new data.
    pub(super) fn wake_reader(&mut self) {
        self.reader.take().into_iter().for_each(Waker::wake);
    }

    /// Wakes the tasks for the other results of the handler.
    pub(super) fn wake(&mut self, events: Events) {
        if events.gone {
            self.wake_reader();
        }
        if events.room || events.drained || events.gone {
            self.writer.take().into_iter().for_each(Waker::wake);
        }
    }
}

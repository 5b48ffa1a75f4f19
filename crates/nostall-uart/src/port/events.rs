//! Results of the handler, for the task.

#[cfg(feature = "embedded-io-async")]
use core::task::Waker;

/// Results of one call of the handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// There is something new to read. Also if a call of the task's came upon it
    /// since the last call: an overrun or a break that no byte follows.
    pub received: bool,
    /// There is room in the transmit ring that was not there before.
    pub room: bool,
    /// All bytes have been given to the line. The last byte is still in transit:
    /// [`Port::is_drained`](super::Port::is_drained) returns when it has left.
    pub drained: bool,
    /// A modem line has changed; [`Port::modem_status`](super::Port::modem_status) says how they are.
    pub modem: bool,
    /// The port no longer answers: all bits of a register read one. The last byte may have read
    /// so too.
    pub gone: bool,
    /// The port wanted more than one call gives it. It has been made to interrupt
    /// anew, so that nothing is left lying; if this comes again and again, the
    /// port is stuck, and its interrupt should be masked.
    pub unfinished: bool,
}

/// Counts since a port was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStatistics {
    /// Number of bytes given to the transmitter.
    pub sent: u64,
    /// Number of bytes taken from the receiver, including dropped ones.
    pub received: u64,
    /// Times that the port had lost bytes because its FIFO was full; how many
    /// bytes, it does not say.
    pub overruns: u64,
    /// Number of bytes with a wrong parity.
    pub parity: u64,
    /// Number of bytes without a stop bit.
    pub framing: u64,
    /// Breaks.
    pub breaks: u64,
    /// Number of bytes and breaks for which the receive ring had no room.
    pub dropped: u64,
}

/// Tasks that wait for the port: one reader, one writer.
#[cfg(feature = "embedded-io-async")]
#[derive(Debug, Default)]
pub(super) struct Wakers {
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
}

#[cfg(feature = "embedded-io-async")]
impl Wakers {
    /// Wakes the reader, because something came in.
    pub(super) fn wake_reader(&mut self) {
        self.reader.take().into_iter().for_each(Waker::wake);
    }

    /// Wakes the tasks for the handler's other results.
    pub(super) fn wake(&mut self, events: Events) {
        if events.gone {
            self.wake_reader();
        }
        if events.room || events.drained || events.gone {
            self.writer.take().into_iter().for_each(Waker::wake);
        }
    }
}

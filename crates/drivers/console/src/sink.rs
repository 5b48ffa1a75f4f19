//! Destinations of a drain.

use nostall_io::{Nanos, Offered};

/// Destination of a drain: a serial port, a zone of persistent RAM, a screen or anything else that
/// takes bytes.
///
/// One context at a time calls these methods, with one exception. A panic calls them although
/// another context has not returned: that context has crashed, or is interrupted on the same CPU.
/// So methods take `&self`. A sink keeps its state in a lock that is *tried*, never waited for. A
/// panic that finds the lock taken uses another way to the device, or none. Feature `uart` provides
/// such a sink for a serial port.
pub trait Sink {
    /// Takes the part of `text` that fits now. Returns the number of bytes taken, and the time at
    /// which to offer more, on the drain's clock. Never waits for the line, for any caller. If it
    /// unwinds, the same records are offered again.
    ///
    /// A sink that was ready but took nothing gets the next offer 1 ms later. While it takes
    /// nothing, the interval grows up to 10 ms. A sink that reports [`Offered::GONE`] gets an offer
    /// every second, and every 10 ms from a panic's flush.
    fn offer(&self, text: &[u8], caller: Caller) -> Offered;

    /// Makes an [`offer`](Self::offer), and continues while the sink is ready at once and the drain's
    /// clock shows less than `until`. A drain calls this with more than a [load](Self::load) once
    /// the sink has been ready at once after a load.
    ///
    /// The default makes one offer, of at most one load.
    fn offer_until(&self, text: &[u8], caller: Caller, until: Nanos) -> Offered {
        let _ = until;
        self.offer(&text[..text.len().min(self.load())], caller)
    }

    /// Returns the largest number of bytes that one offer takes, if it is known. A drain renders no
    /// more for an offer. The default is no limit. A panic does not wait for a sink that reports
    /// [`Offered::GONE`] and has no load, such as a port that is not open.
    fn load(&self) -> usize {
        usize::MAX
    }

    /// Takes the start of `text` before its ready time. A panic's flush calls this if the clock
    /// has stopped, so that the time returned from [`offer`](Self::offer) is never reached. May
    /// wait for the line, bounded by polls. If it takes nothing, it returns no time, and the flush
    /// gives up the sink.
    ///
    /// The default calls [`offer`](Self::offer), for a sink that uses no clock.
    fn insist(&self, text: &[u8]) -> Offered {
        self.offer(text, Caller::Panic)
    }

    /// Ends a panic's flush: waits, in bounded time, until the bytes taken have left the machine,
    /// because a reset may follow.
    fn finish(&self) {}
}

impl<S: Sink + ?Sized> Sink for &S {
    fn offer(&self, text: &[u8], caller: Caller) -> Offered {
        (**self).offer(text, caller)
    }
    fn offer_until(&self, text: &[u8], caller: Caller, until: Nanos) -> Offered {
        (**self).offer_until(text, caller, until)
    }
    fn load(&self) -> usize {
        (**self).load()
    }
    fn insist(&self, text: &[u8]) -> Offered {
        (**self).insist(text)
    }
    fn finish(&self) {
        (**self).finish();
    }
}

/// Context that uses a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A running kernel: a slice, or a direct writer.
    Normal,
    /// A panic, for which the other contexts are stopped.
    Panic,
}

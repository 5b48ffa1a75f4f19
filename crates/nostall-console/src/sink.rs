//! Destinations of a drain.

use nostall_io::Offered;

/// A serial port, a zone of persistent RAM, a screen: anything that takes bytes.
///
/// One context at a time is in here, with one exception: a panic enters although another
/// context is inside and does not leave (it crashed, or it is the same CPU, a few frames
/// below). So methods take `&self`. A sink keeps its state in a lock that is *tried*, never
/// waited for. A panic that finds the lock taken has another way in, or none. With feature
/// `uart` the crate has such a sink for a serial port.
pub trait Sink {
    /// Takes the part of `text` that fits now, and returns when to offer more, on the drain's
    /// clock. Never waits for the line, whatever the caller. If it panics, and that unwinds,
    /// the same is offered again.
    ///
    /// A sink that took nothing although it was ready is offered to again 1 ms later. One
    /// that goes on taking nothing is offered to less and less often, down to every 10 ms.
    /// One that is gone is offered to every second.
    fn offer(&self, text: &[u8], caller: Caller) -> Offered;

    /// Returns the most bytes that an offer takes, if it is known: a drain renders no more for an
    /// offer. The default is no limit.
    fn load(&self) -> usize {
        usize::MAX
    }

    /// Takes the beginning of `text` although its time has not come. A panic's flush calls
    /// this if the clock stands still, so that the time that [`offer`](Self::offer) named
    /// will not come. May wait for the line, bounded by polls. A sink that took nothing
    /// returns no time, and the flush gives it up.
    ///
    /// The default is [`offer`](Self::offer), for a sink that uses no clock.
    fn insist(&self, text: &[u8]) -> Offered {
        self.offer(text, Caller::Panic)
    }

    /// Ends a panic's flush: waits, in bounded time, until the bytes that were taken have
    /// left the machine, whose reset may come next.
    fn finish(&self) {}
}

impl<S: Sink + ?Sized> Sink for &S {
    fn offer(&self, text: &[u8], caller: Caller) -> Offered {
        (**self).offer(text, caller)
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

/// The context that uses a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A running kernel: a slice, or a direct writer.
    Normal,
    /// A panic, for which the other contexts are stopped.
    Panic,
}

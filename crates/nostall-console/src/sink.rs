//! What a drain writes to.

use nostall_io::Nanos;

use crate::Priority;

/// A serial port, a zone of persistent RAM, a screen: anything that takes bytes.
///
/// One context at a time is in here, with one exception: a panic comes in although
/// another is there, if that one does not leave (it died; it is this very CPU, a few
/// frames below). So methods take `&self`; a sink keeps its state in a lock that is
/// *tried*, never waited for, and has another way in, or none, for a panic that finds
/// it taken. The crate's front page has a serial port.
pub trait Sink {
    /// Takes what it takes of `text` now, and says when it takes more. Never waits for
    /// the line, whatever the priority. If it panics, and that unwinds, the same is
    /// offered again.
    fn offer(&self, text: &[u8], priority: Priority) -> Offered;

    /// Takes the beginning of `text` although its time has not come. A panic's flush calls
    /// this if the clock stands still, so that the time that [`offer`](Self::offer) named
    /// will not come. May wait for the line, bounded by polls. A sink that took nothing
    /// returns no time, and the flush gives it up.
    ///
    /// The default is [`offer`](Self::offer), for a sink that uses no clock.
    fn insist(&self, text: &[u8], priority: Priority) -> Offered {
        self.offer(text, priority)
    }

    /// The end of a panic's flush: wait, in bounded time, until what was taken has left
    /// the machine, whose reset may come next.
    fn finish(&self) {}
}

impl<S: Sink + ?Sized> Sink for &S {
    fn offer(&self, text: &[u8], priority: Priority) -> Offered {
        (**self).offer(text, priority)
    }
    fn insist(&self, text: &[u8], priority: Priority) -> Offered {
        (**self).insist(text, priority)
    }
    fn finish(&self) {
        (**self).finish();
    }
}

/// What a sink took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    /// Bytes that need not be offered again.
    pub taken: usize,
    /// When to offer the next, in the drain's clock; `None` if the sink is gone.
    ///
    /// A sink that took nothing although it was ready is offered to again 1 ms later.
    /// One that goes on taking nothing is offered to less and less often, down to every
    /// 10 ms; one that is gone, every second.
    pub ready_at: Option<Nanos>,
}

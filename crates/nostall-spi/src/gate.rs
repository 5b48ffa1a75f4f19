//! Who has the bus: one word.

use crate::sync::{AtomicU32, Ordering};

/// Somebody has the bus.
const OWNED: u32 = 1;
/// Something was queued since the queue was last looked through.
const PENDING: u32 = 2;
/// The worker was called, and has not come yet.
const CALLED: u32 = 4;

/// What whoever asked for the bus has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The bus, and nothing is queued.
    Alone,
    /// The bus, and what is queued has its turn first.
    WithQueue,
    /// Nothing: somebody has the bus, and looks at the queue before he lets go.
    Not,
}

/// Whether the bus could be let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// Nobody has it.
    Idle,
    /// The caller has it still: something is queued.
    Queued,
}

/// Who looks at what was just queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Posted {
    /// Whoever has the bus, before he lets go.
    ToOwner,
    /// Nobody has the bus.
    ToNobody,
}

/// The word that decides who has the bus.
///
/// Everything happens by read-modify-write of this one word, so all that happens to
/// it has one order, and none of it is lost: what was queued before its bit was set
/// is seen by whoever clears the bit.
#[derive(Debug)]
pub(crate) struct Gate(AtomicU32);

impl Gate {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Takes the bus if nobody has it. Of an idle bus: one atomic exchange.
    #[inline]
    pub(crate) fn take(&self) -> Taken {
        let (got, not) = (Ordering::Acquire, Ordering::Relaxed);
        match self.0.compare_exchange(0, OWNED, got, not) {
            Ok(_) => Taken::Alone,
            Err(_) => self.take_marked(),
        }
    }

    /// With other bits set, which stay.
    #[cold]
    fn take_marked(&self) -> Taken {
        match self.0.fetch_or(OWNED, Ordering::AcqRel) {
            was if was & OWNED != 0 => Taken::Not,
            was if was & PENDING != 0 => Taken::WithQueue,
            _ => Taken::Alone,
        }
    }

    /// Lets go, unless something was queued; then the mark for it is taken off, and
    /// the caller is to look through the queue and to try again.
    #[inline]
    pub(crate) fn release(&self) -> Released {
        let (got, not) = (Ordering::Release, Ordering::Relaxed);
        match self.0.compare_exchange(OWNED, 0, got, not) {
            Ok(_) => Released::Idle,
            Err(_) => self.release_marked(),
        }
    }

    #[cold]
    fn release_marked(&self) -> Released {
        let mut was = self.0.load(Ordering::Relaxed);
        loop {
            // Each round that fails is one in which somebody queued or called, each
            // of which happens once until we are through.
            let pending = was & PENDING != 0;
            let then = was & !(if pending { PENDING } else { OWNED });
            let (got, not) = (Ordering::AcqRel, Ordering::Relaxed);
            match self.0.compare_exchange(was, then, got, not) {
                Ok(_) if pending => return Released::Queued,
                Ok(_) => return Released::Idle,
                Err(is) => was = is,
            }
        }
    }

    /// Lets go with something queued: whoever takes the bus next has it `WithQueue`.
    /// Not if anything was queued since the caller [looked](Self::look): then the
    /// caller is to look again who there is to be told.
    pub(crate) fn leave(&self) -> bool {
        let mut was = self.0.load(Ordering::Relaxed);
        loop {
            if was & PENDING != 0 {
                return false;
            }
            let (got, not) = (Ordering::AcqRel, Ordering::Relaxed);
            let then = was & !OWNED | PENDING;
            match self.0.compare_exchange(was, then, got, not) {
                Ok(_) => return true,
                Err(is) => was = is,
            }
        }
    }

    /// The caller is about to look through the queue.
    pub(crate) fn look(&self) {
        self.0.fetch_and(!PENDING, Ordering::AcqRel);
    }

    /// Something was queued.
    pub(crate) fn post(&self) -> Posted {
        match self.0.fetch_or(PENDING, Ordering::AcqRel) & OWNED {
            0 => Posted::ToNobody,
            _ => Posted::ToOwner,
        }
    }

    /// Whether it is the caller who has to wake the worker: it was not called yet.
    pub(crate) fn call(&self) -> bool {
        self.0.fetch_or(CALLED, Ordering::AcqRel) & CALLED == 0
    }

    /// The worker has come. Before it looks at anything, so that whoever finds the
    /// bit set has left what there is to do where the worker will see it.
    pub(crate) fn answer(&self) {
        self.0.fetch_and(!CALLED, Ordering::AcqRel);
    }

    /// Whether somebody has the bus. May be true no more when it is returned.
    pub(crate) fn is_owned(&self) -> bool {
        self.0.load(Ordering::Acquire) & OWNED != 0
    }
}

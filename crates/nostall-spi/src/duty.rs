//! What whoever has the bus does for others: how much, and whom he has still to tell.

use nostall_io::Nanos;

use crate::bus::Bus;
use crate::config::Config;
use crate::controller::Controller;
use crate::platform::Platform;
use crate::slot::Wake;

/// So many are told together, at most.
const TOGETHER: usize = 4;

/// So many messages are run in a row, at most: callbacks may submit for ever.
const IN_A_ROW: u32 = 64;

/// What is left of what one who has the bus does for others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    bytes: u32,
    time: Nanos,
    messages: u32,
    /// One message is run whatever it takes: there is nobody else to do it.
    at_least_one: bool,
    /// Bytes and time do not count.
    boundless: bool,
}

impl Budget {
    /// Whatever the messages take: for a worker, who is there for that.
    pub(crate) const WORKER: Self = Self {
        bytes: 0,
        time: Nanos::ZERO,
        messages: IN_A_ROW,
        at_least_one: false,
        boundless: true,
    };

    pub(crate) const fn of(config: &Config) -> Self {
        Self {
            bytes: config.most_bytes,
            time: config.most_time,
            messages: IN_A_ROW,
            at_least_one: false,
            boundless: false,
        }
    }

    /// One that gets somewhere whatever is queued.
    pub(crate) const fn with_one(self) -> Self {
        Self {
            at_least_one: true,
            ..self
        }
    }

    /// Whether there is enough for such a message; then it is spent.
    pub(crate) fn spend(&mut self, bytes: u32, time: Nanos) -> bool {
        let Some(messages) = self.messages.checked_sub(1) else {
            return false;
        };
        let in_bounds = bytes <= self.bytes && time <= self.time;
        let enough = in_bounds || self.at_least_one || self.boundless;
        if enough {
            self.messages = messages;
            self.bytes = self.bytes.saturating_sub(bytes);
            self.time = self.time - time;
            self.at_least_one = false;
        }
        enough
    }

    /// Takes off what it really took.
    pub(crate) fn took(&mut self, reckoned: Nanos, really: Nanos) {
        self.time = self.time - (really - reckoned);
    }
}

/// What whoever has the bus does for others.
///
/// To wake a task takes about as long as a short message, and may take the CPU away
/// from whoever wakes it. So nobody is woken while the bus stands still for it: but
/// when it was let go, or when the CPU would be given away anyway for a longer
/// message. Until then, no more than [`TOGETHER`] short messages pass. One who looks
/// meanwhile sees that his message is through, and needs not be woken.
///
/// Made before the bus is taken, so that it is dropped, whatever happens, when the bus
/// was let go.
pub(crate) struct Duty<'b, C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> {
    bus: &'b Bus<C, P, SLOTS, BYTES>,
    pub(crate) budget: Budget,
    untold: [Option<Untold<P::Task>>; TOGETHER],
    /// Of these, are there.
    count: usize,
}

/// Whoever has waited for a message that is through.
pub(crate) struct Untold<T> {
    pub(crate) index: usize,
    /// Of its place, when it was through. If that has changed, he has seen it.
    pub(crate) word: u32,
    pub(crate) wake: Wake<T>,
}

impl<'b, C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize>
    Duty<'b, C, P, SLOTS, BYTES>
{
    pub(crate) const fn new(bus: &'b Bus<C, P, SLOTS, BYTES>, budget: Budget) -> Self {
        Self {
            bus,
            budget,
            untold: [const { None }; TOGETHER],
            count: 0,
        }
    }

    pub(crate) const fn of_caller(bus: &'b Bus<C, P, SLOTS, BYTES>) -> Self {
        Self::new(bus, Budget::of(&bus.config))
    }

    /// For whoever goes on as nobody else does.
    pub(crate) const fn refill(&mut self) {
        self.budget = Budget::of(&self.bus.config).with_one();
    }

    /// Has `untold` told, before long.
    pub(crate) fn add(&mut self, untold: Untold<P::Task>) {
        if let Some(place) = self.untold.get_mut(self.count) {
            *place = Some(untold);
            self.count += 1;
        }
        if self.count == TOGETHER {
            self.tell();
        }
    }

    /// Wakes those who have not seen it by themselves.
    #[inline]
    pub(crate) fn tell(&mut self) {
        if self.count != 0 {
            self.tell_some();
        }
    }

    #[cold]
    fn tell_some(&mut self) {
        let count = core::mem::take(&mut self.count);
        for untold in &mut self.untold[..count] {
            if let Some(Untold { index, word, wake }) = untold.take()
                && self.bus.queue.slots()[index].word() == word
            {
                self.bus.wake_whatever(wake);
            }
        }
    }
}

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> Drop
    for Duty<'_, C, P, SLOTS, BYTES>
{
    fn drop(&mut self) {
        self.tell();
    }
}

//! The end of a queued message, and who is told.

use crate::bus::Bus;
use crate::controller::Controller;
use crate::duty::Untold;
use crate::error::Error;
use crate::platform::Platform;
use crate::queue::State;
use crate::slot::{Completed, Completion, Wake};
use crate::statistics::count;

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> Bus<C, P, SLOTS, BYTES> {
    /// The message at `index` ended so; whoever is still to be told. It is `from`; not
    /// if it was given up. A callback is called at once.
    pub(crate) fn finish(
        &self,
        index: usize,
        from: State,
        result: Result<(), Error>,
    ) -> Option<Untold<P::Task>> {
        let slot = &self.queue.slots()[index];
        slot.body.enter().result = result;
        if !slot.go(from, State::Finishing) {
            slot.free();
            return None;
        }
        let completion = match from {
            // Others than the waiter may look there.
            State::Claimed => slot.await_completion(),
            _ => slot.take_completion(),
        };
        if let Completion::Call(callback, number) = completion {
            let body = slot.body.enter();
            let completed = Completed {
                number,
                result,
                received: &body.message,
            };
            self.guarded(|| callback(completed));
            drop(body);
            slot.free();
            return None;
        }
        let Some(word) = slot.done() else {
            slot.free();
            return None;
        };
        match completion {
            Completion::Wake(wake) => Some(Untold { index, word, wake }),
            Completion::Kept | Completion::Call(..) => None,
        }
    }

    /// Takes a device's messages out of the queue.
    pub(crate) fn withdraw(&self, device: u32) {
        // Nobody queues more of them meanwhile: the device is being dropped.
        for _ in 0..SLOTS {
            let Some(index) = self.queue.withdraw(device) else {
                break;
            };
            count(&self.counters.cancelled);
            let untold = self.finish(index, State::Claimed, Err(Error::Cancelled));
            if let Some(untold) = untold {
                self.wake_whatever(untold.wake);
            }
        }
    }

    pub(crate) fn wake(&self, wake: Wake<P::Task>) {
        match wake {
            Wake::Task(task) => self.platform.wake(&task),
            Wake::Waker(waker) => self.guarded(|| waker.wake()),
        }
    }

    /// For whoever has others to wake after this one, whatever comes of it.
    pub(crate) fn wake_whatever(&self, wake: Wake<P::Task>) {
        self.guarded(|| match wake {
            Wake::Task(task) => self.platform.wake(&task),
            Wake::Waker(waker) => waker.wake(),
        });
    }

    /// Runs others' code. Where panics unwind, it may.
    fn guarded(&self, act: impl FnOnce()) {
        #[cfg(feature = "std")]
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).is_err() {
            count(&self.counters.panics);
        }
        #[cfg(not(feature = "std"))]
        act();
    }
}

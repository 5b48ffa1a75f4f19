//! Handle of a submitted message.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::ops::ControlFlow;

use nostall_io::Nanos;

use crate::bus::Shared;
use crate::controller::{AsyncController, Controller};
use crate::error::Error;
use crate::owner::Owner;
use crate::ownership::Watched;
use crate::platform::Platform;
use crate::statistics::count;
use crate::wait_mode::{Async, Blocking, Check, WaitMode, block_on_ready};

/// Handle of a [submitted](crate::Device::submit) message. Dropping it withdraws the message if it
/// has not begun. Otherwise the message runs to its end, from memory of the bus.
///
/// The handle may be sent to another thread, but only one context may use it. If an interrupt
/// handler shared it with the interrupted thread, it would wait for that thread forever:
///
/// ```compile_fail,E0277
/// use nostall_spi::{Bare, Pending, controllers::Loopback};
/// fn shared<T: Sync>() {}
/// shared::<Pending<'static, Loopback, Bare<nostall_io::HostClock>>>();
/// ```
pub struct Pending<'b, C, P>
where
    C: Controller,
    P: Platform,
{
    bus: &'b Shared<C, P>,
    index: usize,
    /// Prevents sharing, because its owner locks the message's memory.
    unshared: PhantomData<Cell<()>>,
}

impl<'b, C, P> Pending<'b, C, P>
where
    C: Controller,
    P: Platform,
{
    pub(crate) const fn new(bus: &'b Shared<C, P>, index: usize) -> Self {
        Self {
            bus,
            index,
            unshared: PhantomData,
        }
    }

    /// Returns whether the message is complete. Never waits.
    pub fn is_done(&self) -> bool {
        self.bus.ownership().is_done(self.index)
    }

    /// Waits until the message is complete. On a free bus, the caller runs it.
    ///
    /// # Errors
    ///
    /// The message's error. [`Error::Abandoned`] if the owner of the bus is gone: the message was
    /// withdrawn. [`Error::Unfinished`] if that owner had begun the message, or if it is not
    /// complete and the caller must not wait.
    pub fn wait(&mut self) -> Result<(), Error> {
        block_on_ready(self.ended::<Blocking>())
    }

    async fn ended<W: WaitMode<C>>(&mut self) -> Result<(), Error> {
        let (bus, index) = (self.bus, self.index);
        let mut watch = Watch::new(bus, index);
        while let Some(mut owner) = watch.until::<W>().await? {
            owner.run_until::<W>(index).await;
            if let Some(index) = owner.try_release(true) {
                owner.release_after::<W>(index).await;
            }
        }
        watch.done = true;
        self.result()
    }

    fn result(&self) -> Result<(), Error> {
        self.bus.body(self.index).enter().result
    }

    /// Copies the received bytes of transfer `index`, counted from 0. Returns their number: 0
    /// before the message is complete.
    pub fn received(&self, index: usize, into: &mut [u8]) -> usize {
        if !self.is_done() {
            return 0;
        }
        let body = self.bus.body(self.index).enter();
        let received = body.received(index);
        let len = received.len().min(into.len());
        into[..len].copy_from_slice(&received[..len]);
        len
    }
}

impl<C, P> Pending<'_, C, P>
where
    C: AsyncController,
    P: Platform,
{
    /// Waits until the message is complete, without blocking. On a free bus, the future runs it.
    /// Dropping the future at that time ends the message.
    ///
    /// # Errors
    ///
    /// The same as [`wait`](Self::wait).
    pub async fn finished(&mut self) -> Result<(), Error> {
        self.ended::<Async>().await
    }
}

/// Wait for a message. Dropping it before the end passes on the duty to run the message.
struct Watch<'b, C, P>
where
    C: Controller,
    P: Platform,
{
    bus: &'b Shared<C, P>,
    index: usize,
    done: bool,
    /// Number of messages run at the last progress of the bus.
    seen: u32,
}

impl<'b, C, P> Watch<'b, C, P>
where
    C: Controller,
    P: Platform,
{
    const fn new(bus: &'b Shared<C, P>, index: usize) -> Self {
        Self {
            bus,
            index,
            done: false,
            seen: 0,
        }
    }

    /// Waits until the message is complete, or the caller owns the bus.
    async fn until<W: WaitMode<C>>(&mut self) -> Result<Option<Owner<'b, C, P>>, Error> {
        let (bus, index) = (self.bus, self.index);
        let timeout = bus.config().lock_timeout;
        self.seen = bus.counters.messages();
        // Wait and time since which the bus has made no progress.
        let (mut still, mut since) = (Nanos::ZERO, None);
        bus.until::<W, _>(|check| {
            let Check { waker, now, waited } = check;
            let messages = bus.counters.messages();
            if messages != self.seen {
                self.seen = messages;
                (still, since) = (waited, None);
            }
            let since = *since.get_or_insert(now);
            // After the time limit, do not wait for a called worker.
            let late = waited - still >= timeout;
            let worker = bus.has_worker() && !late;
            let (watched, wakers) = bus
                .ownership()
                .watch(index, waker, worker, now, timeout, messages);
            bus.see_to(wakers);
            // While the clock is stopped, no grant and no transfer expires.
            let gone = || !bus.is_long(now) && bus.ownership().abandon(messages);
            let stuck = || late && (gone() || now - since < timeout / 2);
            ControlFlow::Break(match watched {
                Watched::Done => Ok(None),
                Watched::Ours(token) => Ok(Some(Owner::new(bus, token))),
                Watched::Abandoned => self.give_up(now),
                Watched::Wait if waker.is_none() => Err(Error::Unfinished),
                Watched::Wait if stuck() => self.give_up(now),
                Watched::Wait => return ControlFlow::Continue(now + timeout),
            })
        })
        .await
    }

    /// Ends a wait for an owner that is gone. Withdraws the message, so that a caller can send it
    /// again. A message that was begun is not withdrawn.
    fn give_up<T>(&self, now: Nanos) -> Result<Option<T>, Error> {
        let (bus, index) = (self.bus, self.index);
        let (withdrawn, wakers) = bus.ownership().give_up(index, now);
        bus.see_to(wakers);
        if withdrawn {
            count(&bus.counters.cancelled);
            bus.body(index).enter().result = Err(Error::Abandoned);
        }
        match bus.ownership().is_done(index) {
            true => Ok(None),
            false => Err(Error::Unfinished),
        }
    }
}

impl<C, P> Drop for Watch<'_, C, P>
where
    C: Controller,
    P: Platform,
{
    fn drop(&mut self) {
        if !self.done {
            let now = self.bus.platform.now();
            let wakers = self.bus.ownership().unwatch(self.index, now);
            self.bus.see_to(wakers);
        }
    }
}

impl<C, P> Drop for Pending<'_, C, P>
where
    C: Controller,
    P: Platform,
{
    fn drop(&mut self) {
        let bus = self.bus;
        let (withdrawn, wakers) = bus.ownership().cancel(self.index, bus.platform.now());
        if withdrawn {
            count(&bus.counters.cancelled);
        }
        bus.see_to(wakers);
    }
}

impl<C, P> fmt::Debug for Pending<'_, C, P>
where
    C: Controller,
    P: Platform,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("done", &self.is_done())
            .finish_non_exhaustive()
    }
}

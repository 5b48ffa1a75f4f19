//! The handle of a submitted message.

use core::cell::Cell;
use core::fmt;
use core::future::poll_fn;
use core::marker::PhantomData;
use core::task::Poll;

use nostall_io::Nanos;

use crate::bus::Bus;
use crate::controller::{AsyncController, Controller};
use crate::elapsed::{Elapsed, NEVER};
use crate::error::Error;
use crate::owner::Owner;
use crate::ownership::Watched;
use crate::platform::Platform;
use crate::statistics::count;

/// A message that was [submitted](crate::Device::submit). Dropping the handle withdraws
/// the message if it has not begun; otherwise it runs to its end, from memory of the bus.
///
/// It may be sent to another thread, and used by one context at a time. An interrupt handler
/// that shared it with the thread that it interrupts would wait for that thread for ever:
///
/// ```compile_fail,E0277
/// use nostall_spi::{Bare, Pending, controllers::Loopback};
/// fn shared<T: Sync>() {}
/// shared::<Pending<'static, Loopback, Bare<nostall_io::HostClock>, 4, 4, 16>>();
/// ```
pub struct Pending<'b, C, P, const W: usize, const S: usize, const B: usize>
where
    C: Controller,
    P: Platform,
{
    bus: &'b Bus<C, P, W, S, B>,
    index: usize,
    /// Not shared: its owner locks the message's memory.
    unshared: PhantomData<Cell<()>>,
}

impl<'b, C, P, const W: usize, const S: usize, const B: usize> Pending<'b, C, P, W, S, B>
where
    C: Controller,
    P: Platform,
{
    pub(crate) const fn new(bus: &'b Bus<C, P, W, S, B>, index: usize) -> Self {
        Self {
            bus,
            index,
            unshared: PhantomData,
        }
    }

    /// Whether the message is through. Never waits.
    pub fn is_done(&self) -> bool {
        self.bus.ownership.is_done(self.index)
    }

    /// Waits until the message is through. On a free bus, it is run here.
    ///
    /// # Errors
    ///
    /// The message's error; [`Error::WouldBlock`] if it is not through and the caller must
    /// not wait; [`Error::Abandoned`] if the owner of the bus is gone.
    pub fn wait(&mut self) -> Result<(), Error> {
        let bus = self.bus;
        let waker = bus.platform.current();
        let mut watch = Watch::new(bus, self.index);
        loop {
            let now = bus.platform.now();
            let timeout = bus.config.lock_timeout;
            let ownership = &bus.ownership;
            let worker = bus.has_worker() && !watch.late;
            let (watched, wakers) =
                ownership.watch(self.index, waker.as_ref(), worker, now, timeout);
            bus.see_to(wakers);
            match watched {
                Watched::Done => break,
                Watched::Ours(token) => {
                    let mut owner = Owner::new(bus, token);
                    owner.run_until(self.index);
                    owner.release();
                }
                Watched::Abandoned => return Err(Error::Abandoned),
                Watched::Wait if waker.is_none() => return Err(Error::WouldBlock),
                Watched::Wait if watch.is_stuck(timeout) => return Err(Error::Abandoned),
                // Looks at once, without the worker.
                Watched::Wait if watch.late && worker => {}
                Watched::Wait => bus.platform.block(now + timeout),
            }
        }
        watch.done = true;
        self.result()
    }

    fn result(&self) -> Result<(), Error> {
        self.bus.bodies[self.index].enter().result
    }

    /// Copies the input of transfer `index`, counted from 0, and returns its length:
    /// 0 before the message is through.
    pub fn received(&self, index: usize, into: &mut [u8]) -> usize {
        if !self.is_done() {
            return 0;
        }
        let body = self.bus.bodies[self.index].enter();
        let received = body.received(index);
        let len = received.len().min(into.len());
        into[..len].copy_from_slice(&received[..len]);
        len
    }
}

impl<C, P, const W: usize, const S: usize, const B: usize> Pending<'_, C, P, W, S, B>
where
    C: AsyncController,
    P: Platform,
{
    /// Waits until the message is through, without blocking. On a free bus, the future
    /// runs it. Dropping the future while it does ends the message.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub async fn finished(&mut self) -> Result<(), Error> {
        let bus = self.bus;
        let index = self.index;
        let mut watch = Watch::new(bus, index);
        loop {
            let owner = poll_fn(|context| {
                let now = bus.platform.now();
                let timeout = bus.config.lock_timeout;
                let waker = Some(context.waker());
                let worker = bus.has_worker() && !watch.late;
                let (watched, wakers) = bus.ownership.watch(index, waker, worker, now, timeout);
                let watched = match watched {
                    Watched::Done => Poll::Ready(Ok(None)),
                    Watched::Ours(token) => Poll::Ready(Ok(Some(Owner::new(bus, token)))),
                    Watched::Abandoned => Poll::Ready(Err(Error::Abandoned)),
                    Watched::Wait if watch.is_stuck(Nanos::ZERO) => {
                        Poll::Ready(Err(Error::Abandoned))
                    }
                    // Looks at once, without the worker.
                    Watched::Wait if watch.late && worker => {
                        context.waker().wake_by_ref();
                        Poll::Pending
                    }
                    Watched::Wait => {
                        bus.platform.wake_at(now + timeout, context.waker());
                        Poll::Pending
                    }
                };
                bus.see_to(wakers);
                watched
            })
            .await?;
            let Some(mut owner) = owner else {
                break;
            };
            owner.run_until_async(index).await;
            owner.release_async().await;
        }
        watch.done = true;
        self.result()
    }
}

/// A wait for a message. Dropping it before the end hands the duty to run the message on.
struct Watch<'b, C, P, const W: usize, const S: usize, const B: usize>
where
    C: Controller,
    P: Platform,
{
    bus: &'b Bus<C, P, W, S, B>,
    index: usize,
    done: bool,
    /// Messages run when the bus last moved.
    seen: u32,
    /// Since then.
    still: Elapsed,
    /// The bus has not moved for too long: a worker that was called is not waited for.
    late: bool,
}

impl<'b, C, P, const W: usize, const S: usize, const B: usize> Watch<'b, C, P, W, S, B>
where
    C: Controller,
    P: Platform,
{
    fn new(bus: &'b Bus<C, P, W, S, B>, index: usize) -> Self {
        Self {
            bus,
            index,
            done: false,
            seen: bus.counters.messages(),
            still: Elapsed::new(bus.platform.now()),
            late: false,
        }
    }

    /// Whether the owner has not moved for too long. The context blocks for `span` between
    /// two looks.
    fn is_stuck(&mut self, span: Nanos) -> bool {
        let bus = self.bus;
        let (messages, now) = (bus.counters.messages(), bus.platform.now());
        if messages != self.seen {
            self.seen = messages;
            self.still = Elapsed::new(now);
        }
        let still = match span {
            Nanos::ZERO => self.still.at(now),
            span => self.still.after(span, now),
        };
        self.late = still >= bus.config.lock_timeout;
        // Where the clock stands still, no grant comes to its end.
        self.late && (bus.ownership.abandon() || still == NEVER)
    }
}

impl<C, P, const W: usize, const S: usize, const B: usize> Drop for Watch<'_, C, P, W, S, B>
where
    C: Controller,
    P: Platform,
{
    fn drop(&mut self) {
        if !self.done {
            let now = self.bus.platform.now();
            let wakers = self.bus.ownership.unwatch(self.index, now);
            self.bus.see_to(wakers);
        }
    }
}

impl<C, P, const W: usize, const S: usize, const B: usize> Drop for Pending<'_, C, P, W, S, B>
where
    C: Controller,
    P: Platform,
{
    fn drop(&mut self) {
        let bus = self.bus;
        let (withdrawn, wakers) = bus.ownership.cancel(self.index, bus.platform.now());
        if withdrawn {
            count(&bus.counters.cancelled);
        }
        bus.see_to(wakers);
    }
}

impl<C, P, const W: usize, const S: usize, const B: usize> fmt::Debug for Pending<'_, C, P, W, S, B>
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

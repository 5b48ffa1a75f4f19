//! The round of a worker, and sleep of the hardware.
//!
//! A worker's task and a main loop run it in `poll`, an executor in `serve`. Timers and interrupts
//! only make them call it.

use core::future::poll_fn;
use core::mem::take;
use core::task::Poll;

use nostall_io::{Counter, Nanos};

use crate::bus::Shared;
use crate::cold::{Cold, NEVER};
use crate::controller::{AsyncController, Controller};
use crate::error::Error;
use crate::owner::{FUTURE, Owner, THREAD};
use crate::platform::Platform;
use crate::station::Station;
use crate::statistics::{count, raise};
use crate::sync::Ordering;
use crate::wait_mode::{Async, Blocking, WaitMode, block_on_ready};

impl<C, P> Shared<C, P>
where
    C: Controller,
    P: Platform,
{
    /// Wakes the hardware if it sleeps.
    #[inline]
    pub(crate) fn prepare(&self, station: &mut Station<C>) -> Result<(), Error> {
        match station.is_prepared() {
            true => Ok(()),
            false => self.prepare_sleeping(station),
        }
    }

    #[cold]
    fn prepare_sleeping(&self, station: &mut Station<C>) -> Result<(), Error> {
        let failed = |fault| Error::Failed { transfer: 0, fault };
        station.prepare().map_err(failed)?;
        raise(&self.counters.preparations, 1);
        // A worker that begins meanwhile finds the bus owned, and polls again.
        if self.has_worker() && self.config().idle_timeout > Nanos::ZERO {
            let check = self.platform.now() + self.config().idle_timeout;
            station.begin_idle(check);
            self.poll_at(check);
        }
        Ok(())
    }

    pub(crate) fn has_worker(&self) -> bool {
        self.has_async_worker() || self.platform.poll_at(NEVER)
    }

    /// Returns whether the worker is a future.
    fn has_async_worker(&self) -> bool {
        self.worker.load(Ordering::Acquire) & FUTURE != 0
    }

    /// Makes the worker poll at `at` or earlier. If it has just ended, `rouse_without_worker` finds
    /// none.
    pub(crate) fn poll_at(&self, at: Nanos) {
        match self.has_async_worker() {
            true => self.wake(self.slots.cold(|cold| cold.poll_at(at))),
            false => _ = self.platform.poll_at(at),
        }
    }

    /// Does all work that is due. Returns the latest time of the next call; `None` if none is
    /// needed. For the worker or the main loop.
    ///
    /// Runs at most 64 stored messages, and puts the hardware to sleep when its idle time is over.
    /// Also wakes futures whose wait is over, and removes waiters that do not respond.
    ///
    /// The platform makes its worker call this at the times of [`Platform::poll_at`]. A worker that
    /// ends calls it once more after `poll_at` has begun to return `false`.
    pub fn poll(&self) -> Option<Nanos> {
        block_on_ready(self.round::<Blocking>())
    }

    /// Does the same, blocking or asynchronously.
    async fn round<W: WaitMode<C>>(&self) -> Option<Nanos> {
        let time = self.platform.now();
        self.ownership().answer();
        self.wake(self.slots.cold(|cold| cold.late_owner(time)));
        let wakers = self.ownership().expire(time, self.config().lock_timeout);
        self.see_to(wakers);
        let Some(mut owner) = Owner::take_any(self) else {
            // The owner runs the stored messages; afterwards, the hardware is awake.
            self.rouse_without_worker();
            let check = time + self.config().idle_timeout.max(Nanos::from_millis(1));
            return Some(check.min(self.next_end(time)));
        };
        if self.has_worker() {
            owner = owner.into_worker();
        }
        let more = owner.run_in_a_row::<W>().await;
        let check = match more {
            true => time,
            false => self.autosuspend(&mut owner),
        };
        owner.release_now();
        Some(check.min(self.next_end(time))).filter(|at| *at < NEVER)
    }

    /// Puts the hardware to sleep after enough time without messages. Returns the time of the next
    /// check.
    fn autosuspend(&self, owner: &mut Owner<'_, C, P>) -> Nanos {
        let mut station = owner.station();
        if !station.is_prepared() {
            return NEVER;
        }
        let check = station.idle_end(|| self.platform.now() + self.config().idle_timeout);
        if self.platform.now() < check {
            return check;
        }
        station.unprepare();
        raise(&self.counters.teardowns, 1);
        NEVER
    }

    /// Returns the time to check a future in line, or one that waits for the controller without a
    /// timer.
    fn next_end(&self, now: Nanos) -> Nanos {
        let interrupt = self.slots.cold(|cold| cold.deadline());
        let expiry = self
            .ownership()
            .next_expiry(now, self.config().lock_timeout);
        interrupt.unwrap_or(NEVER).min(expiry.unwrap_or(NEVER))
    }

    /// Wakes the worker to [poll](Self::poll), unless it was already called. Without a worker,
    /// wakes the oldest context in line.
    pub fn call_worker(&self) {
        self.call(false);
    }

    /// Does the same. A worker that calls itself does not count as woken.
    #[cold]
    pub(crate) fn call(&self, is_worker: bool) {
        if self.has_worker() && self.ownership().call() {
            if !is_worker {
                count(&self.counters.wakeups);
                nostall_io::count(Counter::SpiWakeups, 1);
            }
            self.poll_at(Nanos::ZERO);
        }
        self.rouse_without_worker();
    }

    /// Passes the messages of a call on to other contexts, if the worker has ended just before the
    /// call. A worker announces its end before it checks the line for the last time. This check
    /// comes after the messages were stored.
    fn rouse_without_worker(&self) {
        if !self.has_worker() {
            self.ownership().answer();
            self.rouse();
        }
    }

    /// Gives the worker's role to a future (`FUTURE`) or a thread (`THREAD`). Returns `false` if it
    /// is taken.
    pub(crate) fn begin_service(&self, kind: u8) -> bool {
        let (got, not) = (Ordering::AcqRel, Ordering::Acquire);
        let free = |was: u8| (was & (FUTURE | THREAD) == 0).then_some(was | kind);
        self.worker.fetch_update(got, not, free).is_ok()
    }

    /// Ends the service of a future that is the worker.
    pub(crate) fn end_service(&self) {
        let unused = self.slots.cold(|cold| {
            // In this critical section, so that a successor's calls are not cleared.
            self.worker.swap(0, Ordering::AcqRel);
            cold.begin_poll()
        });
        self.guarded_drop(unused);
    }

    /// Wakes the oldest context in line if the bus is free and none is awake.
    pub(crate) fn rouse(&self) {
        let wakers = self.ownership().rouse(self.platform.now());
        self.see_to(wakers);
    }

    /// Ends a stored message that was run: calls its callback, or wakes its handle.
    pub(crate) fn finish(&self, index: usize) {
        let called = {
            let body = self.body(index).enter();
            if let Some(then) = body.then {
                self.guarded(|| body.call(then));
            }
            body.then.is_some()
        };
        let wake = self.ownership().finish(index);
        if called {
            let (_, wakers) = self.ownership().cancel(index, Nanos::ZERO);
            self.see_to(wakers);
        }
        self.wake(wake);
    }
}

/// Asynchronous worker.
impl<C, P> Shared<C, P>
where
    C: AsyncController,
    P: Platform,
{
    /// Serves as the worker on an asynchronous executor, without blocking it, until the future is
    /// dropped. It runs submitted messages, removes futures that do not respond, and puts the
    /// hardware to sleep.
    ///
    /// The platform's timer wakes it ([`Platform::wake_at`]). Without one, the main loop also calls
    /// [`poll`](Self::poll). Returns [`Error::AlreadyServed`] if the bus already has a worker.
    pub async fn serve(&self) -> Error {
        if self.has_worker() || !self.begin_service(FUTURE) {
            return Error::AlreadyServed;
        }
        let _serving = Serving(self);
        loop {
            let unused = self.slots.cold(Cold::begin_poll);
            self.guarded_drop(unused);
            if let Some(next) = self.round::<Async>().await {
                self.poll_at(next);
            }
            let mut yields = true;
            poll_fn(|context| {
                let now = self.platform.now();
                let mut waker = Some(context.waker().clone());
                let next = self.slots.cold(|cold| cold.sleep(now, &mut waker));
                self.guarded_drop(waker);
                match next {
                    // The next time may already have passed, again and again.
                    None if !take(&mut yields) => return Poll::Ready(()),
                    None => context.waker().wake_by_ref(),
                    Some(NEVER) => {}
                    Some(next) => _ = self.platform.wake_at(next, context.waker()),
                }
                yields = false;
                Poll::Pending
            })
            .await;
        }
    }
}

/// A future that serves as the worker of the bus.
struct Serving<'b, C, P>(&'b Shared<C, P>)
where
    C: Controller,
    P: Platform;

impl<C, P> Drop for Serving<'_, C, P>
where
    C: Controller,
    P: Platform,
{
    /// Ends the worker. From now on, callers find no worker. Calls that it has not answered are
    /// passed on here.
    fn drop(&mut self) {
        self.0.end_service();
        self.0.rouse_without_worker();
    }
}

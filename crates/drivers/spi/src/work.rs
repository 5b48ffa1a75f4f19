//! Worker, `poll` as its replacement, and sleep of the hardware.

use core::future::poll_fn;
use core::mem::take;
use core::task::Poll;

use nostall_io::{Counter, Nanos};

use crate::bus::Shared;
use crate::controller::{AsyncController, Controller};
use crate::duty::{Duty, NEVER};
use crate::error::Error;
use crate::face::{Awaited, Blocking, Face, now};
use crate::owner::{Owner, SERVED, THREAD};
use crate::platform::Platform;
use crate::station::Station;
use crate::statistics::{count, raise};
use crate::sync::{Ordering, fence};
use crate::waiting::yield_now;

impl<C, P> Shared<C, P>
where
    C: Controller,
    P: Platform,
{
    /// Wakes the hardware if it sleeps.
    #[inline]
    pub(crate) fn prepare(&self, station: &mut Station<C>) -> Result<(), Error> {
        match station.prepared {
            true => Ok(()),
            false => self.prepare_sleeping(station),
        }
    }

    #[cold]
    fn prepare_sleeping(&self, station: &mut Station<C>) -> Result<(), Error> {
        let failed = |fault| Error::Failed { transfer: 0, fault };
        station.controller.prepare().map_err(failed)?;
        station.prepared = true;
        raise(&self.counters.preparations, 1);
        // Either this context sees a worker that begins, or that worker sees the hardware awake.
        fence(Ordering::SeqCst);
        if self.has_worker() {
            self.look_later();
        }
        Ok(())
    }

    fn is_prepared(&self) -> bool {
        let counters = &self.counters;
        let preparations = counters.preparations.load(Ordering::Relaxed);
        preparations != counters.teardowns.load(Ordering::Relaxed)
    }

    pub(crate) fn has_worker(&self) -> bool {
        self.is_served() || self.platform.poll_at(NEVER)
    }

    /// Returns whether the worker is a future.
    fn is_served(&self) -> bool {
        self.served.load(Ordering::Acquire) & SERVED != 0
    }

    fn wake_worker(&self) {
        match self.is_served() {
            true => self.wake(self.with_duty(Duty::call)),
            // If the worker has just ended, `rouse_without_worker` finds none.
            false => _ = self.platform.poll_at(Nanos::ZERO),
        }
    }

    /// Begins the worker's timer. Ignores an earlier worker's decision to put the hardware to
    /// sleep, because it may have been used since.
    fn begin_timer(&self) {
        fence(Ordering::SeqCst);
        self.with_duty(|duty| duty.suspend_due = false);
        self.look_later();
    }

    /// Runs stored messages, and puts the hardware to sleep when its idle time is over. Returns
    /// whether messages may be left.
    pub(crate) fn work(&self) -> bool {
        now(self.work_round::<Blocking>())
    }

    /// Returns whether messages may be left.
    async fn work_round<F: Face<C>>(&self) -> bool {
        self.ownership().answer();
        let Some(owner) = Owner::take_any(self) else {
            // The owner runs the stored messages.
            self.autosuspend_later();
            self.rouse_without_worker();
            return false;
        };
        let mut owner = owner.into_worker();
        let more = owner.run_in_a_row::<F>().await;
        self.end_work(owner, more);
        more
    }

    /// Frees the bus after a round of messages. More may be left.
    fn end_work(&self, mut owner: Owner<'_, C, P>, more: bool) {
        match more {
            true => self.autosuspend_later(),
            false => self.autosuspend(&mut owner),
        }
        owner.release_now();
    }

    /// Schedules another check one idle timeout later, if the hardware was to be put to sleep.
    fn autosuspend_later(&self) {
        if self.with_duty(|duty| take(&mut duty.suspend_due)) {
            self.look_later();
        }
    }

    /// Puts the hardware to sleep after enough time without messages.
    fn autosuspend(&self, owner: &mut Owner<'_, C, P>) {
        let messages = self.counters.messages();
        let (suspend_due, idle) =
            self.with_duty(|duty| (take(&mut duty.suspend_due), duty.is_idle(messages)));
        if suspend_due && idle || self.config.idle_timeout == Nanos::ZERO {
            self.unprepare(owner);
        } else if suspend_due {
            self.look_later();
        }
    }

    fn unprepare(&self, owner: &mut Owner<'_, C, P>) {
        let mut station = owner.station();
        if station.prepared {
            station.unprepare();
            raise(&self.counters.teardowns, 1);
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
        match self.has_worker() {
            true => self.poll_as_worker(),
            false => self.poll_alone(self.platform.now()),
        }
    }

    fn poll_as_worker(&self) -> Option<Nanos> {
        let now = self.platform.now();
        let timer = self.with_duty(|duty| duty.timer);
        match timer {
            // The hardware may have been woken before there was a worker.
            NEVER => self.begin_timer(),
            _ if now >= timer => self.on_timer(),
            // A worker that is a future has a timer only if the platform wakes futures.
            _ if self.is_served() => drop(self.wake_late(now)),
            _ => {}
        }
        if self.work() {
            return Some(now);
        }
        let timer = self.with_duty(|duty| duty.timer);
        let next = match self.is_served() {
            true => timer.min(self.next_end(now)),
            false => timer,
        };
        Some(next).filter(|at| *at < NEVER)
    }

    pub(crate) fn poll_alone(&self, time: Nanos) -> Option<Nanos> {
        self.ownership().answer();
        self.wake_late(time);
        let Some(mut owner) = Owner::take_any(self) else {
            // The owner runs the stored messages; afterwards, the hardware is awake.
            self.rouse_without_worker();
            let look = time + self.config.idle_timeout.max(Nanos::from_millis(1));
            return Some(look.min(self.next_end(time)));
        };
        let more = now(owner.run_in_a_row::<Blocking>());
        let messages = self.counters.messages();
        let look = self.with_duty(|duty| {
            if !duty.is_idle(messages) {
                duty.begin_idle(time + self.config.idle_timeout, messages);
            }
            duty.look
        });
        if !more && time >= look {
            self.unprepare(&mut owner);
        }
        owner.release_now();
        if more {
            return Some(time);
        }
        let look = if self.is_prepared() { look } else { NEVER };
        Some(look.min(self.next_end(time))).filter(|at| *at < NEVER)
    }

    /// Wakes contexts whose wait is over, and removes waiters that do not respond. Returns whether
    /// stored messages waited for a removed waiter.
    fn wake_late(&self, now: Nanos) -> bool {
        self.wake(self.cold.with(|cold| cold.interrupt.late(now)));
        let (stored, wakers) = self.ownership().expire(now, self.config.lock_timeout);
        self.see_to(wakers);
        stored
    }

    /// Returns the time to check a future in line, or one that waits for the controller without a
    /// timer.
    fn next_end(&self, now: Nanos) -> Nanos {
        let interrupt = self.cold.with(|cold| cold.interrupt.deadline());
        let expiry = self.ownership().next_expiry(now, self.config.lock_timeout);
        interrupt.unwrap_or(NEVER).min(expiry.unwrap_or(NEVER))
    }

    /// Handles the expiry of the timer: removes waiters that do not respond, and checks whether the
    /// bus is idle.
    pub(crate) fn on_timer(&self) {
        let (now, timeout) = (self.platform.now(), self.config.lock_timeout);
        self.with_duty(|duty| duty.timer = NEVER);
        if self.wake_late(now) {
            self.call_worker();
        }
        // The order matters: a message is counted before its owner frees the bus.
        let is_owned = self.ownership().is_owned();
        let messages = self.counters.messages();
        let (early, idle) = self.with_duty(|duty| (duty.early, duty.is_idle(messages)));
        if early {
            return self.set_timer();
        }
        if is_owned || !idle || self.ownership().next_expiry(now, timeout).is_some() {
            return self.look_later();
        }
        if self.is_prepared() {
            self.with_duty(|duty| duty.suspend_due = true);
            self.call_worker();
        }
    }

    /// Sets the timer to check for activity one idle timeout later.
    #[cold]
    fn look_later(&self) {
        let messages = self.counters.messages();
        let look = self.platform.now() + self.config.idle_timeout;
        self.with_duty(|duty| duty.begin_idle(look, messages));
        self.set_timer();
    }

    /// Sets the timer for the earliest expected event: the hardware may be put to sleep, or a waiter
    /// may have to be removed. Without an expected event, sets no timer.
    #[cold]
    pub(crate) fn set_timer(&self) {
        let now = self.platform.now();
        let sleeps = self.is_prepared() && self.config.idle_timeout > Nanos::ZERO;
        let end = self.next_end(now);
        let at = self.with_duty(|duty| {
            let look = if sleeps { duty.look } else { NEVER };
            let at = look.min(end);
            duty.early = at < look;
            at
        });
        if at == NEVER {
            return;
        }
        self.wake(self.with_duty(|duty| duty.set_timer(at)));
        if !self.is_served() {
            self.platform.poll_at(at);
        }
    }

    /// Wakes the worker to [poll](Self::poll), unless it was already called. Without a worker,
    /// wakes the oldest context in line.
    pub fn call_worker(&self) {
        if self.has_worker() && self.ownership().call() {
            count(&self.counters.wakeups);
            nostall_io::count(Counter::SpiWakeups, 1);
            self.wake_worker();
        }
        self.rouse_without_worker();
    }

    /// Calls the worker, because stored messages were left when the bus was freed.
    #[cold]
    pub(crate) fn call_for_rest(&self, is_worker: bool) {
        if !is_worker {
            return self.call_worker();
        }
        // The worker calls itself, which does not count as a wake-up.
        if self.has_worker() && self.ownership().call() {
            self.wake_worker();
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

    /// Gives the worker's role to a future (`SERVED`) or a thread (`THREAD`). Returns `false` if it
    /// is taken.
    pub(crate) fn begin_service(&self, kind: u32) -> bool {
        let (got, not) = (Ordering::AcqRel, Ordering::Acquire);
        let free = |was: u32| (was & (SERVED | THREAD) == 0).then_some(was | kind);
        self.served.fetch_update(got, not, free).is_ok()
    }

    /// Ends the service of a future that is the worker.
    pub(crate) fn end_service(&self) {
        let unused = self.with_duty(|duty| {
            // In this critical section, so that a successor's calls are not cleared.
            self.served.swap(0, Ordering::AcqRel);
            duty.called = false;
            duty.timer = NEVER;
            duty.waker.take()
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
        if self.has_worker() || !self.begin_service(SERVED) {
            return Error::AlreadyServed;
        }
        let _serving = Serving(self);
        self.begin_timer();
        let mut called = true;
        loop {
            match called {
                true if !self.work_round::<Awaited>().await => {}
                true => yield_now().await,
                false => {
                    self.on_timer();
                    // The next time may already have passed.
                    yield_now().await;
                }
            }
            called = poll_fn(|context| {
                let waker = context.waker().clone();
                let now = self.platform.now();
                let (due, timer, unused) = self.with_duty(|duty| duty.look(now, waker));
                self.guarded_drop(unused);
                if due.is_none() && timer < NEVER {
                    self.platform.wake_at(timer, context.waker());
                }
                due.map_or(Poll::Pending, Poll::Ready)
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

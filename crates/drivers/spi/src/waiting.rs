//! Waits of a bus's owner: for the controller, and in delays.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Poll, Waker};

use nostall_io::{Held, Nanos, StallCondition, Timeout};

use crate::cold::Cold;
use crate::controller::{Progress, Waits};
use crate::platform::Platform;
use crate::slots::AnySlots;
use crate::sync::{AtomicU32, Ordering};

/// Longest wait that keeps the CPU; longer ones yield it.
const SHORT: Nanos = Nanos::from_micros(50);

/// Extra time of a transfer beyond twice its own, for interrupts, other tasks on the CPU and slow
/// memory.
pub(crate) const GRACE: Nanos = Nanos::from_millis(200);

/// Poll interval of a controller whose interrupt cannot be waited for.
const INTERVAL: Nanos = Nanos::from_micros(1);

/// Largest number of words that need no record of their time limit: they are sent long before an
/// owner counts as gone.
pub(crate) const UNRECORDED: usize = 4096;

/// Assumed duration of a read of a stopped clock.
pub(crate) const CLOCK_READ: Nanos = Nanos(10);

/// Ways in which an owner of the bus waits.
pub(crate) struct Waiting<'b, P> {
    pub(crate) platform: &'b P,
    /// Second of the clock at which a long transfer has reached its time limit.
    pub(crate) long: &'b AtomicU32,
    pub(crate) slots: &'b dyn AnySlots,
}

impl<P> Clone for Waiting<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Waiting<'_, P> {}

/// A wait, which begins with its first check. A jump of the clock ends it.
pub(crate) struct Wait {
    timeout: Timeout,
    last: Nanos,
    deadline: Nanos,
    /// Set if the context blocks.
    held: Option<Held>,
}

impl Wait {
    /// Checks the wait at `now`, after a pause of at most `pause`. The pause counts only if the
    /// clock has stopped, because it may have ended early.
    pub(crate) fn check(
        wait: &mut Option<Self>,
        now: Nanos,
        pause: Nanos,
        span: impl FnOnce() -> Nanos,
    ) -> &Timeout {
        if let Some(wait) = wait {
            let last = core::mem::replace(&mut wait.last, now);
            wait.timeout
                .charge(now, if now > last { CLOCK_READ } else { pause });
            if now < last {
                wait.deadline = now + wait.timeout.left();
            }
        }
        let begins = || {
            let span = span();
            Self {
                timeout: Timeout::new(now, span).largest_step(Nanos(u64::MAX)),
                last: now,
                deadline: now + span,
                held: None,
            }
        };
        &wait.get_or_insert_with(begins).timeout
    }

    /// Checks the wait of a future. Returns the time of the next check; `None` when the wait is
    /// over.
    fn next(wait: &mut Option<Self>, now: Nanos, span: impl FnOnce() -> Nanos) -> Option<Nanos> {
        let is_over = Self::check(wait, now, CLOCK_READ, span).is_over();
        wait.as_ref().filter(|_| !is_over).map(|wait| wait.deadline)
    }
}

impl<P: Platform> Waiting<'_, P> {
    /// Returns a clock, in hertz, limited to the controller's fastest. That of a device is limited
    /// already.
    #[cold]
    pub(crate) fn possible(self, hertz: u32) -> u32 {
        let known = self.slots.cold(|cold| cold.capabilities);
        known.map_or(hertz, |capabilities| capabilities.rate(hertz))
    }

    /// Records that the owner may take `limit` for its next words. It is not gone before.
    #[cold]
    pub(crate) fn begin_long(self, limit: Nanos) {
        let end = self.platform.now() + limit;
        let seconds = u32::try_from(end.0.div_ceil(1_000_000_000));
        self.long
            .store(seconds.unwrap_or(u32::MAX), Ordering::Release);
    }

    /// Waits for `span`.
    #[cold]
    pub(crate) fn pause(self, span: Nanos) {
        let mut wait = None;
        let mut pause = CLOCK_READ;
        let mut held = Held::begin(StallCondition::SpiPause);
        // Repeated for a clock with long steps, on which a wait may end early.
        loop {
            let now = self.platform.now();
            let left = Wait::check(&mut wait, now, pause, || span).left();
            if left == Nanos::ZERO {
                return;
            }
            pause = self.wait_once(&mut held, left, now);
        }
    }

    /// Returns the time that counts for the wait if the clock has stopped.
    fn wait_once(self, held: &mut Held, span: Nanos, now: Nanos) -> Nanos {
        match span <= SHORT {
            true => self.platform.wait_until(now + span),
            false => held.aside(|| self.platform.sleep_until(now + span)),
        }
        span
    }

    /// Blocks until a controller that reports progress must be called again. `wait` begins with
    /// the first call. Returns `false` when its limit is reached.
    #[cold]
    pub(crate) fn block(
        self,
        progress: Progress,
        wait: &mut Option<Wait>,
        pause: &mut Nanos,
        limit: impl FnOnce() -> Nanos,
    ) -> bool {
        let now = self.platform.now();
        let left = Wait::check(wait, now, *pause, limit).left();
        if left > Nanos::ZERO
            && let Some(wait) = wait
        {
            let begin = || Held::begin(StallCondition::SpiTransfer);
            let held = wait.held.get_or_insert_with(begin);
            *pause = self.block_once(held, progress, now, left);
        }
        left > Nanos::ZERO
    }

    /// Returns whether the controller's interrupt has come. Otherwise `waker` is woken when it
    /// comes.
    fn take_or_wait(self, mut waker: Option<Waker>, deadline: Nanos) -> bool {
        let interrupt = |cold: &mut Cold| cold.take_or_wait(&mut waker, deadline);
        self.slots.cold(interrupt)
    }

    /// Returns the time that counts for the wait if the clock has stopped.
    fn block_once(self, held: &mut Held, progress: Progress, now: Nanos, left: Nanos) -> Nanos {
        match progress {
            Progress::Done | Progress::After(Nanos::ZERO) => {
                core::hint::spin_loop();
                CLOCK_READ
            }
            Progress::After(span) => self.wait_once(held, span.min(left), now),
            Progress::Interrupt => {
                let waker = self.platform.current();
                let blocks = waker.is_some();
                let deadline = now + left;
                if self.take_or_wait(waker, deadline) {
                    return CLOCK_READ;
                }
                let pause = match blocks {
                    true => left,
                    false => left.min(INTERVAL),
                };
                match blocks {
                    true => held.aside(|| self.platform.block(deadline)),
                    false => self.platform.wait_until(now + pause),
                }
                match self.take_or_wait(None, deadline) {
                    true => CLOCK_READ,
                    false => pause,
                }
            }
        }
    }

    /// Awaits a controller's future for at most `limit`. Returns `None` after that.
    pub(crate) fn within<F: Future>(
        self,
        limit: impl Fn() -> Nanos,
        mut future: Pin<&mut F>,
    ) -> impl Future<Output = Option<F::Output>> {
        let (mut wait, mut timer) = (None, None);
        poll_fn(move |context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            let Some(deadline) = Wait::next(&mut wait, self.platform.now(), &limit) else {
                return Poll::Ready(None);
            };
            if !self.platform.wake_at(deadline, context.waker()) {
                // `Bus::poll` wakes it.
                let mut waker = Some(context.waker().clone());
                self.slots.cold(|cold| cold.wait(&mut waker, deadline));
                if timer.replace(deadline) != Some(deadline) {
                    self.platform.poll_at(deadline);
                }
            }
            Poll::Pending
        })
    }
}

/// Waits for `span` without blocking.
pub(crate) async fn sleep<P: Platform>(platform: &P, span: Nanos) {
    let mut wait = None;
    poll_fn(|context| {
        let Some(deadline) = Wait::next(&mut wait, platform.now(), || span) else {
            return Poll::Ready(());
        };
        if !platform.wake_at(deadline, context.waker()) {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await;
}

/// Continues at once, after other tasks.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| match core::mem::replace(&mut yielded, true) {
        true => Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

impl<P: Platform> Waits for Waiting<'_, P> {
    async fn wait(&self, progress: Progress) {
        match progress {
            Progress::Done => {}
            Progress::After(Nanos::ZERO) => yield_now().await,
            Progress::After(span) => sleep(self.platform, span).await,
            Progress::Interrupt => {
                // The deadline is the transfer's. `within` sets it.
                let never = Nanos(u64::MAX);
                poll_fn(|context| {
                    let waker = Some(context.waker().clone());
                    match self.take_or_wait(waker, never) {
                        true => Poll::Ready(()),
                        false => Poll::Pending,
                    }
                })
                .await;
            }
        }
    }
}

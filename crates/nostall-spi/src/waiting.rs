//! The waits of a bus's owner: for a controller, and in delays.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::Poll;

use nostall_io::{Nanos, Timeout};

use crate::controller::{Progress, Waits};
use crate::interrupt::Interrupt;
use crate::platform::Platform;

/// Shorter waits keep the CPU; longer ones give it away.
const SHORT: Nanos = Nanos::from_micros(50);

/// Time that a transfer may take besides twice its own: interrupts, other tasks' turns
/// on the CPU, a slow memory.
pub(crate) const GRACE: Nanos = Nanos::from_millis(200);

/// How often a controller is looked at whose interrupt cannot be waited for.
const INTERVAL: Nanos = Nanos::from_micros(1);

/// Cost of a look at a clock that stands still.
pub(crate) const LOOK: Nanos = Nanos(10);

/// The ways of waiting that an owner of the bus has.
pub(crate) struct Waiting<'b, P> {
    pub(crate) platform: &'b P,
    pub(crate) interrupt: &'b Interrupt,
}

/// A timeout that a clock's jump ends.
pub(crate) const fn timeout(now: Nanos, span: Nanos) -> Timeout {
    Timeout::new(now, span).largest_step(Nanos(u64::MAX))
}

/// A wait of a future. It begins with the first look.
#[derive(Default)]
struct Delay(Option<(Timeout, Nanos, Nanos)>);

impl Delay {
    /// Returns when to look again; `None` when the wait is over.
    fn look(&mut self, now: Nanos, span: impl FnOnce() -> Nanos) -> Option<Nanos> {
        if let Some((timeout, last, deadline)) = &mut self.0 {
            timeout.charge(now, LOOK);
            // The clock was set back.
            if now < core::mem::replace(last, now) {
                *deadline = now + timeout.left();
            }
        }
        let (timeout, _, deadline) = self.0.get_or_insert_with(|| {
            let span = span();
            (timeout(now, span), now, now + span)
        });
        (!timeout.is_over()).then_some(*deadline)
    }
}

impl<P: Platform> Waiting<'_, P> {
    /// Lets `span` pass.
    #[cold]
    pub(crate) fn pause(&self, span: Nanos) {
        let mut now = self.platform.now();
        let mut timeout = timeout(now, span);
        // Again where the clock ticks slowly: a wait on it may end early.
        while !timeout.is_over() {
            let left = timeout.left();
            self.wait_once(left, now);
            now = self.platform.now();
            timeout.charge(now, left);
        }
    }

    fn wait_once(&self, span: Nanos, now: Nanos) {
        match span <= SHORT {
            true => self.platform.wait_until(now + span),
            false => self.platform.sleep_until(now + span),
        }
    }

    /// Blocks for a controller that reports progress, until it is to be called again.
    /// `timeout` begins with the first call. Returns `false` when it is over.
    #[cold]
    pub(crate) fn block(
        &self,
        progress: Progress,
        begun: &mut Option<(Timeout, Nanos)>,
        limit: impl FnOnce() -> Nanos,
    ) -> bool {
        let now = self.platform.now();
        if let Some((timeout, pause)) = begun {
            timeout.charge(now, *pause);
        }
        let (timeout, pause) = begun.get_or_insert_with(|| (timeout(now, limit()), LOOK));
        let left = timeout.left();
        if left > Nanos::ZERO {
            *pause = self.block_once(progress, now, left);
        }
        left > Nanos::ZERO
    }

    /// Returns the time that the platform was to wait for.
    fn block_once(&self, progress: Progress, now: Nanos, left: Nanos) -> Nanos {
        match progress {
            Progress::Done | Progress::After(Nanos::ZERO) => {
                core::hint::spin_loop();
                LOOK
            }
            Progress::After(span) => {
                let span = span.min(left);
                self.wait_once(span, now);
                span
            }
            Progress::Interrupt => {
                let waker = self.platform.current();
                let blocks = waker.is_some();
                let deadline = now + left;
                if self.interrupt.take_or_wait(waker, deadline) {
                    return LOOK;
                }
                let span = match blocks {
                    true => left,
                    false => left.min(INTERVAL),
                };
                match blocks {
                    true => self.platform.block(deadline),
                    false => self.platform.wait_until(now + span),
                }
                match self.interrupt.take_or_wait(None, deadline) {
                    true => LOOK,
                    false => span,
                }
            }
        }
    }

    /// Awaits a controller's future for `limit`, no longer.
    pub(crate) fn within<F: Future>(
        &self,
        limit: impl Fn() -> Nanos,
        mut future: Pin<&mut F>,
    ) -> impl Future<Output = Option<F::Output>> {
        let mut delay = Delay::default();
        poll_fn(move |context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            let Some(deadline) = delay.look(self.platform.now(), &limit) else {
                return Poll::Ready(None);
            };
            if !self.platform.wake_at(deadline, context.waker()) {
                // For `Bus::poll`.
                self.interrupt.expect(context.waker(), deadline);
            }
            Poll::Pending
        })
    }
}

/// Lets `span` pass without blocking.
pub(crate) async fn sleep<P: Platform>(platform: &P, span: Nanos) {
    let mut delay = Delay::default();
    poll_fn(|context| {
        let Some(deadline) = delay.look(platform.now(), || span) else {
            return Poll::Ready(());
        };
        if !platform.wake_at(deadline, context.waker()) {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await;
}

/// Goes on at once, after other tasks.
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
                // The deadline is the transfer's, and is set where that is known.
                let never = Nanos(u64::MAX);
                poll_fn(|context| {
                    let waker = Some(context.waker().clone());
                    match self.interrupt.take_or_wait(waker, never) {
                        true => Poll::Ready(()),
                        false => Poll::Pending,
                    }
                })
                .await;
            }
        }
    }
}

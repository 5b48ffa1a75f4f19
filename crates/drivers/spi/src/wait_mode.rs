//! The two ways in which a context waits: blocking and asynchronous.
//!
//! The engine has one body for both. The futures of [`Blocking`] are ready at their first poll.

use core::future::poll_fn;
use core::mem::replace;
use core::ops::ControlFlow;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use nostall_io::Nanos;

use crate::bus::Shared;
use crate::controller::{AsyncController, Controller};
use crate::error::Error;
use crate::platform::Platform;
use crate::settings::Settings;
use crate::station::Station;
use crate::transfer::Message;
use crate::waiting::{CLOCK_READ, Wait, Waiting};

/// Way in which the context of a message waits. (`Mode` is embedded-hal's clock mode.)
pub(crate) trait WaitMode<C: Controller> {
    /// Whether the context may keep its CPU while it waits.
    const BLOCKS: bool;

    /// Runs a message; [`Station::end`] must follow.
    async fn run<M: Message + ?Sized, P: Platform>(
        station: &mut Station<C>,
        settings: &Settings,
        message: &mut M,
        waiting: Waiting<'_, P>,
    ) -> Result<(), Error>;
}

/// The context is a thread that blocks.
pub(crate) enum Blocking {}

impl<C: Controller> WaitMode<C> for Blocking {
    const BLOCKS: bool = true;

    async fn run<M: Message + ?Sized, P: Platform>(
        station: &mut Station<C>,
        settings: &Settings,
        message: &mut M,
        waiting: Waiting<'_, P>,
    ) -> Result<(), Error> {
        station.run(settings, message, waiting)
    }
}

/// The context is a future.
pub(crate) enum Async {}

impl<C: AsyncController> WaitMode<C> for Async {
    const BLOCKS: bool = false;

    async fn run<M: Message + ?Sized, P: Platform>(
        station: &mut Station<C>,
        settings: &Settings,
        message: &mut M,
        waiting: Waiting<'_, P>,
    ) -> Result<(), Error> {
        station.run_awaited(settings, message, &waiting).await
    }
}

/// Returns the result of a [`Blocking`] future.
#[cold]
pub(crate) fn block_on_ready<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    // One round is enough: nothing in the future is ever pending.
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}

/// One check of a waiting context.
#[derive(Clone, Copy)]
pub(crate) struct Check<'a> {
    /// Wakes the context; `None` if it must not wait.
    pub(crate) waker: Option<&'a Waker>,
    pub(crate) now: Nanos,
    /// Time since the first check. It advances even if the clock stops.
    pub(crate) waited: Nanos,
}

impl<C, P> Shared<C, P>
where
    C: Controller,
    P: Platform,
{
    /// Calls `check` until the wait in line ends. To continue, `check` returns the latest time of the
    /// next check. With [`Blocking`], the future is ready at its first poll.
    pub(crate) async fn until<W: WaitMode<C>, T>(
        &self,
        mut check: impl FnMut(Check<'_>) -> ControlFlow<T, Nanos>,
    ) -> T {
        let platform = &self.platform;
        let mut wait: Option<Wait> = None;
        let mut check = |waker: Option<&Waker>, now, pause| {
            let waited = Wait::check(&mut wait, now, pause, || Nanos(u64::MAX)).elapsed();
            check(Check { waker, now, waited })
        };
        if !W::BLOCKS {
            let mut timed = false;
            return poll_fn(|context| {
                match check(Some(context.waker()), platform.now(), CLOCK_READ) {
                    ControlFlow::Break(ended) => return Poll::Ready(ended),
                    ControlFlow::Continue(deadline) => platform.wake_at(deadline, context.waker()),
                };
                // The worker wakes a context without a timer, and removes one that does not respond.
                if !replace(&mut timed, true) {
                    self.poll_at(platform.now() + self.config().lock_timeout);
                }
                Poll::Pending
            })
            .await;
        }
        let waker = platform.current();
        let (mut now, mut pause) = (platform.now(), CLOCK_READ);
        loop {
            let deadline = match check(waker.as_ref(), now, pause) {
                ControlFlow::Break(ended) => return ended,
                ControlFlow::Continue(deadline) => deadline,
            };
            pause = deadline - now;
            platform.block(deadline);
            now = platform.now();
        }
    }
}

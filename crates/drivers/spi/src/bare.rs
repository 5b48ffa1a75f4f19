//! Platforms with one thread and interrupt handlers.

use core::cell::RefCell;
use core::task::Waker;

use critical_section::Mutex;
use embedded_hal::delay::DelayNs;
use nostall_io::{Clock, Nanos};

use crate::platform::Platform;

/// Bare metal without tasks. A caller that finds the bus busy does not wait, there is no worker,
/// and the main loop calls [`Bus::poll`](crate::Bus::poll).
///
/// Also for asynchronous executors, whose futures wait by themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bare<C>(pub C);

impl<C: Clock> Clock for Bare<C> {
    fn now(&self) -> Nanos {
        self.0.now()
    }
    fn wait_until(&self, deadline: Nanos) {
        self.0.wait_until(deadline);
    }
    fn sleep_until(&self, deadline: Nanos) {
        self.0.sleep_until(deadline);
    }
}

impl<C: Clock> Platform for Bare<C> {
    fn current(&self) -> Option<Waker> {
        None
    }

    fn block(&self, until: Nanos) {
        self.sleep_until(until);
    }
}

/// Clock made from a delay, which every HAL has: the sum of its delays. Each read counts as one
/// microsecond, so that every wait ends.
#[derive(Debug)]
pub struct DelayClock<D>(Mutex<RefCell<(D, u64)>>);

impl<D: DelayNs> DelayClock<D> {
    /// Creates a clock that starts at 0.
    pub const fn new(delay: D) -> Self {
        Self(Mutex::new(RefCell::new((delay, 0))))
    }
}

impl<D: DelayNs> Clock for DelayClock<D> {
    fn now(&self) -> Nanos {
        critical_section::with(|section| {
            let (_, now) = &mut *self.0.borrow(section).borrow_mut();
            *now = now.saturating_add(1_000);
            Nanos(*now)
        })
    }

    fn wait_until(&self, deadline: Nanos) {
        // In short pieces, so that interrupts are delayed little.
        let piece = Nanos::from_micros(10);
        loop {
            let left = critical_section::with(|section| {
                let (delay, now) = &mut *self.0.borrow(section).borrow_mut();
                let span = (deadline - Nanos(*now)).min(piece);
                delay.delay_ns(span.0 as u32);
                *now = now.saturating_add(span.0);
                deadline - Nanos(*now)
            });
            if left == Nanos::ZERO {
                return;
            }
        }
    }
}

/// Delay on the bus's clock, blocking and asynchronous, for drivers that need one beside their
/// device.
#[derive(Debug)]
pub struct Delay<'b, P>(pub(crate) &'b P);

impl<P: Platform> DelayNs for Delay<'_, P> {
    fn delay_ns(&mut self, ns: u32) {
        self.0.wait_until(self.0.now() + Nanos(ns.into()));
    }
}

impl<P: Platform> embedded_hal_async::delay::DelayNs for Delay<'_, P> {
    async fn delay_ns(&mut self, ns: u32) {
        crate::waiting::sleep(self.0, Nanos(ns.into())).await;
    }
}

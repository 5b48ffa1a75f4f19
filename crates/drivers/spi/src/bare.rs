//! Platforms with one thread and interrupt handlers.

use core::task::Waker;

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

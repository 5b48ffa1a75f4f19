//! Whoever has the bus, and waits for the controller.

use core::task::Waker;

use nostall_io::Nanos;

use crate::bus::Bus;
use crate::controller::Controller;
use crate::platform::{HasWorker, Platform};
use crate::run::{SHORT, Step, pause_until};
use crate::slot::Wake;
use crate::sync::{AtomicBool, Lock, Ordering};

/// How often a controller is looked at whose interrupt nobody can wait for.
const LOOK: Nanos = Nanos::from_micros(1);

/// How whoever drives waits for an interrupt.
pub(crate) enum Waits<'a> {
    /// Here.
    Here,
    /// By coming again.
    Later(&'a Waker),
}

impl Waits<'_> {
    pub(crate) const fn is_here(&self) -> bool {
        matches!(self, Self::Here)
    }
}

/// The controller's interrupt, and who waits for it.
pub(crate) struct Interrupt<T> {
    /// It has been, since whoever has the bus last looked.
    came: AtomicBool,
    waiter: Lock<Option<Waiter<T>>>,
}

struct Waiter<T> {
    /// If he was not woken yet.
    wake: Option<Wake<T>>,
    deadline: Nanos,
}

impl<T> Interrupt<T> {
    pub(crate) fn new() -> Self {
        Self {
            came: AtomicBool::new(false),
            waiter: Lock::new(None),
        }
    }

    /// An exchange, so that it has an order with what others do: one of the two comes
    /// second, and sees what the other has left.
    fn take(&self) -> bool {
        self.came.swap(false, Ordering::AcqRel)
    }

    /// Whom to wake.
    fn waiter(&self) -> Option<Wake<T>> {
        self.waiter.try_enter()?.as_mut()?.wake.take()
    }
}

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> Bus<C, P, SLOTS, BYTES> {
    /// For the controller's interrupt handler: whoever waits for it goes on. One that
    /// nobody waits for does no harm.
    pub fn on_interrupt(&self) {
        self.interrupt.came.swap(true, Ordering::AcqRel);
        if let Some(wake) = self.interrupt.waiter() {
            self.wake(wake);
        }
    }

    /// Whether the time is over of whoever waits for the interrupt.
    pub(crate) fn is_late(&self, now: Nanos) -> bool {
        let waiter = self.interrupt.waiter.try_enter();
        let late =
            waiter.is_some_and(|waiter| waiter.as_ref().is_some_and(|it| now >= it.deadline));
        // An interrupt that came while we looked has found us in its way. Not a load,
        // so that this and its exchange have an order.
        if self.interrupt.came.fetch_or(false, Ordering::AcqRel)
            && let Some(wake) = self.interrupt.waiter()
        {
            self.wake(wake);
        }
        late
    }

    /// Waits for what a message needs before it goes on; whether it has come, or else
    /// the waker will be woken. A longer wait is time for `meanwhile`.
    #[cold]
    pub(crate) fn wait(&self, step: Step, waits: &Waits<'_>, meanwhile: impl FnOnce()) -> bool {
        match step {
            Step::Done => {}
            Step::After {
                span: Nanos::ZERO, ..
            } => core::hint::spin_loop(),
            Step::After { span, until } => {
                if span > SHORT {
                    meanwhile();
                }
                pause_until(&self.platform, span, until);
            }
            Step::Interrupt(deadline) => {
                meanwhile();
                return self.wait_for_interrupt(deadline, waits);
            }
        }
        true
    }

    fn wait_for_interrupt(&self, deadline: Nanos, waits: &Waits<'_>) -> bool {
        let wake = match waits {
            Waits::Later(waker) => Some(Wake::Waker((*waker).clone())),
            Waits::Here => self.platform.current().map(Wake::Task),
        };
        let blocks = wake.is_some();
        *self.interrupt.waiter.enter_soon() = Some(Waiter { wake, deadline });
        if self.interrupt.take() {
            return true;
        }
        match waits {
            Waits::Later(_) => {
                if self.platform.has_worker() == HasWorker::Yes {
                    self.platform.set_timer(deadline);
                }
                return false;
            }
            Waits::Here if blocks => self.platform.block(deadline),
            Waits::Here => {
                let soon = self.platform.now() + LOOK;
                self.platform.wait_until(soon.min(deadline));
            }
        }
        self.interrupt.take();
        true
    }
}

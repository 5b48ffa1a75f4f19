//! Bus, and the path of a message on an idle bus.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::panic::RefUnwindSafe;
use core::task::Waker;

use nostall_io::Nanos;

use crate::config::{Config, Millis, Submitted};
use crate::controller::Controller;
use crate::ownership::{Gate, Ownership, Wakers};
use crate::platform::Platform;
use crate::slots::{AnySlots, Slots};
use crate::station::Station;
use crate::statistics::{Counters, Statistics, count};
use crate::stored::Body;
use crate::sync::{AtomicU8, AtomicU32, Lock, Ordering, Owned, constant};
use crate::waiting::Waiting;

/// Bus shared by its callers, each of which drives it for its own messages.
///
/// See the [crate's documentation](crate). Threads may share it if its controller is [`Send`] and its
/// platform [`Sync`]: in a `static`, an `Arc`, or a scope. Sizes stand only in its declaration, as
/// [`Slots`]. It dereferences to a bus with [any slots](AnySlots), which has the methods.
pub struct Bus<C, P, T: ?Sized = Slots> {
    pub(crate) gate: Gate,
    /// Second of the clock at which the last long transfer has reached its time limit.
    pub(crate) long: AtomicU32,
    /// Accessed only by the owner.
    pub(crate) station: Owned<Station<C>>,
    pub(crate) counters: Counters,
    pub(crate) platform: P,
    pub(crate) submitted: Submitted,
    idle_timeout: Millis,
    lock_timeout: Millis,
    /// Bits `FUTURE`, `THREAD` and `OWNS`: the worker is a future or a thread, and it owns the bus.
    pub(crate) worker: AtomicU8,
    pub(crate) slots: T,
}

/// A bus whose type does not name its sizes.
pub(crate) type Shared<C, P> = Bus<C, P, dyn AnySlots>;

impl<C: Controller, P: Platform> Bus<C, P> {
    constant! {
        /// Creates a bus on `controller`, with slots for 8 waiters and 8 messages of 64 bytes.
        pub fn new(controller: C, platform: P) -> Self {
            Self::sized(controller, platform)
        }
    }
}

impl<C, P, const W: usize, const S: usize, const B: usize> Bus<C, P, Slots<W, S, B>>
where
    C: Controller,
    P: Platform,
{
    constant! {
        /// Creates a bus whose type sets its sizes: `Bus<_, _, Slots<4, 2, 64>>`.
        pub fn sized(controller: C, platform: P) -> Self {
            Self {
                gate: Gate::new(),
                long: AtomicU32::new(0),
                station: Owned::new(Station::new(controller)),
                counters: Counters::new(),
                platform,
                submitted: Config::DEFAULT.submitted,
                idle_timeout: Millis::new(Config::DEFAULT.idle_timeout),
                lock_timeout: Millis::new(Config::DEFAULT.lock_timeout),
                worker: AtomicU8::new(0),
                slots: Slots::new(),
            }
        }
    }

    /// Sets other options than [`Config::DEFAULT`].
    pub const fn with_config(mut self, config: Config) -> Self {
        self.submitted = config.submitted;
        self.idle_timeout = Millis::new(config.idle_timeout);
        self.lock_timeout = Millis::new(config.lock_timeout);
        self
    }

    /// Returns the controller, and drops the bus.
    pub fn into_controller(self) -> C {
        self.station.into_inner().controller
    }
}

impl<C, P, const W: usize, const S: usize, const B: usize> Deref for Bus<C, P, Slots<W, S, B>> {
    type Target = Shared<C, P>;

    #[inline]
    fn deref(&self) -> &Shared<C, P> {
        self
    }
}

impl<C, P, const W: usize, const S: usize, const B: usize> DerefMut for Bus<C, P, Slots<W, S, B>> {
    fn deref_mut(&mut self) -> &mut Shared<C, P> {
        self
    }
}

impl<C, P> Shared<C, P>
where
    C: Controller,
    P: Platform,
{
    #[inline]
    pub(crate) fn ownership(&self) -> Ownership<'_> {
        Ownership::new(&self.gate, &self.slots)
    }

    /// Returns the memory of a stored message.
    pub(crate) fn body(&self, index: usize) -> &Lock<Body<[u8]>> {
        self.slots.body(index)
    }

    /// Returns the number of contexts and stored messages in line.
    pub fn in_line(&self) -> usize {
        self.ownership().in_line()
    }

    /// Reads the counters. Takes no lock.
    pub fn statistics(&self) -> Statistics {
        self.counters.read()
    }

    /// Returns the platform, which is also the bus's clock.
    pub const fn platform(&self) -> &P {
        &self.platform
    }

    /// Returns a delay for drivers that need one beside their device.
    pub const fn delay(&self) -> crate::Delay<'_, P> {
        crate::Delay(&self.platform)
    }

    /// Lets the owner continue. For the controller's interrupt handler. An interrupt that no owner
    /// waits for does no harm.
    pub fn on_interrupt(&self) {
        self.wake(self.slots.cold(|cold| cold.raise()));
    }

    /// Returns whether the owner may be in a transfer longer than others wait.
    pub(crate) fn is_long(&self, now: Nanos) -> bool {
        let end = self.long.load(Ordering::Acquire);
        now < Nanos::from_secs(end.into())
    }

    pub(crate) const fn waiting(&self) -> Waiting<'_, P> {
        Waiting {
            platform: &self.platform,
            long: &self.long,
            slots: &self.slots,
        }
    }

    #[inline]
    pub(crate) fn wake(&self, waker: Option<Waker>) {
        if let Some(waker) = waker {
            self.guarded(|| waker.wake());
        }
    }

    /// Wakes one waker and drops the others. Both run foreign code.
    pub(crate) fn see_to(&self, wakers: Wakers) {
        self.wake(wakers.wake);
        self.guarded_drop(wakers.unused);
        self.guarded_drop(wakers.fresh);
    }

    pub(crate) fn guarded_drop(&self, waker: Option<Waker>) {
        if let Some(waker) = waker {
            self.guarded(|| drop(waker));
        }
    }

    /// Runs foreign code, such as wakers and callbacks. With `std`, a panic in it is caught and
    /// counted.
    #[cold]
    pub(crate) fn guarded(&self, act: impl FnOnce()) {
        #[cfg(feature = "std")]
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).is_err() {
            count(&self.counters.panics);
        }
        #[cfg(not(feature = "std"))]
        {
            act();
            let _ = count;
        }
    }
}

impl<C, P, T: ?Sized> Bus<C, P, T> {
    /// Returns the options of the bus.
    pub const fn config(&self) -> Config {
        Config {
            submitted: self.submitted,
            idle_timeout: self.idle_timeout.nanos(),
            lock_timeout: self.lock_timeout.nanos(),
        }
    }
}

/// After a panic of a driver or a callback, the bus is in order.
impl<C, P, T: ?Sized> RefUnwindSafe for Bus<C, P, T> {}

impl<C, P, T: ?Sized> fmt::Debug for Bus<C, P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bus")
            .field("gate", &self.gate.word())
            .field("config", &self.config())
            .field("statistics", &self.counters.read())
            .finish_non_exhaustive()
    }
}

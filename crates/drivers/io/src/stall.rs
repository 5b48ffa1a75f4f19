//! Reports of waits that hold a CPU.

use core::fmt;
use core::panic::Location;

/// Condition that a CPU waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StallCondition {
    /// A UART's transmitter takes bytes or is empty.
    Transmitter,
    /// The other end of a serial line allows sending (CTS).
    ClearToSend,
    /// The delay before or after sending on an RS-485 line is over.
    LineTurn,
    /// A UART accepts its settings or loops a byte back.
    PortSetup,
    /// A sink takes more of a panic's text.
    PanicFlush,
    /// The owner of a sink releases it to a panic.
    SinkOwner,
    /// An SPI bus is released by its owner.
    BusOwner,
    /// An SPI controller ends a transfer.
    SpiTransfer,
    /// A pause between two SPI transfers is over.
    SpiPause,
    /// A lock is released.
    Lock,
    /// A sleep in which nothing else runs is over: [`Clock::sleep_until`](crate::Clock) of a clock
    /// without a scheduler.
    Sleep,
}

impl StallCondition {
    /// All conditions.
    pub const ALL: [Self; 11] = [
        Self::Transmitter,
        Self::ClearToSend,
        Self::LineTurn,
        Self::PortSetup,
        Self::PanicFlush,
        Self::SinkOwner,
        Self::BusOwner,
        Self::SpiTransfer,
        Self::SpiPause,
        Self::Lock,
        Self::Sleep,
    ];

    /// Returns the condition's stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transmitter => "transmitter",
            Self::ClearToSend => "clear-to-send",
            Self::LineTurn => "line-turn",
            Self::PortSetup => "port-setup",
            Self::PanicFlush => "panic-flush",
            Self::SinkOwner => "sink-owner",
            Self::BusOwner => "bus-owner",
            Self::SpiTransfer => "spi-transfer",
            Self::SpiPause => "spi-pause",
            Self::Lock => "lock",
            Self::Sleep => "sleep",
        }
    }
}

impl fmt::Display for StallCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Counter of the drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Counter {
    /// Number of bytes given to UARTs.
    UartBytes,
    /// Number of bytes taken by a console's sinks.
    ConsoleBytes,
    /// Number of bytes moved over SPI buses.
    SpiBytes,
    /// Number of SPI messages run.
    SpiMessages,
    /// Number of wake-ups of SPI workers.
    SpiWakeups,
}

impl Counter {
    /// All counters.
    pub const ALL: [Self; 5] = [
        Self::UartBytes,
        Self::ConsoleBytes,
        Self::SpiBytes,
        Self::SpiMessages,
        Self::SpiWakeups,
    ];

    /// Returns the counter's stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UartBytes => "uart-bytes",
            Self::ConsoleBytes => "console-bytes",
            Self::SpiBytes => "spi-bytes",
            Self::SpiMessages => "spi-messages",
            Self::SpiWakeups => "spi-wakeups",
        }
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A wait that held a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    /// Awaited condition.
    pub condition: StallCondition,
    /// Source line of the driver that waited.
    pub place: &'static Location<'static>,
    /// Start of the wait, from [`StallHook::now`].
    pub begin: u64,
}

/// Receiver of the stalls and counts of all drivers.
///
/// Its methods are called in every context in which a driver runs, including panics and interrupt
/// handlers. They must not wait, and must not call the drivers.
pub trait StallHook: Sync {
    /// Returns the current time, in the hook's own unit.
    fn now(&self) -> u64;

    /// Records a stall that ends now.
    fn stalled(&self, stall: &Stall);

    /// Records that `counter` has increased by `by`.
    fn counted(&self, counter: Counter, by: u64) {
        let _ = (counter, by);
    }
}

/// Adds `by` to a counter. Does nothing without the feature `stall-hook`.
#[inline]
pub fn count(counter: Counter, by: u64) {
    #[cfg(feature = "stall-hook")]
    if let Some(hook) = hook::installed() {
        hook.counted(counter, by);
    }
    #[cfg(not(feature = "stall-hook"))]
    let _ = (counter, by);
}

/// A wait that holds this CPU, from its creation until it is dropped.
///
/// Without the feature `stall-hook` it has no size, and its start and end have no code. With the
/// feature, but without a hook (`set_stall_hook`), each is one load and a branch.
#[derive(Debug)]
#[must_use = "the stall ends when this is dropped"]
pub struct Held {
    #[cfg(feature = "stall-hook")]
    stall: Option<hook::Open>,
}

impl Held {
    /// Begins a wait for `condition`. The hook receives the caller's source line.
    #[cfg_attr(feature = "stall-hook", track_caller)]
    #[inline(always)]
    pub fn begin(condition: StallCondition) -> Self {
        #[cfg(feature = "stall-hook")]
        return Self {
            stall: hook::Open::new(condition, Location::caller()),
        };
        #[cfg(not(feature = "stall-hook"))]
        {
            let _ = condition;
            Self {}
        }
    }

    /// Calls `sleep`, which yields the CPU. Ends the stall before it, and begins another one after
    /// it.
    #[inline(always)]
    pub fn aside<T>(&mut self, sleep: impl FnOnce() -> T) -> T {
        #[cfg(feature = "stall-hook")]
        let again = self.stall.take().map(hook::Open::end);
        let slept = sleep();
        #[cfg(feature = "stall-hook")]
        if let Some((condition, place)) = again {
            self.stall = hook::Open::new(condition, place);
        }
        slept
    }
}

// Without the feature, drivers have no code for stalls.
#[cfg(not(feature = "stall-hook"))]
const _: () = assert!(size_of::<Held>() == 0 && !core::mem::needs_drop::<Held>());

#[cfg(feature = "stall-hook")]
impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        if let Some(stall) = self.stall.take() {
            stall.end();
        }
    }
}

#[cfg(feature = "stall-hook")]
mod hook {
    use core::panic::Location;
    use core::ptr::{from_ref, null_mut};
    use core::sync::atomic::{AtomicPtr, Ordering};

    use super::{Stall, StallCondition, StallHook};

    /// Null, or a `&'static &'static dyn StallHook`. The second reference is needed because an
    /// atomic holds one word. Only loads and stores are used, for CPUs without an atomic exchange.
    /// A caller acquires the hook's contents, which the store releases.
    static HOOK: AtomicPtr<&'static dyn StallHook> = AtomicPtr::new(null_mut());

    /// Installs the hook of all drivers, in place of the previous one.
    ///
    /// A stall that has begun is reported to the hook of its start.
    ///
    /// ```
    /// use nostall_io::{Held, Stall, StallCondition, StallHook, set_stall_hook};
    ///
    /// struct Print;
    ///
    /// impl StallHook for Print {
    ///     fn now(&self) -> u64 {
    ///         0 // a time stamp counter
    ///     }
    ///     fn stalled(&self, stall: &Stall) {
    ///         println!("{}: waited for {} since {}", stall.place, stall.condition, stall.begin);
    ///     }
    /// }
    ///
    /// static HOOK: &dyn StallHook = &Print;
    /// set_stall_hook(&HOOK);
    /// drop(Held::begin(StallCondition::Transmitter));
    /// ```
    pub fn set_stall_hook(hook: &'static &'static dyn StallHook) {
        HOOK.store(from_ref(hook).cast_mut(), Ordering::Release);
    }

    #[inline]
    pub(super) fn installed() -> Option<&'static dyn StallHook> {
        let hook = HOOK.load(Ordering::Acquire);
        // SAFETY: the pointer is null or comes from a `&'static` reference, and nothing writes
        // through it.
        unsafe { hook.as_ref() }.copied()
    }

    /// A stall that has begun.
    pub(super) struct Open {
        hook: &'static dyn StallHook,
        stall: Stall,
    }

    impl core::fmt::Debug for Open {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            self.stall.fmt(f)
        }
    }

    impl Open {
        #[inline]
        pub(super) fn new(
            condition: StallCondition,
            place: &'static Location<'static>,
        ) -> Option<Self> {
            let hook = installed()?;
            let stall = Stall {
                condition,
                place,
                begin: hook.now(),
            };
            Some(Self { hook, stall })
        }

        pub(super) fn end(self) -> (StallCondition, &'static Location<'static>) {
            self.hook.stalled(&self.stall);
            (self.stall.condition, self.stall.place)
        }
    }
}

#[cfg(feature = "stall-hook")]
pub use hook::set_stall_hook;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_conditions_and_counters_are_distinct() {
        let mut names = StallCondition::ALL.map(StallCondition::name).to_vec();
        names.extend(Counter::ALL.map(Counter::name));
        names.sort_unstable();
        assert!(names.is_sorted_by(|one, next| one < next));
    }

    #[cfg(feature = "stall-hook")]
    mod hooked {
        extern crate std;

        use super::*;
        use std::cell::RefCell;
        use std::string::{String, ToString};
        use std::vec::Vec;
        use std::{format, thread_local};

        thread_local! {
            static REPORTS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
        }

        /// Hook that records the reports of each thread. Tests run at the same time.
        struct Recorder;

        impl StallHook for Recorder {
            fn now(&self) -> u64 {
                7
            }
            fn stalled(&self, stall: &Stall) {
                let line = stall.place.line();
                record(format!(
                    "{} from {} at {line}",
                    stall.condition, stall.begin
                ));
            }
            fn counted(&self, counter: Counter, by: u64) {
                record(format!("{counter} {by}"));
            }
        }

        fn record(report: String) {
            REPORTS.with_borrow_mut(|reports| reports.push(report));
        }

        static HOOK: &dyn StallHook = &Recorder;

        #[test]
        fn a_hook_receives_the_stalls_and_counts_of_drivers() {
            set_stall_hook(&HOOK);
            REPORTS.take();
            let line = line!() + 1;
            let mut held = Held::begin(StallCondition::Lock);
            assert_eq!(held.aside(|| REPORTS.take().len()), 1, "before the sleep");
            count(Counter::SpiBytes, 3);
            drop(held);
            assert_eq!(
                REPORTS.take(),
                ["spi-bytes 3".to_string(), format!("lock from 7 at {line}")]
            );
        }
    }
}

//! Serial port as a sink.

use core::ops::DerefMut;

use nostall_io::{Clock, Nanos};
use nostall_uart::{Console, Strategy, UartHardware};

use crate::input::Input;
use crate::shared::Shared;
use crate::sync::{AtomicU8, AtomicUsize, Ordering, TryLock};
use crate::{Caller, Offered, Sink};

/// Largest number of received bytes that wait for a reader.
const INPUT: usize = 256;

/// Serial port that takes records from a drain and bytes from direct writers, and receives.
///
/// One lock protects the port. It is tried and never waited for. A panic that finds it taken uses a
/// spare, a second driver of the same port. At that time the lock's holder is stopped, or
/// interrupted on the panicking CPU itself. A panic that interrupts that one uses the second spare.
/// An interrupt handler that finds the lock taken leaves its bytes to the holder.
#[derive(Debug)]
pub struct UartSink<U, C> {
    offers: AtomicUsize,
    /// `None` before the port is opened.
    pub(crate) port: Shared<Option<Console<U, C>>>,
    /// Number of bytes that the port takes at once; 0 before it is opened.
    load: AtomicUsize,
    pub(crate) input: Input<INPUT>,
}

impl<U, C> UartSink<U, C> {
    /// Creates a sink without a port, for a `static`. It takes no bytes.
    pub const fn closed() -> Self {
        Self {
            offers: AtomicUsize::new(0),
            port: Shared {
                port: TryLock::new(None),
                spares: [const { TryLock::new(None) }; _],
                pending: AtomicUsize::new(0),
                late: AtomicUsize::new(0),
            },
            load: AtomicUsize::new(0),
            input: Input {
                bytes: [const { AtomicU8::new(0) }; _],
                stored: AtomicUsize::new(0),
                taken: AtomicUsize::new(0),
                lost: AtomicUsize::new(0),
                news: AtomicUsize::new(0),
            },
        }
    }
}

impl<U: UartHardware + Clone, C: Clock + Clone> UartSink<U, C> {
    /// Creates a sink on the port of `console`. The spares are clones, so clones of `U` must
    /// access the same port, for example as references.
    pub fn new(console: Console<U, C>) -> Self {
        let sink = Self::closed();
        sink.open(console);
        sink
    }

    /// Opens `console` as the sink's port, in place of the previous one. Returns `false` if the
    /// port is in use, and changes nothing then.
    pub fn open(&self, console: Console<U, C>) -> bool {
        let taken = self.take(Caller::Normal);
        taken.is_some_and(|mut port| self.replace(&mut port, console))
    }

    /// Stores the spares for a panic that comes while the first port is opened. Later opens leave the
    /// old port to it.
    pub(crate) fn prepare(&self, unopened: &Console<U, C>) {
        if self.load.load(Ordering::Relaxed) == 0 {
            for mut spare in self.port.spares.iter().filter_map(TryLock::try_lock) {
                *spare = Some(unopened.clone());
            }
        }
    }

    /// Replaces a port that was [taken](Self::take). Returns `false` if a panic uses a spare,
    /// and changes nothing then.
    pub(crate) fn replace(&self, port: &mut Option<Console<U, C>>, console: Console<U, C>) -> bool {
        let load = console.transmit_load();
        // Held only for this, so that a panic finds them.
        let spares = self.port.spares.each_ref().map(TryLock::try_lock);
        if spares.iter().any(Option::is_none) {
            return false;
        }
        for mut spare in spares.into_iter().flatten() {
            *spare = Some(console.clone());
        }
        self.load.store(load, Ordering::Release);
        *port = Some(console);
        true
    }
}

impl<U: UartHardware, C: Clock> UartSink<U, C> {
    /// Takes the port, if any; a panic takes a spare if the port is in use. Slices wait until the
    /// guard is dropped. Returns `None` if the port is in use.
    ///
    /// Mask interrupts until then, or mask the port's own: until its handler can use the port, it
    /// cannot end a level-triggered interrupt.
    pub(crate) fn take(
        &self,
        caller: Caller,
    ) -> Option<impl DerefMut<Target = Option<Console<U, C>>>> {
        self.port
            .take(caller, |port, most| self.receive_some(port, most))
    }

    /// Returns whether the sink has a port.
    pub fn is_open(&self) -> bool {
        self.load.load(Ordering::Acquire) != 0
    }

    /// Calls `act` with the port, for direct writers. Returns `None` if the port is in use or not
    /// open.
    ///
    /// Slices leave the port alone meanwhile. A panic does not wait: it uses a spare. If the
    /// port's interrupt is level-triggered, mask interrupts on this CPU meanwhile. Its handler
    /// cannot receive, so it would run again and again.
    pub fn with<T>(&self, caller: Caller, act: impl FnOnce(&mut Console<U, C>) -> T) -> Option<T> {
        self.take(caller)?.as_mut().map(act)
    }

    /// Returns the number of offers so far. If a slice has changed it, the slice has used the port.
    pub fn offers(&self) -> usize {
        self.offers.load(Ordering::Relaxed)
    }

    /// Handles the port's interrupt: receives, and returns the number of bytes, without breaks.
    /// Never waits.
    ///
    /// Receives at most 256 bytes. If the port is in use, its user receives when it releases it, at
    /// most 16 bytes, and this returns 0. For the rest the port interrupts again, or the next use
    /// receives.
    pub(crate) fn on_interrupt(&self) -> usize {
        self.port
            .interrupt(|port, most| self.receive_some(port, most))
    }

    /// Receives bytes that were left to a later use. Returns whether bytes are left once more.
    pub(crate) fn serve_late(&self) -> bool {
        let serve = |port: &mut _, most| self.receive_some(port, most);
        self.port.is_late() && self.port.serve_late(serve)
    }

    /// Returns the number of received bytes that were lost because no reader took them in time.
    pub fn input_lost(&self) -> usize {
        self.input.lost.load(Ordering::Relaxed)
    }

    fn receive_some(&self, port: &mut Option<Console<U, C>>, most: usize) -> usize {
        let put = |byte| self.input.put(byte);
        let receive = |console: &mut Console<U, C>| console.receive_at_most(most, put);
        port.as_mut().map_or(0, receive)
    }
}

impl<U: UartHardware, C: Clock> Sink for UartSink<U, C> {
    fn offer(&self, text: &[u8], caller: Caller) -> Offered {
        self.offer_until(text, caller, Nanos::ZERO)
    }

    fn offer_until(&self, text: &[u8], caller: Caller, until: Nanos) -> Offered {
        self.offers.fetch_add(1, Ordering::Relaxed);
        let offered = self.with(caller, |console| {
            if caller == Caller::Panic {
                console.hurry();
            }
            console.offer_until(text, until)
        });
        offered.unwrap_or(match caller {
            // A direct writer uses the port: the drain returns soon.
            Caller::Normal => Offered {
                taken: 0,
                ready_at: Some(Nanos::ZERO),
            },
            // Panics that crashed in here hold the spares too.
            Caller::Panic => Offered::GONE,
        })
    }

    fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    fn insist(&self, text: &[u8]) -> Offered {
        self.offers.fetch_add(1, Ordering::Relaxed);
        let sent = self.with(Caller::Panic, |console| {
            console.set_strategy(Strategy::FifoBurst); // never sleeps, for a panic
            let taken = text.len().min(console.transmit_load());
            // The driver counts dropped bytes.
            (taken, console.write(&text[..taken]).dropped)
        });
        let (taken, dropped) = sent.unwrap_or((0, 1));
        Offered {
            taken,
            ready_at: (dropped == 0).then_some(Nanos::ZERO),
        }
    }

    fn finish(&self) {
        self.with(Caller::Panic, |console| {
            console.set_strategy(Strategy::FifoBurst); // never sleeps, for a panic
            // Bounded. A port that does not become ready has lost its last bytes.
            console.flush()
        });
    }
}

//! A serial port as a sink.

use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::{Console, Strategy};
use spin::mutex::SpinMutex;

use crate::sync::{AtomicUsize, Ordering};
use crate::{Caller, Offered, Sink};

/// A serial port that takes records from a drain and bytes from direct writers.
///
/// One lock protects the port. It is tried and never waited for. A panic that finds it taken
/// uses the spare: a second driver of the same port. The lock's holder is stopped then, or is
/// the panicking CPU itself, a few frames below.
#[derive(Debug)]
pub struct UartSink<R, C> {
    offers: AtomicUsize,
    load: usize,
    port: SpinMutex<Console<R, C>>,
    spare: SpinMutex<Console<R, C>>,
}

impl<R: Registers + Clone, C: Clock + Clone> UartSink<R, C> {
    /// A sink on the port of `console`. The spare is a clone, so `R` must reach the same
    /// port, for example as a reference to it.
    pub fn new(console: Console<R, C>) -> Self {
        Self {
            offers: AtomicUsize::new(0),
            load: console.transmit_load(),
            spare: SpinMutex::new(console.clone()),
            port: SpinMutex::new(console),
        }
    }
}

impl<R: Registers, C: Clock> UartSink<R, C> {
    /// Calls `act` with the port, or returns `None` if the port is in use. For direct
    /// writers, such as standard output on the console's port.
    ///
    /// Slices leave the port alone meanwhile. A panic does not wait: it uses the spare.
    pub fn with<T>(&self, caller: Caller, act: impl FnOnce(&mut Console<R, C>) -> T) -> Option<T> {
        let port = self.port.try_lock().or_else(|| match caller {
            Caller::Normal => None,
            Caller::Panic => self.spare.try_lock(),
        });
        port.map(|mut console| act(&mut console))
    }

    /// Returns the number of offers so far: slices that changed it have used the port.
    pub fn offers(&self) -> usize {
        self.offers.load(Ordering::Relaxed)
    }
}

impl<R: Registers, C: Clock> Sink for UartSink<R, C> {
    fn offer(&self, text: &[u8], caller: Caller) -> Offered {
        self.offers.fetch_add(1, Ordering::Relaxed);
        let offered = self.with(caller, |console| {
            let offered = console.offer(text);
            (offered.taken, offered.ready_at)
        });
        let (taken, ready_at) = offered.unwrap_or(match caller {
            // A direct writer has the port: the drain comes back soon.
            Caller::Normal => (0, Some(Nanos::ZERO)),
            // Both are taken: by a panic that crashed in here.
            Caller::Panic => (0, None),
        });
        Offered { taken, ready_at }
    }

    fn load(&self) -> usize {
        self.load
    }

    fn insist(&self, text: &[u8]) -> Offered {
        self.offers.fetch_add(1, Ordering::Relaxed);
        let sent = self.with(Caller::Panic, |console| {
            console.set_strategy(Strategy::FifoBurst); // does not sleep in a panic
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
            console.set_strategy(Strategy::FifoBurst); // does not sleep in a panic
            // In bounded time; a port that does not get ready has lost its last bytes.
            console.flush()
        });
    }
}

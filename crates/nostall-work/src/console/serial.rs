//! A serial port as a sink, and as something to be written to.

use core::sync::atomic::{AtomicUsize, Ordering};

use nostall_console::{Offered, Priority, Sink};
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::{Console, Strategy};
use spin::mutex::SpinMutex;

/// A [`Console`] that one CPU at a time uses, and in the end a panic.
#[derive(Debug)]
pub struct Serial<R, C> {
    /// Offers made so far.
    offers: AtomicUsize,
    console: SpinMutex<Console<R, C>>,
    /// The same port once more, for a panic that finds the other taken for good.
    spare: SpinMutex<Console<R, C>>,
}

impl<R: Registers + Clone, C: Clock + Clone> Serial<R, C> {
    /// On this port.
    pub fn new(console: Console<R, C>) -> Self {
        Self {
            offers: AtomicUsize::new(0),
            spare: SpinMutex::new(console.clone()),
            console: SpinMutex::new(console),
        }
    }

    /// Returns the number of offers so far: slices that changed it have used the port.
    pub fn offers(&self) -> usize {
        self.offers.load(Ordering::Relaxed)
    }

    /// Writes all of `text`, and waits until it is out. For the console's owner.
    pub fn write(&self, text: &[u8]) {
        if let Some(mut console) = self.console.try_lock() {
            let _ = console.write(text);
        }
    }

    /// The same for a panic, whoever was stopped in here.
    pub fn write_in_panic(&self, text: &[u8]) {
        let console = self.console.try_lock().or_else(|| self.spare.try_lock());
        if let Some(mut console) = console {
            let _ = console.write(text);
        }
    }
}

impl<R, C> Sink for Serial<R, C>
where
    R: Registers + Clone + Send,
    C: Clock + Clone + Send,
{
    fn offer(&self, text: &[u8], _: Priority) -> Offered {
        self.offers.fetch_add(1, Ordering::Relaxed);
        let console = self.console.try_lock().or_else(|| self.spare.try_lock());
        // Both taken: by a panic that died in here.
        let offered = console.map(|mut console| console.offer(text));
        Offered {
            taken: offered.map_or(0, |offered| offered.taken),
            ready_at: offered.and_then(|offered| offered.ready_at),
        }
    }

    fn insist(&self, text: &[u8], _: Priority) -> Offered {
        let gone = Offered {
            taken: 0,
            ready_at: None,
        };
        let console = self.console.try_lock().or_else(|| self.spare.try_lock());
        let Some(mut console) = console else {
            return gone;
        };
        console.set_strategy(Strategy::FifoBurst); // does not sleep in a panic
        let taken = text.len().min(console.transmit_load());
        let sent = console.write(&text[..taken]);
        // Dropped bytes are counted by the driver.
        let ready_at = (sent.dropped == 0).then_some(Nanos::ZERO);
        Offered { taken, ready_at }
    }

    fn finish(&self) {
        let console = self.console.try_lock().or_else(|| self.spare.try_lock());
        if let Some(mut console) = console {
            // Does not sleep in a panic.
            console.set_strategy(Strategy::FifoBurst);
            // In bounded time; a port that does not get ready has lost its last bytes.
            let _ = console.flush();
        }
    }
}

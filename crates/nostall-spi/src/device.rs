//! A device on a bus.

use core::fmt;

use embedded_hal::spi::Operation;

use crate::bus::Bus;
use crate::config::Submitted;
use crate::controller::Controller;
use crate::error::Error;
use crate::gate::Posted;
use crate::locked::Locked;
use crate::platform::{HasWorker, Platform};
use crate::queue::Sender;
use crate::settings::Settings;
use crate::slot::{Callback, Completion};
use crate::submitted::Pending;
use crate::transfer::{Message, Outline, Part, Transfer};

/// A device on a bus, made by [`Bus::device`].
///
/// Messages of one device run in the order in which they were given, whoever gives
/// them and however. What is still queued when it is dropped is withdrawn.
pub struct Device<'b, C: Controller, P: Platform, const SLOTS: usize = 8, const BYTES: usize = 64> {
    bus: &'b Bus<C, P, SLOTS, BYTES>,
    settings: Settings,
    number: u32,
}

impl<'b, C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize>
    Device<'b, C, P, SLOTS, BYTES>
{
    pub(crate) const fn new(
        bus: &'b Bus<C, P, SLOTS, BYTES>,
        settings: Settings,
        number: u32,
    ) -> Self {
        Self {
            bus,
            settings,
            number,
        }
    }

    /// Runs a message, and returns when it is through. On an idle bus it is run here
    /// and now; on a busy one, by whoever has the bus, while the caller waits.
    ///
    /// # Errors
    ///
    /// [`Error`]; whatever it is, the device is deselected. [`Error::WouldBlock`] if
    /// the bus is busy and the caller must not wait.
    #[inline]
    pub fn sync(&self, transfers: &mut [Transfer<'_>]) -> Result<(), Error> {
        self.sync_message(transfers)
    }

    #[inline]
    pub(crate) fn sync_message<M: Message + ?Sized>(&self, message: &mut M) -> Result<(), Error> {
        self.bus.sync(self.sender(), message)
    }

    /// Sends `bytes`, as a message.
    ///
    /// # Errors
    ///
    /// As [`sync`](Self::sync).
    pub fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        self.sync(&mut [Transfer::write(bytes)])
    }

    /// Sends `bytes`, then receives into `into`, as a message.
    ///
    /// # Errors
    ///
    /// As [`sync`](Self::sync).
    pub fn write_then_read(&self, bytes: &[u8], into: &mut [u8]) -> Result<(), Error> {
        self.sync(&mut [Transfer::write(bytes), Transfer::read(into)])
    }

    /// Takes the bus for several messages in a row, with nobody's in between.
    ///
    /// # Errors
    ///
    /// [`Error::WouldBlock`] if the bus is busy and the caller must not wait,
    /// [`Error::BusHeld`] if he has waited for long enough.
    pub fn lock(&self) -> Result<Locked<'_, C, P, SLOTS, BYTES>, Error> {
        let held = self.bus.lock(self.sender())?;
        Ok(Locked::new(held, self.bus, &self.settings))
    }

    /// Queues a message, and returns. The bus keeps a copy of what is to be sent;
    /// what has come in is read from what is returned.
    ///
    /// # Errors
    ///
    /// [`Error`], if it cannot be queued.
    pub fn submit(&self, parts: &[Part<'_>]) -> Result<Pending<'b, C, P, SLOTS, BYTES>, Error> {
        let index = self.queue(parts, Completion::Kept)?;
        self.see_to_it();
        Ok(Pending::new(self.bus, index))
    }

    /// Queues a message, and returns; when it is through, `then` is called, with
    /// `number`, by whoever has run it.
    ///
    /// # Errors
    ///
    /// [`Error`], if it cannot be queued; then `then` is not called.
    pub fn submit_then(
        &self,
        parts: &[Part<'_>],
        then: Callback,
        number: usize,
    ) -> Result<(), Error> {
        self.queue(parts, Completion::Call(then, number))?;
        self.see_to_it();
        Ok(())
    }

    pub(crate) fn queue<M: Outline + ?Sized>(
        &self,
        message: &M,
        completion: Completion<P::Task>,
    ) -> Result<usize, Error> {
        self.bus.capabilities().check(&self.settings, message)?;
        self.bus.queue.put(self.sender(), message, completion)
    }

    /// Has what was just queued run.
    fn see_to_it(&self) {
        if self.bus.posted() == Posted::ToOwner {
            return;
        }
        match (self.bus.config.submitted, self.bus.platform.has_worker()) {
            (Submitted::ByCaller, _) => self.bus.run_queued(),
            (Submitted::ByWorker, HasWorker::Yes) => self.bus.call_worker(),
            (Submitted::ByWorker, HasWorker::No) => {}
        }
    }

    /// Runs embedded-hal's operations as a message, and waits without blocking. The
    /// bus keeps a copy of what is sent, so the future can be dropped at any moment.
    pub(crate) async fn transaction(
        &mut self,
        operations: &mut [Operation<'_, u8>],
    ) -> Result<(), Error> {
        let index = self.place(operations).await?;
        // Whoever polls it drives it.
        self.bus.posted();
        let mut pending = Pending::driving(self.bus, index);
        let result = pending.finished().await;
        if result.is_ok() {
            pending.give(operations);
        }
        result
    }

    /// A place for a future's message. Looked for again whenever the executor comes by,
    /// as nobody tells that one is free; and not for ever, as all may be held by
    /// finished messages that nobody drops.
    async fn place(&self, operations: &[Operation<'_, u8>]) -> Result<usize, Error> {
        let mut deadline = None;
        loop {
            match self.queue(operations, Completion::Kept) {
                Err(Error::QueueFull) => {}
                queued => return queued,
            }
            let platform = &self.bus.platform;
            let now = platform.now();
            if now >= *deadline.get_or_insert(now + self.bus.config.patience) {
                return Err(Error::QueueFull);
            }
            // Where nobody else may come to run what is queued.
            if platform.has_worker() == HasWorker::No {
                self.bus.run_queued();
            }
            come_again().await;
        }
    }

    pub(crate) const fn sender(&self) -> Sender<'_> {
        Sender {
            device: self.number,
            settings: &self.settings,
        }
    }

    /// How it is spoken to.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// Lets the executor run others first.
async fn come_again() {
    let mut came = false;
    core::future::poll_fn(|context| {
        if core::mem::replace(&mut came, true) {
            return core::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        core::task::Poll::Pending
    })
    .await;
}

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> Drop
    for Device<'_, C, P, SLOTS, BYTES>
{
    fn drop(&mut self) {
        self.bus.withdraw(self.number);
    }
}

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> fmt::Debug
    for Device<'_, C, P, SLOTS, BYTES>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("number", &self.number)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

//! A message that was submitted.

use core::fmt;
use core::future::poll_fn;
use core::task::{Context, Poll};

use nostall_io::Nanos;

use crate::bus::Bus;
use crate::controller::Controller;
use crate::error::Error;
use crate::gate::Posted;
use crate::parked::Parked;
use crate::platform::{HasWorker, Platform};
use crate::queue::State;
use crate::slot::Wake;
use crate::transfer::Message;

/// A message that was [submitted](crate::Device::submit), and is kept until this is
/// dropped. If it has not had its turn by then, it will not have it; if it is being
/// run, it is run to its end, from memory of the bus.
pub struct Pending<'b, C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> {
    bus: &'b Bus<C, P, SLOTS, BYTES>,
    index: usize,
    /// Whoever waits for it runs it himself, if nobody has the bus; also where there
    /// is a worker.
    drives: bool,
    /// We have the bus, and wait for the controller.
    parked: Option<Parked>,
}

impl<'b, C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize>
    Pending<'b, C, P, SLOTS, BYTES>
{
    pub(crate) const fn new(bus: &'b Bus<C, P, SLOTS, BYTES>, index: usize) -> Self {
        Self {
            bus,
            index,
            drives: false,
            parked: None,
        }
    }

    /// For a future's, which runs it himself.
    pub(crate) const fn driving(bus: &'b Bus<C, P, SLOTS, BYTES>, index: usize) -> Self {
        Self {
            bus,
            index,
            drives: true,
            parked: None,
        }
    }

    /// Whether it is through. Never waits.
    pub fn is_done(&self) -> bool {
        self.bus.queue.slots()[self.index].state() == State::Done
    }

    /// Waits until it is through.
    ///
    /// # Errors
    ///
    /// [`Error`], as it ended; [`Error::WouldBlock`] if it is not through and the
    /// caller must not wait.
    pub fn wait(&mut self) -> Result<(), Error> {
        self.give_up_driving();
        let (bus, slot) = (self.bus, &self.bus.queue.slots()[self.index]);
        loop {
            if self.drives() {
                bus.run_queued();
            }
            if slot.state() == State::Done {
                return self.result();
            }
            let task = bus.platform.current().ok_or(Error::WouldBlock)?;
            let soon = bus.platform.now() + SOON;
            match slot.wait_by(Wake::Task(task)) {
                State::Done => return self.result(),
                State::Finishing => bus.platform.block(soon),
                // Our share is spent, or who has the bus may have looked already whom
                // there is to tell.
                _ if self.drives() && bus.gate.post() == Posted::ToNobody => {}
                _ => bus.platform.block(bus.platform.now() + bus.config.patience),
            }
        }
    }

    /// Waits, as a future, until it is through. If this is dropped while it drives the
    /// bus and waits for the controller, the worker goes on; where there is none, this
    /// message is [cancelled](Error::Cancelled), and another's is left to whom it
    /// belongs, or to the next to come.
    ///
    /// # Errors
    ///
    /// [`Error`], as it ended.
    pub async fn finished(&mut self) -> Result<(), Error> {
        let driving = Driving(self);
        poll_fn(|context| driving.0.poll_finished(context)).await
    }

    /// The worker may have ended since it was submitted.
    fn drives(&self) -> bool {
        self.drives || self.bus.platform.has_worker() == HasWorker::No
    }

    /// Nothing stays selected where nobody goes on.
    fn give_up_driving(&mut self) {
        if let Some(parked) = self.parked.take() {
            self.bus.give_up_driving(self.index, &parked);
        }
    }

    fn poll_finished(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let slot = &self.bus.queue.slots()[self.index];
        let wake = Wake::Waker(context.waker().clone());
        let mut state = slot.wait_by(wake);
        if state == State::Done {
            // By whoever took the bus over, or with its device; what we were driving
            // may be another's.
            self.give_up_driving();
            return Poll::Ready(self.result());
        }
        if self.drives()
            && (self.parked.is_some() || matches!(state, State::Queued | State::Running))
        {
            // Not ours while another has it for us: if that panics, he lets it go.
            let parked = self.parked.take();
            self.parked = self.bus.drive_for(self.index, parked, context);
            state = slot.state();
        }
        match state {
            State::Done => return Poll::Ready(self.result()),
            State::Finishing => context.waker().wake_by_ref(),
            _ => {}
        }
        Poll::Pending
    }

    fn result(&self) -> Result<(), Error> {
        self.bus.queue.slots()[self.index].body.enter().result
    }

    /// Copies what transfer `index`, counted from 0, received; how many bytes. None
    /// before it is through.
    pub fn received(&self, index: usize, into: &mut [u8]) -> usize {
        if !self.is_done() {
            return 0;
        }
        let body = self.bus.queue.slots()[self.index].body.enter();
        let received = body.message.received(index);
        let len = received.len().min(into.len());
        into[..len].copy_from_slice(&received[..len]);
        len
    }

    /// Copies all that was received.
    pub(crate) fn give<M: Message + ?Sized>(&self, message: &mut M) {
        let body = self.bus.queue.slots()[self.index].body.enter();
        body.message.give(message);
    }
}

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> Drop
    for Pending<'_, C, P, SLOTS, BYTES>
{
    fn drop(&mut self) {
        // In this order: what is abandoned is not finished as ours.
        self.give_up_driving();
        self.bus.cancel(self.index);
    }
}

/// A future's, which lets the bus go when it is dropped.
struct Driving<'p, 'b, C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize>(
    &'p mut Pending<'b, C, P, SLOTS, BYTES>,
);

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> Drop
    for Driving<'_, '_, C, P, SLOTS, BYTES>
{
    fn drop(&mut self) {
        self.0.give_up_driving();
    }
}

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> fmt::Debug
    for Pending<'_, C, P, SLOTS, BYTES>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("done", &self.is_done())
            .finish_non_exhaustive()
    }
}

/// When to look again for what is done in a moment.
const SOON: Nanos = Nanos::from_micros(50);

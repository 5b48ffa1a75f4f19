//! The bus: what it consists of, and the way of a message on an idle one.

use core::fmt;

use nostall_io::Nanos;

use crate::capabilities::Capabilities;
use crate::config::Config;
use crate::controller::Controller;
use crate::device::Device;
use crate::drive::Flight;
use crate::duty::Duty;
use crate::error::{Error, Invalid};
use crate::gate::{Gate, Posted, Taken};
use crate::held::Held;
use crate::interrupt::Interrupt;
use crate::line::Turn;
use crate::platform::Platform;
use crate::queue::{Queue, Sender};
use crate::run::{SHORT, Station, time_of_message};
use crate::settings::Settings;
use crate::slot::Stowed;
use crate::statistics::{Counters, Statistics, count};
use crate::sync::{AtomicBool, AtomicU32, AtomicUsize, Ordering, Owned};
use crate::transfer::Message;

/// A bus that its callers share and drive themselves.
///
/// See the [crate's documentation](crate) for what happens when. `SLOTS` messages
/// can wait, of up to `BYTES` bytes each; give it as many as there are contexts
/// that may want the bus at once.
pub struct Bus<C, P: Platform, const SLOTS: usize = 8, const BYTES: usize = 64> {
    pub(crate) gate: Gate,
    /// Used by whoever has the bus.
    pub(crate) core: Owned<Core<C>>,
    pub(crate) queue: Queue<P::Task, SLOTS, BYTES>,
    pub(crate) counters: Counters,
    pub(crate) platform: P,
    capabilities: Capabilities,
    pub(crate) config: Config,
    pub(crate) interrupt: Interrupt<P::Task>,
    /// The number of the future that has the bus and waits for the interrupt, or 0.
    pub(crate) parked: AtomicU32,
    /// Devices so far.
    devices: AtomicU32,
    /// Messages when the timer was set.
    pub(crate) armed: AtomicUsize,
    /// The worker is to put the hardware to sleep.
    pub(crate) tired: AtomicBool,
}

/// What whoever has the bus uses.
#[derive(Debug)]
pub(crate) struct Core<C> {
    pub(crate) station: Station<C>,
    /// A queued message that is under way.
    pub(crate) flight: Option<Flight>,
    /// When [`Bus::poll`] looks next whether anything has happened.
    pub(crate) look: Nanos,
    /// The last number given to a future that has the bus.
    pub(crate) parkings: u32,
}

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> Bus<C, P, SLOTS, BYTES> {
    /// Runs `message` in the caller's context if the bus is idle; else waits for its
    /// turn.
    #[inline]
    pub(crate) fn sync<M: Message + ?Sized>(
        &self,
        sender: Sender<'_>,
        message: &mut M,
    ) -> Result<(), Error> {
        let bytes = self.capabilities.check(sender.settings, message)?;
        match self.gate.take() {
            Taken::Alone => {
                let mut held = Held::new(self);
                let result = held.run(sender.settings, message, bytes);
                held.let_go();
                result
            }
            taken => self.sync_busy(taken, sender, message, bytes),
        }
    }

    #[cold]
    fn sync_busy<M: Message + ?Sized>(
        &self,
        taken: Taken,
        sender: Sender<'_>,
        message: &mut M,
        bytes: usize,
    ) -> Result<(), Error> {
        let mut duty = Duty::of_caller(self);
        match self.line_up(taken, sender, Some(&*message), &mut duty)? {
            // Everything that was before us is through.
            Turn::Ours(mut held) => {
                if time_of_message(sender.settings, message) > SHORT {
                    duty.tell();
                }
                let result = held.run(sender.settings, message, bytes);
                held.let_go_with(&mut duty);
                result
            }
            Turn::Ran(index) => {
                let slot = &self.queue.slots()[index];
                let body = slot.body.enter();
                let result = body.result;
                if result.is_ok() {
                    body.message.give(message);
                }
                drop(body);
                slot.free();
                result
            }
        }
    }

    /// Takes the bus for longer than a message.
    pub(crate) fn lock(&self, sender: Sender<'_>) -> Result<Held<'_, C, P, SLOTS, BYTES>, Error> {
        match self.gate.take() {
            Taken::Alone => Ok(Held::new(self)),
            taken => {
                let mut duty = Duty::of_caller(self);
                match self.line_up::<Stowed<BYTES>>(taken, sender, None, &mut duty)? {
                    Turn::Ours(held) => Ok(held),
                    // Nothing was there to be run.
                    Turn::Ran(_) => Err(Error::Cancelled),
                }
            }
        }
    }

    /// Something was queued by `submit`, or by a future that is to be woken.
    pub(crate) fn posted(&self) -> Posted {
        count(&self.counters.asynchronous);
        self.gate.post()
    }
}

impl<C: Controller, P: Platform, const SLOTS: usize, const BYTES: usize> Bus<C, P, SLOTS, BYTES> {
    /// A bus on `controller`.
    pub fn new(controller: C, platform: P, config: Config) -> Self {
        Self {
            gate: Gate::new(),
            capabilities: controller.capabilities(),
            core: Owned::new(Core {
                station: Station::new(controller),
                flight: None,
                look: Nanos::ZERO,
                parkings: 0,
            }),
            queue: Queue::new(),
            counters: Counters::new(),
            platform,
            config,
            interrupt: Interrupt::new(),
            parked: AtomicU32::new(0),
            devices: AtomicU32::new(0),
            armed: AtomicUsize::new(0),
            tired: AtomicBool::new(false),
        }
    }

    /// A device on the bus.
    ///
    /// # Errors
    ///
    /// What of its settings the controller cannot do.
    pub fn device(&self, settings: Settings) -> Result<Device<'_, C, P, SLOTS, BYTES>, Invalid> {
        self.capabilities.check_device(&settings)?;
        let number = self.devices.fetch_add(1, Ordering::Relaxed);
        Ok(Device::new(self, settings, number))
    }

    /// What it has done so far. Takes no lock.
    pub fn statistics(&self) -> Statistics {
        self.counters.read()
    }

    /// What the controller can do.
    pub const fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// What it was made with.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// What it runs on.
    pub const fn platform(&self) -> &P {
        &self.platform
    }

    /// The controller, which nobody uses any more.
    pub fn into_controller(self) -> C {
        self.core.into_inner().station.controller
    }

    /// Looks at the controller, if nobody has the bus just now.
    pub fn with_controller<T>(&self, look: impl FnOnce(&mut C) -> T) -> Option<T> {
        if self.gate.is_owned() || self.gate.take() == Taken::Not {
            return None;
        }
        let mut held = Held::new(self);
        let seen = held.with_core(|core| look(&mut core.station.controller));
        held.let_go();
        Some(seen)
    }
}

impl<C, P: Platform, const SLOTS: usize, const BYTES: usize> fmt::Debug
    for Bus<C, P, SLOTS, BYTES>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bus")
            .field("gate", &self.gate)
            .field("capabilities", &self.capabilities)
            .field("config", &self.config)
            .field("statistics", &self.counters.read())
            .finish_non_exhaustive()
    }
}

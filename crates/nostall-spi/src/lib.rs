//! An SPI bus that its callers share and drive themselves.
//!
//! On an idle bus a message is run where it is sent from: no queue, no worker, no
//! wake-up, no look at the clock. On a busy one it is queued, and whoever has the bus
//! runs it before he lets go. The hardware is put to sleep once, when the bus has been
//! idle for a while. no_std, no allocation.
//!
//! When not to use it: one device on a bus of its own needs none of it
//! (`embedded_hal_bus::spi::ExclusiveDevice`), and where all messages come from one
//! task, a `RefCellDevice` is smaller.
//!
//! # Example
//!
//! ```
//! use nostall_io::Nanos;
//! use nostall_spi::controllers::Loopback;
//! use nostall_spi::{Bare, Bus, Config, Part, Select, Settings, Transfer};
//! # #[derive(Default)]
//! # struct SystemTimer;
//! # impl nostall_io::Clock for SystemTimer { fn now(&self) -> Nanos { Nanos(0) } }
//!
//! // Bare metal: no tasks, no worker. 8 places of 64 bytes in the queue.
//! let bus: Bus<_, _, 8, 64> = Bus::new(Loopback, Bare(SystemTimer), Config::DEFAULT);
//! let sensor = bus.device(Settings::new(1_000_000, Select::line(0)))?;
//! let flash = bus.device(Settings::new(20_000_000, Select::line(1)))?;
//!
//! // Here and now, from the caller's own memory.
//! let mut id = [0; 3];
//! flash.sync(&mut [Transfer::write(&[0x9f]), Transfer::read(&mut id)])?;
//!
//! // From an interrupt handler: queued, in memory of the bus.
//! let mut sample = sensor.submit(&[Part::exchange(&[0x80, 0, 0])])?;
//! bus.poll(Nanos(0)); // the main loop, now and then
//! let mut bytes = [0; 3];
//! assert!(sample.is_done());
//! assert_eq!(sample.received(0, &mut bytes), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Device`] is `embedded_hal::spi::SpiDevice` too, and its asynchronous twin.
//!
//! # Who runs what, and when
//!
//! The bus is in one of these states, in one word (`gate.rs`), which changes by
//! read-modify-write only:
//!
//! | state | who may run messages | how it ends |
//! | --- | --- | --- |
//! | idle | nobody | whoever exchanges the word has the bus |
//! | owned | the owner, one context | he lets go, if nothing was queued since he last looked |
//! | owned, and something is queued | the owner | he runs it in its order, as far as his budget goes; or leaves it |
//! | left: something is queued, nobody has the bus | nobody | a waiter who is awake; the worker, who was called; a waiter, who was woken; the next caller; `poll` |
//! | parked: a future has the bus, and waits for the controller's interrupt | nobody | the future comes again; or, when its time is over, the worker, `poll` or one who waits takes the bus over |
//!
//! - **`sync`**, idle: the caller is the owner, and runs his message from his own
//!   memory. Busy: a copy is put into a place of the queue, and the caller waits until
//!   it is through. What has no room there is a *turn*: the owner hands over the bus
//!   itself, and the caller runs it from his own memory. [`Device::lock`] is a turn
//!   too. Where the caller [must not wait](Platform::current):
//!   [`Error::WouldBlock`].
//! - **`submit`** and futures: always in memory of the bus, so they can be dropped at
//!   any moment, and leaked, and nothing dangles. The worker is called only if nobody
//!   has the bus. A future drives the bus itself when it is polled; on a controller
//!   that interrupts it lies still in between, and goes on at
//!   [`Bus::on_interrupt`]. If it is dropped meanwhile, another's message that it was
//!   driving goes on: by the worker, by whose it is, or by the next to come. If it is
//!   leaked, the bus is taken over when its transfer's time is over.
//! - **Who is told, and when**: to wake a task takes about as long as a short message,
//!   and the task may take the CPU from whoever wakes it. So nobody is woken while the
//!   bus stands still for it: those whose messages are through are woken when the bus
//!   was let go, four together at most, or before and during waits of more than 50 us.
//!   One who [looks](Platform::looks) meanwhile sees it, and is not woken. Callbacks are
//!   called at once, before the next message.
//! - **The budget**: what an owner does for others is bounded in bytes and in time
//!   ([`Config`]); no message is begun that by its clock and its delays would exceed
//!   it. Then the worker goes on, or one who waits and is awake; without a worker,
//!   somebody who waits; without that, it is left for `poll`. The worker and `poll` have
//!   no such bound, but nobody runs more than 64 messages in a row without coming back,
//!   whatever callbacks submit. Only where there is no worker, one who waits himself runs one
//!   message of others beyond it, as nobody else would.
//! - **Order**: messages of one device are run as they were queued, always. Between
//!   devices too, but for [`Settings::priority`]; one that four times as many as there
//!   are places were queued after goes first whatever its priority.
//! - **Sleep**: waking the hardware sets a timer ([`Platform::set_timer`]). When it
//!   goes off and anything has happened, it is set again, which touches nothing and
//!   wakes nobody; if nothing has, the worker is woken, once, to put the hardware to
//!   sleep. Without a worker, [`Bus::poll`] does it.
//!
//! # Memory ordering
//!
//! A place of the queue is published by a release store of its own word, and then the
//! gate is told by an exchange; whoever takes that mark off, by an exchange, sees the
//! place. Taking the bus acquires, and letting it go releases, what its owner has done.
//! Lost wake-ups are impossible for one reason in three places: both sides exchange the
//! same word *after* they have left word where the other will look (the gate for what
//! is queued, a place's word for who waits for it, `interrupted` for who waits for the
//! controller), so that one of the two comes second and sees it. `tests/loom` tries
//! every order of the very same files, and watches what the owner uses, which is reached
//! by the crate's one piece of unsafe code (`sync.rs`, `Held::with_core`): a lock
//! instead of it would be a second exchange for every message: 40 ns instead of 31.
//!
//! # Bounds
//!
//! A transfer has twice its time by the clock and 200 ms; then the controller is reset
//! and the message fails. A queue of `SLOTS` places is searched, not walked: the cost of
//! a message does not depend on the number of devices. A caller waits for his turn no
//! longer than [`Config::patience`]. If more contexts want the bus than there are
//! places, those that find none look again every 100 us. Whatever happens (an error, a
//! time-out, a message that is given up, a future that is leaked, a worker that ends, a
//! panic of somebody's driver, callback or waker), the device is deselected and the bus
//! goes on.
//!
//! A leaked future's message is ended by whoever looks after its time is over: the
//! worker, at the platform's timer; [`Bus::poll`]; without both, one who has waited for
//! as long as his patience. A future that finds all places taken comes again and again,
//! and gives up after [`Config::patience`]: they may be held by finished messages whose
//! handles nobody drops.
//!
//! Callbacks and wakers are called by whoever has the bus: they are short, may submit,
//! and must not wait for the bus. Devices are not dropped in interrupt handlers.
//!
//! # Looking inside
//!
//! [`Bus::statistics`] counts as Linux does, and takes no lock. `Debug` of a bus shows
//! the gate's word: 1 is owned, 2 is queued, 4 is that the worker was called.

#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_code)]

mod bare;
mod bus;
mod capabilities;
mod config;
mod controller;
pub mod controllers;
mod device;
mod drive;
mod duty;
mod error;
mod finish;
mod gate;
mod hal;
mod held;
mod interrupt;
mod line;
mod locked;
mod parked;
mod platform;
mod queue;
mod run;
mod settings;
mod sleep;
mod slot;
mod statistics;
mod submitted;
mod sync;
#[cfg(feature = "std")]
mod threads;
mod transfer;
mod words;

pub use bare::Bare;
pub use bus::Bus;
pub use capabilities::Capabilities;
pub use config::{Config, Strategy, Submitted};
pub use controller::{Controller, Level, Progress};
pub use device::Device;
pub use error::{Error, Fault, Invalid};
pub use locked::Locked;
pub use platform::{HasWorker, Platform};
pub use settings::{BitOrder, Mode, Polarity, Select, Settings, Wire, Wires, WordSize};
pub use slot::{Callback, Completed, Received};
pub use statistics::Statistics;
pub use submitted::Pending;
#[cfg(feature = "std")]
pub use threads::{Threads, Worker};
pub use transfer::{Buffers, Message, Options, Outline, Part, Shape, Transfer};
pub use words::{Directions, Words};

//! An SPI bus that its callers share, and that each drives for its own messages.
//!
//! On an idle bus a message costs two atomic exchanges: no queue, no worker, no wake-up, no
//! look at the clock. On a busy bus callers wait in a line, blocked or awaited. Messages
//! can also be submitted, from interrupt handlers too. The hardware is put to sleep once,
//! when the bus has been idle for a while. no_std, no allocation.
//!
//! When not to use it: one device on a bus of its own needs none of it
//! (`embedded_hal_bus::spi::ExclusiveDevice`). Where all messages come from one task, a
//! `RefCellDevice` is smaller.
//!
//! # Example
//!
//! ```
//! use nostall_spi::controllers::Loopback; // or `Hal`: any `SpiBus`, and output pins
//! use nostall_spi::{Bare, Bus, Config, Select, Settings, Transfer};
//! use w25q32jv::W25q32jv; // a driver from crates.io
//! # #[derive(Default)]
//! # struct SystemTimer;
//! # impl nostall_io::Clock for SystemTimer { fn now(&self) -> Nanos { Nanos(0) } }
//! # use nostall_io::Nanos;
//! # use std::convert::Infallible;
//! # struct TiedHigh;
//! # impl embedded_hal::digital::ErrorType for TiedHigh { type Error = Infallible; }
//! # impl embedded_hal::digital::OutputPin for TiedHigh {
//! #     fn set_low(&mut self) -> Result<(), Infallible> { Ok(()) }
//! #     fn set_high(&mut self) -> Result<(), Infallible> { Ok(()) }
//! # }
//!
//! // Bare metal. Places for 4 waiters, and for 2 submitted messages of 64 bytes.
//! static BUS: Bus<Loopback, Bare<SystemTimer>, 4, 2, 64> =
//!     Bus::new(Loopback, Bare(SystemTimer), Config::DEFAULT);
//! let sensor = BUS.device(Settings::new(1_000_000, Select::line(0)))?;
//! let device = BUS.device(Settings::new(20_000_000, Select::line(1)))?;
//!
//! // Here and now, from the driver's own memory.
//! let mut flash = W25q32jv::new(device, TiedHigh, TiedHigh).unwrap();
//! let unique_id: [u8; 8] = flash.device_id().unwrap();
//!
//! // From an interrupt handler: stored, in memory of the bus.
//! let sample = sensor.submit(&mut [Transfer::in_place(&mut [0x80, 0, 0])])?;
//! BUS.poll(Nanos(0)); // the main loop, now and then
//! let mut bytes = [0; 3];
//! assert!(sample.is_done());
//! assert_eq!(sample.received(0, &mut bytes), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Device`] and [`Locked`] are `embedded_hal::spi::SpiDevice`, and its asynchronous twin
//! where the controller is an [`AsyncController`].
//!
//! # The protocol
//!
//! One context owns the bus at a time. Its ownership is a `#[must_use]` token, made and
//! taken back in one module (`ownership.rs`). These are the invariants:
//!
//! - **Idle.** A caller takes the bus with one atomic exchange, and frees it with another.
//! - **One line.** Waiters and stored messages share one line, in the order of arrival. It
//!   is only touched in a critical section. The word that decides ownership mirrors it, so
//!   a caller that finds the word clear need not look at the line.
//! - **No lost wake-up.** While contexts sleep in line, the owner's release checks the line, or a
//!   context in line is awake. That context takes the bus, waits again or leaves. In each case, the
//!   next one is woken or the owner is asked to check.
//! - **Order.** Within a device it is strict: no message runs while an earlier one of the
//!   same device is in line. Between devices, a running caller may overtake those in line.
//!   A waiter that has waited for 500 us, or was overtaken at 16 looks, is granted the bus
//!   directly. (To hand it to a sleeping task each time leaves the bus idle until that
//!   task has a CPU.)
//! - **A message of [`Device::sync`] or of a future runs in its own context**, from its
//!   own memory, so it may have any length, and no worker is woken for it.
//! - **A submitted message** is run by the submitting task on an idle bus; by the owner of
//!   a busy one before it frees the bus, 1,024 messages at most; by the worker,
//!   [`Bus::poll`], or a context that waits behind it.
//! - **A waiter that was woken for the bus, or granted it, and does not come** loses its
//!   place after [`Config::lock_timeout`]. The next caller removes it, or [`Bus::poll`], or
//!   the worker's timer, which is set when a future joins the line.
//! - **An owner that is gone** (a leaked future) gives the others [`Error::Abandoned`]
//!   until [`Bus::reset`]. Nothing is clocked meanwhile.
//! - **A future may be dropped at any moment.** The device is deselected, the bus is free,
//!   and the FIFO is flushed before anything else is sent. A submitted message that it was
//!   running goes back into the line if none of its words was moved, or is withdrawn if its
//!   device or its handle was dropped meanwhile. If words were moved, it ends with
//!   [`Fault::Dropped`]: to run it again would clock the same words twice, and a device that
//!   was deselected cannot go on in the middle. A HAL must guarantee that a transfer's
//!   future, when it is dropped, stops the DMA.
//! - **Sleep.** Waking the hardware sets a timer. If the bus is owned when it goes off, or
//!   messages were run, it is set again. Otherwise the worker is woken, once, and puts the
//!   hardware to sleep. Without a worker, [`Bus::poll`] does. The worker is a task of the
//!   [`Platform`], or a future: [`Bus::serve`].
//!
//! `tests/loom` tries these files in every order of three contexts and more; `make stress`
//! tries them on threads.
//!
//! # Bounds
//!
//! A transfer has twice its time, at the clock that was set, and 200 ms; then it is stopped and
//! fails. A caller waits for the bus no longer than [`Config::lock_timeout`]. Every wait counts its
//! looks too. At a clock that stands still, a look counts as 10 ns, and a pause of the platform as
//! 200 us at most. A bus has 64 devices at a time. A full line is an error. A critical section is
//! as long as a walk through the line. When a message ends early, the device is deselected and the
//! bus goes on. Causes are an error, a time-out, a panic of a driver, callback or waker, a dropped
//! future, a worker that ends.
//!
//! The owner calls callbacks and wakers: they are short, may submit, and must not wait for
//! the bus. Devices are not dropped in interrupt handlers.
//!
//! # Unsafe code
//!
//! Three invariants need it. The owner's part of the bus is used under the one token
//! (`sync.rs`, `owner.rs`). [`Bus::reset_leaked`] opens a lock whose guard was leaked, as its
//! caller promises. The waker of a [`WakeTask`] points to a static (`platform.rs`).
//!
//! # Looking inside
//!
//! [`Bus::statistics`] counts as Linux does, and takes no lock. `Debug` of a bus shows the gate's
//! word. Bit 0 is owned, and bit 1 is that a release checks the line. The bits from 8 on are the
//! devices in line.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_code)]

// From the bottom to the top: each uses the modules above it here.
mod sync;

// State, and the protocol on it.
mod line;
mod ownership;

// Messages, and the controllers that run them.
mod capabilities;
mod controller;
pub mod controllers;
mod error;
mod settings;
mod transfer;
mod twins;
mod words;

// The engine.
mod acquire;
mod bus;
mod config;
mod duty;
mod face;
mod interrupt;
mod owner;
mod platform;
mod station;
mod statistics;
mod stored;
mod waiting;
mod work;

// Its faces.
mod bare;
mod device;
#[cfg(feature = "embassy-time")]
mod embassy;
mod locked;
mod pending;
#[cfg(feature = "std")]
mod threads;

pub use bare::{Bare, Delay, DelayClock};
pub use bus::Bus;
pub use capabilities::Capabilities;
pub use config::{Config, Submitted};
pub use controller::{AsyncController, Controller, Level, Progress, Waits};
pub use device::Device;
#[cfg(feature = "embassy-time")]
pub use embassy::Embassy;
pub use error::{Error, Fault, Invalid};
pub use locked::Locked;
pub use pending::Pending;
pub use platform::{HasWorker, Platform, WakeTask, task_waker};
pub use settings::{BitOrder, Mode, Polarity, Select, Settings, Wire, Wires, WordSize};
pub use statistics::Statistics;
pub use stored::{Callback, Completed};
#[cfg(feature = "std")]
pub use threads::{Threads, Worker};
pub use transfer::{Message, Options, Transfer};
pub use words::Words;

/// The README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

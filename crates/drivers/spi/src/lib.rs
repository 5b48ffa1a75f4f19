//! SPI bus shared by its callers, each of which drives it for its own messages.
//!
//! On an idle bus a message costs two atomic exchanges: no queue, no worker, no wake-up, no clock
//! read. On a busy bus callers wait in a line, blocking or asynchronously. Messages can also be
//! submitted, even from interrupt handlers. The hardware is put to sleep once, after the bus has
//! been idle for some time. The crate is `no_std` and does not allocate.
//!
//! When not to use it: a bus with one device needs only `embedded_hal_bus::spi::ExclusiveDevice`.
//! If all messages come from one task, a `RefCellDevice` is smaller.
//!
//! # Example
//!
//! ```
//! use nostall_spi::controllers::Loopback; // or `Hal`: any `SpiBus`, with output pins
//! use nostall_spi::{Bare, Bus, Settings, Slots, Transfer};
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
//! // Bare metal. Up to 4 waiters, and 2 submitted messages of up to 64 bytes.
//! static BUS: Bus<Loopback, Bare<SystemTimer>, Slots<4, 2, 64>> =
//!     Bus::sized(Loopback, Bare(SystemTimer));
//! let sensor = BUS.device(Settings::new(1_000_000, 0))?;
//! let device = BUS.device(Settings::new(20_000_000, 1))?;
//!
//! // In this context, from the driver's own memory.
//! let mut flash = W25q32jv::new(device, TiedHigh, TiedHigh).unwrap();
//! let unique_id: [u8; 8] = flash.device_id().unwrap();
//!
//! // From an interrupt handler: stored in memory of the bus.
//! let sample = sensor.submit(&mut [Transfer::in_place(&mut [0x80, 0, 0])])?;
//! BUS.poll(); // in the main loop, at intervals
//! let mut bytes = [0; 3];
//! assert!(sample.is_done());
//! assert_eq!(sample.received(0, &mut bytes), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Device`] and [`Locked`] implement `embedded_hal::spi::SpiDevice`, and its asynchronous
//! counterpart if the controller is an [`AsyncController`]. [`AsyncHal`](controllers::AsyncHal) is
//! one on an asynchronous `SpiBus`. [`Controller`] shows the smallest one of your own.
//!
//! Feature `std` adds `Threads`, and on a host the critical section that `Bare` needs as well. A
//! board needs no `std`: its HAL provides a `critical-section`. A program that implements a clock or
//! a platform depends on nostall-io too, for `Clock` and `Nanos`.
//!
//! # The protocol
//!
//! One context owns the bus at a time. Ownership is a `#[must_use]` token, created and returned in
//! one module (`ownership.rs`). These are the invariants:
//!
//! - **Idle.** A caller takes the bus with one atomic exchange, and frees it with another.
//! - **One line.** Waiters and stored messages share one line, in the order of arrival. It is
//!   accessed only in a critical section. The word that decides ownership mirrors it, so a caller
//!   that finds the word clear need not check the line.
//! - **No lost wake-up.** While contexts sleep in line, the owner's release checks the line, or a
//!   context in line is awake. That context takes the bus, waits again or leaves. In each case, the
//!   next one is woken or the owner is made to check.
//! - **Order.** Messages of one device run strictly in order: none runs while an earlier one of the
//!   same device is in line. A [`Locked`] bus counts as one message. Between devices, a running
//!   caller may overtake those in line. A waiter that has waited for 500 us, or found the bus taken
//!   at 16 checks, is granted the bus directly. Then only contexts and stored messages that came
//!   before it are served first. (Granting it to a sleeping task each time leaves the bus idle until
//!   that task gets a CPU.)
//! - **A message of [`Device::sync`] or of a future runs in its own context**, from its own memory.
//!   So it may have any length, and no worker is woken for it.
//! - **A submitted message** is run by the submitting task on an idle bus. On a busy bus, the owner
//!   runs it before it frees the bus. These are up to 1,024 messages, and the owner's call takes that
//!   much longer. Otherwise the worker, [`Bus::poll`], or a context that waits behind it runs it.
//!   Without a worker, one may be left in line until the next caller or `poll`: after 1,024 others, or
//!   when an awaited [`Locked`] is dropped.
//! - **A waiter that does not respond** to a wake-up or a grant loses its place after
//!   [`Config::lock_timeout`]. The next caller removes it, or [`Bus::poll`], or the worker's timer,
//!   which is set when a future joins the line.
//! - **An owner that is gone** (a leaked future) causes [`Error::Abandoned`] for the other callers
//!   until [`Bus::reset`]. Nothing is sent meanwhile. A handle that gets this error has withdrawn
//!   its message. If the message was begun, the error is [`Error::Unfinished`]. In a message of more
//!   than 4,096 words, an owner is not gone before the time limit of its transfer. Such a message
//!   reads the clock once for each 4,096 words.
//! - **A chip select that cannot be released** blocks all devices. Each message first tries again to
//!   release it, and otherwise fails with [`Error::StillSelected`].
//! - **A future may be dropped at any time.** The device is deselected, the bus is free, and the
//!   FIFO is emptied before the next device is selected. If the future was running a submitted message,
//!   the message returns to the line if none of its words was sent. It is withdrawn if its device
//!   or its handle was dropped meanwhile. If words were sent, it ends with [`Fault::Dropped`].
//!   Another run would send the same words twice, and a deselected device cannot continue in the
//!   middle. A HAL must guarantee that a dropped transfer future stops the DMA.
//! - **Sleep.** Waking the hardware sets the worker's timer ([`Platform::poll_at`]). If the bus is
//!   owned when it expires, or messages were run, it is set again. Otherwise the worker puts the
//!   hardware to sleep, once. The worker is a task of the [`Platform`] that calls [`Bus::poll`], or a
//!   future: [`Bus::serve`]. Without a worker, the main loop calls `poll`. All three run the same
//!   round (`work.rs`), which returns the time of the next one.
//!
//! `tests/loom` runs these files in every order of three and more contexts; `make stress` runs them
//! on threads.
//!
//! # Bounds
//!
//! A transfer may take twice its time at the actual clock, plus 200 ms; then it is stopped and
//! fails. A driver that blocks until the end cannot be stopped: a blocking `SpiBus`, and spidev. A
//! blocking caller waits for these as long as they take. A caller waits for the bus for at most
//! [`Config::lock_timeout`]. Every wait also counts its checks. If the clock has stopped, a check
//! counts as 10 ns, and a pause of the platform as at most 200 us.
//!
//! A bus has at most 64 devices at a time. A full line is an error. A critical section takes the
//! time of one walk through the line. When a message ends early, the device is deselected and the
//! bus remains usable. Causes are an error, a time-out, a panic of a driver, callback or waker, a
//! dropped future, and a worker that ends.
//!
//! The owner calls callbacks and wakers. They must be short, may submit, and must not wait for the
//! bus. Devices must not be dropped in interrupt handlers.
//!
//! # Mistakes that the compiler explains
//!
//! A HAL's bus without its chip selects: "`Spi` is not a controller of an SPI bus", and how `Hal`
//! makes one of it.
//!
//! ```compile_fail,E0277
//! # use nostall_spi::{Bare, Bus};
//! # #[derive(Clone)] struct Spi;
//! # struct Timer;
//! # impl nostall_io::Clock for Timer { fn now(&self) -> nostall_io::Nanos { nostall_io::Nanos(0) } }
//! let bus = Bus::new(Spi, Bare(Timer));
//! ```
//!
//! A clock as the platform: "`Timer` is not a platform of an SPI bus", and the platforms.
//!
//! ```compile_fail,E0277
//! # use nostall_spi::{Bus, controllers::Loopback};
//! # struct Timer;
//! # impl nostall_io::Clock for Timer { fn now(&self) -> nostall_io::Nanos { nostall_io::Nanos(0) } }
//! let bus = Bus::new(Loopback, Timer);
//! ```
//!
//! A pin that is not in an array or a tuple: "`Pin` is not a list of chip-select pins".
//!
//! ```compile_fail,E0277
//! # use nostall_spi::controllers::Lines;
//! # struct Pin;
//! # fn hal<L: Lines>(pins: L) {}
//! hal(Pin); // as `Hal::new(bus, Pin, settings)`
//! ```
//!
//! # Unsafe code
//!
//! Four invariants need unsafe code. The owner's part of the bus is accessed under the one token
//! (`sync.rs`, `owner.rs`). The line is accessed in a critical section (`sync.rs`).
//! [`Bus::reset_leaked`] opens a lock whose guard was leaked, as its caller promises. The waker of a
//! [`WakeTask`] points to a static (`platform.rs`).
//!
//! # Looking inside
//!
//! [`Bus::statistics`] counts as Linux does, and takes no lock. `Debug` of a bus shows the
//! ownership word `gate`. Bit 0 means owned, and bit 1 that a release checks the line. Bit
//! `8 + n % 24` means that a message of device `n` may be in line.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_code)]

// Ordered from the bottom to the top: each module uses those above it.
mod sync;

// Messages, and the controllers that run them.
mod capabilities;
mod controller;
pub mod controllers;
mod error;
mod settings;
mod transfer;
mod twins;
mod words;

// State, and the protocol on it.
mod line;
mod ownership;
mod slots;
mod stored;

// The engine.
mod acquire;
mod bus;
mod cold;
mod config;
mod interrupt;
mod owner;
mod platform;
mod station;
mod statistics;
mod wait_mode;
mod waiting;
mod work;

// Interfaces of the engine.
mod bare;
mod device;
#[cfg(feature = "embassy-time")]
mod embassy;
mod locked;
mod pending;
#[cfg(feature = "std")]
mod threads;
#[cfg(feature = "std")]
mod timer;

pub use bare::{Bare, Delay};
pub use bus::Bus;
pub use capabilities::Capabilities;
pub use config::{Config, Submitted};
pub use controller::{AsyncController, Controller, Level, Progress, Waits};
pub use device::Device;
#[cfg(feature = "embassy-time")]
pub use embassy::Embassy;
pub use embedded_hal::spi::{MODE_0, MODE_1, MODE_2, MODE_3, Mode};
pub use error::{Error, Fault, Invalid};
pub use locked::Locked;
pub use pending::Pending;
pub use platform::{Platform, WakeTask, task_waker};
pub use settings::{BitOrder, Polarity, Select, Settings, Wire, Wires, WordSize};
pub use slots::{AnySlots, Slots};
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

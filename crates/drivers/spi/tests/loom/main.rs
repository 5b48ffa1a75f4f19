//! The crate's own files of the bus, in every order in which its contexts can run (loom).
//!
//! Only the atomics, the critical section and the locks are loom's. A sleeping context sleeps
//! forever: a lost wake-up is a deadlock, which loom reports. The owner's part of the bus is a cell
//! that loom checks.
//!
//! Each model prints the number of orders that it has tried. `NOSTALL_LOOM_BOUND=3` sets the number
//! of preemptions for all models, as in `make loom`. Otherwise, the longest models have two.
#![cfg(target_pointer_width = "64")]
#![allow(dead_code, unused_imports, missing_docs)]

#[path = "../../src/acquire.rs"]
mod acquire;
#[path = "../../src/bare.rs"]
mod bare;
#[path = "../../src/bus.rs"]
mod bus;
#[path = "../../src/capabilities.rs"]
mod capabilities;
#[path = "../../src/cold.rs"]
mod cold;
#[path = "../../src/config.rs"]
mod config;
#[path = "../../src/controller.rs"]
mod controller;
#[path = "../../src/device.rs"]
mod device;
#[path = "../../src/error.rs"]
mod error;
#[path = "../../src/interrupt.rs"]
mod interrupt;
#[path = "../../src/line.rs"]
mod line;
#[path = "../../src/locked.rs"]
mod locked;
#[path = "../../src/owner.rs"]
mod owner;
#[path = "../../src/ownership.rs"]
mod ownership;
#[path = "../../src/pending.rs"]
mod pending;
#[path = "../../src/platform.rs"]
mod platform;
#[path = "../../src/settings.rs"]
mod settings;
#[path = "../../src/slots.rs"]
mod slots;
#[path = "../../src/station.rs"]
mod station;
#[path = "../../src/statistics.rs"]
mod statistics;
#[path = "../../src/stored.rs"]
mod stored;
#[path = "../../src/transfer.rs"]
mod transfer;
#[path = "../../src/twins.rs"]
mod twins;
#[path = "../../src/wait_mode.rs"]
mod wait_mode;
#[path = "../../src/waiting.rs"]
mod waiting;
#[path = "../../src/words.rs"]
mod words;
#[path = "../../src/work.rs"]
mod work;

mod models;
mod sync;
mod world;

pub use bare::{Bare, Delay};
pub use bus::Bus;
pub use capabilities::Capabilities;
pub use config::{Config, Submitted};
pub use controller::{AsyncController, Controller, Level, Progress, Waits};
pub use device::Device;
pub use error::{Error, Fault, Invalid};
pub use locked::Locked;
pub use pending::Pending;
pub use platform::Platform;
pub use settings::{BitOrder, Polarity, Select, Settings, Wire, Wires, WordSize};
pub use slots::{AnySlots, Slots};
pub use statistics::Statistics;
pub use stored::{Callback, Completed};
pub use transfer::{Message, Options, Transfer};
pub use words::Words;

//! x
#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

mod bare;
mod bus;
mod capabilities;
mod config;
mod controller;
pub mod controllers;
mod device;
mod error;
mod gate;
mod hal;
mod locked;
mod platform;
mod queue;
mod run;
mod settings;
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

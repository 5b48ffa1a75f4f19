//! A console that cannot lock up a machine.
#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]

mod cursor;
mod drain;
mod fetch;
mod flush;
pub mod image;
mod lane;
#[cfg(feature = "tracing")]
mod layer;
pub mod layout;
mod level;
mod line;
#[cfg(feature = "log")]
mod logger;
mod owner;
mod pieces;
mod record;
mod render;
mod ring;
mod sink;
mod slot;
#[allow(unsafe_code)] // Memory of the caller's becomes a ring.
mod storage;
mod sync;
mod tail;
mod text;
mod watchdog;

pub use cursor::{Cursor, Read};
pub use drain::{Drain, Next, Options, Pressure};
pub use flush::{Flushed, Limits, flush};
#[cfg(feature = "tracing")]
pub use layer::RingLayer;
pub use level::{Level, Priority};
#[cfg(feature = "log")]
pub use logger::Logger;
pub use record::{Meta, Record};
pub use ring::{Logged, Ring};
pub use sink::{Offered, Sink};
pub use slot::Slot;
pub use watchdog::{Grace, Lockup, Stall, Watchdog};

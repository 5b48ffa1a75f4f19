//! The 16550 and its family, according to their data sheets.
//!
//! Without feature `std`, only the timing is available: lines, controllers and profiles.

#[cfg(feature = "std")]
mod chip;
mod controller;
#[cfg(feature = "std")]
mod extended;
#[cfg(feature = "std")]
mod model;
#[cfg(feature = "std")]
mod modem;
#[cfg(feature = "std")]
mod offer;
#[cfg(feature = "std")]
mod output;
#[cfg(feature = "std")]
mod outside;
#[cfg(feature = "std")]
mod port;
mod profile;
#[cfg(feature = "std")]
mod receiver;
#[cfg(feature = "std")]
mod saving;
#[cfg(feature = "std")]
mod serial;
#[cfg(feature = "std")]
mod stride;
#[cfg(feature = "std")]
mod transmit;

#[cfg(feature = "std")]
pub use chip::Chip;
pub use controller::{Buffer, Controller};
#[cfg(feature = "std")]
pub use model::Uart;
#[cfg(feature = "std")]
pub use offer::{LineStatus, Offer, Transmit};
#[cfg(feature = "std")]
pub use output::Output;
#[cfg(feature = "std")]
pub use port::VirtualPort;
pub use profile::{Line, Profile, Published, SlowAccess};
#[cfg(feature = "std")]
pub use saving::State;
#[cfg(feature = "std")]
pub use serial::{Serial, Trigger};
#[cfg(feature = "std")]
pub use stride::{BESIDE, Stride};

//! The 16550 and its family, as their data sheets have them.

mod chip;
mod controller;
mod extended;
mod model;
mod modem;
mod offer;
mod output;
mod outside;
mod port;
mod profile;
mod receiver;
mod saving;
mod serial;
mod state;
mod stride;
mod transmit;

pub use chip::Chip;
pub use controller::Controller;
pub use model::Uart;
pub use offer::{LineStatus, Offer, Transmit};
pub use output::Output;
pub use port::VirtualPort;
pub use profile::{Line, Profile, Published, SlowAccess};
pub use serial::{Serial, Trigger};
pub use state::State;
pub use stride::{BESIDE, Stride};

//! SPI jobs: a flash, a card, and a busy bus.
//!
//! [`flash`] and [`card`] access devices through any controller. [`can`] measures the bus itself,
//! on a [`CanMachine`] that runs two tasks and a worker concurrently.

mod can;
mod card;
mod flash;
mod job;
mod told;

pub use can::{CanBus, CanMachine, Counted, Failed, FarEnd, IDLE_TIMEOUT, Wired, can};
pub use card::{PROGRESS, card};
pub use flash::{SECTOR, flash};
pub use job::{FRAMES, Job, Strategy};
pub use told::{
    CardKind, CardRead, Digest, Fat, FoundVolume, Sector, ShortName, SpiMeasured, Told,
};

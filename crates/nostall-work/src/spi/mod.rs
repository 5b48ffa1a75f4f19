//! SPI: a flash and a card at work, and a bus that is busy.
//!
//! [`flash`] and [`card`] speak to devices, over any controller. [`can`] measures the bus itself,
//! on a [`CanMachine`] that can run two tasks and a worker at once.

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

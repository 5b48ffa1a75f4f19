//! Controllers: two of hardware, two of what others have drivers for, and one of
//! nothing at all.

pub mod bit_bang;
mod hal;
mod loopback;
pub mod sifive;
#[cfg(all(feature = "spidev", target_os = "linux"))]
mod spidev;

pub use bit_bang::BitBang;
pub use hal::{Configure, Fixed, Hal};
pub use loopback::Loopback;
pub use sifive::Sifive;
#[cfg(all(feature = "spidev", target_os = "linux"))]
pub use spidev::Spidev;

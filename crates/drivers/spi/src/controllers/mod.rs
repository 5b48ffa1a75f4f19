//! Controllers: one for hardware, three on other drivers, and one without wires. They are
//! independent of the bus's protocol.

mod async_hal;
mod hal;
mod lines;
mod loopback;
mod parts;
pub mod sifive;
#[cfg(all(feature = "spidev", target_os = "linux"))]
mod spidev;

pub use async_hal::AsyncHal;
pub use hal::Hal;
pub use lines::Lines;
pub use loopback::Loopback;
pub use parts::Configure;
pub use sifive::Sifive;
#[cfg(all(feature = "spidev", target_os = "linux"))]
pub use spidev::Spidev;

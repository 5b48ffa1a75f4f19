//! Devices for an SPI bus.
//!
//! - [`Mcp2515`]: a CAN controller; it does not allocate, and is available without `std`;
//! - `Flash`: a NOR flash of the 25 series, like ISSI's IS25WP256;
//! - `SdCard`: a high-capacity SD card in SPI mode;
//! - `Wires`: a bus and chip-select lines with such devices, in virtual time, through
//!   embedded-hal's traits.
//!
//! Each device is a [`Target`]: it is selected, exchanges bytes, and is released.

mod can;
#[cfg(feature = "std")]
mod card;
#[cfg(feature = "std")]
mod flash;
mod target;
#[cfg(feature = "std")]
mod wires;

pub use can::{Frame, Identifier, Mcp2515};
#[cfg(feature = "std")]
pub use card::{Blocks, CardFault, SdCard};
#[cfg(feature = "std")]
pub use flash::{Flash, FlashFault};
pub use target::Target;
#[cfg(feature = "std")]
pub use wires::{SelectLine, Wires};

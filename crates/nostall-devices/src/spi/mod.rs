//! Devices at the end of an SPI bus's wires.
//!
//! - [`Mcp2515`]: a CAN controller; it needs no memory but its own, and is there without
//!   `std` too;
//! - `Flash`: a NOR flash of the 25 series, like ISSI's IS25WP256;
//! - `SdCard`: an SD card of high capacity, in SPI mode;
//! - `Wires`: a bus and chip-select lines with such devices at their ends, in virtual
//!   time, as embedded-hal's traits.
//!
//! Each is a [`Target`]: it is selected, exchanges bytes, and is released.

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

//! Devices at the end of an SPI bus's wires.
//!
//! - [`Mcp2515`]: a CAN controller; it needs no memory but its own.

mod can;
mod target;

pub use can::{Frame, Identifier, Mcp2515};
pub use target::Target;

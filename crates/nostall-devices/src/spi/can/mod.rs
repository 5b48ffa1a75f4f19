//! A CAN controller like Microchip's MCP2515.
//!
//! Source: Microchip, "MCP2515 Stand-Alone CAN Controller with SPI Interface"
//! (DS20001801), from memory of its sections 3 to 12; where a section is named, it is by
//! its title. The register names are its own.

mod frame;
mod model;
mod registers;

pub use frame::{Frame, Identifier};
pub use model::Mcp2515;

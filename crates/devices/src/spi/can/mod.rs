//! A CAN controller like Microchip's MCP2515.
//!
//! Source: Microchip, "MCP2515 Stand-Alone CAN Controller with SPI Interface" (DS20001801J). The
//! SPI instructions (table 12-1, figures 12-8 and 12-9) and the buffers' registers (registers 3-4,
//! 3-7, 4-5, 4-7) follow it. The rest was written without it, and tested against an independent
//! driver (the `mcp2515` crate). Registers have the data sheet's names.

mod frame;
mod model;
mod registers;

pub use frame::{Frame, Identifier};
pub use model::Mcp2515;

//! An SD card of high capacity, in SPI mode.
//!
//! Source, as we know it: SD Specifications, Part 1, Physical Layer Simplified
//! Specification, chapter 7, "SPI Mode"; chapter 5 for the registers. Commands are named
//! by their numbers there.

mod blocks;
mod crc;
mod model;
mod registers;

pub use blocks::Blocks;
pub use model::{CardFault, SdCard};

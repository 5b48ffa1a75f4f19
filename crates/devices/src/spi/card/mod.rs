//! A high-capacity SD card (SDHC) in SPI mode.
//!
//! Source: SD Specifications, Part 1, Physical Layer Simplified Specification, chapter 7, "SPI
//! Mode", and chapter 5, "Card Registers". The rules for checksums (7.2.2) and the response to CMD8
//! (7.3.1.4) follow version 4.10. The rest was written without it, and tested against an
//! independent driver (`embedded-sdmmc`). Commands have the specification's numbers.

mod blocks;
mod model;
mod registers;

pub use blocks::Blocks;
pub use model::{CardFault, SdCard};

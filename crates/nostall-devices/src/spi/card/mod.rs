//! An SD card of high capacity, in SPI mode.
//!
//! Source: SD Specifications, Part 1, Physical Layer Simplified Specification, chapter 7, "SPI
//! Mode", and chapter 5, "Card Registers". Looked up there (version 4.10) were when checksums count
//! (7.2.2) and the response to CMD8 (7.3.1.4). The rest is written from experience, and agrees with
//! an independent driver (`embedded-sdmmc`). Commands are named by their numbers there.

mod blocks;
mod model;
mod registers;

pub use blocks::Blocks;
pub use model::{CardFault, SdCard};

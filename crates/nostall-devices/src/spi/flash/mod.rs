//! A NOR flash of the 25 series, like ISSI's IS25WP256: 32 MiB, sectors of 4 KiB, pages
//! of 256 bytes.
//!
//! Sources: JEDEC JESD216 for the instructions that such chips share, ISSI's data sheet
//! "IS25LP256D, IS25WP256D" for identification and addresses of four bytes. Neither was at
//! hand: it is written as we know such chips, and agrees with a driver that others wrote
//! (`w25q32jv`) and with what QEMU's model answers to ours. What a command does to the memory, it does when the chip is
//! released, and only if it was given whole bytes of what it needs.

mod instruction;
mod model;

pub use model::{Flash, FlashFault};

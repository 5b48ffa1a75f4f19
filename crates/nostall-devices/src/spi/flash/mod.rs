//! A NOR flash of the 25 series, like ISSI's IS25WP256: 32 MiB, sectors of 4 KiB, pages
//! of 256 bytes.
//!
//! Sources: JEDEC JESD216 for the instructions that such chips share, ISSI's data sheet
//! "IS25LP256D, IS25WP256D" for identification and addresses of four bytes. Neither was at hand.
//! The model is written from experience, and agrees with an independent driver (`w25q32jv`) and
//! with the answers of QEMU's model to our driver. A command changes the memory when the chip is
//! released, and only if it received all bytes that it needs, whole.

mod instruction;
mod model;

pub use model::{Flash, FlashFault};

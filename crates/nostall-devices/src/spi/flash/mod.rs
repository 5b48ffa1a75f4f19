//! A NOR flash of the 25 series, like ISSI's IS25WP256: 32 MiB, sectors of 4 KiB, pages
//! of 256 bytes.
//!
//! Sources, as we know them: JEDEC JESD216 (the instructions that such chips share),
//! ISSI's data sheet "IS25LP256D, IS25WP256D" (identification, instructions with four
//! bytes of address, times). What a command does to the memory, it does when the chip is
//! released, and only if it was given whole bytes of what it needs.

mod instruction;
mod model;

pub use model::{Flash, FlashFault};

//! A NOR flash of the 25 series, like ISSI's IS25WP256: 32 MiB, sectors of 4 KiB, pages
//! of 256 bytes.
//!
//! Sources: JEDEC JESD216 for the common instructions, ISSI's data sheet "IS25LP256D, IS25WP256D"
//! for identification and four-byte addresses. Neither was at hand: the model was written from
//! general knowledge. It was tested against an independent driver (`w25q32jv`) and compared with
//! QEMU's model. An instruction takes effect when the chip is released, and only if the chip
//! received all its bytes and no partial one.

mod instruction;
mod model;

pub use model::{Flash, FlashFault};

//! Devices for an SPI bus.
//!
//! - [`Mcp2515`]: a CAN controller; it does not allocate, and is available without `std`;
//! - `Flash`: a NOR flash of the 25 series, like ISSI's IS25WP256;
//! - `SdCard`: a high-capacity SD card in SPI mode;
//! - `Wires`: a bus and chip-select lines with such devices, in virtual time, through
//!   embedded-hal's traits.
//!
//! Each device is a [`Target`]: it is selected, exchanges bytes, and is released.
//!
//! | covered | not covered |
//! | --- | --- |
//! | a bus and its lines in virtual time, as embedded-hal's `SpiBus` and output pins (`Wires`) | modes other than 0, words other than 8 bits |
//! | an SD card of high capacity in SPI mode (`SdCard`): 74 clocks to wake it, initialisation, both registers, checksums. One block and several are read and written. Its memory is a trait | standard capacity, erasing, locking; deselection in mid-command counts as on most cards, not as in the specification |
//! | a NOR flash like ISSI's IS25WP256 (`Flash`): addresses of 3 and 4 bytes, sectors and blocks, the time that it takes. Pages wrap, and writes only clear bits | more data wires, SFDP, protection, suspension |
//! | a CAN controller like Microchip's MCP2515 (`Mcp2515`): all nine instructions, loopback, overflows, its interrupt line. Both receive buffers with filters and roll-over, three transmit buffers with priorities | a CAN bus with errors or time, sleep, one-shot |
//! | faults: checksums, unreadable blocks, never ready, silent, stuck busy, protected, weak erase and program | |
//! | the CAN controller without `std` and memory of its own, for a guest kernel | save and restore |
//!
//! The models agree with published drivers (`embedded-sdmmc`, `w25q32jv`, `mcp2515`). They were not
//! compared with chips.

mod can;
#[cfg(feature = "std")]
mod card;
#[cfg(feature = "std")]
mod flash;
mod target;
#[cfg(feature = "std")]
mod wires;

pub use can::{Frame, Identifier, Mcp2515};
#[cfg(feature = "std")]
pub use card::{Blocks, CardFault, SdCard};
#[cfg(feature = "std")]
pub use flash::{Flash, FlashFault};
pub use target::Target;
#[cfg(feature = "std")]
pub use wires::{SelectLine, Wires};

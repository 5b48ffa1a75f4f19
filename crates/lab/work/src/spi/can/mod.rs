//! A busy SPI bus: the load of Linux's patch "spi: core: avoid waking pump thread from spi_sync
//! instead run teardown delayed" (2019).
//!
//! The first task, woken by the interrupt, receives CAN frames as fast as possible. Each frame
//! takes three synchronous messages: read the interrupt flags, read the frame, clear the flag. The
//! second task submits frames to send, with two asynchronous messages each: load the transmit
//! buffer, request to send.
//!
//! The CAN controller is a model of an [MCP2515](nostall_devices::spi::Mcp2515), connected to any
//! SPI controller of the machine.

mod machine;
mod measure;
mod pump;
mod receive;
mod transmit;
mod wired;

pub use machine::{CanBus, CanMachine, Counted};
pub use measure::{Failed, can};
pub use pump::IDLE_TIMEOUT;
pub use wired::{FarEnd, Wired};

/// Maximum clock rate of the MCP2515 in hertz ("SPI Interface AC Characteristics").
const CLOCK: u32 = 10_000_000;

/// Instructions and registers of the MCP2515 ("SPI Instruction Set", "Register Map").
mod chip {
    pub(super) const RESET: u8 = 0xc0;
    pub(super) const READ: u8 = 0x03;
    pub(super) const WRITE: u8 = 0x02;
    pub(super) const BIT_MODIFY: u8 = 0x05;
    pub(super) const LOAD_TX0: u8 = 0x40;
    pub(super) const RTS_TX0: u8 = 0x81;

    pub(super) const CANCTRL: u8 = 0x0f;
    pub(super) const CANINTE: u8 = 0x2b;
    pub(super) const CANINTF: u8 = 0x2c;
    pub(super) const RXB0CTRL: u8 = 0x60;
    pub(super) const RXB0SIDH: u8 = 0x61;

    pub(super) const NORMAL_MODE: u8 = 0;
    pub(super) const ANY_FRAME: u8 = 0x60;
    pub(super) const RX0IF: u8 = 1 << 0;
    pub(super) const TX0IF: u8 = 1 << 2;
}

//! Helpers that the tests of the model's registers share.

use nostall_devices::VirtualClock;
use nostall_devices::uart::{Profile, Uart, VirtualPort};
use nostall_io::{Nanos, Registers};
use nostall_uart::registers::*;

pub type Port = VirtualPort<Vec<u8>>;

/// Returns a port at 115,200 baud, 8N1, with FIFOs on.
pub fn running(profile: Profile) -> (Port, VirtualClock) {
    let (port, clock) = Uart::in_virtual_time(profile, Vec::new());
    port.write8(LCR, lcr::DLAB);
    port.write8(DLL, 1);
    port.write8(LCR, 3);
    port.write8(FCR, fcr::ENABLE);
    (port, clock)
}

/// The duration of a frame on that port.
pub const FRAME: Nanos = Nanos(86_805);

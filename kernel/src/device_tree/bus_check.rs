//! A check of every access through the memory window, and of device interrupts. It uses the serial
//! port, the PCI bridges and the SPI controllers that the machine has.

use nostall_io::Registers;
use nostall_uart::registers::{FCR, LCR, MCR, RBR, THR, fcr, mcr};

use super::{pci, serial};

/// Runs the check. Changes only device settings that the next user sets anyway.
///
/// Panics if an access has the wrong result.
pub fn run() {
    if serial::find().is_some() {
        check_burst();
    }
    pci::each_window(|_, window| {
        if let Ok(window) = window {
            check_widths(&window);
        }
    });
    #[cfg(target_arch = "riscv64")]
    for found in super::spi::all() {
        found.check_interrupt(&crate::arch::MachineClock::find());
    }
}

/// Checks bursts on the serial port in loopback mode.
fn check_burst() {
    let port = serial::serial_port();
    port.write8(LCR, 3);
    port.write8(MCR, mcr::LOOP);
    port.write8(FCR, fcr::ENABLE | fcr::CLEAR_RECEIVE | fcr::CLEAR_TRANSMIT);
    let sent = *b"\x00burst \xff";
    port.write_burst(THR, &sent);
    assert_eq!(sent.map(|_| port.read8(RBR)), sent, "{port:?}");
    port.write8(FCR, 0);
    port.write8(MCR, 0);
}

/// Checks access widths on the first function, the host bridge. Vendor and device are read-only;
/// software can write register 0x3c, the interrupt line.
fn check_widths(bridge: &impl Registers) {
    let id = bridge.read32(0);
    let halves = u32::from(bridge.read16(0)) | u32::from(bridge.read16(2)) << 16;
    assert_eq!(halves, id, "16 bits");
    assert_eq!(bridge.read8(0), id as u8, "8 bits");
    let before = bridge.read16(0x3c);
    bridge.write16(0x3c, before ^ 0x00ff);
    assert_eq!(
        bridge.read16(0x3c) as u8,
        !(before as u8),
        "16 bits written"
    );
    bridge.write16(0x3c, before);
    let before = bridge.read32(0x3c);
    bridge.write32(0x3c, before ^ 0x0000_00ff);
    assert_eq!(
        bridge.read32(0x3c) as u8,
        !(before as u8),
        "32 bits written"
    );
    bridge.write32(0x3c, before);
}

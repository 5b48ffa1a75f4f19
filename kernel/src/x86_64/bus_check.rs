//! A check of every instruction of the port window, for writing and reading.

use nostall_io::{Ports, Registers, StringIo};
use nostall_uart::registers::{FCR, LCR, MCR, RBR, THR, fcr, mcr};

/// Runs the check. Changes only settings of the serial port that its next user sets anyway.
///
/// Panics if an access has the wrong result.
pub fn run() {
    // SAFETY: ring 0; a 16550 does no DMA.
    let by_string = unsafe { Ports::new(0x3f8, 8) };
    let unrolled = by_string.with_string_io(StringIo::Unrolled);
    by_string.write8(LCR, 3);
    by_string.write8(MCR, mcr::LOOP);
    for ports in [by_string, unrolled] {
        by_string.write8(FCR, fcr::ENABLE | fcr::CLEAR_RECEIVE | fcr::CLEAR_TRANSMIT);
        let sent = *b"\x00burst \xff";
        ports.write_burst(THR, &sent);
        assert_eq!(sent.map(|_| ports.read8(RBR)), sent, "{ports:?}");
    }
    by_string.write8(FCR, 0);
    by_string.write8(MCR, 0);

    // SAFETY: ring 0. PCI's index register (PCI 3.0, section 3.2.2.3.2) keeps its value. It selects
    // the 32 bits at 0xcfc: the host bridge's vendor and device, read-only.
    let pci = unsafe { Ports::new(0xcf8, 8) };
    pci.write32(0, 0x8000_0000);
    assert_eq!(pci.read32(0), 0x8000_0000, "32 bits");
    let id = pci.read32(4);
    let halves = u32::from(pci.read16(4)) | u32::from(pci.read16(6)) << 16;
    assert_eq!(halves, id, "16 bits");
    assert_eq!(pci.read8(4), id as u8, "8 bits");
    // Register 0x3c of the bridge, the interrupt line, can be written.
    pci.write32(0, 0x8000_003c);
    let before = pci.read16(4);
    pci.write16(4, before ^ 0x00ff);
    assert_eq!(pci.read16(4) as u8, !(before as u8), "16 bits written");
    pci.write16(4, before);
}

//! Every instruction of the port window, there and back.

use nostall_io::{Ports, Registers, StringIo};
use nostall_uart::registers::{FCR, LCR, MCR, RBR, THR, fcr, mcr};

/// Panics if one does not do what it should. Leaves the serial port as its next
/// user sets it up anyway.
pub fn run() {
    // SAFETY: ring 0; a 16550 does no DMA.
    let by_string = unsafe { Ports::new(0x3f8, 8) };
    let unrolled = by_string.with_string_io(StringIo::Unrolled);
    by_string.write8(LCR, 3);
    by_string.write8(MCR, mcr::LOOP);
    for (there, back) in [(by_string, unrolled), (unrolled, by_string)] {
        by_string.write8(FCR, fcr::ENABLE | fcr::CLEAR_RECEIVE | fcr::CLEAR_TRANSMIT);
        let sent = *b"\x00burst \xff";
        there.write_burst(THR, &sent);
        let mut echoed = [0; 8];
        back.read_burst(RBR, &mut echoed);
        assert_eq!(echoed, sent, "{there:?} to {back:?}");
    }
    by_string.write8(FCR, 0);
    by_string.write8(MCR, 0);

    // SAFETY: ring 0; PCI's index register (PCI 3.0, 3.2.2.3.2) keeps what it is
    // given, and 32 bits at 0xcfc are what it points to: the host bridge's vendor
    // and device, read-only.
    let pci = unsafe { Ports::new(0xcf8, 8) };
    pci.write32(0, 0x8000_0000);
    assert_eq!(pci.read32(0), 0x8000_0000, "32 bits");
    let id = pci.read32(4);
    let halves = u32::from(pci.read16(4)) | u32::from(pci.read16(6)) << 16;
    assert_eq!(halves, id, "16 bits");
    assert_eq!(pci.read8(4), id as u8, "8 bits");
    // Register 0x3c of the bridge, the interrupt line, is for software to write.
    pci.write32(0, 0x8000_003c);
    let before = pci.read16(4);
    pci.write16(4, before ^ 0x00ff);
    assert_eq!(pci.read16(4) as u8, !(before as u8), "16 bits written");
    pci.write16(4, before);
}

//! The members of the family, distinguished as a driver does it.

use nostall_devices::VirtualClock;
use nostall_devices::uart::{Chip, Profile, Uart, VirtualPort};
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::Model;
use nostall_uart::registers::*;

type Port = VirtualPort<Vec<u8>>;

/// Returns a port at 115,200 baud, 8N1, with FIFOs on.
fn running(chip: impl Into<Chip>, profile: Profile) -> (Port, VirtualClock) {
    let (port, clock) = Uart::in_virtual_time_as(chip, profile, Vec::new());
    port.write8(LCR, lcr::DLAB);
    port.write8(DLL, 1);
    port.write8(LCR, 3);
    port.write8(FCR, fcr::ENABLE);
    (port, clock)
}

/// Switches on the deep FIFOs, which the 16950 has only in enhanced mode, and the 16750 only on
/// request.
fn deepen(port: &Port) {
    port.write8(LCR, lcr::ENHANCED);
    port.write8(EFR, efr::ENHANCED);
    port.write8(LCR, lcr::DLAB);
    port.write8(FCR, fcr::ENABLE | fcr::FIFO_64);
    port.write8(LCR, 3);
    port.write8(FCR, fcr::ENABLE);
}

/// Returns the number of bytes that loopback returns before one is lost.
fn receive_depth(port: &Port) -> usize {
    port.write8(MCR, mcr::LOOP);
    (0..=255).for_each(|byte| port.write8(THR, byte));
    let mut depth = 0;
    while port.read8(LSR) & lsr::DATA_READY != 0 {
        port.read8(RBR);
        depth += 1;
    }
    port.write8(MCR, 0);
    depth
}

#[test]
fn each_model_has_the_fifo_of_its_data_sheet() {
    for model in Model::ALL {
        let (port, _) = running(model, Profile::VM);
        deepen(&port);
        assert_eq!(receive_depth(&port), model.fifo_depth(), "{model}");
    }
}

#[test]
fn deep_fifos_have_16_bytes_until_they_are_enabled() {
    for model in [Model::Uart16750, Model::Uart16950] {
        let (port, _) = running(model, Profile::VM);
        assert_eq!(receive_depth(&port), 16, "{model}");
    }
}

#[test]
fn no_model_loses_a_byte_within_its_guaranteed_load() {
    for model in Model::ALL {
        let (port, clock) = running(model, Profile::PC_16550A);
        deepen(&port);
        let text: Vec<u8> = (b'a'..=b'z').cycle().take(1_000).collect();
        for load in text.chunks(model.transmit_load()) {
            while port.read8(LSR) & lsr::THRE == 0 {
                clock.advance(Nanos::from_micros(1));
            }
            port.write_burst(THR, load);
        }
        clock.advance(Nanos::from_secs(1));
        assert_eq!(port.with(|uart| uart.lost()), 0, "{model}");
        assert!(port.into_sink() == text, "{model}");
    }
}

#[test]
fn the_iir_shows_the_fifos() {
    for model in Model::ALL {
        let (port, _) = running(model, Profile::VM);
        let shown = port.read8(IIR) & iir::FIFOS;
        let expected = match model {
            Model::Uart8250 | Model::Uart16450 => 0,
            Model::Uart16550 => 0x80,
            _ => iir::FIFOS,
        };
        assert_eq!(shown, expected, "{model}");
    }
}

#[test]
fn the_8250_has_no_scratch_register() {
    for model in Model::ALL {
        let (port, _) = running(model, Profile::VM);
        port.write8(SCR, 0x5a);
        let expected = if model == Model::Uart8250 { !0 } else { 0x5a };
        assert_eq!(port.read8(SCR), expected, "{model}");
    }
}

#[test]
fn the_16550s_fifo_behaves_as_one_byte() {
    let (port, _) = running(Model::Uart16550, Profile::PC_16550A);
    port.write_burst(THR, b"abcd");
    // One byte is in the shift register, one in the holding register.
    assert_eq!(port.with(|uart| uart.lost()), 2);
}

#[test]
fn the_16650v2_reports_ready_before_it_is_empty() {
    let (port, clock) = running(Model::Uart16650V2, Profile::PC_16550A);
    port.write_burst(THR, &[b'x'; 33]);
    assert_eq!(port.with(|uart| uart.lost()), 0);
    clock.advance(Nanos(86_805) * 15);
    assert_eq!(port.read8(LSR) & lsr::THRE, 0);
    clock.advance(Nanos(86_805));
    assert_eq!(port.read8(LSR) & (lsr::THRE | lsr::TEMT), lsr::THRE);
    port.write_burst(THR, &[b'x'; 17]);
    assert_eq!(port.with(|uart| uart.lost()), 1, "room for 16");
}

#[test]
fn the_mini_uart_has_room_for_one_byte_when_it_reports_ready() {
    let (port, clock) = running(Model::Bcm2835Mini, Profile::PC_16550A);
    port.write_burst(THR, &[b'x'; 9]);
    assert_eq!(port.read8(LSR) & lsr::THRE, 0);
    clock.advance(Nanos(86_805));
    assert_ne!(port.read8(LSR) & lsr::THRE, 0);
    port.write_burst(THR, b"yz");
    assert_eq!(port.with(|uart| uart.lost()), 1);
    port.write8(FCR, 0);
    assert_eq!(port.read8(IIR) & iir::FIFOS, iir::FIFOS, "always on");
}

#[test]
fn the_efr_lies_behind_0xbf_where_there_is_one() {
    for model in Model::ALL {
        let (port, _) = running(model, Profile::VM);
        port.write8(LCR, lcr::ENHANCED);
        port.write8(EFR, 0x10);
        let found = port.read8(EFR) == 0x10;
        let later = [Model::Uart16650V2, Model::Uart16850, Model::Uart16950].contains(&model);
        let first = model == Model::Uart16650;
        assert_eq!(found, first || later, "{model}");
        // The first model with an EFR has it behind the divisor latch as well.
        port.write8(LCR, lcr::DLAB);
        port.write8(EFR, 0x20);
        assert_eq!(port.read8(EFR) == 0x20, first, "{model}");
        port.write8(LCR, 3);
        assert_eq!(port.read8(IIR) & iir::ID, iir::MODEM_STATUS);
    }
}

#[test]
fn the_16850_shows_its_id_when_the_divisor_is_0() {
    let (port, _) = running(Model::Uart16850, Profile::VM);
    port.write8(LCR, lcr::DLAB);
    port.write8(DLL, 0);
    port.write8(DLM, 0);
    assert_eq!(port.read8(DLM), 0x10);
    port.write8(DLL, 7);
    assert_eq!((port.read8(DLM), port.read8(DLL)), (0, 7));
}

#[test]
fn the_16950_shows_its_id_through_the_indexed_registers() {
    let (port, _) = running(Model::Uart16950, Profile::VM);
    let set = |index, value| {
        port.write8(SCR, index);
        port.write8(ICR, value);
    };
    let get = |index| {
        port.write8(SCR, index);
        port.read8(ICR)
    };
    set(icr::ACR, icr::ACR_READ);
    assert_eq!(
        get(icr::ID1),
        lsr::THRE | lsr::TEMT,
        "the LSR, without enhanced mode"
    );
    port.write8(LCR, lcr::ENHANCED);
    port.write8(EFR, efr::ENHANCED);
    port.write8(LCR, 0);
    set(icr::ACR, icr::ACR_READ);
    assert_eq!([8, 9, 10].map(get), icr::IDS.map(|ids| ids[0]));
    set(icr::ACR, 0);
    assert_eq!(port.read8(LSR), lsr::THRE | lsr::TEMT);
    // A software reset clears the enhanced mode, too.
    set(0x0c, 0);
    port.write8(LCR, lcr::ENHANCED);
    assert_eq!(port.read8(EFR), 0);
}

#[test]
fn the_16750_gets_64_bytes_only_behind_dlab() {
    let (port, _) = running(Model::Uart16750, Profile::VM);
    port.write8(FCR, fcr::ENABLE | fcr::FIFO_64);
    assert_eq!(port.read8(IIR), iir::FIFOS | iir::NONE);
    port.write8(LCR, lcr::DLAB);
    port.write8(FCR, fcr::ENABLE | fcr::FIFO_64);
    port.write8(LCR, 3);
    assert_eq!(port.read8(IIR), iir::FIFOS | iir::FIFO_64 | iir::NONE);
    // Setting a trigger level keeps the deep FIFO.
    port.write8(FCR, fcr::ENABLE | fcr::TRIGGER);
    assert_eq!(port.read8(IIR), iir::FIFOS | iir::FIFO_64 | iir::NONE);
}

#[test]
fn each_fifo_has_the_receive_triggers_of_its_data_sheet() {
    let chips = [
        (Chip::new(Model::Uart16550A), [1, 4, 8, 14]),
        (Chip::new(Model::Uart16650V2), [8, 16, 24, 28]),
        (Chip::new(Model::Uart16750), [1, 16, 32, 56]),
        (Chip::new(Model::Uart16950), [16, 32, 112, 120]),
        (Chip::new(Model::Bcm2835Mini), [1, 1, 1, 1]),
        (Chip::designware(64), [1, 16, 32, 62]),
    ];
    for (chip, triggers) in chips {
        for (level, trigger) in triggers.into_iter().enumerate() {
            let (port, _) = running(chip, Profile::VM);
            deepen(&port);
            port.write8(FCR, fcr::ENABLE | (level as u8) << 6);
            port.write8(IER, ier::RECEIVED_DATA);
            let mut received = 0;
            while port.with(|uart| uart.interrupt()).is_none() {
                port.with(|uart| uart.receive(0));
                received += 1;
            }
            assert_eq!(received, trigger, "{chip:?} at {level}");
        }
    }
}

#[test]
fn a_designware_describes_itself_in_words() {
    for (asked, depth) in [(16, 16), (40, 32), (256, 256), (5_000, 2_048)] {
        let (port, _) = running(Chip::designware(asked), Profile::VM);
        assert_eq!(port.read32(DW_CTR), dw::CTR);
        let fifo = port.read32(DW_CPR) >> 16 & 0xff; // databook, CPR, FIFO_MODE
        assert_eq!(fifo * 16, depth, "{asked}");
    }
    let (port, _) = running(Chip::designware(0), Profile::VM);
    assert_eq!(port.read32(DW_CPR), 0);
    assert_eq!(port.read8(IIR), iir::NONE, "no FIFO");
    assert_eq!(port.read32(9), !0);
}

#[test]
fn only_a_designware_has_words() {
    let (port, clock) = running(Model::DesignWare, Profile::PC_16550A);
    port.write32(SCR, 0x1234_5678);
    let before = clock.now();
    assert_eq!(port.read32(SCR), 0x78);
    assert_eq!(clock.now() - before, Profile::PC_16550A.access);

    let (port, clock) = running(Model::Uart16550A, Profile::PC_16550A);
    port.write32(LCR, 3);
    let before = clock.now();
    let status = u32::from(lsr::THRE | lsr::TEMT);
    let lines = u32::from(msr::CTS | msr::DSR | msr::DCD);
    assert_eq!(port.read32(LCR), 3 | status << 16 | lines << 24);
    assert_eq!(clock.now() - before, Profile::PC_16550A.access * 4);
    assert_eq!(port.read32(DW_CTR), !0);
}

#[test]
fn a_busy_designware_keeps_its_lcr_and_interrupts_until_its_status_is_read() {
    let (port, clock) = running(Model::DesignWare, Profile::PC_16550A);
    port.write8(THR, b'x');
    port.write8(LCR, lcr::DLAB);
    assert_eq!(port.read8(LCR), 3);
    assert_eq!(port.read8(IIR) & 0xf, dw::IIR_BUSY);
    assert_eq!(
        port.read8(IIR) & 0xf,
        dw::IIR_BUSY,
        "reading the IIR does not clear it"
    );
    assert_eq!(port.read32(DW_USR) & 1, 1); // databook, USR, BUSY
    assert_eq!(port.read8(IIR) & 0xf, iir::NONE);
    clock.advance(Nanos(86_805));
    assert_eq!(port.read32(DW_USR) & 1, 0);
    port.write8(LCR, lcr::DLAB);
    assert_eq!(port.read8(LCR), lcr::DLAB);
}

#[test]
fn unread_bytes_also_make_a_designware_busy() {
    let (port, _) = running(Model::DesignWare, Profile::VM);
    port.with(|uart| uart.receive(b'r'));
    port.write8(LCR, 0);
    assert_eq!(port.read8(LCR), 3);
    port.write8(FCR, fcr::ENABLE | fcr::CLEAR_RECEIVE);
    port.write8(LCR, 0);
    assert_eq!(port.read8(LCR), 0);
}

//! The PL011's model, register by register, compared with ARM DDI 0183G.

use nostall_devices::VirtualClock;
use nostall_devices::pl011::registers::*;
use nostall_devices::pl011::{Chip, Fault, Line, Pl011, Profile, VirtualPort};
use nostall_devices::uart::Output;
use nostall_io::{Clock, Nanos, Registers};

type Port = VirtualPort<Vec<u8>>;

/// Duration of a frame of 8N1 at 24 MHz with the divisor 13 + 1/64, which is near 115,200 baud.
const FRAME: Nanos = Nanos(86_770);

/// Duration of 32 bits at the same rate.
const TIMEOUT: Nanos = Nanos(277_666);

/// Returns an enabled port at about 115,200 baud, 8N1, with FIFOs on.
fn running(profile: Profile) -> (Port, VirtualClock) {
    let (port, clock) = Pl011::in_virtual_time(profile, Vec::new());
    port.write32(IBRD, 13);
    port.write32(FBRD, 1);
    port.write32(LCR_H, lcr_h::WLEN | lcr_h::FEN);
    port.write32(CR, cr::UARTEN | cr::TXE | cr::RXE);
    (port, clock)
}

/// Writes `count` bytes at one time.
fn fill(port: &Port, count: usize) {
    port.with(|uart| (0..count).for_each(|n| uart.write(DR, n as u32)));
}

fn receive(port: &Port, bytes: &[u8]) {
    port.with(|uart| bytes.iter().for_each(|&byte| uart.receive(byte)));
}

/// Returns a register's value, at no cost in time.
fn peek(port: &Port, offset: usize) -> u32 {
    port.with(|uart| uart.read(offset))
}

fn raised(port: &Port, interrupt: u32) -> bool {
    peek(port, RIS) & interrupt != 0
}

fn sent(port: &Port) -> usize {
    port.with(|uart| uart.sink_mut().len())
}

#[test]
fn reset_values_are_those_of_table_3_1() {
    let (port, _) = Pl011::in_virtual_time(Profile::R1P5, Vec::new());
    let modem = fr::CTS | fr::DSR | fr::DCD;
    assert_eq!(port.read32(FR), fr::TXFE | fr::RXFE | modem);
    assert_eq!((port.read32(CR), port.read32(IFLS)), (0x0300, 0x12));
    for offset in [
        RSR, ILPR, IBRD, FBRD, LCR_H, IMSC, RIS, MIS, ICR, DMACR, 0x4c, 0xfdc,
    ] {
        assert_eq!(port.read32(offset), 0, "{offset:#x}");
    }
    assert_eq!((port.read32(SIZE), port.read8(SIZE)), (!0, !0));
}

#[test]
fn identification_registers_have_the_revision_of_table_3_21() {
    for (profile, revision) in [
        (Profile::R1P5, 0x34),
        (Profile::R1P4, 0x24),
        (Profile::QEMU, 0x14),
    ] {
        let (port, _) = Pl011::in_virtual_time(profile, Vec::new());
        let ids = [0, 4, 8, 12].map(|at| port.read32(PERIPH_ID + at));
        assert_eq!(ids, [0x11, 0x10, revision, 0x00]);
        let ids = [0, 4, 8, 12].map(|at| port.read32(PCELL_ID + at));
        assert_eq!(ids, [0x0d, 0xf0, 0x05, 0xb1]);
    }
}

#[test]
fn bits_that_do_not_exist_read_zero() {
    let (port, _) = Pl011::in_virtual_time(Profile::R1P5, Vec::new());
    for (offset, bits) in [
        (ILPR, 0xff),
        (IBRD, 0xffff),
        (FBRD, 0x3f),
        (LCR_H, 0xff),
        (CR, 0xff87),
        (IFLS, 0x3f),
        (IMSC, 0x7ff),
        (DMACR, 7),
    ] {
        port.write32(offset, !0);
        assert_eq!(port.read32(offset), bits, "{offset:#x}");
    }
}

#[test]
fn any_width_reaches_the_register_in_one_access() {
    let (port, clock) = Pl011::in_virtual_time(Profile::R1P5, Vec::new());
    port.write16(IBRD, 0x1234);
    port.write8(IFLS, 0x21);
    port.write8(IBRD + 1, 0xff);
    assert_eq!((port.read16(IBRD), port.read32(IFLS)), (0x1234, 0x21));
    assert_eq!((port.read8(IBRD), port.read8(IBRD + 1)), (0x34, 0x12));
    assert_eq!((port.read16(IFLS), port.read8(CR + 1)), (0x21, 0x03));
    assert_eq!(clock.now(), Profile::R1P5.access * 9);
    port.write_burst(DR, b"abc");
    assert_eq!(clock.now(), Profile::R1P5.access * 12);
}

#[test]
fn the_fifo_is_empty_a_frame_before_the_port_is_idle() {
    let (port, clock) = running(Profile::R1P5);
    let start = clock.now();
    fill(&port, 2);
    let flags = || peek(&port, FR) & (fr::TXFE | fr::BUSY);
    // The first byte went straight to the shift register.
    assert_eq!(flags(), fr::BUSY);
    clock.wait_until(start + FRAME);
    assert_eq!(flags(), fr::TXFE | fr::BUSY);
    clock.wait_until(start + FRAME * 2 - Nanos(1));
    assert_eq!((flags(), sent(&port)), (fr::TXFE | fr::BUSY, 1));
    clock.wait_until(start + FRAME * 2);
    assert_eq!((flags(), sent(&port)), (fr::TXFE, 2));
}

#[test]
fn each_revision_has_its_depth_and_a_full_fifo_loses_bytes_without_a_flag() {
    for (profile, depth) in [
        (Profile::R1P5, 32),
        (Profile::R1P4, 16),
        (Profile::SBSA, 32),
    ] {
        let (port, clock) = running(profile);
        for count in 0..=depth {
            assert_eq!(peek(&port, FR) & fr::TXFF, 0, "{profile:?} at {count}");
            fill(&port, 1);
        }
        assert_eq!(peek(&port, FR) & fr::TXFF, fr::TXFF);
        assert_eq!(port.with(|uart| uart.lost()), 0);
        fill(&port, 5);
        assert_eq!(port.with(|uart| uart.lost()), 5);
        assert_eq!((peek(&port, RIS), peek(&port, RSR)), (0, 0));
        clock.advance(Nanos::from_secs(1));
        assert_eq!(sent(&port), depth + 1, "and one in the shift register");
    }
}

#[test]
fn without_fen_each_fifo_is_one_byte() {
    let (port, clock) = running(Profile::R1P5);
    port.write32(LCR_H, lcr_h::WLEN);
    fill(&port, 1);
    assert_eq!(peek(&port, FR) & (fr::TXFE | fr::TXFF), fr::TXFE);
    fill(&port, 1);
    assert_eq!(peek(&port, FR) & (fr::TXFE | fr::TXFF), fr::TXFF);
    fill(&port, 1);
    assert_eq!(port.with(|uart| uart.lost()), 1);
    receive(&port, b"r");
    assert_eq!(peek(&port, FR) & (fr::RXFE | fr::RXFF), fr::RXFF);
    assert!(raised(&port, int::RX), "at one byte");
    assert_eq!(port.read32(DR), u32::from(b'r'));
    assert!(!raised(&port, int::RX));
    clock.advance(FRAME * 2);
    assert_eq!(port.into_sink(), [0, 0]);
}

#[test]
fn clearing_fen_flushes_both_fifos() {
    let (port, clock) = running(Profile::R1P5);
    fill(&port, 10);
    receive(&port, b"r");
    port.write32(LCR_H, lcr_h::WLEN);
    assert_eq!(
        peek(&port, FR) & (fr::TXFE | fr::RXFE | fr::BUSY),
        fr::TXFE | fr::RXFE | fr::BUSY
    );
    assert_eq!(port.with(|uart| uart.lost()), 9);
    clock.advance(FRAME);
    assert_eq!(port.into_sink(), [0], "the byte in the shift register");
}

#[test]
fn rewriting_the_line_control_register_keeps_both_fifos() {
    let (port, clock) = running(Profile::R1P5);
    fill(&port, 10);
    receive(&port, b"r");
    port.write32(LCR_H, lcr_h::WLEN | lcr_h::FEN);
    assert_eq!(peek(&port, FR) & (fr::TXFE | fr::RXFE), 0);
    clock.advance(FRAME * 10);
    assert_eq!((sent(&port), port.with(|uart| uart.lost())), (10, 0));
}

#[test]
fn a_restored_port_completes_frame_and_timeout_at_the_same_distance() {
    let (port, clock) = running(Profile::R1P5);
    port.write32(IMSC, int::RT);
    receive(&port, b"r");
    fill(&port, 2);
    clock.advance(FRAME - Nanos(1));
    let state = port.with(|uart| uart.save());
    let (restored, clock) = Pl011::in_virtual_time(Profile::R1P5, Vec::new());
    clock.advance(Nanos::from_secs(7));
    restored.with(|uart| uart.restore(&state));
    assert_eq!(sent(&restored), 0);
    clock.advance(Nanos(1));
    assert_eq!(sent(&restored), 1);
    clock.advance(FRAME);
    assert_eq!(sent(&restored), 2);
    clock.advance(TIMEOUT - FRAME * 2 - Nanos(1));
    assert_eq!(restored.with(|uart| uart.interrupt()), None);
    clock.advance(Nanos(1));
    assert_eq!(restored.with(|uart| uart.interrupt()), Some(int::RT));
}

#[test]
fn other_frames_take_other_times_and_carry_other_bits() {
    for (lcr, bits, carried) in [
        (lcr_h::WLEN, 10, 0xff),
        (lcr_h::WLEN | lcr_h::PEN, 11, 0xff),
        (2 << 5 | lcr_h::STP2, 10, 0x7f),
        (1 << 5, 8, 0x3f),
        (lcr_h::STP2 | lcr_h::PEN | lcr_h::EPS, 9, 0x1f),
    ] {
        let (port, clock) = running(Profile::R1P5);
        port.write32(LCR_H, lcr);
        let frame = Nanos::from_secs(bits * (13 * 64 + 1)) / (4 * 24_000_000);
        port.with(|uart| uart.write(DR, 0xff));
        clock.advance(frame - Nanos(1));
        assert_eq!(sent(&port), 0, "{lcr:#b}");
        clock.advance(Nanos(1));
        assert_eq!(port.into_sink(), [carried], "{lcr:#b}");
    }
}

#[test]
fn the_rates_are_those_of_tables_3_8_and_3_9() {
    for (clock, integer, fraction, rate) in [
        (7_372_800, 0x1, 0, 460_800),
        (7_372_800, 0x4, 0, 115_200),
        (7_372_800, 0xc0, 0, 2_400),
        (4_000_000, 0x1, 0x5, 231_884), // the manual rounds the divisor: 231,911
        (4_000_000, 0x2, 0xb, 115_107), // 115,101 there
        (4_000_000, 0x68, 0xb, 2_400),
    ] {
        let (port, time) = running(Profile::R1P5.with_line(Line::Clock(clock)));
        port.write32(IBRD, integer);
        port.write32(FBRD, fraction);
        port.write32(LCR_H, lcr_h::WLEN);
        let start = time.now();
        fill(&port, 1);
        let done = port.with(|uart| uart.next_event()).unwrap();
        let bits_a_second = Nanos::from_secs(10).0 / (done - start).0;
        let off = bits_a_second.abs_diff(rate);
        assert!(off * 2_000 < rate, "{rate}: {bits_a_second}");
    }
}

#[test]
fn the_baud_rate_registers_take_effect_with_the_line_control_register() {
    let (port, clock) = running(Profile::R1P5);
    port.write32(IBRD, 26);
    port.write32(FBRD, 2);
    fill(&port, 1);
    clock.advance(FRAME);
    assert_eq!(sent(&port), 1);
    port.write32(LCR_H, lcr_h::WLEN | lcr_h::FEN);
    fill(&port, 1);
    clock.advance(FRAME * 2);
    assert_eq!(sent(&port), 1);
    clock.advance(Nanos(1));
    assert_eq!(sent(&port), 2);
}

#[test]
fn with_an_invalid_divisor_nothing_moves() {
    for (integer, fraction) in [(0, 0), (0, 63), (0xffff, 1)] {
        let (port, clock) = running(Profile::R1P5);
        port.write32(IBRD, integer);
        port.write32(FBRD, fraction);
        port.write32(LCR_H, lcr_h::WLEN | lcr_h::FEN);
        fill(&port, 1);
        assert_eq!(port.with(|uart| uart.next_event()), None);
        clock.advance(Nanos::from_secs(100));
        assert_eq!(peek(&port, FR) & (fr::TXFE | fr::BUSY), fr::BUSY);
    }
}

#[test]
fn a_disabled_port_is_busy_and_completes_only_the_current_byte() {
    for off in [cr::TXE | cr::RXE, cr::UARTEN | cr::RXE] {
        let (port, clock) = running(Profile::R1P5);
        fill(&port, 3);
        port.write32(CR, off);
        clock.advance(Nanos::from_secs(1));
        assert_eq!(sent(&port), 1);
        assert_eq!(peek(&port, FR) & (fr::TXFE | fr::BUSY), fr::BUSY);
        port.write32(CR, cr::UARTEN | cr::TXE);
        clock.advance(FRAME * 2);
        assert_eq!(port.into_sink(), [0, 1, 2]);
    }
}

#[test]
fn cts_flow_control_and_a_break_hold_the_transmitter_between_two_bytes() {
    let (port, clock) = running(Profile::R1P5);
    port.write32(CR, cr::UARTEN | cr::TXE | cr::CTSEN);
    fill(&port, 3);
    port.with(|uart| uart.set_modem_lines(0));
    clock.advance(Nanos::from_secs(1));
    assert_eq!(sent(&port), 1);
    port.with(|uart| uart.set_modem_lines(fr::CTS));
    clock.advance(FRAME - Nanos(1));
    assert_eq!(sent(&port), 1);
    clock.advance(Nanos(1));
    assert_eq!(sent(&port), 2);
    port.write32(LCR_H, lcr_h::WLEN | lcr_h::FEN | lcr_h::BRK);
    clock.advance(Nanos::from_secs(1));
    assert_eq!(sent(&port), 3, "the current byte is completed");
    fill(&port, 1);
    clock.advance(Nanos::from_secs(1));
    assert_eq!(sent(&port), 3);
    port.write32(LCR_H, lcr_h::WLEN | lcr_h::FEN);
    clock.advance(FRAME);
    assert_eq!(sent(&port), 4);
}

#[test]
fn the_transmit_interrupt_comes_when_the_fill_falls_to_its_level_and_not_below_it() {
    for (profile, depth) in [(Profile::R1P5, 32), (Profile::R1P4, 16)] {
        for (field, eighths) in [(0, 1), (1, 2), (2, 4), (3, 6), (4, 7)] {
            let level = depth * eighths / 8;
            let (port, clock) = running(profile);
            port.write32(IFLS, field);
            port.write32(IMSC, int::TX);
            clock.advance(Nanos::from_secs(1));
            // One byte is in the shift register: the fill never was above the level.
            fill(&port, level + 1);
            clock.advance(Nanos::from_secs(1));
            assert_eq!(port.with(|uart| uart.interrupt()), None);
            fill(&port, level + 2);
            clock.advance(FRAME - Nanos(1));
            assert_eq!(port.with(|uart| uart.interrupt()), None);
            clock.advance(Nanos(1));
            assert_eq!(port.with(|uart| uart.interrupt()), Some(int::TX));
        }
    }
}

#[test]
fn a_transmit_interrupt_stays_until_it_is_cleared_or_the_fifo_filled() {
    let (port, clock) = running(Profile::R1P5);
    fill(&port, 33);
    clock.advance(Nanos::from_secs(1));
    assert!(raised(&port, int::TX), "also while it is masked");
    assert_eq!(peek(&port, MIS), 0);
    fill(&port, 17);
    assert!(raised(&port, int::TX), "not above the level");
    fill(&port, 1);
    assert!(!raised(&port, int::TX));
    clock.advance(Nanos::from_secs(1));
    port.write32(ICR, int::RX);
    assert!(raised(&port, int::TX));
    port.write32(ICR, int::TX);
    clock.advance(Nanos::from_secs(1));
    assert!(!raised(&port, int::TX), "the level does not raise it again");
}

#[test]
fn without_fen_the_transmit_interrupt_comes_when_the_holding_register_is_empty() {
    let (port, clock) = running(Profile::R1P5);
    port.write32(LCR_H, lcr_h::WLEN);
    port.write32(IMSC, int::TX);
    assert_eq!(port.with(|uart| uart.interrupt()), None);
    fill(&port, 1);
    // The byte bypassed the holding register (section 2.4.3).
    assert_eq!(port.with(|uart| uart.interrupt()), Some(int::TX));
    fill(&port, 1);
    assert_eq!(port.with(|uart| uart.interrupt()), None);
    clock.advance(FRAME);
    assert_eq!(port.with(|uart| uart.interrupt()), Some(int::TX));
}

#[test]
fn each_character_has_its_errors_in_the_data_register_and_then_in_the_status() {
    let (port, _) = running(Profile::R1P5);
    port.with(|uart| {
        uart.receive_with(b'a', dr::PARITY);
        uart.receive_with(b'b', dr::FRAMING);
        uart.receive_with(0, dr::BREAK | dr::FRAMING);
        uart.receive_with(b'c', !0);
        uart.receive(b'd');
    });
    assert_eq!(port.read32(RSR), 0);
    assert_eq!(port.read32(RIS), int::PE | int::FE | int::BE);
    for (character, status) in [
        (dr::PARITY | u32::from(b'a'), rsr::PARITY),
        (dr::FRAMING | u32::from(b'b'), rsr::FRAMING),
        (dr::BREAK | dr::FRAMING, rsr::BREAK | rsr::FRAMING),
        (0x700 | u32::from(b'c'), 0b111),
        (u32::from(b'd'), 0),
    ] {
        assert_eq!((port.read32(DR), port.read32(RSR)), (character, status));
    }
    port.write32(ICR, int::PE);
    assert_eq!(port.read32(RIS), int::FE | int::BE);
    receive(&port, b"e");
    port.with(|uart| uart.receive_with(0, dr::BREAK));
    assert_eq!(port.read16(DR), u16::from(b'e'));
    assert_eq!(port.read16(DR), dr::BREAK as u16);
    port.write32(RSR, 0xff);
    assert_eq!((port.read32(RSR), port.read32(DR)), (0, 0), "empty");
}

#[test]
fn an_overrun_keeps_the_older_characters_and_marks_the_next_one() {
    let (port, _) = running(Profile::R1P5);
    port.write32(IMSC, int::OE);
    receive(&port, &[b'r'; 32]);
    assert_eq!(peek(&port, FR) & fr::RXFF, fr::RXFF);
    assert_eq!(port.with(|uart| uart.interrupt()), None);
    receive(&port, b"lost");
    assert_eq!(port.with(|uart| uart.interrupt()), Some(int::OE));
    assert_eq!(port.read32(RSR), rsr::OVERRUN, "at once");
    assert_eq!(port.read32(DR), u32::from(b'r'));
    assert_eq!(port.read32(RSR), rsr::OVERRUN, "until it is cleared");
    port.write32(RSR, 0);
    assert_eq!(port.read32(RSR), 0);
    receive(&port, b"n");
    for _ in 1..32 {
        assert_eq!(port.read32(DR), u32::from(b'r'));
    }
    assert_eq!(port.read32(DR), dr::OVERRUN | u32::from(b'n'));
    receive(&port, b"m");
    assert_eq!(port.read32(DR), u32::from(b'm'));
}

#[test]
fn the_receive_interrupt_comes_when_the_fill_rises_to_its_level() {
    for (profile, depth) in [(Profile::R1P5, 32), (Profile::R1P4, 16)] {
        for (field, eighths) in [(0, 1), (1, 2), (2, 4), (3, 6), (4, 7)] {
            let level = depth * eighths / 8;
            let (port, _) = running(profile);
            port.write32(IFLS, field << 3);
            receive(&port, &vec![b'r'; level - 1]);
            assert!(!raised(&port, int::RX), "{level}");
            receive(&port, b"r");
            assert!(raised(&port, int::RX), "{level}");
            port.write32(ICR, int::RX);
            receive(&port, b"r");
            assert!(!raised(&port, int::RX), "only a rise to the level");
            peek(&port, DR);
            peek(&port, DR);
            receive(&port, b"r");
            assert!(raised(&port, int::RX));
            peek(&port, DR);
            assert!(!raised(&port, int::RX), "below the level");
        }
    }
}

#[test]
fn the_receive_timeout_comes_32_bits_after_the_last_character() {
    let (port, clock) = running(Profile::R1P5);
    port.write32(IMSC, int::RT);
    receive(&port, b"a");
    clock.advance(FRAME);
    receive(&port, b"b");
    let due = clock.now() + TIMEOUT;
    assert_eq!(port.with(|uart| uart.next_event()), Some(due));
    assert_eq!(port.read32(DR), u32::from(b'a'));
    port.write32(ICR, int::TX | int::RT);
    clock.wait_until(due - Nanos(1));
    assert_eq!(port.with(|uart| uart.interrupt()), None);
    clock.wait_until(due);
    assert_eq!(port.with(|uart| uart.interrupt()), Some(int::RT));
    assert_eq!(port.with(|uart| uart.next_event()), None);
    // It comes again while a character waits.
    port.with(|uart| uart.write(ICR, int::RT));
    assert_eq!(port.with(|uart| uart.interrupt()), None);
    clock.advance(TIMEOUT);
    assert_eq!(port.with(|uart| uart.interrupt()), Some(int::RT));
    assert_eq!(port.read32(DR), u32::from(b'b'));
    assert_eq!(port.with(|uart| uart.interrupt()), None, "nothing waits");
    clock.advance(TIMEOUT);
    assert_eq!(port.with(|uart| uart.interrupt()), None);
}

#[test]
fn the_mask_of_the_receive_timeout_enables_its_timer() {
    let (port, clock) = running(Profile::R1P5);
    receive(&port, b"a");
    clock.advance(TIMEOUT * 2);
    assert_eq!(peek(&port, RIS), 0);
    port.with(|uart| uart.write(IMSC, int::RT | int::TX));
    clock.advance(TIMEOUT - Nanos(1));
    assert_eq!(peek(&port, RIS), 0);
    port.with(|uart| uart.write(IMSC, int::RT));
    clock.advance(Nanos(1));
    assert_eq!((peek(&port, RIS), peek(&port, MIS)), (int::RT, int::RT));
    port.write32(IMSC, 0);
    assert_eq!(peek(&port, RIS), 0);
}

#[test]
fn a_disabled_receiver_ignores_the_line() {
    for off in [cr::TXE | cr::RXE, cr::UARTEN | cr::TXE] {
        let (port, _) = running(Profile::R1P5);
        port.write32(CR, off);
        assert_eq!(port.with(|uart| uart.receive_room()), 0);
        receive(&port, b"a");
        assert_eq!(peek(&port, FR) & fr::RXFE, fr::RXFE);
        port.write32(CR, cr::UARTEN | cr::RXE);
        assert_eq!(port.with(|uart| uart.receive_room()), 32);
        receive(&port, b"ab");
        assert_eq!(port.with(|uart| uart.receive_room()), 30);
    }
}

#[test]
fn loopback_brings_bytes_back_and_outputs_to_inputs() {
    let (port, clock) = running(Profile::R1P5);
    let looped = cr::UARTEN | cr::TXE | cr::RXE | cr::LBE;
    port.write32(CR, looped);
    receive(&port, b"x");
    assert_eq!(port.with(|uart| uart.receive_room()), 0);
    port.write_burst(DR, b"echo");
    clock.advance(FRAME * 4);
    let mut back = [0; 4];
    back.fill_with(|| port.read8(DR));
    assert_eq!(&back, b"echo");
    for (output, input) in [
        (cr::RTS, fr::CTS),
        (cr::DTR, fr::DSR),
        (cr::OUT1, fr::DCD),
        (cr::OUT2, fr::RI),
    ] {
        port.write32(CR, looped | output);
        let lines = fr::CTS | fr::DSR | fr::DCD | fr::RI;
        assert_eq!(peek(&port, FR) & lines, input);
    }
}

#[test]
fn a_changed_modem_line_interrupts() {
    let (port, _) = running(Profile::R1P5);
    let mut lines = port.with(|uart| uart.modem_lines());
    assert_eq!(lines, fr::CTS | fr::DSR | fr::DCD);
    for (line, interrupt) in [
        (fr::CTS, int::CTS),
        (fr::DSR, int::DSR),
        (fr::DCD, int::DCD),
        (fr::RI, int::RI),
    ] {
        for _ in 0..2 {
            lines ^= line;
            port.with(|uart| uart.set_modem_lines(lines));
            assert_eq!(
                (peek(&port, RIS), peek(&port, FR) & line),
                (interrupt, lines & line)
            );
            port.write32(ICR, interrupt);
            assert_eq!(peek(&port, RIS), 0);
        }
    }
}

#[test]
fn rts_flow_control_follows_the_receive_level() {
    let (port, _) = running(Profile::R1P5);
    let requests = || port.with(|uart| uart.requests_to_send());
    assert!(!requests());
    port.write32(CR, cr::UARTEN | cr::RXE | cr::RTS);
    assert!(requests());
    port.write32(CR, cr::UARTEN | cr::RXE | cr::RTSEN);
    receive(&port, &[b'r'; 15]);
    assert!(requests());
    receive(&port, b"r");
    assert!(!requests());
    peek(&port, DR);
    assert!(requests());
}

#[test]
fn the_sbsa_uart_needs_no_setup_and_lacks_the_other_registers() {
    let (port, clock) = Pl011::in_virtual_time(Profile::SBSA, Vec::new());
    let rest = [
        ILPR, IBRD, FBRD, LCR_H, CR, IFLS, DMACR, PERIPH_ID, PCELL_ID,
    ];
    for offset in rest {
        port.write32(offset, !0);
        assert_eq!(port.read32(offset), 0, "{offset:#x}");
    }
    port.with(|uart| uart.set_modem_lines(0));
    assert_eq!(port.read32(FR), fr::TXFE | fr::RXFE, "no modem");
    port.write32(IMSC, int::ALL);
    let start = clock.now();
    fill(&port, 18);
    let frame = Nanos(86_805);
    clock.wait_until(start + frame - Nanos(1));
    assert_eq!(port.with(|uart| uart.interrupt()), None);
    clock.wait_until(start + frame);
    assert_eq!(port.with(|uart| uart.interrupt()), Some(int::TX));
    receive(&port, &[b'r'; 16]);
    assert!(raised(&port, int::RX));
}

#[test]
fn qemus_sends_at_once_even_while_disabled_and_is_never_full() {
    let (port, clock) = Pl011::in_virtual_time(Profile::QEMU, Vec::new());
    port.write32(IMSC, int::TX | int::RX | int::RT);
    clock.advance(Nanos::from_secs(1));
    assert_eq!(port.with(|uart| uart.interrupt()), None, "never filled");
    for _ in 0..1_000 {
        port.write8(DR, b'x');
        assert_eq!(port.read32(FR) & (fr::TXFE | fr::TXFF | fr::BUSY), fr::TXFE);
        assert_eq!(port.with(|uart| uart.interrupt()), Some(int::TX));
        port.write32(ICR, int::TX);
    }
    receive(&port, b"r");
    assert_eq!(port.with(|uart| uart.interrupt()), Some(int::RX), "at once");
    clock.advance(Nanos::from_secs(1));
    assert_eq!(port.with(|uart| uart.interrupt()), Some(int::RX));
    assert_eq!(port.into_sink(), [b'x'; 1_000]);
}

#[test]
fn a_line_without_a_rate_takes_everything_at_once() {
    let (port, _) = running(Profile::R1P4.with_line(Line::AtOnce));
    fill(&port, 100);
    assert_eq!((port.with(|uart| uart.lost()), sent(&port)), (0, 100));
    assert!(raised(&port, int::TX));
    port.write32(CR, 0);
    fill(&port, 100);
    assert_eq!((port.with(|uart| uart.lost()), sent(&port)), (84, 100));
}

#[test]
fn a_byte_that_the_sink_refuses_is_lost_and_its_error_kept() {
    let (port, clock) = Pl011::in_virtual_time(Profile::SBSA, Output::new(1, 0));
    port.write_burst(DR, b"ab");
    clock.advance(Nanos::from_secs(1));
    port.with(|uart| {
        assert_eq!(uart.sink_mut().bytes(), b"a");
        assert_eq!(uart.lost(), 1);
        assert!(uart.take_sink_error().is_some() && uart.take_sink_error().is_none());
    });
}

fn broken(after: u64, fault: Fault) -> (Port, VirtualClock) {
    let (port, clock) = running(Profile::R1P5);
    (port.with_fault(after, fault), clock)
}

#[test]
fn every_fault_has_its_name_and_shows_only_after_its_number_of_accesses() {
    for fault in Fault::ALL {
        assert_eq!(fault.name().parse(), Ok(fault));
        let (port, _) = broken(3, fault);
        port.write32(IBRD, 0x1234);
        assert_eq!(port.read32(IBRD), 0x1234);
        assert_eq!(port.read32(FR) & (fr::TXFE | fr::BUSY), fr::TXFE);
        assert_eq!(port.with(|uart| uart.chip()), Chip::R1p5);
    }
    assert!("on-fire".parse::<Fault>().is_err());
}

#[test]
fn a_stuck_busy_flag_is_the_only_fault_of_its_port() {
    let (port, clock) = broken(0, Fault::StuckBusy);
    port.write8(DR, b'x');
    clock.advance(Nanos::from_secs(1));
    assert_eq!(port.read32(FR) & (fr::TXFE | fr::BUSY), fr::TXFE | fr::BUSY);
    assert_eq!(port.read32(CR), cr::UARTEN | cr::TXE | cr::RXE);
    assert_eq!(port.into_sink(), b"x");
}

#[test]
fn a_transmitter_that_stops_fills_up_and_stays_full() {
    let (port, clock) = broken(2, Fault::NeverEmpty);
    port.write_burst(DR, &[b'x'; 34]);
    clock.advance(Nanos::from_secs(1));
    assert_eq!(
        port.read32(FR) & (fr::TXFE | fr::TXFF | fr::BUSY),
        fr::TXFF | fr::BUSY
    );
    // The byte in the shift register is still sent.
    assert_eq!((sent(&port), port.with(|uart| uart.lost())), (1, 1));
    assert_eq!(port.with(|uart| uart.next_event()), None);
}

#[test]
fn a_port_that_vanishes_reads_all_ones_or_zeros_and_ignores_writes() {
    for (fault, value) in [(Fault::AllOnes, !0), (Fault::AllZeros, 0)] {
        let (port, _) = broken(0, fault);
        port.write8(DR, b'x');
        receive(&port, b"r");
        for offset in [DR, FR, PERIPH_ID, 0x1000] {
            assert_eq!(port.read32(offset), value);
            assert_eq!(port.read16(offset), value as u16);
        }
        assert_eq!(peek(&port, DR), u32::from(b'r'), "reads have no effect");
        assert_eq!(port.into_sink(), b"");
    }
}

#[test]
fn after_a_power_loss_the_port_is_reset_and_works_again() {
    let (port, clock) = broken(4, Fault::PowerLoss);
    port.write32(IMSC, int::ALL);
    port.write_burst(DR, b"abc");
    receive(&port, b"r");
    // The fifth access reaches a port after reset.
    assert_eq!((port.read32(CR), port.read32(LCR_H)), (0x300, 0));
    assert_eq!((port.read32(IMSC), port.read32(RIS)), (0, 0));
    assert_eq!(peek(&port, FR) & (fr::TXFE | fr::RXFE), fr::TXFE | fr::RXFE);
    assert_eq!(port.with(|uart| uart.lost()), 3);
    port.write32(IBRD, 13);
    port.write32(LCR_H, lcr_h::WLEN);
    port.write32(CR, cr::UARTEN | cr::TXE);
    port.write8(DR, b'x');
    clock.advance(FRAME);
    assert_eq!(port.into_sink(), b"x");
}

#[test]
fn profiles_have_unique_names() {
    for profile in Profile::ALL {
        let same = Profile::ALL.iter().filter(|p| p.name == profile.name);
        assert_eq!(same.count(), 1, "{}", profile.name);
    }
}

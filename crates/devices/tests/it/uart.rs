//! The model, register by register, compared with the PC16550D data sheet.

use crate::common::{FRAME, Port, running};
use nostall_devices::uart::{Profile, Uart};
use nostall_devices::{Fault, Faulty, VirtualClock};
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::registers::*;

fn port(profile: Profile) -> (Port, VirtualClock) {
    Uart::in_virtual_time(profile, Vec::new())
}

#[test]
fn reset_values_are_those_of_table_1() {
    let (port, _) = port(Profile::PC_16550A);
    assert_eq!(port.read8(IER), 0);
    assert_eq!(port.read8(IIR), iir::NONE);
    assert_eq!(port.read8(LCR), 0);
    assert_eq!(port.read8(MCR), 0);
    assert_eq!(port.read8(LSR), lsr::THRE | lsr::TEMT);
    assert_eq!(port.read8(8), !0, "there are eight registers");
}

#[test]
fn the_divisor_latch_lies_behind_dlab() {
    let (port, _) = port(Profile::PC_16550A);
    port.write8(IER, ier::RECEIVED_DATA);
    port.write8(LCR, lcr::DLAB);
    port.write8(DLL, 0x34);
    port.write8(DLM, 0x12);
    assert_eq!((port.read8(DLL), port.read8(DLM)), (0x34, 0x12));
    port.write8(LCR, 0);
    assert_eq!(port.read8(IER), ier::RECEIVED_DATA);
}

#[test]
fn bits_that_do_not_exist_read_zero() {
    let (port, _) = port(Profile::PC_16550A);
    port.write8(IER, !0);
    port.write8(MCR, !0);
    port.write8(SCR, !0);
    assert_eq!(
        (port.read8(IER), port.read8(MCR), port.read8(SCR)),
        (0x0f, 0x1f, 0xff)
    );
}

#[test]
fn a_frame_takes_its_time_and_the_shift_register_holds_one_more() {
    let (port, clock) = running(Profile::PC_16550A);
    for byte in *b"ab" {
        port.write8(THR, byte);
    }
    // The first byte went straight to the shift register.
    assert_eq!(port.read8(LSR) & (lsr::THRE | lsr::TEMT), 0);
    clock.advance(FRAME);
    assert_eq!(port.read8(LSR) & (lsr::THRE | lsr::TEMT), lsr::THRE);
    clock.advance(FRAME);
    assert_eq!(
        port.read8(LSR) & (lsr::THRE | lsr::TEMT),
        lsr::THRE | lsr::TEMT
    );
    assert_eq!(port.into_sink(), b"ab");
}

#[test]
fn the_line_is_never_idle_while_there_is_something_to_send() {
    let (port, clock) = running(Profile::PC_16550A);
    let start = clock.now() + Nanos(1_700);
    port.write_burst(THR, &[b'x'; 16]);
    clock.wait_until(start + FRAME * 16 - Nanos(1));
    assert_eq!(port.with(|uart| uart.sink_mut().len()), 15);
    clock.wait_until(start + FRAME * 16);
    assert_eq!(port.with(|uart| uart.sink_mut().len()), 16);
}

#[test]
fn other_frames_take_other_times() {
    for (lcr, half_bits) in [
        (0b0000_0011, 20),
        (0b0000_0111, 22),
        (0b0001_1010, 20),
        (0b100, 15),
    ] {
        let (port, clock) = running(Profile::PC_16550A);
        port.write8(LCR, lcr);
        port.write8(THR, b'x');
        let frame = Nanos::from_secs(half_bits) / (2 * 115_200);
        let sent = |port: &Port| port.with(|uart| uart.sink_mut().len());
        clock.advance(frame - Nanos(1));
        assert_eq!(sent(&port), 0, "{lcr:#b}");
        clock.advance(Nanos(1));
        assert_eq!(sent(&port), 1, "{lcr:#b}");
    }
}

#[test]
fn with_a_divisor_of_0_nothing_moves() {
    let (port, clock) = port(Profile::PC_16550A);
    port.write8(THR, b'x');
    clock.advance(Nanos::from_secs(1));
    assert_eq!(port.read8(LSR) & lsr::THRE, 0);
    assert_eq!(port.into_sink(), b"");
}

#[test]
fn a_full_transmitter_loses_further_bytes_and_counts_them() {
    let (port, _) = running(Profile::PC_16550A);
    // 16 bytes are in the FIFO, one is in the shift register.
    port.write_burst(THR, &[b'x'; 20]);
    assert_eq!(port.with(|uart| uart.lost()), 3);
}

#[test]
fn reading_the_iir_clears_a_transmit_interrupt_that_it_shows() {
    let (port, _) = running(Profile::VM);
    port.write8(IER, ier::TRANSMITTER_EMPTY);
    assert_eq!(port.read8(IIR), iir::FIFOS | iir::TRANSMITTER_EMPTY);
    assert_eq!(port.read8(IIR), iir::FIFOS | iir::NONE);
    port.write8(THR, b'x');
    assert_eq!(port.read8(IIR), iir::FIFOS | iir::TRANSMITTER_EMPTY);
}

#[test]
fn reading_the_iir_leaves_a_transmit_interrupt_that_it_does_not_show() {
    let (port, _) = running(Profile::VM);
    port.write8(IER, ier::TRANSMITTER_EMPTY | ier::RECEIVED_DATA);
    port.with(|uart| uart.receive(b'r'));
    assert_eq!(port.read8(IIR) & iir::ID, iir::RECEIVED_DATA);
    assert_eq!(port.read8(RBR), b'r');
    assert_eq!(port.read8(IIR) & iir::ID, iir::TRANSMITTER_EMPTY);
}

#[test]
fn the_receive_interrupt_waits_for_its_trigger() {
    let (port, _) = running(Profile::VM);
    port.write8(FCR, fcr::ENABLE | 0x40);
    port.write8(IER, ier::RECEIVED_DATA);
    for n in 1..=4 {
        port.with(|uart| uart.receive(b'r'));
        let pending = port.with(|uart| uart.interrupt()).is_some();
        assert_eq!(pending, n == 4, "at {n}");
    }
}

#[test]
fn an_overrun_is_shown_once_and_keeps_the_older_bytes() {
    let (port, _) = running(Profile::VM);
    port.write8(IER, ier::LINE_STATUS);
    port.with(|uart| (0..20).for_each(|byte| uart.receive(byte)));
    assert_eq!(port.read8(IIR) & iir::ID, iir::LINE_STATUS);
    assert_eq!(port.read8(LSR) & lsr::OVERRUN, lsr::OVERRUN);
    assert_eq!(port.read8(LSR) & lsr::OVERRUN, 0);
    let mut received = [0; 16];
    received.fill_with(|| port.read8(RBR));
    assert_eq!(received, core::array::from_fn(|i| i as u8));
    assert_eq!(port.read8(LSR) & lsr::DATA_READY, 0);
}

#[test]
fn loopback_brings_bytes_back_and_outputs_to_inputs() {
    let (port, _) = running(Profile::VM);
    port.write8(MCR, mcr::LOOP | mcr::RTS | mcr::OUT2);
    port.write_burst(THR, b"echo");
    let mut back = [0; 4];
    back.fill_with(|| port.read8(RBR));
    assert_eq!(&back, b"echo");
    assert_eq!(port.read8(MSR) & 0xf0, msr::CTS | msr::DCD);
    assert_eq!(port.into_sink(), b"", "nothing on the line");
}

#[test]
fn turning_the_fifos_on_or_off_empties_them() {
    let (port, _) = running(Profile::PC_16550A);
    port.with(|uart| uart.receive(b'r'));
    port.write_burst(THR, b"abc");
    port.write8(FCR, 0);
    assert_eq!(port.read8(LSR) & lsr::DATA_READY, 0);
    // The byte in the shift register is still sent.
    assert_eq!(port.read8(LSR) & (lsr::THRE | lsr::TEMT), lsr::THRE);
}

#[test]
fn every_access_takes_the_profiles_time() {
    let (port, clock) = port(Profile::PC_16550A);
    port.read8(LSR);
    port.write8(SCR, 1);
    port.write_burst(THR, b"abc");
    assert_eq!(clock.now(), Profile::PC_16550A.access * 5);
}

#[test]
fn a_fault_begins_after_its_number_of_accesses() {
    let (port, _) = running(Profile::VM);
    let port = Faulty::after(2, Fault::AllOnes, port);
    port.write8(SCR, 0x55);
    assert_eq!(port.read8(SCR), 0x55);
    assert_eq!(port.read8(SCR), !0);
    port.write8(SCR, 0xaa);
    port.recover_for(1);
    assert_eq!(port.read8(SCR), 0x55, "the write was lost");

    let port = Faulty::after(0, Fault::StuckStatus, port);
    port.recover_for(0);
    assert_eq!(port.read8(LSR) & lsr::THRE, 0);
}

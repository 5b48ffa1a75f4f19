//! Received bytes, their errors and timeouts, and the modem's lines.

use crate::common::{FRAME, Port, running};
use nostall_devices::uart::Profile;
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::registers::*;

fn interrupt(port: &Port) -> Option<u8> {
    port.with(|uart| uart.interrupt())
}

#[test]
fn an_error_shows_when_its_byte_is_the_next_to_be_read() {
    let (port, _) = running(Profile::VM);
    port.write8(IER, ier::LINE_STATUS);
    port.with(|uart| {
        uart.receive(b'a');
        uart.receive_with(b'b', lsr::PARITY);
        uart.receive(b'c');
    });
    let errors = lsr::PARITY | lsr::FRAMING | lsr::BREAK | lsr::FIFO_ERROR;
    assert_eq!(interrupt(&port), None);
    assert_eq!(port.read8(LSR) & errors, lsr::FIFO_ERROR);
    assert_eq!(port.read8(RBR), b'a');
    assert_eq!(interrupt(&port), Some(iir::LINE_STATUS));
    assert_eq!(port.read8(LSR) & errors, lsr::PARITY | lsr::FIFO_ERROR);
    assert_eq!(port.read8(LSR) & errors, 0, "shown once");
    assert_eq!(interrupt(&port), None);
    assert_eq!((port.read8(RBR), port.read8(RBR)), (b'b', b'c'));
}

#[test]
fn bit_7_stays_while_a_later_byte_has_an_error() {
    let (port, _) = running(Profile::VM);
    port.with(|uart| {
        uart.receive_with(b'a', lsr::FRAMING);
        uart.receive_with(0, lsr::BREAK);
    });
    assert_eq!(port.read8(LSR) & lsr::FIFO_ERROR, lsr::FIFO_ERROR);
    assert_eq!(port.read8(LSR) & lsr::FIFO_ERROR, lsr::FIFO_ERROR);
    port.read8(RBR);
    assert_eq!(port.read8(LSR) & lsr::BREAK, lsr::BREAK);
    assert_eq!(port.read8(LSR) & lsr::FIFO_ERROR, 0);
}

#[test]
fn without_fifos_bit_7_is_0_and_an_overrun_takes_the_older_byte() {
    let (port, _) = running(Profile::VM);
    port.write8(FCR, 0);
    port.with(|uart| uart.receive_with(b'a', lsr::PARITY));
    port.with(|uart| uart.receive(b'b'));
    assert_eq!(
        port.read8(LSR) & !(lsr::THRE | lsr::TEMT),
        lsr::DATA_READY | lsr::OVERRUN
    );
    assert_eq!(port.read8(RBR), b'b');
    assert_eq!(port.read8(LSR) & lsr::DATA_READY, 0);
}

#[test]
fn only_the_three_errors_of_a_byte_come_with_it() {
    let (port, _) = running(Profile::VM);
    port.with(|uart| uart.receive_with(b'a', !0));
    assert_eq!(port.read8(LSR) & lsr::OVERRUN, 0);
}

#[test]
fn bytes_below_the_trigger_are_reported_after_four_frames() {
    for profile in [Profile::PC_16550A, Profile::VM] {
        let (port, clock) = running(profile);
        port.write8(FCR, fcr::ENABLE | 0x80);
        port.write8(IER, ier::RECEIVED_DATA);
        port.with(|uart| uart.receive(b'a'));
        clock.advance(FRAME * 3);
        port.with(|uart| uart.receive(b'b'));
        let due = clock.now() + FRAME * 4;
        assert_eq!(port.with(|uart| uart.next_event()), Some(due));
        clock.wait_until(due - Nanos(1));
        assert_eq!(interrupt(&port), None);
        clock.wait_until(due);
        assert_eq!(interrupt(&port), Some(iir::TIMEOUT));
        assert_eq!(port.with(|uart| uart.next_event()), None);
        assert_eq!(port.read8(IIR) & iir::ID, iir::TIMEOUT);
        // A read restarts the timeout of four frames.
        port.read8(RBR);
        assert_eq!(interrupt(&port), None);
        clock.advance(FRAME * 4);
        assert_eq!(interrupt(&port), Some(iir::TIMEOUT));
        port.read8(RBR);
        clock.advance(FRAME * 4);
        assert_eq!(interrupt(&port), None, "nothing waits");
    }
}

#[test]
fn at_the_trigger_level_the_interrupt_is_received_data_and_not_a_timeout() {
    let (port, clock) = running(Profile::VM);
    port.write8(IER, ier::RECEIVED_DATA);
    port.with(|uart| uart.receive(b'a'));
    clock.advance(FRAME * 5);
    assert_eq!(interrupt(&port), Some(iir::RECEIVED_DATA));
}

#[test]
fn a_new_byte_does_not_clear_a_timeout() {
    let (port, clock) = running(Profile::VM);
    port.write8(FCR, fcr::ENABLE | 0x80);
    port.write8(IER, ier::RECEIVED_DATA);
    port.with(|uart| uart.receive(b'a'));
    clock.advance(FRAME * 5);
    port.with(|uart| uart.receive(b'b'));
    assert_eq!(interrupt(&port), Some(iir::TIMEOUT));
    port.read8(RBR);
    assert_eq!(interrupt(&port), None, "a read clears it");
}

#[test]
fn without_fifos_there_is_no_timeout() {
    let (port, clock) = running(Profile::VM);
    port.write8(FCR, 0);
    port.with(|uart| uart.receive(b'a'));
    port.write8(IER, ier::RECEIVED_DATA);
    clock.advance(FRAME * 5);
    assert_eq!(interrupt(&port), Some(iir::RECEIVED_DATA));
    assert_eq!(port.with(|uart| uart.next_event()), None);
}

#[test]
fn interrupts_come_in_the_order_of_table_4() {
    let (port, _) = running(Profile::VM);
    port.write8(IER, 0x0f);
    port.with(|uart| {
        uart.receive_with(b'a', lsr::PARITY);
        uart.set_modem_lines(msr::DSR | msr::DCD);
    });
    assert_eq!(port.read8(IIR) & 0xf, iir::LINE_STATUS);
    port.read8(LSR);
    assert_eq!(port.read8(IIR) & 0xf, iir::RECEIVED_DATA);
    port.read8(RBR);
    assert_eq!(port.read8(IIR) & 0xf, iir::TRANSMITTER_EMPTY);
    assert_eq!(port.read8(IIR) & 0xf, iir::MODEM_STATUS);
    port.read8(MSR);
    assert_eq!(port.read8(IIR) & 0xf, iir::NONE);
}

#[test]
fn a_modem_line_that_changes_is_shown_once() {
    let (port, _) = running(Profile::VM);
    port.write8(IER, ier::MODEM_STATUS);
    port.with(|uart| uart.set_modem_lines(msr::CTS | msr::RI));
    assert_eq!(interrupt(&port), Some(iir::MODEM_STATUS));
    assert_eq!(
        port.read8(MSR),
        msr::CTS | msr::RI | msr::DELTA_DSR | msr::DELTA_DCD,
        "a ring that begins is not reported"
    );
    assert_eq!(port.read8(MSR), msr::CTS | msr::RI);
    port.with(|uart| uart.set_modem_lines(msr::CTS));
    assert_eq!(port.read8(MSR), msr::CTS | msr::TRAILING_RI);
    // The line changes and returns between two reads; the delta stays.
    port.with(|uart| uart.set_modem_lines(0));
    port.with(|uart| uart.set_modem_lines(msr::CTS));
    assert_eq!(port.read8(MSR), msr::CTS | msr::DELTA_CTS);
}

#[test]
fn in_loopback_the_outputs_are_the_inputs_and_the_line_is_not_connected() {
    let (port, _) = running(Profile::VM);
    port.write8(MCR, mcr::LOOP);
    port.read8(MSR);
    for (output, input, delta) in [
        (mcr::DTR, msr::DSR, msr::DELTA_DSR),
        (mcr::RTS, msr::CTS, msr::DELTA_CTS),
        (mcr::OUT1, msr::RI, 0),
        (mcr::OUT2, msr::DCD, msr::DELTA_DCD),
    ] {
        port.write8(MCR, mcr::LOOP | output);
        assert_eq!(port.read8(MSR), input | delta);
        port.write8(MCR, mcr::LOOP);
        port.read8(MSR);
    }
    port.with(|uart| uart.receive(b'x'));
    port.with(|uart| uart.set_modem_lines(0));
    assert_eq!(port.read8(LSR) & lsr::DATA_READY, 0);
    assert_eq!(port.read8(MSR), 0);
}

#[test]
fn clearing_a_fifo_clears_only_that_one_and_only_while_fifos_are_on() {
    let (port, _) = running(Profile::PC_16550A);
    port.with(|uart| uart.receive(b'r'));
    port.write_burst(THR, b"abc");
    port.write8(FCR, fcr::ENABLE | fcr::CLEAR_TRANSMIT);
    assert_eq!(
        port.read8(LSR) & (lsr::DATA_READY | lsr::THRE),
        lsr::DATA_READY | lsr::THRE
    );
    port.write8(FCR, fcr::ENABLE | fcr::CLEAR_RECEIVE);
    assert_eq!(port.read8(LSR) & lsr::DATA_READY, 0);
    port.write8(FCR, 0);
    port.with(|uart| uart.receive(b'r'));
    port.write8(FCR, fcr::CLEAR_RECEIVE);
    assert_eq!(port.read8(LSR) & lsr::DATA_READY, lsr::DATA_READY);
}

#[test]
fn a_break_sent_harms_nothing() {
    let (port, _) = running(Profile::VM);
    port.write8(LCR, 3 | lcr::BREAK);
    port.write8(LCR, 3);
    port.write8(THR, b'x');
    assert_eq!(port.into_sink(), b"x");
}

#[test]
fn receive_room_is_the_number_of_bytes_that_can_be_received() {
    let (port, _) = running(Profile::VM);
    assert_eq!(port.with(|uart| uart.receive_room()), 16);
    port.with(|uart| (0..20).for_each(|byte| uart.receive(byte)));
    assert_eq!(port.with(|uart| uart.receive_room()), 0);
}

#[test]
fn an_event_between_two_queries_is_not_missed() {
    let (port, clock) = running(Profile::PC_16550A);
    port.write8(FCR, fcr::ENABLE | 0x80);
    port.write8(IER, ier::RECEIVED_DATA | ier::TRANSMITTER_EMPTY);
    port.read8(IIR);
    port.write_burst(THR, b"ab");
    port.with(|uart| uart.receive(b'r'));
    assert_eq!(interrupt(&port), None);
    // A host's clock advances in between.
    let asked = clock.now();
    clock.advance(Nanos::from_secs(1));
    let frame_out = port.with(|uart| uart.next_event()).unwrap();
    assert!(frame_out > asked && frame_out < asked + FRAME);
    assert_eq!(interrupt(&port), Some(iir::TIMEOUT));
    assert_eq!(port.with(|uart| uart.next_event()), None);
}

#[test]
fn loopback_has_no_room_for_input() {
    let (port, _) = running(Profile::VM);
    port.write8(MCR, mcr::LOOP);
    assert_eq!(port.with(|uart| uart.receive_room()), 0);
    port.write8(MCR, 0);
    assert_eq!(port.with(|uart| uart.receive_room()), 16);
}

//! Each fault as a guest observes it.

use nostall_devices::uart::{Profile, Uart, VirtualPort};
use nostall_devices::{Fault, Faulty, VirtualClock};
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::registers::*;

fn broken(after: u64, fault: Fault) -> (VirtualPort<Vec<u8>>, VirtualClock) {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    port.write8(LCR, lcr::DLAB);
    port.write8(DLL, 1);
    port.write8(LCR, 3);
    port.write8(FCR, fcr::ENABLE);
    (port.with_fault(after, fault), clock)
}

#[test]
fn every_fault_is_found_by_its_name() {
    for fault in Fault::ALL {
        assert_eq!(fault.name().parse(), Ok(fault));
    }
    assert!("on-fire".parse::<Fault>().is_err());
}

#[test]
fn no_fault_shows_before_its_time() {
    for fault in Fault::ALL {
        let (port, clock) = broken(3, fault);
        let start = clock.now();
        port.write8(SCR, 0x55);
        assert_eq!(port.read8(SCR), 0x55);
        assert_eq!(port.read8(LSR), lsr::THRE | lsr::TEMT);
        assert_eq!(clock.now() - start, Profile::PC_16550A.access * 3);
    }
}

#[test]
fn a_stuck_status_never_shows_the_transmitter_ready() {
    let (port, clock) = broken(0, Fault::StuckStatus);
    port.write8(THR, b'x');
    clock.advance(Nanos::from_secs(1));
    assert_eq!(port.read8(LSR), 0);
    assert_eq!(port.into_sink(), b"x", "the rest works");
}

#[test]
fn an_absent_port_reads_all_ones_and_ignores_writes() {
    let (port, _) = broken(0, Fault::AllOnes);
    port.write8(THR, b'x');
    assert_eq!((port.read8(LSR), port.read32(0)), (!0, !0));
    assert_eq!(port.into_sink(), b"");
}

#[test]
fn without_cts_the_line_stays_deasserted() {
    let (port, _) = broken(1, Fault::NoCts);
    assert_ne!(port.read8(MSR) & msr::CTS, 0);
    assert_eq!(
        port.read8(MSR) & (msr::CTS | msr::DELTA_CTS),
        msr::DELTA_CTS
    );
    assert_eq!(port.read8(MSR) & (msr::CTS | msr::DELTA_CTS), 0);
    port.write8(MCR, mcr::LOOP | mcr::RTS);
    assert_ne!(
        port.read8(MSR) & msr::CTS,
        0,
        "in loopback CTS is the port's own output"
    );
}

#[test]
fn a_short_fifo_takes_half_and_loses_the_rest() {
    let (port, clock) = broken(0, Fault::ShortFifo);
    port.write_burst(THR, b"0123456789abcdef");
    clock.advance(Nanos::from_secs(1));
    assert_eq!(port.with(|uart| uart.lost()), 7);
    assert_eq!(
        port.read8(IIR) & iir::FIFOS,
        iir::FIFOS,
        "the IIR still shows the FIFOs"
    );
    // One byte went straight to the shift register.
    assert_eq!(port.into_sink(), b"012345678");
}

#[test]
fn after_a_power_loss_the_port_is_reset_and_works_again() {
    let (port, clock) = broken(4, Fault::PowerLoss);
    port.write8(SCR, 0x55);
    port.write_burst(THR, b"abc");
    // The fifth access reaches a port after reset.
    assert_eq!(port.read8(SCR), 0);
    assert_eq!(port.read8(LSR), lsr::THRE | lsr::TEMT);
    assert_eq!(port.with(|uart| uart.lost()), 3);
    port.write8(LCR, lcr::DLAB);
    assert_eq!((port.read8(DLL), port.read8(DLM)), (0, 0));
    port.write8(DLL, 1);
    port.write8(LCR, 3);
    port.write8(THR, b'x');
    clock.advance(Nanos::from_millis(1));
    assert_eq!(port.into_sink(), b"x");
}

#[test]
fn slow_reads_take_their_time_and_writes_do_not() {
    let (port, clock) = broken(0, Fault::SlowReads);
    let start = clock.now();
    port.write8(SCR, 0x55);
    assert_eq!(port.read8(SCR), 0x55);
    let access = Profile::PC_16550A.access;
    assert_eq!(clock.now() - start, access * 2 + Fault::SLOW_READ);
}

#[test]
#[should_panic(expected = "only the model supports this fault")]
fn a_window_refuses_a_fault_that_only_the_model_supports() {
    let (port, _) = broken(u64::MAX, Fault::AllOnes);
    let _ = Faulty::after(0, Fault::PowerLoss, port);
}

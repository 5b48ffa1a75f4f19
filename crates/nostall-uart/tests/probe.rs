//! Finding out what a port is, and leaving it as it was.

use nostall_devices::uart::{Chip, Profile, Uart, VirtualPort};
use nostall_devices::{Fault, VirtualClock};
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::registers::{DLL, DLM, FCR, IER, IIR, LCR, MCR, fcr, ier, iir, lcr, mcr};
use nostall_uart::{Absent, Console, LineSettings, Model, Settings, probe, receive_fifo_depth};

type Port = VirtualPort<Vec<u8>>;

const LINE: LineSettings = LineSettings::baud(115_200);

fn port(chip: impl Into<Chip>) -> (Port, VirtualClock) {
    Uart::in_virtual_time_as(chip, Profile::PC_16550A, Vec::new())
}

/// As somebody else may have left it: 9,600 7E2, interrupts on.
fn used_by_another(port: &Port) {
    port.write8(LCR, lcr::DLAB);
    port.write8(DLL, 0x0c);
    port.write8(DLM, 0x01);
    port.write8(LCR, 0x1e);
    port.write8(FCR, fcr::ENABLE);
    port.write8(MCR, mcr::DTR | mcr::OUT2);
    port.write8(IER, ier::RECEIVED_DATA | ier::LINE_STATUS);
}

fn is_as_it_was(port: &Port, name: &str) {
    assert_eq!(port.read8(LCR), 0x1e, "{name}");
    assert_eq!(port.read8(MCR), mcr::DTR | mcr::OUT2, "{name}");
    let enabled = ier::RECEIVED_DATA | ier::LINE_STATUS;
    assert_eq!(port.read8(IER), enabled, "{name}");
    port.write8(LCR, lcr::DLAB);
    assert_eq!([port.read8(DLL), port.read8(DLM)], [0x0c, 0x01], "{name}");
    assert!(port.with(|uart| uart.sink_mut().is_empty()), "{name}");
}

#[test]
fn every_model_is_found_and_left_as_it_was_with_nothing_sent() {
    for model in Model::ALL {
        let (port, _clock) = port(model);
        used_by_another(&port);
        let found = probe(&port).unwrap();
        let expected = match model {
            Model::Bcm2835Mini => Model::Uart16550A,
            other => other,
        };
        assert_eq!(found.model, expected);
        assert_eq!(found.transmit_load, expected.transmit_load());
        assert_eq!(found.divisor, 0x010c);
        is_as_it_was(&port, model.name());
    }
}

#[test]
fn a_designware_tells_how_deep_its_fifos_are() {
    for (depth, load) in [(16, 16), (32, 32), (64, 64), (128, 128), (256, 128)] {
        let (port, _clock) = port(Chip::designware(depth));
        let found = probe(&port).unwrap();
        assert_eq!(found.model, Model::DesignWare);
        assert_eq!(found.transmit_load, load);
    }
}

#[test]
fn a_byte_that_waits_to_be_read_does_not_lead_the_probe_astray() {
    for model in Model::ALL.into_iter().filter(|&m| m != Model::Bcm2835Mini) {
        let (port, _clock) = port(model);
        used_by_another(&port);
        port.with(|uart| uart.receive(b'x'));
        let found = probe(&port).unwrap();
        assert_eq!((found.model, found.divisor), (model, 0x010c));
        is_as_it_was(&port, model.name());
    }
}

struct Constant(u8);

impl Registers for Constant {
    fn read8(&self, _offset: usize) -> u8 {
        self.0
    }

    fn write8(&self, _offset: usize, _value: u8) {}
}

#[test]
fn nobody_is_found_where_every_register_reads_the_same() {
    for value in 0..=0xff {
        assert_eq!(probe(&Constant(value)), Err(Absent), "{value:#x}");
    }
}

fn opened(chip: impl Into<Chip>, model: Model) -> (Port, VirtualClock) {
    let (port, clock) = port(chip);
    let settings = Settings {
        model: Some(model),
        ..LINE.into()
    };
    let opened = Console::open(&port, &clock, settings);
    assert!(opened.is_ok());
    (port, clock)
}

#[test]
fn the_receive_fifo_of_every_model_is_measured() {
    for model in Model::ALL {
        let (port, clock) = opened(model, model);
        let before = (port.read8(MCR), port.read8(IIR) & iir::FIFOS);
        let depth = receive_fifo_depth(&port, &clock, LINE.frame_time());
        assert_eq!(depth, model.fifo_depth(), "{model}");
        let after = (port.read8(MCR), port.read8(IIR) & iir::FIFOS);
        assert_eq!(after, before, "{model}");
        assert!(port.with(|uart| uart.sink_mut().is_empty()), "{model}");
    }
    for depth in [32, 64, 256] {
        let (port, clock) = opened(Chip::designware(depth), Model::DesignWare);
        let measured = receive_fifo_depth(&port, &clock, LINE.frame_time());
        assert_eq!(measured, depth);
    }
}

#[test]
fn measuring_a_port_that_is_stuck_or_gone_takes_bounded_time() {
    for fault in [Fault::StuckStatus, Fault::AllOnes] {
        let (port, clock) = opened(Model::Uart16550A, Model::Uart16550A);
        let port = port.with_fault(0, fault);
        let start = clock.now();
        let depth = receive_fifo_depth(&port, &clock, LINE.frame_time());
        assert!(clock.now() - start < Nanos::from_millis(2), "{fault}");
        assert!(depth == 0, "{fault}: {depth}");
    }
}

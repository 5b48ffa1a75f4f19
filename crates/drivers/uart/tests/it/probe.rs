//! Probing identifies a port, and leaves it unchanged.

use std::cell::Cell;

use nostall_devices::uart::{Chip, Profile, Uart, VirtualPort};
use nostall_devices::{Fault, VirtualClock};
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::registers::{DLL, DLM, FCR, IER, IIR, LCR, MCR, fcr, ier, iir, lcr, mcr};
use nostall_uart::{
    Console, ConsoleSettings, LineSettings, Model, NotFound, probe, receive_fifo_depth,
};

type Port = VirtualPort<Vec<u8>>;

const LINE: LineSettings = LineSettings::baud(115_200);

fn port(chip: impl Into<Chip>) -> (Port, VirtualClock) {
    Uart::in_virtual_time_as(chip, Profile::PC_16550A, Vec::new())
}

/// Sets up the port as another driver may leave it: 9,600 7E2, with interrupts enabled.
fn used_by_another(port: &Port) {
    port.write8(LCR, lcr::DLAB);
    port.write8(DLL, 0x0c);
    port.write8(DLM, 0x01);
    port.write8(LCR, 0x1e);
    port.write8(FCR, fcr::ENABLE);
    port.write8(MCR, mcr::DTR | mcr::OUT2);
    port.write8(IER, ier::RECEIVED_DATA | ier::LINE_STATUS);
}

fn assert_unchanged(port: &Port, name: &str) {
    assert_eq!(port.read8(LCR), 0x1e, "{name}");
    assert_eq!(port.read8(MCR), mcr::DTR | mcr::OUT2, "{name}");
    let enabled = ier::RECEIVED_DATA | ier::LINE_STATUS;
    assert_eq!(port.read8(IER), enabled, "{name}");
    port.write8(LCR, lcr::DLAB);
    assert_eq!([port.read8(DLL), port.read8(DLM)], [0x0c, 0x01], "{name}");
    assert!(port.with(|uart| uart.sink_mut().is_empty()), "{name}");
}

#[test]
fn every_model_is_found_and_left_unchanged_with_nothing_sent() {
    for model in Model::ALL {
        let (port, _clock) = port(model);
        used_by_another(&port);
        let found = probe(&port).unwrap();
        let expected = found_as(model);
        assert_eq!(found.model, expected);
        assert_eq!(found.transmit_load, expected.transmit_load());
        assert_eq!(found.divisor, 0x010c);
        assert_unchanged(&port, model.name());
    }
}

/// Returns the model that a probe of `model` reports.
fn found_as(model: Model) -> Model {
    match model {
        Model::Bcm2835Mini | Model::DesignWare => Model::Uart16550A,
        other => other,
    }
}

#[test]
fn a_named_designware_reports_the_depth_of_its_fifos() {
    for (depth, load) in [(16, 16), (32, 32), (64, 64), (128, 128), (256, 128)] {
        let (port, clock) = port(Chip::designware(depth));
        let settings = ConsoleSettings {
            model: Some(Model::DesignWare),
            ..LINE.into()
        };
        let console = Console::open(&port, &clock, settings).unwrap();
        assert_eq!(console.transmit_load(), load);
    }
}

#[test]
fn every_port_of_an_xr16c854_is_found_as_a_16850() {
    let (port, _clock) = port(Chip::xr16c854());
    assert_eq!(probe(&port).unwrap().model, Model::Uart16850);
}

#[test]
fn the_first_version_of_the_st16c650_gets_no_bursts() {
    for named in [None, Some(Model::Uart16650)] {
        let (port, clock) = port(Model::Uart16650);
        // Firmware may leave the FIFOs enabled.
        port.write8(FCR, fcr::ENABLE);
        let settings = ConsoleSettings {
            model: named,
            ..LINE.into()
        };
        let mut console = Console::open(&port, &clock, settings).unwrap();
        assert_eq!(console.model(), Model::Uart16650);
        assert_eq!(console.transmit_load(), 1);
        assert_eq!(port.read8(IIR) & iir::FIFOS, 0, "its FIFO is off");
        assert!(console.write(&[b'x'; 100]).is_complete());
        assert_eq!(port.with(|uart| uart.lost()), 0);
    }
}

/// A window that is longer than the device, with another device behind it.
struct OverLong<'a> {
    port: &'a Port,
    beyond: Cell<u32>,
    /// State of OUT2, which enables interrupts on a PC.
    gate: Cell<bool>,
    /// Number of accesses at which the interrupt line of a PC was high.
    interrupts: Cell<u32>,
}

impl<'a> OverLong<'a> {
    fn new(port: &'a Port) -> Self {
        Self {
            port,
            beyond: Cell::new(0),
            gate: Cell::new(false),
            interrupts: Cell::new(0),
        }
    }

    fn look(&self, offset: usize) {
        self.beyond.set(self.beyond.get() + u32::from(offset >= 8));
        let through = self.gate.get();
        let pending = self.port.with(|uart| uart.interrupt().is_some());
        self.interrupts
            .set(self.interrupts.get() + u32::from(through && pending));
    }
}

impl Registers for OverLong<'_> {
    fn read8(&self, offset: usize) -> u8 {
        let value = self.port.read8(offset);
        self.look(offset);
        value
    }

    fn write8(&self, offset: usize, value: u8) {
        if offset == MCR {
            self.gate.set(value & mcr::OUT2 != 0);
        }
        self.port.write8(offset, value);
        self.look(offset);
    }
}

#[test]
fn probing_and_opening_access_only_the_eight_registers() {
    for model in Model::ALL {
        let (port, clock) = port(model);
        used_by_another(&port);
        port.with(|uart| uart.receive(b'x'));
        let window = OverLong::new(&port);
        probe(&window).unwrap();
        assert!(Console::open(&window, &clock, LINE).is_ok());
        assert_eq!(window.beyond.get(), 0, "{model}");
    }
}

#[test]
fn opening_raises_no_interrupt_on_a_pc() {
    for model in Model::ALL {
        for named in [None, Some(model)] {
            let (port, clock) = port(model);
            port.write8(MCR, mcr::DTR | mcr::RTS | mcr::OUT2);
            let window = OverLong::new(&port);
            window.gate.set(true);
            let settings = ConsoleSettings {
                model: named,
                ..LINE.into()
            };
            assert!(Console::open(&window, &clock, settings).is_ok());
            assert_eq!(window.interrupts.get(), 0, "{model}, named: {named:?}");
        }
    }
}

#[test]
fn an_empty_receiver_is_not_read() {
    for model in Model::ALL {
        for named in [None, Some(model)] {
            let (port, clock) = port(model);
            let settings = ConsoleSettings {
                model: named,
                ..LINE.into()
            };
            assert!(Console::open(&port, &clock, settings).is_ok());
            receive_fifo_depth(&port, &clock, LINE.frame_time());
            assert_eq!(port.with(|uart| uart.empty_reads()), 0, "{model}");
        }
    }
}

/// Freescale's DUART. With the divisor latch enabled, its alternate function register replaces IIR
/// and FCR. The register has two bits, and the lower one directs writes to both ports.
struct Freescale<'a> {
    port: &'a Port,
    alternate: Cell<u8>,
    was_set: Cell<bool>,
}

impl Freescale<'_> {
    fn has_alternate(&self, offset: usize) -> bool {
        offset == FCR && self.port.read8(LCR) & lcr::DLAB != 0
    }
}

impl Registers for Freescale<'_> {
    fn read8(&self, offset: usize) -> u8 {
        match self.has_alternate(offset) {
            true => self.alternate.get(),
            false => self.port.read8(offset),
        }
    }

    fn write8(&self, offset: usize, value: u8) {
        if self.has_alternate(offset) {
            self.alternate.set(value & 0b11);
            self.was_set.set(self.was_set.get() || value & 0b11 != 0);
        } else {
            self.port.write8(offset, value);
        }
    }
}

#[test]
fn a_freescale_duart_is_a_16550a_whose_fifo_is_used_and_whose_other_port_is_unchanged() {
    let (port, clock) = port(Model::Uart16550A);
    let duart = Freescale {
        port: &port,
        alternate: Cell::new(0),
        was_set: Cell::new(false),
    };
    assert_eq!(
        probe(&duart).map(|probed| probed.model),
        Ok(Model::Uart16550A)
    );
    let mut console = Console::open(&duart, &clock, LINE).unwrap();
    assert_eq!(console.transmit_load(), 16);
    assert!(console.write(b"text\n").is_complete());
    assert!(!duart.was_set.get());
}

struct Constant(u8);

impl Registers for Constant {
    fn read8(&self, _offset: usize) -> u8 {
        self.0
    }

    fn write8(&self, _offset: usize, _value: u8) {}
}

#[test]
fn no_port_is_found_if_every_register_reads_the_same() {
    for value in 0..=0xff {
        assert_eq!(probe(&Constant(value)), Err(NotFound), "{value:#x}");
    }
}

fn opened(chip: impl Into<Chip>, model: Model) -> (Port, VirtualClock) {
    let (port, clock) = port(chip);
    let settings = ConsoleSettings {
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

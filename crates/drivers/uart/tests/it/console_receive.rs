//! Receiving on a console's port.

use nostall_devices::VirtualClock;
use nostall_devices::uart::{Profile, Uart, VirtualPort};
use nostall_io::{Clock, Counting, Nanos, Registers};
use nostall_uart::registers::{IER, IIR, MCR, RBR, ier, iir, lsr, mcr};
use nostall_uart::{Console, ConsoleSettings, LineSettings, Model, PowerLoss, TriggerLevel};

type Port = VirtualPort<Vec<u8>>;

const LINE: LineSettings = LineSettings::baud(115_200);
const FRAME: Nanos = Nanos(86_806);

fn console(
    model: Model,
    settings: ConsoleSettings,
) -> (
    &'static Port,
    VirtualClock,
    Console<&'static Port, VirtualClock>,
) {
    let (port, clock) = Uart::in_virtual_time_as(model, Profile::PC_16550A, Vec::new());
    let port: &Port = Box::leak(Box::new(port));
    let mut console = Console::open(port, clock.clone(), settings).unwrap();
    console.enable_receive();
    (port, clock, console)
}

/// Receives `bytes` at the line's rate, and calls the handler for each interrupt. Returns the
/// number of interrupts.
fn paste(port: &Port, clock: &VirtualClock, bytes: &[u8], mut handler: impl FnMut()) -> usize {
    let mut interrupts = 0;
    let mut after = |clock: &VirtualClock| {
        if port.with(|uart| uart.interrupt()).is_some() {
            interrupts += 1;
            handler();
        }
        assert_eq!(
            port.with(|uart| uart.interrupt()),
            None,
            "at {}",
            clock.now()
        );
    };
    for &byte in bytes {
        clock.advance(FRAME);
        port.with(|uart| uart.receive(byte));
        after(clock);
    }
    for _ in 0..8 {
        clock.advance(FRAME);
        after(clock);
    }
    interrupts
}

#[test]
fn pasted_text_of_49_bytes_costs_4_interrupts_and_more_at_lower_trigger_levels() {
    let text: Vec<u8> = (0..49).map(|n| b'A' + n).collect();
    for (trigger, expected) in [
        (TriggerLevel::NearlyFull, 4),
        (TriggerLevel::Half, 7),
        (TriggerLevel::Quarter, 13),
        (TriggerLevel::Byte, 49),
    ] {
        let settings = ConsoleSettings {
            trigger,
            ..LINE.into()
        };
        let (port, clock, mut console) = console(Model::Uart16550A, settings);
        let mut received = Vec::new();
        let interrupts = paste(port, &clock, &text, || {
            console.receive(|byte| received.push(byte));
        });
        assert_eq!((interrupts, &received), (expected, &text), "{trigger:?}");
    }
}

#[test]
fn the_receive_interrupt_stays_enabled_after_writes_offers_and_a_loss_of_power() {
    let settings = ConsoleSettings {
        power_loss: PowerLoss::Recover,
        ..LINE.into()
    };
    let (port, clock, mut console) = console(Model::Uart16550A, settings);
    let on = |port: &Port| {
        let lines = mcr::DTR | mcr::RTS | mcr::OUT2;
        assert_eq!(port.read8(MCR), lines);
        assert_eq!(port.read8(IER), ier::RECEIVED_DATA | ier::LINE_STATUS);
    };
    on(port);
    let _ = console.write(b"written");
    on(port);
    clock.advance(Nanos::from_millis(5));
    assert!(console.offer(b"offered").taken > 0);
    on(port);
    port.with(Uart::reset);
    let _ = console.write(b"again");
    on(port);
    let mut received = Vec::new();
    assert_eq!(
        paste(port, &clock, b"0123456789abcd", || {
            console.receive(|byte| received.push(byte));
        }),
        1
    );
    console.disable_receive();
    assert_eq!((port.read8(MCR), port.read8(IER)), (mcr::DTR | mcr::RTS, 0));
}

#[test]
fn a_pause_of_the_receive_interrupt_outlasts_writes_and_a_loss_of_power() {
    let settings = ConsoleSettings {
        power_loss: PowerLoss::Recover,
        ..LINE.into()
    };
    let (port, _, mut console) = console(Model::Uart16550A, settings);
    console.pause_receive();
    port.with(|uart| (0..14).for_each(|byte| uart.receive(byte)));
    assert_eq!(port.with(|uart| uart.interrupt()), None);
    let _ = console.write(b"written");
    port.with(Uart::reset);
    let _ = console.write(b"again");
    assert_eq!(port.read8(MCR), mcr::DTR | mcr::RTS | mcr::OUT2);
    assert_eq!(port.read8(IER), 0);
    port.with(|uart| (0..14).for_each(|byte| uart.receive(byte)));
    console.resume_receive();
    assert!(port.with(|uart| uart.interrupt()).is_some());
    // Without a receive interrupt, none is enabled.
    console.disable_receive();
    console.pause_receive();
    console.resume_receive();
    assert_eq!(port.read8(IER), 0);
}

#[test]
fn a_break_is_no_byte_and_a_poll_of_the_transmitter_also_latches_errors() {
    let (port, clock, mut console) = console(Model::Uart16550A, LINE.into());
    for polls in [false, true] {
        port.with(|uart| {
            uart.receive_with(0, lsr::BREAK);
            uart.receive(b'a');
            uart.receive_with(b'b', lsr::PARITY);
            uart.receive(b'c');
        });
        if polls {
            clock.advance(Nanos::from_millis(5));
            let _ = console.offer(b"x");
        }
        let mut received = Vec::new();
        assert_eq!(console.receive(|byte| received.push(byte)), 3);
        assert_eq!(received, b"abc");
        let seen = console.take_latched_status().line_status;
        assert_eq!(seen & (lsr::BREAK | lsr::PARITY), lsr::BREAK | lsr::PARITY);
    }
}

#[test]
fn a_port_that_is_never_empty_is_left_after_256_bytes_and_interrupts_again() {
    /// A port whose receiver always has a byte.
    struct Flood<'p>(&'p Port);
    impl Registers for Flood<'_> {
        fn read8(&self, offset: usize) -> u8 {
            self.0.with(|uart| {
                if uart.receive_room() > 8 {
                    uart.receive(b'x');
                }
            });
            self.0.read8(offset)
        }
        fn write8(&self, offset: usize, value: u8) {
            self.0.write8(offset, value);
        }
    }
    let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
    let registers = Counting::new(Flood(&port));
    let settings = ConsoleSettings {
        model: Some(Model::Uart16550A),
        ..LINE.into()
    };
    let mut console = Console::open(&registers, &clock, settings).unwrap();
    console.enable_receive();
    let before = registers.counts();
    assert_eq!(console.receive(|_| ()), 256);
    let counts = registers.counts();
    assert_eq!(counts.reads - before.reads, 2 * 256);
    assert_eq!(
        counts.writes - before.writes,
        2,
        "the interrupts, disabled and enabled"
    );
    assert_eq!(port.read8(IER), ier::RECEIVED_DATA | ier::LINE_STATUS);
}

#[test]
fn a_designware_that_shows_a_timeout_without_a_byte_is_read_once() {
    /// A port that shows a timeout until its receiver is read.
    struct Stuck<'p>(&'p Port, &'p std::cell::Cell<bool>);
    impl Registers for Stuck<'_> {
        fn read8(&self, offset: usize) -> u8 {
            match offset {
                IIR if self.1.get() => iir::FIFOS | iir::TIMEOUT,
                RBR if self.1.replace(false) => 0,
                _ => self.0.read8(offset),
            }
        }
        fn write8(&self, offset: usize, value: u8) {
            self.0.write8(offset, value);
        }
    }
    for (model, is_read) in [(Model::DesignWare, true), (Model::Uart16550A, false)] {
        let (port, clock) = Uart::in_virtual_time_as(model, Profile::PC_16550A, Vec::new());
        let stuck = std::cell::Cell::new(false);
        let settings = ConsoleSettings {
            model: Some(model),
            ..LINE.into()
        };
        let mut console = Console::open(Stuck(&port, &stuck), &clock, settings).unwrap();
        console.enable_receive();
        stuck.set(true);
        assert_eq!(console.receive(|_| panic!("a byte")), 0);
        assert_eq!(stuck.get(), !is_read, "{model}");
    }
}

#[test]
fn a_port_that_is_gone_has_no_bytes() {
    struct Removable<'p>(&'p Port, &'p std::cell::Cell<bool>);
    impl Registers for Removable<'_> {
        fn read8(&self, offset: usize) -> u8 {
            if self.1.get() {
                !0
            } else {
                self.0.read8(offset)
            }
        }
        fn write8(&self, offset: usize, value: u8) {
            if !self.1.get() {
                self.0.write8(offset, value);
            }
        }
    }
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let gone = std::cell::Cell::new(false);
    let mut console = Console::open(Removable(&port, &gone), &clock, LINE).unwrap();
    console.enable_receive();
    gone.set(true);
    assert_eq!(console.receive(|_| panic!("a byte")), 0);
}

#[test]
fn every_model_receives_whole_text() {
    for model in [
        Model::Uart8250,
        Model::Uart16450,
        Model::Uart16550A,
        Model::Uart16750,
        Model::Uart16950,
        Model::DesignWare,
    ] {
        let settings = ConsoleSettings {
            model: Some(model),
            ..LINE.into()
        };
        let (port, clock, mut console) = console(model, settings);
        let text = [b'z'; 300];
        let mut received = Vec::new();
        let interrupts = paste(port, &clock, &text, || {
            console.receive(|byte| received.push(byte));
        });
        assert_eq!(received, text, "{model:?}");
        assert!((2..=300).contains(&interrupts));
    }
}

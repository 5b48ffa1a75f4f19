//! The serial port with a trigger, as a replacement for `vm-superio`'s in a VMM.
#![cfg(all(feature = "vm-device", target_os = "linux"))]

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex};

use nostall_devices::VirtualClock;
use nostall_devices::uart::{Error, Line, Serial, Stride, Trigger, Uart};
use nostall_devices::vm_device::MmioUart;
use nostall_io::{HostClock, Nanos};
use nostall_uart::registers::{
    DLL, DLM, FCR, IER, IIR, LCR, LSR, MCR, MSR, RBR, SCR, THR, fcr, ier, iir, lcr, lsr, mcr,
};
use vm_device::MutDevicePio;
use vm_device::bus::PioAddress;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// A VMM's uses of either crate's serial port.
trait Port {
    fn write(&mut self, offset: u8, value: u8);
    fn read(&mut self, offset: u8) -> u8;
    /// Passes on the user's input.
    fn input(&mut self, bytes: &[u8]) -> usize;
    /// Returns whether an interrupt was injected since the last call.
    fn interrupted(&mut self) -> bool;
    fn output(&mut self) -> Vec<u8>;
}

fn event() -> EventFd {
    EventFd::new(EFD_NONBLOCK).unwrap()
}

impl Port for Serial<EventFd, HostClock, Vec<u8>> {
    fn write(&mut self, offset: u8, value: u8) {
        Serial::write(self, offset.into(), value).unwrap();
    }
    fn read(&mut self, offset: u8) -> u8 {
        Serial::read(self, offset.into())
    }
    fn input(&mut self, bytes: &[u8]) -> usize {
        self.receive(bytes).unwrap()
    }
    fn interrupted(&mut self) -> bool {
        self.trigger().read().is_ok()
    }
    fn output(&mut self) -> Vec<u8> {
        self.uart_mut().sink_mut().clone()
    }
}

/// The trigger from `vm-superio`'s documentation.
struct EventFdTrigger(EventFd);

impl vm_superio::Trigger for EventFdTrigger {
    type E = io::Error;

    fn trigger(&self) -> io::Result<()> {
        self.0.write(1)
    }
}

type Theirs = vm_superio::Serial<EventFdTrigger, vm_superio::serial::NoEvents, Vec<u8>>;

impl Port for Theirs {
    fn write(&mut self, offset: u8, value: u8) {
        vm_superio::Serial::write(self, offset, value).unwrap();
    }
    fn read(&mut self, offset: u8) -> u8 {
        vm_superio::Serial::read(self, offset)
    }
    fn input(&mut self, bytes: &[u8]) -> usize {
        self.enqueue_raw_bytes(bytes).unwrap()
    }
    fn interrupted(&mut self) -> bool {
        self.interrupt_evt().0.read().is_ok()
    }
    fn output(&mut self) -> Vec<u8> {
        self.writer().clone()
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write(usize, u8),
    Read(usize),
    Input(&'static [u8]),
}

/// A guest's driver: it probes the port, sets it up, prints with polling and with interrupts,
/// and takes input.
const SCRIPT: &[Step] = {
    use Step::*;
    &[
        Write(SCR, 0x5a),
        Read(SCR),
        Write(FCR, fcr::ENABLE),
        Read(IIR),
        Write(LCR, 3 | lcr::DLAB),
        Write(DLL, 1),
        Write(DLM, 0),
        Read(DLL),
        Read(DLM),
        Write(LCR, 3),
        Read(LCR),
        Write(MCR, mcr::DTR | mcr::RTS | mcr::OUT2),
        Read(MSR),
        Read(IER),
        // Output with polling.
        Read(LSR),
        Write(THR, b'a'),
        Read(LSR),
        Write(THR, b'b'),
        // Input without an interrupt.
        Input(b"xy"),
        Read(LSR),
        Read(RBR),
        Read(LSR),
        Read(RBR),
        Read(LSR),
        // Input with an interrupt, and the next one.
        Write(IER, ier::RECEIVED_DATA),
        Input(b"z"),
        Read(IIR),
        Read(RBR),
        Read(IIR),
        Read(LSR),
        Input(b"1"),
        Read(RBR),
        // Output with interrupts: each byte raises the next one.
        Write(IER, ier::RECEIVED_DATA | ier::TRANSMITTER_EMPTY),
        Read(IIR),
        Read(IIR),
        Write(THR, b'c'),
        Read(IIR),
        Write(THR, b'd'),
        Read(IIR),
        Write(IER, 0),
        Read(IIR),
        // Input that arrives before the guest enables interrupts.
        Input(b"late"),
        Write(IER, ier::RECEIVED_DATA),
        Read(RBR),
        Read(RBR),
        Read(RBR),
        Read(RBR),
        Read(LSR),
        // Loopback.
        Write(IER, 0),
        Write(MCR, mcr::LOOP | mcr::RTS),
        Read(MSR),
        Write(THR, b'l'),
        Read(LSR),
        Read(RBR),
        Input(b"not now"),
        Read(LSR),
        Write(MCR, mcr::DTR | mcr::RTS | mcr::OUT2),
        Write(THR, b'e'),
        Read(LSR),
    ]
};

/// Runs the script. Returns everything that the guest and the VMM observe, without deltas of
/// modem lines, which `vm-superio` does not have.
fn run(port: &mut dyn Port) -> (Vec<(usize, bool)>, Vec<u8>) {
    let step = |step: &Step| {
        let seen = match *step {
            Step::Write(offset, value) => {
                port.write(offset as u8, value);
                0
            }
            Step::Read(MSR) => (port.read(MSR as u8) & 0xf0).into(),
            Step::Read(offset) => port.read(offset as u8).into(),
            Step::Input(bytes) => port.input(bytes),
        };
        (seen, port.interrupted())
    };
    let seen = SCRIPT.iter().map(step).collect();
    (seen, port.output())
}

#[test]
fn a_guest_observes_the_same_on_vm_superios_serial_and_on_ours() {
    let uart = Uart::new(HostClock::new(), Line::AtOnce, Vec::new());
    let mut ours = Serial::new(uart, event());
    let mut theirs: Theirs = vm_superio::Serial::new(EventFdTrigger(event()), Vec::new());
    let ports: [&mut dyn Port; 2] = [&mut ours, &mut theirs];
    let [(ours, our_output), (theirs, their_output)] = ports.map(run);
    for ((step, ours), theirs) in SCRIPT.iter().zip(&ours).zip(&theirs) {
        assert_eq!(ours, theirs, "{step:x?}");
    }
    assert_eq!(our_output, b"abcde");
    assert_eq!(our_output, their_output);
    assert_eq!(
        ours.iter().filter(|(_, interrupted)| *interrupted).count(),
        6
    );
}

/// A trigger that counts, and fails on request.
#[derive(Debug, Default)]
struct Counter {
    calls: RefCell<u32>,
    broken: RefCell<bool>,
}

impl Trigger for Counter {
    type E = &'static str;

    fn trigger(&self) -> Result<(), &'static str> {
        *self.calls.borrow_mut() += 1;
        if *self.broken.borrow() {
            Err("broken")
        } else {
            Ok(())
        }
    }
}

fn counted(line: Line) -> (Serial<Counter, VirtualClock, Vec<u8>>, VirtualClock) {
    let clock = VirtualClock::new();
    let mut uart = Uart::new(clock.clone(), line, Vec::new());
    uart.write(LCR, lcr::DLAB);
    uart.write(DLL, 1);
    uart.write(LCR, 3);
    uart.write(FCR, fcr::ENABLE);
    (Serial::new(uart, Counter::default()), clock)
}

fn is_broken(error: Option<Error<&'static str>>) -> bool {
    matches!(error, Some(Error::Trigger("broken")))
}

fn calls(serial: &Serial<Counter, VirtualClock, Vec<u8>>) -> u32 {
    *serial.trigger().calls.borrow()
}

#[test]
fn a_high_line_triggers_again_only_where_the_chips_line_would_fall_and_rise() {
    let (mut serial, _) = counted(Line::AtOnce);
    serial
        .write(IER, ier::TRANSMITTER_EMPTY | ier::RECEIVED_DATA)
        .unwrap();
    assert_eq!(calls(&serial), 1, "the transmitter is empty");
    serial.write(SCR, 1).unwrap();
    serial.write(MCR, mcr::OUT2).unwrap();
    assert_eq!(calls(&serial), 1);
    for n in 2..10 {
        serial.write(THR, b'x').unwrap();
        assert_eq!(calls(&serial), n, "empty once more");
    }
    assert_eq!(serial.read(IIR) & 0xf, iir::TRANSMITTER_EMPTY);
    assert_eq!(serial.receive(b"y").unwrap(), 1);
    assert_eq!(calls(&serial), 10);
    assert_eq!(serial.receive(b"").unwrap(), 0);
    assert_eq!(calls(&serial), 10);
}

#[test]
fn a_line_that_falls_in_an_access_of_the_owner_triggers_when_it_rises_again() {
    let guest: [fn(&mut Serial<_, _, _>); 2] = [
        |serial| assert_eq!(serial.read(LSR), lsr::THRE | lsr::TEMT),
        |serial| serial.write(THR, b'x').unwrap(),
    ];
    for act in guest {
        let (mut serial, _) = counted(Line::AtOnce);
        serial.write(IER, ier::MODEM_STATUS).unwrap();
        for times in 1..3 {
            let modem = serial.uart_mut().modem_lines();
            serial.uart_mut().set_modem_lines(!modem);
            serial.read(SCR);
            assert_eq!(calls(&serial), times);
            serial.uart_mut().read(MSR);
            serial.uart_mut().read(LSR);
            act(&mut serial);
        }
    }
}

#[test]
fn input_without_an_enabled_interrupt_does_not_trigger() {
    let (mut serial, _) = counted(Line::AtOnce);
    serial.write(IER, ier::TRANSMITTER_EMPTY).unwrap();
    assert_eq!(calls(&serial), 1, "the transmitter is empty");
    assert_eq!(serial.receive(b"x").unwrap(), 1);
    assert_eq!(calls(&serial), 1);
    serial.write(IER, ier::RECEIVED_DATA).unwrap();
    assert_eq!(serial.receive(b"y").unwrap(), 1);
    assert_eq!(calls(&serial), 2);
}

#[test]
fn an_interrupt_caused_by_time_triggers_when_it_is_due() {
    let (mut serial, clock) = counted(Line::Baud);
    serial.write(IER, ier::TRANSMITTER_EMPTY).unwrap();
    assert_eq!(serial.read(IIR) & 0xf, iir::TRANSMITTER_EMPTY);
    serial.write(THR, b'a').unwrap();
    serial.write(THR, b'b').unwrap();
    let before = calls(&serial);
    let due = serial.uart_mut().next_event().unwrap();
    serial.tend().unwrap();
    assert_eq!(calls(&serial), before);
    clock.advance(due);
    serial.tend().unwrap();
    serial.tend().unwrap();
    assert_eq!(calls(&serial), before + 1);
    clock.advance(Nanos::from_micros(1));
    serial.read(LSR);
    assert_eq!(calls(&serial), before + 1);
}

/// The guest's read comes between the due time and the VMM's timer. The model then has no event
/// left to report, so a timer set from it would never fire.
#[test]
fn an_interrupt_that_becomes_due_before_a_read_is_not_lost() {
    let (mut serial, clock) = counted(Line::Baud);
    serial.write(IER, ier::TRANSMITTER_EMPTY).unwrap();
    assert_eq!(serial.read(IIR) & 0xf, iir::TRANSMITTER_EMPTY);
    serial.write(THR, b'a').unwrap();
    serial.write(THR, b'b').unwrap();
    let before = calls(&serial);
    let due = serial.uart_mut().next_event().unwrap();
    clock.advance(due);
    serial.read(SCR);
    assert_eq!(serial.uart_mut().interrupt(), Some(iir::TRANSMITTER_EMPTY));
    assert_eq!(calls(&serial), before + 1);
}

#[test]
fn an_interrupt_raised_by_a_read_is_not_lost() {
    let (mut serial, _) = counted(Line::AtOnce);
    serial.write(IER, ier::LINE_STATUS).unwrap();
    serial.uart_mut().receive(b'x');
    serial.uart_mut().receive_with(b'y', lsr::PARITY);
    serial.tend().unwrap();
    assert_eq!(calls(&serial), 0, "the error is not at the top yet");
    assert_eq!(serial.read(RBR), b'x');
    assert_eq!(serial.read(IIR) & 0xf, iir::LINE_STATUS);
    assert_eq!(calls(&serial), 1);
}

#[test]
fn a_trigger_error_in_a_read_is_stored_and_the_trigger_is_retried() {
    let (mut serial, clock) = counted(Line::Baud);
    serial.write(IER, ier::TRANSMITTER_EMPTY).unwrap();
    serial.read(IIR);
    serial.write(THR, b'a').unwrap();
    serial.write(THR, b'b').unwrap();
    clock.advance(Nanos::from_millis(1));
    *serial.trigger().broken.borrow_mut() = true;
    serial.read(SCR);
    assert!(is_broken(serial.take_error()));
    *serial.trigger().broken.borrow_mut() = false;
    let before = calls(&serial);
    serial.read(SCR);
    assert_eq!(calls(&serial), before + 1);
    assert!(serial.take_error().is_none());
}

#[test]
fn a_trigger_error_is_reported_and_the_trigger_is_retried() {
    let (mut serial, _) = counted(Line::AtOnce);
    *serial.trigger().broken.borrow_mut() = true;
    assert!(is_broken(serial.write(IER, ier::TRANSMITTER_EMPTY).err()));
    assert!(is_broken(serial.write(SCR, 0).err()));
    // Accesses go through rust-vmm's bus, which returns no error.
    serial.pio_write(PioAddress(0x3f8), SCR as u16, &[1]);
    assert!(is_broken(serial.take_error()));
    assert!(serial.take_error().is_none());
    *serial.trigger().broken.borrow_mut() = false;
    serial.write(SCR, 2).unwrap();
    assert_eq!(serial.read(SCR), 2);
    assert_eq!(calls(&serial), 4);
    serial.write(SCR, 3).unwrap();
    assert_eq!(calls(&serial), 4, "the high line has triggered");
}

#[test]
fn a_shared_event_and_a_memory_mapped_port_trigger_too() {
    let line = Arc::new(event());
    let uart = Uart::new(HostClock::new(), Line::AtOnce, Vec::new());
    let serial = Serial::new(uart, line.clone());
    let port = Mutex::new(MmioUart::new(serial, Stride::WORDS));
    let write = |register: usize, value: u8| {
        let offset = register as u64 * 4;
        let address = vm_device::bus::MmioAddress(0);
        vm_device::MutDeviceMmio::mmio_write(&mut *port.lock().unwrap(), address, offset, &[value]);
    };
    write(IER, ier::TRANSMITTER_EMPTY);
    assert_eq!(line.read().unwrap(), 1);
    write(THR, b'x');
    assert_eq!(line.read().unwrap(), 1);
    assert!(port.lock().unwrap().serial_mut().take_error().is_none());
}

/// A sink that would block.
struct Busy;

impl io::Write for Busy {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_byte_that_the_sink_does_not_take_is_an_error() {
    let uart = Uart::new(HostClock::new(), Line::AtOnce, Busy);
    let mut serial = Serial::new(uart, ());
    let refused = |error: Option<Error<_>>| match error {
        Some(Error::IOError(error)) => error.kind() == io::ErrorKind::WouldBlock,
        _ => false,
    };
    assert!(refused(serial.write(THR, b'a').err()));
    serial.write(SCR, 0).unwrap();
    serial.pio_write(PioAddress(0x3f8), THR as u16, b"b");
    assert!(refused(serial.take_error()));
    assert_eq!(serial.uart_mut().lost(), 2);
}

#[test]
fn a_byte_that_leaves_a_line_with_a_rate_is_an_error_when_the_sink_does_not_take_it() {
    let clock = VirtualClock::new();
    let mut uart = Uart::new(clock.clone(), Line::Baud, Busy);
    uart.write(LCR, lcr::DLAB);
    uart.write(DLL, 1);
    uart.write(LCR, 3);
    let mut serial = Serial::new(uart, ());
    serial.write(THR, b'a').unwrap();
    clock.advance(Nanos::from_millis(1));
    assert!(matches!(serial.tend(), Err(Error::IOError(_))));
    serial.tend().unwrap();
}

#[test]
fn a_sinks_error_that_a_read_meets_is_stored() {
    struct Full;
    impl io::Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let clock = VirtualClock::new();
    let mut uart = Uart::new(clock.clone(), Line::Baud, Full);
    uart.write(LCR, lcr::DLAB);
    uart.write(DLL, 1);
    uart.write(LCR, 3);
    let mut serial = Serial::new(uart, Counter::default());
    serial.write(THR, b'a').unwrap();
    clock.advance(Nanos::from_millis(1));
    serial.read(LSR);
    assert!(matches!(serial.take_error(), Some(Error::IOError(_))));
}

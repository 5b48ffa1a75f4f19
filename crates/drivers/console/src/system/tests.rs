//! The port's locks while it is opened again.

extern crate std;

use core::any::Any;
use core::cell::{Cell, RefCell};
use std::boxed::Box;
use std::string::String;
use std::vec::Vec;

use nostall_devices::VirtualClock;
use nostall_devices::uart::{Profile, Uart, VirtualPort};
use nostall_io::{Clock, Registers};
use nostall_uart::{LineSettings, Model};

use super::*;
use crate::Slot;

type Port = VirtualPort<Vec<u8>>;

/// A lock that another CPU holds.
type Held = Box<dyn Any>;

/// An attempt to take a lock.
type Lock = fn(Opened) -> Option<Held>;

/// A port at each of whose accesses another CPU tries to take a lock, if it has none.
#[derive(Clone, Copy)]
struct Wire {
    port: &'static Port,
    lock: &'static Cell<Option<Lock>>,
    held: &'static RefCell<Option<Held>>,
    console: Opened,
}

impl Wire {
    fn accessed(self) -> &'static Port {
        if let Some(lock) = self.lock.get() {
            let mut held = self.held.borrow_mut();
            *held = held.take().or_else(|| lock(self.console));
        }
        self.port
    }
}

impl Registers for Wire {
    fn read8(&self, offset: usize) -> u8 {
        self.accessed().read8(offset)
    }

    fn write8(&self, offset: usize, value: u8) {
        self.accessed().write8(offset, value);
    }
}

#[derive(Clone, Copy)]
struct Services(&'static VirtualClock);

impl Clock for Services {
    fn now(&self) -> Nanos {
        self.0.advance(Nanos(500));
        self.0.now()
    }

    fn wait_until(&self, deadline: Nanos) {
        self.0.wait_until(deadline);
    }
}

impl Kernel for Services {
    fn cpu(&self) -> u16 {
        0
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        critical()
    }
}

type Opened = &'static SystemConsole<Wire, Services>;

/// Opens a port again while another CPU holds a lock of the port for as long as it can. Returns the
/// result, and the text that is sent after it.
fn open_again(lock: Lock) -> (Result<(), OpenError>, String) {
    let profile = Profile::PC_16550A;
    let (port, clock) = Uart::in_virtual_time_as(Model::Uart16550A, profile, Vec::new());
    let ring = Box::leak(Box::new(Ring::<[Slot; 16]>::new()));
    let clock = Box::leak(Box::new(clock));
    let console: Opened = Box::leak(Box::new(SystemConsole::new(ring, Services(clock))));
    let wire = Wire {
        port: Box::leak(Box::new(port)),
        lock: Box::leak(Box::default()),
        held: Box::leak(Box::default()),
        console,
    };
    let settings = LineSettings::baud(115_200);
    console.open(wire, settings).unwrap();

    wire.lock.set(Some(lock));
    let opened = console.open(wire, settings);
    wire.lock.set(None);
    drop(wire.held.take());

    console.log(Level::Info, "", format_args!("logged"));
    let is_sent = console.settle(Nanos::from_secs(1));
    assert!(is_sent, "{opened:?}, and the console sends nothing");
    let sent = wire.port.with(|uart| uart.sink_mut().clone());
    (opened, String::from_utf8(sent).unwrap())
}

#[test]
fn a_use_of_the_port_while_it_is_opened_again_leaves_it_open() {
    let (opened, sent) =
        open_again(|console| Some(Box::new(console.drain.sink().take(Caller::Normal)?)));
    assert_eq!(opened, Ok(()));
    assert!(sent.ends_with("] logged\r\n"), "{sent}");
}

#[test]
fn a_panic_that_uses_the_spare_while_the_port_is_opened_again_leaves_the_old_port() {
    let (opened, sent) =
        open_again(|console| Some(Box::new(console.drain.sink().port.spares[0].try_lock()?)));
    assert_eq!(opened, Err(OpenError::Busy));
    assert!(sent.ends_with("] logged\r\n"), "{sent}");
}

/// Sets options and printer, in one of both orders.
type Set = fn(SystemConsole<Wire, Services>, SinkOptions) -> SystemConsole<Wire, Services>;

#[test]
fn options_keep_the_progress_slot_and_the_single_offer_of_a_printers_step() {
    static RING: Ring<[Slot; 4]> = Ring::new();
    let options = SinkOptions::DEFAULT;
    let set: [Set; 2] = [
        |console, options| console.with_options(options).with_printer(),
        |console, options| console.with_printer().with_options(options),
    ];
    for set in set {
        let (_, clock) = Uart::in_virtual_time(Profile::VM, Vec::<u8>::new());
        let kernel = Services(Box::leak(Box::new(clock)));
        let console = set(SystemConsole::new(&RING, kernel), options);
        let options = console.drain.options;
        assert_eq!((options.slice, options.progress_slot), (1, Some(0)));
        let console = set(console, options.progress_slot(2));
        assert_eq!(console.drain.options.progress_slot, Some(2));
    }
}

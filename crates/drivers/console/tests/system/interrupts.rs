//! The port's interrupt while a context opens or uses the port with interrupts enabled.

use std::cell::Cell;
use std::rc::Rc;

use nostall_console::{Ring, Slot, SystemConsole};
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::LineSettings;
use nostall_uart::registers::{IER, MCR, mcr};

use crate::machine::{Console, Machine, Services, Wire, info, machine, open};
use crate::{PC, lines_with};

/// Adds a level-triggered controller behind OUT2. The handler runs while the line is high, after
/// each access with interrupts enabled, and when interrupts are enabled again. Returns the maximum
/// number of runs in a row.
fn level_triggered(machine: &'static Machine, console: &'static Console) -> Rc<Cell<usize>> {
    let most = Rc::new(Cell::new(0));
    let (seen, inside) = (most.clone(), Cell::new(false));
    let check = Rc::new(move || {
        if machine.masks.get() > 0 || inside.replace(true) {
            return;
        }
        let mut runs = 0;
        let passes = || machine.port.read8(MCR) & mcr::OUT2 != 0;
        while runs < 100 && passes() && machine.port.with(|uart| uart.interrupt()).is_some() {
            console.on_interrupt();
            runs += 1;
        }
        seen.set(seen.get().max(runs));
        inside.set(false);
    });
    let hook = check.clone();
    *machine.in_access.borrow_mut() = Some(Box::new(move || hook()));
    *machine.after_mask.borrow_mut() = Some(Box::new(move || check()));
    most
}

#[test]
fn a_level_triggered_interrupt_while_settle_has_the_port_ends() {
    let (machine, console) = open(PC);
    info(console, "a line");
    machine
        .port
        .with(|uart| (0..14).for_each(|_| uart.receive(b'x')));
    let most = level_triggered(machine, console);
    console.settle(Nanos::from_secs(1));
    assert!(most.get() < 100, "the handler runs forever: livelock");
}

#[test]
fn a_level_triggered_interrupt_in_a_direct_write_ends_and_its_bytes_are_received_after_it() {
    let (machine, console) = open(PC);
    machine
        .port
        .with(|uart| (0..14).for_each(|_| uart.receive(b'x')));
    let most = level_triggered(machine, console);
    console.with_port(|port| port.write(b"direct"));
    assert!(most.get() < 100, "the handler runs forever: livelock");
    assert_eq!(machine.port.with(|uart| uart.interrupt()), None);
    assert_eq!(std::iter::from_fn(|| console.receive()).count(), 14);
    // The port interrupts again.
    machine
        .port
        .with(|uart| (0..14).for_each(|_| uart.receive(b'y')));
    assert!(machine.port.with(|uart| uart.interrupt()).is_some());
}

#[test]
fn a_level_triggered_interrupt_while_the_port_is_opened_again_ends() {
    for settings in [LineSettings::baud(115_200), LineSettings::baud(100_000)] {
        let (machine, console) = open(PC);
        machine
            .port
            .with(|uart| (0..14).for_each(|_| uart.receive(b'x')));
        let most = level_triggered(machine, console);
        let opened = console.open(Wire(machine), settings);
        *machine.in_access.borrow_mut() = None;
        assert_eq!(opened.is_err(), settings == LineSettings::baud(100_000));
        assert!(most.get() < 100, "the handler runs forever: livelock");
        // The port interrupts again.
        assert_eq!(machine.port.with(|uart| uart.interrupt()), None);
        machine
            .port
            .with(|uart| (0..14).for_each(|_| uart.receive(b'y')));
        assert!(machine.port.with(|uart| uart.interrupt()).is_some());
    }
}

/// Opens the port with a level- or edge-triggered controller. Bytes are received as soon as the
/// interrupt is enabled. Returns the maximum number of handler runs in a row.
fn bytes_come_in_while_open(
    machine: &'static Machine,
    console: &'static Console,
    levels: bool,
) -> usize {
    let (inside, came, was_high) = (Cell::new(false), Cell::new(false), Cell::new(false));
    let most = Rc::new(Cell::new(0));
    let seen = most.clone();
    *machine.in_access.borrow_mut() = Some(Box::new(move || {
        if inside.replace(true) {
            return;
        }
        if machine.port.read8(MCR) & mcr::OUT2 != 0
            && machine.port.read8(IER) != 0
            && !came.replace(true)
        {
            machine
                .port
                .with(|uart| (0..14).for_each(|_| uart.receive(b'x')));
        }
        let is_high = || {
            let passes = machine.port.read8(MCR) & mcr::OUT2 != 0;
            passes && machine.port.with(|uart| uart.interrupt()).is_some()
        };
        let mut runs = 0;
        while machine.masks.get() == 0 && is_high() && (levels || !was_high.get()) && runs < 100 {
            was_high.set(true);
            console.on_interrupt();
            runs += 1;
        }
        if !is_high() {
            was_high.set(false);
        }
        seen.set(seen.get().max(runs));
        inside.set(false);
    }));
    console
        .open(Wire(machine), LineSettings::baud(115_200))
        .unwrap();
    *machine.in_access.borrow_mut() = None;
    most.get()
}

#[test]
fn bytes_that_come_in_while_the_port_is_opened_are_received() {
    let (machine, console) = machine(PC);
    bytes_come_in_while_open(machine, console, false);
    let interrupt = machine.port.with(|uart| uart.interrupt());
    assert_eq!(interrupt, None, "no further edge arrives");
    assert_eq!(std::iter::from_fn(|| console.receive()).count(), 14);
}

#[test]
fn a_level_triggered_interrupt_while_the_port_is_opened_ends() {
    let (machine, console) = machine(PC);
    let runs = bytes_come_in_while_open(machine, console, true);
    assert!(runs < 100, "the handler runs forever: livelock");
}

#[test]
fn a_level_triggered_interrupt_while_a_printer_task_has_the_port_ends() {
    let (machine, _) = machine(PC);
    let ring = Box::leak(Box::new(Ring::<[Slot; 64]>::new()));
    let kernel = Services(machine);
    let console: &'static Console =
        Box::leak(Box::new(SystemConsole::new(ring, kernel).with_printer()));
    console
        .open(Wire(machine), LineSettings::baud(115_200))
        .unwrap();
    info(console, "a line");
    machine
        .port
        .with(|uart| (0..14).for_each(|_| uart.receive(b'x')));
    let most = level_triggered(machine, console);
    let _ = console.poll();
    assert!(most.get() < 100, "the handler runs forever: livelock");
}

#[test]
fn during_a_second_open_of_the_same_port_no_slice_uses_it() {
    let (machine, console) = open(PC);
    for n in 0..30 {
        info(console, &format!("line {n}"));
    }
    // The timer interrupt comes in the middle of the set-up.
    let busy = Cell::new(false);
    *machine.in_access.borrow_mut() = Some(Box::new(move || {
        if machine.masks.get() == 0 && !busy.replace(true) {
            if machine
                .timer
                .get()
                .is_some_and(|at| at <= machine.clock.now())
            {
                machine.timer.set(None);
                drop(console.on_timer());
            }
            busy.set(false);
        }
    }));
    let opened = console.open(Wire(machine), LineSettings::baud(115_200));
    *machine.in_access.borrow_mut() = None;
    assert!(opened.is_ok(), "{opened:?}");
    assert!(console.settle(Nanos::from_secs(1)));
    let text = machine.arrived();
    assert_eq!(lines_with(&text, "] line "), 30, "{text}");
}

//! The receive side.

use std::cell::Cell;

use nostall_io::{Clock, Nanos};

use crate::PC;
use crate::machine::{Console, Machine, info, open};

const FRAME: Nanos = Nanos(86_806);

fn received(console: &Console) -> Vec<u8> {
    std::iter::from_fn(|| console.receive()).collect()
}

/// Receives `bytes` at the line's rate, and calls the handler at each edge of the interrupt.
/// Returns the number of interrupts.
fn paste(machine: &Machine, console: &Console, bytes: &[u8]) -> usize {
    let (mut interrupts, mut was_high) = (0, false);
    let mut check = || {
        let is_high = machine.port.with(|uart| uart.interrupt()).is_some();
        if is_high && !was_high {
            interrupts += 1;
            console.on_interrupt();
        }
        was_high = machine.port.with(|uart| uart.interrupt()).is_some();
    };
    for byte in bytes.iter().map(Some).chain([None; 8]) {
        machine.clock.advance(FRAME);
        if let Some(&byte) = byte {
            machine.port.with(|uart| uart.receive(byte));
        }
        check();
    }
    interrupts
}

#[test]
fn pasted_text_of_49_bytes_costs_at_most_6_interrupts_and_wakes_the_reader() {
    let (machine, console) = open(PC);
    let text: Vec<u8> = (0..49).map(|n| b'0' + n).collect();
    let interrupts = paste(machine, console, &text);
    assert!(interrupts <= 6, "{interrupts}");
    assert_eq!(machine.wakes.get(), interrupts);
    assert!(console.has_input());
    assert_eq!(received(console), text);
    assert!(!console.has_input());
    assert_eq!(received(console), b"");
}

#[test]
fn an_interrupt_that_finds_the_port_in_use_is_served_by_its_user() {
    let (machine, console) = open(PC);
    let handled = console.with_port(|_| {
        machine
            .port
            .with(|uart| (0..14).for_each(|n| uart.receive(n)));
        // The interrupt came on another CPU, before this user masked it.
        assert_eq!(machine.port.with(|uart| uart.interrupt()), None);
        console.on_interrupt()
    });
    assert_eq!(handled, Some(0));
    // The port is empty, so its next interrupt makes an edge again.
    assert_eq!(machine.port.with(|uart| uart.interrupt()), None);
    assert_eq!((received(console).len(), machine.wakes.get()), (14, 1));
}

#[test]
fn an_interrupt_in_the_middle_of_a_slice_is_served_at_its_end() {
    let (machine, console) = open(PC);
    // The second clock read is inside of the port's driver.
    *machine.in_now.borrow_mut() = Some(Box::new(move || {
        if machine.masks.get() > 0 && machine.stops.get() < 3 {
            machine.stops.set(machine.stops.get() + 1);
            machine
                .port
                .with(|uart| (0..14).for_each(|_| uart.receive(b'x')));
            console.on_interrupt();
        }
    }));
    info(console, "a line");
    *machine.in_now.borrow_mut() = None;
    assert_eq!(machine.port.with(|uart| uart.interrupt()), None);
    assert_eq!(received(console).len(), 3 * 14);
    assert!(machine.wakes.get() >= 1);
}

#[test]
fn endless_input_occupies_a_call_for_a_bounded_number_of_bytes_and_the_timer_receives_the_rest() {
    for place in 0..4 {
        let (machine, console) = open(PC);
        let inside = Cell::new(false);
        let accesses: &Cell<usize> = Box::leak(Box::default());
        // Another CPU handles the port's interrupts.
        *machine.in_access.borrow_mut() = Some(Box::new(move || {
            accesses.set(accesses.get() + 1);
            if !inside.replace(true) {
                machine.port.with(|uart| uart.receive(b'x'));
                console.on_interrupt();
                inside.set(false);
            }
        }));
        let masks = machine.masks.get();
        match place {
            0 => info(console, "a line"),
            1 => assert!(console.with_port(|_| ()).is_some()),
            2 => assert!(console.on_interrupt() > 0),
            _ => assert_eq!(console.write(b"x"), 1),
        }
        *machine.in_access.borrow_mut() = None;
        let bytes = || received(console).len() + console.drain().sink().input_lost();
        let first = bytes();
        // An offer receives 16, and so does the end of a slice.
        let most = if place == 2 { 256 + 16 } else { 32 };
        assert!((1..=most).contains(&first), "{place}: {first}");
        // A load, two accesses for each received byte, and two that end each of two receptions.
        assert!(
            accesses.get() <= 17 + 2 * most + 4,
            "{place}: {}",
            accesses.get()
        );
        assert_eq!(machine.masks.get(), masks);
        machine.run_timers(100, || drop(console.on_timer()));
        assert!(bytes() > 0, "{place}");
        let left = machine.port.with(|uart| uart.interrupt());
        assert_eq!(left, None, "{place}: no further edge arrives");
    }
}

#[test]
fn input_without_a_reader_is_counted_as_lost_and_the_oldest_is_kept() {
    let (machine, console) = open(PC);
    let text: Vec<u8> = (0..=255).chain(0..44).collect();
    paste(machine, console, &text);
    assert_eq!(console.drain().sink().input_lost(), 44);
    assert_eq!(received(console), text[..256]);
    paste(machine, console, b"more");
    assert_eq!(received(console), b"more");
}

#[test]
fn input_is_echoed_while_the_log_is_sent() {
    let (machine, console) = open(PC);
    let mut typed = b"ls -l\n".iter();
    for n in 0..10 {
        info(console, &format!("line {n}"));
    }
    machine.run_timers(10_000, || {
        if let Some(&byte) = typed.next() {
            machine.port.with(|uart| uart.receive(byte));
        }
        console.on_interrupt();
        while let Some(byte) = console.receive() {
            assert_eq!(console.write(&[byte]), 1);
        }
        drop(console.on_timer());
    });
    let text = machine.arrived();
    let echoed: String = text
        .lines()
        .filter(|line| !line.contains("] line "))
        .collect();
    assert_eq!(
        (echoed.as_str(), crate::lines_with(&text, "] line ")),
        ("ls -l", 10)
    );
    assert!(machine.clock.now() < Nanos::from_secs(1));
}

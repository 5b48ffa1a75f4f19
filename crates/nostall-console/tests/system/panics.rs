//! Panics at every point of the console's code.

use std::fmt;

use nostall_io::Clock;
use nostall_uart::LineSettings;
use nostall_uart::registers::IER;

use crate::machine::{Console, Wire, info, machine_with, open};
use crate::{PC, lines_with};

use nostall_io::Registers;

#[test]
fn a_panic_stops_the_others_sends_its_text_first_and_then_the_backlog() {
    let (machine, console) = open(PC);
    for n in 0..10 {
        info(console, &format!("line {n}"));
    }
    let timers = machine.timers_set.get();
    let report = console.panic(format_args!("the end"));
    assert_eq!((report.complete, report.incomplete), (1, 0));
    assert_eq!((machine.stops.get(), machine.timers_set.get()), (1, timers));
    assert_eq!(
        machine.port.read8(IER),
        0,
        "the port's interrupts are disabled"
    );
    let text = machine.arrived();
    assert!(text.find("] the end\n") < text.find("] line 1\n"), "{text}");
    assert!(lines_with(&text, "line 9") == 1);
    // From now on, records are only stored.
    let offers = console.drain().sink().offers();
    info(console, "after it");
    console.on_timer();
    assert_eq!(
        (console.drain().sink().offers(), machine.timers_set.get()),
        (offers, timers)
    );
}

#[test]
fn the_text_of_a_panic_in_each_platform_method_and_with_the_port_in_use_is_sent() {
    for place in 0..5 {
        let (machine, console) = open(PC);
        let panics = move || {
            if machine.wakes.replace(1) == 0 {
                console.panic(format_args!("the end"));
            }
        };
        match place {
            0 => *machine.in_set_timer.borrow_mut() = Some(Box::new(panics)),
            1 => *machine.in_now.borrow_mut() = Some(Box::new(panics)),
            2 => *machine.in_mask.borrow_mut() = Some(Box::new(panics)),
            3 => *machine.in_stop.borrow_mut() = Some(Box::new(panics)),
            _ => {}
        }
        match place {
            3 => {
                console.panic(format_args!("the first one"));
            }
            4 => {
                console.with_port(|_| panics()).unwrap();
            }
            _ => info(console, "a line that is longer than a FIFO"),
        }
        let text = machine.arrived();
        assert_eq!(lines_with(&text, "] the end"), 1, "place {place}: {text}");
        assert_eq!(machine.stops.get(), 1, "place {place}");
    }
}

#[test]
fn a_text_that_panics_each_time_ends_in_a_constant_one() {
    struct Broken(&'static Console);
    impl fmt::Display for Broken {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            // The kernel's panic handler prints the same text again.
            self.0.panic(format_args!("{}", Broken(self.0)));
            Err(fmt::Error)
        }
    }
    let (machine, console) = open(PC);
    console.panic(format_args!("{}", Broken(console)));
    let text = machine.arrived();
    assert_eq!(lines_with(&text, "] a panic's text panics"), 1, "{text}");
}

#[test]
fn a_panic_ends_even_if_the_clock_logs() {
    let (machine, console) = open(PC);
    *machine.in_now.borrow_mut() = Some(Box::new(move || info(console, "of the clock")));
    let start = machine.clock.now();
    let report = console.panic(format_args!("the end"));
    *machine.in_now.borrow_mut() = None;
    assert_eq!(report.complete, 1);
    assert!((machine.clock.now() - start).0 < 1_000_000_000);
    assert_eq!(lines_with(&machine.arrived(), "] the end"), 1);
}

#[test]
fn panics_of_a_clock_that_panics_at_each_read_end_with_the_beginning_of_a_text() {
    for early in [false, true] {
        let (machine, console) = open(PC);
        if early {
            info(console, "a line that is longer than a FIFO");
        }
        let depth: &std::cell::Cell<usize> = Box::leak(Box::default());
        *machine.in_now.borrow_mut() = Some(Box::new(move || {
            depth.set(depth.get() + 1);
            assert!(depth.get() < 20, "it never ends");
            console.panic(format_args!("of the clock"));
            depth.set(depth.get() - 1);
        }));
        console.panic(format_args!("the end"));
        *machine.in_now.borrow_mut() = None;
        assert!(machine.stops.get() == 1 && machine.arrived().contains('['));
    }
}

#[test]
fn a_panic_before_the_port_is_open_returns_at_once() {
    let (machine, console) = crate::machine::machine(PC);
    let report = console.panic(format_args!("early"));
    assert_eq!((report.complete, report.incomplete), (0, 1));
    assert_eq!(machine.stops.get(), 1);
}

#[test]
fn a_panic_of_another_cpu_leaves_the_port_to_the_first_one() {
    let (machine, console) = open(PC);
    info(console, "a line");
    assert!(console.settle(nostall_io::Nanos::from_secs(1)));
    *machine.in_stop.borrow_mut() = Some(Box::new(move || {
        // The second CPU panics before it is stopped.
        machine.cpu.set(1);
        console.panic(format_args!("of the second"));
        machine.cpu.set(0);
    }));
    console.panic(format_args!("of the first"));
    let text = machine.arrived();
    for end in ["] of the first", "] of the second", "] a line"] {
        assert_eq!(lines_with(&text, end), 1, "{text}");
    }
    assert_eq!(machine.stops.get(), 1);
}

#[test]
fn the_text_of_a_panic_at_every_access_of_a_second_open_is_sent() {
    for at in 0.. {
        let (machine, console) = open(PC);
        let left = std::cell::Cell::new(at);
        *machine.in_access.borrow_mut() = Some(Box::new(move || match left.get() {
            0 => {
                left.set(usize::MAX);
                console.panic(format_args!("the end"));
            }
            usize::MAX => {}
            more => left.set(more - 1),
        }));
        let _ = console.open(Wire(machine), LineSettings::baud(115_200));
        if machine.stops.get() == 0 {
            assert!(at > 50, "{at}");
            break;
        }
        let text = machine.arrived();
        assert_eq!(lines_with(&text, "] the end"), 1, "{at}: {text}");
    }
}

#[test]
fn the_text_of_a_panic_at_every_access_to_the_port_and_every_clock_read_is_sent() {
    let mut places = 0;
    for at in 0.. {
        for in_clock in [false, true] {
            let (machine, console) = open(PC);
            let place = [&machine.in_access, &machine.in_now][usize::from(in_clock)];
            let left = std::cell::Cell::new(at);
            *place.borrow_mut() = Some(Box::new(move || match left.get() {
                0 => {
                    left.set(usize::MAX);
                    console.panic(format_args!("the end"));
                }
                usize::MAX => {}
                more => left.set(more - 1),
            }));
            for _ in 0..3 {
                info(console, "a line that is longer than a FIFO");
            }
            console.on_interrupt();
            machine.run_timers(20, || console.on_timer());
            if machine.stops.get() == 0 {
                continue;
            }
            places += 1;
            // A panic in the middle of a load may duplicate or lose one byte.
            let text = machine.arrived();
            assert_eq!(lines_with(&text, "] the end"), 1, "{at} {in_clock}: {text}");
        }
        if at > 150 {
            break;
        }
    }
    assert!(places > 200, "{places}");
}

#[test]
fn the_texts_of_a_panic_and_of_a_panic_at_every_access_and_clock_read_of_it_are_sent() {
    let mut nested = 0;
    for first in (0..60).step_by(if cfg!(miri) { 29 } else { 3 }) {
        for second in (0..60).step_by(if cfg!(miri) { 19 } else { 1 }) {
            for in_clock in [false, true] {
                let (machine, console) = open(PC);
                let place = [&machine.in_access, &machine.in_now][usize::from(in_clock)];
                let left = std::cell::Cell::new(first);
                let panics = std::cell::Cell::new(0);
                *place.borrow_mut() = Some(Box::new(move || match (panics.get(), left.get()) {
                    (2, _) => {}
                    (panic, 0) => {
                        panics.set(panic + 1);
                        left.set(second);
                        console.panic(format_args!("end {panic}"));
                    }
                    (_, more) => left.set(more - 1),
                }));
                for _ in 0..3 {
                    info(console, "a line that is longer than a FIFO");
                }
                machine.run_timers(20, || console.on_timer());
                *place.borrow_mut() = None;
                let text = machine.arrived();
                let logged = console.ring().newest();
                for panic in 0..machine.stops.get().min(1) {
                    let end = format!("] end {panic}");
                    assert!(
                        lines_with(&text, &end) > 0,
                        "{first} {second} {in_clock}: {text}"
                    );
                }
                if logged > 4 {
                    nested += 1;
                    assert!(
                        lines_with(&text, "] end 1") > 0,
                        "{first} {second} {in_clock}: {text}"
                    );
                }
            }
        }
    }
    assert!(nested > 9, "{nested}");
}

#[test]
fn records_of_cpus_that_run_on_do_not_overwrite_a_panics_text() {
    for per_access in [1, 4, 40] {
        let (machine, console) = machine_with::<256>(PC);
        let port = Wire(machine);
        console.open(port, LineSettings::baud(115_200)).unwrap();
        *machine.in_access.borrow_mut() = Some(Box::new(move || {
            if machine.stops.get() == 0 {
                return;
            }
            let cpu = machine.cpu.replace(1);
            for _ in 0..per_access {
                info(console, "of another CPU");
            }
            machine.cpu.set(cpu);
        }));
        let lines: Vec<_> = (0..40).map(|n| format!("frame {n} of the panic")).collect();
        let report = console.panic(format_args!("{}", lines.join("\n")));
        *machine.in_access.borrow_mut() = None;
        let text = machine.arrived();
        for line in &lines {
            assert!(
                text.contains(line.as_str()),
                "{per_access} {report:?}: {text}"
            );
        }
        assert!(console.drain().lost() > 0);
    }
}

//! Panics at every point of the console's code.

use std::cell::Cell;
use std::fmt;

use nostall_console::{FlushLimits, PanicOrder, SinkOptions, SystemConsole};
use nostall_io::{Clock, Nanos};
use nostall_uart::registers::IER;
use nostall_uart::{Console as Driver, LineSettings};

use crate::machine::{Console, Services, Wire, info, machine, machine_with, open};
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
    drop(console.on_timer());
    assert_eq!(
        (console.drain().sink().offers(), machine.timers_set.get()),
        (offers, timers)
    );
}

#[test]
fn a_kernel_chooses_how_long_a_panic_sends_and_which_records() {
    let total = Nanos::from_millis(20);
    let newest = SinkOptions::DEFAULT.panic_order(PanicOrder::PanicThenNewest(2));
    for (limits, options, complete, numbers) in [
        (FlushLimits::DEFAULT, SinkOptions::DEFAULT, 1, 0..60),
        (
            FlushLimits::DEFAULT.total(total),
            SinkOptions::DEFAULT,
            0,
            0..5,
        ),
        (FlushLimits::DEFAULT.total(total), newest, 1, 58..60),
    ] {
        let (machine, console) = machine(PC);
        let console = Box::leak(Box::new(
            SystemConsole::new(console.drain().ring(), Services(machine))
                .with_options(options)
                .with_flush_limits(limits),
        ));
        for n in 0..60 {
            info(console, &format!("line {n:02} of the log"));
        }
        console
            .open(Wire(machine), LineSettings::baud(115_200))
            .unwrap();
        let start = machine.clock.now();
        let report = console.panic(format_args!("the end"));
        assert_eq!(report.complete, complete);
        assert!(machine.clock.now() - start < limits.total + Nanos::from_millis(5));
        let text = machine.arrived();
        assert_eq!(lines_with(&text, "] the end"), 1, "{text}");
        // Opening the port sends a part of the first line.
        for n in 1..60 {
            let times = usize::from(numbers.contains(&n));
            assert_eq!(
                lines_with(&text, &format!("line {n:02} of")),
                times,
                "{text}"
            );
        }
    }
}

#[test]
fn a_driver_that_takes_the_port_over_in_a_line_reports_lost_bytes_on_a_line_of_their_own() {
    let (machine, _) = machine(PC);
    let line = LineSettings::baud(115_200);
    let mut first = Driver::open(Wire(machine), Services(machine), line).unwrap();
    let mut spare = first.clone();
    first.write(b"half a li");
    spare.take_over();
    // The port does not answer for one write.
    machine.absent.set(2);
    assert_eq!(spare.write(b"lost\n").dropped, 6);
    spare.write(b"the end\n");
    assert_eq!(machine.arrived(), "half a li\n[6 bytes lost]\nthe end\n");
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
fn a_panic_in_the_text_or_clock_of_the_first_one_stops_the_other_cpus() {
    struct Panics(&'static Console);
    impl fmt::Display for Panics {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.panic(format_args!("inner"));
            // The kernel's panic handler does not return.
            std::panic::resume_unwind(Box::new(()))
        }
    }
    for in_clock in [false, true] {
        let (machine, console) = open(PC);
        if in_clock {
            *machine.in_now.borrow_mut() = Some(Box::new(move || {
                if machine.wakes.replace(1) == 0 {
                    let _ = Panics(console).to_string();
                }
            }));
        }
        let outer = || match in_clock {
            true => console.panic(format_args!("outer")),
            false => console.panic(format_args!("{}", Panics(console))),
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(outer)).is_err());
        assert_eq!(machine.stops.get(), 1, "{in_clock}");
        assert_eq!(lines_with(&machine.arrived(), "] inner"), 1, "{in_clock}");
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
    let constant = "] more than four panics at once: a text is left out";
    assert_eq!(lines_with(&text, constant), 1, "{text}");
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
        let depth: &Cell<usize> = Box::leak(Box::default());
        *machine.in_now.borrow_mut() = Some(Box::new(move || {
            depth.set(depth.get() + 1);
            assert!(depth.get() < 20, "it never ends");
            console.panic(format_args!("of the clock"));
            console.settle(Nanos::from_secs(1));
            depth.set(depth.get() - 1);
        }));
        console.panic(format_args!("the end"));
        *machine.in_now.borrow_mut() = None;
        assert!(machine.stops.get() == 1 && machine.arrived().contains('['));
    }
}

#[test]
fn a_panic_before_the_port_is_open_returns_at_once() {
    let (machine, console) = machine(PC);
    let start = machine.clock.now();
    let report = console.panic(format_args!("early"));
    assert!(machine.clock.now() - start < Nanos::from_millis(1));
    assert_eq!((report.complete, report.incomplete), (0, 1));
    assert_eq!(machine.stops.get(), 1);
}

#[test]
fn a_panic_waits_for_a_port_that_does_not_answer_until_its_time_limit() {
    for reads in [2, 3, 100, usize::MAX] {
        let (machine, console) = open(PC);
        let start = machine.clock.now();
        machine.absent.set(reads);
        let report = console.panic(format_args!("the end"));
        let took = machine.clock.now() - start;
        let returns = usize::from(reads != usize::MAX);
        assert_eq!(report.complete, returns, "{reads}");
        let text = machine.arrived();
        assert_eq!(lines_with(&text, "] the end"), returns, "{reads}: {text}");
        assert!(took < Nanos::from_millis(10_100), "{reads}: {took}");
    }
}

#[test]
fn text_written_after_a_panic_is_sent_by_settle_on_the_cpu_that_panicked() {
    let (machine, console) = open(PC);
    console.panic(format_args!("the end"));
    console.write(b"stack\n");
    assert_eq!(lines_with(&machine.arrived(), "stack"), 0);
    assert!(console.settle(Nanos::from_secs(1)));
    assert_eq!(lines_with(&machine.arrived(), "stack"), 1);
    machine.cpu.set(1);
    console.write(b"other\n");
    assert!(!console.settle(Nanos::from_millis(1)));
    console.panic(format_args!("of the second"));
    machine.cpu.set(0);
    console.write(b"stack of the first\n");
    assert!(console.settle(Nanos::from_secs(1)));
    assert_eq!(lines_with(&machine.arrived(), "stack of the first"), 1);
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
fn from_a_panic_on_only_its_cpu_gets_the_port() {
    let (machine, console) = open(PC);
    let direct = move || console.with_port(|port| port.write(b"direct\n"));
    let asked: &Cell<usize> = Box::leak(Box::default());
    *machine.in_now.borrow_mut() = Some(Box::new(move || {
        if machine.stops.get() == 0 || machine.cpu.replace(1) == 1 {
            return;
        }
        asked.set(asked.get() + 1);
        assert!(direct().is_none());
        assert!(
            console
                .open(Wire(machine), LineSettings::baud(115_200))
                .is_err()
        );
        machine.cpu.set(0);
    }));
    let text = "a text that is longer than a FIFO ".repeat(4);
    console.panic(format_args!("{text}"));
    *machine.in_now.borrow_mut() = None;
    assert!(asked.get() > 10);
    assert!(direct().is_some());
    let sent = machine.arrived();
    assert!(sent.ends_with(&format!("] {text}\ndirect\n")), "{sent}");
}

#[test]
fn the_texts_of_panics_of_eight_cpus_are_sent() {
    let (machine, console) = open(PC);
    *machine.in_stop.borrow_mut() = Some(Box::new(move || {
        for cpu in 1..8 {
            machine.cpu.set(cpu);
            console.panic(format_args!("of CPU {cpu}"));
        }
        machine.cpu.set(0);
    }));
    console.panic(format_args!("of CPU 0"));
    let text = machine.arrived();
    for cpu in 0..8 {
        let end = format!("] of CPU {cpu}");
        assert_eq!(lines_with(&text, &end), 1, "{text}");
    }
}

#[test]
fn the_text_of_a_panic_at_every_access_of_a_first_or_second_open_is_sent() {
    for is_second in [false, true] {
        for at in 0.. {
            let (machine, console) = machine(PC);
            let line = LineSettings::baud(115_200);
            if is_second {
                console.open(Wire(machine), line).unwrap();
            }
            let left = Cell::new(at);
            *machine.in_access.borrow_mut() = Some(Box::new(move || match left.get() {
                0 => {
                    left.set(usize::MAX);
                    console.panic(format_args!("the end"));
                }
                usize::MAX => {}
                more => left.set(more - 1),
            }));
            let _ = console.open(Wire(machine), line);
            if machine.stops.get() == 0 {
                assert!(at > 50, "{at}");
                break;
            }
            let text = machine.arrived();
            let times = lines_with(&text, "] the end");
            assert_eq!(times, 1, "{is_second} {at}: {text}");
        }
    }
}

#[test]
fn the_text_of_a_panic_at_every_access_to_the_port_and_every_clock_read_is_sent() {
    let mut places = 0;
    for at in 0.. {
        for in_clock in [false, true] {
            let (machine, console) = open(PC);
            let place = [&machine.in_access, &machine.in_now][usize::from(in_clock)];
            let left = Cell::new(at);
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
            machine.run_timers(20, || drop(console.on_timer()));
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
                let left = Cell::new(first);
                let panics = Cell::new(0);
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
                machine.run_timers(20, || drop(console.on_timer()));
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

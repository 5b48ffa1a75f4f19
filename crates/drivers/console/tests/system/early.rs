//! The time before the port is open, before timers work and before the clock has a rate; and
//! orderly shutdown.

use std::cell::Cell;

use nostall_console::{Kernel, Level, Ring, Slot, SystemConsole};
use nostall_devices::uart::Profile;
use nostall_io::{Clock, Nanos};
use nostall_uart::LineSettings;

use crate::machine::{Services, Wire, info, machine, machine_with, open};
use crate::{PC, lines_end_with, lines_with};

#[test]
fn a_debug_build_says_once_that_no_timer_interrupt_comes() {
    let text = "nostall: no timer interrupt after set_timer: call poll in the kernel's loop";
    for has_timer in [false, true] {
        let (machine, console) = open(PC);
        for n in 0..3_000 {
            info(console, &format!("line {n}"));
            machine.clock.advance(Nanos::from_millis(1));
            if has_timer && n == 10 {
                drop(console.on_timer());
            }
        }
        machine.run_timers(100_000, || drop(console.on_timer()));
        let times = lines_with(&machine.arrived(), text);
        let is_due = cfg!(debug_assertions) && !has_timer;
        assert_eq!(times, usize::from(is_due));
    }
}

#[test]
fn records_wait_for_the_port_and_are_sent_by_the_timer() {
    let (machine, console) = machine(PC);
    info(console, "before the port");
    assert!(!console.settle(Nanos::from_secs(1)));
    assert_eq!(machine.arrived(), "");
    assert_eq!(machine.timers_set.get(), 0);
    console
        .open(Wire(machine), LineSettings::baud(115_200))
        .unwrap();
    info(console, "after it");
    assert!(machine.run_timers(1_000, || drop(console.on_timer())) > 3);
    let ends = ["] before the port", "] after it"];
    assert!(lines_end_with(&machine.arrived(), &ends));
    assert_eq!(machine.masks.get(), 0);
}

#[test]
fn settle_sends_all_without_timers_and_gives_up_at_its_time_limit() {
    let (machine, console) = open(PC);
    machine.has_timers.set(false);
    for n in 0..20 {
        info(console, &format!("line {n}"));
    }
    let start = machine.clock.now();
    assert!(!console.settle(Nanos::from_millis(3)));
    assert!(machine.clock.now() - start < Nanos::from_millis(6));
    assert!(console.settle(Nanos::from_secs(1)));
    // The last bit has been sent.
    let sent = machine.port.with(|uart| uart.sink_mut().clone());
    assert!(String::from_utf8(sent).unwrap().ends_with("] line 19\r\n"));
}

#[test]
fn settle_ends_with_the_newest_record_at_its_call_while_another_cpu_logs_and_sends() {
    // The other CPU sends as soon as the port is ready, so the port rarely appears idle.
    for phase in 0..20 {
        let (machine, console) = machine_with::<4096>(PC);
        console
            .open(Wire(machine), LineSettings::baud(115_200))
            .unwrap();
        machine.clock.advance(Nanos::from_micros(phase * 37));
        for n in 0..10 {
            info(console, &format!("line {n}"));
        }
        let (is_in, last) = (Cell::new(false), Cell::new(Nanos::ZERO));
        *machine.in_now.borrow_mut() = Some(Box::new(move || {
            if machine.masks.get() > 0 || is_in.replace(true) {
                return;
            }
            machine.cpu.set(1);
            if machine.clock.now() - last.get() >= Nanos::from_millis(1) {
                last.set(machine.clock.now());
                info(console, "of CPU 1, as long as those of CPU 0");
            }
            drop(console.on_timer());
            machine.cpu.set(0);
            is_in.set(false);
        }));
        assert!(console.settle(Nanos::from_millis(200)), "phase {phase}");
        *machine.in_now.borrow_mut() = None;
        // The last byte has arrived, and a few FIFOs of later bytes.
        let sent = machine.port.with(|uart| uart.sink_mut().clone());
        let sent = String::from_utf8(sent).unwrap();
        let end = "] line 9\r\n";
        let later = sent.len() - sent.find(end).unwrap() - end.len();
        assert!(later <= 4 * 16, "phase {phase}: {later}");
    }
}

/// A kernel with only the methods that have no default.
#[derive(Clone, Copy)]
struct Smallest(Services);

impl Clock for Smallest {
    fn now(&self) -> Nanos {
        self.0.now()
    }
}

impl Kernel for Smallest {
    fn cpu(&self) -> u16 {
        self.0.cpu()
    }
    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        self.0.without_interrupts(critical)
    }
}

#[test]
fn a_kernel_without_a_timer_sends_and_receives_in_its_loop_and_panics() {
    for is_calibrated in [false, true] {
        let (machine, _) = machine(PC);
        machine.is_calibrated.set(is_calibrated);
        let ring: &'static Ring<[Slot; 64]> = Box::leak(Box::new(Ring::new()));
        let kernel = Smallest(Services(machine));
        let console = Box::leak(Box::new(SystemConsole::new(ring, kernel)));
        let line = LineSettings::baud(115_200);
        console.open(Wire(machine), line).unwrap();
        for n in 0..20 {
            console.log(Level::Info, "", format_args!("line {n}"));
        }
        machine.port.with(|uart| uart.receive(b'x'));
        let (mut longest, mut polls, mut received) = (Nanos::ZERO, 0, None);
        while console.drain().unread() > 0 {
            let start = machine.clock.now();
            // Without a rate, the next time is not one of the clock.
            assert!(console.poll().is_some() || console.drain().unread() == 0);
            longest = longest.max(machine.clock.now() - start);
            console.on_interrupt();
            received = received.or_else(|| console.receive());
            machine.clock.advance(Nanos::from_micros(100));
            polls += 1;
            assert!(polls < 10_000, "{} unread", console.drain().unread());
        }
        assert_eq!((console.poll(), received), (None, Some(b'x')));
        assert!(longest < Nanos::from_micros(100), "{longest}");
        console.panic(format_args!("the end"));
        let text = machine.arrived();
        assert_eq!(lines_with(&text, "] line "), 20, "{text}");
        assert_eq!(lines_with(&text, "] the end"), 1, "{text}");
        // No timer was missed, and nothing was left out.
        assert_eq!(lines_with(&text, "] nostall: "), 0, "{text}");
        assert_eq!(console.left_out(), 0);
    }
}

#[test]
fn without_timers_each_call_sends_what_the_port_takes_and_the_first_timer_continues() {
    let (machine, console) = open(PC);
    machine.has_timers.set(false);
    for n in 0..10 {
        machine.clock.advance(Nanos::from_millis(2));
        info(console, &format!("line {n}"));
    }
    let bytes = console.drain().bytes();
    assert!((100..=160).contains(&bytes), "{bytes}");
    machine.has_timers.set(true);
    assert!(console.poll().is_some());
    machine.run_timers(1_000, || drop(console.on_timer()));
    assert_eq!(lines_with(&machine.arrived(), "] line "), 10);
}

#[test]
fn a_clock_without_a_rate_gives_blanks_and_each_call_sends_what_the_port_takes() {
    for profile in [PC, Profile::VM] {
        let (machine, console) = machine(profile);
        machine.is_calibrated.set(false);
        info(console, "before the port");
        console
            .open(Wire(machine), LineSettings::baud(115_200))
            .unwrap();
        for n in 0..9 {
            machine.clock.advance(Nanos::from_millis(2));
            info(console, &format!("line {n}"));
        }
        assert!(console.drain().bytes() > 130);
        assert!(console.settle(Nanos::from_secs(1)), "in polls of the clock");
        machine.is_calibrated.set(true);
        info(console, "calibrated");
        machine.run_timers(1_000, || drop(console.on_timer()));
        let text = machine.arrived();
        let blanks = text
            .lines()
            .filter(|line| line.starts_with("[            ]"));
        assert_eq!(blanks.count(), 10, "{text}");
        assert!(
            text.lines().last().unwrap().starts_with("[    0.0"),
            "{text}"
        );
    }
}

#[test]
fn without_a_rate_256_bytes_end_a_call_on_a_port_that_is_always_ready() {
    let (machine, console) = open(Profile::VM);
    machine.is_calibrated.set(false);
    // The second call finds that the port is ready at once.
    info(console, "first");
    let before = console.drain().bytes();
    info(console, &"x".repeat(1_500));
    let bytes = console.drain().bytes() - before;
    // No offer begins after 256 bytes.
    assert!((256..256 + 16).contains(&bytes), "{bytes}");
    for _ in 0..10 {
        console.poll();
    }
    assert_eq!(console.drain().unread(), 0, "the next calls send the rest");
}

#[test]
fn a_level_is_changed_at_run_time() {
    let (machine, console) = open(PC);
    console.set_level(Level::Warning);
    info(console, "left out");
    console.log(Level::Error, "disk", format_args!("sent"));
    console.set_level(Level::Debug);
    console.log(Level::Debug, "", format_args!("sent too"));
    assert!(console.settle(Nanos::from_secs(1)));
    let ends = ["] disk: sent", "] sent too"];
    assert!(lines_end_with(&machine.arrived(), &ends));
}

#[test]
fn a_port_that_does_not_answer_is_refused_and_another_one_takes_its_place() {
    let (machine, console) = machine(PC);
    info(console, "waits");
    machine.port.with(|uart| uart.sink_mut().clear());
    assert!(
        console
            .open(Wire(machine), LineSettings::baud(100_000))
            .is_err()
    );
    console
        .open(Wire(machine), LineSettings::baud(9_600))
        .unwrap();
    let refused = console.with_port(|_| console.open(Wire(machine), LineSettings::baud(9_600)));
    assert!(refused.unwrap().is_err(), "the port is in use");
    console
        .open(Wire(machine), LineSettings::baud(115_200))
        .unwrap();
    assert!(console.settle(Nanos::from_secs(1)));
    assert_eq!(lines_with(&machine.arrived(), "] waits"), 1);
}

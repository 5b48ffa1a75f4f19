//! Standard output, emergencies, a printer task, texts in parts.

use std::fmt;

use nostall_console::{AsProcessor, Level, Meta, Priority, Ring, Slot, SystemConsole};
use nostall_io::{Clock, Nanos, Processor};
use nostall_uart::LineSettings;

use crate::machine::{Console, Services, Wire, info, machine_with, open};
use crate::{PC, lines_with};

#[test]
fn output_is_in_order_with_the_log_without_prefix_and_without_escapes() {
    let (machine, console) = open(PC);
    assert_eq!(console.write(b"first\n"), 6);
    info(console, "logged");
    assert_eq!(console.write(b"\x1b[1mlogin:\x1b[0m "), 15);
    assert_eq!(console.write(b"root\n"), 5);
    info(console, "logged again");
    machine.run_timers(1_000, || drop(console.on_timer()));
    let text = machine.arrived();
    let (first, rest) = text.split_once('\n').unwrap();
    assert_eq!(first, "first");
    let (logged, rest) = rest.split_once('\n').unwrap();
    assert!(logged.ends_with("] logged"));
    let (login, again) = rest.split_once('\n').unwrap();
    assert_eq!(login, "\x1b[1mlogin:\x1b[0m root");
    assert!(again.ends_with("] logged again\n"), "{text}");
}

#[test]
fn output_leaves_a_quarter_of_the_ring_to_the_log_and_comes_back_with_the_rest() {
    let (machine, console) = open(PC);
    let text: Vec<u8> = (0..20_000_u32).map(|n| b'a' + (n % 26) as u8).collect();
    let mut sent = console.write(&text);
    // 48 records of 88 bytes, and the bytes that the port took.
    assert!((48 * 80..50 * 92).contains(&sent), "{sent}");
    assert_eq!(console.write(&text[sent..]), 0);
    for n in 0..10 {
        info(console, &format!("line {n}"));
    }
    machine.run_timers(100_000, || {
        drop(console.on_timer());
        sent += console.write(&text[sent..]);
    });
    assert_eq!(sent, text.len());
    assert_eq!(console.drain().lost(), 0);
    let arrived = machine.arrived();
    assert_eq!(lines_with(&arrived, "] line "), 10);
    let letters: String = arrived
        .lines()
        .filter(|line| !line.contains("] line "))
        .collect();
    assert_eq!(letters.as_bytes(), text);
}

#[test]
fn a_kernel_is_a_processor_for_other_drivers() {
    let (machine, _) = open(PC);
    machine.cpu.set(3);
    let processor = AsProcessor(Services(machine));
    let (id, sum) = (processor.id(), processor.without_interrupts(|| 1 + 1));
    assert_eq!((id, sum), (3, 2));
}

#[test]
fn printed_pieces_share_records_and_a_full_ring_reports_the_rest() {
    let (machine, console) = open(PC);
    let newest = console.ring().newest();
    let (name, long) = ("x".repeat(60), "y".repeat(100));
    assert!(console.print(format_args!("{}{}: {name} {long}\n", 1, 2)));
    assert_eq!(console.ring().newest(), newest + 2);
    machine.run_timers(1_000, || drop(console.on_timer()));
    assert_eq!(machine.arrived(), format!("12: {name} {long}\n"));
    assert!(!console.print(format_args!("{}{name}", "z".repeat(20_000))));
}

#[test]
fn text_before_a_display_that_fails_is_printed_at_once() {
    let (machine, console) = open(PC);
    let fails = fmt::from_fn(|_| Err(fmt::Error));
    assert!(!console.print(format_args!("x={fails}")));
    machine.run_timers(1_000, || drop(console.on_timer()));
    assert_eq!(machine.arrived(), "x=");
    // A display that goes on after an error does not hide it.
    let goes_on = fmt::from_fn(|f| {
        let _ = f.write_str(&"z".repeat(20_000));
        Ok(())
    });
    assert!(!console.print(format_args!("{goes_on}")));
}

#[test]
fn text_before_a_display_that_panics_is_printed() {
    let (machine, console) = open(PC);
    let panics = fmt::from_fn(|_| panic!("on purpose"));
    let print = || console.print(format_args!("begun{panics}"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(print)).is_err());
    console.print(format_args!(", and the next\n"));
    machine.run_timers(1_000, || drop(console.on_timer()));
    assert_eq!(machine.arrived(), "begun, and the next\n");
}

#[test]
fn a_synchronous_write_returns_after_the_last_bit_or_at_its_time_limit() {
    let (machine, console) = open(PC);
    machine.has_timers.set(false);
    info(console, "before");
    let text = [b'x'; 9_000];
    assert!(console.write_sync(&text, Nanos::from_secs(2)));
    let sent = machine.port.with(|uart| uart.sink_mut().len());
    assert!(sent > 9_000 && machine.port.with(|uart| uart.lost()) == 0);
    let start = machine.clock.now();
    assert!(!console.write_sync(&text, Nanos::from_millis(20)));
    assert!(machine.clock.now() - start < Nanos::from_millis(25));
}

#[test]
fn an_emergency_is_sent_before_the_backlog_and_the_backlog_after_it() {
    let (machine, console) = open(PC);
    for n in 0..5 {
        info(console, &format!("line {n}"));
    }
    console.emergency("watchdog", format_args!("CPU 1 is stuck"));
    machine.run_timers(1_000, || drop(console.on_timer()));
    let text = machine.arrived();
    let urgent = text.find("] watchdog: CPU 1 is stuck\n").unwrap();
    assert!(urgent < text.find("] line 1\n").unwrap(), "{text}");
    assert_eq!(lines_with(&text, "] line "), 4, "{text}");
}

#[test]
fn an_emergency_behind_any_backlog_is_sent_in_its_own_call() {
    const LINES: usize = if cfg!(miri) { 300 } else { 65_000 };
    let (machine, console) = machine_with::<65_536>(PC);
    console
        .open(Wire(machine), LineSettings::baud(115_200))
        .unwrap();
    // Interrupts are off from here on.
    machine.has_timers.set(false);
    info(console, "first");
    for n in 0..LINES {
        let text = format!("line {n}");
        let meta = Meta {
            time: Nanos::ZERO,
            cpu: 1,
            level: Level::Info,
            priority: Priority::Normal,
            target: "",
        };
        console.ring().log(&meta, text.as_bytes());
    }
    for text in ["CPU 1 is stuck", "CPU 2 is stuck"] {
        // The port takes the next load.
        machine.clock.advance(Nanos::from_millis(10));
        let before = machine.arrived().len();
        console.emergency("", format_args!("{text}"));
        let sent = machine.arrived().split_off(before);
        assert!(!sent.is_empty() && !sent.contains("line"), "{sent}");
    }
}

#[test]
fn a_printer_task_sends_one_offer_a_step_and_log_calls_only_wake_it() {
    let (machine, _) = machine_with::<64>(PC);
    let ring: &'static Ring<[Slot; 64]> = Box::leak(Box::new(Ring::new()));
    let console: &'static Console = Box::leak(Box::new(
        SystemConsole::new(ring, Services(machine)).with_printer(),
    ));
    console
        .open(Wire(machine), LineSettings::baud(115_200))
        .unwrap();
    for n in 0..10 {
        info(console, &format!("line {n}"));
    }
    assert_eq!(console.drain().sink().offers(), 0);
    assert_eq!(
        machine.timers_set.get(),
        11,
        "opening the port also wakes it"
    );
    assert_eq!(machine.timer.get(), Some(Nanos::ZERO));
    let mut steps = 0;
    let mut offers = 0;
    while let Some(at) = console.poll() {
        steps += 1;
        let now = console.drain().sink().offers();
        assert!(now - offers <= 1);
        offers = now;
        machine.clock.wait_until(at);
    }
    assert!(steps > 20, "{steps}");
    assert_eq!(lines_with(&machine.arrived(), "] line "), 10);
    // An emergency and a settle do not wait for the task.
    console.emergency("", format_args!("urgent"));
    assert!(console.drain().sink().offers() > offers);
    console.log(Level::Info, "", format_args!("settled"));
    assert!(console.settle(Nanos::from_secs(1)));
    let text = machine.arrived();
    assert_eq!(
        (
            lines_with(&text, "] urgent"),
            lines_with(&text, "] settled")
        ),
        (1, 1)
    );
}

#[test]
fn write_all_waits_for_room_but_not_for_the_transmission() {
    let (machine, console) = open(PC);
    // The text fits into the ring. Its transmission takes 700 us.
    let start = machine.clock.now();
    assert!(console.write_all(b"prompt> ", Nanos::from_secs(1)));
    assert!(machine.clock.now() - start < Nanos::from_micros(100));
    // More than the ring takes, at 11,520 bytes per second.
    let text = b"0123456789abcde\n".repeat(1500);
    let start = machine.clock.now();
    assert!(console.write_all(&text, Nanos::from_secs(3)));
    assert!(console.drain().unread() > 0);
    assert!(machine.clock.now() - start < Nanos::from_secs(2));
    // There is no room in time.
    assert!(!console.write_all(&text, Nanos::from_millis(1)));
}

#[test]
fn a_port_slower_than_its_rate_gets_every_line_and_an_interrupt_occupies_the_cpu_for_one_fifo() {
    for profile in [
        nostall_devices::uart::Profile::HP_DL380_GEN9,
        nostall_devices::uart::Profile::VM,
    ] {
        let (machine, console) = machine_with::<1024>(profile);
        console
            .open(Wire(machine), LineSettings::baud(115_200))
            .unwrap();
        let mut longest = Nanos::ZERO;
        let mut held = |act: &dyn Fn()| {
            let start = machine.clock.now();
            act();
            longest = longest.max(machine.clock.now() - start);
        };
        for n in 0..300 {
            held(&|| info(console, &format!("line {n}")));
        }
        let interrupts = machine.run_timers(100_000, || held(&|| drop(console.on_timer())));
        assert_eq!(lines_with(&machine.arrived(), "] line "), 300);
        assert!(longest < Nanos::from_micros(200), "{longest}");
        assert!(interrupts < 4 * 300 * 30 / 16, "{interrupts}");
    }
}

#[test]
fn a_second_console_on_the_ring_continues_where_the_early_one_stopped() {
    let (machine, early) = machine_with::<64>(PC);
    early
        .open(Wire(machine), LineSettings::baud(115_200))
        .unwrap();
    info(early, "of the early console");
    assert!(early.settle(Nanos::from_secs(1)));
    let console: &'static Console = Box::leak(Box::new(SystemConsole::new(
        early.ring(),
        Services(machine),
    )));
    console.drain().start_at(early.drain().position());
    console
        .open(Wire(machine), LineSettings::baud(115_200))
        .unwrap();
    info(console, "of the second");
    assert!(console.settle(Nanos::from_secs(1)));
    let text = machine.arrived();
    assert_eq!(lines_with(&text, "of the early console"), 1, "{text}");
    assert_eq!(lines_with(&text, "of the second"), 1, "{text}");
}

/// A text of several parts. `between` runs after the first one, as an interrupt would.
struct Parts<F: Fn()> {
    first: String,
    between: F,
    then: &'static str,
}

impl<F: Fn()> fmt::Display for Parts<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.first)?;
        // The first part is logged once the next one has no room in the buffer.
        f.write_str(&" ".repeat(256 - self.first.len()))?;
        f.write_str(self.then)?;
        (self.between)();
        Ok(())
    }
}

#[test]
fn a_part_of_a_line_that_another_record_separates_from_it_imitates_no_line() {
    let (machine, console) = open(PC);
    let text = Parts {
        first: "user ".into(),
        between: || info(console, "link up"),
        then: "sshd: accepted root",
    };
    console.log(Level::Info, "net", format_args!("{text}"));
    assert!(console.settle(Nanos::from_secs(1)));
    let text = machine.arrived();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].contains("] net: user "), "{text}");
    assert!(lines[1].ends_with("] link up"), "{text}");
    // It has the time of the line that it continues.
    let time = lines[0].split_once(']').unwrap().0;
    assert_eq!(lines[2], format!("(cont.) {time}] sshd: accepted root"));
}

//! The console does not feed itself.

use nostall_console::Level;
use nostall_io::{Clock, Nanos};

use crate::machine::{Console, Machine, info, machine_with, open};
use crate::{PC, lines_with};

const LINES: usize = 20;

/// A machine with a ring that loses nothing here, and its port open.
fn roomy() -> (&'static Machine, &'static Console) {
    let (machine, console) = machine_with::<2048>(PC);
    console
        .open(&machine.port, nostall_uart::LineSettings::baud(115_200))
        .unwrap();
    (machine, console)
}

#[test]
fn a_timer_handler_that_logs_makes_of_n_lines_at_most_2n_and_one() {
    let (machine, console) = roomy();
    for n in 0..LINES {
        info(console, &format!("line {n}"));
    }
    let interrupts = machine.run_timers(10_000, || {
        let _in_timer = console.timer_interrupt();
        info(console, "Handle timer interrupt");
    });
    assert!(interrupts > LINES, "{interrupts}");
    let text = machine.arrived();
    assert_eq!(lines_with(&text, "] line "), LINES, "{text}");
    let own = lines_with(&text, "Handle timer interrupt");
    assert!((1..=LINES + 1).contains(&own), "{own}\n{text}");
    assert_eq!(console.left_out(), interrupts - own);
}

#[test]
fn lines_between_the_interrupts_give_one_credit_each_and_the_next_own_line_tells_the_count() {
    let (machine, console) = roomy();
    for n in 0..LINES {
        info(console, &format!("line {n}"));
        machine.run_timers(10, || {
            let _in_timer = console.timer_interrupt();
            info(console, "own");
            info(console, "own");
        });
    }
    machine.run_timers(10_000, || {
        let _in_timer = console.timer_interrupt();
        info(console, "own");
    });
    let text = machine.arrived();
    assert_eq!(lines_with(&text, "] line "), LINES);
    let own = lines_with(&text, "] own");
    assert!(own <= LINES + 1, "{own}");
    let told: usize = text
        .lines()
        .filter_map(|line| {
            line.split_once("] own [")?
                .1
                .strip_suffix(" more left out]")
        })
        .map(|count| count.parse::<usize>().unwrap())
        .sum();
    assert!(told > LINES && told <= console.left_out(), "{told}");
}

#[test]
fn interrupts_that_the_console_did_not_cause_log_all_their_lines() {
    let (machine, console) = open(PC);
    let tick = || {
        let _in_timer = console.timer_interrupt();
        info(console, "tick");
    };
    // Nothing is armed.
    for _ in 0..5 {
        tick();
        assert!(console.settle(Nanos::from_secs(1)));
        machine.timer.set(None);
        machine.clock.advance(Nanos::from_millis(1_000));
        console.on_timer();
    }
    // The console's own time is still to come.
    info(console, "a line that is longer than a FIFO");
    for _ in 0..5 {
        machine.clock.advance(Nanos::from_micros(100));
        tick();
    }
    assert!(console.settle(Nanos::from_secs(1)));
    assert_eq!(
        (lines_with(&machine.arrived(), "] tick"), console.left_out()),
        (10, 0)
    );
}

#[test]
fn a_timer_that_is_a_little_early_is_the_consoles() {
    let (machine, console) = roomy();
    for n in 0..LINES {
        info(console, &format!("line {n}"));
    }
    for _ in 0..10_000 {
        let Some(at) = machine.timer.take() else {
            break;
        };
        // A timer that runs 5 % too fast.
        let now = machine.clock.now();
        machine.clock.wait_until(now + (at - now) * 19 / 20);
        let _in_timer = console.timer_interrupt();
        info(console, "own");
    }
    let text = machine.arrived();
    assert_eq!(lines_with(&text, "] line "), LINES);
    assert!(lines_with(&text, "] own") <= LINES + 1, "{text}");
}

#[test]
fn a_platform_that_logs_in_each_of_its_methods_does_not_recurse_or_multiply() {
    for method in 0..3 {
        let (machine, console) = roomy();
        let hook = [&machine.in_set_timer, &machine.in_now, &machine.in_mask][method];
        *hook.borrow_mut() = Some(Box::new(move || info(console, "of the platform")));
        for n in 0..LINES {
            info(console, &format!("line {n}"));
        }
        machine.run_timers(10_000, || {
            let _in_timer = console.timer_interrupt();
        });
        *hook.borrow_mut() = None;
        assert!(console.settle(Nanos::from_secs(2)));
        let text = machine.arrived();
        assert_eq!(lines_with(&text, "] line "), LINES);
        let own = lines_with(&text, "of the platform");
        // Of a method that each log call uses, a line each time that it is used.
        let most = [LINES + 1, 6 * LINES, 6 * LINES][method];
        assert!((1..=most).contains(&own), "method {method}: {own}\n{text}");
        assert_eq!(machine.masks.get(), 0);
    }
}

#[test]
fn a_display_that_logs_has_both_lines_sent() {
    struct Chatty(&'static Console);
    impl std::fmt::Display for Chatty {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            info(self.0, "inner");
            f.write_str("outer")
        }
    }
    let (machine, console) = open(PC);
    console.log(Level::Info, "", format_args!("{}", Chatty(console)));
    machine.run_timers(100, || console.on_timer());
    let text = machine.arrived();
    assert_eq!(
        (lines_with(&text, "] inner"), lines_with(&text, "] outer")),
        (1, 1)
    );
    assert_eq!(console.left_out(), 0);
}

#[test]
fn an_nmi_stores_its_records_and_touches_neither_port_nor_timer() {
    let (machine, console) = open(PC);
    info(console, "before");
    assert!(console.settle(Nanos::from_secs(1)));
    let (offers, timers) = (console.drain().sink().offers(), machine.timers_set.get());
    let nmi = console.nmi();
    {
        let _nested = console.nmi();
        info(console, "of the NMI");
        console.emergency("", format_args!("and urgent"));
    }
    info(console, "after the nested one");
    console.on_timer();
    assert_eq!(console.drain().sink().offers(), offers);
    assert_eq!(machine.timers_set.get(), timers);
    drop(nmi);
    assert!(console.settle(Nanos::from_secs(1)));
    let text = machine.arrived();
    for line in ["of the NMI", "and urgent", "after the nested one"] {
        assert_eq!(lines_with(&text, line), 1, "{text}");
    }
    assert_eq!(console.left_out(), 0);
}

#[test]
fn an_nmi_inside_of_a_slice_leaves_its_record_to_that_slice() {
    let (machine, console) = open(PC);
    // The port takes the whole line, so nothing is left when the NMI comes.
    *machine.in_now.borrow_mut() = Some(Box::new(move || {
        if machine.masks.get() > 0 && machine.stops.replace(1) == 0 {
            let _nmi = console.nmi();
            info(console, "of the NMI");
        }
    }));
    info(console, "x");
    machine.run_timers(100, || console.on_timer());
    let text = machine.arrived();
    assert_eq!(lines_with(&text, "of the NMI"), 1, "{text}");
}

#[test]
fn a_timer_that_works_is_set_once_for_each_time() {
    let (machine, console) = open(PC);
    console.on_timer();
    machine.timers_set.set(0);
    for _ in 0..20 {
        info(console, "a line that is longer than a FIFO");
    }
    assert!(
        machine.timers_set.get() <= 2,
        "{}",
        machine.timers_set.get()
    );
    // Before the first timer interrupt, each call sets it: no timer may have been there.
    let (machine, console) = open(PC);
    for _ in 0..20 {
        info(console, "a line that is longer than a FIFO");
    }
    assert_eq!(machine.timers_set.get(), 20);
}

//! The console's output does not cause more output.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use nostall_console::Level;
use nostall_io::{Clock, Nanos};

use crate::machine::{Console, Hook, Machine, Wire, info, machine_with, open};
use crate::{PC, lines_with};

const LINES: usize = 20;

/// A machine with an open port and a ring that is large enough for these tests.
fn roomy() -> (&'static Machine, &'static Console) {
    let (machine, console) = machine_with::<2048>(PC);
    console
        .open(Wire(machine), nostall_uart::LineSettings::baud(115_200))
        .unwrap();
    (machine, console)
}

/// The same machine with a backlog of lines.
fn flooded() -> (&'static Machine, &'static Console) {
    let (machine, console) = roomy();
    for n in 0..LINES {
        info(console, &format!("line {n}"));
    }
    (machine, console)
}

/// Checks that all lines arrived, and 1 to `most` lines of the timer handler. Returns the number of
/// the handler's lines.
fn own_lines(machine: &Machine, own: &str, most: usize) -> usize {
    let text = machine.arrived();
    assert_eq!(lines_with(&text, "] line "), LINES, "{text}");
    let own = lines_with(&text, own);
    assert!((1..=most).contains(&own), "{own}\n{text}");
    own
}

#[test]
fn a_timer_handler_that_logs_makes_of_n_lines_at_most_2n_and_one() {
    let (machine, console) = flooded();
    let interrupts = machine.run_timers(10_000, || {
        let _in_timer = console.on_timer();
        info(console, "Handle timer interrupt");
    });
    assert!(interrupts > LINES, "{interrupts}");
    let own = own_lines(machine, "Handle timer interrupt", LINES + 1);
    assert_eq!(console.left_out(), interrupts - own);
}

#[test]
fn lines_between_the_interrupts_give_one_credit_each_and_the_next_own_line_reports_the_count() {
    let (machine, console) = roomy();
    for n in 0..LINES {
        info(console, &format!("line {n}"));
        machine.run_timers(10, || {
            let _in_timer = console.on_timer();
            info(console, "own");
            info(console, "own");
        });
    }
    machine.run_timers(10_000, || {
        let _in_timer = console.on_timer();
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
        let _in_timer = console.on_timer();
        info(console, "tick");
    };
    // No timer is set.
    for _ in 0..5 {
        tick();
        assert!(console.settle(Nanos::from_secs(1)));
        machine.timer.set(None);
        machine.clock.advance(Nanos::from_millis(1_000));
        drop(console.on_timer());
    }
    // The console's timer is set for a later time.
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
    let (machine, console) = flooded();
    for _ in 0..10_000 {
        let Some(at) = machine.timer.take() else {
            break;
        };
        // A timer that runs 5 % too fast.
        let now = machine.clock.now();
        machine.clock.wait_until(now + (at - now) * 19 / 20);
        let _in_timer = console.on_timer();
        info(console, "own");
    }
    own_lines(machine, "] own", LINES + 1);
}

/// A timer whose interrupts come after 5 % to 95 % of the requested time, pseudo-randomly.
struct Hasty(u32);

impl Hasty {
    fn wait(&mut self, machine: &Machine, at: Nanos) {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let percent = 5 + u64::from(self.0 >> 16) % 90;
        let now = machine.clock.now();
        let span = at.max(now) - now;
        machine.clock.wait_until(now + span * percent / 100);
    }
}

#[test]
fn a_timer_that_fires_early_makes_of_n_lines_at_most_2n() {
    let (machine, console) = flooded();
    let mut timer = Hasty(1);
    let mut interrupts = 0;
    while let Some(at) = machine.timer.take() {
        timer.wait(machine, at);
        let _in_timer = console.on_timer();
        info(console, "Handle timer interrupt");
        interrupts += 1;
        assert!(interrupts < 3_000, "the console causes its own output");
    }
    let own = own_lines(machine, "Handle timer interrupt", LINES);
    assert_eq!(console.left_out(), interrupts - own);
}

#[test]
fn a_timer_that_interrupts_early_and_again_in_time_makes_of_n_lines_at_most_2n() {
    let (machine, console) = flooded();
    let mut timer = Hasty(2);
    let handler = || {
        let _in_timer = console.on_timer();
        info(console, "Handle timer interrupt");
    };
    let mut interrupts = 0;
    while let Some(at) = machine.timer.get() {
        timer.wait(machine, at);
        handler();
        if let Some(at) = machine.timer.take() {
            machine.clock.wait_until(at);
            handler();
        }
        interrupts += 2;
        assert!(interrupts < 3_000, "the console causes its own output");
    }
    own_lines(machine, "Handle timer interrupt", LINES);
}

#[test]
fn a_timer_shared_with_another_source_that_keeps_the_earlier_time_makes_of_n_lines_at_most_2n() {
    const OTHERS: usize = 30;
    let (machine, console) = flooded();
    let mut timer = Hasty(3);
    let mut others = OTHERS;
    let mut slot = None;
    let mut interrupts = 0;
    loop {
        // The other source also requests a time. Both share one interrupt, at the earlier time.
        if others > 0 {
            let its = machine.clock.now() + Nanos::from_micros(700);
            slot = Some(slot.unwrap_or(its).min(its));
            others -= 1;
        }
        let asked = machine.timer.take().into_iter().chain(slot).min();
        let Some(at) = asked else { break };
        timer.wait(machine, at);
        slot = None;
        let _in_timer = console.on_timer();
        info(console, "Handle timer interrupt");
        interrupts += 1;
        assert!(interrupts < 3_000, "the console causes its own output");
    }
    // Handlers that were called for the other source may also log.
    let handlers = own_lines(machine, "Handle timer interrupt", LINES + 2 * OTHERS);
    assert_eq!(console.left_out(), interrupts - handlers);
}

#[test]
fn credits_of_an_old_backlog_do_not_feed_a_new_one() {
    let (machine, console) = roomy();
    for n in 0..200 {
        info(console, &format!("line {n}"));
    }
    machine.run_timers(10_000, || drop(console.on_timer()));
    assert_eq!(lines_with(&machine.arrived(), "] line "), 200);
    info(console, "one more");
    let mut timer = Hasty(4);
    let mut interrupts = 0;
    while let Some(at) = machine.timer.take() {
        interrupts += 1;
        assert!(interrupts < 3_000, "the console causes its own output");
        timer.wait(machine, at);
        let _in_timer = console.on_timer();
        info(console, "own");
    }
    let own = lines_with(&machine.arrived(), "] own");
    assert!(own <= 16 + 1, "{own}");
}

#[test]
fn emergencies_of_the_consoles_own_path_end_after_64_without_other_records() {
    for in_set_timer in [false, true] {
        let (machine, console) = roomy();
        let report = move || console.emergency("", format_args!("own"));
        if in_set_timer {
            *machine.in_set_timer.borrow_mut() = Some(Box::new(report));
        }
        info(console, "line 0");
        let interrupts = machine.run_timers(3_000, || {
            let _in_timer = console.on_timer();
            if !in_set_timer {
                report();
            }
        });
        assert!(interrupts < 3_000, "the console causes its own output");
        let own = |text: &str| lines_with(text, "] own");
        // The line gives one more.
        assert_eq!(own(&machine.arrived()), 64 + 1, "{in_set_timer}");
        assert!(console.left_out() > 0);
        // Other emergencies are not limited, and give one more each.
        *machine.in_set_timer.borrow_mut() = None;
        for _ in 0..100 {
            console.emergency("", format_args!("of a task"));
        }
        machine.run_timers(3_000, || {
            let _in_timer = console.on_timer();
            report();
        });
        let text = machine.arrived();
        assert_eq!(lines_with(&text, "] of a task"), 100);
        assert!(own(&text) > 64 + 50, "{in_set_timer}");
    }
}

/// Runs the console's timer, and a tick that logs, until everything is sent. Returns the number of
/// ticks.
fn run_with_ticks(machine: &Machine, console: &Console, period: Nanos) -> usize {
    let mut ticks = 0;
    let mut tick_at = machine.clock.now() + period;
    while let Some(at) = machine.timer.take() {
        let is_tick = tick_at < at;
        machine.clock.wait_until(at.min(tick_at));
        let _in_timer = console.on_timer();
        if is_tick {
            info(console, "tick");
            ticks += 1;
            tick_at = tick_at + period;
        }
        assert!(ticks < 3_000, "the line is too slow");
    }
    ticks
}

#[test]
fn ticks_that_use_up_to_half_of_the_line_lose_no_record_and_others_are_counted() {
    for (period, loses) in [
        (Nanos::from_micros(5_100), false),
        (Nanos::from_micros(1_300), true),
    ] {
        let (machine, console) = roomy();
        for _ in 0..40 {
            info(console, "line");
        }
        let ticks = run_with_ticks(machine, console, period);
        let text = machine.arrived();
        assert_eq!(lines_with(&text, "] line"), 40, "{text}");
        let stored = lines_with(&text, "] tick");
        assert!(ticks > 20 && stored > 20, "{ticks} {stored}");
        assert_eq!(console.left_out(), ticks - stored);
        assert_eq!(console.left_out() > 0, loses, "{ticks} {stored}");
    }
}

#[test]
fn a_tick_without_a_timer_of_the_console_sends_at_its_end_and_loses_no_record() {
    let (machine, console) = roomy();
    machine.has_timers.set(false);
    for _ in 0..20 {
        machine.clock.advance(Nanos::from_millis(2));
        info(console, "tick");
        let _ = console.poll();
    }
    assert!(console.settle(Nanos::from_secs(1)));
    let ticks = lines_with(&machine.arrived(), "] tick");
    assert_eq!((ticks, console.left_out()), (20, 0));
}

#[test]
fn the_timer_is_set_at_the_end_of_a_timer_handler_and_not_by_log_calls_in_it() {
    let (machine, console) = flooded();
    machine.run_timers(10_000, || {
        let _in_timer = console.on_timer();
        let sets = machine.timers_set.get();
        info(console, "handler");
        assert_eq!(machine.timers_set.get(), sets);
        // The handler's bookkeeping: the timer has expired.
        machine.timer.set(None);
    });
    let text = machine.arrived();
    assert_eq!(lines_with(&text, "] line "), LINES, "{text}");
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
            let _in_timer = console.on_timer();
        });
        *hook.borrow_mut() = None;
        assert!(console.settle(Nanos::from_secs(2)));
        let text = machine.arrived();
        assert_eq!(lines_with(&text, "] line "), LINES);
        let own = lines_with(&text, "of the platform");
        // Before interrupts are masked, a record from `now` or `without_interrupts` counts as a
        // record from elsewhere.
        let most = [LINES, 5 * LINES, 5 * LINES][method];
        assert!((1..=most).contains(&own), "method {method}: {own}\n{text}");
        assert_eq!(machine.masks.get(), 0);
    }
}

/// Lets a hook log a record, and returns the number of its calls that have not returned.
fn log_in(hook: &RefCell<Option<Hook>>, console: &'static Console, text: &str) -> Rc<Cell<usize>> {
    let depth = Rc::new(Cell::new(0));
    let (inside, text) = (depth.clone(), text.to_owned());
    *hook.borrow_mut() = Some(Box::new(move || {
        inside.set(inside.get() + 1);
        assert!(inside.get() < 8, "{text}: recurses");
        info(console, &text);
        inside.set(inside.get() - 1);
    }));
    depth
}

#[test]
fn polls_of_a_kernel_whose_clock_logs_neither_recurse_nor_log_without_end() {
    for has_timers in [false, true] {
        let (machine, console) = roomy();
        machine.has_timers.set(has_timers);
        let depth = log_in(&machine.in_now, console, "of the clock");
        for n in 0..LINES {
            info(console, &format!("line {n}"));
        }
        let mut polls = 0;
        while console.poll().is_some() {
            machine.clock.advance(Nanos::from_millis(1));
            polls += 1;
            assert!(polls < 10_000, "{} unread", console.drain().unread());
        }
        // An idle loop adds no record.
        let newest = console.ring().newest();
        assert!((0..100).all(|_| console.poll().is_none()));
        assert_eq!(console.ring().newest(), newest);
        *machine.in_now.borrow_mut() = None;
        let text = machine.arrived();
        assert_eq!(lines_with(&text, "] line "), LINES);
        let own = lines_with(&text, "of the clock");
        assert!((1..=5 * LINES).contains(&own), "{own}\n{text}");
        assert_eq!((machine.masks.get(), depth.get()), (0, 0));
    }
}

#[test]
fn a_platform_that_logs_on_a_cpu_without_its_own_state_does_not_recurse() {
    for method in 0..3 {
        let (machine, console) = roomy();
        machine.cpu.set(300);
        let hook = [&machine.in_set_timer, &machine.in_now, &machine.in_mask][method];
        let depth = log_in(hook, console, &format!("of the platform, method {method}"));
        for n in 0..LINES {
            info(console, &format!("line {n}"));
        }
        *hook.borrow_mut() = None;
        machine.run_timers(10_000, || drop(console.on_timer()));
        assert_eq!(lines_with(&machine.arrived(), "] line "), LINES);
        assert_eq!((machine.masks.get(), depth.get()), (0, 0));
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
    machine.run_timers(100, || drop(console.on_timer()));
    let text = machine.arrived();
    assert_eq!(
        (lines_with(&text, "] inner"), lines_with(&text, "] outer")),
        (1, 1)
    );
    assert_eq!(console.left_out(), 0);
}

#[test]
fn an_nmi_stores_its_records_and_accesses_neither_port_nor_timer() {
    let (machine, console) = open(PC);
    info(console, "before");
    assert!(console.settle(Nanos::from_secs(1)));
    let (offers, timers) = (console.drain().sink().offers(), machine.timers_set.get());
    let nmi = console.on_nmi();
    {
        let _nested = console.on_nmi();
        info(console, "of the NMI");
        console.emergency("", format_args!("and urgent"));
    }
    info(console, "after the nested one");
    drop(console.on_timer());
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
    // The port takes the whole line, so nothing is left to send when the NMI comes.
    *machine.in_now.borrow_mut() = Some(Box::new(move || {
        if machine.masks.get() > 0 && machine.stops.replace(1) == 0 {
            let _nmi = console.on_nmi();
            info(console, "of the NMI");
        }
    }));
    info(console, "x");
    machine.run_timers(100, || drop(console.on_timer()));
    let text = machine.arrived();
    assert_eq!(lines_with(&text, "of the NMI"), 1, "{text}");
}

#[test]
fn a_working_timer_is_set_once_for_each_time() {
    let (machine, console) = open(PC);
    drop(console.on_timer());
    machine.timers_set.set(0);
    for _ in 0..20 {
        info(console, "a line that is longer than a FIFO");
    }
    assert!(
        machine.timers_set.get() <= 2,
        "{}",
        machine.timers_set.get()
    );
    // Each timer interrupt may be the one of the console's timer, so each sets the timer again.
    let before = machine.timers_set.get();
    for _ in 0..3 {
        drop(console.on_timer());
    }
    assert_eq!(machine.timers_set.get() - before, 3);
    // Before the first timer interrupt, each call sets the timer, because the earlier ones may have
    // had no effect.
    let (machine, console) = open(PC);
    for _ in 0..20 {
        info(console, "a line that is longer than a FIFO");
    }
    assert_eq!(machine.timers_set.get(), 20);
}

//! Tasks that are preempted, end or migrate inside of the console's code.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use nostall_io::{Clock, Nanos};

use crate::machine::{info, machine_with, open};
use crate::{PC, lines_with};

/// Returns the number of lines with an unknown time.
fn blanks(text: &str) -> usize {
    let blank = |line: &&str| line.starts_with("[            ]");
    text.lines().filter(blank).count()
}

#[test]
fn lines_of_tasks_preempted_when_interrupts_are_enabled_again_are_sent_with_their_times() {
    let (machine, console) = open(PC);
    // A pending timer interrupt is taken as soon as interrupts are enabled again. The scheduler
    // then runs another task, which logs.
    let depth = Cell::new(0);
    *machine.after_mask.borrow_mut() = Some(Box::new(move || {
        let at = depth.get();
        if at < 2 {
            depth.set(at + 1);
            info(console, &format!("task {at}"));
        }
    }));
    info(console, "first task");
    *machine.after_mask.borrow_mut() = None;
    machine.run_timers(1_000, || drop(console.on_timer()));
    let text = machine.arrived();
    assert_eq!((text.lines().count(), blanks(&text)), (3, 0), "{text}");
}

#[test]
fn two_tasks_that_never_return_from_the_console_leave_it_to_the_others_after_four_lines() {
    for in_clock in [false, true] {
        let (machine, console) = machine_with::<256>(PC);
        let line = nostall_uart::LineSettings::baud(115_200);
        console.open(crate::machine::Wire(machine), line).unwrap();
        let place = [&machine.in_mask, &machine.in_now][usize::from(in_clock)];
        let arrived = Rc::new(RefCell::new(String::new()));
        let (depth, seen) = (Cell::new(0), arrived.clone());
        *place.borrow_mut() = Some(Box::new(move || {
            depth.set(depth.get() + 1);
            match depth.get() {
                1 => info(console, "the second one that is preempted"),
                2 => {
                    for n in 0..40 {
                        info(console, &format!("other {n}"));
                    }
                    machine.run_timers(1_000, || drop(console.on_timer()));
                    *seen.borrow_mut() = machine.arrived();
                }
                _ => {}
            }
        }));
        info(console, "the first one that is preempted");
        *place.borrow_mut() = None;
        // Both tasks are still preempted.
        let text = arrived.borrow();
        assert_eq!(lines_with(&text, "] other "), 40, "{in_clock} {text}");
        assert!(blanks(&text) <= 4, "{in_clock} {text}");
    }
}

#[test]
fn a_record_of_a_migrating_task_does_not_count_as_one_of_its_old_cpus_timer_handler() {
    let (machine, console) = open(PC);
    info(console, "a line that is longer than a FIFO");
    machine.clock.advance(Nanos::from_millis(2));
    // The timer handler of CPU 0 has used up the credits.
    let in_timer = Rc::new(RefCell::new(None));
    *in_timer.borrow_mut() = Some(console.on_timer());
    for _ in 0..3 {
        info(console, "own");
    }
    in_timer.take();
    let left_out = console.left_out();
    assert!(left_out > 0);
    machine.clock.advance(Nanos::from_millis(2));
    // The task reads its CPU's number, then continues on CPU 1. CPU 0 handles its timer.
    let (moved, held) = (Cell::new(false), in_timer.clone());
    *machine.after_id.borrow_mut() = Some(Box::new(move || {
        if !moved.replace(true) {
            *held.borrow_mut() = Some(console.on_timer());
            machine.cpu.set(1);
        }
    }));
    info(console, "of the task");
    *machine.after_id.borrow_mut() = None;
    machine.cpu.set(0);
    in_timer.take();
    assert!(console.settle(Nanos::from_secs(1)));
    assert_eq!(lines_with(&machine.arrived(), "of the task"), 1);
    assert_eq!(console.left_out(), left_out);
    assert!(machine.clock.now() > Nanos::ZERO);
}

//! The system console, as a kernel uses it.

mod machine;

use machine::{info, machine, open};
use nostall_devices::uart::Profile;
use nostall_io::{Clock, Nanos};
use nostall_uart::LineSettings;

const PC: Profile = Profile::PC_16550A;

/// Returns whether these lines, each after a prefix, are the text's.
fn has_lines(text: &str, lines: &[&str]) -> bool {
    let ends = |(line, end): (&str, &&str)| line.ends_with(*end);
    text.lines().count() == lines.len() && text.lines().zip(lines).all(ends)
}

#[test]
fn records_wait_for_the_port_and_are_sent_by_the_timer() {
    let (machine, console) = machine(PC);
    info(console, "before the port");
    assert_eq!(
        (machine.arrived().as_str(), machine.timers_set.get()),
        ("", 0)
    );
    console
        .open(&machine.port, LineSettings::baud(115_200))
        .unwrap();
    info(console, "after it");
    assert!(machine.run_timers(1_000, || console.on_timer()) > 3);
    assert!(has_lines(
        &machine.arrived(),
        &["] before the port", "] after it"]
    ));
    assert_eq!(machine.masks.get(), 0);
}

#[test]
fn settle_sends_all_without_timers_and_gives_up_at_its_bound() {
    let (machine, console) = open(PC);
    machine.has_timers.set(false);
    for n in 0..20 {
        info(console, &format!("line {n}"));
    }
    let start = machine.clock.now();
    assert!(!console.settle(Nanos::from_millis(3)));
    assert!(machine.clock.now() - start < Nanos::from_millis(6));
    assert!(console.settle(Nanos::from_secs(1)));
    let sent = machine.port.with(|uart| uart.sink_mut().len());
    assert!(machine.arrived().contains("] line 19\n"));
    assert!(sent > 400, "{sent}");
}

//! A flood on several CPUs in virtual time, with panics during it.

use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

use nostall_devices::uart::Profile;
use nostall_figures::table::host_cpus;
use nostall_io::Nanos;
use nostall_lab::experiments::console::model::run;
use nostall_lab::experiments::console::outcome::{FloodOutcome, FloodPlan};
use nostall_work::console::{Hold, PrintStrategy};

/// Returns 200 lines in 0.2 s, some of them too long for one record.
fn log() -> Vec<u8> {
    let line = |n: usize| {
        let text = "abcdefghij".repeat(n % 13);
        format!("[    1.{:06}] line {n} {text}\n", n * 1_000)
    };
    (0..200).map(line).collect::<String>().into_bytes()
}

fn flood(
    strategy: PrintStrategy,
    profile: Profile,
    cpus: usize,
    panic_at: Option<Nanos>,
) -> FloodOutcome {
    let log = log();
    let plan = FloodPlan {
        log: &log,
        profile,
        rate: 115_200,
        cpus,
        panic_at,
    };
    run(&plan, strategy).unwrap()
}

#[test]
fn wherever_a_panic_comes_its_text_goes_first_and_everything_arrives() {
    for n in 0..200 {
        // Between two accesses, during one, in a slice, and when all CPUs are idle.
        let at = Nanos(n * 1_234_567);
        let outcome = flood(PrintStrategy::Bounded, Profile::PC_16550A, 3, Some(at));
        let checked = &outcome.checked;
        assert_eq!(checked.damage, [], "at {at}");
        assert_eq!(checked.unfinished, [], "at {at}");
        assert!(checked.sent_again <= 1, "at {at}");
        assert_eq!((checked.missing, outcome.lost), (0, 0), "at {at}");
        // The contents of FIFO and shift register, a marker, and the byte itself.
        let first = outcome.panic.unwrap().first_byte.unwrap();
        assert!(first <= Nanos(86_806) * 29, "at {at}: {first}");
    }
}

/// Returns moments around and inside of `holds` periods in which a CPU was held, from the whole
/// flood.
fn moments(of: &FloodOutcome, holds: usize) -> Vec<Nanos> {
    let every = of.holds.len().div_ceil(holds);
    let sampled = of.holds.iter().enumerate().step_by(every);
    let moments = sampled.flat_map(|(n, (_, hold))| {
        let (from, until) = (hold.from - of.start, hold.until - of.start);
        // In a different part of each.
        let inside = from + (until - from) * (n as u64 * 7 % 17 + 1) / 19;
        [from, inside, inside + Nanos(1), until]
    });
    moments.collect()
}

/// A port, and the longest time to a panic's first byte: the contents of FIFO and shift register, a
/// marker, and the byte itself.
type BoundedPort = (Profile, Nanos);

const PC: BoundedPort = (Profile::PC_16550A, Nanos(86_806 * 29));

/// At the pace of the controller, which starts slowly, twice.
const SLOW: BoundedPort = (Profile::HP_DL380_GEN9, Nanos(336_700 * 29 + 375_000 * 2));

#[test]
fn a_panic_in_ones_own_drain_brings_every_line_once() {
    panics_in_a_drain(PC, 1);
}

#[test]
fn a_panic_in_anothers_drain_brings_every_line_once() {
    panics_in_a_drain(PC, 3);
}

#[test]
fn a_panic_in_ones_own_drain_of_a_slow_controller_brings_every_line_once() {
    panics_in_a_drain(SLOW, 1);
}

#[test]
fn a_panic_in_anothers_drain_of_a_slow_controller_brings_every_line_once() {
    panics_in_a_drain(SLOW, 3);
}

/// Tries panics of the last CPU at many moments of drains to this port. The first CPU drains.
fn panics_in_a_drain((profile, bound): BoundedPort, cpus: usize) {
    let whole = flood(PrintStrategy::Bounded, profile, cpus, None);
    // A panic's flush reads the clock for seconds of virtual time.
    let sent_again = beside(moments(&whole, 40), |at| {
        let outcome = flood(PrintStrategy::Bounded, profile, cpus, Some(at));
        let (checked, at) = (&outcome.checked, format!("{} at {at:?}", profile.name));
        assert_eq!(checked.damage, [], "{at}");
        assert_eq!(checked.unfinished, [], "{at}");
        assert_eq!((checked.missing, outcome.lost), (0, 0), "{at}");
        assert!(checked.rejoined <= checked.sent_again, "{at}");
        let panic = outcome.panic.unwrap();
        assert!(panic.first_byte.unwrap() <= bound, "{at}: {panic:?}");
        assert!(panic.last_byte.is_some(), "{at}");
        assert!(checked.sent_again <= 1, "{at}");
        checked.sent_again
    });
    // Some panics came between the write of a byte and its accounting.
    assert!(sent_again > 0, "{} {cpus}", profile.name);
}

/// Tries each moment, on as many threads as the host has CPUs, and returns the sum of the results.
fn beside(moments: Vec<Nanos>, of: impl Fn(Nanos) -> usize + Sync) -> usize {
    let each = moments.len().div_ceil(host_cpus()).max(1);
    thread::scope(|scope| {
        let parts = moments.chunks(each);
        let threads =
            parts.map(|part| scope.spawn(|| part.iter().map(|&at| of(at)).sum::<usize>()));
        let threads: Vec<_> = threads.collect();
        let sums = threads.into_iter().map(ScopedJoinHandle::join);
        sums.map(|sum| sum.unwrap_or_else(|panic| resume_unwind(panic)))
            .sum()
    })
}

#[test]
fn a_panic_of_a_console_that_prints_inline_spoils_a_line_at_most() {
    for (strategy, profile) in [
        (PrintStrategy::PrintInline, Profile::PC_16550A),
        (PrintStrategy::FifoInline, Profile::HP_DL380_GEN9),
    ] {
        let whole = flood(strategy, profile, 3, None);
        for at in moments(&whole, 20) {
            let outcome = flood(strategy, profile, 3, Some(at));
            let checked = &outcome.checked;
            assert!(checked.damage.len() <= 1, "at {at}: {:?}", checked.damage);
            // The cut line and the one behind it, each of at most two records.
            assert!(checked.missing <= 4, "at {at}: {checked:?}");
            // After the backlog.
            assert!(outcome.panic.unwrap().last_byte.is_some(), "at {at}");
        }
    }
}

#[test]
fn a_panic_of_a_printer_task_sends_at_most_one_line_again_and_loses_none() {
    for profile in [Profile::PC_16550A, Profile::HP_DL380_GEN9] {
        for cpus in [1, 3] {
            let whole = flood(PrintStrategy::PrinterThread, profile, cpus, None);
            let mut sent_again = 0;
            for at in moments(&whole, 20) {
                let outcome = flood(PrintStrategy::PrinterThread, profile, cpus, Some(at));
                let (checked, at) = (&outcome.checked, format!("{} at {at}", profile.name));
                assert_eq!(checked.damage, [], "{at}");
                assert_eq!(checked.unfinished, [], "{at}");
                assert_eq!((checked.missing, outcome.lost), (0, 0), "{at}");
                assert!(checked.sent_again <= 1, "{at}");
                assert!(outcome.panic.unwrap().last_byte.is_some(), "{at}");
                sent_again += checked.sent_again;
            }
            assert!(sent_again > 0, "{} {cpus}", profile.name);
        }
    }
}

#[test]
fn it_is_exact_and_the_same_every_time_on_any_number_of_cpus() {
    for strategy in PrintStrategy::ALL {
        for cpus in [1, 2, 3, 4, 64] {
            let one = flood(strategy, Profile::HP_DL380_GEN9, cpus, None);
            let other = flood(strategy, Profile::HP_DL380_GEN9, cpus, None);
            assert_eq!((one.end, &one.holds), (other.end, &other.holds));
            assert_eq!(one.delays, other.delays);
            assert_eq!(one.checked.damage, []);
            assert_eq!((one.checked.arrived, one.checked.missing), (200, 0));
            assert_eq!(one.cpus.len(), cpus);
            let held: u64 = one
                .holds
                .iter()
                .map(|(_, hold)| (hold.until - hold.from).0)
                .sum();
            let given: u64 = one.cpus.iter().map(|cpu| cpu.given_away.0).sum();
            // At each moment a CPU is held, or runs a second task.
            assert_eq!(
                held + given,
                one.span().0 * cpus as u64,
                "{strategy} {cpus}"
            );
        }
    }
}

#[test]
fn between_two_slices_the_cpu_is_free_for_a_second_task() {
    for strategy in [PrintStrategy::PrinterThread, PrintStrategy::Bounded] {
        for profile in Profile::ALL {
            for cpus in [1, 4] {
                let outcome = flood(strategy, profile, cpus, None);
                let name = format!("{strategy}, {}", profile.name);
                for cpu in 0..cpus {
                    let of_cpu = outcome.holds.iter().filter(|(id, _)| *id == cpu);
                    let holds: Vec<_> = of_cpu.map(|(_, hold)| hold).collect();
                    let alone = |pair: &[&Hold]| pair[0].until < pair[1].from;
                    assert!(holds.windows(2).all(alone), "{name}, CPU {cpu} of {cpus}");
                }
                // A producer waits for the slice in progress, and for its own slice.
                let longest = outcome.longest_hold() * 2;
                let delay = outcome.delay(1000);
                assert!(delay <= longest, "{name}, {cpus}: {delay}");
            }
        }
    }
}

#[test]
fn a_printer_task_on_a_port_without_a_speed_leaves_a_second_task_as_much_of_the_cpu() {
    let outcome = flood(PrintStrategy::PrinterThread, Profile::VM, 1, None);
    let printed: u64 = outcome
        .holds
        .iter()
        .map(|(_, hold)| (hold.until - hold.from).0)
        .sum();
    assert!(outcome.cpus[0].given_away.0 >= printed, "{printed}");
    assert_eq!(outcome.delay(1000), Nanos::ZERO, "no caller waits for it");
}

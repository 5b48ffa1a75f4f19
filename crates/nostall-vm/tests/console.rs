//! A flood on several CPUs in virtual time, and panics in the middle of it.

use nostall_devices::uart::Profile;
use nostall_io::Nanos;
use nostall_vm::console::{Experiment, Outcome, run};
use nostall_work::console::Strategy;

/// 200 lines in 0.2 s, some of them too long for one record.
fn log() -> Vec<u8> {
    let line = |n: usize| {
        let text = "abcdefghij".repeat(n % 13);
        format!("[    1.{:06}] line {n} {text}\n", n * 1_000)
    };
    (0..200).map(line).collect::<String>().into_bytes()
}

fn flood(strategy: Strategy, profile: Profile, cpus: usize, panic_at: Option<Nanos>) -> Outcome {
    let log = log();
    let experiment = Experiment {
        log: &log,
        profile,
        rate: 115_200,
        cpus,
        panic_at,
    };
    run(&experiment, strategy).unwrap()
}

#[test]
fn wherever_a_panic_comes_its_text_goes_first_and_everything_arrives() {
    for n in 0..200 {
        // Between two accesses, during one, in a slice, and when all are idle.
        let at = Nanos(n * 1_234_567);
        let outcome = flood(Strategy::Bounded, Profile::PC_16550A, 3, Some(at));
        let checked = &outcome.checked;
        assert_eq!(checked.damage, [], "at {at}");
        assert_eq!(checked.unfinished, [], "at {at}");
        assert!(checked.begun_twice <= 1, "at {at}");
        assert_eq!((checked.missing, outcome.lost), (0, 0), "at {at}");
        // What the FIFO and the shift register hold, a mark, and itself.
        let first = outcome.panic.unwrap().first_byte.unwrap();
        assert!(first <= Nanos(86_806) * 25, "at {at}: {first}");
    }
}

#[test]
fn a_panic_of_a_console_that_prints_inline_spoils_a_line_at_most() {
    for n in 0..20 {
        let at = Nanos(n * 9_876_543);
        let outcome = flood(Strategy::PrintInline, Profile::PC_16550A, 3, Some(at));
        let checked = &outcome.checked;
        assert!(checked.damage.len() <= 1, "at {at}: {:?}", checked.damage);
        // After the backlog.
        assert!(outcome.panic.unwrap().last_byte.is_some(), "at {at}");
    }
}

#[test]
fn it_is_exact_and_the_same_every_time_on_any_number_of_cpus() {
    for strategy in Strategy::ALL {
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
            // A CPU is held, or a second task has it, at every moment.
            assert_eq!(
                held + given,
                one.span().0 * cpus as u64,
                "{strategy} {cpus}"
            );
        }
    }
}

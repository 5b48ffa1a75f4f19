//! Logging and sending in any order, with any priority, to a sink of any speed. Each line arrives
//! once, whole, and in the order of its priority.

use crate::common::{At, Line, P, Virtual, of, rejoin};
use nostall_console::{Drain, FlushLimits, Next, Priority, Ring, SinkOptions, Slot, flush};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Act {
    /// A text of `len` bytes.
    Log { len: usize, urgent: bool },
    /// A slice with a sink that takes `load` bytes per offer.
    Slice { load: usize, urgent: bool },
}

/// More than the drain's longest pause after a sink took nothing.
const PAUSE: u64 = 10_000_000;

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0..250_usize, proptest::bool::weighted(0.3))
            .prop_map(|(len, urgent)| Act::Log { len, urgent }),
        (0..120_usize, proptest::bool::weighted(0.3))
            .prop_map(|(load, urgent)| Act::Slice { load, urgent }),
    ]
}

proptest! {
    #[test]
    fn every_line_is_sent_once_and_whole(
        acts in proptest::collection::vec(act(), 0..60),
        panics in any::<bool>(),
    ) {
        let ring = Ring::<[Slot; 256]>::new();
        let drain = Drain::new(&ring, Line::new(0), SinkOptions::DEFAULT.slice(300));
        let mut wanted = [Vec::new(), Vec::new()];
        for (n, act) in acts.iter().enumerate() {
            match *act {
                Act::Log { len, urgent } => {
                    let kind = if urgent { 'u' } else { 'n' };
                    let text = format!("{kind}{n} {}", "x".repeat(len));
                    let priority = [Priority::Normal, Priority::Emergency][usize::from(urgent)];
                    ring.log(&of(priority), text.as_bytes());
                    wanted[usize::from(urgent)].push(format!("{P}{text}"));
                }
                Act::Slice { load, urgent } => {
                    *drain.sink().load.lock().unwrap() = load;
                    let priority = [Priority::Normal, Priority::Emergency][usize::from(urgent)];
                    let before = drain.bytes();
                    let _ = drain.drain_bounded(0, priority, &At(n as u64 * PAUSE));
                    prop_assert!(drain.bytes() - before <= 1024 + 256);
                }
            }
        }
        *drain.sink().load.lock().unwrap() = 17;
        if panics {
            ring.log(&of(Priority::Panic), b"panic");
            let before = drain.bytes() as usize;
            let flushed = flush(&[&drain], 0, &Virtual::default(), FlushLimits::DEFAULT);
            prop_assert_eq!(flushed.complete, 1);
            let text = drain.sink().taken.lock().unwrap().clone();
            let after = str::from_utf8(&text[before..]).unwrap();
            let line = format!("{P}panic\n");
            let after = after.strip_prefix("\n{cut 0}\n").unwrap_or(after);
            let after = after.strip_prefix("\n{cut 1}\n").unwrap_or(after);
            prop_assert!(after.starts_with(&line), "{}", after);
        } else {
            let mut slices = 0;
            while drain.drain_bounded(0, Priority::Normal, &At(PAUSE * 100)) != Next::Empty {
                slices += 1;
                prop_assert!(slices < 10_000);
            }
        }
        let text = drain.sink().text();
        let all = rejoin::lines(&text);
        let of_kind = |kind: &str| -> Vec<String> {
            let start = format!("{P}{kind}");
            all.iter().filter(|line| line.starts_with(&start)).cloned().collect()
        };
        prop_assert_eq!(of_kind("n"), &wanted[0][..], "{}", text);
        prop_assert_eq!(of_kind("u"), &wanted[1][..], "{}", text);
        prop_assert_eq!(all.len(), wanted.concat().len() + usize::from(panics), "{}", text);
        prop_assert_eq!((drain.lost(), drain.unread()), (0, 0));
    }
}

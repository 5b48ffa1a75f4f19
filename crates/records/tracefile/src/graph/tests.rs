//! Pairing of entries and exits.

use proptest::prelude::*;

use super::{Graph, Match, Slice, Step};
use crate::model::{Catalog, Event, EventKind, Name, Task};

struct Trace {
    catalog: Catalog,
    events: Vec<Event>,
}

impl Trace {
    fn new() -> Self {
        let mut catalog = Catalog::default();
        for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            catalog.name(name);
        }
        Self {
            catalog,
            events: Vec::new(),
        }
    }

    fn event(&mut self, (time, cpu, task): (u64, u32, Task), kind: EventKind) {
        self.events.push(Event {
            time,
            cpu,
            task,
            kind,
        });
    }

    fn on(&mut self, at: (u64, u32, Task), text: &str, depth: Option<u32>) {
        let (is_enter, name) = match text.strip_prefix('-') {
            Some(name) => (false, name),
            None => (true, text),
        };
        let function = self.catalog.name(name);
        let kind = match is_enter {
            true => EventKind::Enter {
                function,
                depth,
                argument: None,
            },
            false => EventKind::Exit {
                function: Some(function),
                depth,
                duration: None,
            },
        };
        self.event(at, kind);
    }

    /// Adds events one tick apart: `a` is an entry, `-a` an exit, `!` missing records.
    fn script(text: &str, depths: bool) -> Self {
        let mut trace = Self::new();
        let mut depth = 0;
        for (time, word) in text.split_whitespace().enumerate() {
            let at = (time as u64, 0, Task::NONE);
            if word == "!" {
                trace.event(at, EventKind::Lost { records: 0 });
                continue;
            }
            // A digit sets the depth, as after a jump.
            let (word, given) = match word.find(|c: char| c.is_ascii_digit()) {
                Some(digit) => (&word[..digit], word[digit..].parse().ok()),
                None => (word, None),
            };
            depth = given.unwrap_or(depth);
            if word.starts_with('-') && given.is_none() {
                depth -= 1;
            }
            trace.on(at, word, depths.then_some(depth));
            if !word.starts_with('-') {
                depth += 1;
            }
        }
        trace
    }

    fn slices(&self) -> Vec<Slice> {
        let mut slices = Vec::new();
        let mut graph = Graph::default();
        let mut sink = |step| {
            if let Step::Leave(slice) = step {
                slices.push(slice);
            }
            Ok::<_, ()>(())
        };
        for event in &self.events {
            graph.push(event, &self.catalog, &mut sink).unwrap();
        }
        graph.finish(&mut sink).unwrap();
        slices
    }

    fn found(&self) -> Vec<(String, Match, Option<u64>)> {
        let slices = self.slices().into_iter();
        let name = |function: Option<Name>| self.catalog.text(function.unwrap()).to_owned();
        let found = slices.map(|slice| (name(slice.function), slice.matched, slice.duration));
        found.collect()
    }
}

fn list(expected: &[(&str, Match, Option<u64>)]) -> Vec<(String, Match, Option<u64>)> {
    let owned = expected.iter();
    owned
        .map(|(name, how, time)| ((*name).to_owned(), *how, *time))
        .collect()
}

#[test]
fn nested_calls_are_paired_with_and_without_recorded_depths() {
    for depths in [false, true] {
        let trace = Trace::script("a b -b b c -c -b -a", depths);
        let expected = [
            ("b", Match::Paired, Some(1)),
            ("c", Match::Paired, Some(1)),
            ("b", Match::Paired, Some(3)),
            ("a", Match::Paired, Some(7)),
        ];
        assert_eq!(trace.found(), list(&expected), "depths: {depths}");
        let slices = trace.slices();
        let own: Vec<_> = slices.iter().map(Slice::own).collect();
        assert_eq!(own, [Some(1), Some(1), Some(2), Some(3)]);
        let depths: Vec<_> = slices.iter().map(|slice| slice.depth).collect();
        assert_eq!(depths, [1, 2, 1, 0]);
        let leaves: Vec<_> = slices.iter().map(|slice| slice.is_leaf).collect();
        assert_eq!(leaves, [true, true, false, false]);
    }
}

#[test]
fn a_jump_out_of_functions_leaves_them_without_an_end() {
    for depths in [false, true] {
        let trace = Trace::script("a b c -a0", depths);
        let expected = [
            ("c", Match::Skipped, None),
            ("b", Match::Skipped, None),
            ("a", Match::Paired, Some(3)),
        ];
        assert_eq!(trace.found(), list(&expected), "depths: {depths}");
        assert!(trace.slices()[2].is_partial);
    }
}

#[test]
fn a_trace_that_starts_and_ends_within_calls_has_unpaired_exits_and_entries() {
    let trace = Trace::script("-b1 -a0 c0 d", true);
    let expected = [
        ("b", Match::NoEntry, None),
        ("a", Match::NoEntry, None),
        ("d", Match::Open, None),
        ("c", Match::Open, None),
    ];
    assert_eq!(trace.found(), list(&expected));
}

#[test]
fn an_exit_behind_missing_records_is_not_paired_with_an_older_call() {
    for depths in [false, true] {
        let trace = Trace::script("a ! -a", depths);
        let expected = [("a", Match::Lost, None), ("a", Match::NoEntry, None)];
        assert_eq!(trace.found(), list(&expected), "depths: {depths}");
    }
}

#[test]
fn a_recorded_duration_confirms_a_call_across_missing_records() {
    let mut trace = Trace::script("a !", true);
    let exit = |duration| EventKind::Exit {
        function: None,
        depth: Some(0),
        duration: Some(duration),
    };
    trace.event((1_000_000, 0, Task::NONE), exit(999_500));
    let slices = trace.slices();
    assert_eq!(slices[0].matched, Match::Paired);
    assert_eq!(slices[0].duration, Some(999_500));
    assert!(slices[0].is_partial);

    let mut other = Trace::script("a !", true);
    other.event((1_000_000, 0, Task::NONE), exit(400));
    let slices = other.slices();
    let matched: Vec<_> = slices.iter().map(|slice| slice.matched).collect();
    assert_eq!(matched, [Match::Lost, Match::NoEntry]);
    // The exit's own duration is believed.
    assert_eq!(slices[1].begin(), Some(999_600));
}

#[test]
fn a_recorded_duration_is_preferred_to_the_difference_of_times() {
    let mut trace = Trace::script("a", true);
    let exit = EventKind::Exit {
        function: None,
        depth: None,
        duration: Some(7),
    };
    trace.event((10, 0, Task::NONE), exit);
    assert_eq!(trace.found(), list(&[("a", Match::Paired, Some(7))]));
}

#[test]
fn calls_recorded_as_exits_with_durations_have_own_times() {
    let mut trace = Trace::new();
    let calls = [(10, 2, 4), (20, 2, 6), (30, 1, 25), (40, 0, 38), (50, 0, 5)];
    for (time, depth, duration) in calls {
        let function = Some(trace.catalog.name("a"));
        let exit = EventKind::Exit {
            function,
            depth: Some(depth),
            duration: Some(duration),
        };
        trace.event((time, 0, Task::NONE), exit);
    }
    let slices = trace.slices();
    let own: Vec<_> = slices.iter().filter_map(Slice::own).collect();
    assert_eq!(own, [4, 6, 15, 13, 5]);
    assert!(slices.iter().all(|slice| slice.matched == Match::NoEntry));
}

#[test]
fn a_clock_that_steps_back_inside_a_call_leaves_it_without_a_duration() {
    let mut trace = Trace::new();
    trace.on((100, 0, Task::NONE), "a", None);
    trace.on((90, 0, Task::NONE), "-a", None);
    assert_eq!(trace.found(), list(&[("a", Match::Paired, None)]));
}

#[test]
fn a_task_that_migrates_is_paired_across_cpus() {
    let mut trace = Trace::new();
    let (one, two) = (trace.catalog.task(1, "one"), trace.catalog.task(2, "two"));
    trace.on((1, 0, one), "a", None);
    trace.on((2, 1, two), "a", None);
    trace.on((5, 1, one), "-a", None);
    trace.on((9, 0, two), "-a", None);
    let slices = trace.slices();
    let found: Vec<_> = slices
        .iter()
        .map(|slice| (slice.task, slice.cpu, slice.last_cpu, slice.duration))
        .collect();
    assert_eq!(found, [(one, 0, 1, Some(4)), (two, 1, 0, Some(7))]);
}

#[test]
fn records_missing_on_the_cpu_that_a_task_left_are_detected() {
    let mut trace = Trace::new();
    let task = trace.catalog.task(1, "one");
    trace.on((1, 0, task), "a", None);
    trace.event((2, 0, Task::NONE), EventKind::Lost { records: 3 });
    trace.on((5, 1, task), "-a", None);
    let expected = [("a", Match::Lost, None), ("a", Match::NoEntry, None)];
    assert_eq!(trace.found(), list(&expected));
}

#[test]
fn idle_tasks_are_distinguished_by_their_cpus() {
    let mut trace = Trace::new();
    let idle = trace.catalog.task(0, "<idle>");
    trace.on((1, 0, idle), "a", None);
    trace.on((2, 1, idle), "b", None);
    trace.on((3, 0, idle), "-a", None);
    trace.on((4, 1, idle), "-b", None);
    let expected = [("a", Match::Paired, Some(2)), ("b", Match::Paired, Some(2))];
    assert_eq!(trace.found(), list(&expected));
}

#[test]
fn missing_records_of_one_cpu_do_not_affect_the_others() {
    let mut trace = Trace::new();
    trace.on((1, 0, Task::NONE), "a", None);
    trace.event((2, 1, Task::NONE), EventKind::Lost { records: 3 });
    trace.on((3, 0, Task::NONE), "-a", None);
    assert_eq!(trace.found(), list(&[("a", Match::Paired, Some(2))]));
}

#[test]
fn hostile_depths_times_and_cpus_keep_memory_bounded() {
    let mut graph = Graph::default();
    let catalog = Catalog::default();
    let mut steps = 0_u64;
    let mut most = 0;
    for number in 0..3_000_000_u64 {
        let kind = match number % 3 {
            0 => EventKind::Enter {
                function: Name(number as u32),
                depth: (number % 2 == 0).then_some(u32::MAX),
                argument: Some(u64::MAX),
            },
            1 => EventKind::Exit {
                function: Some(Name(u32::MAX)),
                depth: None,
                duration: Some(u64::MAX),
            },
            _ => EventKind::Enter {
                function: Name(7),
                depth: None,
                argument: None,
            },
        };
        let event = Event {
            time: u64::MAX - number,
            cpu: (number % 5) as u32 * (u32::MAX / 5),
            task: Task((number % 7) as u32 * (u32::MAX / 7)),
            kind,
        };
        let count = |_| {
            steps += 1;
            Ok::<_, ()>(())
        };
        graph.push(&event, &catalog, &mut { count }).unwrap();
        most = most.max(graph.open());
    }
    assert!(most <= 1 << 20, "{most} open calls");
    assert!(steps >= 3_000_000);
}

#[test]
fn endless_recursion_drops_the_outermost_calls() {
    let mut trace = Trace::new();
    for time in 0..200_000 {
        trace.on((time, 0, Task::NONE), "a", None);
    }
    let slices = trace.slices();
    assert_eq!(slices.len(), 200_000);
    let deep = |slice: &&Slice| slice.matched == Match::TooDeep;
    let given_up: Vec<_> = slices.iter().filter(deep).collect();
    assert!((134_464..200_000).contains(&given_up.len()));
    assert!(given_up.iter().all(|slice| slice.end.is_none()));
}

/// A call and the calls inside it, with the numbers of functions.
#[derive(Clone, Debug)]
struct Call(u32, Vec<Call>);

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let leaf = (0..8_u32).prop_map(|name| Call(name, Vec::new()));
    let call = leaf.prop_recursive(6, 64, 4, |inner| {
        (0..8_u32, prop::collection::vec(inner, 0..4)).prop_map(|(name, calls)| Call(name, calls))
    });
    prop::collection::vec(call, 1..6)
}

/// Records the call, and returns its duration and the sum of all own times in it.
fn record(call: &Call, depth: u32, time: &mut u64, trace: &mut Trace, want: &mut Vec<Slice>) {
    let Call(function, inner) = call;
    let function = Name(*function);
    let start = *time;
    let at = |time| (time, 0, Task::NONE);
    let enter = EventKind::Enter {
        function,
        depth: Some(depth),
        argument: None,
    };
    trace.event(at(start), enter);
    *time += 1 + u64::from(function.0);
    let first = want.len();
    for call in inner {
        record(call, depth + 1, time, trace, want);
    }
    let direct = want[first..].iter().filter(|it| it.depth == depth + 1);
    let inside = direct.filter_map(|it| it.duration).sum();
    *time += 1;
    let exit = EventKind::Exit {
        function: Some(function),
        depth: Some(depth),
        duration: None,
    };
    trace.event(at(*time), exit);
    want.push(Slice {
        function: Some(function),
        start: Some(start),
        end: Some(*time),
        duration: Some(*time - start),
        inner: inside,
        is_partial: false,
        is_leaf: inner.is_empty(),
        is_recursive: false,
        depth,
        cpu: 0,
        last_cpu: 0,
        task: Task::NONE,
        argument: None,
        matched: Match::Paired,
    });
    *time += 1;
}

fn recorded(calls: &[Call]) -> (Trace, Vec<Slice>) {
    let (mut trace, mut want, mut time) = (Trace::new(), Vec::new(), 5);
    for call in calls {
        record(call, 0, &mut time, &mut trace, &mut want);
    }
    let all = want.clone();
    for inner in &mut want {
        inner.is_recursive = all.iter().any(|outer| {
            outer.function == inner.function && outer.start < inner.start && outer.end > inner.end
        });
    }
    (trace, want)
}

fn without_depths(trace: &mut Trace) {
    for event in &mut trace.events {
        if let EventKind::Enter { depth, .. } | EventKind::Exit { depth, .. } = &mut event.kind {
            *depth = None;
        }
    }
}

proptest! {
    #[test]
    fn well_nested_traces_are_paired_exactly(calls in calls(), depths: bool) {
        let (mut trace, want) = recorded(&calls);
        if !depths {
            without_depths(&mut trace);
        }
        prop_assert_eq!(trace.slices(), want);
    }

    #[test]
    fn own_times_sum_up_to_the_time_of_the_outermost_calls(calls in calls()) {
        let slices = recorded(&calls).0.slices();
        let own: u64 = slices.iter().filter_map(Slice::own).sum();
        let outermost = slices.iter().filter(|slice| slice.depth == 0);
        prop_assert_eq!(own, outermost.filter_map(|slice| slice.duration).sum::<u64>());
    }

    /// A cut keeps the events from `from` to `to`, as in a trace that wrapped and then stopped.
    #[test]
    fn a_cut_marks_exactly_the_calls_that_it_cuts(
        calls in calls(),
        from in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
        depths: bool,
    ) {
        let (mut trace, want) = recorded(&calls);
        if !depths {
            without_depths(&mut trace);
        }
        let count = trace.events.len();
        let (from, to) = (from.index(count), to.index(count));
        let (from, to) = (from.min(to), from.max(to) + 1);
        let (first, last) = (trace.events[from].time, trace.events[to - 1].time);
        trace.events.truncate(to);
        trace.events.drain(..from);

        let kept = |time: u64| (first..=last).contains(&time);
        let mut expected: Vec<_> = want
            .iter()
            .filter_map(|slice| {
                let (start, end) = (slice.start?, slice.end?);
                let name = slice.function?;
                match (kept(start), kept(end)) {
                    (true, true) => Some((name, Some(start), Some(end), Match::Paired)),
                    (true, false) => Some((name, Some(start), None, Match::Open)),
                    (false, true) => Some((name, None, Some(end), Match::NoEntry)),
                    (false, false) => None,
                }
            })
            .collect();
        let found = trace.slices().into_iter().map(|slice| {
            (slice.function.unwrap(), slice.start, slice.end, slice.matched)
        });
        let mut found: Vec<_> = found.collect();
        let key = |it: &(Name, Option<u64>, Option<u64>, Match)| (it.1, it.2);
        expected.sort_by_key(key);
        found.sort_by_key(key);
        prop_assert_eq!(found, expected);
    }
}

//! Random traces with losses.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::model::{Catalog, Event, EventKind, Events, Task, TimeUnit};

const FUNCTIONS: u32 = 4;
const TASKS: u32 = 4;

/// Traces whose clocks may step back, whose records may be missing, and whose exits may have
/// durations.
pub fn trace() -> impl Strategy<Value = Events> {
    (vec(event(true), 0..200), any::<bool>()).prop_map(|(events, sane)| build(events, sane))
}

/// Traces with one clock that never steps back, without recorded durations.
#[cfg(feature = "perfetto")]
pub fn steady() -> impl Strategy<Value = Events> {
    vec(event(false), 0..200).prop_map(|events| build(events, true))
}

/// Time since the event before, CPU, task, and meaning.
type Raw = (i64, u32, u32, EventKind);

fn event(is_wild: bool) -> impl Strategy<Value = Raw> {
    let back = if is_wild { -30_i64 } else { 0 };
    let step = prop_oneof![9 => 0_i64..20, 1 => back..=0];
    let depth = maybe(is_wild, 0_u32..5);
    let duration = maybe(is_wild, 0_u64..60);
    let enter = (
        any::<u8>(),
        depth.clone(),
        proptest::option::of(any::<u64>()),
    )
        .prop_map(|(function, depth, argument)| EventKind::Enter {
            function: name(function),
            depth,
            argument,
        });
    let exit = (proptest::option::of(any::<u8>()), depth, duration).prop_map(
        |(function, depth, duration)| EventKind::Exit {
            function: function.map(name),
            depth,
            duration,
        },
    );
    let kind = prop_oneof![
        10 => enter,
        9 => exit,
        1 => any::<u8>().prop_map(|text| EventKind::Mark { text: name(text) }),
        1 => (0_u64..3).prop_map(|records| EventKind::Lost { records }),
        1 => (any::<u8>(), any::<i64>()).prop_map(|(counter, value)| EventKind::Counter {
            counter: name(counter),
            value,
        }),
        1 => (any::<u8>(), 0_u64..60).prop_map(|(condition, duration)| EventKind::Stall {
            condition: name(condition),
            place: None,
            duration,
        }),
    ];
    (step, 0_u32..2, 0..TASKS, kind)
}

fn maybe<T: Clone + std::fmt::Debug + 'static>(
    is_wild: bool,
    value: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<Option<T>> {
    match is_wild {
        true => proptest::option::weighted(0.3, value).boxed(),
        false => Just(None).boxed(),
    }
}

fn name(number: u8) -> crate::model::Name {
    crate::model::Name(u32::from(number) % FUNCTIONS)
}

fn build(raw: Vec<Raw>, is_sane: bool) -> Events {
    let mut catalog = Catalog::default();
    for function in 0..FUNCTIONS {
        catalog.name(&format!("function {function}"));
    }
    let tasks = [
        Task::NONE,
        catalog.task(0, "swapper"),
        catalog.task(7, "sh"),
        catalog.task(-9, ""),
    ];
    let mut time = 1_000_i64;
    let events = raw.into_iter().map(|(step, cpu, task, kind)| {
        time += step;
        // Otherwise tasks would change at every event.
        let task = if is_sane { 2 } else { task };
        Event {
            time: time as u64,
            cpu,
            task: tasks[task as usize],
            kind,
        }
    });
    let events = events.collect();
    Events::new(catalog, events, TimeUnit::Nanoseconds, Vec::new())
}

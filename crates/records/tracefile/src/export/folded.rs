//! Folded stacks for flame graphs: one line per stack.

use std::collections::{HashMap, VecDeque};
use std::io::Write;

use super::ExportError;
use super::lane::Lane;
use super::text::plain;
use crate::graph::{Match, Step};
use crate::model::{Catalog, EventKind, Name, Task};

/// Maximum number of distinct stacks. Calls in further ones count for their callers.
const MOST_STACKS: usize = 1 << 18;

/// Maximum number of frames per stack. Deeper calls count for their callers.
const MOST_FRAMES: usize = 512;

/// Measure of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weight {
    /// Time in the function itself, without the functions that it called.
    ///
    /// Calls with an unknown duration are not counted.
    #[default]
    SelfTime,
    /// Number of calls.
    Calls,
}

/// Sums the steps of a function graph as folded stacks: `task;outer;inner 123`.
///
/// Memory depends on the number of distinct stacks, which is bounded.
///
/// ```
/// use nostall_tracefile::export::{Folded, Weight};
/// use nostall_tracefile::graph;
/// use nostall_tracefile::model::{Catalog, Event, EventKind, Events, ReadError, Task, TimeUnit};
///
/// let mut catalog = Catalog::default();
/// let function = catalog.name("console_write");
/// let event = |time, kind| Event { time, cpu: 0, task: Task::NONE, kind };
/// let enter = EventKind::Enter { function, depth: None, argument: None };
/// let exit = EventKind::Exit { function: Some(function), depth: None, duration: None };
/// let events = vec![event(10, enter), event(421, exit)];
/// let mut source = Events::new(catalog.clone(), events, TimeUnit::Nanoseconds, Vec::new());
///
/// let mut folded = Folded::new(Weight::SelfTime);
/// graph::walk(&mut source, |catalog, step| {
///     folded.step(catalog, &step);
///     Ok::<_, ReadError>(())
/// })?;
/// assert_eq!(folded.lines(&catalog), ["CPU 0;console_write 411"]);
/// # Ok::<_, ReadError>(())
/// ```
#[derive(Debug)]
pub struct Folded {
    weight: Weight,
    stacks: Vec<Stack>,
    /// Numbers of stacks, by caller's stack and function.
    inside: HashMap<(u32, Name), u32>,
    lanes: HashMap<Lane, Calls>,
}

/// Open calls of one lane, as numbers of stacks.
#[derive(Debug)]
struct Calls {
    root: u32,
    open: VecDeque<u32>,
}

#[derive(Debug)]
struct Stack {
    frame: Frame,
    weight: u64,
}

#[derive(Debug)]
enum Frame {
    Lane(String),
    Function { around: u32, name: Name },
}

impl Folded {
    /// Creates an empty result.
    pub fn new(weight: Weight) -> Self {
        Self {
            weight,
            stacks: Vec::new(),
            inside: HashMap::new(),
            lanes: HashMap::new(),
        }
    }

    /// Adds a step of the function graph.
    pub fn step(&mut self, catalog: &Catalog, step: &Step) {
        match step {
            Step::Enter(entry) => {
                let calls = self.calls(catalog, entry.task, entry.cpu);
                let around = calls.open.back().copied().unwrap_or(calls.root);
                let stack = match calls.open.len() < MOST_FRAMES {
                    true => self.inside(around, entry.function),
                    false => around,
                };
                if self.weight == Weight::Calls {
                    self.add(stack, 1);
                }
                self.calls(catalog, entry.task, entry.cpu)
                    .open
                    .push_back(stack);
            }
            Step::Leave(slice) => {
                let calls = self.calls(catalog, slice.task, slice.cpu);
                let stack = match slice.matched {
                    Match::NoEntry => None,
                    Match::TooDeep => calls.open.pop_front(),
                    _ => calls.open.pop_back(),
                };
                if let (Some(stack), Weight::SelfTime) = (stack, self.weight) {
                    self.add(stack, slice.own().unwrap_or(0));
                }
            }
            Step::Event(event) => {
                if let (EventKind::Call { function, caller }, Weight::Calls) =
                    (event.kind, self.weight)
                {
                    let mut stack = self.calls(catalog, event.task, event.cpu).root;
                    for function in caller.into_iter().chain([function]) {
                        stack = self.inside(stack, function);
                    }
                    self.add(stack, 1);
                }
            }
        }
    }

    /// Returns the lines, in alphabetical order.
    ///
    /// Semicolons and control characters in names are replaced.
    pub fn lines(&self, catalog: &Catalog) -> Vec<String> {
        let weighty = self.stacks.iter().filter(|stack| stack.weight > 0);
        let line = |stack: &Stack| {
            let mut frames = Vec::new();
            let mut next = Some(stack);
            while let Some(stack) = next {
                next = match &stack.frame {
                    Frame::Lane(name) => {
                        frames.push(frame(name));
                        None
                    }
                    Frame::Function { around, name } => {
                        frames.push(frame(catalog.text(*name)));
                        Some(&self.stacks[*around as usize])
                    }
                };
            }
            frames.reverse();
            format!("{} {}", frames.join(";"), stack.weight)
        };
        let mut lines: Vec<_> = weighty.map(line).collect();
        lines.sort_unstable();
        lines
    }

    /// Writes the lines.
    ///
    /// # Errors
    ///
    /// The error of the writer.
    pub fn write(&self, catalog: &Catalog, mut out: impl Write) -> Result<(), ExportError> {
        for line in self.lines(catalog) {
            writeln!(out, "{line}")?;
        }
        Ok(out.flush()?)
    }

    fn add(&mut self, stack: u32, weight: u64) {
        let sum = &mut self.stacks[stack as usize].weight;
        *sum = sum.saturating_add(weight);
    }

    fn calls(&mut self, catalog: &Catalog, task: Task, cpu: u32) -> &mut Calls {
        let lane = Lane::of(catalog, task, cpu);
        let stacks = &mut self.stacks;
        self.lanes.entry(lane).or_insert_with(|| {
            stacks.push(Stack {
                frame: Frame::Lane(lane.name(catalog, task)),
                weight: 0,
            });
            Calls {
                root: stacks.len() as u32 - 1,
                open: VecDeque::new(),
            }
        })
    }

    fn inside(&mut self, around: u32, name: Name) -> u32 {
        if let Some(known) = self.inside.get(&(around, name)) {
            return *known;
        }
        if self.stacks.len() >= MOST_STACKS {
            return around;
        }
        let stack = self.stacks.len() as u32;
        self.stacks.push(Stack {
            frame: Frame::Function { around, name },
            weight: 0,
        });
        self.inside.insert((around, name), stack);
        stack
    }
}

/// Returns a frame's name without semicolons, which would end it.
fn frame(name: &str) -> String {
    match name {
        "" => "[unnamed]".to_owned(),
        name => plain(name).replace(';', ":"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::export::random;
    use crate::graph;
    use crate::model::{Event, Events, ReadError, Source, TimeUnit};

    fn fold(source: &mut Events, weight: Weight) -> Vec<String> {
        let mut folded = Folded::new(weight);
        graph::walk(source, |catalog, step| {
            folded.step(catalog, &step);
            Ok::<_, ReadError>(())
        })
        .unwrap();
        folded.lines(source.catalog())
    }

    fn trace(names: [&str; 2]) -> Events {
        let mut catalog = Catalog::default();
        let [a, b] = names.map(|name| catalog.name(name));
        let task = catalog.task(7, "sh");
        let enter = |function| EventKind::Enter {
            function,
            depth: None,
            argument: None,
        };
        let exit = EventKind::Exit {
            function: None,
            depth: None,
            duration: None,
        };
        let kinds = [(0, enter(a)), (10, enter(b)), (14, exit), (20, exit)];
        let events = kinds.map(|(time, kind)| Event {
            time,
            cpu: 0,
            task,
            kind,
        });
        Events::new(catalog, events.into(), TimeUnit::Nanoseconds, Vec::new())
    }

    #[test]
    fn a_stack_has_only_the_time_of_its_innermost_function() {
        let lines = fold(&mut trace(["a", "b"]), Weight::SelfTime);
        assert_eq!(lines, ["sh (7);a 16", "sh (7);a;b 4"]);
    }

    #[test]
    fn a_stack_has_the_number_of_its_calls() {
        let lines = fold(&mut trace(["a", "a"]), Weight::Calls);
        assert_eq!(lines, ["sh (7);a 1", "sh (7);a;a 1"]);
    }

    #[test]
    fn a_name_ends_neither_a_line_nor_a_frame() {
        let lines = fold(&mut trace(["a;b\n1", ""]), Weight::SelfTime);
        assert_eq!(lines, [r"sh (7);a:b\n1 16", r"sh (7);a:b\n1;[unnamed] 4"]);
    }

    #[test]
    fn a_deep_recursion_counts_as_the_deepest_stack_that_is_kept() {
        let mut catalog = Catalog::default();
        let function = catalog.name("a");
        let kind = EventKind::Enter {
            function,
            depth: None,
            argument: None,
        };
        let event = Event {
            time: 0,
            cpu: 0,
            task: Task::NONE,
            kind,
        };
        let events = vec![event; 40_000];
        let mut trace = Events::new(catalog, events, TimeUnit::Nanoseconds, Vec::new());
        let lines = fold(&mut trace, Weight::Calls);
        assert_eq!(lines.len(), MOST_FRAMES);
        assert!(lines.iter().any(|line| line.ends_with(" 39489")));
    }

    proptest! {
        #[test]
        fn the_stacks_have_the_self_times_of_all_slices(trace in random::trace()) {
            let mut own = 0;
            graph::walk(&mut trace.clone(), |_, step| {
                if let Step::Leave(slice) = step && slice.matched != Match::NoEntry {
                    own += slice.own().unwrap_or(0);
                }
                Ok::<_, ReadError>(())
            })
            .unwrap();
            let lines = fold(&mut trace.clone(), Weight::SelfTime);
            let weights = lines.iter().map(|line| line.rsplit_once(' ').unwrap().1);
            let sum: u64 = weights.map(|weight| weight.parse::<u64>().unwrap()).sum();
            prop_assert_eq!(sum, own);
        }
    }
}

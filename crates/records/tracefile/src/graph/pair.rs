//! Pairing of entries and exits.

use super::context::{Context, Exit, Open};
use super::{Entry, Match, Slice, Step};
use crate::model::{Catalog, Event, EventKind, Name, Task};

/// Maximum number of open calls of one task. Deeper recursion loses its outermost calls.
const DEEPEST: usize = 1 << 16;

/// Number of open calls of all tasks from which on tasks lose their outermost calls.
const MOST_OPEN: usize = 1 << 20;

/// Number of innermost calls among which an exit without a recorded depth finds its entry.
const FARTHEST: usize = 1024;

/// CPUs with this and higher numbers share one context.
pub const MOST_CPUS: u32 = 1 << 16;

/// Pairs the entries and exits of each task, or of each CPU without tasks.
///
/// Memory depends on the numbers of tasks and open calls, which are bounded, and not on the number
/// of events.
#[derive(Debug, Default)]
pub struct Graph {
    cpus: Vec<Cpu>,
    /// Contexts by task number; `None` for tasks not seen yet.
    tasks: Vec<Option<Of>>,
    contexts: Vec<Context>,
    /// Number of events so far.
    number: u64,
    /// Number of open calls in all contexts.
    open: usize,
}

/// State of one CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    context: Option<u32>,
    /// Number of the last event after which records are missing.
    lost: u64,
}

/// Context of a task.
#[derive(Clone, Copy, Debug)]
enum Of {
    /// Each CPU has an idle task with the same number.
    Cpu,
    Task(u32),
}

impl Graph {
    /// Processes the next event and passes the resulting steps to `sink`.
    ///
    /// `catalog` belongs to the source.
    ///
    /// # Errors
    ///
    /// The first error of `sink`.
    pub fn push<E>(
        &mut self,
        event: &Event,
        catalog: &Catalog,
        sink: &mut impl FnMut(Step) -> Result<(), E>,
    ) -> Result<(), E> {
        self.number += 1;
        let cpu = self.cpu(event.cpu);
        match event.kind {
            EventKind::Enter {
                function,
                depth,
                argument,
            } => {
                let context = self.context(cpu, event.task, catalog);
                self.enter(context, event, (function, depth, argument), sink)
            }
            EventKind::Exit {
                function,
                depth,
                duration,
            } => {
                let context = self.context(cpu, event.task, catalog);
                let exit = Exit {
                    event,
                    depth,
                    duration,
                };
                self.exit(context, &exit, function, sink)
            }
            kind => {
                if let EventKind::Lost { .. } = kind {
                    self.cpus[cpu].lost = self.number;
                }
                sink(Step::Event(*event))
            }
        }
    }

    /// Ends the trace: the open calls have no exits.
    ///
    /// # Errors
    ///
    /// The first error of `sink`.
    pub fn finish<E>(&mut self, sink: &mut impl FnMut(Step) -> Result<(), E>) -> Result<(), E> {
        for context in &mut self.contexts {
            while let Some(open) = context.pop() {
                context.ended(None);
                sink(Step::Leave(open.cut(Match::Open)))?;
            }
        }
        self.open = 0;
        Ok(())
    }

    /// Returns the number of open calls.
    pub fn open(&self) -> usize {
        self.open
    }

    fn cpu(&mut self, cpu: u32) -> usize {
        let cpu = cpu.min(MOST_CPUS) as usize;
        if cpu >= self.cpus.len() {
            self.cpus.resize(cpu + 1, Cpu::default());
        }
        cpu
    }

    /// Returns the context of an event, which is now on `cpu`.
    #[inline]
    fn context(&mut self, cpu: usize, task: Task, catalog: &Catalog) -> usize {
        let known = self.tasks.get(task.0 as usize).copied().flatten();
        let index = match known {
            Some(Of::Task(index)) => index as usize,
            Some(Of::Cpu) => self.of_cpu(cpu),
            None => self.new_task(cpu, task, catalog),
        };
        let context = &mut self.contexts[index];
        let lost = self.cpus[cpu].lost;
        if context.cpu as usize != cpu {
            let before = self.cpus[context.cpu as usize].lost;
            context.lost = context.lost.max(before);
            context.cpu = cpu as u32;
        }
        context.lost = context.lost.max(lost);
        index
    }

    #[cold]
    fn new_task(&mut self, cpu: usize, task: Task, catalog: &Catalog) -> usize {
        // A number beyond the catalog counts as none.
        let number = task.0 as usize;
        let is_known = number < catalog.tasks().len();
        if !is_known || catalog.task_name(task).is_of_cpu() {
            if is_known {
                self.set_task(number, Of::Cpu);
            }
            return self.of_cpu(cpu);
        }
        let index = self.new_context(cpu);
        self.set_task(number, Of::Task(index as u32));
        index
    }

    fn set_task(&mut self, number: usize, of: Of) {
        if number >= self.tasks.len() {
            self.tasks.resize(number + 1, None);
        }
        self.tasks[number] = Some(of);
    }

    fn of_cpu(&mut self, cpu: usize) -> usize {
        if let Some(context) = self.cpus[cpu].context {
            return context as usize;
        }
        let index = self.new_context(cpu);
        self.cpus[cpu].context = Some(index as u32);
        index
    }

    fn new_context(&mut self, cpu: usize) -> usize {
        self.contexts.push(Context {
            cpu: cpu as u32,
            ..Context::default()
        });
        self.contexts.len() - 1
    }

    #[inline]
    fn enter<E>(
        &mut self,
        context: usize,
        event: &Event,
        (function, depth, argument): (Name, Option<u32>, Option<u64>),
        sink: &mut impl FnMut(Step) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(depth) = depth {
            // Calls at the same or a greater depth ended without a record.
            self.cut_while(context, sink, |open| open.entry.depth >= depth)?;
        }
        self.make_room(context, sink)?;
        let stack = &mut self.contexts[context].stack;
        let around = stack.last_mut().map(|around| {
            around.is_leaf = false;
            around.entry.depth
        });
        let entry = Entry {
            function,
            time: event.time,
            depth: depth.unwrap_or_else(|| around.map_or(0, |depth| depth.saturating_add(1))),
            cpu: event.cpu,
            task: event.task,
            argument,
        };
        self.contexts[context].push(Open::new(entry, self.number));
        self.open += 1;
        sink(Step::Enter(entry))
    }

    /// Drops outer calls of a context that has too many.
    fn make_room<E>(
        &mut self,
        context: usize,
        sink: &mut impl FnMut(Step) -> Result<(), E>,
    ) -> Result<(), E> {
        let stack = &self.contexts[context].stack;
        let is_full = stack.len() >= DEEPEST || (self.open >= MOST_OPEN && stack.len() > 1);
        if !is_full {
            return Ok(());
        }
        let outer = self.contexts[context].drop_outer();
        self.open -= outer.len();
        // Inner calls end first.
        let mut outer = outer.into_iter().rev();
        outer.try_for_each(|open| sink(Step::Leave(open.cut(Match::TooDeep))))
    }

    #[inline]
    fn exit<E>(
        &mut self,
        context: usize,
        exit: &Exit<'_>,
        function: Option<Name>,
        sink: &mut impl FnMut(Step) -> Result<(), E>,
    ) -> Result<(), E> {
        let is_same = |open: &Open| function.is_none_or(|name| name == open.entry.function);
        let is_found = match exit.depth {
            Some(depth) => {
                self.cut_while(context, sink, |open| open.entry.depth > depth)?;
                let stack = &self.contexts[context].stack;
                let top = stack.last().filter(|top| top.entry.depth == depth);
                let found = top.map(is_same);
                if found == Some(false) {
                    // Another call was here meanwhile, so this one's exit is missing.
                    self.cut_top(context, sink)?;
                }
                found == Some(true)
            }
            None => {
                let stack = &self.contexts[context].stack;
                let near = stack.iter().rev().take(FARTHEST);
                let skipped = near.into_iter().position(is_same);
                for _ in 0..skipped.unwrap_or(0) {
                    self.cut_top(context, sink)?;
                }
                skipped.is_some()
            }
        };
        let frames = &mut self.contexts[context];
        let lost = frames.lost;
        let is_sure = |open: &Open| lost <= open.number || open.is_confirmed_by(exit);
        if is_found
            && frames.stack.last().is_some_and(is_sure)
            && let Some(open) = frames.pop()
        {
            self.open -= 1;
            let is_partial = open.is_partial || frames.has_gap(&open);
            let slice = Slice {
                is_partial,
                is_recursive: frames.is_open(open.entry.function),
                ..open.close(exit)
            };
            frames.ended(slice.duration);
            return sink(Step::Leave(slice));
        }
        if is_found {
            self.cut_top(context, sink)?;
        }
        self.without_entry(context, exit, function, sink)
    }

    #[cold]
    fn without_entry<E>(
        &mut self,
        context: usize,
        exit: &Exit<'_>,
        function: Option<Name>,
        sink: &mut impl FnMut(Step) -> Result<(), E>,
    ) -> Result<(), E> {
        let context = &mut self.contexts[context];
        let inside = context.stack.last().map(|open| open.entry.depth);
        context.ended(exit.duration);
        if let Some(around) = context.stack.last_mut() {
            around.is_partial = true;
            around.is_leaf = false;
        }
        let depth = inside.map_or(0, |depth| depth.saturating_add(1));
        let inner = match (exit.depth, exit.duration) {
            (Some(depth), Some(duration)) => context.ended_alone(depth, duration),
            _ => 0,
        };
        let Event {
            time, cpu, task, ..
        } = *exit.event;
        sink(Step::Leave(Slice {
            function,
            start: None,
            end: Some(time),
            duration: exit.duration,
            inner,
            is_partial: true,
            is_leaf: false,
            is_recursive: false,
            depth: exit.depth.unwrap_or(depth),
            cpu,
            last_cpu: cpu,
            task,
            argument: None,
            matched: Match::NoEntry,
        }))
    }

    #[inline]
    fn cut_while<E>(
        &mut self,
        context: usize,
        sink: &mut impl FnMut(Step) -> Result<(), E>,
        is_over: impl Fn(&Open) -> bool,
    ) -> Result<(), E> {
        while self.contexts[context].stack.last().is_some_and(&is_over) {
            self.cut_top(context, sink)?;
        }
        Ok(())
    }

    /// Ends the innermost call of a context without an exit.
    #[cold]
    fn cut_top<E>(
        &mut self,
        context: usize,
        sink: &mut impl FnMut(Step) -> Result<(), E>,
    ) -> Result<(), E> {
        let context = &mut self.contexts[context];
        let Some(open) = context.pop() else {
            return Ok(());
        };
        self.open -= 1;
        context.ended(None);
        let matched = match context.has_gap(&open) {
            true => Match::Lost,
            false => Match::Skipped,
        };
        sink(Step::Leave(open.cut(matched)))
    }
}

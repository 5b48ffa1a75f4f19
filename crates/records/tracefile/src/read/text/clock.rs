//! Times and order of events, including those without times in the text.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::model::{Catalog, Event, Task};

/// Maximum number of open calls of a task whose entries are stored.
const DEEPEST: usize = 1024;

/// Orders events, and creates the times that a text lacks.
///
/// The line of a whole call results in two events, and other CPUs' events may be between them. An
/// exit therefore waits until a later line is due. If lines have no times, each CPU's clock
/// advances by the durations, and no event is earlier than the previous one.
#[derive(Debug, Default)]
pub(super) struct Clock {
    due: VecDeque<Event>,
    waiting: BTreeMap<(u64, u32), Event>,
    cpus: HashMap<u32, Cpu>,
    /// Entry times of open calls, by their [`context`].
    open: HashMap<(Task, u32), VecDeque<u64>>,
    /// Time of the last event in `due`.
    latest: u64,
}

#[derive(Debug, Default)]
struct Cpu {
    now: u64,
    /// Time of the waiting exit.
    waiting: Option<u64>,
}

impl Clock {
    /// Returns the next event.
    pub(super) fn next(&mut self) -> Option<Event> {
        self.due.pop_front()
    }

    pub(super) fn point(&mut self, stamp: Option<u64>, event: Event) -> u64 {
        let time = self.advance(event.cpu, stamp);
        self.push(time, event);
        time
    }

    pub(super) fn enter(&mut self, stamp: Option<u64>, event: Event, catalog: &Catalog) {
        let time = self.point(stamp, event);
        if stamp.is_none() {
            let open = self.open.entry(context(&event, catalog)).or_default();
            if open.len() == DEEPEST {
                open.pop_front();
            }
            open.push_back(time);
        }
    }

    /// Adds a call whose entry and exit are one line.
    pub(super) fn leaf(
        &mut self,
        stamp: Option<u64>,
        duration: Option<u64>,
        entry: Event,
        exit: Event,
    ) {
        let time = self.point(stamp, entry);
        self.wait(time.saturating_add(duration.unwrap_or(0)), exit);
    }

    pub(super) fn exit(
        &mut self,
        stamp: Option<u64>,
        duration: Option<u64>,
        event: Event,
        catalog: &Catalog,
    ) {
        if stamp.is_some() {
            self.point(stamp, event);
            return;
        }
        let time = self.advance(event.cpu, None);
        let open = self.open.get_mut(&context(&event, catalog));
        let entry = open.and_then(VecDeque::pop_back).unwrap_or(0);
        // A missing entry cannot be earlier than the start of the trace.
        self.wait(time.max(entry.saturating_add(duration.unwrap_or(0))), event);
    }

    /// Adds the event for missing records.
    pub(super) fn lost(&mut self, stamp: Option<u64>, event: Event) {
        self.open.clear();
        self.point(stamp, event);
    }

    /// Ends the trace: all waiting events are passed on.
    pub(super) fn finish(&mut self) {
        self.flush(u64::MAX);
    }

    /// Advances the CPU to its next line, and returns that line's time.
    fn advance(&mut self, number: u32, stamp: Option<u64>) -> u64 {
        let latest = self.latest;
        let cpu = self.cpus.entry(number).or_default();
        let time = stamp.unwrap_or_else(|| cpu.now.max(latest));
        cpu.now = time;
        let exit = cpu
            .waiting
            .take()
            .and_then(|end| Some((end, self.waiting.remove(&(end, number))?)));
        match exit {
            Some((end, exit)) => {
                // Stamps are rounded to microseconds, and durations are not.
                let end = end.min(time).max(exit.time);
                self.flush(end);
                self.push(end, exit);
                self.flush(time);
            }
            None => self.flush(time),
        }
        time
    }

    /// Holds an exit until the CPU's next line, or a later line of another CPU.
    fn wait(&mut self, end: u64, exit: Event) {
        let cpu = self.cpus.entry(exit.cpu).or_default();
        // The exit is not earlier than this, even if the next line is.
        let exit = Event {
            time: cpu.now,
            ..exit
        };
        cpu.now = end;
        cpu.waiting = Some(end);
        self.waiting.insert((end, exit.cpu), exit);
    }

    /// Passes on the waiting exits up to a time.
    fn flush(&mut self, until: u64) {
        while let Some(entry) = self.waiting.first_entry()
            && entry.key().0 <= until
        {
            let ((end, cpu), exit) = entry.remove_entry();
            if let Some(cpu) = self.cpus.get_mut(&cpu) {
                cpu.waiting = None;
            }
            self.push(end, exit);
        }
    }

    fn push(&mut self, time: u64, event: Event) {
        self.latest = time;
        self.due.push_back(Event { time, ..event });
    }
}

/// Returns the context in which calls nest: a task, or a CPU without a task or with its idle task.
fn context(event: &Event, catalog: &Catalog) -> (Task, u32) {
    let is_of_cpu = catalog.task_name(event.task).is_of_cpu();
    (event.task, if is_of_cpu { event.cpu } else { u32::MAX })
}

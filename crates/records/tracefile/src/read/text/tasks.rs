//! Tasks of a text, and the running task of each CPU.

use std::collections::HashMap;

use super::line;
use crate::model::{Catalog, Task};

/// Tasks by their identifiers, and the CPUs that run them.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    known: HashMap<i64, Task>,
    cpus: HashMap<u32, Cpu>,
}

/// Task of a CPU, for text that only has switches.
#[derive(Debug, Default)]
struct Cpu {
    /// The running task; `None` before the first switch.
    now: Option<Task>,
    /// Number of open calls of the unknown task.
    open: u32,
    /// Unknown task, named at the first switch.
    unknown: Option<Task>,
}

impl Tasks {
    /// Returns the task of a record: the one in its line, or the last one that its CPU switched to.
    pub(super) fn of(
        &mut self,
        catalog: &mut Catalog,
        cpu: u32,
        column: Option<line::Task<'_>>,
    ) -> Task {
        match column {
            Some(task) => self.task(catalog, task),
            None => self.cpus.entry(cpu).or_default().now.unwrap_or(Task::NONE),
        }
    }

    pub(super) fn switch(
        &mut self,
        catalog: &mut Catalog,
        cpu: u32,
        from: line::Task<'_>,
        to: line::Task<'_>,
    ) {
        let (from, to) = (self.task(catalog, from), self.task(catalog, to));
        let cpu = self.cpus.entry(cpu).or_default();
        if cpu.now.is_none() && cpu.open > 0 && cpu.unknown.is_none() {
            cpu.unknown = Some(from);
        }
        // Calls that started without a task end without one.
        cpu.now = (cpu.unknown != Some(to)).then_some(to);
    }

    pub(super) fn entered(&mut self, cpu: u32) {
        let cpu = self.cpus.entry(cpu).or_default();
        cpu.open = cpu.open.saturating_add(u32::from(cpu.now.is_none()));
    }

    pub(super) fn left(&mut self, cpu: u32) {
        let cpu = self.cpus.entry(cpu).or_default();
        if cpu.now.is_none() {
            cpu.open = cpu.open.saturating_sub(1);
            if cpu.open == 0 {
                cpu.now = cpu.unknown.take();
            }
        }
    }

    /// Returns a task. The first name of an identifier stays, so that entries and exits have the
    /// same task.
    fn task(&mut self, catalog: &mut Catalog, task: line::Task<'_>) -> Task {
        let line::Task { id, name } = task;
        // The kernel no longer has the name.
        let name = if name == "<...>" { "" } else { name };
        *self
            .known
            .entry(id)
            .or_insert_with(|| catalog.task(id, name))
    }
}

//! Places of nested calls.

use crate::model::{Catalog, Task, TaskName};

/// CPUs with higher numbers share a lane.
pub const MOST_CPUS: u32 = 1 << 16;

/// A task, or a CPU without tasks. The function graph pairs entries and exits of the same lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    Task(Task),
    /// A CPU without tasks, or with its idle task.
    Cpu(u32),
}

impl Lane {
    pub fn of(catalog: &Catalog, task: Task, cpu: u32) -> Self {
        match catalog.task_name(task).id {
            0 => Self::Cpu(cpu.min(MOST_CPUS)),
            _ => Self::Task(task),
        }
    }

    /// Name for the user. `task` is the first task of the lane.
    pub fn name(self, catalog: &Catalog, task: Task) -> String {
        let TaskName { id, name } = catalog.task_name(task);
        match self {
            Self::Task(_) if name.is_empty() => format!("task {id}"),
            Self::Task(_) => format!("{name} ({id})"),
            Self::Cpu(cpu) if name.is_empty() => format!("CPU {cpu}"),
            Self::Cpu(cpu) => format!("{name} on CPU {cpu}"),
        }
    }
}

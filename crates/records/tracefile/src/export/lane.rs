//! Lanes of nested calls.

use crate::graph::MOST_CPUS;
use crate::model::{Catalog, Task, TaskName};

/// A task, or a CPU without tasks. The function graph pairs entries and exits within a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    Task(Task),
    /// A CPU without tasks, or with its idle task.
    Cpu(u32),
}

impl Lane {
    pub fn of(catalog: &Catalog, task: Task, cpu: u32) -> Self {
        match catalog.task_name(task).is_of_cpu() {
            true => Self::Cpu(cpu.min(MOST_CPUS)),
            false => Self::Task(task),
        }
    }

    /// Returns the lane's name for the user. `task` is the first task of the lane.
    pub fn name(self, catalog: &Catalog, task: Task) -> String {
        let task = catalog.task_name(task);
        let TaskName { id, name } = task;
        task.unknown_thread().unwrap_or_else(|| match self {
            Self::Task(_) if name.is_empty() => format!("task {id}"),
            Self::Task(_) => format!("{name} ({id})"),
            Self::Cpu(cpu) if name.is_empty() => format!("CPU {cpu}"),
            Self::Cpu(cpu) => format!("{name} on CPU {cpu}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_without_a_name_has_a_number() {
        let mut catalog = Catalog::default();
        let tasks = [(7, "sh"), (7, ""), (TaskName::id_of_zone(3), ""), (0, "")];
        let names = tasks.map(|(id, name)| {
            let task = catalog.task(id, name);
            Lane::of(&catalog, task, 2).name(&catalog, task)
        });
        let expected = ["sh (7)", "task 7", "unknown thread of zone 3", "CPU 2"];
        assert_eq!(names, expected);
    }
}

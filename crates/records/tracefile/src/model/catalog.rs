//! Names of functions, counters and tasks, each stored once.

use std::collections::HashMap;

/// Number of a text in a [`Catalog`]. Numbers are dense and start at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub u32);

/// Number of a task in a [`Catalog`]. Numbers are dense; 0 is [`NONE`](Self::NONE).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Task(pub u32);

impl Task {
    /// No task, or an unknown one.
    pub const NONE: Self = Self(0);
}

/// Identity of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TaskName {
    /// Thread or task identifier; 0 for [`Task::NONE`]. In a recording with a zone for each thread,
    /// an unknown thread has the identifier -1 - its zone and no name.
    pub id: i64,
    /// Task's name; empty if unknown.
    pub name: String,
}

impl TaskName {
    fn new(id: i64, name: &str) -> Self {
        Self {
            id,
            name: name.to_owned(),
        }
    }

    /// Returns the identifier that stands for the unknown thread of a zone.
    pub(crate) fn id_of_zone(zone: u32) -> i64 {
        -1 - i64::from(zone)
    }

    /// Returns the text for the user if the task stands for the unknown thread of a zone.
    pub(crate) fn unknown_thread(&self) -> Option<String> {
        let is_unknown = self.id < 0 && self.name.is_empty();
        is_unknown.then(|| format!("unknown thread of zone {}", -1 - self.id))
    }

    /// Returns whether the task belongs to a CPU: its idle task, or none.
    pub(crate) const fn is_of_cpu(&self) -> bool {
        self.id == 0
    }
}

/// Names of a trace.
#[derive(Clone, Debug)]
pub struct Catalog {
    texts: Vec<Box<str>>,
    numbers: HashMap<Box<str>, Name>,
    tasks: Vec<TaskName>,
    task_numbers: HashMap<TaskName, Task>,
    has_cpus: bool,
}

impl Default for Catalog {
    fn default() -> Self {
        Self {
            texts: Vec::new(),
            numbers: HashMap::new(),
            tasks: vec![TaskName::default()],
            task_numbers: HashMap::from([(TaskName::default(), Task::NONE)]),
            has_cpus: true,
        }
    }
}

impl Catalog {
    /// Returns whether events have the numbers of their CPUs. A program's events have none: it
    /// records by thread.
    pub const fn has_cpus(&self) -> bool {
        self.has_cpus
    }

    /// Sets that events have no numbers of CPUs.
    pub(crate) const fn set_without_cpus(&mut self) {
        self.has_cpus = false;
    }

    /// Returns the number of `text`, and adds it if it is new.
    pub fn name(&mut self, text: &str) -> Name {
        match self.numbers.get(text) {
            Some(known) => *known,
            None => self.add_name(text),
        }
    }

    /// Returns the number of `text`, and adds it if it is new and there are fewer than `most`
    /// names. `None` if a new name has no room.
    pub fn name_up_to(&mut self, most: usize, text: &str) -> Option<Name> {
        match self.numbers.get(text) {
            Some(known) => Some(*known),
            None => (self.texts.len() < most).then(|| self.add_name(text)),
        }
    }

    /// Returns the number of the task, and adds it if it is new.
    pub fn task(&mut self, id: i64, name: &str) -> Task {
        let task = TaskName::new(id, name);
        match self.task_numbers.get(&task) {
            Some(known) => *known,
            None => self.add_task(task),
        }
    }

    /// Returns the number of the task, and adds it if it is new and there are fewer than `most`
    /// tasks, [`Task::NONE`] included. `None` if a new task has no room.
    pub fn task_up_to(&mut self, most: usize, id: i64, name: &str) -> Option<Task> {
        let task = TaskName::new(id, name);
        match self.task_numbers.get(&task) {
            Some(known) => Some(*known),
            None => (self.tasks.len() < most).then(|| self.add_task(task)),
        }
    }

    fn add_name(&mut self, text: &str) -> Name {
        let name = Name(self.texts.len() as u32);
        self.texts.push(text.into());
        self.numbers.insert(text.into(), name);
        name
    }

    fn add_task(&mut self, task: TaskName) -> Task {
        let number = Task(self.tasks.len() as u32);
        self.tasks.push(task.clone());
        self.task_numbers.insert(task, number);
        number
    }

    /// Returns the text of a name; empty if the number is unknown.
    pub fn text(&self, name: Name) -> &str {
        self.texts.get(name.0 as usize).map_or("", |text| text)
    }

    /// Returns the identity of a task. An unknown number is [`Task::NONE`].
    pub fn task_name(&self, task: Task) -> &TaskName {
        self.tasks.get(task.0 as usize).unwrap_or(&self.tasks[0])
    }

    /// Returns the number of names.
    pub fn names(&self) -> usize {
        self.texts.len()
    }

    /// Returns the tasks in the order of their numbers. The first is [`Task::NONE`].
    pub fn tasks(&self) -> &[TaskName] {
        &self.tasks
    }
}

//! Generated trace of a busy kernel.

use nostall_tracefile::model::{
    Catalog, Event, EventKind, Name, Progress, ReadError, Source, Task,
};

const CPUS: usize = 4;
const TASKS: u32 = 64;
const FUNCTIONS: u32 = 2_000;
const DEEPEST: usize = 12;

/// Generator of entries and exits of nested calls on four CPUs, with alternating tasks.
pub struct Generated {
    catalog: Catalog,
    left: u64,
    random: u64,
    time: u64,
    /// Open functions by task.
    stacks: Vec<Vec<Name>>,
}

impl Generated {
    /// Creates a generator without records to make.
    pub fn new() -> Self {
        let mut catalog = Catalog::default();
        for number in 0..FUNCTIONS {
            catalog.name(&format!("function_{number}"));
        }
        for number in 1..=TASKS {
            catalog.task(number.into(), &format!("task-{number}"));
        }
        Self {
            catalog,
            left: 0,
            random: 1,
            time: 0,
            stacks: vec![Vec::new(); TASKS as usize + 1],
        }
    }

    /// Continues the trace with this many records.
    pub fn more(&mut self, records: u64) -> &mut dyn Source {
        self.left = records;
        self
    }
}

impl Source for Generated {
    #[inline]
    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        // Xorshift generator.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let random = self.random;
        self.time += 20 + (random & 255);
        let cpu = (random >> 8) as usize % CPUS;
        // A CPU changes its task from time to time.
        let turn = (self.left >> 12) as usize;
        let task = (turn * CPUS + cpu) as u32 % TASKS + 1;
        let stack = &mut self.stacks[task as usize];
        let enters = stack.is_empty() || (stack.len() < DEEPEST && random >> 62 != 0);
        let enters = enters && random >> 61 & 1 == 0 || stack.is_empty();
        let kind = if enters {
            // A few functions are called often, many rarely.
            let square = (random >> 32 & 0xffff) * (random >> 48);
            let function = Name(((square * u64::from(FUNCTIONS)) >> 32) as u32);
            let depth = Some(stack.len() as u32);
            stack.push(function);
            EventKind::Enter {
                function,
                depth,
                argument: None,
            }
        } else {
            let function = stack.pop();
            EventKind::Exit {
                function,
                depth: Some(stack.len() as u32),
                duration: None,
            }
        };
        Ok(Some(Event {
            time: self.time,
            cpu: cpu as u32,
            task: Task(task),
            kind,
        }))
    }
    fn catalog(&self) -> &Catalog {
        &self.catalog
    }
    fn progress(&self) -> Progress {
        Progress::default()
    }
}

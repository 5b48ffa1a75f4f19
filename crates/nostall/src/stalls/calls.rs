//! A trace whose probes are calls: the probes' events become entries and returns.

use std::collections::HashMap;

use nostall_tracefile::model::{
    Catalog, Event, EventKind, Name, Progress, ReadError, Source, Task, TimeUnit,
};

use super::paths::{self, RETURN};

/// Source in which events of the command's probes are entries and exits of their functions.
pub struct Calls<'a> {
    source: &'a mut dyn Source,
    catalog: Catalog,
    kinds: HashMap<Name, EventKind>,
    names: HashMap<Name, Name>,
    tasks: Vec<Task>,
}

impl<'a> Calls<'a> {
    pub fn new(source: &'a mut dyn Source) -> Self {
        Self {
            source,
            catalog: Catalog::default(),
            kinds: HashMap::new(),
            names: HashMap::new(),
            tasks: Vec::new(),
        }
    }

    fn task(&mut self, task: Task) -> Task {
        let tasks = self.source.catalog().tasks();
        while let Some(new) = tasks.get(self.tasks.len()) {
            self.tasks.push(self.catalog.task(new.id, &new.name));
        }
        self.tasks
            .get(task.0 as usize)
            .copied()
            .unwrap_or(Task::NONE)
    }

    /// Returns the meaning of an event's text.
    fn mark(&mut self, text: Name) -> EventKind {
        if let Some(known) = self.kinds.get(&text) {
            return *known;
        }
        let (catalog, of) = (&mut self.catalog, self.source.catalog().text(text));
        let (event, fields) = of.split_once(':').unwrap_or((of, ""));
        let name = event.strip_suffix(RETURN).unwrap_or(event);
        let kind = match paths::functions().any(|function| function.name == name) {
            false => EventKind::Mark {
                text: catalog.name(of),
            },
            true => {
                let function = catalog.name(name);
                match event.len() > name.len() {
                    true => EventKind::Exit {
                        function: Some(function),
                        depth: None,
                        duration: None,
                    },
                    false => EventKind::Enter {
                        function,
                        depth: None,
                        argument: fields
                            .rsplit_once("bytes=")
                            .and_then(|(_, number)| number.trim().parse().ok()),
                    },
                }
            }
        };
        self.kinds.insert(text, kind);
        kind
    }
}

impl Source for Calls<'_> {
    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        let Some(mut event) = self.source.next_event()? else {
            return Ok(None);
        };
        event.task = self.task(event.task);
        event.kind = match event.kind {
            EventKind::Mark { text } => self.mark(text),
            kind => {
                let (catalog, of) = (&mut self.catalog, self.source.catalog());
                let names = &mut self.names;
                kind.renamed(|name| {
                    let known = names.entry(name);
                    *known.or_insert_with(|| catalog.name(of.text(name)))
                })
            }
        };
        Ok(Some(event))
    }

    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn unit(&self) -> TimeUnit {
        self.source.unit()
    }

    fn progress(&self) -> Progress {
        self.source.progress()
    }

    fn notes(&self) -> &[String] {
        self.source.notes()
    }
}

//! Decoding of a trace.dat file's records to events.

use std::collections::HashMap;
use std::sync::Arc;

use super::binary;
use super::symbols::Symbols;
use crate::linux::{EventFormat, Field, Formats, Names, fields};
use crate::model::{Catalog, EventKind, Name, Task};
use crate::read::marks::Marks;

/// Decoder of records.
#[derive(Debug)]
pub(super) struct Decoder {
    formats: Formats,
    /// Size of a `long` in bytes.
    long: usize,
    symbols: Symbols,
    commands: HashMap<i32, String>,
    printk: HashMap<u64, String>,
    /// Kinds of the event numbers seen so far.
    kinds: HashMap<u16, Arc<Kind>>,
    functions: HashMap<u64, Name>,
    tasks: HashMap<i32, Task>,
    pub catalog: Catalog,
    pub marks: Marks,
}

/// Kind of an event number.
#[derive(Clone, Debug)]
enum Kind {
    Entry {
        function: Field,
        depth: Option<Field>,
        arguments: Option<Field>,
    },
    Exit {
        function: Field,
        depth: Option<Field>,
        times: Option<(Field, Field)>,
    },
    Call {
        function: Field,
        caller: Option<Field>,
    },
    /// Text of `trace_printk` and of markers.
    Print,
    /// Unformatted text of `trace_printk`.
    Binary,
    Other,
}

impl Kind {
    fn new(formats: &Formats, id: u16) -> Self {
        let Some(event) = formats.get(id) else {
            return Self::Other;
        };
        let field = |name| event.field(name).cloned();
        let graph = match event.name.as_str() {
            "funcgraph_entry" | "fgraph_retaddr_entry" => {
                field("func").map(|function| Self::Entry {
                    function,
                    depth: field("depth"),
                    arguments: field("args"),
                })
            }
            "funcgraph_exit" => field("func").map(|function| Self::Exit {
                function,
                depth: field("depth"),
                times: field("calltime").zip(field("rettime")),
            }),
            "function" => field("ip").map(|function| Self::Call {
                function,
                caller: field("parent_ip"),
            }),
            "print" | "bputs" => Some(Self::Print),
            "bprint" => Some(Self::Binary),
            _ => None,
        };
        graph.unwrap_or(Self::Other)
    }
}

impl Decoder {
    pub(super) fn new(
        formats: Formats,
        long: usize,
        symbols: Symbols,
        commands: HashMap<i32, String>,
        printk: HashMap<u64, String>,
    ) -> Self {
        Self {
            formats,
            long,
            symbols,
            commands,
            printk,
            kinds: HashMap::new(),
            functions: HashMap::new(),
            tasks: HashMap::new(),
            catalog: Catalog::default(),
            marks: Marks::default(),
        }
    }

    /// Returns the task and event of a record; `None` if it is too short.
    pub(super) fn event(&mut self, payload: &[u8]) -> Option<(Task, EventKind)> {
        let order = self.formats.order();
        let id = order.read(payload, 0, 2)? as u16;
        let task = self.task(order.u32(payload, 4)? as i32);
        let kind = self.kinds.entry(id);
        let kind = Arc::clone(kind.or_insert_with(|| Arc::new(Kind::new(&self.formats, id))));
        let number = |field: &Field| field.number(payload, order);
        let depth = |field: &Option<Field>| {
            // A negative depth marks a record of the kernel's own.
            let depth = number(field.as_ref()?)? as u32;
            (depth <= i32::MAX as u32).then_some(depth)
        };
        let event = match &*kind {
            Kind::Entry {
                function,
                depth: deep,
                arguments,
            } => {
                let argument = arguments
                    .as_ref()
                    .and_then(|field| order.u64(payload, field.offset));
                let (address, depth) = (number(function)?, depth(deep));
                EventKind::Enter {
                    function: self.function(address),
                    depth,
                    argument,
                }
            }
            Kind::Exit {
                function,
                depth: deep,
                times,
            } => {
                let duration = times
                    .as_ref()
                    .and_then(|(call, ret)| number(ret)?.checked_sub(number(call)?));
                let (address, depth) = (number(function)?, depth(deep));
                EventKind::Exit {
                    // Writers that only know the exit omit the address.
                    function: (address != 0).then(|| self.function(address)),
                    depth,
                    duration,
                }
            }
            Kind::Call { function, caller } => {
                let address = number(function)?;
                let caller = caller.as_ref().and_then(number);
                let caller = caller.filter(|address| *address != 0);
                EventKind::Call {
                    function: self.function(address),
                    caller: caller.map(|address| self.function(address)),
                }
            }
            Kind::Print => self.mark(id, payload, "", None),
            Kind::Binary => {
                let print = self.formats.get(id).and_then(|event| {
                    binary::event(event, payload, order, self.long, &self.printk)
                });
                self.mark(id, payload, "", print)
            }
            Kind::Other => {
                let name = self.formats.name(id).unwrap_or_default().to_owned();
                self.mark(id, payload, &name, None)
            }
        };
        Some((task, event))
    }

    /// Returns an event's text; `format` replaces the event's own format.
    fn mark(
        &mut self,
        id: u16,
        payload: &[u8],
        name: &str,
        format: Option<EventFormat>,
    ) -> EventKind {
        let text = match format.as_ref().or_else(|| self.formats.get(id)) {
            None => format!("event {id}"),
            Some(event) => {
                let text = self.formats.text(event, payload, &self.symbols);
                let text = text.unwrap_or_else(|_| fields(event, payload, self.formats.order()));
                let text = String::from_utf8_lossy(&text);
                match name {
                    "" => text.trim_end().to_owned(),
                    name => format!("{name}: {}", text.trim_end()),
                }
            }
        };
        EventKind::Mark {
            text: self.marks.name(&mut self.catalog, &text),
        }
    }

    fn function(&mut self, address: u64) -> Name {
        if let Some(known) = self.functions.get(&address) {
            return *known;
        }
        let name = match self.symbols.place(address) {
            Some(place) => self.catalog.name(place.name),
            None => self.catalog.name(&format!("{address:#x}")),
        };
        self.functions.insert(address, name);
        name
    }

    fn task(&mut self, id: i32) -> Task {
        if let Some(known) = self.tasks.get(&id) {
            return *known;
        }
        let name = match self.commands.get(&id) {
            // The kernel no longer has the name.
            Some(name) if name == "<...>" => "",
            Some(name) => name,
            None if id == 0 => "<idle>",
            None => "",
        };
        let task = self.catalog.task(id.into(), name);
        self.tasks.insert(id, task);
        task
    }
}

//! Event formats: the `format` files of tracefs.

use std::collections::{BTreeMap, BTreeSet};

use super::field::Field;
use super::names::Names;
use super::order::Order;
use super::print::PrintFormat;

/// Maximum number of fields of an event.
const MOST_FIELDS: usize = 1 << 10;

/// Format of one event.
#[derive(Clone, Debug)]
pub struct EventFormat {
    /// Event's name.
    pub name: String,
    /// Number of the event in records.
    pub id: u16,
    /// Fields of the event, without the common ones.
    pub fields: Vec<Field>,
    /// Print format of the event.
    pub print: PrintFormat,
}

impl EventFormat {
    /// Returns the field with a name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns the number in a field as unsigned.
    pub fn number(&self, name: &str, payload: &[u8], order: Order) -> Option<u64> {
        self.field(name)?.number(payload, order)
    }
}

/// Formats of a kernel's events.
#[derive(Clone, Debug, Default)]
pub struct Formats {
    order: Order,
    /// Size of a `long` in bytes.
    long: usize,
    events: BTreeMap<u16, EventFormat>,
    names: BTreeMap<u16, String>,
}

impl Formats {
    /// Creates an empty set for a machine with this byte order and size of a `long` in bytes.
    pub fn new(order: Order, long: usize) -> Self {
        Self {
            order,
            long: if long == 4 { 4 } else { 8 },
            ..Self::default()
        }
    }

    /// Adds the events of one or several concatenated format files. Returns the number of new ones.
    ///
    /// A known event is replaced. Unreadable lines are skipped, and so are events without a name or
    /// number.
    pub fn add(&mut self, text: &str) -> usize {
        let before = self.events.len();
        let mut event: Option<(String, Option<u16>, Vec<Field>)> = None;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("name:") {
                event = Some((name.trim().to_owned(), None, Vec::new()));
            } else if let Some((name, id, fields)) = &mut event {
                if let Some(number) = line.strip_prefix("ID:") {
                    *id = number.trim().parse().ok();
                } else if line.trim_start().starts_with("field:") {
                    let field = Field::parse(line).filter(|_| fields.len() < MOST_FIELDS);
                    // The common fields are the same for all events, so they are omitted.
                    fields.extend(field.filter(|field| !field.name.starts_with("common_")));
                } else if let (Some(print), Some(id)) = (line.strip_prefix("print fmt:"), *id) {
                    let format = EventFormat {
                        name: std::mem::take(name),
                        id,
                        fields: std::mem::take(fields),
                        print: PrintFormat::new(print.trim(), self.long),
                    };
                    self.events.insert(id, format);
                    event = None;
                }
            }
        }
        self.events.len() - before
    }

    /// Adds the names of events without a format: lines of a number and `system/name`.
    pub fn add_ids(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            if let (Some(id), Some(name), None) = (words.next(), words.next(), words.next())
                && let Ok(id) = id.parse()
            {
                self.add_id(id, name);
            }
        }
    }

    /// Adds the name of an event without a format.
    pub fn add_id(&mut self, id: u16, name: &str) {
        let name = name.rsplit('/').next().unwrap_or(name);
        self.names.insert(id, name.to_owned());
    }

    /// Returns the machine's byte order.
    pub const fn order(&self) -> Order {
        self.order
    }

    /// Returns the format of an event number.
    pub fn get(&self, id: u16) -> Option<&EventFormat> {
        self.events.get(&id)
    }

    /// Returns all formats, by number.
    pub fn iter(&self) -> impl Iterator<Item = &EventFormat> {
        self.events.values()
    }

    /// Returns the event with a name.
    pub fn named(&self, name: &str) -> Option<&EventFormat> {
        self.events.values().find(|event| event.name == name)
    }

    /// Returns the name of an event number.
    pub fn name(&self, id: u16) -> Option<&str> {
        match self.events.get(&id) {
            Some(event) => Some(&event.name),
            None => self.names.get(&id).map(String::as_str),
        }
    }

    /// Returns the number of formats.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns whether there is no format.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Returns an event's text according to its print format, without the event's name.
    ///
    /// # Errors
    ///
    /// The part of the print format that cannot be evaluated, for example a function of the kernel.
    pub fn text(
        &self,
        event: &EventFormat,
        payload: &[u8],
        names: &dyn Names,
    ) -> Result<Vec<u8>, String> {
        event
            .print
            .text(&event.fields, payload, self.order, self.long, names)
    }

    /// Returns the unsupported parts of print formats, each with the name of an event.
    pub fn unreadable(&self) -> BTreeSet<(&str, &str)> {
        let events = self.events.values();
        let why = events.filter_map(|event| Some((event.name.as_str(), event.print.error()?)));
        why.collect()
    }
}

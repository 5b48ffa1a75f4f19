//! Texts of events, in bounded memory.

use crate::model::{Catalog, Name};

/// Limit for the stored texts in bytes.
const MOST: usize = 64 << 20;

/// Stores the texts of events as names. Few texts occur twice, so their memory is limited.
#[derive(Debug, Default)]
pub(super) struct Marks {
    used: usize,
    shortened: u64,
}

impl Marks {
    /// Returns the name of a text. After 64 MiB of texts, only the event's name is kept.
    pub(super) fn name(&mut self, catalog: &mut Catalog, text: &str) -> Name {
        let known = catalog.names();
        if self.used < MOST {
            let name = catalog.name(text);
            if catalog.names() > known {
                self.used += text.len() + 64;
            }
            return name;
        }
        self.shortened += 1;
        let event = text.split([':', ' ']).next().unwrap_or_default();
        // Hostile text can have any number of event names.
        let event = if self.used < 2 * MOST { event } else { "event" };
        let name = catalog.name(event);
        if catalog.names() > known {
            self.used += event.len() + 64;
        }
        name
    }

    /// Returns a note for the user if texts were shortened.
    pub(super) fn note(&self) -> Option<String> {
        let Self { shortened, .. } = self;
        (*shortened > 0)
            .then(|| format!("{shortened} events are shown without their fields, to save memory"))
    }
}

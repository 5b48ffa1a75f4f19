//! A trace's calls: also the events of the command's probes are entries and returns.

use std::collections::HashMap;

use nostall_tracefile::graph::{Graph, Step};
use nostall_tracefile::model::{Catalog, EventKind, ReadError, Source};

use super::paths::{self, RETURN};

/// Passes the calls of the whole trace to `sink`, the open ones last. Returns their names.
///
/// # Errors
///
/// The error of the source or of `sink`.
pub fn walk<E: From<ReadError>>(
    source: &mut dyn Source,
    mut sink: impl FnMut(&Catalog, Step) -> Result<(), E>,
) -> Result<Catalog, E> {
    let (mut graph, mut catalog) = (Graph::default(), Catalog::default());
    let mut marks = HashMap::new();
    while let Some(mut event) = source.next_event()? {
        let of = source.catalog();
        // In the order of their numbers, which are so the same in both catalogs.
        for task in of.tasks().iter().skip(catalog.tasks().len()) {
            catalog.task(task.id, &task.name);
        }
        event.kind = match event.kind {
            EventKind::Mark { text } => *marks
                .entry(text)
                .or_insert_with(|| meaning(&mut catalog, of.text(text))),
            kind => kind.renamed(|name| catalog.name(of.text(name))),
        };
        graph.push(&event, &catalog, &mut |step| sink(&catalog, step))?;
    }
    graph.finish(&mut |step| sink(&catalog, step))?;
    Ok(catalog)
}

/// Returns the meaning of an event's text.
fn meaning(catalog: &mut Catalog, text: &str) -> EventKind {
    let (event, fields) = text.split_once(':').unwrap_or((text, ""));
    let name = event.strip_suffix(RETURN).unwrap_or(event);
    if paths::function(name).is_none() {
        let text = catalog.name(text);
        return EventKind::Mark { text };
    }
    let function = catalog.name(name);
    let depth = None;
    if event != name {
        return EventKind::Exit {
            function: Some(function),
            depth,
            duration: None,
        };
    }
    let bytes = fields.rsplit_once("bytes=");
    EventKind::Enter {
        function,
        depth,
        argument: bytes.and_then(|(_, number)| number.trim().parse().ok()),
    }
}

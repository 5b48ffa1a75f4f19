//! A trace as a picture, and its numbers.

use std::borrow::Cow;
use std::io;

use anyhow::Result;
use nostall_trace::recover;
use nostall_tracefile::ZoneEvents;
use nostall_tracefile::graph::{Match, Step, walk};
use nostall_tracefile::model::{EventKind, Source};
use nostall_tracefile::report::{Graph, Look, Selection};

/// A trace's numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers {
    /// Calls with entry and exit.
    pub calls: u64,
    /// Reads of the line status.
    pub polls: u64,
    /// Duration of the sending in nanoseconds, if both its ends are in the trace.
    pub ns: Option<u64>,
    /// Duration of its write in nanoseconds, if both ends are in the trace. The caller waits for
    /// it.
    pub write_ns: Option<u64>,
    /// Number of missing records and slots, which newer ones overwrote in an intact trace.
    pub lost: u64,
}

fn events<'t>(
    trace: &'t [u8],
    symbols: &'t dyn Fn(u64) -> Option<String>,
) -> Result<ZoneEvents<'t, &'t [u8]>> {
    Ok(ZoneEvents::new(recover(trace)?, Box::new(symbols)))
}

/// Reads a trace's numbers.
pub fn numbers(trace: &[u8], symbols: &dyn Fn(u64) -> Option<String>) -> Result<Numbers> {
    let mut numbers = Numbers::default();
    walk::<anyhow::Error>(&mut events(trace, symbols)?, |catalog, step| {
        match step {
            Step::Leave(slice) if slice.matched == Match::Paired => {
                numbers.calls += 1;
                let name = slice.function.map_or("", |name| catalog.text(name));
                numbers.polls += u64::from(name == "read_lsr");
                match name {
                    "write" => numbers.write_ns = slice.duration,
                    _ if name.starts_with("send_") => numbers.ns = slice.duration,
                    _ => {}
                }
            }
            Step::Event(event) => {
                if let EventKind::Lost { records } = event.kind {
                    numbers.lost += records;
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(numbers)
}

/// Draws a trace. A long one gets only the `first` and `last` lines, with a line for the others.
pub fn draw(
    trace: &[u8],
    symbols: &dyn Fn(u64) -> Option<String>,
    (first, last): (usize, usize),
) -> Result<Vec<String>> {
    let mut events = events(trace, symbols)?;
    let look = Look {
        width: None,
        has_colour: false,
        escape: |text| Cow::Borrowed(text),
        unit: events.unit(),
    };
    let mut drawn = Vec::new();
    let mut graph = Graph::new(Selection::default(), None, false, look, &mut drawn);
    walk::<anyhow::Error>(&mut events, |catalog, step| Ok(graph.push(&step, catalog)?))?;
    graph.finish(events.catalog())?;
    let drawn = String::from_utf8(drawn).map_err(io::Error::other)?;
    let mut lines: Vec<_> = drawn
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    let (count, kept) = (lines.len(), first + last);
    if count > kept + 1 {
        let more = format!("    ... {} more lines ...", count - kept);
        lines.splice(first..count - last, [more]);
    }
    Ok(lines)
}

/// Returns two pictures side by side, each below its title. If they are too wide for `columns`, the
/// second is below the first.
pub fn beside(one: (&str, &[String]), other: (&str, &[String]), columns: usize) -> String {
    let widths = [one, other].map(|(title, lines)| {
        let lines = lines.iter().map(String::as_str).chain([title]);
        lines.map(|line| line.chars().count()).max().unwrap_or(0)
    });
    let below = |(title, lines): (&str, &[String])| format!("{title}\n{}", lines.join("\n"));
    if widths[0] + 2 + widths[1] > columns {
        return format!("{}\n\n{}", below(one), below(other));
    }
    let texts = [below(one), below(other)];
    let [mut left, mut right] = [texts[0].lines(), texts[1].lines()];
    let mut lines = Vec::new();
    loop {
        let pair = (left.next(), right.next());
        if pair == (None, None) {
            return lines.join("\n");
        }
        let (left, right) = (pair.0.unwrap_or(""), pair.1.unwrap_or(""));
        let line = format!("{left:0$}  {right}", widths[0]);
        lines.push(line.trim_end().to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_stand_beside_each_other_where_there_is_room() {
        let left = ["a".to_owned(), "bcd".to_owned()];
        let right = ["e".to_owned()];
        let pictures = |columns| beside(("One", &left), ("Two", &right), columns);
        assert_eq!(pictures(8), "One  Two\na    e\nbcd");
        assert_eq!(pictures(7), "One\na\nbcd\n\nTwo\ne");
    }
}

//! Tables of Linux beside nostall.

use std::collections::HashMap;

use maud::{Markup, html};

use super::group::{MetricKey, distinct, metric};
use super::part::Parts;
use super::source::Source;
use super::text::value;
use crate::host::State;
use nostall_figures::figure::Figure;

/// Strategy of nostall's figures beside Linux.
const NOSTALL: &str = "nostall";

/// Figures of one document, to be found by system, path, metric and way.
pub struct PeerTables<'a> {
    systems: Vec<&'a str>,
    /// Release of each system.
    releases: Vec<Option<&'a str>>,
    figures: HashMap<Key<'a>, &'a Figure>,
    /// Figures of Linux, by path.
    of_linux: HashMap<&'a str, Vec<&'a Figure>>,
}

type Key<'a> = (&'a str, &'a str, MetricKey<'a>, Option<&'a str>);

/// Row of a table: a metric of one way.
struct Row<'a> {
    title: String,
    cells: Vec<Option<&'a Figure>>,
}

impl<'a> PeerTables<'a> {
    /// Returns the figures of the document, if it has any of Linux.
    pub fn of(source: &'a Source) -> Option<Self> {
        let is_system = |name: &&str| is_linux(name) || *name == NOSTALL;
        let all = source.figures.iter().map(|figure| &*figure.strategy);
        let mut systems = distinct(all.filter(is_system));
        // Nostall is last, even if the first path has no row of it.
        systems.sort_by_key(|name| *name == NOSTALL);
        let release = |system: &&str| {
            let mut peers = source.host.peers.iter();
            peers.find_map(|peer| match &peer.state {
                State::Release(release) if peer.name == *system => Some(&**release),
                _ => None,
            })
        };
        let releases = systems.iter().map(release).collect();
        let mut figures = HashMap::new();
        let mut of_linux: HashMap<_, Vec<_>> = HashMap::new();
        for figure in &source.figures {
            if is_linux(&figure.strategy) {
                of_linux.entry(&*figure.path).or_default().push(figure);
            }
            let key = (&*figure.strategy, &*figure.path);
            let key = (key.0, key.1, metric(figure), figure.profile.as_deref());
            figures.entry(key).or_insert(figure);
        }
        systems.iter().any(|name| is_linux(name)).then_some(Self {
            systems,
            releases,
            figures,
            of_linux,
        })
    }

    /// Returns the table of the figures that explain the stalls, for these paths.
    pub fn table(&self, paths: &[&'a str], parts: Parts) -> Markup {
        let parts = paths.iter().map(|path| {
            let named =
                |figure: &Figure| Some(parts(path)?.shown(metric(figure))?.title.to_owned());
            (*path, self.rows(path, named, false))
        });
        let parts: Vec<_> = parts.filter(|(_, rows)| !rows.is_empty()).collect();
        self.markup(&parts)
    }

    /// Returns the table of the test program's times on a path, if there are any.
    pub fn programs(&self, path: &'a str) -> Option<Markup> {
        let rows = self.rows(path, program, true);
        (!rows.is_empty()).then(|| self.markup(&[(path, rows)]))
    }

    /// Returns a row for each figure of Linux that `named` has a title for. A program's way is a
    /// device of Linux, and nostall has none.
    fn rows(
        &self,
        path: &'a str,
        named: impl Fn(&Figure) -> Option<String>,
        is_program: bool,
    ) -> Vec<Row<'a>> {
        let of_path = self.of_linux.get(path).into_iter().flatten().copied();
        let titled = of_path.filter_map(|one| Some((named(one)?, one)));
        let mut titles = HashMap::new();
        let keys = titled.map(|(title, one)| {
            let key = (metric(one), one.profile.as_deref());
            titles.entry(key).or_insert(title);
            key
        });
        let keys = distinct(keys);
        let rows = keys.into_iter().map(|key| {
            let (metric, way) = key;
            let cells = self.systems.iter().map(|&system| {
                let way = way.filter(|_| !is_program || system != NOSTALL);
                self.figures.get(&(system, path, metric, way)).copied()
            });
            let title = titles.remove(&key).unwrap_or_default();
            Row {
                title: way.map_or(title.clone(), |way| format!("{title}, {way}")),
                cells: cells.collect(),
            }
        });
        // A row without nostall compares nothing. Its figures are in the path's own tables.
        let has_ours = self.systems.contains(&NOSTALL);
        let compares = |row: &Row<'_>| !has_ours || row.cells.last().is_some_and(Option::is_some);
        rows.filter(compares).collect()
    }

    fn markup(&self, parts: &[(&str, Vec<Row<'_>>)]) -> Markup {
        html! {
            div.wide {
                table {
                    thead {
                        tr {
                            th { "" }
                            @for (system, release) in self.systems.iter().zip(&self.releases) {
                                th {
                                    (system)
                                    @if let Some(release) = release { br; small { (release) } }
                                }
                            }
                        }
                    }
                    @for (path, rows) in parts {
                        tbody {
                            @if parts.len() > 1 {
                                tr { th.heading colspan=(self.systems.len() + 1) {
                                    a href={"#" (path)} { (path) }
                                } }
                            }
                            @for row in rows {
                                tr {
                                    th { (row.title) }
                                    @for (system, cell) in self.systems.iter().zip(&row.cells) {
                                        td.best[*system == NOSTALL] {
                                            @if let Some(figure) = cell {
                                                (value(figure.value, &figure.unit))
                                            } @else { "-" }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

pub fn is_linux(strategy: &str) -> bool {
    strategy.starts_with("linux-")
}

/// Returns the title of a time of the test program: its size, and the kind of time.
fn program(figure: &Figure) -> Option<String> {
    let size = figure.case.as_deref()?.strip_suffix("-byte-write")?;
    let size: u64 = size.parse().ok()?;
    let kind = match &*figure.metric {
        "ns" => "real",
        "user_ns" => "user",
        "system_ns" => "system",
        _ => return None,
    };
    let bytes = if size == 1 { "byte" } else { "bytes" };
    Some(format!(
        "{} {bytes}, {kind}",
        nostall_figures::numbers::grouped(size)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(figures: &[(&str, &str, Option<&str>, &str, f64)]) -> Source {
        let figures = figures
            .iter()
            .map(|(path, strategy, profile, metric, value)| {
                serde_json::json!({"path": path, "strategy": strategy, "on": "qemu",
                "profile": profile, "metric": metric.split(' ').next(),
                "case": metric.split(' ').nth(1), "value": value, "unit": "1"})
            });
        let host = serde_json::json!({"peers": [{"name": "linux-6.1", "release": "6.1.192"}]});
        let document = serde_json::json!(
            {"schema": 2, "host": host, "results": figures.collect::<Vec<_>>()});
        Source::parse("a".to_owned(), document.to_string()).unwrap()
    }

    /// Returns the table's text, a row for each line, cells separated by a bar.
    fn text(table: Markup) -> Vec<String> {
        let rows = table.into_string();
        let rows = rows.split("<tr>").skip(1).map(|row| {
            let mut text = String::new();
            let row = row.replace("</td>", "|").replace("</th>", "|");
            let mut is_tag = false;
            for c in row.chars() {
                match c {
                    '<' => is_tag = true,
                    '>' => is_tag = false,
                    c if !is_tag => text.push(c),
                    _ => {}
                }
            }
            text
        });
        rows.collect()
    }

    #[test]
    fn linux_before_linux_after_and_nostall_are_columns_of_one_table_for_each_path() {
        let source = source(&[
            ("pci", "nostall", None, "ns_per_read", 1.0),
            ("pci", "linux-6.1-before", None, "ns_per_read", 3.0),
            ("pci", "linux-6.1", None, "ns_per_read", 2.0),
            ("pci", "ports", None, "ns_per_read", 9.0),
            (
                "console",
                "linux-6.1",
                Some("printed"),
                "ns_per_printk",
                8.0,
            ),
            ("console", "nostall", Some("printed"), "ns_per_printk", 7.0),
        ]);
        let beside = PeerTables::of(&source).unwrap();
        let expected = [
            "|linux-6.1-before|linux-6.16.1.192|nostall|",
            "pci|",
            "Time for each configuration read|3|2|1|",
            "console|",
            "Time that a log call takes from its caller, printed|-|8|7|",
        ];
        let parts = crate::experiments::SUPPLIED.parts;
        let table = beside.table(&["pci", "console", "spi"], parts);
        assert_eq!(text(table), expected);
        assert!(beside.programs("pci").is_none());
    }

    #[test]
    fn the_test_programs_times_stand_beside_those_of_nostall_which_has_no_such_device() {
        let real = "ns 2500-byte-write";
        let source = source(&[
            ("uart", "linux-6.1", Some("tty"), real, 5.0),
            (
                "uart",
                "linux-6.1",
                Some("tty"),
                "user_ns 1-byte-write",
                4.0,
            ),
            ("uart", "nostall", None, real, 3.0),
        ]);
        let rows = text(PeerTables::of(&source).unwrap().programs("uart").unwrap());
        assert_eq!(rows[1], "2,500 bytes, real, tty|5|3|");
        // Nostall has no user time.
        assert_eq!(rows.len(), 2);
    }

    #[test]
    fn a_document_without_linux_has_no_such_table() {
        assert!(PeerTables::of(&source(&[("pci", "nostall", None, "ns_per_read", 1.0)])).is_none());
    }
}

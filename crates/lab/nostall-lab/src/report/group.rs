//! Figures that may be compared: those of one run on one machine, from every document.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use super::source::Source;
use nostall_figures::figure::Figure;

/// A metric and its case.
pub type MetricKey<'a> = (&'a str, Option<&'a str>);

/// Returns the metric and the case of a figure.
pub fn metric(figure: &Figure) -> MetricKey<'_> {
    (&figure.metric, figure.case.as_deref())
}

/// Figures of one command on one port of one machine.
pub struct Group<'a> {
    pub path: &'a str,
    pub on: &'a str,
    pub profile: Option<&'a str>,
    pub command: Option<&'a str>,
    pub strategies: Vec<&'a str>,
    pub metrics: Vec<MetricKey<'a>>,
    /// Numbers of the documents that have one of the figures.
    pub sources: Vec<usize>,
    cells: HashMap<(usize, &'a str, MetricKey<'a>), &'a Figure>,
    /// Figures whose cell was taken.
    pub others: Vec<&'a Figure>,
}

impl<'a> Group<'a> {
    fn of(figures: &[(usize, &'a Figure)]) -> Self {
        let first = figures[0].1;
        let mut group = Self {
            path: &first.path,
            on: &first.on,
            profile: first.profile.as_deref(),
            command: first.command.as_deref(),
            strategies: distinct(figures.iter().map(|(_, one)| &*one.strategy)),
            metrics: distinct(figures.iter().map(|(_, one)| metric(one))),
            sources: distinct(figures.iter().map(|(source, _)| *source)),
            cells: HashMap::new(),
            others: Vec::new(),
        };
        for &(source, figure) in figures {
            let key = (source, &*figure.strategy, metric(figure));
            match group.cells.entry(key) {
                Entry::Vacant(cell) => {
                    cell.insert(figure);
                }
                Entry::Occupied(_) => group.others.push(figure),
            }
        }
        group
    }

    /// Returns a figure of one of the documents.
    pub fn get(&self, source: usize, strategy: &str, metric: MetricKey<'_>) -> Option<&'a Figure> {
        self.cells.get(&(source, strategy, metric)).copied()
    }

    /// Returns the finite value of a figure without a case.
    pub fn value(&self, source: usize, strategy: &str, name: &str) -> Option<f64> {
        let figure = self.get(source, strategy, (name, None))?;
        Some(figure.value).filter(|value| value.is_finite())
    }

    /// Returns the value of an option in the group's command.
    pub fn option(&self, name: &str) -> Option<&'a str> {
        let mut words = self.command?.split([' ', '=']);
        words.find(|word| *word == name)?;
        words.next()
    }
}

/// Groups the figures of all documents, in the order of their first figures.
pub fn groups(sources: &[Source]) -> Vec<Group<'_>> {
    let mut places = HashMap::new();
    let mut lists: Vec<Vec<_>> = Vec::new();
    for (source, document) in sources.iter().enumerate() {
        for figure in &document.figures {
            let key = (&figure.path, &figure.on, &figure.profile, &figure.command);
            let place = *places.entry(key).or_insert(lists.len());
            if place == lists.len() {
                lists.push(Vec::new());
            }
            lists[place].push((source, figure));
        }
    }
    lists.iter().map(|figures| Group::of(figures)).collect()
}

/// Returns each value once, in the order of the first ones.
pub fn distinct<T: Copy + Eq + std::hash::Hash>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = HashSet::new();
    values.filter(|value| seen.insert(*value)).collect()
}

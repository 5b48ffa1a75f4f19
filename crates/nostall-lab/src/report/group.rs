//! Figures that may be compared: those of one run on one machine, from every document.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use super::source::{Figure, Source};

/// Cells of a table for each of its figures, at most. A table of fewer figures is cut up.
const SPARSE: usize = 16;

/// Figures of one command on one port of one machine.
pub struct Group<'a> {
    pub path: &'a str,
    pub on: &'a str,
    pub profile: Option<&'a str>,
    pub command: Option<&'a str>,
    pub strategies: Vec<&'a str>,
    pub metrics: Vec<&'a str>,
    /// Numbers of the documents that have one of the figures.
    pub sources: Vec<usize>,
    cells: HashMap<(usize, &'a str, &'a str), &'a Figure>,
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
            metrics: distinct(figures.iter().map(|(_, one)| &*one.metric)),
            sources: distinct(figures.iter().map(|(source, _)| *source)),
            cells: HashMap::new(),
            others: Vec::new(),
        };
        for &(source, figure) in figures {
            let key = (source, &*figure.strategy, &*figure.metric);
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
    pub fn get(&self, source: usize, strategy: &'a str, metric: &'a str) -> Option<&'a Figure> {
        self.cells.get(&(source, strategy, metric)).copied()
    }

    /// Returns the value of a figure.
    pub fn value(&self, source: usize, strategy: &'a str, metric: &'a str) -> Option<f64> {
        self.get(source, strategy, metric)?.value
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
    let mut groups = Vec::new();
    for figures in lists {
        let group = Group::of(&figures);
        if group.strategies.len() * group.metrics.len() <= SPARSE * figures.len() {
            groups.push(group);
            continue;
        }
        // Foreign documents only. One column for each table has no empty cells.
        let mut columns: Vec<Vec<_>> = vec![Vec::new(); group.strategies.len()];
        let strategies = group.strategies.iter().enumerate();
        let places: HashMap<_, _> = strategies.map(|(at, name)| (*name, at)).collect();
        for figure in figures {
            columns[places[&*figure.1.strategy]].push(figure);
        }
        groups.extend(columns.iter().map(|figures| Group::of(figures)));
    }
    groups
}

/// Returns each value once, in the order of the first ones.
pub fn distinct<T: Copy + Eq + std::hash::Hash>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = HashSet::new();
    values.filter(|value| seen.insert(*value)).collect()
}

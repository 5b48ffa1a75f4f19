//! Pictures of a page: bars of the figures that explain a stall, and recorded time lines.

use std::collections::HashMap;

use serde::Serialize;

use super::beside::is_linux;
use super::drawing::Drawing;
use super::group::{Group, MetricKey};
use super::part::{Limit, PagePart};
use super::source::Source;
use super::text::value;
use nostall_figures::figure::Figure;
use nostall_figures::metric::{Metric, Shown};

/// A picture of values below this one would be a picture of zeros. Its figures are in the tables.
const NEARLY_ZERO: f64 = 0.01;

/// Picture of a page.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Picture<'a> {
    Bars(Bars<'a>),
    Lanes(Lanes<'a>),
}

/// Values of one metric as bars.
#[derive(Serialize)]
pub struct Bars<'a> {
    pub title: String,
    pub on: &'a str,
    pub command: Option<&'a str>,
    pub limit: Option<Limit>,
    bars: Vec<Bar<'a>>,
}

#[derive(Serialize)]
struct Bar<'a> {
    strategy: &'a str,
    source: &'a str,
    is_ours: bool,
    value: f64,
    text: String,
    range: Option<String>,
}

/// Time lines of strategies on one port.
#[derive(Serialize)]
pub struct Lanes<'a> {
    pub title: String,
    pub on: &'a str,
    pub lines: Vec<&'a Drawing>,
}

/// Drawings of a path, each with the number of its document.
pub type Drawn<'a> = [(usize, &'a Drawing)];

/// Returns the pictures of a path: first time lines, then bars.
pub fn pictures<'a>(
    path: &str,
    part: Option<&PagePart>,
    sources: &'a [Source],
    groups: &[&Group<'a>],
    drawings: &Drawn<'a>,
) -> Vec<Picture<'a>> {
    let mut all = lanes(part.map_or(path, |part| part.lanes), sources, drawings);
    let metrics = part.into_iter().flat_map(|part| {
        let shown = |metric: &'static Metric| metric.shown.iter().map(move |one| (metric, one));
        let metrics = part.metrics.iter().copied().flat_map(shown);
        metrics.map(move |(metric, shown)| (part, metric, shown))
    });
    for (part, metric, shown) in metrics {
        let drawn = |group: &&&Group<'_>| shown.drawn.contains(&group.on);
        let mut places = HashMap::new();
        let mut best: Vec<(f64, Bars<'a>)> = Vec::new();
        for group in groups.iter().filter(drawn) {
            let Some(bars) = bars(part, (metric, shown), sources, group) else {
                continue;
            };
            // Runs that differ in their length are one comparison; the longest is drawn.
            let alike = format!("{} {:?} {}", group.on, group.profile, kind_of_run(group));
            let lengths = group.strategies.iter();
            let lengths = lengths.filter_map(|one| group.value(group.sources[0], one, "bytes"));
            let length = lengths.fold(0.0, f64::max);
            let place = *places.entry(alike).or_insert(best.len());
            match best.get_mut(place) {
                Some(known) if known.0 < length => *known = (length, bars),
                Some(_) => {}
                None => best.push((length, bars)),
            }
        }
        all.extend(best.into_iter().map(|(_, bars)| Picture::Bars(bars)));
    }
    all
}

/// Returns the command without the options that change the length of a run, name its machine or
/// add systems.
fn kind_of_run(group: &Group<'_>) -> String {
    let mut words = group.command.unwrap_or_default().split([' ', '=']);
    let mut kind = String::new();
    while let Some(word) = words.next() {
        if ["--on", "--bytes", "--frames", "--peers"].contains(&word) {
            words.next();
        } else {
            kind += word;
            kind.push(' ');
        }
    }
    kind
}

fn bars<'a>(
    part: &PagePart,
    (metric, shown): (&Metric, &Shown),
    sources: &'a [Source],
    group: &Group<'a>,
) -> Option<Bars<'a>> {
    let is_it = |key: &&MetricKey<'_>| metric.case_of(key.0, key.1) == Some(shown.case);
    let metric = *group.metrics.iter().find(is_it)?;
    let mut bars = Vec::new();
    for &source in &group.sources {
        for &strategy in &group.strategies {
            let Some(figure) = group.get(source, strategy, metric) else {
                continue;
            };
            if !figure.value.is_finite() {
                continue;
            }
            bars.push(Bar {
                strategy,
                source: &sources[source].name,
                is_ours: part.is_ours(strategy),
                value: figure.value,
                text: value(figure.value, &figure.unit),
                range: range(figure),
            });
        }
    }
    let port = group
        .profile
        .map_or(String::new(), |port| format!(", {port}"));
    let is_worth = |bar: &Bar<'_>| bar.value.abs() >= NEARLY_ZERO;
    let is_beside = |bar: &Bar<'_>| !is_linux(bar.strategy);
    let is_drawn = bars.len() > 1 && bars.iter().any(is_worth) && bars.iter().any(is_beside);
    is_drawn.then(|| Bars {
        title: format!("{}{port}", shown.title),
        on: group.on,
        command: group.command,
        limit: part.limit(group, group.sources[0], metric),
        bars,
    })
}

/// Returns the spread of a figure's measurements, if there is one.
pub fn range(figure: &Figure) -> Option<String> {
    let (low, high) = figure.low.zip(figure.high)?;
    let text = |number| value(number, &figure.unit);
    (low != high).then(|| format!("{} to {}", text(low), text(high)))
}

/// Returns the recorded time lines of a path, those of one port together.
fn lanes<'a>(title: &str, sources: &[Source], drawings: &Drawn<'a>) -> Vec<Picture<'a>> {
    let mut places = HashMap::new();
    let mut all: Vec<Lanes<'a>> = Vec::new();
    for &(source, line) in drawings {
        let port = &*line.profile;
        let place = *places.entry((source, &*line.on, port)).or_insert(all.len());
        if let Some(lanes) = all.get_mut(place) {
            lanes.lines.push(line);
            continue;
        }
        let name = match sources.len() {
            1 => String::new(),
            _ => format!(" ({})", sources[source].name),
        };
        all.push(Lanes {
            title: format!("{title}, {port}{name}"),
            on: &line.on,
            lines: vec![line],
        });
    }
    all.into_iter().map(Picture::Lanes).collect()
}

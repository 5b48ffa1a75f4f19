//! Page of figures: one file of HTML that loads nothing.

use std::collections::HashMap;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use super::beside::PeerTables;
use super::group::{Group, MetricKey, distinct, groups};
use super::part::{PagePart, Parts};
use super::picture::{Picture, pictures, range};
use super::source::Source;
use super::text::{goal, place, value};
use crate::host::{Host, Peer, State};
use nostall_figures::figure::Figure;

const STYLE: &str = include_str!("page.css");
const SCRIPTS: [&str; 3] = [
    include_str!("vendor/d3.min.js"),
    include_str!("vendor/plot.umd.min.js"),
    include_str!("page.js"),
];

/// Parts of the page that the experiments supply.
#[derive(Clone, Copy)]
pub struct Supplied {
    /// Makes the tour's rows of a document, where it has their figures.
    pub tour: fn(&Source) -> Vec<TourSection>,
    /// Finds the part of an experiment by its name.
    pub parts: Parts,
}

/// Names of the columns of the tour's table.
pub const HEADER: [&str; 8] = [
    "", "before", "Linux", "nostall", "limit", "factor", "/Linux", "on",
];

/// Rows of one experiment in the tour's table.
pub struct TourSection {
    pub path: &'static str,
    pub heading: &'static str,
    /// Cells of the tour's columns.
    pub rows: Vec<[String; 8]>,
}

/// Returns the page of these documents. It leads to the project in `project`, if the page lies there.
pub fn page(sources: &[Source], supplied: Supplied, project: Option<&str>) -> String {
    let groups = groups(sources);
    let paths = distinct(groups.iter().map(|group| group.path));
    // No document can contain the hash of itself.
    let mut hash = Sha256::new();
    sources.iter().for_each(|one| hash.update(&one.text));
    let nonce = format!("{:x}", hash.finalize());
    let policy = format!(
        "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'; \
         script-src 'nonce-{nonce}'"
    );
    let mut of_paths: HashMap<_, Vec<_>> = HashMap::new();
    for group in &groups {
        of_paths.entry(group.path).or_default().push(group);
    }
    let mut drawn: HashMap<_, Vec<_>> = HashMap::new();
    for (number, source) in sources.iter().enumerate() {
        for drawing in &source.drawings {
            let of_path = drawn.entry(&*drawing.path).or_default();
            of_path.push((number, drawing));
        }
    }
    let besides: Vec<_> = sources.iter().map(PeerTables::of).collect();
    let mut all = Vec::new();
    let sections = paths.iter().map(|path| {
        let groups = &of_paths[path];
        let drawn = drawn.get(path).map_or(&[][..], Vec::as_slice);
        let first = all.len();
        let part = (supplied.parts)(path);
        all.extend(pictures(path, part, sources, groups, drawn));
        drawn_section((path, part), (first, &all))
    });
    let sections: Vec<_> = sections.collect();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "nostall: figures" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "Kernels that do not stall on slow I/O" }
                    (introduction(project))
                    button #theme type="button" hidden { "Theme: as the system" }
                    nav {
                        @for path in &paths { a href={"#" (path)} { (path) } " " }
                        a href="#machine" { "tables" }
                    }
                }
                main {
                    @for section in &sections { (section) }
                    (machines(sources))
                    @for source in sources { (tour(source, (supplied.tour)(source), sources.len() > 1)) }
                    @for (source, beside) in sources.iter().zip(&besides) {
                        @if let Some(beside) = beside {
                            (linux(beside, &paths, supplied.parts, (sources.len() > 1).then_some(&source.name)))
                        }
                    }
                    @for path in &paths {
                        (figures((path, (supplied.parts)(path)), sources, &besides, &of_paths[path]))
                    }
                }
                footer {
                    p {
                        "Figures with the mark " (badge("model")) " are of a model in virtual "
                        "time. They are exact, and stand in no ratio with measured ones."
                    }
                    p {
                        "The page is one file and loads nothing. Charts: Observable Plot and D3 "
                        "(ISC licence)."
                    }
                }
                @for (n, source) in sources.iter().enumerate() {
                    script type="application/json" id={"document-" (n)} data-name=(source.name) {
                        (PreEscaped(in_script(&source.text)))
                    }
                }
                script #pictures type="application/json" {
                    (PreEscaped(in_script(&serde_json::to_string(&all).unwrap_or_default())))
                }
                @for script in SCRIPTS { script nonce=(nonce) { (PreEscaped(script)) } }
            }
        }
    };
    page.into_string() + "\n"
}

/// Returns JSON that no parser of HTML takes for a tag.
fn in_script(json: &str) -> String {
    let escaped = json.replace('<', "\\u003c").replace('>', "\\u003e");
    escaped.replace('&', "\\u0026")
}

fn introduction(project: Option<&str>) -> Markup {
    html! {
        p #introduction {
            "nostall is a set of Rust crates that keep kernels from stalling on slow I/O. "
            "Pictures, then tables, compare ways of the same I/O: " code { "before" } " a fix, "
            code { "Linux" } "'s fix in nostall's kernel, real Linux (" code { "linux-6.1" }
            "), and " code { "nostall" } " (blue). "
            code { "nostall-lab run all --report page.html" } " prints this page for your machine."
        }
        @if let Some(project) = project {
            p {
                a href={(project) "/README.md"} { "README of nostall" } ", "
                a href={(project) "/docs/src/SUMMARY.md"} { "its book" } ", "
                a href={(project) "/docs/src/report.md"} { "its chapter on this page" }
            }
        }
        p {
            "Each comparison was made in one run. Lower is better, except where a name says "
            "otherwise. A shadow marks the side to which a table scrolls."
        }
    }
}

fn badge(on: &str) -> Markup {
    let class = if on == "model" {
        "badge model"
    } else {
        "badge"
    };
    html! { span class=(class) { (place(on)) } }
}

fn machines(sources: &[Source]) -> Markup {
    type Line = (&'static str, fn(&Host) -> Option<String>);
    const LINES: [Line; 6] = [
        ("nostall", |host| host.nostall.clone()),
        ("CPU", |host| host.cpu.clone()),
        ("CPUs", |host| Some(host.cpus?.to_string())),
        ("system", |host| {
            let words = [host.os.clone(), host.arch.clone()];
            let words: Vec<_> = words.into_iter().flatten().collect();
            (!words.is_empty()).then(|| words.join(", "))
        }),
        ("QEMU", |host| {
            let words = [host.qemu.clone(), host.machine.clone()];
            let words: Vec<_> = words.into_iter().flatten().collect();
            (!words.is_empty()).then(|| words.join(", "))
        }),
        ("KVM", |host| {
            let kvm = host.kvm.as_ref()?;
            Some(match kvm.interprets {
                true => format!(
                    "interprets guest code, {} ns an instruction: its times count for nothing",
                    kvm.ns_per_instruction
                ),
                false => "runs guest code in hardware".to_owned(),
            })
        }),
    ];
    let peers = sources.iter().flat_map(|source| &source.host.peers);
    let peers = distinct(peers.map(|peer| &*peer.name));
    let states: Vec<_> = sources.iter().map(|source| states(&source.host)).collect();
    html! {
        section #machine {
            h2 { "Machine" }
            div.wide {
                table {
                    thead {
                        tr {
                            th { "" }
                            @for source in sources { th.text { (source.name) } }
                        }
                    }
                    tbody {
                        @for (name, line) in LINES {
                            @let cells: Vec<_> = sources.iter().map(|one| line(&one.host)).collect();
                            @if cells.iter().any(Option::is_some) {
                                tr {
                                    th { (name) }
                                    @for cell in cells {
                                        td.text { (cell.as_deref().unwrap_or("-")) }
                                    }
                                }
                            }
                        }
                        @for name in peers {
                            tr {
                                th { (name) }
                                @for states in &states {
                                    td.text {
                                        @for line in states.get(name).into_iter().flatten() {
                                            div.state { (line) }
                                        }
                                    }
                                }
                            }
                        }
                        tr {
                            th { "figures" }
                            @for (n, source) in sources.iter().enumerate() {
                                td.text {
                                    (source.figures.len()) " "
                                    a hidden data-download=(n) { "download JSON" }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns a line for each state of each peer: its release, or the reason why it has no rows.
fn states(host: &Host) -> HashMap<&str, Vec<String>> {
    let line = |peer: &Peer| {
        let path = peer.path.as_ref().map(|path| format!("{path}: "));
        let (State::Release(state) | State::Missing(state) | State::Failed(state)) = &peer.state;
        path.unwrap_or_default() + state
    };
    let mut states: HashMap<_, Vec<_>> = HashMap::new();
    for peer in &host.peers {
        states.entry(&*peer.name).or_default().push(line(peer));
    }
    states
}

/// Returns the tour's table of a document that has its figures.
fn tour(source: &Source, parts: Vec<TourSection>, has_name: bool) -> Markup {
    if parts.is_empty() {
        return html! {};
    }
    html! {
        section {
            h2 { "Before, Linux, nostall" @if has_name { ": " (source.name) } }
            p {
                "Linux: the strategy of its fix. Limit: of the hardware or the work. Factor: "
                "before to nostall. /Linux: Linux to nostall."
            }
            div.wide {
                table {
                    thead {
                        tr {
                            @for name in HEADER {
                                th { (name) }
                            }
                        }
                    }
                    @for part in &parts {
                        tbody {
                            tr { th.heading colspan="8" { div {
                                a href={"#" (part.path)} { (part.path) } ": " (part.heading)
                            } } }
                            @for [name, before, linux, nostall, limit, factor, to_linux, on] in &part.rows {
                                tr {
                                    th { (name) }
                                    td { (before) }
                                    td { (linux) }
                                    td.best { (nostall) }
                                    td { (limit) }
                                    td { (factor) }
                                    td { (to_linux) }
                                    td.text { (badge(on)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the table of Linux beside nostall, under the name of its document if there are several.
fn linux<'a>(
    beside: &PeerTables<'a>,
    paths: &[&'a str],
    parts: Parts,
    name: Option<&String>,
) -> Markup {
    html! {
        section {
            h2 { "Linux before, Linux after, nostall" @if let Some(name) = name { ": " (name) } }
            p {
                "Each system booted in turn in QEMU. " code { "-before" } ": each fix undone. "
                code { "-after" } ": with configuration space through memory first, which Linux "
                "did not take. " code { "-rt" } ": a thread prints."
            }
            (beside.table(paths, parts))
        }
    }
}

/// Returns the pictures of a path: those of `all` from `first` on.
fn drawn_section(
    (path, part): (&str, Option<&PagePart>),
    (first, all): (usize, &[Picture<'_>]),
) -> Markup {
    html! {
        section id=(path) {
            h2 { (path) }
            @if let Some(part) = part { p { (part.stall) } }
            @for (n, picture) in all.iter().enumerate().skip(first) { (figure(n, picture)) }
            p { a href={"#" (path) "-figures"} { "Every figure of " (path) } }
        }
    }
}

/// Returns the tables of a path.
fn figures<'a>(
    (path, part): (&'a str, Option<&PagePart>),
    sources: &'a [Source],
    besides: &[Option<PeerTables<'a>>],
    groups: &[&Group<'a>],
) -> Markup {
    html! {
        section id={(path) "-figures"} {
            h2 { "Figures of " a href={"#" (path)} { (path) } }
            @for (source, beside) in sources.iter().zip(besides) {
                @if let Some(programs) = beside.as_ref().and_then(|one| one.programs(path)) {
                    h3 {
                        "Test program of Linux's fix" @if sources.len() > 1 { ": " (source.name) }
                    }
                    p {
                        "One write. " code { "sertest" } ": to a device that calls the console's "
                        "write function; " code { "tty" } ": to " code { "/dev/ttyS0" } ". "
                        "nostall's system time is the time that a second task did not get."
                    }
                    (programs)
                }
            }
            @for group in groups { (tables(group, part, sources)) }
        }
    }
}

fn figure(n: usize, picture: &Picture<'_>) -> Markup {
    let (title, on) = match picture {
        Picture::Bars(bars) => (&bars.title, bars.on),
        Picture::Lanes(lanes) => (&lanes.title, lanes.on),
    };
    html! {
        figure {
            figcaption {
                b { (title) } " "
                (badge(on))
                @if let Picture::Bars(bars) = picture {
                    @if let Some(limit) = &bars.limit {
                        br; "Limit: " (limit.text) ", " (limit.why) "."
                    }
                    @if let Some(command) = bars.command { br; code { (command) } }
                }
            }
            div.picture data-picture=(n) { noscript { "The picture needs JavaScript." } }
            p.value role="status" { }
        }
    }
}

/// Returns the tables of a group: first the figures that explain a stall, then all others.
fn tables(group: &Group<'_>, part: Option<&PagePart>, sources: &[Source]) -> Markup {
    let is_key = |metric: &&MetricKey<'_>| part.and_then(|part| part.shown(**metric)).is_some();
    let keys: Vec<_> = group.metrics.iter().filter(is_key).copied().collect();
    let metrics = group.metrics.iter().filter(|metric| !is_key(metric));
    let others: Vec<_> = metrics.copied().collect();
    html! {
        div.run {
            h3 {
                (group.profile.unwrap_or(group.path)) " " (badge(group.on))
            }
            @if let Some(command) = group.command {
                p { "Measure again: " code { (command) } }
            }
            (alike(group, part, sources, &keys))
            @if !others.is_empty() {
                details open[keys.is_empty()] {
                    summary { @if keys.is_empty() { "Figures" } @else { "All other figures" } }
                    (alike(group, part, sources, &others))
                }
            }
            @if !group.others.is_empty() {
                details {
                    summary { "Figures that were given again" }
                    ul {
                        @for figure in &group.others {
                            li {
                                (figure.strategy) " " code { (figure.metric) } " " (cell(figure))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns a table for each set of strategies that have the same metrics, so that no cell is empty.
fn alike(
    group: &Group<'_>,
    part: Option<&PagePart>,
    sources: &[Source],
    metrics: &[MetricKey<'_>],
) -> Markup {
    let mut places = HashMap::new();
    let mut sets: Vec<(Vec<_>, Vec<_>)> = Vec::new();
    for &metric in metrics {
        let has_it = |strategy: &&str| {
            let mut sources = group.sources.iter();
            sources.any(|&source| group.get(source, strategy, metric).is_some())
        };
        let strategies: Vec<_> = group.strategies.iter().copied().filter(has_it).collect();
        let place = *places.entry(strategies.clone()).or_insert(sets.len());
        if place == sets.len() {
            sets.push((strategies, Vec::new()));
        }
        sets[place].1.push(metric);
    }
    html! { @for (strategies, metrics) in &sets { (table(group, part, sources, strategies, metrics)) } }
}

fn table(
    group: &Group<'_>,
    part: Option<&PagePart>,
    sources: &[Source],
    strategies: &[&str],
    metrics: &[MetricKey<'_>],
) -> Markup {
    let several = sources.len() > 1;
    // A limit follows from figures of one document.
    let limits = metrics.iter().map(|metric| match &*group.sources {
        &[source] => part.and_then(|part| part.limit(group, source, *metric)),
        _ => None,
    });
    let limits: Vec<_> = limits.collect();
    let has_limits = limits.iter().any(Option::is_some);
    let rows = if several { "2" } else { "1" };
    html! {
        div.wide {
            table {
                thead {
                    tr {
                        th rowspan=(rows) { "" }
                        @for strategy in strategies {
                            th colspan=(group.sources.len()) { (strategy) }
                        }
                        @if has_limits { th.text rowspan=(rows) { "limit" } }
                    }
                    @if several {
                        tr {
                            @for _ in strategies {
                                @for source in &group.sources { th.document { (sources[*source].name) } }
                            }
                        }
                    }
                }
                tbody {
                    @for (metric, limit) in metrics.iter().zip(&limits) {
                        tr {
                            th {
                                @if let Some(shown) = part.and_then(|part| part.shown(*metric)) { (shown.title) br; }
                                code { (metric.0) }
                                @if let Some(case) = metric.1 { " " (case) }
                            }
                            @for &strategy in strategies {
                                @for &source in &group.sources {
                                    td {
                                        @match group.get(source, strategy, *metric) {
                                            Some(figure) => (cell(figure)),
                                            None => "-",
                                        }
                                    }
                                }
                            }
                            @if has_limits {
                                td.text {
                                    @if let Some(limit) = limit {
                                        (limit.text) br; small { (limit.why) }
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

/// Returns a value, with its spread and its bound below it.
fn cell(figure: &Figure) -> Markup {
    html! {
        (value(figure.value, &figure.unit))
        @if let Some(range) = range(figure) { br; small { (range) } }
        @if figure.n > 1 { br; small { "median of " (figure.n) } }
        @if let Some(bound) = figure.goal { br; small { (goal(bound, &figure.unit)) } }
    }
}

#[cfg(test)]
mod tests {
    use nostall_devices::uart::Profile;

    use super::*;

    fn source(name: &str, results: &str) -> Source {
        let text = format!("{{\"schema\": 2, \"host\": {{}}, \"results\": [{results}]}}");
        Source::parse(name.to_owned(), text).unwrap()
    }

    fn figure(strategy: &str, on: &str, metric: &str, value: &str) -> String {
        format!(
            r#"{{"path": "uart", "strategy": {strategy:?}, "on": {on:?}, "metric": {metric:?},
                "value": {value}, "unit": "1/B", "n": 1, "command": "nostall-lab run uart"}}"#
        )
    }

    fn made(sources: &[Source]) -> String {
        made_in(sources, None)
    }

    fn made_in(sources: &[Source], project: Option<&str>) -> String {
        let parts = crate::experiments::SUPPLIED.parts;
        let tour = |_: &Source| Vec::new();
        page(sources, Supplied { tour, parts }, project)
    }

    /// Returns the page's pictures as it carries them.
    fn pictures_of(page: &str) -> serde_json::Value {
        let (_, rest) = page
            .split_once("id=\"pictures\" type=\"application/json\">")
            .unwrap();
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
    }

    #[test]
    fn a_hostile_string_is_text_in_every_place() {
        let evil = r#"</script><script>alert(1)</script><img src=x onerror=a>"'&"#;
        let quoted = serde_json::to_string(evil).unwrap();
        let results = format!(
            r#"{{"path": {quoted}, "strategy": {quoted}, "on": {quoted}, "profile": {quoted},
                "metric": {quoted}, "value": 1, "unit": {quoted}, "command": {quoted}, "case": {quoted}}}"#
        );
        let peer = format!(r#"{{"name": {quoted}, "path": {quoted}, "failed": {quoted}}}"#);
        let text = format!(
            r#"{{"schema": 2, "host": {{"cpu": {quoted}, "peers": [{peer}]}}, "results": []}}"#
        );
        let hosted = Source::parse(evil.to_owned(), text).unwrap();
        let page = made(&[source(evil, &results), source("b", &results), hosted]);
        assert!(!page.contains("<img"), "{evil}");
        assert!(!page.contains("<script>alert"));
        assert!(!page.contains("onerror=a>"));
        assert_eq!(page.matches("</script>").count(), 3 + 1 + SCRIPTS.len());
        assert!(page.contains("&lt;/script&gt;&lt;script&gt;alert(1)"));
    }

    #[test]
    fn the_embedded_document_is_the_one_that_was_read() {
        let results = figure("a<b>&c", "qemu", "exits_per_byte", "1.50");
        let source = source("a.json", &results);
        let page = made(std::slice::from_ref(&source));
        let (_, rest) = page.split_once("id=\"document-0\"").unwrap();
        let (_, rest) = rest.split_once('>').unwrap();
        let embedded = rest.split_once("</script>").unwrap().0;
        assert!(
            embedded.contains("1.50"),
            "numbers are as they were written"
        );
        let same = |text| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(same(embedded), same(&source.text));
    }

    #[test]
    fn unknown_strategies_metrics_and_paths_are_in_the_table() {
        let results = [
            figure(
                "linux-6.1-before",
                "qemu",
                "bus_accesses_per_byte",
                "2.0002",
            ),
            figure("linux-6.1", "moon", "flux", "7e300"),
        ];
        let page = made(&[source("a.json", &results.join(","))]);
        for text in ["linux-6.1-before", "2.0002", "moon", "flux", "7.000e300"] {
            assert!(page.contains(text), "{text}");
        }
    }

    #[test]
    fn figures_of_the_model_share_no_picture_and_no_table_with_measured_ones() {
        let results = [
            figure("byte-polled", "model", "exits_per_byte", "2"),
            figure("fifo-burst", "model", "exits_per_byte", "1"),
            figure("byte-polled", "kvm", "exits_per_byte", "4"),
            figure("fifo-burst", "kvm", "exits_per_byte", "3"),
        ];
        let page = made(&[source("a.json", &results.join(","))]);
        let pictures = pictures_of(&page);
        let pictures = pictures.as_array().unwrap();
        let values = |n: usize| {
            let bars = pictures[n]["bars"].as_array().unwrap().iter();
            bars.map(|bar| bar["value"].as_f64().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (pictures[0]["on"].as_str(), values(0)),
            (Some("model"), vec![2.0, 1.0])
        );
        assert_eq!(
            (pictures[1]["on"].as_str(), values(1)),
            (Some("kvm"), vec![4.0, 3.0])
        );
        assert_eq!(pictures.len(), 2);
        assert!(page.contains("<span class=\"badge model\">model</span>"));
        assert_eq!(page.matches("class=\"run\"").count(), 2);
    }

    #[test]
    fn the_time_for_which_a_byte_holds_the_cpu_has_the_limit_of_the_port_of_its_command() {
        let result = |strategy, profile: &str| {
            let result = figure(strategy, "model", "stalled_ns_per_byte", "3400");
            let command = format!("nostall-lab run uart --on model{profile}");
            result.replace("nostall-lab run uart", &command)
        };
        for (profile, limit) in [
            ("", Profile::VM.access),
            (" --profile pc-16550a", Profile::PC_16550A.access),
            (" --profile=hp-dl380-gen9", Profile::HP_DL380_GEN9.access),
        ] {
            let results = ["byte-polled", "fifo-burst"].map(|strategy| result(strategy, profile));
            let page = made(&[source("a.json", &results.join(","))]);
            let limits = &pictures_of(&page)[0]["limit"]["value"];
            assert_eq!(limits.as_f64(), Some(limit.0 as f64), "{profile}");
        }
    }

    #[test]
    fn a_run_beside_linux_and_a_shorter_one_without_share_the_picture_of_the_longer() {
        let run = |command: &str, strategies: &[&str], bytes: &str| {
            let figures = strategies.iter().flat_map(|strategy| {
                let accesses = figure(strategy, "qemu", "bus_accesses_per_byte", "1.5");
                [accesses, figure(strategy, "qemu", "bytes", bytes)]
            });
            let figures: Vec<_> = figures.collect();
            figures.join(",").replace("nostall-lab run uart", command)
        };
        let results = [
            run(
                "nostall-lab run uart --bytes 1000 --on qemu",
                &["a", "b"],
                "1000",
            ),
            run(
                "nostall-lab run uart --peers=all",
                &["a", "linux-6.1"],
                "22454",
            ),
        ];
        let pictures = pictures_of(&made(&[source("a.json", &results.join(","))]));
        let pictures = pictures.as_array().unwrap();
        assert_eq!(pictures.len(), 1);
        assert_eq!(pictures[0]["bars"][1]["strategy"], "linux-6.1");
    }

    #[test]
    fn an_introduction_of_three_sentences_begins_the_page_and_says_how_to_print_it() {
        let page = made(&[source("a.json", "")]);
        let (before, rest) = page.split_once("<p id=\"introduction\">").unwrap();
        let text = rest.split_once("</p>").unwrap().0;
        assert!(!before.contains("<p"));
        assert_eq!((text.matches(". ").count(), text.ends_with('.')), (2, true));
        assert!(text.contains("<code>nostall-lab run all --report page.html</code>"));
    }

    #[test]
    fn the_page_leads_to_the_readme_and_the_book_where_it_lies_in_the_project() {
        let sources = [source("a.json", "")];
        for path in ["README.md", "docs/src/SUMMARY.md", "docs/src/report.md"] {
            let link = format!("href=\"../{path}\"");
            assert!(made_in(&sources, Some("..")).contains(&link), "{path}");
            assert!(!made(&sources).contains(path), "{path}");
        }
    }

    #[test]
    fn every_picture_stands_before_every_table() {
        let results = ["fifo-burst", "byte-polled"].map(|strategy| {
            let uart = figure(strategy, "kvm", "exits_per_byte", "1.5");
            let pci = figure(strategy, "kvm", "exits_per_read", "1.5");
            uart + "," + &pci.replace("uart", "pci")
        });
        let page = made(&[source("a.json", &results.join(","))]);
        let (page, _) = page.split_once("<footer>").unwrap();
        assert_eq!(page.matches("data-picture=").count(), 2);
        assert!(page.rfind("data-picture=") < page.find("<table"));
    }

    #[test]
    fn a_picture_of_zeros_or_of_linux_alone_is_left_out_and_its_figures_are_in_a_table() {
        for (strategies, value, drawn) in [
            (["fifo-burst", "byte-polled"], "0", 0),
            (["fifo-burst", "byte-polled"], "0.0099", 0),
            (["fifo-burst", "byte-polled"], "0.01", 1),
            (["linux-6.1", "linux-6.1-before"], "2", 0),
            (["linux-6.1", "nostall"], "2", 1),
        ] {
            let results = strategies.map(|one| figure(one, "kvm", "exits_per_byte", value));
            let page = made(&[source("a.json", &results.join(","))]);
            let pictures = pictures_of(&page).as_array().unwrap().len();
            assert_eq!(pictures, drawn, "{strategies:?} {value}");
            assert_eq!(page.matches(&format!("<td>{value}</td>")).count(), 2);
        }
    }

    #[test]
    fn strategies_with_other_metrics_have_a_table_of_their_own_without_empty_cells() {
        let results = [
            figure("fifo-burst", "kvm", "exits_per_byte", "1"),
            figure("nostall", "kvm", "bus_accesses_per_byte", "2"),
            figure("linux-6.1", "kvm", "bus_accesses_per_byte", "3"),
            figure("linux-6.1", "kvm", "ns_per_message", "4"),
        ];
        let page = made(&[source("a.json", &results.join(","))]);
        let (_, tables) = page.split_once("class=\"run\"").unwrap();
        assert_eq!(tables.matches("<table>").count(), 3);
        assert!(!tables.contains("<td>-</td>"));
    }

    #[test]
    fn several_documents_are_columns_of_one_table() {
        let results = |value| figure("fifo-burst", "kvm", "exits_per_byte", value);
        let sources = [
            source("a.json", &results("1.5")),
            source("b.json", &results("2.5")),
        ];
        let page = made(&sources);
        let row = page
            .split_once("<code>exits_per_byte</code></th>")
            .unwrap()
            .1;
        assert!(
            row.starts_with("<td>1.5</td><td>2.5</td>"),
            "{}",
            &row[..80]
        );
        assert!(page.contains("<th class=\"document\">b.json</th>"));
    }

    #[test]
    fn a_figure_that_is_given_twice_is_shown_twice() {
        let results = [
            figure("a", "kvm", "exits_per_byte", "1"),
            figure("a", "kvm", "exits_per_byte", "12345"),
        ];
        let page = made(&[source("a.json", &results.join(","))]);
        assert!(page.contains("12,345"));
    }

    #[test]
    fn the_page_allows_its_own_scripts_only_and_has_no_handlers_in_attributes() {
        let page = made(&[source("a.json", "")]);
        assert!(page.contains("default-src &#39;none&#39;") || page.contains("default-src 'none'"));
        let (head, _) = page.split_once("<script").unwrap();
        assert!(!head.contains(" on") || !head.contains("onclick="));
        for outside in ["src=\"", "<link", "@import", "url("] {
            assert!(!head.contains(outside), "{outside}");
        }
    }

    #[test]
    fn the_charts_are_the_published_files() {
        let readme = include_str!("vendor/README.md");
        for script in &SCRIPTS[..2] {
            let checksum = format!("{:x}", Sha256::digest(script));
            assert!(readme.contains(&checksum), "{checksum}");
            assert!(!script.contains("</script"));
        }
    }
}

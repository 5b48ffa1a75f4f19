//! A time-line of the CPUs that held the console, as SVG: a lane for each CPU.
//!
//! A lane is cut into columns. In each, a bar is as high as the share of the column's time for
//! which the CPU was held. So a slice of 29 us is visible as one.

use std::fmt::Write;

use super::outcome::{FloodOutcome, FloodPair};
use nostall_io::Nanos;
use nostall_work::console::{Context, What};

use super::run::Floods;
use nostall_figures::table::time;

/// In user units, as all lengths here.
const WIDTH: usize = 1_000;
/// Columns of a lane; each is a unit wide.
const COLUMNS: usize = 860;
const LEFT: usize = 110;
const LANE: usize = 22;
/// Between two lanes, for the marks.
const GAP: usize = 8;

/// Self-contained; light, or dark where that is preferred.
const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#222}\
.h{font-size:16px;font-weight:600}.s{font-weight:600}.r{text-anchor:end}.m{text-anchor:middle}\
.bg{fill:#fff}.lane{fill:#eef0f3}.tick{stroke:#99a;stroke-width:.5}\
.task{fill:#2f6fbf}.interrupt{fill:#e07b00}.panic{fill:#c2185b}.wait{fill:#9db7d8}\
.lockup{fill:#b00020}.stall{fill:#6a1b9a}.cascade{stroke:#e07b00;stroke-width:1.5}\
.at{stroke:#c2185b;stroke-width:1.5;stroke-dasharray:3 2}\
@media(prefers-color-scheme:dark){text{fill:#ddd}.bg{fill:#16181c}.lane{fill:#2a2d34}\
.task{fill:#5b9bea}.wait{fill:#3d5878}.lockup{fill:#ff5268}.stall{fill:#c78bff}\
.panic{fill:#ff5c9d}.at{stroke:#ff5c9d}.tick{stroke:#778}}";

/// Kinds of a column, from the bottom up.
const KINDS: [(&str, &str); 4] = [
    ("task", "prints, pre-emption off"),
    ("interrupt", "prints in an interrupt handler"),
    ("panic", "prints in a panic"),
    ("wait", "spins until the console is handed over"),
];

impl Floods {
    pub(super) fn picture(&self) -> String {
        let mut body = String::new();
        let mut y = 28;
        text(&mut body, LEFT, y, "h", "CPUs held by the console");
        y += 20;
        text(&mut body, LEFT, y, "", &self.log.describe());
        y += 20;
        legend(&mut body, y);
        y += 38;
        for runs in self.profiles() {
            for panics in [false, true] {
                let what = if panics {
                    "with a panic"
                } else {
                    "the whole log"
                };
                y += 34;
                let heading = format!("{}, {} baud: {what}", runs[0].profile.name, self.rate);
                text(&mut body, LEFT, y, "h", &heading);
                let spans = runs.iter().map(|run| run.outcome(panics).span());
                let span = spans.max().unwrap_or_default().max(Nanos(1));
                for run in runs {
                    y += 24;
                    strategy(&mut body, &mut y, run, run.outcome(panics), span);
                }
                axis(&mut body, &mut y, span);
            }
        }
        let height = y + 16;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
             aria-label=\"CPUs held by the console\">\n<style>{STYLE}</style>\n\
             <rect class=\"bg\" width=\"{WIDTH}\" height=\"{height}\"/>\n{body}</svg>\n"
        )
    }
}

impl FloodPair {
    const fn outcome(&self, panics: bool) -> &FloodOutcome {
        if panics { &self.panicked } else { &self.whole }
    }
}

/// The lanes of one strategy.
fn strategy(
    body: &mut String,
    y: &mut usize,
    run: &FloodPair,
    outcome: &FloodOutcome,
    span: Nanos,
) {
    let time = |at: Nanos| time(at.0 as f64);
    let mut what = format!(
        "{}: holds a CPU {}, a caller {}",
        run.strategy,
        time(outcome.longest_hold()),
        time(outcome.delay(1_000))
    );
    if !outcome.fired.is_empty() {
        let _ = write!(what, "; watchdogs fired {} times", outcome.fired.len());
    }
    if let Some(panic) = run.panicked.panic {
        let _ = match panic.first_byte {
            Some(first) => write!(what, "; a panic's text after {}", time(first)),
            None => write!(what, "; a panic's text never"),
        };
        let _ = write!(what, ", {} records unsent", run.panicked.unsent());
    }
    text(body, LEFT, *y, "s", &what);
    // Room for the first lane's marks.
    *y += 4;
    let top = *y + GAP;
    for cpu in 0..outcome.cpus.len() {
        *y += GAP;
        let label = format!("CPU {cpu}");
        text(body, LEFT - 8, *y + LANE - 6, "r", &label);
        lane(body, *y, outcome, cpu, span);
        *y += LANE;
    }
    if let Some(panic) = outcome.panic {
        let x = LEFT as f64 + column(panic.at - outcome.start, span);
        let _ = writeln!(
            body,
            "<path class=\"at\" d=\"M{x:.1} {top}V{y}\"><title>panic at {}</title></path>",
            panic.at - outcome.start
        );
    }
}

fn lane(body: &mut String, y: usize, outcome: &FloodOutcome, cpu: usize, span: Nanos) {
    // Where its time ends, so does the lane.
    let columns = column(outcome.span(), span).ceil() as usize;
    let width = columns.clamp(1, COLUMNS);
    let _ = writeln!(
        body,
        "<rect class=\"lane\" x=\"{LEFT}\" y=\"{y}\" width=\"{width}\" height=\"{LANE}\"/>"
    );
    let shares = shares(outcome, cpu, span);
    let mut below = [0; COLUMNS];
    for (kind, shares) in KINDS.iter().zip(shares) {
        // In half units. A share above zero is drawn as one whole unit at least.
        let heights = shares.map(|share| {
            ((share * 2.0 * LANE as f64).round() as usize).max(2 * usize::from(share > 0.0))
        });
        let mut from = 0;
        while from < COLUMNS {
            let same = |at: &usize| heights[*at] == heights[from] && below[*at] == below[from];
            let until = (from..COLUMNS).take_while(same).last().unwrap_or(from) + 1;
            let height = heights[from].min(2 * LANE - below[from]);
            if height > 0 {
                let top = y as f64 + LANE as f64 - (below[from] + height) as f64 / 2.0;
                let _ = writeln!(
                    body,
                    "<rect class=\"{}\" x=\"{}\" y=\"{top}\" width=\"{}\" height=\"{}\"/>",
                    kind.0,
                    LEFT + from,
                    until - from,
                    height as f64 / 2.0
                );
            }
            from = until;
        }
        for (below, height) in below.iter_mut().zip(heights) {
            *below = (*below + height).min(2 * LANE);
        }
    }
    for (_, fired) in outcome.fired.iter().filter(|(by, _)| *by == cpu) {
        let x = LEFT as f64 + column(fired.at - outcome.start, span);
        let (class, what, lasted) = match fired.what {
            What::SoftLockup(stuck) => ("lockup", "soft lockup, stuck for", stuck),
            What::Stall(lasts) => ("stall", "stall detected, for", lasts),
        };
        let (cascade, then) = match fired.cascaded {
            true => (" cascade", "; its handler became the console's owner"),
            false => ("", ""),
        };
        let _ = writeln!(
            body,
            "<path class=\"{class}{cascade}\" d=\"M{x:.1} {y}l-5 -8h10z\"><title>CPU {cpu} at {}: {what} {lasted}{then}</title></path>",
            fired.at - outcome.start,
        );
    }
}

/// The part of each column's time that a CPU was held, by [`KINDS`].
fn shares(outcome: &FloodOutcome, cpu: usize, span: Nanos) -> [[f64; COLUMNS]; 4] {
    let mut shares = [[0.0; COLUMNS]; 4];
    let mut add = |kind: usize, from: Nanos, until: Nanos| {
        let from = column(from - outcome.start, span);
        let until = column(until - outcome.start, span);
        let columns = shares[kind].iter_mut().enumerate().skip(from as usize);
        for (at, share) in columns.take_while(|(at, _)| (*at as f64) < until) {
            let overlap = until.min(at as f64 + 1.0) - from.max(at as f64);
            *share += overlap.max(0.0);
        }
    };
    for (_, hold) in outcome.holds.iter().filter(|(of, _)| *of == cpu) {
        let kind = match hold.context {
            Context::Task => 0,
            Context::Interrupt => 1,
            Context::Panic => 2,
        };
        add(3, hold.from, hold.owner_from);
        add(kind, hold.owner_from, hold.until);
    }
    shares
}

/// Where a time is.
fn column(at: Nanos, span: Nanos) -> f64 {
    at.0 as f64 / span.0 as f64 * COLUMNS as f64
}

fn axis(body: &mut String, y: &mut usize, span: Nanos) {
    // 1, 2 or 5 of something, so that there are some six to fourteen.
    let mut step = 1_u64;
    for factor in [2.0, 2.5, 2.0].iter().cycle() {
        if span.0 / step <= 12 {
            break;
        }
        step = (step as f64 * factor) as u64;
    }
    *y += 4;
    let mut at = 0;
    while at <= span.0 {
        let x = LEFT as f64 + column(Nanos(at), span);
        let _ = writeln!(
            body,
            "<path class=\"tick\" d=\"M{x:.1} {y}v5\"/><text class=\"m\" x=\"{x:.1}\" y=\"{}\">{}</text>",
            *y + 18,
            match at {
                0 => "0".to_owned(),
                at => Nanos(at).to_string().replace(".0 ", " "),
            }
        );
        at = at.saturating_add(step);
    }
    text(body, LEFT - 8, *y + 18, "r", "since line 1");
    *y += 20;
}

/// Draws two rows: the fills of a lane, and the marks on it.
fn legend(body: &mut String, y: usize) {
    let bar = |x, y| {
        format!(
            "<rect x=\"{x}\" y=\"{}\" width=\"12\" height=\"12\"",
            y - 10
        )
    };
    let mark = |x, y| format!("<path d=\"M{} {}l-5 -8h10z\"", x + 6, y - 1);
    let dash = |x, y| format!("<path d=\"M{} {}v14\"", x + 6, y - 11);
    let mut x = LEFT;
    for (class, what) in KINDS {
        x += entry(body, x, y, &bar(x, y), class, what);
    }
    let (mut x, y) = (LEFT, y + 20);
    for (class, what) in [
        ("lockup", "a soft lockup is reported"),
        ("stall", "a stall is reported"),
        (
            "stall cascade",
            "and the report makes its handler print all",
        ),
    ] {
        x += entry(body, x, y, &mark(x, y), class, what);
    }
    entry(body, x, y, &dash(x, y), "at", "the panic");
}

/// How wide it is.
fn entry(body: &mut String, x: usize, y: usize, shape: &str, class: &str, what: &str) -> usize {
    let _ = writeln!(body, "{shape} class=\"{class}\"/>");
    text(body, x + 16, y, "", what);
    34 + what.len() * 6
}

/// Escapes `text`, which may hold a file's name.
fn text(body: &mut String, x: usize, y: usize, class: &str, text: &str) {
    let safe = text.replace('&', "&amp;").replace('<', "&lt;");
    let safe: String = safe
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    let _ = writeln!(
        body,
        "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{safe}</text>"
    );
}

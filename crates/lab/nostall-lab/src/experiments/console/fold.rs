//! How floods become figures, and the figures verdicts.

use nostall_console::{StallDetector, Watchdog};
use nostall_devices::uart::{Line, Profile};
use nostall_io::Nanos;
use nostall_uart::LineSettings;
use nostall_work::console::PrintStrategy;

use super::metrics;
use super::outcome::{COUNTED_DELAY, COUNTED_LINE_USE, FloodOutcome, FloodPair, RATE};
use super::run::{Floods, Setup};
use nostall_figures::figure::{Figures, Goal, Row};
use nostall_figures::metric::Metric;
use nostall_figures::table::{percent, time};

/// A slice: a look, a FIFO-full, and slow accesses among them.
const LONGEST_HOLD: Nanos = Nanos::from_micros(100);

/// Hold of a console that prints inline in the flood.
const STALLED: Nanos = Nanos::from_secs(20);

/// Share of the line's capacity.
pub const LINE_USE: f64 = 0.99;

/// Share of each CPU.
const SECOND_TASK: f64 = 0.90;

/// A shorter backlog shows nothing about the line.
const BACKLOG: Nanos = Nanos::from_secs(1);

/// With fewer CPUs none is left to log while two take turns with the console.
const CPUS_THAT_STALL: usize = 3;

/// Figures, and whether they hold.
pub struct Summary {
    pub figures: Figures,
    pub verdicts: Vec<Verdict>,
}

/// One figure or finding, and whether it is as it should be.
pub struct Verdict {
    profile: &'static str,
    holds: bool,
    text: String,
}

pub fn fold(floods: &Floods) -> Summary {
    let mut figures = Figures::new("console", floods.setup.name());
    for pair in &floods.runs {
        add(&mut figures, pair, u64::from(floods.setup.speedup()));
    }
    let mut verdicts = Vec::new();
    for pair in &floods.runs {
        let mut judge = Judge {
            figures: &mut figures,
            verdicts: &mut verdicts,
            pair,
        };
        judge.judge(floods);
    }
    Summary { figures, verdicts }
}

fn add(figures: &mut Figures, pair: &FloodPair, speedup: u64) {
    let FloodPair {
        whole, panicked, ..
    } = pair;
    let ns = |span: Nanos| span.0 as f64;
    let mut record = figures
        .record(pair.strategy.name())
        .on_port(pair.profile.name);
    record.value(metrics::LONGEST_HOLD_NS, ns(whole.longest_hold()));
    for (metric, of_thousand) in [
        (metrics::DELAY_MEDIAN_NS, 500),
        (metrics::DELAY_P999_NS, 999),
        (metrics::DELAY_MAX_NS, 1000),
    ] {
        let delays = whole.delays.iter().map(|delay| ns(*delay));
        record.value_of(metric, ns(whole.delay(of_thousand)), delays);
    }
    record.value(metrics::TICKS_MISSED, whole.missed() as f64);
    record.value(metrics::LOCKUP_REPORTS, whole.lockups() as f64);
    record.value(metrics::STALL_REPORTS, whole.stalls() as f64);
    record.value(metrics::CASCADES, whole.cascades() as f64);
    record.value(metrics::BYTES, whole.bytes as f64);
    record.value(metrics::BYTES_PER_SECOND, whole.bytes_per_second());
    record.value(metrics::SECOND_TASK_SHARE, whole.share());
    record.value(metrics::SECOND_TASK_LEAST_SHARE, whole.least_share());
    record.value(metrics::RECORDS_LOST, whole.lost as f64);
    let lockup = Watchdog::THRESHOLD / speedup;
    record.value(metrics::LOCKUP_THRESHOLD_NS, ns(lockup));
    let stall = StallDetector::THRESHOLD / speedup;
    record.value(metrics::STALL_THRESHOLD_NS, ns(stall));
    let on_line = (pair.profile.line != Line::AtOnce).then(|| whole.line_use());
    record.value(metrics::LINE_USE, on_line);
    record.value(metrics::PANIC_RECORDS_UNSENT, panicked.unsent() as f64);
    let panic = panicked.panic;
    let first = panic.and_then(|panic| panic.first_byte);
    record.value(metrics::PANIC_FIRST_BYTE_NS, first.map(ns));
    let last = panic.and_then(|panic| panic.last_byte);
    record.value(metrics::PANIC_LAST_BYTE_NS, last.map(ns));
    let left = panic.and_then(|panic| panic.record);
    record.value(
        metrics::PANIC_RECORD_BYTES,
        left.map(|record| record.bytes as f64),
    );
    let panics_hold = ns(panicked.longest_hold());
    record.value(metrics::PANIC_LONGEST_HOLD_NS, panics_hold);
    record.value(metrics::DURATION_NS, ns(whole.span()));
}

/// How long there was something to send, in nanoseconds.
fn backlog(row: &Row<'_>) -> Option<f64> {
    Some(row.per(metrics::BYTES, metrics::BYTES_PER_SECOND)? * 1e9)
}

/// The use of a line that had enough to send.
pub fn line_use(row: &Row<'_>) -> Option<f64> {
    let is_long = backlog(row)? >= BACKLOG.0 as f64;
    row.get(metrics::LINE_USE).filter(|_| is_long)
}

/// Judges the figures of one pair of floods.
struct Judge<'a> {
    figures: &'a mut Figures,
    verdicts: &'a mut Vec<Verdict>,
    pair: &'a FloodPair,
}

impl Judge<'_> {
    fn row(&self) -> Row<'_> {
        let row = self.figures.row(self.pair.strategy.name());
        row.on_port(self.pair.profile.name)
    }

    fn get(&self, metric: &Metric) -> f64 {
        self.row().get(metric).unwrap_or(0.0)
    }

    fn say(&mut self, holds: bool, text: impl AsRef<str>) {
        self.verdicts.push(Verdict {
            profile: self.pair.profile.name,
            holds,
            text: format!("{} {}", self.pair.strategy, text.as_ref()),
        });
    }

    /// Whether the figure is there and meets `goal`.
    fn meets(&mut self, metric: &Metric, goal: Goal) -> bool {
        let (strategy, profile) = (self.pair.strategy.name(), self.pair.profile.name);
        let figure = self.figures.find_mut(strategy, Some(profile), metric);
        figure.is_some_and(|figure| figure.missed(goal).is_none())
    }

    fn judge(&mut self, floods: &Floods) {
        let is_flood = floods.log.is_flood && floods.rate == RATE;
        match self.pair.strategy {
            // Other work of the host shows in real time.
            _ if matches!(floods.setup, Setup::Qemu { .. }) => self.judge_panic(),
            PrintStrategy::Bounded => {
                self.judge_bounded(LineSettings::baud(floods.rate).frame_time());
                if is_flood {
                    // The ring is large enough for it.
                    let holds = self.meets(metrics::RECORDS_LOST, Goal::Exactly(0.0));
                    self.say(holds, "loses nothing");
                }
            }
            PrintStrategy::PrintInline
                if is_flood
                    && floods.cpus >= CPUS_THAT_STALL
                    && self.pair.profile.line != Line::AtOnce =>
            {
                let is_held = self.meets(metrics::LONGEST_HOLD_NS, Goal::AtLeast(STALLED.0 as f64));
                let fired = self.get(metrics::LOCKUP_REPORTS) + self.get(metrics::STALL_REPORTS);
                let held = time(self.get(metrics::LONGEST_HOLD_NS));
                self.say(
                    is_held && fired > 0.0,
                    format!("holds a CPU for {held}, and the watchdogs fire {fired} times"),
                );
            }
            _ => {}
        }
        let arrived = arrival(&self.pair.whole);
        self.say(arrived.is_ok(), arrived.unwrap_or_else(|damage| damage));
    }

    /// Judges that all of a panic's text arrives, and is left in persistent RAM.
    fn judge_panic(&mut self) {
        match self.row().get(metrics::PANIC_LAST_BYTE_NS) {
            Some(_) => self.say(true, "brings all of a panic's text"),
            None => self.say(false, "does not bring a panic's text"),
        }
        let record = self.pair.panicked.panic.and_then(|panic| panic.record);
        let text = match record {
            Some(record) if record.is_whole => format!(
                "leaves a panic's text in persistent RAM, {} bytes",
                record.bytes
            ),
            Some(_) => "leaves something else than its log's end in persistent RAM".to_owned(),
            None => "leaves nothing in persistent RAM".to_owned(),
        };
        self.say(record.is_some_and(|record| record.is_whole), text);
        self.judge_lines_in_panic();
    }

    fn judge_bounded(&mut self, frame: Nanos) {
        let holds = [metrics::LONGEST_HOLD_NS, metrics::PANIC_LONGEST_HOLD_NS];
        let bound = Goal::AtMost(LONGEST_HOLD.0 as f64);
        let is_short = holds.map(|metric| self.meets(metric, bound)) == [true; 2];
        let held = holds.map(|metric| self.get(metric));
        let held = time(held[0].max(held[1]));
        self.say(is_short, format!("holds a CPU for {held} at most"));
        if let Some(line_use) = line_use(&self.row()) {
            let holds = self.meets(metrics::LINE_USE, Goal::AtLeast(LINE_USE));
            let text = format!("sends {} of the line's rate", percent(line_use));
            self.say(holds, text);
        }
        if self.get(metrics::DURATION_NS) >= BACKLOG.0 as f64 {
            let holds = self.meets(metrics::SECOND_TASK_LEAST_SHARE, Goal::AtLeast(SECOND_TASK));
            let share = percent(self.get(metrics::SECOND_TASK_LEAST_SHARE));
            self.say(
                holds,
                format!("leaves a second task {share} of each CPU at least"),
            );
        }
        let bound = drain_time(&self.pair.profile, frame).0 as f64;
        let holds = self.meets(metrics::PANIC_FIRST_BYTE_NS, Goal::AtMost(bound));
        let text = match self.row().get(metrics::PANIC_FIRST_BYTE_NS) {
            Some(first) => format!(
                "brings a panic's text after {}, within one FIFO ({})",
                time(first),
                time(bound)
            ),
            None => "never brings a panic's text".to_owned(),
        };
        self.say(holds, text);
        self.judge_lines_in_panic();
    }

    /// Judges that the lines which a panic cuts short are as they were logged.
    fn judge_lines_in_panic(&mut self) {
        let damage = &self.pair.panicked.checked.damage;
        let unfinished = &self.pair.panicked.checked.unfinished;
        let result = damage.first().map(ToString::to_string);
        let result = result.or_else(|| {
            let unknown = unfinished.iter().any(Option::is_none);
            unknown.then(|| "the last line is none that was logged".to_owned())
        });
        let again = self.pair.panicked.checked.sent_again;
        // Printing inline has no mark for a line that a panic cuts, and spoils that line.
        let spoils = match self.pair.strategy {
            PrintStrategy::Bounded | PrintStrategy::PrinterThread => 0,
            PrintStrategy::PrintInline | PrintStrategy::FifoInline => 1,
        };
        let holds = damage.len() <= spoils && again <= 1 && (result.is_none() || spoils > 0);
        let text = match &result {
            Some(_) if holds => "spoils the line that a panic cuts, and no other".to_owned(),
            Some(damage) => format!("spoils a line in a panic: {damage}"),
            None if again > 0 => {
                "brings every line in a panic; the one in transit, again".to_owned()
            }
            None => "brings every line once, as logged, in a panic, too".to_owned(),
        };
        self.say(holds, text);
    }
}

/// Time until the port has sent a full FIFO, a mark that closes the line that was cut, and one
/// byte.
fn drain_time(profile: &Profile, frame: Nanos) -> Nanos {
    /// Bytes in FIFO and shift register.
    const HELD: u64 = 16 + 1;
    /// CR, LF, `{cut 0}`, CR, LF; and the byte.
    const BEFORE: u64 = 11 + 1;
    match profile.line {
        // Only accesses take time. Bytes are paced as if the line had a speed, until that is known.
        Line::AtOnce | Line::Baud => frame * (HELD + BEFORE),
        Line::Controller(by) => by.drain.max(by.per_byte) * (HELD + BEFORE) + by.latency * 2,
    }
}

/// Whether all logged lines arrived, but for records that the ring reports as lost.
fn arrival(outcome: &FloodOutcome) -> Result<String, String> {
    let checked = &outcome.checked;
    if let Some(damage) = checked.damage.first() {
        return Err(format!("does not bring every line as logged: {damage}"));
    }
    if !checked.unfinished.is_empty() {
        return Err("does not bring all of the last line".to_owned());
    }
    if checked.sent_again > 0 {
        return Err("sends a part of a line again".to_owned());
    }
    let (missing, result, lost) = (checked.missing, checked.result, outcome.lost);
    if missing != lost || result != lost {
        return Err(format!(
            "loses {missing} records, where the ring lost {lost}, and told of {result}"
        ));
    }
    Ok(match lost {
        0 => format!("brings all {} lines once, as logged", checked.arrived),
        n => format!(
            "brings {} lines once, as logged; {n} lost, and told",
            checked.arrived
        ),
    })
}

/// Returns the verdicts as text.
pub fn text(verdicts: &[Verdict]) -> String {
    let mut lines = Vec::new();
    for of_profile in verdicts.chunk_by(|one, next| one.profile == next.profile) {
        lines.push(of_profile[0].profile.to_owned());
        lines.extend(of_profile.iter().map(|verdict| {
            let word = if verdict.holds { "holds" } else { "FAILS" };
            format!("{word}  {}", verdict.text)
        }));
    }
    lines.join("\n")
}

/// Returns whether nostall's strategy reaches its goals for a counter, on each profile.
pub fn goals(figures: &Figures, floods: &Floods) -> String {
    let line = |of_profile: &[FloodPair]| {
        let profile = of_profile.first()?.profile.name;
        let row = figures.row(PrintStrategy::Bounded.name()).on_port(profile);
        let delay = row.get(metrics::DELAY_MAX_NS)? <= COUNTED_DELAY.0 as f64;
        let line = row.get(metrics::LINE_USE)? >= COUNTED_LINE_USE;
        let met = |is_met| if is_met { "met" } else { "NOT met" };
        Some(format!(
            "goal: bounded, {profile}: max at most {}: {}; line at least {}: {}",
            time(COUNTED_DELAY.0 as f64),
            met(delay),
            percent(COUNTED_LINE_USE),
            met(line)
        ))
    };
    let lines: Vec<_> = floods.profiles().filter_map(line).collect();
    lines.join("\n")
}

/// Returns the first verdict that does not hold.
pub fn failure(verdicts: &[Verdict]) -> Option<String> {
    let failed = verdicts.iter().find(|verdict| !verdict.holds)?;
    Some(format!("{}: {}", failed.profile, failed.text))
}

#[cfg(test)]
mod tests {
    use nostall_work::console::{Context, Fired, Hold, What};

    use super::super::check::{Checked, Damage};
    use super::super::input;
    use super::super::outcome::{CpuOutcome, PanicOutcome, PanicRecord};
    use super::*;

    /// A flood of ten seconds in which all is well, with a hold of this length.
    fn flood(strategy: PrintStrategy, held: Nanos) -> FloodOutcome {
        let cpu = CpuOutcome {
            given_away: Nanos::from_secs(10),
            ticks: 0,
            missed: 0,
        };
        let hold = Hold {
            context: Context::Task,
            from: Nanos::ZERO,
            owner_from: Nanos::ZERO,
            until: held,
        };
        FloodOutcome {
            strategy,
            profile: Profile::PC_16550A,
            start: Nanos::ZERO,
            end: Nanos::from_secs(10),
            cpus: vec![cpu; 4],
            holds: vec![(0, hold)],
            fired: Vec::new(),
            delays: vec![Nanos(1)],
            bytes: 100_000,
            logged: 10,
            lost: 0,
            checked: Checked {
                arrived: 10,
                ..Checked::default()
            },
            backlog: Nanos::from_secs(9),
            capacity: 100_000.0,
            panic: None,
        }
    }

    fn pair(strategy: PrintStrategy) -> FloodPair {
        let held = match strategy {
            PrintStrategy::Bounded => Nanos::from_micros(50),
            _ => Nanos::from_secs(30),
        };
        let mut whole = flood(strategy, held);
        if strategy != PrintStrategy::Bounded {
            let fired = Fired {
                at: Nanos::ZERO,
                what: What::SoftLockup(Nanos::ZERO),
                cascaded: false,
            };
            whole.fired.push((0, fired));
        }
        let record = PanicRecord {
            bytes: 60_000,
            is_whole: true,
        };
        let panic = PanicOutcome {
            at: Nanos::from_secs(5),
            first_byte: Some(Nanos(1_000)),
            last_byte: Some(Nanos(2_000)),
            record: Some(record),
        };
        let panicked = FloodOutcome {
            panic: Some(panic),
            ..flood(strategy, held)
        };
        FloodPair {
            profile: Profile::PC_16550A,
            strategy,
            whole,
            panicked,
        }
    }

    fn summary(setup: Setup, pair: FloodPair) -> Summary {
        fold(&Floods {
            log: input::read(None).unwrap(),
            cpus: 4,
            rate: RATE,
            panic_at: Nanos::from_secs(5),
            setup,
            runs: vec![pair],
        })
    }

    fn panic(pair: &mut FloodPair) -> &mut PanicOutcome {
        pair.panicked.panic.as_mut().unwrap()
    }

    fn twice() -> Damage {
        Damage::Twice("a line".to_owned())
    }

    type Change = fn(&mut FloodPair);

    /// Judges a pair in which all is well, and one for each change.
    fn each_change_fails(
        setup: fn() -> Setup,
        strategy: PrintStrategy,
        changes: &[(Change, &str)],
    ) {
        let Summary { verdicts, .. } = summary(setup(), pair(strategy));
        assert_eq!(failure(&verdicts), None, "{strategy}");
        for (change, why) in changes {
            let mut pair = pair(strategy);
            change(&mut pair);
            let Summary { verdicts, .. } = summary(setup(), pair);
            let expected = format!("pc-16550a: {strategy} {why}");
            assert_eq!(failure(&verdicts), Some(expected));
        }
    }

    const LOST: &str = "loses 1 records, where the ring lost 0, and told of 0";
    const TWICE: &str = "does not bring every line as logged: arrived twice: a line";

    #[test]
    fn each_figure_of_the_bounded_console_that_misses_its_goal_is_a_failure() {
        let long = "holds a CPU for 200 us at most";
        let changes: &[(Change, &str)] = &[
            (|pair| pair.whole.holds[0].1.until = Nanos(200_000), long),
            (|pair| pair.panicked.holds[0].1.until = Nanos(200_000), long),
            (
                |pair| pair.whole.bytes = 98_000,
                "sends 98.0 % of the line's rate",
            ),
            (
                |pair| pair.whole.cpus[1].given_away = Nanos::from_secs(8),
                "leaves a second task 80.0 % of each CPU at least",
            ),
            (
                |pair| panic(pair).first_byte = None,
                "never brings a panic's text",
            ),
            (
                |pair| panic(pair).first_byte = Some(Nanos(1_000_000_000)),
                "brings a panic's text after 1.00 s, within one FIFO (2.52 ms)",
            ),
            (
                |pair| pair.panicked.checked.damage.push(twice()),
                "spoils a line in a panic: arrived twice: a line",
            ),
            (
                |pair| pair.panicked.checked.unfinished.push(None),
                "spoils a line in a panic: the last line is none that was logged",
            ),
            (
                |pair| pair.panicked.checked.sent_again = 2,
                "brings every line in a panic; the one in transit, again",
            ),
            (
                |pair| (pair.whole.lost, pair.whole.checked.missing) = (1, 1),
                "loses nothing",
            ),
            (|pair| pair.whole.checked.missing = 1, LOST),
            (|pair| pair.whole.checked.damage.push(twice()), TWICE),
            (
                |pair| pair.whole.checked.unfinished.push(None),
                "does not bring all of the last line",
            ),
            (
                |pair| pair.whole.checked.sent_again = 1,
                "sends a part of a line again",
            ),
        ];
        each_change_fails(|| Setup::Model, PrintStrategy::Bounded, changes);
    }

    #[test]
    fn a_flood_that_does_not_stall_a_console_printing_inline_is_a_failure() {
        let changes: &[(Change, &str)] = &[
            (
                |pair| pair.whole.holds[0].1.until = Nanos::from_secs(1),
                "holds a CPU for 1.00 s, and the watchdogs fire 1 times",
            ),
            (
                |pair| pair.whole.fired.clear(),
                "holds a CPU for 30.0 s, and the watchdogs fire 0 times",
            ),
            (|pair| pair.whole.checked.missing = 1, LOST),
        ];
        each_change_fails(|| Setup::Model, PrintStrategy::PrintInline, changes);
    }

    #[test]
    fn a_panic_of_a_guest_that_leaves_no_text_is_a_failure() {
        let qemu = || Setup::Qemu {
            name: String::new(),
            part: 1,
            has_nmi: true,
            speedup: 1,
        };
        let changes: &[(Change, &str)] = &[
            (
                |pair| panic(pair).last_byte = None,
                "does not bring a panic's text",
            ),
            (
                |pair| panic(pair).record = None,
                "leaves nothing in persistent RAM",
            ),
            (
                |pair| panic(pair).record.as_mut().unwrap().is_whole = false,
                "leaves something else than its log's end in persistent RAM",
            ),
            (|pair| pair.whole.checked.damage.push(twice()), TWICE),
        ];
        for strategy in PrintStrategy::ALL {
            each_change_fails(qemu, strategy, changes);
        }
    }

    #[test]
    fn a_figure_of_the_verdict_shows_its_goal() {
        let Summary { figures, .. } = summary(Setup::Model, pair(PrintStrategy::Bounded));
        let row = figures.row("bounded").on_port("pc-16550a");
        let goal = |metric: &Metric| row.figure(metric).unwrap().goal;
        assert_eq!(
            goal(metrics::LONGEST_HOLD_NS),
            Some(Goal::AtMost(100_000.0))
        );
        assert_eq!(
            goal(metrics::PANIC_LONGEST_HOLD_NS),
            Some(Goal::AtMost(100_000.0))
        );
        assert_eq!(goal(metrics::LINE_USE), Some(Goal::AtLeast(0.99)));
        assert_eq!(
            goal(metrics::SECOND_TASK_LEAST_SHARE),
            Some(Goal::AtLeast(0.9))
        );
        assert_eq!(goal(metrics::RECORDS_LOST), Some(Goal::Exactly(0.0)));
    }
}

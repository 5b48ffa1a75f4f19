//! Whether the figures hold.

use super::outcome::Outcome;
use nostall_devices::uart::{Line, Profile};
use nostall_io::Nanos;
use nostall_uart::LineSettings;
use nostall_work::console::Strategy;

use super::measured::{Measured, RATE, Run, Setup};
use crate::experiments::table::{percent, time};

/// A slice: a look, a FIFO-full, and slow accesses among them.
const LONGEST_HOLD: Nanos = Nanos::from_micros(100);

/// What the flood does to a console that prints inline.
const STALLED: Nanos = Nanos::from_secs(20);

/// Of what the line can take.
pub const LINE_USE: f64 = 0.99;

/// Of each CPU.
const SECOND_TASK: f64 = 0.90;

/// A shorter backlog tells nothing of the line.
pub const BACKLOG: Nanos = Nanos::from_secs(1);

/// Fewer CPUs leave nobody who logs while two take turns with the console.
const CPUS_THAT_STALL: usize = 3;

/// One figure, held against what is promised.
pub struct Verdict {
    profile: &'static str,
    holds: bool,
    text: String,
}

impl Measured {
    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        let is_flood = self.log.is_flood && self.rate == RATE;
        let frame = LineSettings::baud(self.rate).frame_time();
        let mut verdicts = Vec::new();
        for run in &self.runs {
            let mut judge = |holds, text: String| {
                verdicts.push(Verdict {
                    profile: run.profile.name,
                    holds,
                    text: format!("{} {text}", run.strategy),
                });
            };
            match run.strategy {
                // What else the host does shows in real time.
                _ if matches!(self.setup, Setup::Qemu { .. }) => run.judge_panic(&mut judge),
                Strategy::Bounded => {
                    run.judge(frame, &mut judge);
                    if is_flood {
                        // The ring is as large as that.
                        judge(run.whole.lost == 0, "loses nothing".to_owned());
                    }
                }
                Strategy::PrintInline
                    if is_flood
                        && self.cpus >= CPUS_THAT_STALL
                        && run.profile.line != Line::AtOnce =>
                {
                    let held = run.whole.longest_hold();
                    let fired = run.whole.fired.len();
                    judge(
                        held >= STALLED && fired > 0,
                        format!(
                            "holds a CPU for {}, and the watchdogs fire {fired} times",
                            time(held.0 as f64)
                        ),
                    );
                }
                _ => {}
            }
            let told = arrival(&run.whole);
            judge(told.is_ok(), told.unwrap_or_else(|damage| damage));
        }
        verdicts
    }
}

impl Run {
    /// That all of a panic's text arrives, and is left in persistent RAM.
    fn judge_panic(&self, judge: &mut impl FnMut(bool, String)) {
        let last = self.panicked.panic.and_then(|panic| panic.last_byte);
        let text = match last {
            Some(_) => "brings all of a panic's text",
            None => "does not bring a panic's text",
        };
        judge(last.is_some(), text.to_owned());
        let record = self.panicked.panic.and_then(|panic| panic.record);
        let text = match record {
            Some(record) if record.is_whole => format!(
                "leaves a panic's text in persistent RAM, {} bytes",
                record.bytes
            ),
            Some(_) => "leaves something else than its log's end in persistent RAM".to_owned(),
            None => "leaves nothing in persistent RAM".to_owned(),
        };
        judge(record.is_some_and(|record| record.is_whole), text);
        self.judge_lines_in_panic(judge);
    }

    fn judge(&self, frame: Nanos, judge: &mut impl FnMut(bool, String)) {
        let whole = &self.whole;
        let held = whole.longest_hold().max(self.panicked.longest_hold());
        let text = format!("holds a CPU for {} at most", time(held.0 as f64));
        judge(held <= LONGEST_HOLD, text);
        if whole.backlog >= BACKLOG && self.profile.line != Line::AtOnce {
            let line_use = whole.line_use();
            let text = format!("sends {} of what the line can take", percent(line_use));
            judge(line_use >= LINE_USE, text);
        }
        if whole.span() >= BACKLOG {
            let share = whole.least_share();
            let text = format!(
                "leaves a second task {} of each CPU at least",
                percent(share)
            );
            judge(share >= SECOND_TASK, text);
        }
        let bound = drain_time(&self.profile, frame);
        let first = self.panicked.panic.and_then(|panic| panic.first_byte);
        let text = match first {
            Some(first) => format!(
                "brings a panic's text after {}, within one FIFO ({})",
                time(first.0 as f64),
                time(bound.0 as f64)
            ),
            None => "never brings a panic's text".to_owned(),
        };
        judge(first.is_some_and(|first| first <= bound), text);
        self.judge_lines_in_panic(judge);
    }

    /// That what a panic cut short is as it was logged.
    fn judge_lines_in_panic(&self, judge: &mut impl FnMut(bool, String)) {
        let damage = &self.panicked.checked.damage;
        let unfinished = &self.panicked.checked.unfinished;
        let told = damage.first().map(ToString::to_string);
        let told = told.or_else(|| {
            let unknown = unfinished.iter().any(Option::is_none);
            unknown.then(|| "the last line is none that was logged".to_owned())
        });
        let again = self.panicked.checked.sent_again;
        // Who prints inline has no mark for a line that a panic cuts: it spoils that one.
        let spoils = match self.strategy {
            Strategy::Bounded => 0,
            Strategy::PrintInline | Strategy::FifoInline => 1,
        };
        let holds = damage.len() <= spoils && again <= 1 && (told.is_none() || spoils > 0);
        let text = match &told {
            Some(_) if holds => "spoils the line that a panic cuts, and no other".to_owned(),
            Some(damage) => format!("spoils a line in a panic: {damage}"),
            None if again > 0 => {
                "brings every line in a panic; what a CPU was sending, again".to_owned()
            }
            None => "brings every line once, as logged, in a panic, too".to_owned(),
        };
        judge(holds, text);
    }
}

/// Until the port has sent what it can hold, a mark that closes the line that was cut,
/// and one byte.
fn drain_time(profile: &Profile, frame: Nanos) -> Nanos {
    /// In FIFO and shift register.
    const HELD: u64 = 16 + 1;
    /// CR, LF, `{cut 0}`, CR, LF; and the byte.
    const BEFORE: u64 = 11 + 1;
    match profile.line {
        // By accesses alone, but paced as if the line had a speed until it is known.
        Line::AtOnce | Line::Baud => frame * (HELD + BEFORE),
        Line::Controller(by) => by.drain.max(by.per_byte) * (HELD + BEFORE) + by.latency * 2,
    }
}

/// Whether all arrived that was logged, but for what the ring told that it had lost.
fn arrival(outcome: &Outcome) -> Result<String, String> {
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
    let (missing, told, lost) = (checked.missing, checked.told, outcome.lost);
    if missing != lost || told != lost {
        return Err(format!(
            "loses {missing} records, where the ring lost {lost}, and told of {told}"
        ));
    }
    Ok(match lost {
        0 => format!("brings all {} lines once, as logged", checked.arrived),
        n => format!(
            "brings {} lines once, as logged; {n} records lost, and told",
            checked.arrived
        ),
    })
}

/// For people.
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

/// The first that does not hold.
pub fn failure(verdicts: &[Verdict]) -> Option<String> {
    let failed = verdicts.iter().find(|verdict| !verdict.holds)?;
    Some(format!("{}: {}", failed.profile, failed.text))
}

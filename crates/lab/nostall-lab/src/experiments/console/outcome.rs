//! A flood: its plan and its outcome.

use nostall_devices::uart::{Line, Profile};
use nostall_io::Nanos;
use nostall_uart::LineSettings;
use nostall_work::console::{Context, FIRST_WORDS, Fired, Hold, LAST_WORDS, PrintStrategy, What};

use nostall_vm::model::LineOutput;

use super::check::{Checked, Logged, check};

/// Goal for the greatest delay of a caller, in QEMU with an instruction counter.
pub const COUNTED_DELAY: Nanos = Nanos::from_micros(500);

/// Goal for the share of the line's capacity there.
pub const COUNTED_LINE_USE: f64 = 0.98;

/// Rate of the line in baud, if not given.
pub const RATE: u32 = 115_200;

/// A flood of messages.
#[derive(Clone, Copy, Debug)]
pub struct FloodPlan<'a> {
    /// A recorded log; see [`Lines`](nostall_work::console::Lines).
    pub log: &'a [u8],
    /// The serial port.
    pub profile: Profile,
    /// The rate that is set, in baud.
    pub rate: u32,
    /// How many CPUs log it, 1 to 64.
    pub cpus: usize,
    /// When the last CPU panics, since the first line.
    pub panic_at: Option<Nanos>,
}

/// Two floods with one strategy on one port.
pub struct FloodPair {
    /// The port.
    pub profile: Profile,
    /// How messages get to the line.
    pub strategy: PrintStrategy,
    /// The flood to its end.
    pub whole: FloodOutcome,
    /// The flood cut short by a panic.
    pub panicked: FloodOutcome,
}

/// Result of a flood.
#[derive(Clone, Debug)]
pub struct FloodOutcome {
    /// How messages got to the line.
    pub strategy: PrintStrategy,
    /// The port.
    pub profile: Profile,
    /// Time at which the first line was to be logged.
    pub start: Nanos,
    /// Time at which the port had everything, or a panic was over.
    pub end: Nanos,
    /// Outcome of each CPU.
    pub cpus: Vec<CpuOutcome>,
    /// The times during which a CPU was held by the console, each with the CPU, in the
    /// order in which they ended.
    pub holds: Vec<(usize, Hold)>,
    /// Reports of the detectors, each with its CPU.
    pub fired: Vec<(usize, Fired)>,
    /// Time that logging took each caller; the shortest first.
    pub delays: Vec<Nanos>,
    /// Bytes that arrived.
    pub bytes: usize,
    /// Lines that were logged, reports among them.
    pub logged: usize,
    /// Records that were overwritten before they were sent.
    pub lost: u64,
    /// Arrived lines, compared with the logged ones.
    pub checked: Checked,
    /// Time during which there was something to send.
    pub backlog: Nanos,
    /// Bytes that the line could have taken meanwhile.
    pub capacity: f64,
    /// Outcome of the panic, if there was one.
    pub panic: Option<PanicOutcome>,
}

/// Records of a flood's CPUs.
#[derive(Debug, Default)]
pub(super) struct FloodRecords {
    pub start: Nanos,
    pub end: Nanos,
    pub lost: u64,
    /// Time of the panic, if there was one.
    pub panic: Option<Nanos>,
    pub cpus: Vec<CpuOutcome>,
    pub holds: Vec<(usize, Hold)>,
    pub fired: Vec<(usize, Fired)>,
    pub delays: Vec<Nanos>,
}

/// Result of a flood for one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuOutcome {
    /// Time that a second task got of it.
    pub given_away: Nanos,
    /// Timer ticks that came.
    pub ticks: u64,
    /// Timer ticks that did not.
    pub missed: u64,
}

/// Result of a panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PanicOutcome {
    /// When it was.
    pub at: Nanos,
    /// From then until the first byte of its text had arrived; `None` if none did.
    pub first_byte: Option<Nanos>,
    /// And its last.
    pub last_byte: Option<Nanos>,
    /// Record that it left in persistent RAM; `None` if it left nothing, or there is none.
    pub record: Option<PanicRecord>,
}

/// Record that a panic left in persistent RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PanicRecord {
    /// Bytes of log.
    pub bytes: usize,
    /// They are the log's last, with all of the panic's text.
    pub is_whole: bool,
}

/// A CPU runs nothing else between the lines of a report, nor between a handler and that of the
/// next tick, which is pending. On a model no time passes there. Slices that a timer comes back for
/// are not put together: between them it does.
const BETWEEN_HANDLERS: Nanos = Nanos::from_micros(100);

impl FloodOutcome {
    /// Compares the bytes that arrived with the lines that were logged.
    pub(super) fn of(
        plan: &FloodPlan<'_>,
        strategy: PrintStrategy,
        records: FloodRecords,
        logged: &Logged,
        wire: &LineOutput,
    ) -> Self {
        let FloodRecords {
            start, end, lost, ..
        } = records;
        let mut checked = check(logged, wire);
        since_the_flood(&mut checked, start);
        let backlog = backlog(&checked);
        let frame = LineSettings::baud(plan.rate).frame_time();
        Self {
            strategy,
            profile: plan.profile,
            start,
            end,
            cpus: records.cpus,
            holds: records.holds,
            fired: records.fired,
            delays: records.delays,
            bytes: wire.bytes.len(),
            logged: logged.lines(),
            lost,
            capacity: capacity(&plan.profile, frame, backlog),
            backlog,
            checked,
            panic: records.panic.map(|at| PanicOutcome::of(at, wire)),
        }
    }

    /// Returns the longest time that a CPU was held at once, except by a panic, which may wait.
    pub fn longest_hold(&self) -> Nanos {
        let mut longest = Nanos::ZERO;
        // Start and end of the time for which interrupt handlers hold each CPU.
        let mut handlers = vec![(Nanos::ZERO, Nanos::ZERO); self.cpus.len()];
        let holds = self.holds.iter();
        for (cpu, hold) in holds.filter(|(_, hold)| hold.context != Context::Panic) {
            let mut from = hold.from;
            if hold.context == Context::Interrupt {
                let (since, until) = &mut handlers[*cpu];
                if hold.from - *until > BETWEEN_HANDLERS {
                    *since = hold.from;
                }
                *until = hold.until;
                from = *since;
            }
            longest = longest.max(hold.until - from);
        }
        longest
    }

    /// The delay that so many of a thousand callers do not exceed.
    pub fn delay(&self, of_thousand: usize) -> Nanos {
        let last = self.delays.len().saturating_sub(1);
        let at = (self.delays.len() * of_thousand).div_ceil(1_000);
        let delay = self.delays.get(at.saturating_sub(1).min(last));
        delay.copied().unwrap_or_default()
    }

    /// Returns the number of records that did not arrive, although the ring did not lose them.
    pub fn unsent(&self) -> u64 {
        self.checked.missing.saturating_sub(self.lost)
    }

    /// Ticks that never came, of all CPUs.
    pub fn missed(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.missed).sum()
    }

    /// Reports of CPUs that had not scheduled.
    pub fn lockups(&self) -> usize {
        let lockups = self.fired.iter();
        lockups
            .filter(|(_, fired)| matches!(fired.what, What::SoftLockup(_)))
            .count()
    }

    /// Reports of grace periods that did not end.
    pub fn stalls(&self) -> usize {
        self.fired.len() - self.lockups()
    }

    /// Reports whose interrupt handler became the console's owner by them.
    pub fn cascades(&self) -> usize {
        let fired = self.fired.iter();
        fired.filter(|(_, fired)| fired.cascaded).count()
    }

    /// How long it took.
    pub fn span(&self) -> Nanos {
        self.end - self.start
    }

    /// Returns the second task's share of all CPUs' time.
    pub fn share(&self) -> f64 {
        let got: u64 = self.cpus.iter().map(|cpu| cpu.given_away.0).sum();
        got as f64 / (self.span().0 * self.cpus.len() as u64).max(1) as f64
    }

    /// Returns the second task's share of the CPU where it got least.
    pub fn least_share(&self) -> f64 {
        let got = self.cpus.iter().map(|cpu| cpu.given_away.0).min();
        got.unwrap_or(0) as f64 / self.span().0.max(1) as f64
    }

    /// Bytes a second that arrived while there was something to send.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 * 1e9 / self.backlog.0.max(1) as f64
    }

    /// Returns the used share of the line's capacity meanwhile.
    pub fn line_use(&self) -> f64 {
        self.bytes as f64 / self.capacity.max(1.0)
    }
}

/// Lines that the kernel logged while it came up are sent with the flood. They did not wait for
/// the line before that.
fn since_the_flood(checked: &mut Checked, start: Nanos) {
    for (logged, _) in &mut checked.times {
        *logged = (*logged).max(start);
    }
}

/// How long something that was logged had not arrived.
fn backlog(checked: &Checked) -> Nanos {
    let mut times = checked.times.clone();
    times.sort_unstable();
    let mut sum = Nanos::ZERO;
    let mut until = Nanos::ZERO;
    for (logged, arrived) in times {
        sum = sum + (arrived - logged.max(until));
        until = until.max(arrived);
    }
    sum
}

/// Bytes that the line can take in `span`, each a frame on it.
fn capacity(profile: &Profile, frame: Nanos, span: Nanos) -> f64 {
    let bytes = |each: Nanos| span.0 as f64 / each.0.max(1) as f64;
    match profile.line {
        // The line takes each byte that it is given, one an access.
        Line::AtOnce => bytes(profile.access),
        Line::Baud => bytes(frame),
        // And the bytes that its buffer keeps at the end. Bytes that drain while there is nothing
        // to send are not counted: a line may seem to take a little more than it can.
        Line::Controller(by) => bytes(by.drain) + by.buffer as f64,
    }
}

impl PanicOutcome {
    fn of(at: Nanos, wire: &LineOutput) -> Self {
        let find = |words: &str| {
            let mut windows = wire.bytes.windows(words.len());
            windows.position(|window| window == words.as_bytes())
        };
        // It begins with its time.
        let first = find(FIRST_WORDS).map(|at| {
            let before = wire.bytes[..at].iter().rposition(|&byte| byte == b'[');
            before.unwrap_or(at)
        });
        let last = find(LAST_WORDS).map(|at| (at + LAST_WORDS.len() + 1).min(wire.times.len() - 1));
        let since = |byte: Option<usize>| Some(wire.times[byte?] - at);
        Self {
            at,
            first_byte: since(first),
            last_byte: since(last),
            record: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_before_the_flood_have_not_waited_for_the_line() {
        let ms = Nanos::from_millis;
        let mut checked = Checked {
            times: vec![(ms(1), ms(110)), (ms(100), ms(120)), (ms(130), ms(135))],
            ..Checked::default()
        };
        assert_eq!(backlog(&checked), ms(124));
        since_the_flood(&mut checked, ms(100));
        assert_eq!(backlog(&checked), ms(25));
    }
}

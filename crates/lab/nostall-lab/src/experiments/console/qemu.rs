//! The flood in a guest of QEMU, in real time.

use std::time::Duration;

use nostall_console::Record;
use nostall_devices::uart::{Line, Profile};
use nostall_io::Nanos;
use nostall_postmortem::log_ring::{self, LogEntry, LogRing};
use nostall_pstore::Layout;
use nostall_uart::LineSettings;
use nostall_work::console::{
    Context, FIRST_WORDS, Fired, Held, Hold, Job, JobResult, LAST_WORDS, Lines, PrintStrategy,
    SLOTS, What,
};
use nostall_work::pstore::{FEWEST_CPUS, REGION, Traces, params};

use nostall_vm::model::LineOutput;
use nostall_vm::{Ending, Error, Guest, GuestRam, GuestRun, Limits, Machine};

use super::check::Logged;
use super::outcome::{CpuOutcome, FloodOutcome, FloodPlan, FloodRecords, PanicRecord};

/// The guest's RAM in MiB.
const RAM: u32 = 128;

/// End of the memory with the kernel and its static data.
const STATIC: u64 = 16 << 20;

/// Limit of report bytes: for each byte's arrival, each line's delay, and each hold of a CPU.
const REPORTS: u64 = 64 << 20;

/// Size of the port's FIFO.
const FIFO: u64 = 16;

/// Largest size of a message on the line besides its text: time, CR and LF.
const AROUND_TEXT: u64 = 17;

/// Runs the experiment with `strategy` on `machine` in `guest`. The plan replaces the guest's
/// work, input, CPUs and RAM. The serial port is QEMU's, throttled to the profile's speed on
/// the guest's clock.
///
/// The detectors are `speedup` times as impatient as Linux's.
///
/// # Errors
///
/// Returns the errors of [`Machine::run`].
pub fn run(
    machine: &dyn Machine,
    guest: &Guest<'_>,
    plan: &FloodPlan<'_>,
    speedup: u32,
    strategy: PrintStrategy,
) -> Result<FloodOutcome, Error> {
    let job = Job {
        strategy,
        rate: plan.rate,
        speedup,
        profile: plan.profile,
        panic_at: plan.panic_at.map(|at| (at.0 / 1_000_000) as u32),
    };
    let ram = GuestRam::new(RAM)?;
    let guest = Guest {
        cpus: plan.cpus as u16,
        work: &[job.into()],
        repeat: 1,
        input: plan.log,
        ram: Some(&ram),
        ..*guest
    };
    let limits = limits(plan);
    let ending = match plan.panic_at {
        Some(_) => Ending::Panic,
        None => Ending::Done,
    };
    let ran = machine.run(&guest, &limits, ending, &mut |_| {})?;
    let memory = ram.read(0..STATIC)?;
    let ring = ring(&memory).ok_or_else(|| wrong("no log ring in its RAM"))?;
    let mut outcome = outcome(plan, strategy, ran, &ring)?;
    if let Some(panic) = &mut outcome.panic {
        let log = last_log(&ram.read(REGION)?);
        let logged: String = records(&ring).map(|record| record.to_string()).collect();
        panic.record = log.map(|log| record(&log, &logged));
    }
    Ok(outcome)
}

/// Returns the log that a crashed kernel left in persistent RAM, or `None` if there is none.
fn last_log(region: &[u8]) -> Option<Vec<u8>> {
    let layout = Layout::new(&params(FEWEST_CPUS, Traces::Together)).ok()?;
    let left = nostall_pstore::recover(region, &layout, None);
    let mut zone = left.zones_of(nostall_pstore::ZoneKind::Dmesg).next()?;
    let (header, start) = zone.dmesg_header()?;
    let mut text = Vec::new();
    while let Some((bytes, _)) = zone.chunk(start + text.len()) {
        text.extend_from_slice(bytes);
    }
    let log = text.strip_prefix(b"Panic#1 Part1\n")?;
    (!header.compressed).then(|| log.to_vec())
}

/// Returns the number of bytes on the line for `log`, without the detectors' reports.
pub fn bytes_on_the_line(log: &[u8]) -> u64 {
    let lines = Lines::new(log);
    lines.map(|line| line.text.len() as u64 + AROUND_TEXT).sum()
}

/// Returns the time in which a port sends `bytes` without other waits, at `rate` if its line
/// has one.
pub fn time_on_the_line(profile: &Profile, rate: u32, bytes: u64) -> Nanos {
    match profile.line {
        Line::AtOnce => profile.access * bytes,
        Line::Baud => LineSettings::baud(rate).frame_time() * bytes,
        Line::Controller(by) => {
            let moved = by.per_byte * bytes + by.latency * bytes.div_ceil(FIFO);
            moved.max(by.drain * bytes.saturating_sub(by.buffer as u64))
        }
    }
}

fn limits(plan: &FloodPlan<'_>) -> Limits {
    let bytes = bytes_on_the_line(plan.log);
    let line = time_on_the_line(&plan.profile, plan.rate, bytes);
    let serial = 2 * bytes + (64 << 10);
    let limits = Limits::of(1, serial);
    Limits {
        total: limits.total + Duration::from_nanos(line.0) * 2,
        report_bytes: REPORTS,
        ..limits
    }
}

/// Returns the kernel's log ring.
fn ring(memory: &[u8]) -> Option<LogRing<'_>> {
    let mut rings = log_ring::find(memory).filter_map(|at| log_ring::decode(&memory[at..]).ok());
    rings.find(|ring| ring.slots() == SLOTS)
}

/// Compares the log that a crashed kernel left with all that it had logged.
fn record(log: &[u8], logged: &str) -> PanicRecord {
    let find = |words: &str| log.windows(words.len()).position(|w| w == words.as_bytes());
    let has_all = find(FIRST_WORDS)
        .zip(find(LAST_WORDS))
        .is_some_and(|(a, b)| a < b);
    PanicRecord {
        bytes: log.len(),
        is_whole: has_all && logged.as_bytes().ends_with(log),
    }
}

fn records(ring: &LogRing<'_>) -> impl Iterator<Item = Record> {
    ring.records().filter_map(|found| match found {
        LogEntry::Record(record) => Some(record),
        LogEntry::Unfinished(_) => None,
    })
}

fn outcome(
    plan: &FloodPlan<'_>,
    strategy: PrintStrategy,
    ran: GuestRun,
    ring: &LogRing<'_>,
) -> Result<FloodOutcome, Error> {
    let logged = Logged::found(records(ring));
    let results = ran.results()?.into_iter().map(|(_, result)| result);
    let result = Gathered::from(results.collect())?;
    result.check(plan, ran.serial.len())?;
    let mut wire = LineOutput::new(ran.serial, result.arrivals);
    // A byte in transit when its CPU was stopped may have been counted, and not sent.
    let last = wire.times.last().copied().unwrap_or(result.records.start);
    wire.times.resize(wire.bytes.len(), last);
    Ok(FloodOutcome::of(
        plan,
        strategy,
        result.records,
        &logged,
        &wire,
    ))
}

/// The combined reports of the guest.
#[derive(Debug, Default)]
struct Gathered {
    /// Number of reports about the whole flood.
    floods: usize,
    records: FloodRecords,
    arrivals: Vec<Nanos>,
}

impl Gathered {
    fn from(results: Vec<JobResult>) -> Result<Self, Error> {
        let mut all = Self::default();
        for result in results {
            all.add(&result)?;
        }
        all.records.delays.sort_unstable();
        // Sorted by their end.
        all.records.holds.sort_by_key(|(_, hold)| hold.until);
        Ok(all)
    }

    /// Checks that no report is missing: of all CPUs, of each line, and of each of the `bytes`
    /// that arrived.
    fn check(&self, plan: &FloodPlan<'_>, bytes: usize) -> Result<(), Error> {
        let (cpus, panics) = (plan.cpus, plan.panic_at.is_some());
        let records = &self.records;
        let (result, times) = (records.cpus.len(), self.arrivals.len());
        let lines = Lines::new(plan.log).count();
        let others = records.holds.iter().map(|(cpu, _)| cpu);
        let others = others.chain(records.fired.iter().map(|(cpu, _)| cpu));
        if self.floods != 1 || records.end < records.start || records.panic.is_some() != panics {
            return Err(wrong("of a flood, not the one that was to be"));
        }
        if result != cpus || others.into_iter().any(|&cpu| cpu >= cpus) {
            return Err(wrong(&format!(
                "of {result} CPUs or others, where {cpus} are"
            )));
        }
        if times.abs_diff(bytes) > usize::from(panics) {
            let what = format!("when {times} bytes arrived, where {bytes} did");
            return Err(wrong(&what));
        }
        let delays = records.delays.len();
        if delays > lines || (delays < lines && !panics) {
            let what = format!("what was added to {delays} callers, where {lines} logged");
            return Err(wrong(&what));
        }
        Ok(())
    }

    fn add(&mut self, result: &JobResult) -> Result<(), Error> {
        let records = &mut self.records;
        match result {
            JobResult::Flood {
                start,
                end,
                lost,
                overrun,
                panic,
            } => {
                if *overrun > 0 {
                    let what = format!("{overrun} bytes were written to a full FIFO");
                    return Err(Error::NotAReport(what));
                }
                self.floods += 1;
                (records.start, records.end) = (Nanos(*start), Nanos(*end));
                (records.lost, records.panic) = (*lost, panic.map(Nanos));
            }
            JobResult::Cpu {
                given_away,
                ticks,
                missed,
                ..
            } => records.cpus.push(CpuOutcome {
                given_away: Nanos(*given_away),
                ticks: *ticks,
                missed: *missed,
            }),
            JobResult::Held(held) => records.holds.push((held.cpu.into(), hold(held)?)),
            JobResult::Fired {
                cpu,
                at,
                lasts,
                lockup,
                cascaded,
            } => {
                let what = match lockup {
                    true => What::SoftLockup(Nanos(*lasts)),
                    false => What::Stall(Nanos(*lasts)),
                };
                let fired = Fired {
                    at: Nanos(*at),
                    what,
                    cascaded: *cascaded,
                };
                records.fired.push(((*cpu).into(), fired));
            }
            JobResult::Delays(delays) => records.delays.extend(delays.iter().map(|&ns| Nanos(ns))),
            JobResult::Arrived(times) => {
                let times = times.iter().map(|&us| Nanos::from_micros(us.into()));
                self.arrivals.extend(times);
            }
            _ => return Err(wrong("of a flood, something else")),
        }
        Ok(())
    }
}

fn hold(held: &Held) -> Result<Hold, Error> {
    let context = match held.context {
        0 => Context::Task,
        1 => Context::Interrupt,
        2 => Context::Panic,
        _ => return Err(wrong("a hold in no context")),
    };
    Ok(Hold {
        context,
        from: Nanos(held.from),
        owner_from: Nanos(held.owner_from),
        until: Nanos(held.until),
    })
}

fn wrong(what: &str) -> Error {
    Error::NotAReport(what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nostall_work::console::{Delays, Times};

    const LOG: &[u8] = b"one\ntwo\n";

    const fn plan(panic_at: Option<Nanos>) -> FloodPlan<'static> {
        FloodPlan {
            log: LOG,
            profile: Profile::PC_16550A,
            rate: 115_200,
            cpus: 1,
            panic_at,
        }
    }

    const FLOOD: JobResult = JobResult::Flood {
        start: 1,
        end: 9,
        lost: 0,
        overrun: 0,
        panic: None,
    };

    const HELD: Held = Held {
        cpu: 0,
        context: 1,
        from: 3,
        owner_from: 3,
        until: 4,
    };

    /// Returns all reports about two lines, in five bytes.
    fn all() -> Vec<JobResult> {
        vec![
            FLOOD,
            JobResult::Cpu {
                cpu: 0,
                given_away: 5,
                ticks: 1,
                missed: 0,
            },
            JobResult::Held(HELD),
            JobResult::Fired {
                cpu: 0,
                at: 5,
                lasts: 2,
                lockup: true,
                cascaded: false,
            },
            JobResult::Delays(Delays::from_slice(&[7, 6]).unwrap()),
            JobResult::Arrived(Times::from_slice(&[1, 2, 3, 4, 5]).unwrap()),
        ]
    }

    /// Returns the error about these results.
    fn fault(results: &[JobResult], panic_at: Option<Nanos>, bytes: usize) -> Option<String> {
        let gathered = Gathered::from(results.to_vec());
        let checked = gathered.and_then(|all| all.check(&plan(panic_at), bytes));
        checked.err().map(|error| error.to_string())
    }

    #[test]
    fn reports_of_a_flood_are_gathered() {
        let all = all();
        assert_eq!(fault(&all, None, 5), None);
        let gathered = Gathered::from(all).unwrap();
        assert_eq!(gathered.records.delays, [Nanos(6), Nanos(7)]);
        assert_eq!(gathered.arrivals[4], Nanos::from_micros(5));
        assert_eq!(gathered.records.holds[0].1.context, Context::Interrupt);
        assert_eq!(
            gathered.records.fired[0].1.what,
            What::SoftLockup(Nanos(2)),
            "a lockup"
        );
    }

    #[test]
    fn missing_and_doubled_reports_are_reported() {
        for n in [0, 1, 4, 5] {
            let mut all = all();
            let one = all.remove(n);
            assert!(fault(&all, None, 5).is_some(), "without {one:?}");
            all.extend([one.clone(), one.clone()]);
            assert!(fault(&all, None, 5).is_some(), "twice {one:?}");
        }
        assert!(fault(&[], None, 0).is_some());
    }

    #[test]
    fn bytes_lost_on_the_way_or_in_a_full_fifo_are_reported() {
        for bytes in [0, 4, 6] {
            assert!(fault(&all(), None, bytes).is_some(), "{bytes}");
        }
        let mut all = all();
        all[0] = JobResult::Flood {
            start: 1,
            end: 9,
            lost: 0,
            overrun: 3,
            panic: None,
        };
        let fault = fault(&all, None, 5).unwrap();
        assert!(
            fault.ends_with("3 bytes were written to a full FIFO"),
            "{fault}"
        );
    }

    #[test]
    fn a_panic_may_cost_lines_and_the_byte_that_was_on_its_way() {
        let at = Some(Nanos(5));
        let mut all = all();
        assert!(fault(&all, at, 5).is_some(), "it did not panic");
        all[0] = JobResult::Flood {
            start: 1,
            end: 9,
            lost: 0,
            overrun: 0,
            panic: Some(6),
        };
        assert!(fault(&all, None, 5).is_some(), "it panicked");
        all[4] = JobResult::Delays(Delays::from_slice(&[7]).unwrap());
        assert_eq!(fault(&all, at, 5), None);
        assert_eq!(fault(&all, at, 4), None);
        assert!(fault(&all, at, 3).is_some());
    }

    #[test]
    fn missing_cpus_and_contexts_are_reported() {
        for held in [Held { cpu: 1, ..HELD }, Held { context: 3, ..HELD }] {
            let mut all = all();
            all[2] = JobResult::Held(held);
            assert!(fault(&all, None, 5).is_some(), "{held:?}");
        }
    }

    #[test]
    fn a_guest_that_does_not_end_is_not_waited_for() {
        for profile in Profile::ALL {
            let plan = FloodPlan {
                profile,
                ..plan(None)
            };
            let limits = limits(&plan);
            // Silence ends a guest that hangs; this ends one that reports without end.
            assert!(limits.total < Duration::from_secs(360), "{profile:?}");
            assert!(limits.silence < limits.total && limits.start < limits.total);
        }
    }

    #[test]
    fn a_record_is_the_end_of_the_log_with_the_panics_text() {
        let logged = format!("[1] before\n[2] {FIRST_WORDS}\n[2] {LAST_WORDS}\n");
        let whole = |log: &[u8]| record(log, &logged).is_whole;
        let all = logged.as_bytes();
        let rest = &all["[1] before\n".len()..];
        assert!(whole(all));
        assert!(whole(rest), "a shorter one");
        assert!(!whole(&all[..all.len() - 1]), "cut");
        assert!(!whole(&rest[40..]), "without its beginning");
        let mut damaged = all.to_vec();
        damaged[9] ^= 1;
        assert!(!whole(&damaged), "damaged");
        assert!(!whole(b""), "empty");
    }
}

//! Measures this machine for a time.

use std::fs::{self, File};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use nostall_tracefile::export::dat::{Description, Recording};
use rustix::time::{ClockId, clock_gettime};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::paths::{self, GROUP, RETURN};
use super::tracefs::{self, COST, Instance, Refused, Tracefs, page};
use crate::output::is_quiet;

/// Time between two looks at the ring: at first, and where the reader itself would cost too much.
const LOOK: Duration = Duration::from_millis(100);
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// Number of calls of a round that measures the cost of a pair of probes.
const CALLS: u32 = 1_000;

/// Length limit for a recording in bytes.
const LONGEST: u64 = 1 << 30;

/// Limits of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub time: Duration,
    /// Size of the ring of all CPUs in bytes.
    pub buffer: u64,
    /// Share of a CPU that the measurement may take.
    pub overhead: f64,
}

impl Limits {
    /// Returns the size of each CPU's ring in KiB.
    pub fn ring(&self) -> u64 {
        // The kernel makes a ring for each CPU, whether or not this process may run there.
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let cpus = stat.matches("\ncpu").count().max(1) as u64;
        (self.buffer / 1024 / cpus).max(64)
    }
}

/// A finished measurement.
pub struct Measured {
    pub recording: Recording,
    pub description: Description,
    pub known: Known,
}

/// Knowledge of a measurement beside its records.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub elapsed: Duration,
    pub refused: Refused,
    /// Time of a call's pair of probes in nanoseconds, and the share of a CPU of all.
    pub pair: f64,
    pub overhead: f64,
    /// Processor time of this process.
    pub reader: Duration,
    /// Probed calls.
    pub calls: u64,
    /// Returns and entries that the kernel did not record.
    pub missed: u64,
    pub notes: Vec<String>,
}

/// Returns the system call that measures a probe's cost: no other program makes it often.
pub const fn cost_function() -> &'static str {
    match cfg!(target_arch = "aarch64") {
        true => "__arm64_sys_getppid",
        false => "__x64_sys_getppid",
    }
}

/// Measures until the time is over, a signal arrives or a limit is reached.
///
/// # Errors
///
/// If tracing cannot be set up, or the records cannot be kept. Nothing stays in tracefs.
pub fn measure(limits: &Limits) -> Result<Measured> {
    let ends = Arc::new(AtomicBool::new(false));
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // A signal ends the report after the measurement as usual.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&is_over))?;
        signal_hook::flag::register(signal, Arc::clone(&ends))?;
    }
    // A read of the consoles locks them, which is a call of a probed function.
    let consoles = consoles();
    let mut instance = Instance::new(Tracefs::find()?, limits.ring())?;
    let pair = pair(&mut instance);
    let mut notes = Vec::new();
    if pair.is_none() {
        notes
            .push("the time of a probed call cannot be measured here: 5 us are assumed".to_owned());
    }
    instance.clear().context("clearing the ring")?;
    instance.probe_all();
    let every = paths::functions().count() + paths::tracepoints().count();
    ensure!(
        instance.refused.len() < every,
        "this kernel has none of the probed functions, or it has no kprobes \
         (CONFIG_KPROBE_EVENTS): record with trace-cmd, as `nostall stalls --trace-cmd` prints"
    );
    let page_size = page_size(&instance.tracefs);
    let mut run = Run {
        cpus: instance.pages().context("opening the ring's pages")?,
        recording: Recording::new(page_size).context("a temporary file")?,
        page: vec![0; page_size],
        known: Known {
            pair: pair.unwrap_or(5_000.0),
            notes,
            ..Known::default()
        },
        instance,
    };
    run.until(&ends, limits)?;
    let mut measured = run.finish()?;
    is_over.store(true, Ordering::Relaxed);
    if consoles != self::consoles() {
        let note = "the consoles changed during the measurement: see /proc/consoles";
        measured.known.notes.push(note.to_owned());
    }
    Ok(measured)
}

/// Measures a call's pair of probes, in nanoseconds; `None` if it cannot be probed.
fn pair(instance: &mut Instance) -> Option<f64> {
    let round = |_| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| _ = rustix::process::getppid());
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    // The shortest round is the one that nothing interrupted.
    let calls = || (0..5).map(round).fold(f64::MAX, f64::min);
    let without = calls();
    if !instance.probe(COST, cost_function(), "") {
        instance.refused.pop();
        return None;
    }
    let with = calls();
    // A failure is met again when the instance is dropped.
    _ = instance.switch_off(COST);
    Some(with - without).filter(|pair| *pair > 0.0)
}

fn page_size(tracefs: &Tracefs) -> usize {
    let format = tracefs.read("events/header_page").unwrap_or_default();
    let format = String::from_utf8_lossy(&format);
    let data = format.lines().find(|line| line.contains("char data"));
    let number = |name: &str| {
        let (_, after) = data?.split_once(name)?;
        after.split(';').next()?.trim().parse::<usize>().ok()
    };
    let size = number("offset:").zip(number("size:"));
    size.map_or(4096, |(offset, size)| offset + size)
}

struct Run {
    cpus: Vec<(u32, File)>,
    recording: Recording,
    page: Vec<u8>,
    known: Known,
    instance: Instance,
}

impl Run {
    fn until(&mut self, ends: &AtomicBool, limits: &Limits) -> Result<()> {
        let bar = match is_quiet() {
            true => ProgressBar::hidden(),
            false => ProgressBar::new_spinner(),
        };
        let style = ProgressStyle::with_template("{msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        let start = Instant::now();
        let mut hits = self.instance.hits();
        let first_used = processor_time();
        let (mut look, mut second, mut used) = (LOOK, start, first_used);
        while start.elapsed() < limits.time && !ends.load(Ordering::Relaxed) {
            thread::sleep(look.min(limits.time.saturating_sub(start.elapsed())));
            self.read()?;
            if self.recording.bytes() > LONGEST {
                self.ended(start, "the recording has 1 GiB");
                break;
            }
            if second.elapsed() < Duration::from_secs(1) {
                continue;
            }
            if !self.instance.is_on() {
                self.ended(start, "another program switched tracing off");
                break;
            }
            let (now, now_used) = (self.instance.hits(), processor_time());
            let time = second.elapsed().as_nanos() as f64;
            let calls = calls(&now).saturating_sub(calls(&hits));
            let probes = calls as f64 * self.known.pair / time;
            let reader = (now_used - used).as_nanos() as f64 / time;
            if reader > limits.overhead / 2.0 {
                look = LONGEST_LOOK.min(2 * look);
            }
            if probes > limits.overhead / 2.0 && probes + reader > limits.overhead {
                self.shed(&hits, &now, start);
            }
            (hits, second, used) = (now, Instant::now(), now_used);
            bar.set_message(format!(
                "{} of {} s: {} calls, {} KB recorded, {:.2} % of a CPU",
                start.elapsed().as_secs(),
                limits.time.as_secs(),
                self::calls(&hits),
                self.recording.bytes() / 1000,
                100.0 * (probes + reader),
            ));
        }
        bar.finish_and_clear();
        self.known.elapsed = start.elapsed();
        self.known.reader = processor_time() - first_used;
        Ok(())
    }

    fn ended(&mut self, start: Instant, why: &str) {
        let seconds = start.elapsed().as_secs_f64();
        let note = format!("the measurement ended after {seconds:.1} s: {why}");
        self.known.notes.push(note);
    }

    /// Moves the pages of all CPUs from the ring to the recording.
    fn read(&mut self) -> Result<()> {
        for (cpu, file) in &mut self.cpus {
            loop {
                let page = page(file, &mut self.page).context("reading the ring")?;
                if page.is_empty() {
                    break;
                }
                self.recording
                    .push(*cpu, page)
                    .context("the recording, a temporary file, cannot be written")?;
            }
        }
        Ok(())
    }

    /// Switches off the function that was called most since the last look.
    fn shed(&mut self, before: &[(String, u64, u64)], now: &[(String, u64, u64)], start: Instant) {
        let before = |name: &str| before.iter().find(|(known, ..)| known == name);
        let since = |(name, hits, _): &(String, u64, u64)| {
            hits.saturating_sub(before(name).map_or(0, |(_, hits, _)| *hits))
        };
        let entries = now.iter().filter(|(name, ..)| !name.ends_with(RETURN));
        let Some(most) = entries.max_by_key(|entry| since(entry)) else {
            return;
        };
        let (name, calls) = (&most.0, since(most));
        let note = match self.instance.switch_off(name) {
            Ok(()) => format!(
                "{name} was called {calls} times in a second: because of --max-overhead, its calls \
                 after {:.1} s are in no sum",
                start.elapsed().as_secs_f64()
            ),
            Err(error) => format!("{name} cannot be switched off: {error}"),
        };
        self.known.notes.push(note);
    }

    /// Ends the recording, reads its description, and removes the instance.
    fn finish(mut self) -> Result<Measured> {
        let hits = self.instance.hits();
        for function in paths::functions() {
            // Probes that were refused cannot be switched off either.
            _ = self.instance.switch_off(function.name);
        }
        self.read()?;
        self.cpus.clear();
        self.known.calls = calls(&hits);
        self.known.missed = hits.iter().map(|(_, _, missed)| missed).sum();
        let elapsed = self.known.elapsed.as_nanos().max(1) as f64;
        let probes = self.known.calls as f64 * self.known.pair;
        let reader = self.known.reader.as_nanos() as f64;
        self.known.overhead = (probes + reader) / elapsed;
        self.known.refused = std::mem::take(&mut self.instance.refused);
        let description = describe(&self.instance.tracefs).context("reading tracefs")?;
        Ok(Measured {
            recording: self.recording,
            description,
            known: self.known,
        })
    }
}

/// Returns the number of entries.
fn calls(hits: &[(String, u64, u64)]) -> u64 {
    let entries = hits.iter().filter(|(name, ..)| !name.ends_with(RETURN));
    entries.map(|(_, hits, _)| hits).sum()
}

fn consoles() -> Vec<u8> {
    fs::read("/proc/consoles").unwrap_or_default()
}

/// Returns the processor time that this process has used.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Reads the description that a reader of the pages needs.
fn describe(instance: &Tracefs) -> io::Result<Description> {
    let formats = |folder: &str| -> io::Result<Vec<Vec<u8>>> {
        let folder = fs::read_dir(instance.path("events").join(folder))?;
        let files = folder.flatten().map(|event| event.path().join("format"));
        Ok(files.filter_map(|file| tracefs::read(&file).ok()).collect())
    };
    let systems = paths::tracepoints().map(|point| point.system);
    let systems = systems.chain([GROUP]).filter_map(|system| {
        let formats = formats(system).ok()?;
        Some((system.to_owned(), formats))
    });
    Ok(Description {
        header_page: instance.read("events/header_page")?,
        header_event: instance.read("events/header_event")?,
        ftrace: formats("ftrace")?,
        systems: systems.collect(),
        symbols: Vec::new(),
        commands: instance.read("saved_cmdlines")?,
        clock: tracefs::read(&instance.own("trace_clock"))?,
    })
}

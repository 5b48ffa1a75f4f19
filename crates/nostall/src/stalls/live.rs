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
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::paths::{self, GROUP};
use super::tracefs::{self, COST, Hits, Instance, Refused, Tracefs, page};
use crate::output::is_quiet;

/// Time between two looks at the ring: at first, and where the reader itself would cost too much.
const LOOK: Duration = Duration::from_millis(100);
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// Number of calls of a round that measures the cost of a pair of probes.
const CALLS: u32 = 1_000;

/// Length limit for a recording in bytes.
const LONGEST: u64 = 1 << 30;

/// Limits of a measurement.
#[derive(clap::Args)]
pub struct Limits {
    /// Length of the measurement; Ctrl-C ends it earlier
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,

    /// Size of the ring of all CPUs in MiB
    #[arg(long, value_name = "MIB", default_value_t = 16,
          value_parser = clap::value_parser!(u64).range(1..=4096))]
    buffer: u64,

    /// Percent of a CPU that the measurement may take: above it, the function
    /// that is called most is left out
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percentage)]
    max_overhead: f64,
}

fn percentage(text: &str) -> Result<f64> {
    let number = text.parse()?;
    ensure!(
        number > 0.0 && number <= 100.0,
        "a percentage is above 0, up to 100"
    );
    Ok(number)
}

impl Limits {
    /// Returns the size of each CPU's ring in KiB.
    pub fn ring(&self) -> u64 {
        // The kernel makes a ring for each CPU, whether or not this process may run there.
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let cpus = stat.matches("\ncpu").count().max(1) as u64;
        (self.buffer * 1024 / cpus).max(64)
    }
}

/// A finished measurement.
pub struct Measured {
    pub recording: Recording,
    pub description: Description,
    pub known: Known,
}

/// Knowledge of a measurement beside its records.
#[derive(Default)]
pub struct Known {
    pub elapsed: Duration,
    pub refused: Vec<Refused>,
    pub left_out: Vec<LeftOut>,
    pub cost: Cost,
    pub notes: Vec<String>,
}

/// Cost of the measurement.
#[derive(Default, Serialize)]
pub struct Cost {
    /// Probed calls.
    pub calls: u64,
    /// Time of a call's pair of probes.
    pub pair_ns: f64,
    /// Share of the probes and of this process.
    pub share_of_a_cpu: f64,
    /// Returns and entries that the kernel did not record.
    pub missed_probes: u64,
}

/// A function that is not measured any more, because it is called too often.
#[derive(Clone, Serialize)]
pub struct LeftOut {
    pub name: &'static str,
    pub calls_in_a_second: u64,
    pub after_s: f64,
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
    let instance = Instance::new(Tracefs::find()?)?;
    let mut known = Known::default();
    known.cost.pair_ns = pair(&instance).unwrap_or_else(|| {
        let note = "the time of a probed call cannot be measured here: 5 us are assumed";
        known.notes.push(note.to_owned());
        5_000.0
    });
    known.refused = instance.switch_all_on(limits.ring())?;
    // The ring is filled by pages of this size, also where a page of memory is larger than 4 KiB.
    let page_size = rustix::param::page_size();
    let mut run = Run {
        cpus: instance.pages().context("opening the ring's pages")?,
        recording: Recording::new(page_size).context("a temporary file")?,
        page: vec![0; page_size],
        known,
        reader: Duration::ZERO,
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
fn pair(instance: &Instance) -> Option<f64> {
    let round = |_| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| _ = rustix::process::getppid());
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    // The shortest round is the one that nothing interrupted.
    let calls = || (0..5).map(round).fold(f64::MAX, f64::min);
    let without = calls();
    instance.switch_on(COST, cost_function(), "").ok()?;
    let with = calls();
    // A failure is met again when the instance is dropped.
    _ = instance.switch_off(COST);
    Some(with - without).filter(|pair| *pair > 0.0)
}

struct Run {
    cpus: Vec<(u32, File)>,
    recording: Recording,
    page: Vec<u8>,
    known: Known,
    /// Processor time of this process.
    reader: Duration,
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
        let (start, first_used) = (Instant::now(), processor_time());
        let time = Duration::from_secs(limits.seconds);
        let overhead = limits.max_overhead / 100.0;
        let mut hits = self.instance.hits();
        let (mut look, mut second, mut used) = (LOOK, start, first_used);
        while start.elapsed() < time && !ends.load(Ordering::Relaxed) {
            thread::sleep(look.min(time.saturating_sub(start.elapsed())));
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
            let passed = second.elapsed().as_nanos() as f64;
            let new = calls(&now).saturating_sub(calls(&hits));
            let probes = new as f64 * self.known.cost.pair_ns / passed;
            let reader = (now_used - used).as_nanos() as f64 / passed;
            if reader > overhead / 2.0 {
                look = LONGEST_LOOK.min(2 * look);
            }
            if probes > overhead / 2.0 && probes + reader > overhead {
                self.shed(&hits, &now, start);
            }
            (hits, second, used) = (now, Instant::now(), now_used);
            bar.set_message(format!(
                "{} of {} s: {} calls, {} KB recorded, {:.2} % of a CPU",
                start.elapsed().as_secs(),
                limits.seconds,
                calls(&hits),
                self.recording.bytes() / 1000,
                100.0 * (probes + reader),
            ));
        }
        bar.finish_and_clear();
        self.known.elapsed = start.elapsed();
        self.reader = processor_time() - first_used;
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
    fn shed(&mut self, before: &Hits, now: &Hits, start: Instant) {
        let since = |name: &str| {
            let calls = |hits: &Hits| hits.get(name).map_or(0, |hits| hits.0);
            calls(now).saturating_sub(calls(before))
        };
        let Some(name) = now.keys().copied().max_by_key(|name| since(name)) else {
            return;
        };
        if let Err(error) = self.instance.switch_off(name) {
            let note = format!("{name} cannot be switched off: {error}");
            return self.known.notes.push(note);
        }
        let (calls_in_a_second, after_s) = (since(name), start.elapsed().as_secs_f64());
        self.known.notes.push(format!(
            "{name} was called {calls_in_a_second} times in a second: because of --max-overhead, \
             its calls after {after_s:.1} s are in no sum"
        ));
        self.known.left_out.push(LeftOut {
            name,
            calls_in_a_second,
            after_s,
        });
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
        let cost = &mut self.known.cost;
        cost.calls = calls(&hits);
        cost.missed_probes = hits.values().map(|(_, missed)| missed).sum();
        let probes = cost.calls as f64 * cost.pair_ns;
        let elapsed = self.known.elapsed.as_nanos().max(1) as f64;
        cost.share_of_a_cpu = (probes + self.reader.as_nanos() as f64) / elapsed;
        let description = describe(&self.instance.tracefs).context("reading tracefs")?;
        Ok(Measured {
            recording: self.recording,
            description,
            known: self.known,
        })
    }
}

fn calls(hits: &Hits) -> u64 {
    hits.values().map(|(calls, _)| calls).sum()
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
    let systems = paths::tracepoints().map(|(system, _)| system);
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

//! Rates of a program or guest that runs: `nostall trace report --live`, `nostall run trace --live`.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nostall_trace::model::TimeUnit;
use nostall_trace::report::{Interval, Rate, Selection};

use super::args::Args;
use super::follow::Follow;
use super::input;
use super::print::{json_line, look_of};
use crate::escape::escape_name;
use crate::output::Style;

/// Time between two checks of the stop flag.
const PAUSE: Duration = Duration::from_millis(50);

/// Form of the rates.
pub struct Rates {
    pub selection: Selection,
    pub interval: Duration,
    /// Maximum number of intervals.
    pub limit: Option<u64>,
    pub json: bool,
    /// Stream that the rates go to.
    pub to: Stream,
}

/// One of the command's output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// Prints rates until the recording ends.
///
/// # Errors
///
/// If the recording cannot be read or the output cannot be written.
pub fn run(args: &Args) -> Result<()> {
    let [path] = &args.inputs[..] else {
        anyhow::bail!(
            "--live follows one recording, and there are {}",
            args.inputs.len()
        );
    };
    let rates = Rates {
        selection: args.selection(),
        interval: args.interval,
        limit: args.limit,
        json: args.json,
        to: Stream::Stdout,
    };
    let follow = || -> Result<()> {
        input::ensure_file(path)?;
        let follow = Follow::new(path, &args.reading)?;
        print_rates(follow, rates, &*stop_signal()?)
    };
    follow().with_context(|| escape_name(&path.to_string_lossy()))
}

/// Prints the rates of recordings until they end, or until `stopped` is set.
///
/// # Errors
///
/// If a recording cannot be read or the output cannot be written.
pub fn print_rates(mut follow: Follow<'_>, rates: Rates, stopped: &AtomicBool) -> Result<()> {
    let mut rate = Rate::new(rates.selection, u64::MAX);
    let style = match rates.to {
        Stream::Stdout => Style::of(&io::stdout()),
        Stream::Stderr => Style::Plain,
    };
    let look = look_of(style, TimeUnit::Nanoseconds);
    let print = |write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>| rates.to.print(write);
    let start = Instant::now();
    let mut printed = 0;
    // Records from before the start are not counted.
    let mut is_over = take(&mut follow, &mut rate)?;
    rate.take(1, follow.catalog());
    if !rates.json && !print(&mut |out| Interval::heading(&look, out))? {
        return Ok(());
    }
    while !is_over && rates.limit.is_none_or(|limit| printed < limit) {
        let began = Instant::now();
        let is_stopped = wait(rates.interval, stopped);
        is_over = take(&mut follow, &mut rate)?;
        is_over |= is_stopped;
        let mut interval = rate.take(nanos(began.elapsed()), follow.catalog());
        interval.start = nanos(began - start);
        let is_read = print(&mut |out| match rates.json {
            true => json_line(&interval, out),
            false => interval.write((0, 1e9), &look, out),
        })?;
        if !is_read {
            break;
        }
        printed += 1;
    }
    Ok(())
}

/// Takes the steps since the last call. Returns whether the recordings have ended.
fn take(follow: &mut Follow<'_>, rate: &mut Rate) -> Result<bool> {
    follow.look(|step, catalog| _ = rate.push(step, catalog))
}

/// Waits for this long, or until `stopped` is set. Returns whether it is set.
fn wait(time: Duration, stopped: &AtomicBool) -> bool {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        if stopped.load(Ordering::Relaxed) {
            return true;
        }
        thread::sleep(left.min(PAUSE));
    }
    stopped.load(Ordering::Relaxed)
}

/// Returns a flag that Ctrl-C sets, so that the last interval is still printed.
fn stop_signal() -> Result<Arc<AtomicBool>> {
    let stopped = Arc::new(AtomicBool::new(false));
    #[cfg(target_os = "linux")]
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The second signal ends the command.
        signal_hook::flag::register_conditional_default(signal, stopped.clone())?;
        signal_hook::flag::register(signal, stopped.clone())?;
    }
    Ok(stopped)
}

impl Stream {
    /// Prints and flushes. Returns false if the reader of the output has closed it.
    fn print(self, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> Result<bool> {
        let mut text = Vec::new();
        write(&mut text)?;
        let (mut out, name): (Box<dyn Write>, _) = match self {
            Self::Stdout => (Box::new(io::stdout().lock()), "standard output"),
            Self::Stderr => (Box::new(io::stderr().lock()), "standard error"),
        };
        match out.write_all(&text).and_then(|()| out.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            result => result.map(|()| true).context(name),
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

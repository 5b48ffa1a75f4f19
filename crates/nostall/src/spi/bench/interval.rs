//! Messages, one after the other, for a while: by one thread or by several at once.

use std::io;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;
use nostall_io::{Clock, Nanos};

use super::counters::own_switches;

/// Three digits of a time are right.
const DIGITS: u8 = 3;

/// Nanoseconds; longer times count as this. Linux gives up a message much earlier.
const LONGEST: u64 = 1_000_000_000_000;

/// Function that sends one message, and returns whether it came back changed.
pub type Sender<'a> = Box<dyn FnMut() -> Result<bool> + Send + 'a>;

/// Results of the messages of one interval, or of several.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Nanoseconds from one message's end to the next one's.
    pub latency: Histogram<u64>,
    pub changed: u64,
    /// Times that a sending thread stopped running.
    pub switches: Option<u64>,
}

impl Tally {
    pub fn new() -> Result<Self> {
        Ok(Self {
            latency: Histogram::new_with_max(LONGEST, DIGITS)?,
            changed: 0,
            switches: Some(0),
        })
    }

    pub fn messages(&self) -> u64 {
        self.latency.len()
    }

    pub fn add(&mut self, more: &Self) -> Result<()> {
        self.latency.add(&more.latency)?;
        self.changed += more.changed;
        self.switches = self.switches.zip(more.switches).map(|(a, b)| a + b);
        Ok(())
    }
}

/// A sender's messages, and its first and its last time.
type Sent = (Tally, Nanos, Nanos);

/// Has each of `senders` send for `span`, all at once. Returns the time from the first sender's
/// begin to the last one's end as well. All end soon after one fails, or once `stop` is set.
///
/// Only senders read the clock, so a pause of the calling thread changes no result.
///
/// # Errors
///
/// The first sender's that failed.
pub fn run(
    senders: Vec<Sender<'_>>,
    span: Duration,
    stop: &AtomicBool,
    clock: &(impl Clock + Sync),
) -> Result<(Tally, Duration)> {
    let span = Nanos(span.as_nanos() as u64);
    let start = RwLock::new(());
    let failed = AtomicBool::new(false);
    // Senders begin once all have a thread.
    let closed = start.write();
    let sent: Vec<Result<Sent>> = thread::scope(|scope| {
        let (start, failed) = (&start, &failed);
        let spawn = |sender| {
            let body = move || {
                drop(start.read());
                let stops = || stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed);
                let sent = send(sender, span, clock, stops);
                failed.fetch_or(sent.is_err(), Ordering::Relaxed);
                sent
            };
            let thread = thread::Builder::new().spawn_scoped(scope, body);
            failed.fetch_or(thread.is_err(), Ordering::Relaxed);
            thread
        };
        let threads: Vec<_> = senders.into_iter().map(spawn).collect();
        drop(closed);
        let join = |thread: io::Result<ScopedJoinHandle<'_, _>>| {
            let thread = thread.map_err(|error| anyhow!("no thread for it: {error}"))?;
            let sent = thread.join();
            sent.unwrap_or_else(|_| Err(anyhow!("a sending thread panicked")))
        };
        threads.into_iter().map(join).collect()
    });
    let mut all = Tally::new()?;
    let (mut begun, mut ended) = (Nanos(u64::MAX), Nanos::ZERO);
    for sent in sent {
        let (tally, first, last) = sent?;
        all.add(&tally)?;
        begun = begun.min(first);
        ended = ended.max(last);
    }
    Ok((all, Duration::from_nanos((ended - begun).0)))
}

fn send(
    mut sender: Sender<'_>,
    span: Nanos,
    clock: &impl Clock,
    stops: impl Fn() -> bool,
) -> Result<Sent> {
    let mut tally = Tally::new()?;
    let switches = own_switches();
    let begun = clock.now();
    let mut last = begun;
    while !stops() {
        tally.changed += u64::from(sender()?);
        let now = clock.now();
        tally.latency.saturating_record((now - last).0);
        last = now;
        if now - begun >= span {
            break;
        }
    }
    let switches = switches.zip(own_switches());
    tally.switches = switches.map(|(before, after)| after.wrapping_sub(before));
    Ok((tally, begun, last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    use nostall_io::HostClock;

    static NEVER: AtomicBool = AtomicBool::new(false);

    /// Nanoseconds of a message on [`Count`].
    const MESSAGE: u64 = 50_000;

    /// A clock that messages move. Only senders may read it.
    struct Count {
        messages: AtomicU64,
        caller: thread::ThreadId,
    }

    impl Count {
        fn new() -> Self {
            Self {
                messages: AtomicU64::new(0),
                caller: thread::current().id(),
            }
        }
    }

    impl Clock for Count {
        fn now(&self) -> Nanos {
            assert_ne!(thread::current().id(), self.caller, "read by a bystander");
            Nanos(self.messages.load(Ordering::SeqCst) * MESSAGE)
        }
    }

    #[test]
    fn every_message_of_every_thread_is_counted_and_timed_by_its_sender() {
        let clock = Count::new();
        let sender = |changes: bool| -> Sender<'_> {
            let sent = &clock.messages;
            Box::new(move || {
                let number = sent.fetch_add(1, Ordering::SeqCst);
                thread::sleep(Duration::from_micros(50));
                Ok(changes && number.is_multiple_of(2))
            })
        };
        let span = Duration::from_millis(20);
        let senders = vec![sender(true), sender(true)];
        let (tally, took) = run(senders, span, &NEVER, &clock).unwrap();
        let sent = clock.messages.load(Ordering::SeqCst);
        assert_eq!(tally.messages(), sent);
        assert_eq!(tally.changed, sent.div_ceil(2));
        // Each message slept.
        assert!(tally.switches.unwrap() >= sent);
        // The histogram keeps three digits.
        assert!(tally.latency.min() >= MESSAGE - MESSAGE / 1_000);
        // The first sender reads the clock before any message, and the last one after all.
        assert_eq!(took, Duration::from_nanos(sent * MESSAGE));
        assert!(took >= span);
    }

    #[test]
    fn the_failure_of_one_sender_ends_all_and_is_reported() {
        let mut left = 3;
        let fails: Sender<'_> = Box::new(move || {
            left -= 1;
            match left {
                0 => Err(anyhow!("gone")),
                _ => Ok(false),
            }
        });
        let goes_on: Sender<'_> = Box::new(|| Ok(false));
        let long = Duration::from_secs(3600);
        let error = run(vec![goes_on, fails], long, &NEVER, &HostClock::new()).unwrap_err();
        assert_eq!(error.to_string(), "gone");
    }

    #[test]
    fn all_end_when_they_are_told_to() {
        let stop = AtomicBool::new(false);
        let tells: Sender<'_> = Box::new(|| {
            stop.store(true, Ordering::Relaxed);
            Ok(false)
        });
        let goes_on: Sender<'_> = Box::new(|| Ok(false));
        let long = Duration::from_secs(3600);
        run(vec![tells, goes_on], long, &stop, &HostClock::new()).unwrap();
    }
}

//! Messages, one after the other, for a while: by one thread or by several at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;

use super::counters::own_switches;

/// Three digits of a time are right.
const DIGITS: u8 = 3;

/// Nanoseconds; longer times count as this. Linux gives up a message much earlier.
const LONGEST: u64 = 1_000_000_000_000;

/// Function that sends one message, and returns whether it came back changed.
pub type Sender<'a> = Box<dyn FnMut() -> Result<Came> + Send + 'a>;

/// How a message came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    AsItShould,
    Changed,
}

/// Results of the messages of one stint, or of several.
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

/// Has each of `senders` send for `span`, all at once, and returns how long they really did. All
/// end soon after one fails, or once `stop` is set.
///
/// # Errors
///
/// The first sender's that failed.
pub fn run(
    senders: Vec<Sender<'_>>,
    span: Duration,
    stop: &AtomicBool,
) -> Result<(Tally, Duration)> {
    let start = Barrier::new(senders.len() + 1);
    let failed = AtomicBool::new(false);
    thread::scope(|scope| {
        let (start, failed) = (&start, &failed);
        let mut threads = Vec::new();
        let mut refused = None;
        for sender in senders {
            let body = move || {
                start.wait();
                // Not begun, where another thread could not be.
                if failed.load(Ordering::Relaxed) {
                    return Tally::new();
                }
                let sent = send(sender, span, &|| {
                    stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed)
                });
                if sent.is_err() {
                    failed.store(true, Ordering::Relaxed);
                }
                sent
            };
            match thread::Builder::new().spawn_scoped(scope, body) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    failed.store(true, Ordering::Relaxed);
                    // Its place at the start.
                    scope.spawn(|| start.wait());
                    refused = Some(anyhow!("no thread for it: {error}"));
                }
            }
        }
        start.wait();
        let begun = Instant::now();
        let mut all = Tally::new()?;
        let mut error = refused;
        for thread in threads {
            match thread.join() {
                Ok(Ok(tally)) => all.add(&tally)?,
                Ok(Err(failure)) => error = error.or(Some(failure)),
                Err(_) => error = error.or(Some(anyhow!("a sending thread panicked"))),
            }
        }
        match error {
            Some(error) => Err(error),
            None => Ok((all, begun.elapsed())),
        }
    })
}

fn send(mut sender: Sender<'_>, span: Duration, stops: &dyn Fn() -> bool) -> Result<Tally> {
    let mut tally = Tally::new()?;
    let switches = own_switches();
    let begun = Instant::now();
    let mut last = begun;
    while !stops() {
        if sender()? == Came::Changed {
            tally.changed += 1;
        }
        let now = Instant::now();
        let nanos = u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX);
        tally.latency.saturating_record(nanos);
        last = now;
        if now - begun >= span {
            break;
        }
    }
    tally.switches = switches
        .zip(own_switches())
        .map(|(before, after)| after.wrapping_sub(before));
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    static NEVER: AtomicBool = AtomicBool::new(false);

    #[test]
    fn every_message_of_every_thread_is_counted() {
        let sent = AtomicU64::new(0);
        let sender = |changes: bool| -> Sender<'_> {
            let sent = &sent;
            Box::new(move || {
                let number = sent.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_micros(50));
                Ok(match changes && number.is_multiple_of(2) {
                    true => Came::Changed,
                    false => Came::AsItShould,
                })
            })
        };
        let span = Duration::from_millis(20);
        let (tally, took) = run(vec![sender(true), sender(true)], span, &NEVER).unwrap();
        let sent = sent.load(Ordering::Relaxed);
        assert_eq!(tally.messages(), sent);
        assert_eq!(tally.changed, sent.div_ceil(2));
        // Each slept, and the clock went on meanwhile.
        assert!(tally.switches.unwrap() >= sent);
        assert!(tally.latency.min() >= 50_000);
        assert!(took >= span);
    }

    #[test]
    fn the_failure_of_one_sender_ends_all_and_is_reported() {
        let mut left = 3;
        let fails: Sender<'_> = Box::new(move || {
            left -= 1;
            match left {
                0 => Err(anyhow!("gone")),
                _ => Ok(Came::AsItShould),
            }
        });
        let goes_on: Sender<'_> = Box::new(|| Ok(Came::AsItShould));
        let long = Duration::from_secs(3600);
        let error = run(vec![goes_on, fails], long, &NEVER).unwrap_err();
        assert_eq!(error.to_string(), "gone");
    }

    #[test]
    fn all_end_when_they_are_told_to() {
        let stop = AtomicBool::new(false);
        let tells: Sender<'_> = Box::new(|| {
            stop.store(true, Ordering::Relaxed);
            Ok(Came::AsItShould)
        });
        let goes_on: Sender<'_> = Box::new(|| Ok(Came::AsItShould));
        let long = Duration::from_secs(3600);
        run(vec![tells, goes_on], long, &stop).unwrap();
    }
}

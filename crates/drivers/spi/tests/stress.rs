//! Threads that share a bus with all kinds of calls, and with random drops, time-outs and turns.
//! Every waiter progresses, and no message is lost or reordered.
//!
//! Each line has to send 10,000 messages, or `NOSTALL_STRESS_MESSAGES`, while all others send too. `make
//! stress` has a hundred times as many.
#![cfg(feature = "std")]

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use embedded_hal_async::spi::SpiDevice;
use nostall_io::Nanos;
use nostall_spi::{
    AsyncController, Bus, Callback, Capabilities, Completed, Config, Controller, Error, Fault,
    Level, Progress, Select, Settings, Slots, Threads, Transfer, Wire, Words, Worker,
};

/// Threads, each with a line of its own.
const LINES: usize = 6;

/// Time with a worker. A quarter of it passes without one.
const PAUSE: Duration = Duration::from_millis(20);

/// Ends a hang, such as a line that starves.
const HANG_LIMIT: Duration = Duration::from_secs(300);

/// A controller that records the number in each message, for each line.
#[derive(Default)]
struct Noted {
    line: u8,
    selected: bool,
    seen: Arc<Mutex<HashMap<u8, Vec<u32>>>>,
}

impl Controller for Noted {
    fn capabilities(&self) -> Capabilities {
        Capabilities::all(16)
    }
    fn set(&mut self, wire: &Wire) -> Result<u32, Fault> {
        assert!(!self.selected, "set while a device is selected");
        if let Select::Line(line, _) = wire.select {
            self.line = line;
        }
        Ok(wire.clock)
    }
    fn select(&mut self, level: Level) -> Result<(), Fault> {
        let selected = level == Level::Asserted;
        assert_ne!(self.selected, selected, "selected twice");
        self.selected = selected;
        Ok(())
    }
    fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault> {
        let mut bytes = Vec::new();
        while let Some(word) = words.next_word() {
            bytes.push(word as u8);
            words.receive(word);
        }
        let number = u32::from_ne_bytes(bytes[..4].try_into().expect("a number"));
        let mut seen = self.seen.lock().expect("no panic");
        seen.entry(self.line).or_default().push(number);
        Ok(Progress::Done)
    }
    fn abort(&mut self) -> Result<(), Fault> {
        self.selected = false;
        Ok(())
    }
}

/// A transfer takes one more poll, in which its future may be dropped.
impl AsyncController for Noted {
    async fn transfer_async(
        &mut self,
        words: &mut Words<'_>,
        _: &impl nostall_spi::Waits,
    ) -> Result<(), Fault> {
        let mut polled = false;
        std::future::poll_fn(|context| {
            context.waker().wake_by_ref();
            match std::mem::replace(&mut polled, true) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        self.transfer(words).map(drop)
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Random numbers: SplitMix64 (Steele, Lea, Flood, 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % limit
    }
}

type Stressed = Bus<Noted, Threads, Slots<16, 4, 8>>;

/// Polls a future to its end, or drops it after this number of polls.
fn drive<F: Future>(future: F, polls: u64) -> Option<F::Output> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    for _ in 0..polls {
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        match polled {
            Poll::Ready(output) => return Some(output),
            Poll::Pending => thread::park(),
        }
    }
    None
}

/// Messages that each line has sent, and whether all have sent enough.
#[derive(Default)]
struct Load {
    sent: [AtomicU32; LINES],
    is_over: AtomicBool,
}

/// Numbers that callbacks received, and whether the message was sent.
type Called = Mutex<Vec<(usize, bool)>>;

/// Results of the messages of one thread.
#[derive(Default)]
struct Tally {
    /// Messages that were sent, according to the bus.
    sent: Vec<u32>,
    /// Messages that were not sent because their wait was too long, according to the bus.
    timed_out: Vec<u32>,
    /// Messages that were sent with a callback.
    called_back: Vec<u32>,
}

/// Sends one thread's messages, each with the next number, until the load is over.
fn stress(bus: &Stressed, line: u8, load: &Load, called: &'static Called) -> Tally {
    let device = bus
        .device(Settings::new(1_000_000, line))
        .expect("the controller has this line");
    let then: Callback = Box::leak(Box::new(|completed: Completed<'_>| {
        let sent = completed.result.is_ok();
        called
            .lock()
            .expect("no panic")
            .push((completed.number, sent));
    }));
    let holds = bus.config().lock_timeout < Config::DEFAULT.lock_timeout;
    let mut random = Random(line.into());
    let mut tally = Tally::default();
    let mut number = 0_u32;
    while !load.is_over.load(Ordering::Relaxed) {
        number += 1;
        let bytes = number.to_ne_bytes();
        let mut message = [Transfer::write(&bytes)];
        let sent = match random.below(10) {
            0 | 1 => device.write(&bytes).map(|()| true),
            2 => device.lock().and_then(|mut locked| {
                locked.sync(&mut message)?;
                if holds && random.below(50) == 0 {
                    // More than the time limit of the others.
                    thread::sleep(Duration::from_millis(2));
                }
                tally.sent.push(number);
                number += 1;
                locked.sync(&mut [Transfer::write(&number.to_ne_bytes())])?;
                Ok(true)
            }),
            3 => {
                let submitted = device.submit(&mut message);
                submitted.and_then(|mut pending| pending.wait().map(|()| true))
            }
            // The handle is dropped immediately, so the message may be sent or not.
            4 => device.submit(&mut message).map(|_| false),
            5 => {
                let submitted = device.submit(&mut message);
                submitted.map(|mut pending| {
                    drive(pending.finished(), 1 + random.below(3)) == Some(Ok(()))
                })
            }
            6 => {
                let ended = drive(device.transfer_async(&mut message), 1 + random.below(4));
                ended.unwrap_or(Ok(())).map(|()| ended.is_some())
            }
            7 => {
                let locked = async {
                    let mut locked = device.lock_async().await?;
                    SpiDevice::write(&mut locked, &bytes).await
                };
                let ended = drive(locked, 1 + random.below(4));
                ended.unwrap_or(Ok(())).map(|()| ended.is_some())
            }
            8 => {
                let key = usize::from(line) << 32 | number as usize;
                let submitted = device.submit_then(&mut message, then, key);
                submitted.map(|()| {
                    tally.called_back.push(number);
                    false
                })
            }
            _ => {
                let ended = drive(device.transfer_async(&mut message), u64::MAX);
                ended.expect("it is polled to its end").map(|()| true)
            }
        };
        match sent {
            Ok(true) => {
                tally.sent.push(number);
                load.sent[usize::from(line)].fetch_add(1, Ordering::Relaxed);
            }
            Ok(false) | Err(Error::LineFull) => {}
            Err(Error::BusHeld | Error::Abandoned) if holds => tally.timed_out.push(number),
            // The owner sends the rest.
            Err(Error::Unfinished) if holds => {}
            // A dropped future was running the message, so its handle gets this error.
            Err(Error::Failed {
                fault: Fault::Dropped,
                ..
            }) => {}
            Err(error) => panic!("line {line}: {error}"),
        }
    }
    tally
}

/// Runs six threads on a bus with this time-out. Returns the number of waits that were too long.
fn share(lock_timeout: Nanos) -> usize {
    let messages = std::env::var("NOSTALL_STRESS_MESSAGES").ok();
    let messages = messages
        .and_then(|messages| messages.parse().ok())
        .unwrap_or(10_000);
    let noted = Noted::default();
    let seen = noted.seen.clone();
    let config = Config {
        idle_timeout: Nanos::from_millis(5),
        lock_timeout,
        ..Config::DEFAULT
    };
    let bus: &'static Stressed = Box::leak(Box::new(
        Bus::sized(noted, Threads::new()).with_config(config),
    ));
    let called: &'static Called = Box::leak(Box::default());
    let load: &'static Load = Box::leak(Box::default());
    let threads: Vec<_> = (0..LINES as u8)
        .map(|line| thread::spawn(move || stress(bus, line, load, called)))
        .collect();
    // Starts and ends workers.
    let mut pauses = 0;
    let mut least = 0;
    while least < messages {
        assert!(
            !threads.iter().any(|thread| thread.is_finished()),
            "a thread failed"
        );
        let worker = Worker::start(bus).expect("there is none");
        thread::sleep(PAUSE);
        drop(worker);
        thread::sleep(PAUSE / 4);
        let sent = load.sent.iter().map(|sent| sent.load(Ordering::Relaxed));
        pauses = if sent.clone().min() > Some(least) {
            0
        } else {
            pauses + 1
        };
        assert!(
            PAUSE * pauses < HANG_LIMIT,
            "a line starves: {:?}",
            load.sent
        );
        least = sent.min().unwrap_or(0);
    }
    load.is_over.store(true, Ordering::Relaxed);
    let tallies: Vec<_> = { threads.into_iter() }
        .map(|thread| thread.join().expect("no panic"))
        .collect();
    assert_eq!(bus.in_line(), 0);
    let seen = seen.lock().expect("no panic");
    let mut called = called.lock().expect("no panic").clone();
    called.sort_unstable();
    for (line, tally) in tallies.iter().enumerate() {
        let noted = seen.get(&(line as u8)).expect("it sent");
        let was_sent = |number: &&u32| noted.binary_search(number).is_ok();
        assert!(noted.is_sorted_by(|a, b| a < b), "line {line} is reordered");
        let lost = tally.sent.iter().filter(|number| !was_sent(number));
        assert_eq!(lost.count(), 0, "line {line} has lost messages");
        let late = tally.timed_out.iter().filter(was_sent);
        assert_eq!(
            late.count(),
            0,
            "line {line} sent a message that it had reported as not sent"
        );
        let its: Vec<_> = { called.iter() }
            .filter(|(key, _)| key >> 32 == line)
            .map(|(key, sent)| (*key as u32, *sent))
            .collect();
        let once = its.iter().map(|(number, _)| number);
        assert!(once.eq(&tally.called_back), "line {line}: one call each");
        for (number, sent) in its {
            assert_eq!(was_sent(&&number), sent, "line {line}, message {number}");
        }
        println!(
            "line {line}: {} messages, {} of them waited for, {} with a callback, {} too late",
            noted.len(),
            tally.sent.len(),
            tally.called_back.len(),
            tally.timed_out.len(),
        );
    }
    println!("{:?}", bus.statistics());
    tallies.iter().map(|tally| tally.timed_out.len()).sum()
}

#[test]
fn threads_share_a_bus_in_every_way_and_no_message_is_lost_or_reordered() {
    // No pause of the machine is as long.
    let lock_timeout = Nanos(2 * HANG_LIMIT.as_nanos() as u64);
    assert_eq!(share(lock_timeout), 0);
}

#[test]
fn threads_whose_waits_end_too_early_progress_and_learn_which_messages_were_sent() {
    assert!(share(Nanos::from_micros(500)) > 0, "no wait timed out");
}

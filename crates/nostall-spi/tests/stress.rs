//! Threads that share a bus in every way at once, with drops, time-outs and turns at
//! random: every waiter progresses, and no message is lost or reordered.
//!
//! `make stress` runs it for 60 s; `NOSTALL_STRESS_SECONDS` says how long otherwise.
#![cfg(feature = "std")]

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use nostall_io::Nanos;
use nostall_spi::{
    AsyncController, Bus, Capabilities, Config, Controller, Error, Fault, Level, Progress, Select,
    Settings, Threads, Transfer, Wire, Words, Worker,
};

/// Longest wait of any caller.
const PROGRESS: Duration = Duration::from_secs(2);

/// Notes the number in each message, for each line.
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
    fn abort(&mut self) {
        self.selected = false;
    }
}

/// A transfer takes a poll more, in which its future may be dropped.
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

/// SplitMix64 (Steele, Lea, Flood, 2014).
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

type Stressed = Bus<Noted, Threads, 16, 4, 8>;

/// Polls a future to its end, or drops it after so many polls.
fn drive<F: Future>(future: F, polls: u64) -> Option<F::Output> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    for _ in 0..polls {
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        match polled {
            Poll::Ready(output) => return Some(output),
            Poll::Pending => thread::park_timeout(PROGRESS * 2),
        }
    }
    None
}

/// One thread's messages, each with the next number. Returns those that were surely sent.
fn stress(bus: &Stressed, line: u8, until: Instant) -> Vec<u32> {
    let device = bus
        .device(Settings::new(1_000_000, Select::line(line)))
        .expect("it can");
    let mut random = Random(line.into());
    let mut sure = Vec::new();
    let mut number = 0_u32;
    while Instant::now() < until {
        number += 1;
        let bytes = number.to_ne_bytes();
        let start = Instant::now();
        let sent = match random.below(8) {
            0 | 1 => device.write(&bytes).map(|()| true),
            2 => device.lock().and_then(|mut locked| {
                locked.sync(&mut [Transfer::write(&bytes)])?;
                number += 1;
                sure.push(number - 1);
                locked.sync(&mut [Transfer::write(&number.to_ne_bytes())])?;
                Ok(true)
            }),
            3 => device
                .submit(&mut [Transfer::write(&bytes)])
                .and_then(|mut pending| pending.wait().map(|()| true)),
            // The handle is dropped at once: it may be sent, or not.
            4 => device.submit(&mut [Transfer::write(&bytes)]).map(|_| false),
            5 => {
                let submitted = device.submit(&mut [Transfer::write(&bytes)]);
                submitted.map(|mut pending| {
                    drive(pending.finished(), 1 + random.below(3)) == Some(Ok(()))
                })
            }
            6 => {
                let mut message = [Transfer::write(&bytes)];
                let ended = drive(device.transfer_async(&mut message), 1 + random.below(4));
                ended.unwrap_or(Ok(())).map(|()| ended.is_some())
            }
            _ => {
                let mut message = [Transfer::write(&bytes)];
                let ended = drive(device.transfer_async(&mut message), u64::MAX);
                ended.expect("it is polled to its end").map(|()| true)
            }
        };
        let took = start.elapsed();
        assert!(took < PROGRESS, "line {line} waited for {took:?}");
        match sent {
            Ok(true) => sure.push(number),
            Ok(false) | Err(Error::LineFull) => {}
            // A future that was dropped was running it, and its handle is told so.
            Err(Error::Failed {
                fault: Fault::Dropped,
                ..
            }) => {}
            Err(error) => panic!("line {line}: {error}"),
        }
    }
    sure
}

#[test]
fn threads_share_a_bus_in_every_way_and_no_message_is_lost_or_reordered() {
    let seconds = std::env::var("NOSTALL_STRESS_SECONDS").ok();
    let seconds = seconds
        .and_then(|seconds| seconds.parse().ok())
        .unwrap_or(2);
    let noted = Noted::default();
    let seen = noted.seen.clone();
    let config = Config {
        idle_timeout: Nanos::from_millis(5),
        ..Config::DEFAULT
    };
    let bus: &'static Stressed = Box::leak(Box::new(Bus::new(noted, Threads::new(), config)));
    let until = Instant::now() + Duration::from_secs(seconds);
    let threads: Vec<_> = (0..6)
        .map(|line| thread::spawn(move || stress(bus, line, until)))
        .collect();
    // Workers come and go.
    while Instant::now() < until {
        let worker = Worker::start(bus).expect("there is none");
        thread::sleep(Duration::from_millis(20));
        drop(worker);
        thread::sleep(Duration::from_millis(5));
    }
    for (line, thread) in threads.into_iter().enumerate() {
        let sure = thread.join().expect("no panic");
        let seen = seen.lock().expect("no panic");
        let sent = seen.get(&(line as u8)).expect("it sent");
        assert!(sent.is_sorted_by(|a, b| a < b), "line {line} is reordered");
        let lost = sure
            .iter()
            .filter(|number| sent.binary_search(number).is_err());
        assert_eq!(lost.count(), 0, "line {line} has lost messages");
        println!(
            "line {line}: {} messages, {} of them waited for",
            sent.len(),
            sure.len()
        );
    }
    assert_eq!(bus.in_line(), 0);
    println!("{:?}", bus.statistics());
}

//! Functions that wait or measure return in bounded time, even if the clock stops or jumps.

use std::cell::Cell;

use crate::common::{Line, META, P, of, rejoin};
use nostall_console::{
    Caller, Drain, FlushLimits, Next, Offered, OverflowPolicy, Priority, Ring, Sink, SinkOptions,
    Slot, StallDetector, UartSink, Watchdog, flush,
};
use nostall_devices::VirtualClock;
use nostall_devices::uart::{self as devices, Controller, Profile, Uart};
use nostall_io::{Clock, Nanos};
use nostall_uart::{Console, LineSettings};

const HOUR: Nanos = Nanos::from_secs(3_600);
const START: Nanos = Nanos::from_secs(10_000);
const CLOCK_READ: Nanos = Nanos(200);

/// A fault of a clock at one of its reads.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Stops,
    GoesBack,
    GoesBackEachTime,
    JumpsAhead,
    JumpsAheadEachTime,
    JumpsAtRandom,
    RunsFast,
    ToItsEnd,
}

const FAULTS: [Fault; 8] = [
    Fault::Stops,
    Fault::GoesBack,
    Fault::GoesBackEachTime,
    Fault::JumpsAhead,
    Fault::JumpsAheadEachTime,
    Fault::JumpsAtRandom,
    Fault::RunsFast,
    Fault::ToItsEnd,
];

/// A clock with reads of 200 ns until its fault occurs.
struct Broken {
    fault: Fault,
    at: Cell<u64>,
    reads: Cell<u64>,
    time: Cell<Nanos>,
}

impl Broken {
    fn new(fault: Fault, at: u64) -> Self {
        Self {
            fault,
            at: Cell::new(at),
            reads: Cell::new(0),
            time: Cell::new(START),
        }
    }
}

impl Clock for Broken {
    fn now(&self) -> Nanos {
        let read = self.reads.get();
        self.reads.set(read + 1);
        let time = self.time.get();
        let time = match self.fault {
            _ if read < self.at.get() => time + CLOCK_READ,
            Fault::Stops => time,
            Fault::GoesBack if read == self.at.get() => time - HOUR,
            Fault::GoesBackEachTime => time - Nanos(300),
            Fault::JumpsAhead if read == self.at.get() => time + HOUR,
            Fault::JumpsAheadEachTime => time + HOUR,
            Fault::JumpsAtRandom => Nanos(read.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20),
            Fault::RunsFast => time + CLOCK_READ * 1_000,
            Fault::ToItsEnd => Nanos(u64::MAX),
            _ => time + CLOCK_READ,
        };
        self.time.set(time);
        time
    }
}

fn each(mut act: impl FnMut(&Broken)) {
    let reads: &[u64] = if cfg!(miri) {
        &[0, 9]
    } else {
        &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 50, 100, 300]
    };
    for fault in FAULTS {
        for &at in reads {
            act(&Broken::new(fault, at));
        }
    }
}

/// Returns the maximum number of polls for `wait`: twice the number of 50 ns steps in it, plus
/// 2,000. Each poll of a stopped clock counts as 50 ns.
fn polls(wait: Nanos) -> u64 {
    2 * wait.0 / 50 + 2_000
}

const WAIT: Nanos = Nanos::from_micros(if cfg!(miri) { 5 } else { 1_500 });

#[test]
fn a_flush_to_a_stuck_sink_ends_with_any_clock() {
    each(|clock| {
        let ring = Ring::<[Slot; 8]>::new();
        let stuck = Drain::new(&ring, Line::new(0), SinkOptions::DEFAULT);
        ring.log(&of(Priority::Panic), b"panic");
        let flushed = flush(&[&stuck], 0, clock, FlushLimits::DEFAULT.total(WAIT));
        assert_eq!((flushed.complete, flushed.incomplete), (0, 1));
        let reads = clock.reads.get();
        assert!(reads <= polls(WAIT), "{:?}: {reads} reads", clock.fault);
    });
}

#[test]
fn a_panics_text_reaches_a_working_sink_with_any_clock() {
    each(|clock| {
        let ring = Ring::<[Slot; 8]>::new();
        let drain = Drain::new(&ring, Line::new(7), SinkOptions::DEFAULT);
        ring.log(&META, b"backlog");
        ring.log(&of(Priority::Panic), b"panic");
        let flushed = flush(
            &[&drain],
            0,
            clock,
            FlushLimits::DEFAULT.total(WAIT * 1_000),
        );
        assert_eq!(flushed.complete, 1, "{:?}", clock.fault);
        assert_eq!(drain.sink().text(), format!("{P}panic\n{P}backlog\n"));
    });
}

#[test]
fn a_panic_seizes_the_sink_of_a_hung_owner_with_any_clock() {
    /// Hangs the CPU that makes the first offer. Another CPU then panics.
    struct Hangs<'a> {
        line: Line,
        drain: Cell<Option<&'a Drain<'a, Self>>>,
        panic: &'a dyn Fn(&Drain<'_, Self>),
    }
    impl Sink for Hangs<'_> {
        fn offer(&self, text: &[u8], caller: Caller) -> Offered {
            if let Some(drain) = self.drain.take() {
                (self.panic)(drain);
                return Offered::GONE;
            }
            self.line.offer(text, caller)
        }
    }
    each(|clock| {
        let ring = Ring::<[Slot; 8]>::new();
        let panic = |drain: &Drain<'_, Hangs<'_>>| {
            ring.log(&of(Priority::Panic), b"panic");
            let flushed = flush(&[drain], 1, clock, FlushLimits::DEFAULT);
            assert_eq!((flushed.seized, flushed.complete), (1, 1));
            let reads = clock.reads.get();
            assert!(reads <= polls(Nanos::from_millis(1)), "{reads}");
        };
        let sink = Hangs {
            line: Line::new(99),
            drain: Cell::new(None),
            panic: &panic,
        };
        let drain = Drain::new(&ring, sink, SinkOptions::DEFAULT);
        drain.sink().drain.set(Some(&drain));
        ring.log(&META, b"backlog");
        let next = drain.drain_bounded(0, Priority::Normal, &Broken::new(Fault::Stops, 0));
        assert_eq!(next, Next::Over);
        assert!(drain.sink().line.text().contains("panic\n"));
    });
}

/// A broken clock in a machine with virtual time that continues.
struct InMachine {
    shown: Broken,
    time: VirtualClock,
}

impl Clock for InMachine {
    fn now(&self) -> Nanos {
        self.time.advance(CLOCK_READ);
        self.shown.now()
    }
}

#[test]
#[cfg_attr(miri, ignore = "a port in virtual time")]
fn a_panics_text_reaches_a_serial_port_with_any_clock() {
    for fault in FAULTS {
        // With these, the limit of a second is soon used up: the backlog is cut.
        let is_fast = matches!(
            fault,
            Fault::JumpsAheadEachTime | Fault::JumpsAtRandom | Fault::RunsFast
        );
        for (at, slices) in [(0, 0), (5, 0), (100, 0), (0, 3), (5_000, 3)] {
            let (port, time) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
            let shown = Broken::new(fault, u64::MAX);
            let clock = InMachine { shown, time };
            let line = LineSettings::baud(115_200);
            let console = Console::open(&port, &clock, line).unwrap();
            let ring = Ring::<[Slot; 64]>::new();
            let drain = Drain::new(&ring, UartSink::new(console), SinkOptions::DEFAULT);
            for n in 0..20 {
                ring.format(&META, format_args!("backlog {n}"));
            }
            for _ in 0..slices {
                let _ = drain.drain_bounded(0, Priority::Normal, &clock);
            }
            clock.shown.at.set(clock.shown.reads.get() + at);
            let text = "a panic of three lines\n".repeat(3);
            ring.log(&of(Priority::Panic), text.as_bytes());
            let start = clock.time.now();
            let flushed = flush(
                &[&drain],
                0,
                &clock,
                FlushLimits::DEFAULT.total(Nanos::from_secs(1)),
            );
            let took = clock.time.now() - start;
            assert!(took <= Nanos::from_secs(8), "{fault:?} at {at}: {took}");
            // The last FIFO leaves the port.
            clock.time.advance(Nanos::from_millis(10));
            let lines = rejoin::lines(&String::from_utf8(port.into_sink()).unwrap());
            let first = usize::from(slices > 0 && lines[0].contains("backlog"));
            let panic = format!("{P}a panic of three lines");
            assert!(
                lines[first..].starts_with(&[panic.clone(), panic.clone(), panic]),
                "{fault:?} at {at}: {lines:?}"
            );
            if is_fast {
                continue;
            }
            assert_eq!(flushed.complete, 1, "{fault:?} at {at}");
            assert_eq!(lines.len(), 23, "{fault:?} at {at}: {lines:?}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "a port in virtual time")]
fn a_flush_to_a_stuck_serial_port_ends_with_any_clock() {
    let stuck = Profile {
        line: devices::Line::Controller(Controller {
            latency: Nanos::ZERO,
            per_byte: Nanos::ZERO,
            buffer: 20,
            drain: HOUR,
        }),
        ..Profile::HP_DL380_GEN9
    };
    for fault in FAULTS {
        let (port, time) = Uart::in_virtual_time(stuck, Vec::new());
        let shown = Broken::new(fault, u64::MAX);
        let clock = InMachine { shown, time };
        let console = Console::open(&port, &clock, LineSettings::baud(115_200)).unwrap();
        let ring = Ring::<[Slot; 64]>::new();
        let drain = Drain::new(&ring, UartSink::new(console), SinkOptions::DEFAULT);
        clock.shown.at.set(clock.shown.reads.get());
        ring.log(&of(Priority::Panic), &[b'x'; 80]);
        let reads = clock.shown.reads.get();
        let flushed = flush(&[&drain], 0, &clock, FlushLimits::DEFAULT.total(WAIT));
        assert_eq!((flushed.complete, flushed.incomplete), (0, 1), "{fault:?}");
        // Two of the driver's limits: each has at most 12,000 polls with 16,384 clock reads.
        let reads = clock.shown.reads.get() - reads;
        assert!(reads <= 2 * 16_384 * 12_000, "{fault:?}: {reads} reads");
    }
}

#[test]
fn a_wait_for_room_ends_with_any_clock() {
    each(|clock| {
        let ring = Ring::<[Slot; 4]>::new();
        let options = SinkOptions::DEFAULT.overflow(OverflowPolicy::Wait(WAIT));
        let stuck = Drain::new(&ring, Line::new(0), options);
        for n in 0..4 {
            ring.format(&META, format_args!("{n}"));
        }
        let mut yields = 0;
        stuck.make_room(0, clock, || yields += 1);
        let reads = clock.reads.get();
        assert!(reads <= polls(WAIT), "{:?}: {reads} reads", clock.fault);
        assert!(yields <= reads);
    });
}

#[test]
fn with_any_clock_a_slice_ends_and_the_sink_is_polled_again_within_a_second() {
    each(|clock| {
        let ring = Ring::<[Slot; 64]>::new();
        let drain = Drain::new(&ring, Line::new(1), SinkOptions::DEFAULT);
        ring.log(&META, &[b'x'; 80]);
        *drain.sink().ready_at.lock().unwrap() = Some(Nanos::ZERO);
        let _ = drain.drain_bounded(0, Priority::Normal, clock);
        assert!(clock.reads.get() <= 1_024 + 1);
        // One hour ahead on the clock under test.
        *drain.sink().ready_at.lock().unwrap() = Some(clock.now() + HOUR);
        ring.log(&META, b"y");
        let _ = drain.drain_bounded(0, Priority::Normal, clock);
        let healthy = Broken::new(Fault::JumpsAhead, u64::MAX);
        healthy.time.set(clock.now());
        let before = *drain.sink().offers.lock().unwrap();
        let mut slices = 0;
        while *drain.sink().offers.lock().unwrap() == before {
            let next = drain.drain_bounded(0, Priority::Normal, &healthy);
            if next.time().is_none() {
                break;
            }
            // Called every millisecond, as logging tasks would.
            let later = healthy.now() + Nanos::from_millis(1);
            healthy.time.set(later);
            slices += 1;
            assert!(slices <= 2_002, "{:?}", clock.fault);
            if later.0 > u64::MAX - 1_000_000 {
                break;
            }
        }
    });
}

#[test]
fn a_watchdog_reports_within_two_thresholds_even_if_the_clock_jumps() {
    let threshold = Watchdog::THRESHOLD;
    for jump in [
        Nanos::from_secs(1),
        Nanos::from_secs(19),
        Nanos::from_secs(60),
        HOUR,
    ] {
        let (watchdog, grace) = (Watchdog::new(), StallDetector::new());
        watchdog.touch(START);
        assert!(grace.start(1, START));
        // The clock goes back, and from then on the CPU does not return to its scheduler.
        let back = START - jump;
        let reported = |check: &dyn Fn(Nanos) -> bool| {
            (0..=60_u64).find(|&s| check(back + Nanos::from_secs(s)))
        };
        let lockup = reported(&|now| watchdog.check(now, threshold).is_some());
        assert!(lockup.is_some_and(|s| s <= 42), "{jump}: {lockup:?}");
        let stall = reported(&|now| grace.check(now, threshold).is_some());
        assert!(stall.is_some_and(|s| s <= 42), "{jump}: {stall:?}");
    }
    // A clock that stops never causes a report. One that jumps ahead causes one.
    let watchdog = Watchdog::new();
    watchdog.touch(START);
    assert!((0..1_000).all(|_| watchdog.check(START, threshold).is_none()));
    assert!(watchdog.check(START + HOUR, threshold).is_some());
    assert!(watchdog.check(START + HOUR, threshold).is_none());
}

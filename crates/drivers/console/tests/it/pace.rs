//! The rate at which a sink is polled, and the length of a slice.

use std::cell::Cell;
use std::sync::Mutex;

use crate::common::{At, Line, META, P, of};
use nostall_console::{Caller, Drain, Next, Offered, Priority, Ring, Sink, SinkOptions, Slot};
use nostall_devices::uart::{Profile, Uart};
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::{Console, LineSettings};

struct Serial<R, C> {
    console: Mutex<Console<R, C>>,
    offers: Cell<usize>,
}

impl<R: Registers, C: Clock> Sink for Serial<R, C> {
    fn offer(&self, text: &[u8], _: Caller) -> Offered {
        self.offers.set(self.offers.get() + 1);
        let offered = self.console.lock().unwrap().offer(text);
        Offered {
            taken: offered.taken,
            ready_at: offered.ready_at,
        }
    }
}

impl<R: Registers, C: Clock> Serial<R, C> {
    fn open(registers: R, clock: C) -> Self {
        let line = LineSettings::baud(115_200);
        Self {
            console: Mutex::new(Console::open(registers, clock, line).unwrap()),
            offers: Cell::new(0),
        }
    }
}

/// Runs a slice after every record, one in 400 us, and at each timer interrupt.
#[test]
#[cfg_attr(miri, ignore = "a port in virtual time")]
fn a_slice_after_every_record_costs_at_most_four_wake_ups_for_a_fifo() {
    const LINES: u64 = 400;
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let ring = Ring::<[Slot; 1024]>::new();
    let drain = Drain::new(&ring, Serial::open(&port, &clock), SinkOptions::DEFAULT);
    let mut timer = Nanos(u64::MAX);
    let mut wake_ups = 0;
    let mut lines = 0;
    let start = clock.now();
    loop {
        let next_line = start + Nanos::from_micros(400) * lines;
        clock.sleep_until(next_line.min(timer));
        if clock.now() >= timer {
            timer = Nanos(u64::MAX);
            wake_ups += 1;
        }
        if clock.now() >= next_line {
            if lines == LINES {
                break;
            }
            lines += 1;
            ring.format(&META, format_args!("a line of text, number {lines}"));
        }
        if let Some(time) = drain.drain_bounded(0, Priority::Normal, &clock).time() {
            timer = timer.min(time);
        }
    }
    let took = clock.now() - start;
    let fifos = drain.bytes() as usize / 16;
    assert!(wake_ups <= 4 * fifos, "{wake_ups} wake-ups, {fifos} FIFOs");
    let offers = drain.sink().offers.get();
    assert!(offers <= 4 * fifos, "{offers} offers, {fifos} FIFOs");
    // The line is used to capacity: 86.8 us a byte.
    let sent = Nanos(86_806) * drain.bytes();
    assert!(sent.0 * 100 >= took.0 * 97, "{sent} of {took}");
}

/// On a slow CPU, the time of the next poll has passed when an offer to a busy port returns. That
/// port is not stuck.
#[test]
#[cfg_attr(miri, ignore = "a port in virtual time")]
fn a_slow_cpu_uses_the_line_too() {
    /// Takes 20 us to read the clock.
    struct Slow<'a, C>(&'a C);
    impl<C: Clock> Clock for Slow<'_, C> {
        fn now(&self) -> Nanos {
            self.0.wait_until(self.0.now() + Nanos::from_micros(20));
            self.0.now()
        }
    }
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let ring = Ring::<[Slot; 1024]>::new();
    let drain = Drain::new(&ring, Serial::open(&port, &clock), SinkOptions::DEFAULT);
    for n in 0..400 {
        ring.format(&META, format_args!("a line of text, number {n}"));
    }
    let start = clock.now();
    while let Some(time) = drain
        .drain_bounded(0, Priority::Normal, &Slow(&clock))
        .time()
    {
        clock.sleep_until(time);
    }
    let took = clock.now() - start;
    let sent = Nanos(86_806) * drain.bytes();
    assert!(sent.0 * 100 >= took.0 * 97, "{sent} of {took}");
}

#[test]
#[cfg_attr(miri, ignore = "a port in virtual time")]
fn a_slice_continues_while_its_port_empties_at_once_and_time_is_left() {
    let profile = Profile {
        access: Nanos(100),
        ..Profile::VM
    };
    let (port, clock) = Uart::in_virtual_time(profile, Vec::new());
    let ring = Ring::<[Slot; 4096]>::new();
    let drain = Drain::new(&ring, Serial::open(&port, &clock), SinkOptions::DEFAULT);
    for n in 0..2_000 {
        ring.format(&META, format_args!("a line of text, number {n}"));
    }
    let mut slices = 0;
    let mut longest = Nanos::ZERO;
    loop {
        let from = clock.now();
        let next = drain.drain_bounded(0, Priority::Normal, &clock);
        longest = longest.max(clock.now() - from);
        slices += 1;
        let Some(time) = next.time() else { break };
        clock.sleep_until(time);
    }
    // The limit is 50 us and one offer: a poll and 16 writes.
    let bound = Nanos::from_micros(50) + profile.access * 17;
    assert!(longest <= bound, "{longest}");
    // Expects 29 FIFOs in 50 us. The first few slices measure the port's speed.
    let bytes = drain.bytes() / slices;
    assert!(bytes > 300, "{bytes} bytes a slice");
}

#[test]
fn a_slice_continues_while_the_sink_is_ready_and_bytes_are_left() {
    let ring = Ring::<[Slot; 64]>::new();
    let options = SinkOptions::DEFAULT.slice(200);
    let drain = Drain::new(&ring, Line::new(16), options);
    for n in 0..30 {
        ring.format(&META, format_args!("line {n}"));
    }
    let next = drain.drain_bounded(0, Priority::Normal, &At(7));
    assert_eq!((next, drain.bytes()), (Next::At(Nanos(7)), 208));
    // A sink that is ready but takes nothing ends the slice.
    *drain.sink().load.lock().unwrap() = 0;
    let offers = *drain.sink().offers.lock().unwrap();
    let _ = drain.drain_bounded(0, Priority::Normal, &At(8));
    assert_eq!(*drain.sink().offers.lock().unwrap(), offers + 1);
}

#[test]
fn a_slice_ends_after_its_time_even_if_the_sink_takes_everything() {
    /// A sink with offers of 10 us.
    struct Slow(Cell<u64>);
    impl Sink for Slow {
        fn offer(&self, text: &[u8], _: Caller) -> Offered {
            self.0.set(self.0.get() + 10_000);
            Offered {
                taken: text.len(),
                ready_at: Some(Nanos::ZERO),
            }
        }
    }
    struct Shown<'a>(&'a Cell<u64>);
    impl Clock for Shown<'_> {
        fn now(&self) -> Nanos {
            Nanos(self.0.get())
        }
    }
    let ring = Ring::<[Slot; 64]>::new();
    let options = SinkOptions::DEFAULT.slice(usize::MAX);
    let drain = Drain::new(&ring, Slow(Cell::new(0)), options);
    for n in 0..60 {
        ring.format(&META, format_args!("line {n}"));
    }
    let next = drain.drain_bounded(0, Priority::Normal, &Shown(&drain.sink().0));
    assert_eq!(next, Next::At(Nanos::from_micros(50)));
}

/// A sink that takes nothing until a given time, and requests polls 78 us apart, as a UART does.
struct HeldOff<'a> {
    now: &'a Cell<u64>,
    back_at: u64,
    offers: Cell<usize>,
    taken_at: Cell<Option<u64>>,
}

impl Sink for HeldOff<'_> {
    fn offer(&self, text: &[u8], _: Caller) -> Offered {
        self.offers.set(self.offers.get() + 1);
        let now = self.now.get();
        let is_back = now >= self.back_at;
        if is_back {
            self.taken_at.set(self.taken_at.get().or(Some(now)));
        }
        Offered {
            taken: if is_back { text.len() } else { 0 },
            ready_at: Some(Nanos(now + 78_000)),
        }
    }
}

struct Shown<'a>(&'a Cell<u64>);

impl Clock for Shown<'_> {
    fn now(&self) -> Nanos {
        Nanos(self.0.get())
    }
}

#[test]
#[cfg_attr(miri, ignore = "counts, of many checks")]
fn a_port_that_takes_nothing_is_polled_100_times_a_second_and_resumes_within_10_ms() {
    for back_ms in [0, 1, 20, 100, 1_234, 9_995] {
        for logs_every_us in [100, 50_000] {
            let now = Cell::new(0);
            let ring = Ring::<[Slot; 64]>::new();
            let sink = HeldOff {
                now: &now,
                back_at: back_ms * 1_000_000,
                offers: Cell::new(0),
                taken_at: Cell::new(None),
            };
            let drain = Drain::new(&ring, sink, SinkOptions::DEFAULT);
            let mut timer = u64::MAX;
            let mut next_line = 0;
            let mut second = 0;
            while drain.sink().taken_at.get().is_none() {
                now.set(timer.min(next_line));
                if now.get() >= timer {
                    timer = u64::MAX;
                }
                if now.get() >= next_line {
                    next_line += logs_every_us * 1_000;
                    ring.log(&META, b"text");
                }
                let next = drain.drain_bounded(0, Priority::Normal, &Shown(&now));
                timer = timer.min(next.time().map_or(u64::MAX, |time| time.0));
                if now.get() / 1_000_000_000 > second {
                    second += 1;
                    let offers = drain.sink().offers.replace(0);
                    // In the first second the drain does not yet treat the port as stuck.
                    let most = if second == 1 { 200 } else { 101 };
                    assert!(offers <= most, "{offers} in second {second}");
                }
            }
            let resumed = drain.sink().taken_at.get().unwrap();
            let late = resumed - back_ms * 1_000_000;
            assert!(late <= 10_000_000, "{late} ns after {back_ms} ms");
        }
    }
}

#[test]
fn a_clock_that_jumps_does_not_silence_a_sink_that_was_not_ready() {
    const HOUR: u64 = Nanos::from_secs(3_600).0;
    for jump in [0, HOUR + 2_000_000, 3 * HOUR, u64::MAX] {
        let ring = Ring::<[Slot; 64]>::new();
        let drain = Drain::new(&ring, Line::new(5), SinkOptions::DEFAULT.slice(1));
        ring.log(&META, b"text");
        *drain.sink().ready_at.lock().unwrap() = Some(Nanos(HOUR + 1_000_000));
        let held = Next::At(Nanos(HOUR + 1_000_000));
        for now in [HOUR, HOUR + 999_000] {
            assert_eq!(drain.drain_bounded(0, Priority::Normal, &At(now)), held);
        }
        assert_eq!(*drain.sink().offers.lock().unwrap(), 1);
        let _ = drain.drain_bounded(0, Priority::Normal, &At(jump));
        assert_eq!(*drain.sink().offers.lock().unwrap(), 2, "{jump}");
    }
}

#[test]
fn a_sink_that_requests_an_infinite_time_is_polled_again_after_a_second() {
    let ring = Ring::<[Slot; 64]>::new();
    let drain = Drain::new(&ring, Line::new(5), SinkOptions::DEFAULT);
    ring.log(&META, b"text");
    *drain.sink().ready_at.lock().unwrap() = Some(Nanos(u64::MAX));
    let _ = drain.drain_bounded(0, Priority::Normal, &At(0));
    let _ = drain.drain_bounded(0, Priority::Normal, &At(999_999_000));
    assert_eq!(*drain.sink().offers.lock().unwrap(), 1);
    let _ = drain.drain_bounded(0, Priority::Normal, &At(1_000_000_000));
    assert_eq!(*drain.sink().offers.lock().unwrap(), 2);
}

#[test]
fn an_emergency_waits_only_for_the_sink_and_is_sent_first() {
    let ring = Ring::<[Slot; 64]>::new();
    let drain = Drain::new(&ring, Line::new(99), SinkOptions::DEFAULT.slice(1));
    *drain.sink().ready_at.lock().unwrap() = Some(Nanos(1_000));
    ring.log(&META, b"one");
    let _ = drain.drain_bounded(0, Priority::Normal, &At(0));
    ring.log(&META, b"two");
    ring.log(&of(Priority::Emergency), b"lockup");
    let next = drain.drain_bounded(0, Priority::Emergency, &At(500));
    assert_eq!(next, Next::At(Nanos(1_000)));
    let _ = drain.drain_bounded(0, Priority::Normal, &At(1_000));
    assert_eq!(drain.sink().text(), format!("{P}one\n{P}lockup\n"));
}

/// CPU 0 sends a backlog, and every CPU has set a timer. Seven other CPUs have logged once.
#[test]
#[cfg_attr(miri, ignore = "counts, of many slices")]
fn a_cpu_that_could_not_send_retries_at_most_100_times_a_second_and_only_for_a_backlog() {
    const CPUS: u16 = 8;
    const FIFO: Nanos = Nanos(16 * 86_806);
    let ring = Ring::<[Slot; 4096]>::new();
    let drain = Drain::new(&ring, Line::new(16), SinkOptions::DEFAULT);
    for n in 0..3_000 {
        ring.format(&META, format_args!("a line of text, number {n}"));
    }
    let mut timers = [Some(Nanos::ZERO); CPUS as usize];
    let mut wake_ups = [0_u64; CPUS as usize];
    let mut now = Nanos::ZERO;
    while let Some((cpu, at)) = (0..)
        .zip(timers)
        .filter_map(|(n, t)| Some((n, t?)))
        .min_by_key(|t| t.1)
    {
        now = now.max(at);
        *drain.sink().ready_at.lock().unwrap() = Some(now + FIFO);
        let next = drain.drain_bounded(cpu as u16, Priority::Normal, &At(now.0));
        timers[cpu] = next.time();
        wake_ups[cpu] += 1;
    }
    let fifos = drain.bytes() / 16;
    let periods = now.0 / 10_000_000 + 2;
    // The responsible CPU sends everything. The others only poll after it.
    assert!(
        wake_ups[0] <= fifos + periods,
        "{wake_ups:?}, {fifos} FIFOs"
    );
    for others in &wake_ups[1..] {
        assert!(*others <= periods, "{wake_ups:?} in {periods} periods");
    }
    // Every CPU has logged and nothing is left, so no timer is set any longer.
    assert_eq!(drain.unread(), 0);
}

#[test]
fn a_cpu_that_logs_after_another_has_sent_all_retries_when_the_sink_is_ready() {
    let ring = Ring::<[Slot; 64]>::new();
    let drain = Drain::new(&ring, Line::new(99), SinkOptions::DEFAULT);
    *drain.sink().ready_at.lock().unwrap() = Some(Nanos(1_000));
    ring.log(&META, b"one");
    // It sets no timer.
    assert_eq!(
        drain.drain_bounded(0, Priority::Normal, &At(0)),
        Next::Empty
    );
    ring.log(&of(Priority::Emergency), b"lockup");
    let at = Next::At(Nanos(1_000));
    assert_eq!(drain.drain_bounded(1, Priority::Emergency, &At(2)), at);
    // Now it is responsible.
    let later = Next::Busy(Nanos(1_000) + Nanos::from_millis(10));
    assert_eq!(drain.drain_bounded(2, Priority::Normal, &At(3)), later);
    assert_eq!(drain.drain_bounded(1, Priority::Normal, &At(4)), at);
}

#[test]
fn the_cpu_that_could_not_send_retries_in_case_the_other_one_hangs() {
    let late = Nanos::from_millis(10);
    let ring = Ring::<[Slot; 64]>::new();
    let drain = Drain::new(&ring, Line::new(99), SinkOptions::DEFAULT);
    *drain.sink().ready_at.lock().unwrap() = Some(Nanos(1_000));
    ring.log(&META, b"one");
    // Everything is sent, so no CPU has to return.
    assert_eq!(
        drain.drain_bounded(0, Priority::Normal, &At(0)),
        Next::Empty
    );
    assert_eq!(
        drain.drain_bounded(1, Priority::Normal, &At(0)),
        Next::Empty
    );
    ring.log(&META, b"two");
    let first = drain.drain_bounded(0, Priority::Normal, &At(1));
    assert_eq!(first, Next::At(Nanos(1_000)));
    // CPU 0 hangs.
    ring.log(&of(Priority::Emergency), b"lockup");
    let next = drain.drain_bounded(1, Priority::Emergency, &At(2));
    assert_eq!(next, Next::Busy(Nanos(1_000) + late));
    let time = next.time().unwrap();
    let _ = drain.drain_bounded(1, Priority::Normal, &At(time.0));
    assert_eq!(drain.sink().text(), format!("{P}one\n{P}lockup\n{P}two\n"));
}

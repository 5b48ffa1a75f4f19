//! Time lines of a CPU that fills a FIFO, from the model of a port at 115,200 baud.

use std::cell::RefCell;

use nostall_devices::VirtualClock;
use nostall_devices::uart::{Profile, Uart, VirtualPort};
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::{Console, LineSettings, OpenError, Strategy};

use super::run::alphabet;
use crate::report::drawing::{Bar, Drawing, Drawings};
use nostall_figures::table::{percent, time};

const PROFILE: Profile = Profile::PC_16550A;

/// Bytes of the write that is drawn: four FIFOs.
const BYTES: usize = 64;

/// Depth of the FIFO.
const FIFO: f64 = 16.0;

/// Offset of the transmitter's register.
const THR: usize = 0;

const LANES: [&str; 2] = ["CPU", "FIFO"];

/// Access to the port.
struct Access {
    from: Nanos,
    until: Nanos,
    /// Time that the driver had slept before.
    slept: Nanos,
    is_byte: bool,
}

/// A port that records its accesses.
struct Recording<'a> {
    port: &'a VirtualPort<Vec<u8>>,
    clock: &'a VirtualClock,
    accesses: RefCell<Vec<Access>>,
}

impl Recording<'_> {
    fn record<T>(&self, is_byte: bool, access: impl FnOnce() -> T) -> T {
        let from = self.clock.now();
        let result = access();
        self.accesses.borrow_mut().push(Access {
            from,
            until: self.clock.now(),
            slept: self.clock.slept(),
            is_byte,
        });
        result
    }
}

impl Registers for Recording<'_> {
    fn read8(&self, offset: usize) -> u8 {
        self.record(false, || self.port.read8(offset))
    }

    fn write8(&self, offset: usize, value: u8) {
        self.record(offset == THR, || self.port.write8(offset, value));
    }

    fn burst_instructions(&self, values: usize) -> usize {
        self.port.burst_instructions(values)
    }
}

/// Returns a time line of each strategy.
pub fn drawings() -> Result<Drawings, OpenError> {
    let drawings: Result<_, _> = Strategy::ALL.into_iter().map(drawing).collect();
    let drawings = drawings?;
    Ok(Drawings { drawings })
}

fn drawing(strategy: Strategy) -> Result<Drawing, OpenError> {
    let (port, clock): (VirtualPort<Vec<u8>>, VirtualClock) =
        Uart::in_virtual_time(PROFILE, Vec::new());
    let recording = Recording {
        port: &port,
        clock: &clock,
        accesses: RefCell::default(),
    };
    let settings = LineSettings::baud(115_200);
    let mut console = Console::open(&recording, &clock, settings)?;
    console.set_strategy(strategy);
    // The line's rate is learned first.
    for _ in 0..20 {
        console.write(&alphabet(FIFO as usize));
    }
    let _ = console.flush();
    clock.sleep_until(clock.now() + PROFILE.settling_time());
    recording.accesses.borrow_mut().clear();
    let (start, slept) = (clock.now(), clock.slept());
    console.write(&alphabet(BYTES));
    let _ = console.flush();
    let held = (clock.now() - start) - (clock.slept() - slept);
    let accesses = recording.accesses.borrow();
    let (mut bars, end) = fifo(&accesses, start, settings.frame_time());
    let end = end.max(clock.now());
    bars.extend(cpu(&accesses, (start, slept), (end, clock.slept())));
    let span = (end - start).0 as f64;
    Ok(Drawing {
        path: "uart".to_owned(),
        on: "model".to_owned(),
        profile: PROFILE.name.to_owned(),
        strategy: strategy.name().to_owned(),
        text: format!(
            "{BYTES} bytes hold the CPU for {} of {}, {}",
            time(held.0 as f64),
            time(span),
            percent(held.0 as f64 / span)
        ),
        span_ns: span,
        lanes: LANES.map(str::to_owned).to_vec(),
        bars,
        marks: Vec::new(),
    })
}

/// Returns the lane of the CPU, from times and the sleep before them. Between polls without
/// sleep the CPU waits.
fn cpu(accesses: &[Access], from: (Nanos, Nanos), until: (Nanos, Nanos)) -> Vec<Bar> {
    let (start, mut slept) = from;
    let mut bars: Vec<Bar> = Vec::new();
    let mut add = |kind: &str, from: Nanos, until: Nanos| {
        if from == until {
            return;
        }
        let (from, until) = ((from - start).0 as f64, (until - start).0 as f64);
        match bars.last_mut() {
            Some(last) if last.kind == kind => last.until_ns = until,
            _ => bars.push(Bar {
                lane: 0,
                from_ns: from,
                until_ns: until,
                kind: kind.to_owned(),
                base: 0.0,
                share: 1.0,
            }),
        }
    };
    let mut at = start;
    let wait = |slept: Nanos, now: Nanos| if now > slept { "CPU is free" } else { "polls" };
    for access in accesses {
        add(wait(slept, access.slept), at, access.from);
        let kind = if access.is_byte { "writes" } else { "polls" };
        add(kind, access.from, access.until);
        (at, slept) = (access.until, access.slept);
    }
    add(wait(slept, until.1), at, until.0);
    bars
}

/// Returns the lane of the FIFO, and the time when the last byte has left.
fn fifo(accesses: &[Access], start: Nanos, frame: Nanos) -> (Vec<Bar>, Nanos) {
    let written = accesses.iter().filter(|access| access.is_byte);
    let mut line_free = start;
    let mut changes: Vec<(Nanos, i32)> = Vec::new();
    for access in written {
        line_free = line_free.max(access.until) + frame;
        changes.extend([(access.until, 1), (line_free, -1)]);
    }
    changes.sort();
    let mut bars = Vec::new();
    let mut level = 0;
    for pair in changes.windows(2) {
        let [(from, change), (until, _)] = [pair[0], pair[1]];
        level += change;
        if level > 0 && from < until {
            bars.push(Bar {
                lane: 1,
                from_ns: (from - start).0 as f64,
                until_ns: (until - start).0 as f64,
                kind: "bytes in the FIFO".to_owned(),
                base: 0.0,
                share: (f64::from(level) / FIFO).min(1.0),
            });
        }
    }
    (bars, line_free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_line_shows_a_polling_cpu_without_a_free_time_and_a_paced_one_that_is_free() {
        let all = drawings().unwrap().drawings;
        let free = |strategy: Strategy| {
            let line = all.iter().find(|one| one.strategy == strategy.name());
            let line = line.expect("every strategy is drawn");
            let bars = line.bars.iter().filter(|bar| bar.kind == "CPU is free");
            bars.map(|bar| bar.until_ns - bar.from_ns).sum::<f64>() / line.span_ns
        };
        assert_eq!(all.len(), Strategy::ALL.len());
        assert_eq!(free(Strategy::BytePolled), 0.0);
        assert!(
            free(Strategy::FifoPaced) > 0.9,
            "{}",
            free(Strategy::FifoPaced)
        );
    }

    #[test]
    fn the_bars_of_a_cpu_cover_its_time_without_gap() {
        for line in drawings().unwrap().drawings {
            // A page of thousands of polls would be megabytes long.
            assert!(
                line.bars.len() < 400,
                "{}: {}",
                line.strategy,
                line.bars.len()
            );
            let cpu: Vec<_> = line.bars.iter().filter(|bar| bar.lane == 0).collect();
            assert_eq!(cpu[0].from_ns, 0.0);
            assert_eq!(cpu.last().unwrap().until_ns, line.span_ns);
            assert!(cpu.windows(2).all(|two| two[0].until_ns == two[1].from_ns));
            let fifo = line.bars.iter().filter(|bar| bar.lane == 1);
            assert!(fifo.clone().count() >= BYTES / 16);
            assert!(fifo.clone().all(|bar| bar.share <= 1.0));
        }
    }
}

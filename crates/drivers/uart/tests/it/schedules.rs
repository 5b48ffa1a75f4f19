//! Random schedules of writes, offers, flushes and outages. The received text, the reports of lost
//! bytes and the counts are always consistent.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};

use nostall_devices::VirtualClock;
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::registers::{
    DLL, FCR, IER, IIR, LCR, LSR, MCR, MSR, SCR, THR, iir, lcr, lsr, mcr,
};
use nostall_uart::{Console, ConsoleSettings, LineSettings, Model, PowerLoss, Rs485, Strategy};
use proptest::prelude::{
    Just, TestCaseError, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use proptest::strategy::Strategy as Generator;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    /// The transmitter stops, and later continues.
    Stick,
    Unstick,
    /// Every register reads all ones until the port returns, as if it had lost its power.
    Vanish,
    Return,
    /// Every register has its reset value, and the FIFO is empty.
    LosePower,
}

/// A port that sends a byte in 87 us, and has events after a given number of accesses.
struct Port {
    clock: VirtualClock,
    events: RefCell<VecDeque<(u32, Event)>>,
    stuck: Cell<bool>,
    gone: Cell<bool>,
    registers: RefCell<[u8; 8]>,
    divisor: Cell<u8>,
    has_fifo: Cell<bool>,
    /// Bytes that wait to be sent.
    fifo: RefCell<VecDeque<u8>>,
    next_leaves: Cell<Nanos>,
    line: RefCell<Vec<u8>>,
    /// Time at which the last byte was sent; `raised_at` is the time at which RTS was raised.
    idle_since: Cell<Nanos>,
    raised_at: Cell<Nanos>,
    turns: Option<Rs485>,
    mistakes: RefCell<Vec<&'static str>>,
}

const FRAME: Nanos = Nanos::from_micros(87);

impl Port {
    fn new(clock: &VirtualClock) -> Self {
        Self {
            clock: clock.clone(),
            events: RefCell::default(),
            stuck: Cell::new(false),
            gone: Cell::new(false),
            registers: RefCell::default(),
            divisor: Cell::new(0),
            has_fifo: Cell::new(false),
            fifo: RefCell::default(),
            next_leaves: Cell::new(Nanos::ZERO),
            line: RefCell::default(),
            idle_since: Cell::new(Nanos::ZERO),
            raised_at: Cell::new(Nanos::ZERO),
            turns: None,
            mistakes: RefCell::default(),
        }
    }

    fn reset(&self) {
        self.registers.take();
        self.divisor.set(0);
        self.has_fifo.set(false);
        self.fifo.borrow_mut().clear();
    }

    fn happens(&self, event: Event) {
        match event {
            Event::Stick => self.stuck.set(true),
            Event::Unstick => {
                self.stuck.set(false);
                self.next_leaves.set(self.clock.now() + FRAME);
            }
            Event::Vanish => {
                self.gone.set(true);
                self.reset();
            }
            Event::Return => self.gone.set(false),
            Event::LosePower => self.reset(),
        }
    }

    fn access(&self) {
        self.clock.advance(Nanos::from_micros(1));
        let now = self.clock.now();
        let mut fifo = self.fifo.borrow_mut();
        while !self.stuck.get() && !fifo.is_empty() && self.next_leaves.get() <= now {
            self.line.borrow_mut().extend(fifo.pop_front());
            self.idle_since.set(self.next_leaves.get());
            self.next_leaves.set(self.next_leaves.get() + FRAME);
        }
        drop(fifo);
        let mut events = self.events.borrow_mut();
        if let Some((after, event)) = events.front_mut() {
            if *after > 0 {
                *after -= 1;
            } else {
                let event = *event;
                events.pop_front();
                self.happens(event);
            }
        }
    }

    fn sends_rts(&self) -> bool {
        self.registers.borrow()[MCR] & mcr::RTS != 0
    }

    /// Checks the turns of an RS-485 line.
    fn check(&self, offset: usize, value: u8) {
        let Some(turns) = self.turns else { return };
        let (now, raises) = (self.clock.now(), value & mcr::RTS != 0);
        let mistake = match offset {
            THR if !self.sends_rts() => "a byte without RTS",
            THR if now - self.raised_at.get() < turns.before => "a byte too soon after RTS",
            MCR if raises && !self.sends_rts() => {
                self.raised_at.set(now);
                return;
            }
            MCR if raises || !self.sends_rts() => return,
            MCR if !self.fifo.borrow().is_empty() => "RTS lowered before the last byte",
            MCR if now - self.idle_since.get() < turns.after => {
                "RTS lowered too soon after the last byte"
            }
            _ => return,
        };
        self.mistakes.borrow_mut().push(mistake);
    }

    fn divisor_latch(&self) -> bool {
        self.registers.borrow()[LCR] & lcr::DLAB != 0
    }
}

impl Registers for Port {
    fn read8(&self, offset: usize) -> u8 {
        self.access();
        if self.gone.get() {
            return 0xff;
        }
        let waiting = self.fifo.borrow().len();
        match offset {
            LSR if waiting == 0 => lsr::THRE | lsr::TEMT,
            // The first byte is in the shift register, so it is not in the FIFO.
            LSR if waiting == 1 => lsr::THRE,
            LSR | MSR => 0,
            IIR if self.has_fifo.get() => iir::FIFOS | iir::NONE,
            IIR => iir::NONE,
            _ => self.registers.borrow()[offset],
        }
    }

    fn write8(&self, offset: usize, value: u8) {
        self.access();
        if self.gone.get() {
            return;
        }
        if !self.divisor_latch() {
            self.check(offset, value);
        }
        match offset {
            THR if self.divisor_latch() => self.divisor.set(value),
            THR if self.divisor.get() == 0 => {}
            THR => {
                let mut fifo = self.fifo.borrow_mut();
                if fifo.is_empty() {
                    self.next_leaves.set(self.clock.now() + FRAME);
                }
                let room = if self.has_fifo.get() { 17 } else { 2 };
                // After a loss of power, the driver's burst reaches a port whose FIFO is disabled.
                if fifo.len() < room {
                    fifo.push_back(value);
                }
            }
            FCR => self.has_fifo.set(value & 1 != 0),
            IER if self.divisor_latch() => {}
            LCR | MCR | SCR | IER => self.registers.borrow_mut()[offset] = value,
            _ => {}
        }
    }
}

const _: () = assert!(DLL == THR);

/// Parses a report of lost bytes at the start of `line`. Returns the number, whether it is
/// exact, and the rest.
fn report(line: &[u8]) -> Option<(usize, bool, &[u8])> {
    let rest = line.strip_prefix(b"[")?;
    let (rest, exact) = match rest.strip_prefix(b"up to ") {
        Some(rest) => (rest, false),
        None => (rest, true),
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let count = std::str::from_utf8(&rest[..digits]).unwrap().parse().ok()?;
    let rest = rest[digits..].strip_prefix(b" bytes lost]\r\n")?;
    Some((count, exact, rest))
}

/// Checks that `line` is `text` with the gaps that the reports state.
///
/// It follows all possible explanations in parallel, as a set of positions in the text.
fn explains(line: &[u8], text: &[u8]) -> Result<(), String> {
    let mut at = BTreeSet::from([0]);
    let mut rest = line;
    while !rest.is_empty() {
        let behind_line_end = rest.strip_prefix(b"\r\n");
        // A line end before a report may belong to the report.
        let own_line = behind_line_end.filter(|rest| rest.starts_with(b"["));
        let mut next = BTreeSet::new();
        let mut gap = |count: usize, exact: bool, at: &BTreeSet<usize>| {
            for &at in at {
                let least = if exact { count } else { 0 };
                next.extend((at + least..=at + count).filter(|&to| to <= text.len()));
            }
        };
        if let Some((count, exact, behind)) = report(rest) {
            gap(count, exact, &at);
            rest = behind;
        } else if let Some((count, exact, behind)) = own_line.and_then(report) {
            let two_on: BTreeSet<_> = at
                .iter()
                .filter(|&&at| text[at..].starts_with(b"\r\n"))
                .map(|at| at + 2)
                .collect();
            gap(count, exact, &at);
            gap(count, exact, &two_on);
            rest = behind;
        } else if rest.starts_with(b"[") || own_line.is_some() {
            // A report that was interrupted and lost with the port's content. Another report
            // follows.
            let from = if own_line.is_some() { 3 } else { 1 };
            let mut cut = None;
            for end in from..rest.len() {
                if report(&rest[end..]).is_some() {
                    cut = Some(end);
                    break;
                }
            }
            let cut = cut.ok_or("a report is interrupted, and none follows")?;
            if own_line.is_some() {
                let on = at.iter().filter(|&&at| text[at..].starts_with(b"\r\n"));
                let on: Vec<_> = on.map(|at| at + 2).collect();
                at.extend(on);
            }
            next.clone_from(&at);
            rest = &rest[cut..];
        } else {
            let byte = rest[0];
            next.extend(
                at.iter()
                    .filter(|&&at| text.get(at) == Some(&byte))
                    .map(|at| at + 1),
            );
            if next.is_empty() && matches!(byte, b'\r' | b'\n') {
                // A report of which only the line end was sent.
                next.clone_from(&at);
            }
            rest = &rest[1..];
        }
        if next.is_empty() {
            let found = String::from_utf8_lossy(&line[..line.len() - rest.len()]);
            return Err(format!("not explained at the end of: {found:?}"));
        }
        at = next;
    }
    match at.contains(&text.len()) {
        true => Ok(()),
        false => Err(format!("{at:?} of {} bytes are explained", text.len())),
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write(usize),
    Offer(usize),
    Flush,
    Pass(u64),
    /// An event after a number of accesses.
    Happens(u32, Event),
}

fn steps(events: &'static [Event]) -> impl Generator<Value = Vec<Step>> {
    let soon = prop_oneof![0u32..40, 0u32..2_000];
    let happens = match events {
        [] => Just(Step::Flush).boxed(),
        events => (soon, prop::sample::select(events))
            .prop_map(|(after, event)| Step::Happens(after, event))
            .boxed(),
    };
    let step = prop_oneof![
        4 => prop_oneof![0usize..40, 0usize..400].prop_map(Step::Write),
        3 => (0usize..100).prop_map(Step::Offer),
        1 => Just(Step::Flush),
        2 => prop_oneof![0u64..3_000, 0u64..700_000].prop_map(Step::Pass),
        4 => happens,
    ];
    prop::collection::vec(step, 1..30)
}

/// Text in which all parts differ, with line ends and single CRs.
struct Text(u32);

impl Text {
    fn take(&mut self, len: usize) -> Vec<u8> {
        let mut next = || {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match self.0 >> 24 {
                0..20 => b'\n',
                20..25 => b'\r',
                other => b'a' + (other % 26) as u8,
            }
        };
        (0..len).map(|_| next()).collect()
    }
}

fn run(steps: &[Step], settings: ConsoleSettings, strategy: Strategy) -> Result<(), TestCaseError> {
    let clock = VirtualClock::new();
    let settings = ConsoleSettings {
        model: Some(Model::Uart16550A),
        ..settings
    };
    let mut console = Console::open(
        Port {
            turns: settings.rs485,
            ..Port::new(&clock)
        },
        &clock,
        settings,
    )
    .unwrap();
    console.set_strategy(strategy);
    let (mut text, mut expected, mut dropped) = (Text(1), Vec::new(), 0);
    let mut offered: Vec<u8> = Vec::new();
    let put = |expected: &mut Vec<u8>, bytes: &[u8]| {
        for &byte in bytes {
            if byte == b'\n' {
                expected.push(b'\r');
            }
            expected.push(byte);
        }
    };
    let (mut exact, mut completed) = (true, false);
    // At the end, the port works again.
    let end = [
        Step::Flush,
        Step::Pass(100_000),
        Step::Flush,
        Step::Write(10),
        Step::Write(10),
    ];
    for (nr, step) in steps.iter().chain(&end).enumerate() {
        if nr == steps.len() {
            let port = console.registers();
            port.events.borrow_mut().clear();
            port.happens(Event::Unstick);
            port.happens(Event::Return);
        }
        match *step {
            Step::Write(len) => {
                // A write starts a new text, so callers first write the rest of their offer.
                while !offered.is_empty() {
                    let before = offered.len();
                    let report = console.write(&offered);
                    let rest = std::mem::take(&mut offered);
                    dropped += report.dropped;
                    assert_eq!(before, rest.len());
                }
                let bytes = text.take(len);
                put(&mut expected, &bytes);
                let report = console.write(&bytes);
                dropped += report.dropped;
                let newlines = bytes.iter().filter(|&&byte| byte == b'\n').count();
                prop_assert_eq!(report.written + report.dropped, len + newlines);
                completed = report.is_complete();
            }
            Step::Offer(len) => {
                let bytes = text.take(len);
                put(&mut expected, &bytes);
                offered.extend(bytes);
                let taken = console.offer(&offered).taken;
                offered.drain(..taken);
            }
            Step::Flush => {
                let _ = console.flush();
            }
            Step::Pass(us) => clock.advance(Nanos::from_micros(us)),
            Step::Happens(after, event) => {
                exact &= !matches!(event, Event::Vanish | Event::LosePower);
                let mut events = console.registers().events.borrow_mut();
                events.push_back((after, event));
            }
        }
    }
    prop_assert!(
        completed,
        "a write does not complete after the port's return"
    );
    prop_assert!(console.flush().is_ok());
    let lost = console.lost();
    let line = console.registers().line.take();
    if let Err(why) = explains(&line, &expected) {
        let (line, expected) = (
            String::from_utf8_lossy(&line),
            String::from_utf8_lossy(&expected),
        );
        return Err(TestCaseError::fail(format!(
            "{why}\nline {line:?}\ntext {expected:?}"
        )));
    }
    let mistakes = console.registers().mistakes.take();
    prop_assert!(mistakes.is_empty(), "{:?}", mistakes);
    if settings.rs485.is_some() {
        prop_assert!(!console.registers().sends_rts(), "the line is not released");
    }
    if exact {
        prop_assert_eq!(lost, dropped as u64);
    }
    Ok(())
}

const STRATEGIES: [Strategy; 4] = Strategy::ALL;

fn settings(give_up_ms: u64, power_loss: PowerLoss) -> ConsoleSettings {
    ConsoleSettings {
        give_up_after: Nanos::from_millis(give_up_ms),
        power_loss,
        ..LineSettings::baud(115_200).into()
    }
}

proptest! {
    #[test]
    fn if_the_port_sticks_at_any_time_reports_give_the_exact_gaps(
        steps in steps(&[Event::Stick, Event::Unstick]),
        strategy in prop::sample::select(&STRATEGIES[..]),
        give_up_ms in prop::sample::select(&[0, 20, 500][..]),
    ) {
        run(&steps, settings(give_up_ms, PowerLoss::Ignore), strategy)?;
    }

    #[test]
    fn if_the_port_vanishes_or_loses_its_power_at_any_time_every_loss_is_reported(
        steps in steps(&[Event::Stick, Event::Unstick, Event::Vanish, Event::Return, Event::LosePower]),
        strategy in prop::sample::select(&STRATEGIES[..]),
        give_up_ms in prop::sample::select(&[0, 20, 500][..]),
    ) {
        run(&steps, settings(give_up_ms, PowerLoss::Recover), strategy)?;
    }

    #[test]
    fn an_rs485_line_is_turned_around_for_any_sequence_of_writes_offers_and_flushes(
        steps in steps(&[]),
        strategy in prop::sample::select(&STRATEGIES[..]),
        before_us in prop::sample::select(&[0, 1, 300, 20_000][..]),
        after_us in prop::sample::select(&[0, 1, 500, 20_000][..]),
    ) {
        let turns = Rs485 {
            before: Nanos::from_micros(before_us),
            after: Nanos::from_micros(after_us),
        };
        let settings = ConsoleSettings { rs485: Some(turns), ..settings(500, PowerLoss::Ignore) };
        run(&steps, settings, strategy)?;
    }
}

//! Arbitrary guests on each chip, at any speed of the clock.

use std::cell::Cell;
use std::convert::Infallible;

use nostall_devices::VirtualClock;
use nostall_devices::uart::{Chip, Line, Profile, Serial, State, Trigger, Uart};
use nostall_io::{Clock, HostClock, Nanos};
use nostall_uart::Model;
use proptest::prelude::*;

/// An event of a port.
#[derive(Clone, Debug)]
enum Event {
    Read(usize),
    Read32(usize),
    Write(usize, u8),
    Write32(usize, u32),
    Burst(u8, u8),
    Receive(u8, u8),
    Modem(u8),
    Wait(u64),
    WaitUntilDue,
    Reset,
}

fn event() -> impl Strategy<Value = Event> {
    let offset = prop_oneof![9 => 0usize..8, 1 => 0usize..80, 1 => any::<usize>()];
    // Values with far-reaching effects: DLAB, enhanced mode, loopback, FIFOs, DMA.
    let value = prop_oneof![
        any::<u8>(),
        prop::sample::select(vec![0x80, 0xbf, 0x10, 3, 1, 0x21, 0xc1, 0x40, 0]),
    ];
    let span = prop_oneof![0u64..100_000, 0u64..1_000_000_000, any::<u64>()];
    prop_oneof![
        4 => offset.clone().prop_map(Event::Read),
        1 => offset.clone().prop_map(Event::Read32),
        6 => (offset.clone(), value.clone()).prop_map(|(at, value)| Event::Write(at, value)),
        1 => (offset, any::<u32>()).prop_map(|(at, value)| Event::Write32(at, value)),
        1 => any::<(u8, u8)>().prop_map(|(byte, n)| Event::Burst(byte, n)),
        2 => (any::<u8>(), value.clone()).prop_map(|(byte, errors)| Event::Receive(byte, errors)),
        1 => value.prop_map(Event::Modem),
        2 => span.prop_map(Event::Wait),
        1 => Just(Event::WaitUntilDue),
        1 => Just(Event::Reset),
    ]
}

fn chip() -> impl Strategy<Value = Chip> {
    prop_oneof![
        prop::sample::select(Model::ALL.to_vec()).prop_map(Chip::new),
        (0usize..4_000).prop_map(Chip::designware),
    ]
}

fn line() -> impl Strategy<Value = Line> {
    prop::sample::select(Profile::ALL.map(|profile| profile.line).to_vec())
}

type Port = Uart<VirtualClock, Vec<u8>>;

fn port(chip: Chip, line: Line, start: u64) -> (Port, VirtualClock) {
    let clock = VirtualClock::new();
    clock.advance(Nanos(start));
    (Uart::of(chip, clock.clone(), line, Vec::new()), clock)
}

/// Applies `event`. Returns everything that the guest and the host observe.
fn happen(port: &mut Port, clock: &VirtualClock, event: &Event) -> Vec<u64> {
    let start = clock.now();
    let mut seen = Vec::new();
    match *event {
        Event::Read(offset) => seen.push(u64::from(port.read(offset))),
        Event::Read32(offset) => seen.push(u64::from(port.read32(offset))),
        Event::Write(offset, value) => port.write(offset, value),
        Event::Write32(offset, value) => port.write32(offset, value),
        Event::Burst(byte, n) => (0..n).for_each(|_| port.write(0, byte)),
        Event::Receive(byte, errors) => port.receive_with(byte, errors),
        Event::Modem(lines) => port.set_modem_lines(lines),
        Event::Wait(span) => clock.advance(Nanos(span)),
        Event::WaitUntilDue => {
            if let Some(at) = port.next_event() {
                assert!(
                    at > start || at == Nanos(u64::MAX),
                    "the next event is in the past"
                );
                clock.wait_until(at);
            }
        }
        Event::Reset => port.reset(),
    }
    seen.extend(port.interrupt().map(u64::from));
    let now = clock.now();
    seen.extend(port.next_event().map(|at| (at - now).0));
    seen.push(port.lost());
    seen.push(port.receive_room() as u64);
    let sent = port.sink_mut().iter().fold(0_u64, |sum, &byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(byte) + 1)
    });
    seen.push(sent);
    seen
}

/// Time from which the times of events may saturate. Such times cannot be restored.
const SATURATED: Nanos = Nanos(u64::MAX / 4);

/// A trigger that counts.
#[derive(Default)]
struct Counter(Cell<u64>);

impl Trigger for Counter {
    type E = Infallible;

    fn trigger(&self) -> Result<(), Infallible> {
        self.0.set(self.0.get() + 1);
        Ok(())
    }
}

type Triggering = Serial<Counter, VirtualClock, Vec<u8>>;

/// Applies an access or input of `event`, any other event as in [`happen`]. Returns everything that
/// the guest and the host observe, with the number of triggers.
fn happen_triggering(port: &mut Triggering, clock: &VirtualClock, event: &Event) -> Vec<u64> {
    let mut seen = Vec::new();
    match *event {
        Event::Read(offset) => seen.push(u64::from(port.read(offset))),
        Event::Write(offset, value) => port.write(offset, value).unwrap(),
        Event::Burst(byte, n) => (0..n).for_each(|_| port.write(0, byte).unwrap()),
        Event::Receive(byte, _) => seen.push(port.receive(&[byte]).unwrap() as u64),
        Event::Wait(span) => clock.advance(Nanos(span)),
        _ => {
            seen = happen(port.uart_mut(), clock, event);
            port.tend().unwrap();
        }
    }
    seen.push(port.trigger().0.get());
    seen.push(port.uart_mut().sink_mut().len() as u64);
    seen
}

/// Makes the port compute its next access in full, and not from the effects of the last one.
fn forget(port: &mut Port) {
    let state = port.save();
    port.restore(&state);
}

/// Returns the largest size of a saved state: both FIFOs, with some JSON for each byte.
fn bound(chip: Chip) -> usize {
    1_000 + chip.fifo_depth() * 20
}

fn json(state: &State) -> String {
    serde_json::to_string(state).unwrap()
}

/// Returns a state from an attacker: arbitrary numbers, and far too many bytes.
fn hostile(template: &State, numbers: &[u64], extra: usize) -> Option<State> {
    let mut numbers = numbers.iter().cycle().copied();
    let mut value = serde_json::to_value(template).unwrap();
    distort(&mut value, &mut || numbers.next().unwrap_or(0), extra);
    serde_json::from_value(value).ok()
}

fn distort(value: &mut serde_json::Value, next: &mut impl FnMut() -> u64, extra: usize) {
    use serde_json::Value;
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let word = next();
                match (name.as_str(), &*field) {
                    ("transmit", _) => *field = vec![word as u8; extra].into(),
                    ("receive", _) => {
                        *field = vec![Value::from(vec![1, word as u8]); extra].into();
                    }
                    ("shifting", _) => *field = vec![word & 0xff, next()].into(),
                    ("divisor", _) => *field = (word as u16).into(),
                    (_, Value::Number(_) | Value::Null) if name.ends_with("_ns") => {
                        *field = word.into();
                    }
                    ("level" | "lost", _) => *field = word.into(),
                    (_, Value::Number(_)) => *field = (word as u8).into(),
                    (_, Value::Bool(_)) => *field = word.is_multiple_of(2).into(),
                    _ => distort(field, next, extra),
                }
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| *item = (next() as u8).into()),
        _ => {}
    }
}

proptest! {
    #[test]
    fn the_port_neither_panics_nor_grows_nor_hangs(
        chip in chip(),
        line in line(),
        events in prop::collection::vec(event(), 0..200),
    ) {
        let (mut port, clock) = port(chip, line, 0);
        for event in &events {
            happen(&mut port, &clock, event);
            port.sink_mut().clear();
        }
        prop_assert!(json(&port.save()).len() <= bound(chip));
        prop_assert!(port.receive_room() <= chip.fifo_depth());
    }

    #[test]
    fn a_restored_port_behaves_like_the_saved_one(
        chip in chip(),
        line in line(),
        before in prop::collection::vec(event(), 0..60),
        after in prop::collection::vec(event(), 0..60),
        other_start in 0u64..1_000_000_000_000,
    ) {
        let (mut saved, clock) = port(chip, line, 0);
        for event in &before {
            happen(&mut saved, &clock, event);
        }
        prop_assume!(clock.now() < SATURATED);
        let state = saved.save();
        let (mut restored, other_clock) = port(chip, line, other_start);
        restored.restore(&serde_json::from_str(&json(&state)).unwrap());
        prop_assert_eq!(&restored.save(), &state);
        saved.sink_mut().clear();
        for event in &after {
            let expected = happen(&mut saved, &clock, event);
            prop_assume!(clock.now() < Nanos(u64::MAX / 2));
            prop_assert_eq!(happen(&mut restored, &other_clock, event), expected, "{:?}", event);
        }
        prop_assert!(saved.into_sink() == restored.into_sink());
    }

    #[test]
    fn an_access_has_the_same_effect_known_before_or_not(
        chip in chip(),
        line in line(),
        events in prop::collection::vec(event(), 0..200),
    ) {
        let (mut quick, clock) = port(chip, line, 0);
        let (mut full, full_clock) = port(chip, line, 0);
        for event in &events {
            let seen = happen(&mut quick, &clock, event);
            if clock.now() >= SATURATED {
                break;
            }
            forget(&mut full);
            prop_assert_eq!(&seen, &happen(&mut full, &full_clock, event), "{:?}", event);
        }
    }

    #[test]
    fn an_access_triggers_the_same_known_before_or_not(
        line in line(),
        events in prop::collection::vec(event(), 0..200),
    ) {
        let [mut quick, mut full] = [(); 2].map(|()| {
            let (port, clock) = port(Chip::new(Model::Uart16550A), line, 0);
            (Serial::new(port, Counter::default()), clock)
        });
        for event in &events {
            let seen = happen_triggering(&mut quick.0, &quick.1, event);
            if quick.1.now() >= SATURATED {
                break;
            }
            forget(full.0.uart_mut());
            prop_assert_eq!(&seen, &happen_triggering(&mut full.0, &full.1, event), "{:?}", event);
        }
    }

    #[test]
    fn a_state_from_an_attacker_neither_grows_the_port_nor_panics(
        chip in chip(),
        line in line(),
        numbers in prop::collection::vec(any::<u64>(), 1..40),
        extra in 0usize..10_000,
        after in prop::collection::vec(event(), 0..60),
    ) {
        let (mut port, clock) = port(chip, line, 0);
        let state = hostile(&port.save(), &numbers, extra);
        prop_assert!(state.is_some(), "the distorted state still parses");
        port.restore(&state.unwrap());
        for event in &after {
            if let Event::WaitUntilDue = event {
                continue;
            }
            happen(&mut port, &clock, event);
            port.sink_mut().clear();
        }
        prop_assert!(json(&port.save()).len() <= bound(chip));
    }
}

#[test]
fn a_restored_port_without_a_byte_to_send_has_no_event() {
    let line = Profile::HP_DL380_GEN9.line;
    let (mut port, _) = port(Chip::new(Model::Uart16550A), line, 0);
    let mut state = serde_json::to_value(port.save()).unwrap();
    state["controller"]["takes_in_ns"] = 100.into();
    port.restore(&serde_json::from_value(state).unwrap());
    assert_eq!(port.next_event(), None);
}

#[test]
fn a_port_also_runs_with_the_hosts_clock() {
    let mut port = Uart::new(HostClock::new(), Line::AtOnce, Vec::new());
    port.write(0, b'x');
    assert_eq!(port.next_event(), None);
    assert_eq!(port.into_sink(), b"x");
}

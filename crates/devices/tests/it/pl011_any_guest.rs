//! Arbitrary guests on each PL011, at any speed of the clock.

use nostall_devices::VirtualClock;
use nostall_devices::pl011::registers::*;
use nostall_devices::pl011::{Chip, Line, Pl011, State};
use nostall_io::{Clock, Nanos};
use proptest::prelude::*;

/// An event of a port.
#[derive(Clone, Debug)]
enum Event {
    Read(usize),
    Write(usize, u32),
    Burst(u8, u8),
    Receive(u8, u32),
    Modem(u32),
    Wait(u64),
    WaitUntilDue,
    Reset,
}

fn event() -> impl Strategy<Value = Event> {
    let registers = vec![
        DR, RSR, FR, IBRD, FBRD, LCR_H, CR, IFLS, IMSC, RIS, MIS, ICR, DMACR,
    ];
    let offset = prop_oneof![
        9 => prop::sample::select(registers),
        1 => 0usize..0x1004,
        1 => any::<usize>(),
    ];
    // Values with far-reaching effects: enabled with a rate, FIFOs, loopback, flow control.
    let value = prop_oneof![
        any::<u32>(),
        prop::sample::select(vec![0x301, 0x381, 0x8301, 0x70, 0x60, 1, 0x7ff, 0x20, 0]),
    ];
    let span = prop_oneof![
        9 => 0u64..100_000,
        9 => 0u64..1_000_000_000,
        1 => any::<u64>(),
    ];
    prop_oneof![
        4 => offset.clone().prop_map(Event::Read),
        6 => (offset, value.clone()).prop_map(|(at, value)| Event::Write(at, value)),
        2 => any::<(u8, u8)>().prop_map(|(byte, n)| Event::Burst(byte, n)),
        2 => (any::<u8>(), value.clone()).prop_map(|(byte, errors)| Event::Receive(byte, errors)),
        1 => value.prop_map(Event::Modem),
        2 => span.prop_map(Event::Wait),
        1 => Just(Event::WaitUntilDue),
        1 => Just(Event::Reset),
    ]
}

fn chip() -> impl Strategy<Value = Chip> {
    prop::sample::select(Chip::ALL.to_vec())
}

fn line() -> impl Strategy<Value = Line> {
    prop_oneof![
        Just(Line::AtOnce),
        Just(Line::Clock(24_000_000)),
        Just(Line::Baud(115_200)),
        any::<u32>().prop_map(Line::Clock),
        any::<u32>().prop_map(Line::Baud),
    ]
}

type Port = Pl011<VirtualClock, Vec<u8>>;

/// Returns a port that has been set up, as most guests do.
fn port(chip: Chip, line: Line, start: u64) -> (Port, VirtualClock) {
    let clock = VirtualClock::new();
    clock.advance(Nanos(start));
    let mut port = Pl011::new(chip, clock.clone(), line, Vec::new());
    port.write(IBRD, 13);
    port.write(LCR_H, lcr_h::WLEN | lcr_h::FEN);
    port.write(CR, cr::UARTEN | cr::TXE | cr::RXE);
    (port, clock)
}

/// Applies `event`. Returns everything that the guest and the host observe.
fn happen(port: &mut Port, clock: &VirtualClock, event: &Event) -> Vec<u64> {
    let start = clock.now();
    let mut seen = Vec::new();
    match *event {
        Event::Read(offset) => seen.push(u64::from(port.read(offset))),
        Event::Write(offset, value) => port.write(offset, value),
        Event::Burst(byte, n) => (0..n).for_each(|_| port.write(DR, byte.into())),
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
    seen.push(u64::from(port.read(FR)) << 16 | u64::from(port.read(RIS)));
    let sent = port.sink_mut().iter().fold(0_u64, |sum, &byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(byte) + 1)
    });
    seen.push(sent);
    seen
}

/// Time from which the times of events may saturate. Such times cannot be restored.
const SATURATED: Nanos = Nanos(u64::MAX / 4);

/// Largest size of a saved state: both FIFOs, with some JSON for each byte.
const BOUND: usize = 1_000 + 32 * 12;

fn json(state: &State) -> String {
    serde_json::to_string(state).unwrap()
}

/// Returns a state from an attacker: arbitrary numbers, and far too many bytes.
fn hostile(template: &State, numbers: &[u64], extra: usize) -> State {
    let mut numbers = numbers.iter().cycle().copied();
    let mut next = || numbers.next().unwrap_or(0);
    let mut value = serde_json::to_value(template).unwrap();
    for (_, register) in value["latches"].as_object_mut().unwrap() {
        *register = (next() as u32).into();
    }
    value["transmit"] = vec![next() as u8; extra].into();
    value["receive"] = vec![next() as u16; extra].into();
    value["shifting"] = vec![next() & 0xff, next()].into();
    value["overrun"] = next().is_multiple_of(2).into();
    value["timeout_in_ns"] = next().into();
    value["lost"] = next().into();
    for name in ["status", "modem", "raw"] {
        value[name] = (next() as u32).into();
    }
    serde_json::from_value(value).unwrap()
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
        prop_assert!(json(&port.save()).len() <= BOUND);
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
            if clock.now() >= Nanos(u64::MAX / 2) {
                return Ok(());
            }
            prop_assert_eq!(happen(&mut restored, &other_clock, event), expected, "{:?}", event);
        }
        prop_assert!(saved.into_sink() == restored.into_sink());
    }

    #[test]
    fn a_port_that_is_watched_behaves_like_one_that_is_not(
        chip in chip(),
        line in line(),
        events in prop::collection::vec(event(), 0..100),
    ) {
        let (mut watched, clock) = port(chip, line, 0);
        let (mut other, other_clock) = port(chip, line, 0);
        for event in &events {
            if let Event::Wait(span) = *event {
                let until = clock.now() + Nanos(span);
                if until >= SATURATED {
                    break;
                }
                while let Some(at) = watched.next_event().filter(|&at| at < until) {
                    clock.wait_until(at);
                    watched.interrupt();
                }
                clock.wait_until(until);
                other_clock.wait_until(until);
                prop_assert_eq!(watched.interrupt(), other.interrupt());
                continue;
            }
            let expected = happen(&mut watched, &clock, event);
            prop_assert_eq!(happen(&mut other, &other_clock, event), expected, "{:?}", event);
        }
        prop_assert!(watched.into_sink() == other.into_sink());
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
        port.restore(&state);
        for event in &after {
            if let Event::WaitUntilDue = event {
                continue;
            }
            happen(&mut port, &clock, event);
            port.sink_mut().clear();
        }
        prop_assert!(json(&port.save()).len() <= BOUND);
    }
}

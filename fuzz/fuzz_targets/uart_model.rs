//! Performs arbitrary operations of a guest and its VMM on a serial port: no panic, no growth and
//! no hang. The restored state equals the saved one.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nostall_devices::VirtualClock;
use nostall_devices::uart::{Chip, Profile, State, Uart};
use nostall_io::{Clock, Nanos};
use nostall_uart::Model;
use serde::Serialize;

#[derive(Arbitrary, Debug)]
enum Event {
    Read(u8),
    Read32(u8),
    Write(u8, u8),
    Write32(u8, u32),
    Burst(u8, u8),
    Receive(u8, u8),
    Modem(u8),
    Wait(u32),
    WaitLong(u64),
    WaitForEvent,
    Interrupt,
    Reset,
    SaveAndRestore,
}

#[derive(Arbitrary, Debug)]
struct Input {
    model: u8,
    depth: u16,
    profile: u8,
    state: Option<AnyState>,
    events: Vec<Event>,
}

/// An arbitrary [`State`], field for field. It is converted through JSON, as a VMM might load it
/// from a file.
#[derive(Arbitrary, Debug, Serialize)]
struct AnyState {
    latches: AnyLatches,
    transmit: Vec<u8>,
    shifting: Option<(u8, u64)>,
    controller: Option<AnyProgress>,
    receive: Vec<(u8, u8)>,
    overrun: bool,
    timeout_in_ns: Option<u64>,
    transmit_interrupt: bool,
    busy_detect: bool,
    modem: AnyModem,
    lost: u64,
}

#[derive(Arbitrary, Debug, Serialize)]
struct AnyLatches {
    divisor: u16,
    ier: u8,
    fcr: u8,
    lcr: u8,
    mcr: u8,
    scr: u8,
    efr: u8,
    xon_xoff: [u8; 4],
    icr: [u8; 8],
}

#[derive(Arbitrary, Debug, Serialize)]
struct AnyProgress {
    level: usize,
    leaves_in_ns: u64,
    takes_in_ns: Option<u64>,
}

#[derive(Arbitrary, Debug, Serialize)]
struct AnyModem {
    outside: u8,
    seen: u8,
    deltas: u8,
}

type Port = Uart<VirtualClock, Vec<u8>>;

fuzz_target!(|input: Input| {
    let chip = match Model::ALL[usize::from(input.model) % Model::ALL.len()] {
        Model::DesignWare => Chip::designware(usize::from(input.depth)),
        model => Chip::new(model),
    };
    let line = Profile::ALL[usize::from(input.profile) % Profile::ALL.len()].line;
    let clock = VirtualClock::new();
    let mut port: Port = Uart::of(chip, clock.clone(), line, Vec::new());
    if let Some(any) = &input.state {
        let json = serde_json::to_string(any).unwrap();
        port.restore(&serde_json::from_str::<State>(&json).unwrap());
    }
    for event in &input.events {
        happen(&mut port, &clock, event);
        port.sink_mut().clear();
        assert!(port.receive_room() <= chip.fifo_depth());
    }
    let saved = serde_json::to_string(&port.save()).unwrap();
    assert!(saved.len() <= 1_000 + chip.fifo_depth() * 20, "{saved}");
});

fn happen(port: &mut Port, clock: &VirtualClock, event: &Event) {
    match *event {
        Event::Read(offset) => drop(port.read(offset.into())),
        Event::Read32(offset) => drop(port.read32(offset.into())),
        Event::Write(offset, value) => port.write(offset.into(), value),
        Event::Write32(offset, value) => port.write32(offset.into(), value),
        Event::Burst(byte, n) => (0..n).for_each(|_| port.write(0, byte)),
        Event::Receive(byte, errors) => port.receive_with(byte, errors),
        Event::Modem(lines) => port.set_modem_lines(lines),
        Event::Wait(span) => clock.advance(Nanos(span.into())),
        Event::WaitLong(span) => clock.advance(Nanos(span)),
        Event::WaitForEvent => {
            if let Some(at) = port.next_event() {
                clock.wait_until(at);
            }
        }
        Event::Interrupt => drop(port.interrupt()),
        Event::Reset => port.reset(),
        Event::SaveAndRestore => {
            let state = port.save();
            port.restore(&state);
            // Later times saturate.
            if clock.now() < Nanos(u64::MAX / 4) {
                assert_eq!(port.save(), state);
            }
        }
    }
}

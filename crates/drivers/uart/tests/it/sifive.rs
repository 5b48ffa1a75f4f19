//! The console on SiFive's UART. QEMU's machine `sifive_u` has a real one.

use std::cell::RefCell;
use std::collections::VecDeque;

use nostall_devices::VirtualClock;
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::{
    Console, ConsoleSettings, FlowControl, LineSettings, OpenError, Parity, SifiveUart,
};

const LINE: LineSettings = LineSettings::baud(115_200);
const FRAME: Nanos = Nanos(86_806);

/// UART with FIFOs of 8 bytes, according to SiFive's FU540-C000 manual, chapter 13.
struct Port {
    clock: VirtualClock,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    transmit: VecDeque<u8>,
    shifting: Option<(u8, Nanos)>,
    receive: VecDeque<u8>,
    control: u32,
    sent: Vec<u8>,
    lost: usize,
}

impl Port {
    fn new(clock: &VirtualClock) -> Self {
        Self {
            clock: clock.clone(),
            state: RefCell::default(),
        }
    }

    fn settle(&self) -> std::cell::RefMut<'_, State> {
        self.clock.advance(Nanos(100));
        let mut state = self.state.borrow_mut();
        while let Some((byte, at)) = state.shifting.filter(|(_, at)| *at <= self.clock.now()) {
            state.sent.push(byte);
            state.shifting = state.transmit.pop_front().map(|next| (next, at + FRAME));
        }
        state
    }
}

impl Registers for Port {
    fn read8(&self, _: usize) -> u8 {
        unreachable!("each register is a word")
    }

    fn write8(&self, _: usize, _: u8) {
        unreachable!("each register is a word")
    }

    fn read32(&self, offset: usize) -> u32 {
        let mut state = self.settle();
        match offset {
            0x04 => state.receive.pop_front().map_or(1 << 31, u32::from),
            0x08 => state.control,
            0x14 => {
                let watermark = (state.control >> 16 & 7) as usize;
                u32::from(state.transmit.len() < watermark)
                    | u32::from(!state.receive.is_empty()) << 1
            }
            _ => 0,
        }
    }

    fn write32(&self, offset: usize, value: u32) {
        let now = self.clock.now();
        let mut state = self.settle();
        match offset {
            0x00 if state.shifting.is_none() => state.shifting = Some((value as u8, now + FRAME)),
            0x00 if state.transmit.len() < 8 => state.transmit.push_back(value as u8),
            0x00 => state.lost += 1,
            0x08 => state.control = value,
            _ => {}
        }
    }
}

#[test]
fn text_arrives_whole_and_a_flush_waits_for_its_last_bit() {
    let clock = VirtualClock::new();
    let port = Port::new(&clock);
    let mut console =
        Console::open(SifiveUart::new(&port, Some(33_330_000)), &clock, LINE).unwrap();
    let text = b"the shift register has a byte when the FIFO is empty";
    let start = clock.now();
    assert!(console.write(text).is_complete());
    assert_eq!(port.settle().sent, text);
    assert_eq!(port.settle().lost, 0);
    let line = FRAME * text.len() as u64;
    assert!(clock.now() - start < line + FRAME * 3);
    let taken = console.offer(text).taken;
    assert_eq!(taken, 8);
    console.flush().unwrap();
    assert_eq!(port.settle().sent.len(), text.len() + 8);
    port.settle().receive.extend(b"typed");
    let mut received = Vec::new();
    console.receive(|byte| received.push(byte));
    assert_eq!(received, b"typed");
}

#[test]
fn what_the_port_cannot_do_is_refused() {
    let clock = VirtualClock::new();
    let port = Port::new(&clock);
    let open = |settings: ConsoleSettings| {
        let uart = SifiveUart::new(&port, Some(33_330_000));
        Console::open(uart, &clock, settings)
            .map(|_| ())
            .unwrap_err()
    };
    let parity = LineSettings {
        parity: Parity::Odd,
        ..LINE
    };
    assert_eq!(open(parity.into()), OpenError::Frame);
    let cts = ConsoleSettings {
        flow_control: FlowControl::Cts,
        ..LINE.into()
    };
    assert_eq!(open(cts), OpenError::NoModemLines);
}

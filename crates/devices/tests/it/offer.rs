//! A guest reads the same values from offers, without exits, as from exits.

use nostall_devices::VirtualClock;
use nostall_devices::uart::{Chip, Line, LineStatus, Profile, Transmit, Uart};
use nostall_io::{Clock, HostClock, Nanos};
use nostall_uart::Model;
use nostall_uart::registers::{FCR, IER, LCR, LSR, MCR, RBR, THR, fcr, ier, lsr, mcr};
use proptest::prelude::*;

type Port = Uart<VirtualClock, Vec<u8>>;

/// A port behind a VMM that takes every offer.
struct Offered {
    port: Port,
    collected: Vec<u8>,
}

impl Offered {
    /// Delivers the collected writes and returns the port, as on an exit.
    fn port(&mut self) -> &mut Port {
        for byte in self.collected.drain(..) {
            self.port.write(THR, byte);
        }
        &mut self.port
    }

    fn read(&mut self, offset: usize) -> u8 {
        // The guest reads memory, so nothing is drained first.
        match self.port.offer().line_status {
            LineStatus::Memory(value) if offset == LSR => value,
            _ => self.port().read(offset),
        }
    }

    fn write(&mut self, offset: usize, value: u8) {
        match self.port.offer().transmit {
            Transmit::Collect if offset == THR => self.collected.push(value),
            _ => self.port().write(offset, value),
        }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Read(usize),
    Write(usize, u8),
    Receive(u8, u8),
    Modem(u8),
    Wait(u64),
    Reset,
}

fn event() -> impl Strategy<Value = Event> {
    // Values with far-reaching effects: DLAB, enhanced mode, loopback, FIFOs, interrupts.
    let value = prop_oneof![
        any::<u8>(),
        prop::sample::select(vec![0x80, 0xbf, 0x10, 3, 1, 2, 0x21, 0xc1, 0x40, 0]),
    ];
    prop_oneof![
        4 => (0usize..9).prop_map(Event::Read),
        4 => Just(Event::Read(LSR)),
        6 => (0usize..9, value.clone()).prop_map(|(at, value)| Event::Write(at, value)),
        4 => any::<u8>().prop_map(|byte| Event::Write(THR, byte)),
        2 => (any::<u8>(), value.clone()).prop_map(|(byte, errors)| Event::Receive(byte, errors)),
        1 => value.prop_map(Event::Modem),
        1 => (0u64..100_000_000).prop_map(Event::Wait),
        1 => Just(Event::Reset),
    ]
}

fn from_outside(port: &mut Port, event: &Event) {
    match *event {
        Event::Receive(byte, errors) => port.receive_with(byte, errors),
        Event::Modem(lines) => port.set_modem_lines(lines),
        Event::Reset => port.reset(),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn every_register_reads_the_same_with_and_without_offers(
        model in prop::sample::select(Model::ALL.to_vec()),
        // Most VMMs' lines take everything at once.
        line in prop_oneof![
            4 => Just(Line::AtOnce),
            1 => prop::sample::select(Profile::ALL.map(|profile| profile.line).to_vec()),
        ],
        events in prop::collection::vec(event(), 1..200),
    ) {
        let clock = VirtualClock::new();
        let port = || Uart::of(Chip::new(model), clock.clone(), line, Vec::new());
        let mut trapping = port();
        let mut offered = Offered { port: port(), collected: Vec::new() };
        for event in &events {
            match *event {
                Event::Read(offset) => prop_assert_eq!(
                    offered.read(offset), trapping.read(offset), "{:?}", event
                ),
                Event::Write(offset, value) => {
                    offered.write(offset, value);
                    trapping.write(offset, value);
                }
                Event::Wait(span) => clock.wait_until(clock.now() + Nanos(span)),
                _ => {
                    from_outside(offered.port(), event);
                    from_outside(&mut trapping, event);
                }
            }
            // Collected writes do not delay the interrupt line.
            prop_assert_eq!(offered.port.interrupt(), trapping.interrupt());
        }
        let (arrived, expected) = (offered.port().sink_mut(), trapping.sink_mut());
        prop_assert_eq!(&*arrived, &*expected);
    }
}

fn vm() -> Uart<HostClock, Vec<u8>> {
    Uart::new(HostClock::new(), Line::AtOnce, Vec::new())
}

#[test]
fn transmit_writes_are_collected_only_while_no_interrupt_is_expected() {
    let mut uart = vm();
    assert_eq!(uart.offer().transmit, Transmit::Collect);
    uart.write(IER, ier::RECEIVED_DATA | ier::LINE_STATUS);
    assert_eq!(uart.offer().transmit, Transmit::Collect);
    uart.write(IER, ier::TRANSMITTER_EMPTY);
    assert_eq!(uart.offer().transmit, Transmit::Trap);
    uart.write(IER, 0);
    uart.write(MCR, mcr::LOOP);
    assert_eq!(uart.offer().transmit, Transmit::Trap);
    uart.write(MCR, 0);
    assert_eq!(uart.offer().transmit, Transmit::Collect);
}

#[test]
fn the_line_status_is_memory_unless_it_reports_an_error() {
    let idle = lsr::THRE | lsr::TEMT;
    let mut uart = vm();
    uart.write(FCR, fcr::ENABLE);
    assert_eq!(uart.offer().line_status, LineStatus::Memory(idle));
    uart.receive(b'x');
    let ready = LineStatus::Memory(idle | lsr::DATA_READY);
    assert_eq!(uart.offer().line_status, ready);
    // The error is behind the first byte, so only the FIFO error bit shows it.
    uart.receive_with(b'y', lsr::PARITY);
    assert_eq!(uart.offer().line_status, LineStatus::Trap);
    uart.read(RBR);
    assert_eq!(uart.offer().line_status, LineStatus::Trap);
    uart.read(LSR);
    assert_eq!(uart.offer().line_status, ready);
    uart.read(RBR);
    (0..17).for_each(|_| uart.receive(b'z'));
    assert_eq!(uart.offer().line_status, LineStatus::Trap, "overrun");
}

#[test]
fn a_line_with_a_baud_rate_offers_no_access_without_an_exit() {
    let mut uart = Uart::new(HostClock::new(), Line::Baud, Vec::new());
    uart.write(LCR, 3);
    let offer = uart.offer();
    assert_eq!(offer.transmit, Transmit::Trap);
    assert_eq!(offer.line_status, LineStatus::Trap);
}

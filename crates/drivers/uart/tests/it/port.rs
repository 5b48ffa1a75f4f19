//! The interrupt-driven port as its user observes it. Most tests use the model of the port. For
//! behaviour that the model does not have, they use a fake.

use std::cell::RefCell;
use std::collections::VecDeque;

use nostall_devices::uart::{Profile, Uart, VirtualPort};
use nostall_devices::{Fault, Faulty, VirtualClock};
use nostall_io::{Clock, Counting, Nanos, Registers};
use nostall_uart::port::{
    Events, Handshake, Port, PortSettings, ReceiveError, Received, TriggerLevel,
};
use nostall_uart::registers::{
    FCR, IER, IIR, LCR, LSR, MCR, MSR, RBR, THR, fcr, ier, iir, lcr, lsr, mcr, msr,
};
use nostall_uart::{LineError, LineSettings, Model};
use proptest::prelude::*;

const LINE: LineSettings = LineSettings::baud(115_200);
const OVERRUN: Received = Received::Error(ReceiveError::Overrun);
const BREAK: Received = Received::Error(ReceiveError::Break);

/// Returns settings with an interrupt at each byte, so that no timeout is needed.
fn settings() -> PortSettings {
    PortSettings {
        trigger: TriggerLevel::Byte,
        ..LINE.into()
    }
}

fn with_handshake() -> PortSettings {
    PortSettings {
        handshake: Handshake::RtsCts,
        ..settings()
    }
}

fn open<'a, R: Registers>(
    registers: R,
    settings: PortSettings,
    transmit: &'a mut [u8],
    receive: &'a mut [Received],
) -> Port<'a, R> {
    Port::open(registers, &VirtualClock::new(), settings, transmit, receive).unwrap()
}

fn bytes(text: &[u8]) -> Vec<Received> {
    text.iter().map(|&b| Received::Byte(b)).collect()
}

fn read<R: Registers>(port: &mut Port<'_, R>) -> Vec<Received> {
    let mut into = [Received::EMPTY; 512];
    let len = port.read(&mut into);
    into[..len].to_vec()
}

/// Calls the handler while the interrupt line is high, as an interrupt controller does.
fn interrupts<R: Registers>(uart: &VirtualPort<Vec<u8>>, port: &mut Port<'_, R>) -> Vec<Events> {
    let pending = || {
        uart.with(|uart| {
            uart.sink_mut();
            uart.interrupt().is_some()
        })
    };
    let mut events = Vec::new();
    while pending() {
        events.push(port.on_interrupt());
        assert!(events.len() < 1_000, "the interrupt line stays high");
    }
    events
}

fn sent(uart: &VirtualPort<Vec<u8>>) -> Vec<u8> {
    uart.with(|uart| uart.sink_mut().clone())
}

/// Runs the line until everything is sent.
fn run<R: Registers>(
    uart: &VirtualPort<Vec<u8>>,
    clock: &VirtualClock,
    port: &mut Port<'_, R>,
) -> Vec<Events> {
    let mut events = interrupts(uart, port);
    for _ in 0..10_000 {
        if port.is_drained() {
            return events;
        }
        clock.advance(Nanos::from_micros(10));
        events.extend(interrupts(uart, port));
    }
    panic!("written bytes are not sent");
}

#[test]
fn written_bytes_are_sent_in_order_in_whole_fifos() {
    let (uart, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let (mut transmit, mut receive) = ([0; 200], [Received::EMPTY; 8]);
    let window = Counting::new(&uart);
    let mut port = open(&window, settings(), &mut transmit, &mut receive);
    let text: Vec<u8> = (0..160).collect();
    let start = (window.counts(), clock.now());
    assert_eq!(port.write(&text), 160);
    while port.pending() > 0 {
        clock.advance(Nanos::from_micros(10));
        interrupts(&uart, &mut port);
    }
    let counts = window.counts() - start.0;
    assert_eq!((counts.bursts, counts.burst_values), (10, 160));
    // Each interrupt reads the cause, the line status, and the cause again.
    assert!(counts.reads <= 3 * 10, "{counts:?}");
    run(&uart, &clock, &mut port);
    assert_eq!(sent(&uart), text);
    let took = clock.now() - start.1;
    assert!(took < LINE.frame_time() * 175, "the line was idle: {took}");
}

#[test]
fn a_port_that_empties_at_once_takes_everything_in_a_few_bounded_calls() {
    let (uart, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
    let (mut transmit, mut receive) = ([0; 1000], [Received::EMPTY; 8]);
    let window = Counting::new(&uart);
    let mut port = open(&window, settings(), &mut transmit, &mut receive);
    assert_eq!(port.write(&[b'x'; 1000]), 1000);
    let before = window.counts();
    let first = port.on_interrupt();
    assert!(first.unfinished && first.room);
    assert!((window.counts() - before).bus_accesses() < 200);
    let events = run(&uart, &clock, &mut port);
    assert!(events.len() < 20, "{}", events.len());
    assert_eq!(sent(&uart), [b'x'; 1000]);
}

#[test]
fn a_full_transmit_ring_takes_no_more_and_reports_it() {
    let fake = Fake::default();
    let (mut transmit, mut receive) = ([0; 10], [Received::EMPTY; 8]);
    let mut port = open(&fake, settings(), &mut transmit, &mut receive);
    assert_eq!(port.write(&[1; 40]), 20, "ten in the FIFO, ten in the ring");
    assert_eq!(port.write(&[1; 40]), 0);
    assert_eq!((port.room(), port.pending()), (0, 10));
    fake.line_moves();
    assert!(port.on_interrupt().room);
    assert_eq!(port.room(), 10);
}

#[test]
fn the_transmit_interrupt_is_disabled_while_there_is_nothing_to_send() {
    let (uart, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let (mut transmit, mut receive) = ([0; 64], [Received::EMPTY; 8]);
    let mut port = open(&uart, settings(), &mut transmit, &mut receive);
    let enabled = || uart.with(|uart| uart.read(IER) & ier::TRANSMITTER_EMPTY != 0);
    assert!(!enabled());
    for _ in 0..2 {
        port.write(b"some text");
        assert!(enabled());
        assert!(!port.is_drained());
        let events = run(&uart, &clock, &mut port);
        assert_eq!(events.iter().filter(|e| e.drained).count(), 1);
        assert!(!enabled());
        assert_eq!(port.on_interrupt(), Events::default());
    }
}

#[test]
fn a_transmit_interrupt_behind_a_more_urgent_one_is_served_in_the_same_call() {
    let (uart, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let (mut transmit, mut receive) = ([0; 64], [Received::EMPTY; 8]);
    let mut port = open(&uart, settings(), &mut transmit, &mut receive);
    port.write(&[b'x'; 20]);
    clock.advance(Nanos::from_millis(5));
    uart.with(|uart| {
        uart.receive(b'!');
        uart.sink_mut();
        assert_eq!(uart.interrupt(), Some(iir::RECEIVED_DATA));
    });
    let events = port.on_interrupt();
    assert!(events.received && events.room);
    assert_eq!(port.pending(), 0);
}

#[test]
fn an_early_transmit_interrupt_does_not_overfill_the_fifo() {
    let fake = Fake::default();
    let (mut transmit, mut receive) = ([0; 64], [Received::EMPTY; 8]);
    let mut port = open(&fake, settings(), &mut transmit, &mut receive);
    port.write(&[b'x'; 40]);
    fake.with(|f| f.transmit_interrupt = true);
    assert!(!port.on_interrupt().room);
    assert_eq!(port.pending(), 24);
    fake.line_moves();
    assert!(port.on_interrupt().room, "the correct one still comes");
}

#[test]
fn an_interrupt_of_another_device_costs_one_register_read() {
    let fake = Counting::new(Fake::default());
    let (mut transmit, mut receive) = ([0; 64], [Received::EMPTY; 8]);
    let mut port = open(&fake, settings(), &mut transmit, &mut receive);
    let before = fake.counts();
    assert_eq!(port.on_interrupt(), Events::default());
    assert_eq!((fake.counts() - before).bus_accesses(), 1);
}

#[test]
fn errors_are_read_in_order_with_the_bytes_they_belong_to() {
    let fake = Fake::default();
    let (mut transmit, mut receive) = ([0; 8], [Received::EMPTY; 8]);
    let mut port = open(&fake, settings(), &mut transmit, &mut receive);
    let arrive = || {
        fake.receive(b'a', 0);
        fake.receive(b'b', lsr::PARITY);
        fake.receive(0, lsr::BREAK | lsr::FRAMING);
        fake.receive(b'c', lsr::FRAMING | lsr::PARITY);
        fake.receive(b'd', 0);
    };
    arrive();
    assert!(port.on_interrupt().received);
    assert_eq!(
        read(&mut port),
        [
            Received::Byte(b'a'),
            Received::Error(ReceiveError::Parity(b'b')),
            BREAK,
            Received::Error(ReceiveError::Framing(b'c')),
            Received::Byte(b'd'),
        ]
    );
    arrive();
    port.on_interrupt();
    let mut into = [0; 8];
    assert_eq!(port.read_bytes(&mut into), Ok(1));
    assert_eq!(
        port.read_bytes(&mut into),
        Err(ReceiveError::Parity(b'b')),
        "after the data that came before it"
    );
    assert_eq!(port.read_bytes(&mut into), Err(ReceiveError::Break));
    assert_eq!(port.read_bytes(&mut into), Err(ReceiveError::Framing(b'c')));
    assert_eq!(port.read_bytes(&mut into), Ok(1));
    assert_eq!((into[0], port.read_bytes(&mut into)), (b'd', Ok(0)));
    let counted = port.statistics();
    assert_eq!(counted.received, 10);
    assert_eq!((counted.parity, counted.framing, counted.breaks), (4, 2, 2));
}

#[test]
fn errors_seen_in_a_poll_of_the_transmitter_are_kept_for_their_byte() {
    let fake = Fake::default();
    let (mut transmit, mut receive) = ([0; 8], [Received::EMPTY; 32]);
    let mut port = open(&fake, settings(), &mut transmit, &mut receive);
    fake.receive(b'a', lsr::PARITY);
    (0..16).for_each(|b| fake.receive(b, 0)); // the last is lost
    assert!(port.is_drained());
    assert_eq!(port.write(b"x"), 1);
    assert!(port.on_interrupt().received);
    let came = read(&mut port);
    assert_eq!(came[0], Received::Error(ReceiveError::Parity(b'a')));
    assert_eq!(came[1..16], bytes(&(0..15).collect::<Vec<_>>()));
    assert_eq!(came[16..], [OVERRUN]);
}

#[test]
fn a_break_without_a_byte_is_still_a_break() {
    let fake = Fake::default();
    let (mut transmit, mut receive) = ([0; 8], [Received::EMPTY; 8]);
    let mut port = open(&fake, settings(), &mut transmit, &mut receive);
    fake.with(|f| f.lone_errors = lsr::BREAK);
    assert!(port.on_interrupt().received);
    assert_eq!(read(&mut port), [BREAK]);
}

#[test]
fn an_overrun_is_read_after_the_full_fifo_that_caused_it() {
    let (uart, _) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let (mut transmit, mut receive) = ([0; 8], [Received::EMPTY; 64]);
    let mut port = open(&uart, settings(), &mut transmit, &mut receive);
    let text: Vec<u8> = (0..20).collect();
    uart.with(|uart| text.iter().for_each(|&b| uart.receive(b)));
    assert!(port.on_interrupt().received);
    let mut expected = bytes(&text[..16]);
    expected.push(OVERRUN);
    assert_eq!(read(&mut port), expected);
    assert_eq!(port.statistics().overruns, 1);
}

#[test]
fn without_a_fifo_an_overrun_comes_before_the_byte_that_overwrote_another() {
    let fake = Fake::default();
    let (mut transmit, mut receive) = ([0; 8], [Received::EMPTY; 8]);
    let settings = PortSettings {
        model: Model::Uart16450,
        ..settings()
    };
    let mut port = open(&fake, settings, &mut transmit, &mut receive);
    fake.receive(b'b', 0);
    fake.with(|f| f.overrun = true);
    port.on_interrupt();
    assert_eq!(read(&mut port), [OVERRUN, Received::Byte(b'b')]);
    assert_eq!(port.transmit_load(), 1);
}

#[test]
fn bytes_that_exceed_the_ring_are_dropped_counted_and_reported_in_order() {
    let fake = Fake::default();
    let (mut transmit, mut receive) = ([0; 8], [Received::EMPTY; 4]);
    let mut port = open(&fake, settings(), &mut transmit, &mut receive);
    b"abcdef".iter().for_each(|&b| fake.receive(b, 0));
    port.on_interrupt();
    let mut one = [Received::EMPTY];
    assert_eq!((port.read(&mut one), one), (1, [Received::Byte(b'a')]));
    // One slot is not enough for the overrun and a byte.
    fake.receive(b'g', 0);
    port.on_interrupt();
    assert_eq!(port.statistics().dropped, 3);
    assert_eq!((port.read(&mut one), one), (1, [Received::Byte(b'b')]));
    fake.receive(b'h', 0);
    port.on_interrupt();
    let mut expected = bytes(b"cd");
    expected.extend([OVERRUN, Received::Byte(b'h')]);
    assert_eq!(read(&mut port), expected);
    assert!(port.is_empty());
}

#[test]
fn an_overrun_is_readable_even_if_nothing_comes_after_it() {
    for capacity in 0..3 {
        let fake = Fake::default();
        let mut receive = vec![Received::EMPTY; capacity];
        let mut port = open(&fake, settings(), &mut [], &mut receive);
        b"abc".iter().for_each(|&b| fake.receive(b, 0));
        assert!(port.on_interrupt().received);
        let mut expected = bytes(&b"abc"[..capacity]);
        expected.push(OVERRUN);
        assert_eq!(read(&mut port), expected);
        assert!(port.is_empty());
    }
}

#[test]
fn without_cts_nothing_is_sent_and_with_it_the_rest_is_sent() {
    let fake = Fake::default();
    let (mut transmit, mut receive) = ([0; 64], [Received::EMPTY; 8]);
    let mut port = open(&fake, with_handshake(), &mut transmit, &mut receive);
    let enabled = || fake.with(|f| f.ier & ier::TRANSMITTER_EMPTY != 0);
    port.write(b"abcdef");
    assert_eq!(fake.take_load(), b"a", "one by one");
    assert!(port.on_interrupt().room);
    assert_eq!(fake.take_load(), b"b");
    fake.set_cts(false);
    let events = port.on_interrupt();
    assert!(events.modem && !events.room);
    assert_eq!(fake.take_load(), b"");
    assert!(!enabled(), "no interrupt while CTS forbids sending");
    assert_eq!(port.write(b"gh"), 2);
    assert_eq!(fake.take_load(), b"");
    assert!(!port.is_drained());
    fake.set_cts(true);
    let events = port.on_interrupt();
    assert!(events.modem && events.room);
    let mut rest = fake.take_load();
    while port.pending() > 0 {
        port.on_interrupt();
        rest.extend(fake.take_load());
    }
    assert_eq!(rest, b"cdefgh");
}

#[test]
fn cts_that_returns_in_a_modem_status_read_also_resumes_sending() {
    let fake = Fake::default();
    let (mut transmit, mut receive) = ([0; 64], [Received::EMPTY; 8]);
    fake.set_cts(false);
    let mut port = open(&fake, with_handshake(), &mut transmit, &mut receive);
    port.write(b"x");
    assert_eq!(fake.take_load(), b"");
    fake.set_cts(true);
    assert_eq!(port.modem_status(), msr::CTS);
    assert_eq!(fake.take_load(), b"x");
    assert!(port.on_interrupt().modem, "the change is still reported");
}

#[test]
fn without_a_handshake_cts_does_not_matter() {
    let fake = Fake::default();
    fake.set_cts(false);
    let (mut transmit, mut receive) = ([0; 64], [Received::EMPTY; 8]);
    let mut port = open(&fake, settings(), &mut transmit, &mut receive);
    port.write(b"text");
    assert_eq!(fake.take_load(), b"text");
}

#[test]
fn rts_is_lowered_when_a_quarter_is_free_and_raised_again_when_half_is() {
    let fake = Fake::default();
    let (mut transmit, mut receive) = ([0; 8], [Received::EMPTY; 16]);
    let mut port = open(&fake, with_handshake(), &mut transmit, &mut receive);
    let rts = || fake.with(|f| f.mcr & mcr::RTS != 0);
    let mut arrive = |count| {
        (0..count).for_each(|b| fake.receive(b, 0));
        port.on_interrupt();
        rts()
    };
    assert!(arrive(12), "4 are free");
    assert!(!arrive(1), "3 are");
    let mut take = |count| {
        port.read(&mut vec![Received::EMPTY; count]);
        rts()
    };
    assert!(!take(4), "7 are free");
    assert!(take(1), "8 are");
    assert_eq!(port.statistics().dropped, 0);
}

#[test]
fn a_port_that_is_gone_ends_the_call_at_once_and_is_reported() {
    for good in 0..8 {
        let fake = Fake::default();
        let window = Faulty::after(1_000, Fault::AllOnes, Counting::new(&fake));
        let (mut transmit, mut receive) = ([0; 64], [Received::EMPTY; 8]);
        let mut port = open(&window, settings(), &mut transmit, &mut receive);
        port.write(&[b'x'; 40]);
        fake.line_moves();
        fake.receive(b'a', 0);
        window.recover_for(good);
        let events = port.on_interrupt();
        assert!(
            events.gone && !events.unfinished && port.is_gone(),
            "{good}"
        );
        assert!(!port.is_drained());
        port.write(b"y");
        assert!(!port.poll().drained);
        // The port vanishes between the poll and the read, which leaves one byte of all ones.
        let came = read(&mut port);
        let plausible = [bytes(b""), bytes(b"a"), bytes(b"\xff")].contains(&came);
        assert!(plausible, "{came:?}");
    }
}

#[test]
fn a_short_line_status_of_all_ones_is_a_present_port() {
    let fake = Fake::default();
    let (mut transmit, mut receive) = ([0; 8], [Received::EMPTY; 32]);
    let mut port = open(&fake, settings(), &mut transmit, &mut receive);
    fake.receive(0, lsr::BREAK | lsr::FRAMING | lsr::PARITY | lsr::FIFO_ERROR);
    (0..16).for_each(|b| fake.receive(b, 0));
    assert_eq!(fake.with(|f| f.line_status()), !0);
    let events = port.on_interrupt();
    assert!(events.received && !events.gone);
    let came = read(&mut port);
    assert_eq!((came[0], came[16], came.len()), (BREAK, OVERRUN, 17));
}

#[test]
fn a_stuck_interrupt_costs_a_bounded_call_and_is_reported() {
    for cause in 0..16 {
        if cause & iir::NONE != 0 {
            continue;
        }
        let fake = Counting::new(Fake::default());
        let (mut transmit, mut receive) = ([0; 64], [Received::EMPTY; 8]);
        let mut port = open(&fake, with_handshake(), &mut transmit, &mut receive);
        fake.inner().with(|f| f.stuck = Some(cause));
        let before = fake.counts();
        assert!(port.on_interrupt().unfinished, "{cause:#x}");
        let accesses = (fake.counts() - before).bus_accesses();
        assert!(accesses <= 4 * 80, "{cause:#x}: {accesses}");
    }
}

#[test]
fn endless_input_is_read_in_bounded_calls_that_interrupt_again() {
    let fake = Fake::default();
    let (mut transmit, mut receive) = ([0; 64], [Received::EMPTY; 512]);
    let mut port = open(&fake, settings(), &mut transmit, &mut receive);
    fake.receive(0, 0);
    fake.with(|f| f.refill = Some(0));
    let mut came = Vec::new();
    for _ in 0..3 {
        fake.with(|f| f.enables.clear());
        let events = port.on_interrupt();
        assert!(events.received && events.unfinished);
        // The interrupt line goes low and high again.
        let enables = fake.with(|f| f.enables.clone());
        assert_eq!(enables, [0, ier::RECEIVED_DATA | ier::LINE_STATUS]);
        came.extend(read(&mut port));
    }
    let expected: Vec<u8> = (0..).take(came.len()).collect();
    assert!(came.len() <= 3 * 80);
    assert_eq!(came, bytes(&expected));
}

#[test]
fn a_designware_that_shows_a_timeout_without_a_byte_is_read_once() {
    let fake = Fake::default();
    let (mut transmit, mut receive) = ([0; 64], [Received::EMPTY; 8]);
    let settings = PortSettings {
        model: Model::DesignWare,
        ..settings()
    };
    let mut port = open(&fake, settings, &mut transmit, &mut receive);
    fake.with(|f| f.stuck_until_read = true);
    assert_eq!(port.on_interrupt(), Events::default());
    assert!(!fake.with(|f| f.stuck_until_read));
}

#[test]
fn opening_sets_trigger_frame_and_lines_and_enables_the_needed_interrupts() {
    let fake = Fake::default();
    let settings = PortSettings {
        trigger: TriggerLevel::NearlyFull,
        ..with_handshake()
    };
    let port = open(&fake, settings, &mut [], &mut []);
    fake.with(|f| {
        assert_eq!(f.fcr & (fcr::TRIGGER | fcr::ENABLE), 0xc1);
        assert_eq!(f.lcr, 3);
        assert_eq!(f.mcr, mcr::DTR | mcr::RTS | mcr::OUT2);
        assert_eq!(
            f.ier,
            ier::RECEIVED_DATA | ier::LINE_STATUS | ier::MODEM_STATUS
        );
    });
    let fake = port.close();
    assert_eq!(fake.with(|f| (f.ier, f.mcr)), (0, mcr::DTR | mcr::RTS));
}

#[test]
fn an_absent_port_and_an_impossible_rate_are_errors() {
    let clock = VirtualClock::new();
    let window = Faulty::after(0, Fault::AllOnes, Fake::default());
    let opened = Port::open(&window, &clock, LINE, &mut [], &mut []);
    assert_eq!(opened.err(), Some(nostall_uart::OpenError::NotFound));
    let zero = LineSettings::baud(0);
    let opened = Port::open(Fake::default(), &clock, zero, &mut [], &mut []);
    assert_eq!(
        opened.err(),
        Some(nostall_uart::OpenError::Line(LineError::Zero))
    );
}

#[test]
fn a_designware_that_stays_busy_is_an_error_in_bounded_time() {
    let (fake, clock) = (Fake::default(), VirtualClock::new());
    fake.with(|f| f.busy = true);
    let settings = PortSettings {
        model: Model::DesignWare,
        ..settings()
    };
    let opened = Port::open(&fake, &clock, settings, &mut [], &mut []);
    assert_eq!(opened.err(), Some(nostall_uart::OpenError::Busy));
    assert!(clock.now() <= Nanos::from_millis(21), "{}", clock.now());
}

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<u8>),
    Arrive(u8),
    Read(usize),
    Pass(u64),
    Interrupt,
    LookWhetherDrained,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Step::Write),
        (1..24u8).prop_map(Step::Arrive),
        (0..40usize).prop_map(Step::Read),
        (0..3_000u64).prop_map(Step::Pass),
        Just(Step::Interrupt),
        Just(Step::LookWhetherDrained),
    ]
}

proptest! {
    #[test]
    fn every_loss_is_reported_in_any_interleaving(
        steps in prop::collection::vec(step(), 0..80),
        vm: bool,
        transmit in 0..50usize,
        receive in 0..50usize,
    ) {
        let profile = if vm { Profile::VM } else { Profile::PC_16550A };
        let (uart, clock) = Uart::in_virtual_time(profile, Vec::new());
        let (mut transmit, mut receive) = (vec![0; transmit], vec![Received::EMPTY; receive]);
        let mut port = open(&uart, settings(), &mut transmit, &mut receive);
        let (mut written, mut came) = (Vec::new(), Vec::new());
        let mut number = 0u16;
        for step in steps {
            match step {
                Step::Write(bytes) => {
                    let taken = port.write(&bytes);
                    written.extend(&bytes[..taken]);
                }
                // At most 80 times 23 bytes arrive, so 16 bits can count them.
                Step::Arrive(count) => uart.with(|uart| {
                    for _ in 0..count {
                        uart.receive((number % 251) as u8);
                        number += 1;
                    }
                }),
                Step::Read(count) => {
                    let mut into = vec![Received::EMPTY; count];
                    let len = port.read(&mut into);
                    came.extend(&into[..len]);
                }
                Step::Pass(us) => clock.advance(Nanos::from_micros(us)),
                Step::Interrupt => {
                    interrupts(&uart, &mut port);
                }
                Step::LookWhetherDrained => {
                    port.is_drained();
                }
            }
        }
        run(&uart, &clock, &mut port);
        came.extend(read(&mut port));
        prop_assert_eq!(sent(&uart), written);
        prop_assert_eq!(uart.with(|uart| uart.lost()), 0);
        check_numbers(&came, number)?;
        let bytes = came.iter().filter(|&&c| c != OVERRUN).count() as u64;
        prop_assert_eq!(port.statistics().received, bytes + port.statistics().dropped);
    }
}

/// Checks that the received numbers are consecutive, except at an overrun, where some are missing.
fn check_numbers(came: &[Received], sent: u16) -> Result<(), TestCaseError> {
    let (mut next, mut overrun) = (0u16, false);
    for &entry in came {
        match entry {
            Received::Byte(byte) if overrun => {
                let missing = (1..).find(|n| (next + n) % 251 == u16::from(byte));
                next += missing.unwrap() + 1;
                overrun = false;
            }
            Received::Byte(byte) => {
                prop_assert_eq!(u16::from(byte), next % 251);
                next += 1;
            }
            OVERRUN => overrun = true,
            Received::Error(other) => prop_assert!(false, "{other}"),
        }
    }
    // A gap of more than 251 numbers looks smaller.
    prop_assert!(next <= sent);
    prop_assert!(overrun || next % 251 == sent % 251, "the end is missing");
    prop_assert!(came.contains(&OVERRUN) || next == sent);
    Ok(())
}

/// A 16550 whose other end is controlled in the test. The line moves only on request.
#[derive(Debug, Default)]
struct Fake(RefCell<State>);

#[derive(Debug, Default)]
struct State {
    receive: VecDeque<(u8, u8)>,
    /// Errors without a byte.
    lone_errors: u8,
    overrun: bool,
    transmit: Vec<u8>,
    transmit_interrupt: bool,
    no_cts: bool,
    delta_cts: bool,
    ier: u8,
    fcr: u8,
    lcr: u8,
    mcr: u8,
    /// Fixed value of the IIR.
    stuck: Option<u8>,
    /// Set if the IIR shows a timeout until the RBR is read.
    stuck_until_read: bool,
    /// Number of the next byte. Each read byte is followed by another one.
    refill: Option<u8>,
    /// Set if writes to the LCR are ignored.
    busy: bool,
    /// The values written to the IER.
    enables: Vec<u8>,
}

impl Fake {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.borrow_mut())
    }

    fn receive(&self, byte: u8, errors: u8) {
        self.with(|f| {
            if f.receive.len() == 16 {
                f.overrun = true;
            } else {
                f.receive.push_back((byte, errors));
            }
        });
    }

    fn set_cts(&self, cts: bool) {
        self.with(|f| {
            f.delta_cts |= f.no_cts == cts;
            f.no_cts = !cts;
        });
    }

    /// Sends every byte of the transmit FIFO.
    fn line_moves(&self) {
        self.take_load();
    }

    fn take_load(&self) -> Vec<u8> {
        self.with(|f| {
            f.transmit_interrupt |= !f.transmit.is_empty();
            std::mem::take(&mut f.transmit)
        })
    }
}

impl State {
    fn line_status(&self) -> u8 {
        let front = self.receive.front();
        let errors = front.map_or(self.lone_errors, |&(_, errors)| errors | lsr::DATA_READY);
        let overrun = if self.overrun { lsr::OVERRUN } else { 0 };
        let idle = self.transmit.is_empty();
        errors | overrun | if idle { lsr::THRE | lsr::TEMT } else { 0 }
    }

    fn read_lsr(&mut self) -> u8 {
        let status = self.line_status();
        self.overrun = false;
        self.lone_errors = 0;
        if let Some((_, errors)) = self.receive.front_mut() {
            *errors = 0;
        }
        status
    }

    fn read_rbr(&mut self) -> u8 {
        self.stuck_until_read = false;
        let byte = self.receive.pop_front().map_or(0, |(byte, _)| byte);
        if let Some(number) = &mut self.refill {
            *number = number.wrapping_add(1);
            self.receive.push_back((*number, 0));
        }
        byte
    }

    fn read_iir(&mut self) -> u8 {
        let errors = lsr::OVERRUN | lsr::PARITY | lsr::FRAMING | lsr::BREAK;
        let enabled = |bit| self.ier & bit != 0;
        let id = if let Some(stuck) = self.stuck {
            stuck
        } else if self.stuck_until_read {
            iir::TIMEOUT
        } else if enabled(ier::LINE_STATUS) && self.line_status() & errors != 0 {
            iir::LINE_STATUS
        } else if enabled(ier::RECEIVED_DATA) && !self.receive.is_empty() {
            iir::RECEIVED_DATA
        } else if enabled(ier::TRANSMITTER_EMPTY) && self.transmit_interrupt {
            self.transmit_interrupt = false;
            iir::TRANSMITTER_EMPTY
        } else if enabled(ier::MODEM_STATUS) && self.delta_cts {
            iir::MODEM_STATUS
        } else {
            iir::NONE
        };
        let fifos = self.fcr & fcr::ENABLE != 0;
        id | if fifos { iir::FIFOS } else { 0 }
    }
}

impl Registers for Fake {
    fn read8(&self, offset: usize) -> u8 {
        self.with(|f| match offset {
            RBR => f.read_rbr(),
            IER => f.ier,
            IIR => f.read_iir(),
            LCR => f.lcr,
            MCR => f.mcr,
            LSR => f.read_lsr(),
            MSR => {
                let cts = if f.no_cts { 0 } else { msr::CTS };
                let delta = std::mem::take(&mut f.delta_cts);
                cts | if delta { msr::DELTA_CTS } else { 0 }
            }
            _ => 0,
        })
    }

    fn write8(&self, offset: usize, value: u8) {
        self.with(|f| match offset {
            THR | IER if f.lcr & lcr::DLAB != 0 => {}
            THR => {
                let depth = if f.fcr & fcr::ENABLE != 0 { 16 } else { 1 };
                assert!(f.transmit.len() < depth, "a byte is lost in a full FIFO");
                f.transmit_interrupt = false;
                f.transmit.push(value);
            }
            IER => {
                let newly = value & !f.ier & ier::TRANSMITTER_EMPTY != 0;
                f.transmit_interrupt |= newly && f.transmit.is_empty();
                f.ier = value & 0x0f;
                f.enables.push(value);
            }
            FCR => f.fcr = value,
            LCR if !f.busy => f.lcr = value,
            MCR => f.mcr = value,
            _ => {}
        });
    }
}

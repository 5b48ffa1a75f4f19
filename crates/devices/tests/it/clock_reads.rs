//! Models read their clock only where the time decides the result of an access.

use std::cell::Cell;

use nostall_devices::VirtualClock;
use nostall_devices::spi::{SdCard, Target};
use nostall_devices::uart::{Line, Serial, Uart};
use nostall_io::{Clock, Nanos};
use nostall_uart::registers::*;

/// A virtual clock that counts its readings.
#[derive(Debug, Default)]
struct Counting {
    time: VirtualClock,
    readings: Cell<u64>,
}

impl Clock for &Counting {
    fn now(&self) -> Nanos {
        self.readings.set(self.readings.get() + 1);
        self.time.now()
    }
}

impl Counting {
    /// Returns the number of readings during `act`.
    fn during(&self, act: impl FnOnce()) -> u64 {
        let before = self.readings.get();
        act();
        self.readings.get() - before
    }
}

type Port<'c> = Serial<(), &'c Counting, Vec<u8>>;

/// Duration of a frame at 115,200 baud, 8N1.
const FRAME: Nanos = Nanos(86_805);

/// Returns a port at 115,200 baud, 8N1, with FIFOs on.
fn port(clock: &Counting, line: Line) -> Port<'_> {
    let mut port = Serial::new(Uart::new(clock, line, Vec::new()), ());
    for (register, value) in [(LCR, lcr::DLAB), (DLL, 1), (LCR, 3), (FCR, fcr::ENABLE)] {
        write(&mut port, register, value);
    }
    port
}

fn write(port: &mut Port<'_>, register: usize, value: u8) {
    port.write(register, value).expect("it cannot fail");
}

/// Returns the number of clock readings of one register read.
fn reading(clock: &Counting, port: &mut Port<'_>, register: usize) -> u64 {
    clock.during(|| _ = port.read(register))
}

#[test]
fn a_guest_that_prints_on_a_line_without_a_rate_causes_no_reading_of_the_clock() {
    let clock = Counting::default();
    let mut port = port(&clock, Line::AtOnce);
    for enabled in [0, ier::TRANSMITTER_EMPTY, 0x0f] {
        write(&mut port, IER, enabled);
        for _ in 0..3 {
            for register in 0..8 {
                port.read(register);
            }
            (0..16).for_each(|_| write(&mut port, THR, b'x'));
        }
        for (register, value) in [(MCR, mcr::OUT2), (SCR, 1), (LCR, 3), (FCR, fcr::ENABLE)] {
            write(&mut port, register, value);
        }
        port.tend().expect("it cannot fail");
    }
    assert_eq!(clock.readings.get(), 0);
    assert_eq!(port.uart_mut().sink_mut().len(), 3 * 3 * 16);
}

#[test]
fn a_burst_on_a_line_with_a_rate_reads_the_clock_once_an_access_until_the_last_bit_has_left() {
    let clock = Counting::default();
    let mut port = port(&clock, Line::Baud);
    write(&mut port, IER, ier::TRANSMITTER_EMPTY);
    port.read(IIR);
    port.read(LSR);
    assert_eq!(clock.readings.get(), 0, "the transmitter is idle");
    let burst = clock.during(|| (0..16).for_each(|_| write(&mut port, THR, b'x')));
    assert_eq!(burst, 16);
    for _ in 0..16 {
        clock.time.advance(FRAME);
        assert_eq!(reading(&clock, &mut port, LSR), 1);
    }
    assert_eq!(port.read(LSR), lsr::THRE | lsr::TEMT);
    assert_eq!(reading(&clock, &mut port, LSR), 0);
    assert_eq!(reading(&clock, &mut port, IIR), 0);
    assert_eq!(port.uart_mut().sink_mut().len(), 16);
}

/// No earlier reading can replace one: a pause between two polls has any length.
#[test]
fn a_status_is_never_late_even_if_the_guest_has_polled_faster_until_now() {
    let clock = Counting::default();
    let mut port = port(&clock, Line::Baud);
    write(&mut port, THR, b'x');
    for _ in 0..1_000 {
        clock.time.advance(FRAME / 2_000);
        assert_eq!(clock.during(|| assert_eq!(port.read(LSR), lsr::THRE)), 1);
    }
    clock.time.advance(FRAME);
    assert_eq!(port.read(LSR), lsr::THRE | lsr::TEMT);
}

#[test]
fn a_write_that_finds_the_last_frame_sent_and_starts_the_next_reads_the_clock_once() {
    let clock = Counting::default();
    let mut port = port(&clock, Line::Baud);
    write(&mut port, THR, b'x');
    clock.time.advance(FRAME);
    assert_eq!(clock.during(|| write(&mut port, THR, b'y')), 1);
    assert_eq!(port.uart_mut().next_event(), Some(FRAME * 2));
}

#[test]
fn input_reads_the_clock_once_an_access_until_its_timeout_has_occurred() {
    let clock = Counting::default();
    let mut port = port(&clock, Line::AtOnce);
    write(&mut port, FCR, fcr::ENABLE | 0x80);
    write(&mut port, IER, ier::RECEIVED_DATA);
    let input = clock.during(|| assert_eq!(port.receive(b"three").unwrap(), 5));
    assert_eq!(input, 1);
    assert_eq!(reading(&clock, &mut port, LSR), 1);
    clock.time.advance(FRAME * 4);
    assert_eq!(port.read(IIR) & iir::ID, iir::TIMEOUT);
    assert_eq!(reading(&clock, &mut port, LSR), 0);
    assert_eq!(reading(&clock, &mut port, RBR), 1, "a new timeout");
    let rest = clock.during(|| (0..4).for_each(|_| _ = port.read(RBR)));
    assert_eq!(rest, 4);
    assert_eq!(reading(&clock, &mut port, LSR), 0, "nothing is stored");
}

type Card<'c> = SdCard<&'c Counting, Vec<u8>>;

/// Sends a command without a checksum, and returns the first byte of the response.
fn command(card: &mut Card<'_>, number: u8, argument: u32) -> u8 {
    let [a, b, c, d] = argument.to_be_bytes();
    // The checksums of CMD0 and CMD8 are mandatory. No other is verified.
    let checksum = if number == 0 { 0x95 } else { 0x87 };
    for byte in [0x40 | number, a, b, c, d, checksum] {
        card.exchange(byte);
    }
    card.exchange(0xff);
    card.exchange(0xff)
}

/// Returns an initialised and selected card.
fn card(clock: &Counting) -> Card<'_> {
    let mut card = SdCard::new(clock, vec![7; 64 << 9]);
    (0..10).for_each(|_| card.pass(0xff));
    card.select();
    assert_eq!(command(&mut card, 0, 0), 1, "idle");
    loop {
        command(&mut card, 55, 0);
        if command(&mut card, 41, 1 << 30) == 0 {
            return card;
        }
        clock.time.advance(Nanos::from_millis(10));
    }
}

#[test]
fn a_block_written_to_a_card_reads_the_clock_at_its_end_and_while_the_card_is_busy() {
    let clock = Counting::default();
    let mut card = card(&clock);
    let block = clock.during(|| {
        assert_eq!(command(&mut card, 24, 3), 0);
        card.exchange(0xfe);
        (0..512 + 2).for_each(|_| _ = card.exchange(0x55));
    });
    assert_eq!(block, 1, "the start of the busy time");
    assert_eq!(card.exchange(0xff) & 0x1f, 5, "accepted");
    let busy = clock.during(|| assert_eq!(card.exchange(0xff), 0));
    assert_eq!(busy, 1);
    clock.time.advance(Nanos::from_secs(1));
    let done = clock.during(|| assert_eq!(card.exchange(0xff), 0xff));
    assert_eq!(done, 1);
    assert_eq!(clock.during(|| _ = command(&mut card, 13, 0)), 0);
}

#[test]
fn a_block_read_from_a_card_reads_the_clock_until_its_first_byte() {
    let clock = Counting::default();
    let mut card = card(&clock);
    assert_eq!(clock.during(|| _ = command(&mut card, 17, 3)), 1);
    assert_eq!(clock.during(|| assert_eq!(card.exchange(0xff), 0xff)), 1);
    clock.time.advance(Nanos::from_secs(1));
    assert_eq!(clock.during(|| assert_eq!(card.exchange(0xff), 0xfe)), 1);
    let rest = clock.during(|| (0..512 + 2).for_each(|_| _ = card.exchange(0xff)));
    assert_eq!(rest, 0);
}

// A VMM's uses of `vm_superio`, as its own tests have them, through its public items. The including
// module has the line `use ...::vm_superio`.

use std::cell::Cell;
use std::io::{self, Write, sink};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use vm_superio::serial::{Error, NoEvents, SerialEvents};
use vm_superio::{Serial, SerialState, Trigger};

const DATA: u8 = 0;
const IER: u8 = 1;
const IIR: u8 = 2;
const FCR: u8 = 2;
const LCR: u8 = 3;
const MCR: u8 = 4;
const LSR: u8 = 5;
const MSR: u8 = 6;
const SCR: u8 = 7;

const RECEIVED: u8 = 1;
const EMPTY: u8 = 2;
const IIR_NONE: u8 = 1;
const IIR_EMPTY: u8 = 2;
const IIR_RECEIVED: u8 = 4;
const IIR_FIFOS: u8 = 0xc0;
const DLAB: u8 = 0x80;
const LOOP: u8 = 0x10;
const DATA_READY: u8 = 1;

const CAPACITY: usize = 64;

/// Counts interrupts, or fails.
#[derive(Debug, Default)]
struct Interrupt {
    count: Cell<u32>,
    broken: Cell<bool>,
}

impl Trigger for Interrupt {
    type E = io::Error;

    fn trigger(&self) -> io::Result<()> {
        if self.broken.get() {
            return Err(io::Error::other("broken"));
        }
        self.count.set(self.count.get() + 1);
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Events {
    reads: AtomicU32,
    sent: AtomicU32,
    lost: AtomicU32,
    emptied: AtomicU32,
}

fn add_one(count: &AtomicU32) {
    count.fetch_add(1, Ordering::Relaxed);
}

impl SerialEvents for Events {
    fn buffer_read(&self) {
        add_one(&self.reads);
    }
    fn out_byte(&self) {
        add_one(&self.sent);
    }
    fn tx_lost_byte(&self) {
        add_one(&self.lost);
    }
    fn in_buffer_empty(&self) {
        add_one(&self.emptied);
    }
}

impl Events {
    /// Returns reads, sent bytes, lost bytes, and how often the input became empty.
    fn counts(&self) -> [u32; 4] {
        [&self.reads, &self.sent, &self.lost, &self.emptied]
            .map(|count| count.load(Ordering::Relaxed))
    }
}

fn port<W: Write>(out: W) -> Serial<Interrupt, NoEvents, W> {
    Serial::new(Interrupt::default(), out)
}

/// Returns the number of interrupts since the last call.
fn interrupts<EV: SerialEvents, W: Write>(port: &Serial<Interrupt, EV, W>) -> u32 {
    port.interrupt_evt().count.take()
}

fn restored(state: &SerialState) -> Serial<Interrupt, NoEvents, io::Sink> {
    Serial::from_state(state, Interrupt::default(), NoEvents, sink()).unwrap()
}

#[test]
fn a_port_can_move_to_another_thread() {
    let mut port = port(Vec::new());
    let moved = std::thread::spawn(move || port.write(DATA, b'a').map(|()| port.into_writer()));
    assert_eq!(moved.join().unwrap().unwrap(), b"a");
}

#[test]
fn output_reaches_the_writer_in_order() {
    let mut port = port(Vec::new());
    for byte in *b"abc" {
        port.write(DATA, byte).unwrap();
    }
    assert_eq!(port.writer(), b"abc");
    port.writer_mut().clear();
    port.write(DATA, b'd').unwrap();
    let state = port.state();
    let writer = port.into_writer();
    let restored = Serial::from_state(&state, Interrupt::default(), NoEvents, writer).unwrap();
    assert_eq!(restored.writer(), b"d");
}

#[test]
fn input_triggers_once_and_can_be_read_while_data_is_ready() {
    let mut port = port(sink());
    port.write(IER, RECEIVED).unwrap();
    assert_eq!(port.enqueue_raw_bytes(&[]).unwrap(), 0);
    assert_eq!(interrupts(&port), 0);
    assert_eq!(port.read(LSR) & DATA_READY, 0);
    assert_eq!(port.enqueue_raw_bytes(b"abc").unwrap(), 3);
    assert_eq!(interrupts(&port), 1);
    for byte in *b"abc" {
        assert_eq!(port.read(LSR) & DATA_READY, DATA_READY);
        assert_eq!(port.read(DATA), byte);
        assert_eq!(port.state().interrupt_identification, IIR_NONE);
    }
    assert_eq!(port.read(LSR) & DATA_READY, 0);
    assert_eq!(interrupts(&port), 0);
}

#[test]
fn input_during_masked_interrupts_triggers_when_they_are_enabled() {
    let mut port = port(sink());
    port.write(IER, RECEIVED).unwrap();
    let before = port.read(IER);
    port.write(IER, 0).unwrap();
    port.enqueue_raw_bytes(b"abc").unwrap();
    assert_eq!(port.read(LSR) & DATA_READY, DATA_READY);
    assert_eq!(interrupts(&port), 0);
    assert_eq!(port.state().interrupt_identification, IIR_NONE);

    port.write(IER, before).unwrap();
    assert_eq!(interrupts(&port), 1);
    assert_eq!(port.read(IIR), IIR_RECEIVED | IIR_FIFOS);
    // Identified, and not read: the next write triggers again.
    port.write(IER, before).unwrap();
    assert_eq!(interrupts(&port), 1);
    port.read(IIR);
    for byte in *b"abc" {
        assert_eq!(port.read(DATA), byte);
    }
    port.write(IER, before).unwrap();
    assert_eq!(interrupts(&port), 0);
    assert_eq!(port.state().interrupt_identification, IIR_NONE);
}

#[test]
fn the_transmit_interrupt_triggers_as_soon_as_it_is_enabled() {
    let mut port = port(sink());
    port.write(IER, EMPTY).unwrap();
    assert_eq!(interrupts(&port), 1);
    assert_eq!(port.read(IIR), IIR_EMPTY | IIR_FIFOS);
    port.write(IER, RECEIVED).unwrap();
    assert_eq!(interrupts(&port), 0);
    assert_eq!(port.state().interrupt_identification, IIR_NONE);
}

#[test]
fn a_sent_byte_triggers_unless_the_last_interrupt_was_not_identified() {
    let mut port = port(sink());
    port.write(IER, EMPTY).unwrap();
    assert_eq!(port.state().interrupt_enable, EMPTY);
    port.write(DATA, b'a').unwrap();
    assert_eq!(interrupts(&port), 1, "for both");
    assert_eq!(port.read(IER), EMPTY);
    assert_eq!(port.read(IIR), IIR_EMPTY | IIR_FIFOS);
    assert_eq!(port.state().interrupt_identification, IIR_NONE);
    port.write(DATA, b'b').unwrap();
    assert_eq!(interrupts(&port), 1);
}

#[test]
fn loopback_returns_as_many_bytes_as_the_port_holds() {
    let mut port = port(Vec::new());
    port.write(MCR, LOOP).unwrap();
    port.write(IER, RECEIVED).unwrap();
    for byte in 0..CAPACITY as u8 {
        port.write(DATA, byte).unwrap();
        assert_eq!(interrupts(&port), 1);
        assert_eq!(port.state().in_buffer, [byte]);
        assert_eq!(port.read(DATA), byte);
    }
    assert_eq!(port.state().line_status & DATA_READY, 0);
    for byte in 0..CAPACITY as u8 {
        port.write(DATA, byte).unwrap();
    }
    assert_eq!(interrupts(&port), 1);
    assert_eq!(port.state().in_buffer.len(), CAPACITY);
    assert_eq!(port.enqueue_raw_bytes(b"not connected").unwrap(), 0);
    for byte in 0..CAPACITY as u8 {
        assert_eq!(port.state().line_status & DATA_READY, DATA_READY);
        assert_eq!(port.read(DATA), byte);
    }
    assert_eq!(port.state().line_status & DATA_READY, 0);
    assert_eq!(port.writer(), b"");
}

#[test]
fn the_divisor_is_behind_dlab() {
    let mut port = port(Vec::new());
    port.write(LCR, DLAB).unwrap();
    port.write(1, 0x12).unwrap();
    assert_eq!((port.read(0), port.read(1)), (12, 0x12), "9,600 baud");
    port.write(0, 0x34).unwrap();
    assert_eq!((port.read(0), port.read(1)), (0x34, 0x12));
    port.write(LCR, 0).unwrap();
    assert_eq!((port.read(0), port.read(1)), (0, 0));
    assert_eq!(port.writer(), b"");
    let state = port.state();
    assert_eq!(
        [state.baud_divisor_low, state.baud_divisor_high],
        [0x34, 0x12]
    );
}

#[test]
fn three_registers_hold_the_written_value_and_none_is_beyond_the_eighth() {
    let mut port = port(sink());
    for register in [LCR, MCR, SCR] {
        port.write(register, 0x12).unwrap();
        assert_eq!(port.read(register), 0x12);
    }
    port.write(SCR + 1, 5).unwrap();
    assert_eq!(port.read(SCR + 1), 0);
    assert_eq!(port.read(u8::MAX), 0);
}

#[test]
fn the_modem_lines_are_ready_and_in_loopback_those_of_the_port() {
    let mut port = port(sink());
    assert_eq!(port.read(MSR), 0xb0);
    // OUT2 to DCD, OUT1 to RI, DTR and RTS to DSR and CTS.
    for (outputs, lines) in [(0, 0), (0x08, 0x80), (0x04, 0x40), (0x03, 0x30)] {
        port.write(MCR, LOOP | outputs).unwrap();
        assert_eq!(port.read(MSR), lines, "{outputs:#x}");
    }
    port.write(MCR, 0).unwrap();
    assert_eq!(port.read(MSR), 0xb0);
}

#[test]
fn input_beyond_the_capacity_is_left_to_the_caller() {
    let mut port = port(sink());
    assert_eq!(port.fifo_capacity(), CAPACITY);
    let input = [1; CAPACITY + 1];
    assert_eq!(port.enqueue_raw_bytes(&input).unwrap(), CAPACITY);
    assert_eq!(port.fifo_capacity(), 0);
    assert_eq!(port.enqueue_raw_bytes(&[]).unwrap(), 0);
    let error = port.enqueue_raw_bytes(&[1]).unwrap_err();
    assert!(matches!(error, Error::FullFifo), "{error}");
    assert_eq!(error.to_string(), "No space left in FIFO");
    port.read(DATA);
    assert_eq!(port.fifo_capacity(), 1);
    assert_eq!(port.enqueue_raw_bytes(&[2, 3]).unwrap(), 1);
    assert_eq!(port.state().in_buffer.last(), Some(&2));
}

#[test]
fn a_paste_before_the_guest_has_set_up_its_port_arrives_whole() {
    let mut port = port(sink());
    let paste: Vec<u8> = (b'0'..).take(40).collect();
    assert_eq!(port.enqueue_raw_bytes(&paste).unwrap(), 40);
    // Linux's 8250 driver clears and disables the FIFOs, then enables them with a trigger level.
    for value in [0x01, 0x07, 0x00, 0x01, 0x81] {
        port.write(FCR, value).unwrap();
    }
    port.write(IER, RECEIVED).unwrap();
    assert_eq!(interrupts(&port), 1, "without a wait for the trigger level");
    let mut read = Vec::new();
    while port.read(LSR) & DATA_READY != 0 {
        read.push(port.read(DATA));
    }
    assert_eq!(read, paste);
}

#[test]
fn each_event_has_its_callback() {
    let mut space = [0; 1];
    let events = Arc::new(Events::default());
    let mut port = Serial::with_events(Interrupt::default(), events.clone(), &mut space[..]);
    assert_eq!(events.counts(), [0; 4]);
    port.read(DATA);
    assert_eq!(events.counts(), [1, 0, 0, 1]);
    port.write(DATA, 1).unwrap();
    assert_eq!(events.counts(), [1, 1, 0, 1]);
    port.write(DATA, 1).unwrap_err();
    assert_eq!(events.counts(), [1, 1, 1, 1]);
    port.enqueue_raw_bytes(&[1, 2]).unwrap();
    port.read(DATA);
    assert_eq!(port.events().counts(), [2, 1, 1, 1]);
    port.read(DATA);
    assert_eq!(port.events().counts(), [3, 1, 1, 2]);
}

#[test]
fn a_byte_that_finds_no_space_is_an_error_and_the_guest_continues() {
    let mut space = [0; 0];
    let mut port = port(&mut space[..]);
    port.write(IER, EMPTY).unwrap();
    port.read(IIR);
    interrupts(&port);
    let error = port.write(DATA, 5).unwrap_err();
    assert!(
        matches!(&error, Error::IOError(error) if error.kind() == io::ErrorKind::WriteZero),
        "{error}"
    );
    assert_eq!(interrupts(&port), 1);
    assert_eq!(port.read(IIR), IIR_EMPTY | IIR_FIFOS);
}

/// A writer that would block until it is ready, and that counts flushes.
#[derive(Default)]
struct Later {
    ready: bool,
    taken: Vec<u8>,
    flushes: usize,
}

impl Write for Later {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.ready {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.taken.extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        self.flushes += 1;
        Ok(())
    }
}

#[test]
fn the_caller_learns_of_a_byte_that_a_busy_writer_did_not_take() {
    let mut port = Serial::with_events(Interrupt::default(), Events::default(), Later::default());
    let error = port.write(DATA, b'a').unwrap_err();
    assert!(
        matches!(&error, Error::IOError(error) if error.kind() == io::ErrorKind::WouldBlock),
        "{error}"
    );
    assert_eq!(port.events().counts(), [0, 0, 1, 0]);
    port.writer_mut().ready = true;
    port.write(SCR, 0).unwrap();
    port.write(DATA, b'a').unwrap();
    assert_eq!(port.events().counts(), [0, 1, 1, 0]);
    let writer = port.into_writer();
    assert_eq!((writer.taken, writer.flushes), (b"a".to_vec(), 1));
}

#[test]
fn a_failed_trigger_is_an_error() {
    let mut port = port(Vec::new());
    port.interrupt_evt().broken.set(true);
    let error = port.write(IER, EMPTY).unwrap_err();
    assert!(matches!(error, Error::Trigger(_)), "{error}");
    assert_eq!(error.to_string(), "Failed to trigger interrupt: broken");
    let error: Box<dyn std::error::Error> = error.into();
    assert!(error.source().is_none());
}

#[test]
fn a_new_port_has_the_default_state() {
    assert_eq!(port(Vec::new()).state(), SerialState::default());
    let expected = SerialState {
        baud_divisor_low: 12,
        baud_divisor_high: 0,
        interrupt_enable: 0,
        interrupt_identification: IIR_NONE,
        line_control: 3,
        line_status: 0x60,
        modem_control: 8,
        modem_status: 0xb0,
        scratch: 0,
        in_buffer: Vec::new(),
    };
    assert_eq!(SerialState::default(), expected);
}

#[test]
fn a_state_with_too_many_bytes_is_refused() {
    let state = SerialState {
        in_buffer: vec![1; CAPACITY + 1],
        ..SerialState::default()
    };
    let port = Serial::from_state(&state, Interrupt::default(), NoEvents, sink());
    assert!(matches!(port, Err(Error::FullFifo)));
}

#[test]
fn a_restored_port_triggers_its_pending_interrupt_again() {
    for (enabled, id) in [(EMPTY, IIR_EMPTY), (RECEIVED, IIR_RECEIVED)] {
        let mut port = port(sink());
        port.write(IER, enabled).unwrap();
        port.write(DATA, b'a').unwrap();
        port.enqueue_raw_bytes(b"xyz").unwrap();
        assert_eq!(interrupts(&port), 1);
        let state = port.state();
        assert_eq!(state.interrupt_identification, id);
        let mut restored = restored(&state);
        assert_eq!(interrupts(&restored), 1);
        assert_eq!(restored.read(IER), enabled);
        assert_eq!(restored.read(IIR), id | IIR_FIFOS);
        assert_eq!(restored.state().in_buffer, b"xyz");
    }
}

#[test]
fn every_register_is_restored() {
    let mut port = port(sink());
    for (register, value) in [
        (LCR, DLAB),
        (0, 1),
        (1, 2),
        (LCR, 0x1b),
        (SCR, 0x5a),
        (MCR, 0x0b),
    ] {
        port.write(register, value).unwrap();
    }
    port.write(IER, 0x0f).unwrap();
    port.read(IIR);
    port.enqueue_raw_bytes(b"xyz").unwrap();
    let state = port.state();
    assert_eq!(restored(&state).state(), state);
    assert_eq!(state.in_buffer, b"xyz");
    assert_eq!(state.line_status, 0x61);
}

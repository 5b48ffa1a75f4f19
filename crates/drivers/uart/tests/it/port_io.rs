//! The `embedded-io` traits on the interrupt-driven port.

#![cfg(feature = "embedded-io")]

use std::cell::RefCell;

use embedded_io::{Error, ErrorKind, Read, ReadReady, Write, WriteReady};
use nostall_devices::uart::{Profile, Uart};
use nostall_devices::{Fault, Faulty};
use nostall_io::{Clock, Nanos};
use nostall_uart::LineSettings;
use nostall_uart::port::{
    Blocking, IoError, Port, PortSettings, ReceiveError, Received, SharedPort, TriggerLevel,
};

const LINE: LineSettings = LineSettings::baud(115_200);
const LONGEST: Nanos = Nanos::from_millis(5);

/// Returns settings with an interrupt at each byte, so that no timeout is needed.
fn settings() -> PortSettings {
    PortSettings {
        trigger: TriggerLevel::Byte,
        ..LINE.into()
    }
}

#[test]
fn a_write_waits_for_room_and_a_flush_for_the_last_bit() {
    let (uart, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let (mut transmit, mut receive) = ([0; 24], [Received::EMPTY; 8]);
    let port = Port::open(&uart, &clock, settings(), &mut transmit, &mut receive);
    let port = RefCell::new(port.unwrap());
    let mut io = Blocking::new(&port, &clock, LONGEST);
    let text: Vec<u8> = (0..200).collect();
    let start = clock.now();
    assert_eq!(io.write_ready(), Ok(true));
    io.write_all(&text).unwrap();
    assert!(clock.now() - start > LINE.frame_time() * 150, "it waited");
    io.flush().unwrap();
    assert_eq!(uart.with(|uart| uart.sink_mut().clone()), text);
    let took = clock.now() - start;
    assert!(
        clock.slept() > took / 10 * 9,
        "of {took}, {} slept",
        clock.slept()
    );
}

#[test]
fn a_read_returns_available_bytes_and_times_out_without_any() {
    let (uart, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let (mut transmit, mut receive) = ([0; 8], [Received::EMPTY; 32]);
    let port = Port::open(&uart, &clock, settings(), &mut transmit, &mut receive);
    let port = RefCell::new(port.unwrap());
    let mut io = Blocking::new(&port, &clock, LONGEST);
    let mut into = [0; 8];
    uart.with(|uart| b"ab".iter().for_each(|&b| uart.receive(b)));
    assert_eq!(io.read_ready(), Ok(true));
    assert_eq!(io.read(&mut into), Ok(2));
    assert_eq!(io.read_ready(), Ok(false));
    let start = clock.now();
    assert_eq!(io.read(&mut into), Err(IoError::TimedOut));
    let took = clock.now() - start;
    assert!(took >= LONGEST && took < LONGEST * 2, "{took}");
    assert_eq!(io.read(&mut []), Ok(0), "an empty read does not wait");
}

#[test]
fn an_error_is_reported_once_after_the_data_before_it() {
    let (uart, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let (mut transmit, mut receive) = ([0; 8], [Received::EMPTY; 4]);
    let port = Port::open(&uart, &clock, settings(), &mut transmit, &mut receive);
    let port = RefCell::new(port.unwrap());
    let mut io = Blocking::new(&port, &clock, LONGEST);
    let mut into = [0; 8];
    uart.with(|uart| b"abcdef".iter().for_each(|&b| uart.receive(b)));
    port.borrow_mut().on_interrupt();
    assert_eq!((io.read(&mut into), &into[..4]), (Ok(4), &b"abcd"[..]));
    let lost = IoError::Receive(ReceiveError::Overrun);
    assert_eq!(io.read(&mut into), Err(lost));
    assert_eq!(io.read(&mut into), Err(IoError::TimedOut));
}

#[test]
fn every_error_has_its_kind() {
    let of = |error| IoError::Receive(error).kind();
    assert_eq!(of(ReceiveError::Parity(1)), ErrorKind::InvalidData);
    assert_eq!(of(ReceiveError::Framing(1)), ErrorKind::InvalidData);
    assert_eq!(of(ReceiveError::Overrun), ErrorKind::Other);
    assert_eq!(of(ReceiveError::Break), ErrorKind::Other);
    assert_eq!(IoError::TimedOut.kind(), ErrorKind::TimedOut);
    assert_eq!(IoError::Gone.kind(), ErrorKind::NotConnected);
}

#[test]
fn a_write_to_a_stopped_line_times_out_also_without_a_ring() {
    let (uart, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let window = Faulty::after(u64::MAX, Fault::StuckStatus, &uart);
    let mut transmit = [0; 8];
    let port = Port::open(&window, &clock, settings(), &mut transmit, &mut []);
    let port = RefCell::new(port.unwrap());
    window.recover_for(0);
    let mut io = Blocking::new(&port, &clock, LONGEST);
    assert_eq!(io.write(&[b'x'; 20]), Ok(8));
    assert_eq!(io.write(b"y"), Err(IoError::TimedOut));
    assert_eq!(io.flush(), Err(IoError::TimedOut));
    assert!(clock.now() < Nanos::from_millis(60), "{}", clock.now());

    let port = Port::open(&uart, &clock, settings(), &mut [], &mut []);
    let port = RefCell::new(port.unwrap());
    let mut io = Blocking::new(&port, &clock, LONGEST);
    assert_eq!(io.write(b"y"), Err(IoError::TimedOut));
}

#[test]
fn a_port_that_is_gone_is_an_error_at_once() {
    let (uart, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let window = Faulty::after(u64::MAX, Fault::AllOnes, &uart);
    let (mut transmit, mut receive) = ([0; 8], [Received::EMPTY; 8]);
    let port = Port::open(&window, &clock, settings(), &mut transmit, &mut receive);
    let port = RefCell::new(port.unwrap());
    window.recover_for(0);
    let mut io = Blocking::new(&port, &clock, LONGEST);
    let start = clock.now();
    assert_eq!(io.read(&mut [0; 8]), Err(IoError::Gone));
    assert_eq!(io.write_all(&[b'x'; 20]), Err(IoError::Gone));
    assert_eq!(io.flush(), Err(IoError::Gone));
    assert!(clock.now() - start < Nanos::from_millis(1));
}

#[test]
fn bytes_received_before_the_port_vanished_are_read_first() {
    let (uart, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let window = Faulty::after(u64::MAX, Fault::AllOnes, &uart);
    let (mut transmit, mut receive) = ([0; 8], [Received::EMPTY; 8]);
    let port = Port::open(&window, &clock, settings(), &mut transmit, &mut receive);
    let port = RefCell::new(port.unwrap());
    uart.with(|uart| uart.receive(b'a'));
    // The reads of the cause, the line status, the byte, and the line status succeed. Then the port
    // vanishes.
    window.recover_for(4);
    let mut io = Blocking::new(&port, &clock, LONGEST);
    let mut into = [0; 8];
    assert_eq!((io.read(&mut into), into[0]), (Ok(1), b'a'));
    assert_eq!(io.read(&mut into), Err(IoError::Gone));
}

#[test]
fn a_users_own_lock_also_shares_the_port() {
    struct Locked<P>(std::sync::Mutex<P>);

    impl<R: nostall_io::Registers> SharedPort for Locked<Port<'_, R>> {
        type Registers = R;

        fn with<T>(&self, act: impl FnOnce(&mut Port<'_, R>) -> T) -> T {
            act(&mut self.0.lock().unwrap())
        }
    }

    let (uart, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
    let (mut transmit, mut receive) = ([0; 8], [Received::EMPTY; 8]);
    let port = Port::open(&uart, &clock, settings(), &mut transmit, &mut receive);
    let port = Locked(std::sync::Mutex::new(port.unwrap()));
    let mut io = Blocking::new(&port, &clock, LONGEST);
    write!(io, "{} bytes", 80).unwrap();
    io.flush().unwrap();
    assert_eq!(uart.with(|uart| uart.sink_mut().clone()), b"80 bytes");
}

#[cfg(feature = "embedded-io-async")]
mod asynchronous {
    use super::*;
    use embedded_io_async::{Read, Write};
    use nostall_uart::port::Async;
    use std::future::Future;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Runs an executor with one task, and polls the task only after a wake-up. Also returns the
    /// number of polls.
    fn run<T>(task: impl Future<Output = T>, mut meanwhile: impl FnMut()) -> (T, usize) {
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let mut task = pin!(task);
        let mut seen = usize::MAX;
        for _ in 0..10_000 {
            let woken = wakes.0.load(Ordering::Relaxed);
            if seen != woken {
                seen = woken;
                if let Poll::Ready(result) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return (result, seen);
                }
            }
            meanwhile();
        }
        panic!("the task was never woken");
    }

    #[test]
    fn the_handler_wakes_a_writer_when_there_is_room() {
        let (uart, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
        let (mut transmit, mut receive) = ([0; 16], [Received::EMPTY; 8]);
        let port = Port::open(&uart, &clock, settings(), &mut transmit, &mut receive);
        let port = RefCell::new(port.unwrap());
        let interrupt = || {
            clock.advance(Nanos::from_micros(10));
            port.borrow_mut().on_interrupt();
        };
        let mut io = Async::new(&port);
        let text: Vec<u8> = (0..160).collect();
        let (written, wakes) = run(io.write_all(&text), interrupt);
        assert_eq!(written, Ok(()));
        assert!(wakes <= 10, "{wakes}");
        assert_eq!(run(io.flush(), interrupt).0, Ok(()));
        assert_eq!(uart.with(|uart| uart.sink_mut().clone()), text);
    }

    #[test]
    fn the_handler_wakes_a_reader_when_a_byte_has_arrived() {
        let (uart, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
        let (mut transmit, mut receive) = ([0; 16], [Received::EMPTY; 2]);
        let port = Port::open(&uart, &clock, settings(), &mut transmit, &mut receive);
        let port = RefCell::new(port.unwrap());
        let mut into = [0; 8];
        let mut io = Async::new(&port);
        let mut steps = 0;
        let (read, wakes) = run(io.read(&mut into), || {
            steps += 1;
            if steps == 5 {
                uart.with(|uart| (1..=3).for_each(|b| uart.receive(b)));
            }
            port.borrow_mut().on_interrupt();
        });
        assert_eq!((read, wakes), (Ok(2), 1));
        let lost = IoError::Receive(ReceiveError::Overrun);
        assert_eq!(run(io.read(&mut into), || ()).0, Err(lost));
    }

    #[test]
    fn a_wait_for_a_port_that_is_gone_ends_with_an_error() {
        let (uart, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
        let window = Faulty::after(u64::MAX, Fault::AllOnes, &uart);
        let (mut transmit, mut receive) = ([0; 16], [Received::EMPTY; 8]);
        let port = Port::open(&window, &clock, settings(), &mut transmit, &mut receive);
        let port = RefCell::new(port.unwrap());
        let mut io = Async::new(&port);
        let (read, _) = run(io.read(&mut [0; 8]), || {
            window.recover_for(0);
            port.borrow_mut().on_interrupt();
        });
        assert_eq!(read, Err(IoError::Gone));
    }
}

//! The serial port as a sink, shared with direct writers and a panic.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{Advancing, At, META, P, of};
use nostall_console::{
    Caller, Drain, FlushLimits, Next, Priority, Ring, Sink, SinkOptions, Slot, UartSink,
};
use nostall_console::{Offered, flush};
use nostall_devices::VirtualClock;
use nostall_devices::uart::{Profile, Uart, VirtualPort};
use nostall_io::{Clock, Nanos};
use nostall_uart::{Console, ConsoleSettings, LineSettings, Model};

type Sent = VirtualPort<Vec<u8>>;

fn port() -> (Sent, VirtualClock) {
    Uart::in_virtual_time(Profile::VM, Vec::new())
}

fn sink<'p>(port: &'p Sent, clock: &'p VirtualClock) -> UartSink<&'p Sent, &'p VirtualClock> {
    let settings = ConsoleSettings {
        model: Some(Model::Uart16550A),
        ..ConsoleSettings::from(LineSettings::baud(115_200))
    };
    UartSink::new(Console::open(port, clock, settings).unwrap())
}

#[test]
fn a_slice_leaves_the_port_to_a_direct_writer_and_retries_after_1_ms() {
    let (port, clock) = port();
    let ring = Ring::<[Slot; 16]>::new();
    let drain = Drain::new(&ring, sink(&port, &clock), SinkOptions::DEFAULT);
    ring.log(&META, b"logged");
    let next = drain.sink().with(Caller::Normal, |console| {
        let _ = console.write(b"written ");
        let next = drain.drain_bounded(0, Priority::Normal, &At(0));
        let _ = console.write(b"directly\n");
        next
    });
    assert_eq!(next, Some(Next::At(Nanos::from_millis(1))));
    while let Some(time) = drain.drain_bounded(0, Priority::Normal, &clock).time() {
        clock.sleep_until(time);
    }
    let sent = String::from_utf8(port.into_sink()).unwrap();
    assert_eq!(sent, format!("written directly\r\n{P}logged\r\n"));
}

#[test]
fn a_panic_that_interrupts_a_direct_writer_sends_with_the_spare_driver() {
    let (port, clock) = port();
    let ring = Ring::<[Slot; 16]>::new();
    let drain = Drain::new(&ring, sink(&port, &clock), SinkOptions::DEFAULT);
    let flushed = drain.sink().with(Caller::Normal, |_| {
        ring.log(&of(Priority::Panic), b"the end");
        flush(&[&drain], 0, &Advancing(&clock), FlushLimits::DEFAULT)
    });
    assert_eq!(flushed.map(|flushed| flushed.complete), Some(1));
    let sent = String::from_utf8(port.into_sink()).unwrap();
    assert_eq!(sent, format!("{P}the end\r\n"));
}

#[test]
fn a_panic_beyond_the_spare_drivers_cannot_use_the_port() {
    let (port, clock) = port();
    let sink = sink(&port, &clock);
    let gone = Offered::GONE;
    let nested = sink.with(Caller::Panic, |_| {
        sink.with(Caller::Panic, |_| {
            sink.with(Caller::Panic, |_| {
                (sink.offer(b"x", Caller::Panic), sink.insist(b"x"))
            })
        })
    });
    assert_eq!(nested.flatten().flatten(), Some((gone, gone)));
    sink.finish();
    assert_eq!(sink.offers(), 2);
}

#[test]
fn no_record_is_rendered_for_the_byte_that_a_carriage_return_takes() {
    static RENDERED: AtomicUsize = AtomicUsize::new(0);
    let (port, clock) = port();
    let ring = Ring::<[Slot; 16]>::new();
    let options = SinkOptions::DEFAULT.prefix(|_, _| {
        RENDERED.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let drain = Drain::new(&ring, sink(&port, &clock), options);
    for _ in 0..10 {
        // The line fills a FIFO, with its line feed and carriage return.
        ring.log(&META, b"fourteen bytes");
    }
    while let Some(time) = drain.drain_bounded(0, Priority::Normal, &clock).time() {
        clock.sleep_until(time);
    }
    assert_eq!(RENDERED.load(Ordering::Relaxed), 10);
    assert_eq!(drain.sink().offers(), 10);
    assert_eq!(port.into_sink(), b"fourteen bytes\r\n".repeat(10));
}

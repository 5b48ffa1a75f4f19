//! Stalls of a panic's flush, compared with the time for which the model's CPU is occupied.

use crate::common::{CLOCK_READ, Line, META, of};
use std::cell::Cell;

use nostall_console::{
    Caller, Drain, FlushLimits, Offered, Priority, Ring, Sink, SinkOptions, Slot, UartSink, flush,
};
use nostall_devices::uart::{Profile, Uart};
use nostall_devices::{Stalls, VirtualClock};
use nostall_io::{Clock, Counter, Nanos, StallCondition};
use nostall_uart::{Console, LineSettings};

/// A virtual clock that advances only on reads, because a panic does not wait on it.
struct Read(VirtualClock);

impl Clock for Read {
    fn now(&self) -> Nanos {
        self.0.advance(CLOCK_READ);
        self.0.now()
    }
}

/// A serial port that counts its offers, and the offers in which it took bytes.
struct Offers<S> {
    port: S,
    offers: Cell<u64>,
    loads: Cell<u64>,
}

impl<S: Sink> Sink for Offers<S> {
    fn offer(&self, text: &[u8], caller: Caller) -> Offered {
        let offered = self.port.offer(text, caller);
        self.offers.set(self.offers.get() + 1);
        self.loads
            .set(self.loads.get() + u64::from(offered.taken > 0));
        offered
    }
    fn finish(&self) {
        self.port.finish();
    }
}

/// A port whose registers take no time.
const FREE: Profile = Profile {
    access: Nanos::ZERO,
    ..Profile::PC_16550A
};

#[test]
fn a_panic_flush_reports_the_time_for_which_it_waits_for_a_line() {
    let (port, clock) = Uart::in_virtual_time(FREE, Vec::new());
    let console = Console::open(&port, clock.clone(), LineSettings::baud(115_200)).unwrap();
    let ring = Ring::<[Slot; 64]>::new();
    let sink = Offers {
        port: UartSink::new(console),
        offers: Cell::new(0),
        loads: Cell::new(0),
    };
    let drain = Drain::new(&ring, sink, SinkOptions::DEFAULT);
    for _ in 0..3 {
        ring.log(&META, &[b'x'; 200]);
    }
    ring.log(&of(Priority::Panic), b"panic");
    let start = clock.now();
    let (flushed, stalls) = Stalls::during(&clock, || {
        flush(&[&drain], 0, &Read(clock.clone()), FlushLimits::DEFAULT)
    });
    assert_eq!(flushed.complete, 1);
    let (last, naps) = stalls.stalls.split_last().unwrap();
    // The driver itself waits for the last bit.
    assert_eq!(last.0, StallCondition::Transmitter);
    assert!(naps.iter().all(|nap| nap.0 == StallCondition::PanicFlush));
    let sink = drain.sink();
    // The clock is read 3 times at the start and the end, 2 times at each offer, and 2 times at each
    // nap. An offer that took bytes reads it once more.
    let reads = 3 + 2 * sink.offers.get() + sink.loads.get() + 2 * naps.len() as u64;
    assert_eq!(stalls.sum() + CLOCK_READ * reads, clock.now() - start);
    let bytes = port.with(|uart| uart.sink_mut().len());
    assert_eq!(stalls.counted(Counter::UartBytes), bytes as u64);
    assert_eq!(stalls.counted(Counter::ConsoleBytes), drain.bytes());
}

/// A sink whose owner dies in its first offer. Another CPU panics meanwhile.
struct Dies<'a> {
    line: Line,
    drain: Cell<Option<&'a Drain<'a, Self>>>,
    panic: &'a dyn Fn(&Drain<'_, Self>),
}

impl Sink for Dies<'_> {
    fn offer(&self, text: &[u8], caller: Caller) -> Offered {
        if let Some(drain) = self.drain.take() {
            (self.panic)(drain);
        }
        self.line.offer(text, caller)
    }
}

#[test]
fn a_panic_that_waits_for_a_sinks_owner_reports_one_stall() {
    let ring = Ring::<[Slot; 64]>::new();
    let clock = VirtualClock::new();
    let panic = |drain: &Drain<'_, Dies<'_>>| {
        ring.log(&of(Priority::Panic), b"panic");
        let start = clock.now();
        let (flushed, stalls) = Stalls::during(&clock, || {
            flush(&[drain], 1, &Read(clock.clone()), FlushLimits::DEFAULT)
        });
        assert_eq!(flushed.seized, 1);
        let owner = stalls.stalls[0];
        assert_eq!(owner.0, StallCondition::SinkOwner);
        // From the first poll of the owner to the last: all reads but two at the start.
        assert!(
            owner.1 >= FlushLimits::DEFAULT.owner - CLOCK_READ * 2,
            "{}",
            owner.1
        );
        assert!(owner.1 <= clock.now() - start);
        assert_eq!(stalls.stalls.len(), 1);
    };
    let dies = Dies {
        line: Line::new(100),
        drain: Cell::new(None),
        panic: &panic,
    };
    let drain = Drain::new(&ring, dies, SinkOptions::DEFAULT);
    drain.sink().drain.set(Some(&drain));
    ring.log(&META, b"line");
    let _ = drain.drain_bounded(0, Priority::Normal, &clock);
    assert!(drain.sink().drain.take().is_none());
}

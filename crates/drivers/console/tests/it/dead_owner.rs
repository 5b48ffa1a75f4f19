//! The delay of an oops or a panic after an owner crashed with the sink and its lock.

use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use std::rc::Rc;

use crate::common::{Advancing, META, of};
use nostall_console::{
    Caller, Drain, FlushLimits, Next, Offered, Priority, Ring, Sink, SinkOptions, Slot, UartSink,
    flush,
};
use nostall_devices::VirtualClock;
use nostall_devices::uart::{Profile, Uart, VirtualPort};
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::{Console, LineSettings, Strategy};

/// Lines of a kernel's oops.
const LINES: usize = 50;

/// A clock that panics on a wait or a sleep while `locked`. Then interrupts are masked and the
/// port's lock is held. A panic polls the port itself, in steps of a microsecond.
#[derive(Clone)]
struct Strict<'a> {
    time: &'a VirtualClock,
    locked: &'a Cell<bool>,
    longest_wait: &'a Cell<Nanos>,
}

impl Clock for Strict<'_> {
    fn now(&self) -> Nanos {
        self.time.now()
    }
    fn wait_until(&self, deadline: Nanos) {
        let wait = deadline - self.time.now();
        assert!(!self.locked.get(), "waits for {wait} in a slice");
        self.longest_wait.set(self.longest_wait.get().max(wait));
        self.time.wait_until(deadline);
    }
    fn sleep_until(&self, _: Nanos) {
        panic!("sleeps with interrupts masked and a lock held");
    }
}

type Then<'a, S> = (&'a Drain<'a, S>, &'a dyn Fn(&Drain<'_, S>));

/// A serial port with an owner that dies in its first offer.
struct Serial<'a, R, C> {
    port: UartSink<R, C>,
    locked: &'a Cell<bool>,
    /// The actions of other CPUs after the death of the first owner.
    then: Cell<Option<Then<'a, Self>>>,
}

impl<R: Registers, C: Clock> Sink for Serial<'_, R, C> {
    fn offer(&self, text: &[u8], caller: Caller) -> Offered {
        if let Some((drain, then)) = self.then.take() {
            self.port.with(caller, |_| then(drain));
            return Offered::GONE;
        }
        self.locked.set(true);
        let offered = self.port.offer(text, caller);
        self.locked.set(false);
        offered
    }
    fn finish(&self) {
        self.port.finish();
    }
}

/// The bytes that arrived, shared by the test and the port.
#[derive(Clone, Default)]
struct Wire(Rc<RefCell<Vec<u8>>>);

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

type OnModel<'a> = Serial<'a, &'a VirtualPort<Wire>, Strict<'a>>;

/// Lets CPU 0 die in an offer with the port's lock held, then runs `then` on other CPUs. Returns
/// the bytes that arrived, and the duration of `then`.
fn over_the_dead(
    profile: Profile,
    then: impl Fn(&Drain<'_, dyn Sink + '_>, &VirtualClock, &Ring),
) -> (String, Nanos) {
    let wire = Wire::default();
    let (port, clock) = Uart::in_virtual_time(profile, wire.clone());
    let (locked, longest_wait) = (Cell::new(false), Cell::new(Nanos::ZERO));
    let strict = Strict {
        time: &clock,
        locked: &locked,
        longest_wait: &longest_wait,
    };
    let mut console = Console::open(&port, strict, LineSettings::baud(115_200)).unwrap();
    // This strategy sleeps.
    console.set_strategy(Strategy::FifoPaced);
    let ring = Ring::<[Slot; 256]>::new();
    let took = Cell::new(Nanos::ZERO);
    let others = |drain: &Drain<'_, OnModel<'_>>| {
        longest_wait.set(Nanos::ZERO);
        let start = clock.now();
        then(drain, &clock, &ring);
        took.set(clock.now() - start);
    };
    let sink = Serial {
        port: UartSink::new(console),
        locked: &locked,
        then: Cell::new(None),
    };
    let drain = Drain::new(&ring, sink, SinkOptions::DEFAULT);
    drain.sink().then.set(Some((&drain, &others)));
    ring.log(&META, b"backlog");
    let _ = drain.drain_bounded(0, Priority::Normal, &clock);
    assert!(
        longest_wait.get() <= Nanos::from_micros(1),
        "{longest_wait:?}"
    );
    let text = wire.0.borrow().clone();
    (String::from_utf8(text).unwrap(), took.get())
}

#[test]
#[cfg_attr(miri, ignore = "a port in virtual time")]
fn a_panic_of_50_calls_waits_once_for_an_owner_that_died() {
    for profile in [Profile::VM, Profile::PC_16550A] {
        let calls = |count: usize| {
            over_the_dead(profile, |drain, clock, ring| {
                for n in 0..count {
                    ring.format(&of(Priority::Panic), format_args!("line {n} of an oops"));
                    let flushed = flush(&[drain], 1, &Advancing(clock), FlushLimits::DEFAULT);
                    assert_eq!(flushed.complete, 1);
                    assert_eq!(flushed.seized, usize::from(n == 0));
                }
            })
        };
        let (text, took) = calls(LINES);
        assert_eq!(text.matches(" of an oops\r\n").count(), LINES, "{text}");
        // The wait for the dead owner counts once. Each call also waits for its last bit, so the
        // transmission time is added.
        let line = Nanos(86_806) * (text.len() + 2 * LINES) as u64;
        let bound = Nanos::from_millis(2) + line * 11 / 10;
        assert!(took <= bound, "{took}, not {bound}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "a port in virtual time")]
fn an_oops_of_50_lines_does_not_wait_for_an_owner_that_died() {
    let (_, took) = over_the_dead(Profile::PC_16550A, |drain, clock, ring| {
        for n in 0..LINES {
            ring.format(
                &of(Priority::Emergency),
                format_args!("line {n} of an oops"),
            );
            let next = drain.drain_bounded(1, Priority::Emergency, clock);
            let late = clock.now() + Nanos::from_millis(10);
            assert_eq!(next, Next::Busy(late));
        }
    });
    assert_eq!(took, Nanos::ZERO);
}

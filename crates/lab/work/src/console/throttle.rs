//! A fast port that behaves like a slower one.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use nostall_devices::uart::{Buffer, Line, Profile};
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::registers::{LCR, LSR, THR, lcr, lsr};

/// FIFO depth of a 16550A in bytes.
const FIFO: usize = 16;

/// A virtual 16550A, which accepts all bytes at once, with the timing of a [`Profile`].
///
/// The line status shows a transmitter with a FIFO of 16 bytes that empties at the profile's rate.
/// An access takes as long as in the profile. Bytes are passed to the port at once, in order.
///
/// It takes no lock: only the console's owner sends, until a panic stops the owner.
#[derive(Debug)]
pub struct Throttle<'t, R, C> {
    port: R,
    clock: C,
    profile: Profile,
    /// Duration of a frame at the configured rate.
    frame: Nanos,
    accesses: AtomicU64,
    divisor_latch: AtomicBool,
    /// Times at which the last bytes leave the FIFO.
    leaves: [AtomicU64; FIFO],
    /// Time at which the last sent byte leaves the FIFO, and time at which it arrives.
    empty_at: AtomicU64,
    free_at: AtomicU64,
    /// State of a controller's [`Buffer`]: its level, and the time at which the next byte leaves.
    level: AtomicUsize,
    leaves_at: AtomicU64,
    sent: AtomicU32,
    overrun: AtomicU32,
    /// Arrival time of each byte at the end of the line, in microseconds.
    arrivals: &'t [AtomicU32],
}

impl<'t, R: Registers, C: Clock> Throttle<'t, R, C> {
    /// Creates a throttle for `port`, with frames of duration `frame`. It records as many arrival
    /// times as `arrivals` has entries.
    pub const fn new(
        port: R,
        clock: C,
        profile: Profile,
        frame: Nanos,
        arrivals: &'t [AtomicU32],
    ) -> Self {
        Self {
            port,
            clock,
            profile,
            frame,
            accesses: AtomicU64::new(0),
            divisor_latch: AtomicBool::new(false),
            leaves: [const { AtomicU64::new(0) }; FIFO],
            empty_at: AtomicU64::new(0),
            free_at: AtomicU64::new(0),
            level: AtomicUsize::new(0),
            leaves_at: AtomicU64::new(0),
            sent: AtomicU32::new(0),
            overrun: AtomicU32::new(0),
            arrivals,
        }
    }

    /// Returns the time at which all sent bytes have arrived.
    pub fn free_at(&self) -> Nanos {
        Nanos(self.free_at.load(Relaxed))
    }

    /// Returns the arrival times so far, in microseconds of the clock.
    pub fn arrivals(&self) -> impl Iterator<Item = u32> + '_ {
        let sent = self.sent.load(Relaxed) as usize;
        self.arrivals.iter().take(sent).map(|at| at.load(Relaxed))
    }

    /// Returns the number of bytes that were written to a full FIFO.
    pub fn overrun(&self) -> u32 {
        self.overrun.load(Relaxed)
    }

    fn access<T>(&self, access: impl FnOnce(Nanos) -> T) -> T {
        let from = self.clock.now();
        let result = access(from);
        let count = self.accesses.fetch_add(1, Relaxed) + 1;
        self.clock
            .wait_until(from + self.profile.access_time(count));
        result
    }

    fn send(&self, byte: u8, now: Nanos) {
        let at = self.sent.load(Relaxed) as usize;
        // The byte whose FIFO slot this byte takes.
        let place = &self.leaves[at % FIFO];
        if Nanos(place.load(Relaxed)) > now {
            self.overrun.fetch_add(1, Relaxed);
            return;
        }
        let (leaves, arrives) = match self.profile.line {
            Line::AtOnce => (now, now),
            // The byte leaves the FIFO when the previous byte has left the shift register.
            Line::Baud => {
                let leaves = self.free_at().max(now);
                (leaves, leaves + self.frame)
            }
            Line::Controller(by) => {
                let before = Nanos(self.empty_at.load(Relaxed));
                let begins = if before > now {
                    before
                } else {
                    now + by.latency
                };
                let mut buffer = Buffer {
                    level: self.level.load(Relaxed),
                    leaves_at: Nanos(self.leaves_at.load(Relaxed)),
                };
                let taken = buffer.room_at(by, begins + by.per_byte);
                buffer.take(by, taken);
                self.level.store(buffer.level, Relaxed);
                self.leaves_at.store(buffer.leaves_at.0, Relaxed);
                (taken, taken)
            }
        };
        if let Some(arrival) = self.arrivals.get(at) {
            arrival.store((arrives.0 / 1_000) as u32, Relaxed);
        }
        place.store(leaves.0, Relaxed);
        self.empty_at.store(leaves.0, Relaxed);
        self.free_at.store(arrives.0, Relaxed);
        self.sent.fetch_add(1, Relaxed);
        self.port.write8(THR, byte);
    }

    /// Returns the line status of the imitated port, based on the real port's status.
    fn status(&self, says: u8, now: Nanos) -> u8 {
        let mut status = says;
        if self.free_at() > now {
            status &= !lsr::TEMT;
        }
        if Nanos(self.empty_at.load(Relaxed)) > now {
            status &= !lsr::THRE;
        }
        status
    }
}

impl<R: Registers, C: Clock> Registers for Throttle<'_, R, C> {
    fn read8(&self, offset: usize) -> u8 {
        self.access(|now| match offset {
            LSR => self.status(self.port.read8(LSR), now),
            _ => self.port.read8(offset),
        })
    }

    fn write8(&self, offset: usize, value: u8) {
        self.access(|now| {
            if offset == THR && !self.divisor_latch.load(Relaxed) {
                return self.send(value, now);
            }
            if offset == LCR {
                self.divisor_latch.store(value & lcr::DLAB != 0, Relaxed);
            }
            self.port.write8(offset, value);
        });
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use nostall_devices::uart::Uart;
    use nostall_uart::{Console, ConsoleSettings, LineSettings, Model, Strategy};
    use std::vec::Vec;

    const FRAME: Nanos = Nanos(86_806);

    /// Returns the received bytes, their arrival times, and the time at which the writer was done.
    fn write(strategy: Strategy, text: &[u8]) -> (Vec<u8>, Vec<u32>, Nanos) {
        let arrivals: Vec<_> = (0..1_000).map(|_| AtomicU32::new(0)).collect();
        let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
        let throttle = Throttle::new(&port, &clock, Profile::PC_16550A, FRAME, &arrivals);
        let settings = ConsoleSettings {
            model: Some(Model::Uart16550A),
            ..ConsoleSettings::from(LineSettings::baud(115_200))
        };
        let mut console = Console::open(&throttle, &clock, settings).unwrap();
        console.set_strategy(strategy);
        let _ = console.write(text);
        let _ = console.flush();
        let took = clock.now();
        assert_eq!(throttle.overrun(), 0);
        let times = throttle.arrivals().collect();
        (port.into_sink(), times, took)
    }

    #[test]
    fn every_byte_arrives_and_none_sooner_than_the_line_can_send_it() {
        let text = [b'x'; 500];
        for strategy in [
            Strategy::BytePolled,
            Strategy::FifoPolled,
            Strategy::FifoBurst,
        ] {
            let (arrived, times, took) = write(strategy, &text);
            assert_eq!(arrived, text);
            assert_eq!(times.len(), text.len());
            assert!(
                times.windows(2).all(|two| two[1] - two[0] >= 86),
                "{strategy}"
            );
            assert!(took >= FRAME * 500, "{strategy}: {took}");
            assert!(took <= FRAME * 600, "{strategy}: {took}");
        }
    }

    #[test]
    fn bytes_without_room_are_counted_and_do_not_arrive() {
        let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
        let throttle = Throttle::new(&port, &clock, Profile::PC_16550A, FRAME, &[]);
        (0..40).for_each(|_| throttle.write8(THR, b'x'));
        let overrun = throttle.overrun() as usize;
        assert!((21..=23).contains(&overrun), "{overrun}");
        assert_eq!(port.into_sink().len(), 40 - overrun);
    }

    /// Compares a writer on the model of a slow port with one on a throttled fast port.
    #[test]
    fn a_throttled_port_is_as_slow_as_the_model_of_the_imitated_port() {
        let text = [b'x'; 4_000];
        let profile = Profile::HP_DL380_GEN9;
        // The port's own accesses take time too, and must not be added.
        let free = Profile {
            access: Nanos::ZERO,
            ..Profile::VM
        };
        for strategy in [
            Strategy::BytePolled,
            Strategy::FifoPolled,
            Strategy::FifoBurst,
        ] {
            let settings = ConsoleSettings {
                model: Some(Model::Uart16550A),
                ..ConsoleSettings::from(LineSettings::baud(115_200))
            };
            let (port, clock) = Uart::in_virtual_time(profile, Vec::new());
            let mut console = Console::open(&port, &clock, settings).unwrap();
            console.set_strategy(strategy);
            let _ = console.write(&text);
            let meant = clock.now();

            let (port, clock) = Uart::in_virtual_time(free, Vec::new());
            let throttle = Throttle::new(&port, &clock, profile, FRAME, &[]);
            let mut console = Console::open(&throttle, &clock, settings).unwrap();
            console.set_strategy(strategy);
            let _ = console.write(&text);
            let took = clock.now();
            assert_eq!(throttle.overrun(), 0);
            assert_eq!(port.into_sink(), text);
            // The difference is about one access: both FIFOs are full at slightly different times.
            let off = took.0.abs_diff(meant.0);
            assert!(off < 30_000, "{strategy}: {took}, where {meant} is meant");
        }
    }
}

//! A port that is faster than the one that is meant.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::registers::{LCR, LSR, THR, lcr, lsr};

/// Of a 16550A.
const FIFO: u64 = 16;

/// How slow it is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// What an access takes, at least.
    pub access: Nanos,
    /// What a frame takes on the line.
    pub frame: Nanos,
}

/// Makes a virtual 16550A, which takes all bytes at once, behave like one on a line, by
/// the clock: the line status tells of a transmitter that sends a frame after the other,
/// from a FIFO of 16 bytes, and an access takes as long as on the bus that is meant.
/// Bytes go on to the port at once, in their order.
///
/// It takes no lock: whoever has the console is the only one who sends, until a panic
/// stops him.
#[derive(Debug)]
pub struct Throttle<'t, R, C> {
    port: R,
    clock: C,
    pace: Pace,
    divisor_latch: AtomicBool,
    /// When all that was sent has left.
    free_at: AtomicU64,
    sent: AtomicU32,
    overrun: AtomicU32,
    /// When each byte arrives at the line's end, in microseconds.
    arrivals: &'t [AtomicU32],
}

impl<'t, R: Registers, C: Clock> Throttle<'t, R, C> {
    /// In front of `port`. When bytes arrive is kept for as many as `arrivals` has
    /// room for.
    pub const fn new(port: R, clock: C, pace: Pace, arrivals: &'t [AtomicU32]) -> Self {
        Self {
            port,
            clock,
            pace,
            divisor_latch: AtomicBool::new(false),
            free_at: AtomicU64::new(0),
            sent: AtomicU32::new(0),
            overrun: AtomicU32::new(0),
            arrivals,
        }
    }

    /// When all that was sent has arrived.
    pub fn free_at(&self) -> Nanos {
        Nanos(self.free_at.load(Relaxed))
    }

    /// When each byte arrived so far, in microseconds of the clock.
    pub fn arrivals(&self) -> impl Iterator<Item = u32> + '_ {
        let sent = self.sent.load(Relaxed) as usize;
        self.arrivals.iter().take(sent).map(|at| at.load(Relaxed))
    }

    /// Bytes that found no room.
    pub fn overrun(&self) -> u32 {
        self.overrun.load(Relaxed)
    }

    fn access<T>(&self, access: impl FnOnce(Nanos) -> T) -> T {
        let from = self.clock.now();
        let result = access(from);
        self.clock.wait_until(from + self.pace.access);
        result
    }

    fn send(&self, byte: u8, now: Nanos) {
        let free_at = self.free_at().max(now);
        // One is in the shift register, and the others wait.
        if free_at - now > self.pace.frame * (FIFO + 1) {
            self.overrun.fetch_add(1, Relaxed);
            return;
        }
        let arrives = free_at + self.pace.frame;
        let at = self.sent.fetch_add(1, Relaxed) as usize;
        if let Some(arrival) = self.arrivals.get(at) {
            arrival.store((arrives.0 / 1_000) as u32, Relaxed);
        }
        self.free_at.store(arrives.0, Relaxed);
        self.port.write8(THR, byte);
    }

    /// What is true of the port meant, of what the port says.
    fn status(&self, says: u8, now: Nanos) -> u8 {
        let left = self.free_at().max(now) - now;
        let mut status = says;
        if left > Nanos::ZERO {
            status &= !lsr::TEMT;
        }
        // The last byte is not yet in the shift register.
        if left > self.pace.frame {
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
    use nostall_devices::uart::{Profile, Uart};
    use nostall_uart::{Console, LineSettings, Model, Settings, Strategy};
    use std::vec::Vec;

    const PACE: Pace = Pace {
        access: Nanos(1_700),
        frame: Nanos(86_806),
    };

    /// What arrives, when each byte does, and when the writer was through.
    fn write(strategy: Strategy, text: &[u8]) -> (Vec<u8>, Vec<u32>, Nanos) {
        let arrivals: Vec<_> = (0..1_000).map(|_| AtomicU32::new(0)).collect();
        let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
        let throttle = Throttle::new(&port, &clock, PACE, &arrivals);
        let settings = Settings {
            model: Some(Model::Uart16550A),
            ..Settings::from(LineSettings::baud(115_200))
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
    fn every_byte_arrives_and_none_sooner_than_the_line_can_take_it() {
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
            assert!(took >= PACE.frame * 500, "{strategy}: {took}");
            assert!(took <= PACE.frame * 600, "{strategy}: {took}");
        }
    }

    #[test]
    fn what_finds_no_room_is_counted_and_does_not_arrive() {
        let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
        let throttle = Throttle::new(&port, &clock, PACE, &[]);
        (0..40).for_each(|_| throttle.write8(THR, b'x'));
        let overrun = throttle.overrun() as usize;
        assert!((21..=23).contains(&overrun), "{overrun}");
        assert_eq!(port.into_sink().len(), 40 - overrun);
    }
}

//! The serial port shared by all CPUs.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use nostall_devices::uart::{Profile, Uart};
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::registers::{LSR, lsr};

use super::cpus::ModelMachine;
use super::polls::Polls;

/// The serial port as seen by the running CPU.
#[derive(Debug)]
pub struct ModelPort<'m> {
    machine: &'m ModelMachine,
    profile: Profile,
    /// Number of accesses until the next slow one.
    until_slow: AtomicU64,
    uart: Mutex<Uart<Time, LineOutput>>,
    time: Time,
    /// Cached line status, valid until `status_until`. Polls usually read only this value.
    status: AtomicU8,
    status_until: AtomicU64,
    polls: Polls,
}

/// The port's own clock: the time of its last access or later event.
#[derive(Clone, Debug, Default)]
struct Time(Arc<AtomicU64>);

impl Clock for Time {
    fn now(&self) -> Nanos {
        Nanos(self.0.load(Relaxed))
    }
}

/// Bytes at the other end of the line, with their arrival times.
#[derive(Clone, Default)]
pub struct LineOutput {
    /// Bytes in order of arrival.
    pub bytes: Vec<u8>,
    /// Arrival time of each byte.
    pub times: Vec<Nanos>,
    time: Time,
}

impl fmt::Debug for LineOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LineOutput({} bytes)", self.bytes.len())
    }
}

impl Write for LineOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        self.times.resize(self.bytes.len(), self.time.now());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LineOutput {
    /// Combines bytes with their arrival times.
    pub fn new(bytes: Vec<u8>, times: Vec<Nanos>) -> Self {
        Self {
            bytes,
            times,
            time: Time::default(),
        }
    }
}

impl<'m> ModelPort<'m> {
    /// Creates the port of `machine`, empty.
    pub fn new(machine: &'m ModelMachine, profile: Profile) -> Self {
        let time = Time::default();
        let wire = LineOutput {
            time: time.clone(),
            ..LineOutput::default()
        };
        Self {
            machine,
            profile,
            until_slow: AtomicU64::new(profile.slow_access.every),
            uart: Mutex::new(Uart::new(time.clone(), profile.line, wire)),
            time,
            status: AtomicU8::new(0),
            status_until: AtomicU64::new(0),
            polls: Polls::new(),
        }
    }

    /// Enables the skipping of polls. From now on, a CPU that reads the line status twice in a row
    /// polls at an even interval until it changes. It does so for at most `longest_wait`.
    pub fn polled_evenly(&self, longest_wait: Nanos) {
        self.polls.are_even(longest_wait);
    }

    /// Sends the port's remaining bytes and returns all received bytes.
    pub fn into_wire(self) -> LineOutput {
        let mut uart = self
            .uart
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        catch_up(&mut uart, &self.time, Nanos(u64::MAX));
        uart.into_sink()
    }

    /// Advances the time by one access and returns it.
    #[inline]
    fn access(&self) -> Nanos {
        let mut takes = self.profile.access;
        let slow = self.profile.slow_access;
        if slow.every > 0 {
            let left = self.until_slow.load(Relaxed) - 1;
            if left == 0 {
                takes = slow.takes;
            }
            let left = if left == 0 { slow.every } else { left };
            self.until_slow.store(left, Relaxed);
        }
        let machine = self.machine;
        machine.go_to(machine.now() + takes);
        machine.now()
    }

    /// Skips repeated polls of an unchanged line status. Time advances to the last poll before
    /// `until` with the same result, unless another CPU runs earlier.
    fn skip(&self, from: Nanos, now: Nanos, until: Nanos) {
        let Some((pause, even_until)) = self.polls.look(from, now) else {
            return;
        };
        let until = until.min(even_until).min(self.machine.horizon());
        let each = pause + self.profile.access;
        let alike = match self.profile.slow_access.every {
            0 => u64::MAX,
            _ => self.until_slow.load(Relaxed) - 1,
        };
        // The last skipped poll ends before `until`.
        let looks = ((until - now - Nanos(1)).0 / each.0.max(1)).min(alike);
        if looks == 0 {
            return;
        }
        if alike < u64::MAX {
            self.until_slow.fetch_sub(looks, Relaxed);
        }
        let now = now + each * looks;
        self.polls.skipped_to(now);
        self.machine.go_to(now);
    }

    fn with<T>(&self, now: Nanos, act: impl FnOnce(&mut Uart<Time, LineOutput>) -> T) -> T {
        let mut uart = self.uart.lock().unwrap_or_else(PoisonError::into_inner);
        catch_up(&mut uart, &self.time, now);
        act(&mut uart)
    }
}

/// Advances the port event by event, so that each byte has its exact arrival time.
fn catch_up(uart: &mut Uart<Time, LineOutput>, time: &Time, now: Nanos) {
    let mut last = None;
    while let Some(at) = uart.next_event().filter(|&at| at <= now) {
        if last == Some(at) {
            break;
        }
        last = Some(at);
        time.0.fetch_max(at.0, Relaxed);
        uart.sink_mut();
    }
    if now != Nanos(u64::MAX) {
        time.0.store(now.0, Relaxed);
    }
}

impl Registers for ModelPort<'_> {
    #[inline]
    fn read8(&self, offset: usize) -> u8 {
        let from = self.machine.now();
        let now = self.access();
        if offset != LSR {
            self.polls.end();
            return self.with(now, |uart| uart.read(offset));
        }
        let until = Nanos(self.status_until.load(Relaxed));
        if now < until {
            let value = self.status.load(Relaxed);
            if value & lsr::TEMT == 0 {
                self.skip(from, now, until);
            }
            return value;
        }
        self.polls.look(from, now);
        self.with(now, |uart| {
            let value = uart.read(offset);
            // Polling ends when the transmitter is idle: the next read belongs to another write.
            if value & lsr::TEMT != 0 {
                self.polls.end();
            }
            let until = uart.next_event().map_or(u64::MAX, |at| at.0);
            self.status.store(value, Relaxed);
            self.status_until.store(until, Relaxed);
            value
        })
    }

    fn write8(&self, offset: usize, value: u8) {
        let now = self.access();
        self.polls.end();
        self.status_until.store(0, Relaxed);
        self.with(now, |uart| uart.write(offset, value));
    }
}

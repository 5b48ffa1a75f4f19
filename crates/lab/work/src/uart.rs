//! Sending a text over a serial console.

use core::fmt;
use core::str::FromStr;

use nostall_io::{Clock, Counting, Counts, Nanos, Registers};
use nostall_uart::{Console, Pl011, Strategy, UartHardware};
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

use crate::peer::Peer;

/// Division of a text into writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "kebab-case", parse_err_ty = crate::BadJob, parse_err_fn = drop)]
pub enum Writes {
    /// The whole text in one write.
    Whole,
    /// One write per line, as a kernel logs.
    Lines,
}

impl Writes {
    /// Both divisions.
    pub const ALL: [Self; 2] = [Self::Whole, Self::Lines];

    /// Returns the stable name.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The driver that sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Driver {
    /// nostall's driver with this strategy.
    Ours(Strategy),
    /// The driver of the `uart_16550` crate. It does not convert newlines, so its text must not
    /// contain any.
    Uart16550,
}

impl Driver {
    /// Returns all drivers, nostall's first.
    pub fn all() -> impl Iterator<Item = Self> {
        Strategy::ALL
            .map(Self::Ours)
            .into_iter()
            .chain([Self::Uart16550])
    }

    /// Returns the stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours(strategy) => strategy.name(),
            Self::Uart16550 => "uart_16550",
        }
    }
}

impl FromStr for Driver {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::all().find(|driver| driver.name() == name).ok_or(())
    }
}

/// A combination of driver and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Job {
    /// Driver, with the strategy for nostall's.
    pub driver: Driver,
    /// Division of the text into writes.
    pub writes: Writes,
}

impl Job {
    /// Returns nostall's jobs: whole, then line by line, each with every strategy.
    pub fn ours() -> impl Iterator<Item = Self> {
        Writes::ALL.into_iter().flat_map(|writes| {
            Strategy::ALL.into_iter().map(move |strategy| Self {
                driver: Driver::Ours(strategy),
                writes,
            })
        })
    }
}

impl crate::Job for Job {
    const NAME: &'static str = "uart";
}

impl fmt::Display for Job {
    /// Formats the job as a word of a work list: `fifo-burst:lines`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.driver.name(), self.writes.name())
    }
}

impl FromStr for Job {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        let (driver, writes) = word.split_once(':').ok_or(())?;
        Ok(Self {
            driver: driver.parse()?,
            writes: writes.parse()?,
        })
    }
}

/// Result of sending the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Number of bytes written to the transmitter, including inserted CRs.
    pub written: u64,
    /// Number of bytes dropped.
    pub dropped: u64,
    /// Whether a wait reached its limit.
    pub timed_out: bool,
    /// Number of register instructions.
    pub register_instructions: u64,
    /// Number of bus accesses.
    pub bus_accesses: u64,
    /// Time from the start of the first write until the last bit has left, in nanoseconds.
    pub ns: u64,
    /// Part of that time that a second task on the same CPU did not get, in nanoseconds.
    pub stalled_ns: u64,
}

/// A UART whose accesses are counted.
pub trait CountedUart: UartHardware {
    /// The window without the counts.
    type Registers: Registers;

    /// Whether the registers are those of a 16550.
    const IS_16550: bool;

    /// Returns the registers.
    fn counting(&self) -> &Counting<Self::Registers>;
}

impl<R: Registers> CountedUart for Counting<R> {
    type Registers = R;
    const IS_16550: bool = true;

    fn counting(&self) -> &Self {
        self
    }
}

impl<R: Registers> CountedUart for Pl011<Counting<R>> {
    type Registers = R;
    const IS_16550: bool = false;

    fn counting(&self) -> &Counting<R> {
        self.registers()
    }
}

/// Sends `text` as `job` specifies. `granted` returns the CPU time that a second task on the same
/// CPU has had so far.
pub fn send<U: CountedUart, C: Clock>(
    console: &mut Console<U, C>,
    job: Job,
    text: &[u8],
    granted: impl Fn() -> Nanos,
) -> Sent {
    let mut peer = match job.driver {
        Driver::Ours(strategy) => {
            console.set_strategy(strategy);
            None
        }
        Driver::Uart16550 if U::IS_16550 => Peer::open(console.registers().counting()),
        Driver::Uart16550 => None,
    };
    let before = Before::of(console, granted());
    let sent = match (job.driver, &mut peer) {
        (Driver::Ours(_), _) => ours(console, job.writes, text),
        (_, Some(peer)) => theirs(peer, console, text),
        // The peer's driver refused the port.
        (_, None) => Sent {
            dropped: text.len() as u64,
            ..Sent::default()
        },
    };
    before.measured(console, granted, sent)
}

/// Counts and times before sending.
pub(crate) struct Before {
    counts: Counts,
    granted: Nanos,
    start: Nanos,
}

impl Before {
    /// Reads the counts and times. `granted` returns the CPU time of a second task so far.
    pub(crate) fn of<U: CountedUart, C: Clock>(console: &Console<U, C>, granted: Nanos) -> Self {
        Self {
            counts: console.registers().counting().counts(),
            granted,
            start: console.clock().now(),
        }
    }

    /// Adds the times and accesses since then to the result.
    pub(crate) fn measured<U: CountedUart, C: Clock>(
        self,
        console: &Console<U, C>,
        granted: impl Fn() -> Nanos,
        sent: Sent,
    ) -> Sent {
        let took = console.clock().now() - self.start;
        let counts = console.registers().counting().counts() - self.counts;
        Sent {
            ns: took.0,
            stalled_ns: (took - (granted() - self.granted)).0,
            register_instructions: counts.register_instructions(),
            bus_accesses: counts.bus_accesses(),
            ..sent
        }
    }
}

fn ours<U: UartHardware, C: Clock>(
    console: &mut Console<U, C>,
    writes: Writes,
    text: &[u8],
) -> Sent {
    let mut sent = Sent::default();
    match writes {
        Writes::Whole => sent.write(console, text),
        Writes::Lines => {
            let lines = text.split_inclusive(|&b| b == b'\n');
            lines.for_each(|line| sent.write(console, line));
        }
    }
    sent.flush(console);
    sent
}

impl Sent {
    /// Writes `text` and adds the outcome.
    pub(crate) fn write<U: UartHardware, C: Clock>(&mut self, to: &mut Console<U, C>, text: &[u8]) {
        let report = to.write(text);
        self.written += report.written as u64;
        self.dropped += report.dropped as u64;
        self.timed_out |= report.timed_out;
    }

    /// Waits until the last bit has left, unless bytes were dropped.
    pub(crate) fn flush<U: UartHardware, C: Clock>(&mut self, console: &mut Console<U, C>) {
        if self.dropped == 0 {
            self.timed_out |= console.flush().is_err();
        }
    }
}

/// Time limit per byte for the peer's driver: Linux's limit for one wait.
const PEER_BOUND: Nanos = Nanos::from_millis(10);

fn theirs<R: Registers, C: Clock>(
    peer: &mut Peer<&R>,
    console: &Console<impl UartHardware, C>,
    text: &[u8],
) -> Sent {
    let bound = PEER_BOUND * text.len() as u64;
    let written = peer.send(text, console.clock(), bound) as u64;
    let dropped = text.len() as u64 - written;
    Sent {
        written,
        dropped,
        timed_out: dropped > 0,
        ..Sent::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::result_survives;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_result_of_a_sending_survives_its_line(n: u64, timed_out: bool) {
            result_survives(Sent {
                written: n,
                dropped: n,
                timed_out,
                register_instructions: n,
                bus_accesses: n,
                ns: n,
                stalled_ns: n,
            });
        }
    }
}

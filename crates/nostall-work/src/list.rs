//! What a guest is told to do: its command line.

use core::fmt;
use core::str::FromStr;

#[cfg(target_has_atomic = "64")]
use crate::console;
use crate::{pci, pstore, spi, uart::Job};

/// One piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Work {
    /// Send the text over the serial console: `uart:fifo-burst:whole`.
    Uart(Job),
    /// Run the access script that is the input on the serial port, and report
    /// what it reads: `uart-script`.
    UartScript,
    /// Record function entries in persistent RAM, or recover them:
    /// `pstore:per-cpu-clock`, `pstore:crash`, `pstore:recover`.
    Pstore(pstore::Job),
    /// Look at the devices in PCI configuration space, or measure how it is
    /// reached: `pci:enumerate`, `pci:read:ecam:1000`.
    Pci(pci::Job),
    /// Try a flash, read a card, or measure a busy bus: `spi:flash`, `spi:card`,
    /// `spi:can:caller:100000`.
    Spi(spi::Job),
    /// Log a flood of messages to a slow console: `console:bounded:115200:26`.
    #[cfg(target_has_atomic = "64")]
    Console(console::Job),
    /// Print as the driver's example does: `example:console`.
    Example,
    /// Try every instruction of the port window, there and back; panics if one
    /// does not do what it should.
    BusCheck,
    /// Fail in some way, so that machines can be tested: `fail:panic`.
    Fail(Failure),
}

/// A way for a guest to fail on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It panics.
    Panic,
    /// It panics, and again while it brings that to a console.
    PanicInFlush,
    /// All of its CPUs panic at once.
    PanicEverywhere,
    /// It reads through a null pointer.
    NullRead,
    /// It writes to its own code.
    CodeWrite,
    /// It calls itself until its stack is full.
    StackOverflow,
    /// It stops doing anything.
    Hang,
    /// It writes to the serial port without end.
    Flood,
    /// It reports without end.
    ReportFlood,
}

impl Failure {
    /// Every one.
    pub const ALL: [Self; 9] = [
        Self::Panic,
        Self::PanicInFlush,
        Self::PanicEverywhere,
        Self::NullRead,
        Self::CodeWrite,
        Self::StackOverflow,
        Self::Hang,
        Self::Flood,
        Self::ReportFlood,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Panic => "panic",
            Self::PanicInFlush => "panic-in-flush",
            Self::PanicEverywhere => "panic-everywhere",
            Self::NullRead => "null-read",
            Self::CodeWrite => "code-write",
            Self::StackOverflow => "stack-overflow",
            Self::Hang => "hang",
            Self::Flood => "flood",
            Self::ReportFlood => "report-flood",
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uart(job) => write!(f, "uart:{job}"),
            Self::Pstore(job) => write!(f, "pstore:{job}"),
            Self::Pci(job) => write!(f, "pci:{job}"),
            Self::Spi(job) => write!(f, "spi:{job}"),
            #[cfg(target_has_atomic = "64")]
            Self::Console(job) => write!(f, "console:{job}"),
            Self::UartScript => f.write_str("uart-script"),
            Self::Example => f.write_str("example:console"),
            Self::BusCheck => f.write_str("bus-check"),
            Self::Fail(failure) => write!(f, "fail:{}", failure.name()),
        }
    }
}

impl FromStr for Work {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        if word == "uart-script" {
            return Ok(Self::UartScript);
        }
        if word == "bus-check" {
            return Ok(Self::BusCheck);
        }
        match word.split_once(':').ok_or(())? {
            ("example", "console") => Ok(Self::Example),
            ("uart", job) => Ok(Self::Uart(job.parse()?)),
            ("pstore", job) => Ok(Self::Pstore(job.parse()?)),
            ("pci", job) => Ok(Self::Pci(job.parse()?)),
            ("spi", job) => Ok(Self::Spi(job.parse()?)),
            #[cfg(target_has_atomic = "64")]
            ("console", job) => Ok(Self::Console(job.parse()?)),
            ("fail", name) => Failure::ALL
                .into_iter()
                .find(|failure| failure.name() == name)
                .map(Self::Fail)
                .ok_or(()),
            _ => Err(()),
        }
    }
}

/// A word of a command line that is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadWord<'a>(pub &'a str);

impl fmt::Display for BadWord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command line: `{}` is not understood", self.0)
    }
}

/// How the guest reaches its serial port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// By the ports that a PC has it at: `uart=ports`.
    Ports,
    /// In memory: `uart=mmio:0xd0000000:4096`.
    Mmio {
        /// Where the first register lies.
        base: u64,
        /// Bytes from one register to the next.
        stride: u16,
    },
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ports => f.write_str("ports"),
            Self::Mmio { base, stride } => write!(f, "mmio:{base:#x}:{stride}"),
        }
    }
}

impl FromStr for Window {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        if word == "ports" {
            return Ok(Self::Ports);
        }
        let layout = word.strip_prefix("mmio:0x").ok_or(())?;
        let (base, stride) = layout.split_once(':').ok_or(())?;
        Ok(Self::Mmio {
            base: u64::from_str_radix(base, 16).map_err(drop)?,
            stride: stride.parse().map_err(drop)?,
        })
    }
}

/// Whether the guest's CPUs have a timer that interrupts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timer {
    /// Each its own (its local APIC's, or the one behind RISC-V's SBI), which is to tick:
    /// `timer=per-cpu`.
    #[default]
    PerCpu,
    /// None, or none that is to be used; only one CPU can be run so: `timer=none`.
    None,
}

impl fmt::Display for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PerCpu => "per-cpu",
            Self::None => "none",
        })
    }
}

impl FromStr for Timer {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        match word {
            "per-cpu" => Ok(Self::PerCpu),
            "none" => Ok(Self::None),
            _ => Err(()),
        }
    }
}

/// What a guest is to do: `cpus=2 repeat=5 uart:byte-polled:whole ...`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkList<'a> {
    /// How many CPUs the machine has that can run a kernel; all are to be started. 1 if
    /// not given.
    pub cpus: u16,
    /// How often the whole list is to be done. 1 if not given.
    pub repeat: u16,
    /// Where the serial port is; `None` if the guest is to know: a PC's, or as the
    /// device tree tells.
    pub window: Option<Window>,
    /// What interrupts a CPU. Its own timer, if not given.
    pub timer: Timer,
    words: &'a str,
}

impl<'a> WorkList<'a> {
    /// Understands all of a command line, or names the word that is wrong.
    ///
    /// # Errors
    ///
    /// [`BadWord`], the first one.
    pub fn parse(words: &'a str) -> Result<Self, BadWord<'a>> {
        let mut list = Self {
            cpus: 1,
            repeat: 1,
            window: None,
            timer: Timer::PerCpu,
            words,
        };
        for word in words.split_ascii_whitespace() {
            let understood = match word.split_once('=') {
                Some(("cpus", n)) => n.parse().map(|n| list.cpus = n).is_ok(),
                Some(("repeat", n)) => n.parse().map(|n| list.repeat = n).is_ok(),
                Some(("uart", w)) => w.parse().map(|w| list.window = Some(w)).is_ok(),
                Some(("timer", t)) => t.parse().map(|t| list.timer = t).is_ok(),
                Some(_) => false,
                None => word.parse::<Work>().is_ok(),
            };
            if !understood {
                return Err(BadWord(word));
            }
        }
        Ok(list)
    }

    /// The work, once through.
    pub fn iter(&self) -> impl Iterator<Item = Work> + use<'a> {
        self.words
            .split_ascii_whitespace()
            .filter_map(|word| word.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use nostall_devices::uart::Profile;
    use proptest::prelude::*;
    use std::format;
    use std::string::ToString;
    use std::vec::Vec;

    fn pci_jobs() -> impl Iterator<Item = pci::Job> {
        use pci::{Job, Method, Operation, Room};
        let measured = Method::ALL.into_iter().flat_map(|method| {
            let counted = [
                Operation::Read(0),
                Operation::Read(1000),
                Operation::Write(7),
            ];
            let walks = [Operation::Scan, Operation::Init].into_iter();
            let walks = walks.filter(move |_| method != Method::Ram);
            let all = counted.into_iter().chain(walks);
            all.map(move |operation| Job::Measure(operation, method))
        });
        let room = Room {
            memory: (0xc000_0000, 0xe000_0000),
            prefetchable: (0, u64::MAX),
        };
        let assign = [None, Some(room)].map(Job::Assign);
        [Job::Enumerate, Job::VirtioDrivers]
            .into_iter()
            .chain(assign)
            .chain(measured)
    }

    fn console_jobs() -> impl Iterator<Item = console::Job> {
        let panics = [None, Some(0), Some(u32::MAX)].into_iter();
        panics.flat_map(move |panic_at| {
            let on_profile = move |profile| {
                console::Strategy::ALL.map(|strategy| console::Job {
                    strategy,
                    rate: 115_200,
                    haste: 26,
                    profile,
                    panic_at,
                })
            };
            Profile::ALL.into_iter().flat_map(on_profile)
        })
    }

    #[test]
    fn a_profile_need_not_be_given() {
        let list = WorkList::parse("console:bounded:115200:1:panic-at:9").unwrap();
        let words: Vec<_> = list.iter().map(|work| work.to_string()).collect();
        assert_eq!(words, ["console:bounded:115200:1:pc-16550a:panic-at:9"]);
        for word in ["", "pc", "pc-16550a:vm"] {
            let word = std::format!("console:bounded:115200:1:{word}");
            assert!(WorkList::parse(&word).is_err(), "{word}");
        }
    }

    #[test]
    fn a_count_of_accesses_need_not_be_given() {
        let list = WorkList::parse("pci:read:ports pci:write:ram").unwrap();
        let words: Vec<_> = list.iter().map(|work| work.to_string()).collect();
        assert_eq!(words, ["pci:read:ports:100000", "pci:write:ram:10000"]);
    }

    #[test]
    fn a_count_of_frames_need_not_be_given() {
        let list = WorkList::parse("spi:can:pump").unwrap();
        let words: Vec<_> = list.iter().map(|work| work.to_string()).collect();
        assert_eq!(words, ["spi:can:pump:100000"]);
    }

    #[test]
    fn every_piece_of_work_survives_the_command_line() {
        let work: Vec<Work> = Job::ours()
            .map(Work::Uart)
            .chain([Work::UartScript, Work::Example, Work::BusCheck])
            .chain(pstore::Job::all().map(Work::Pstore))
            .chain(pci_jobs().map(Work::Pci))
            .chain(spi::Job::all(7).map(Work::Spi))
            .chain(console_jobs().map(Work::Console))
            .chain(Failure::ALL.map(Work::Fail))
            .collect();
        let words: Vec<_> = work.iter().map(Work::to_string).collect();
        let line = format!("cpus=64 repeat=5 {}", words.join(" "));
        let list = WorkList::parse(&line).unwrap();
        assert_eq!((list.cpus, list.repeat), (64, 5));
        assert_eq!(list.iter().collect::<Vec<_>>(), work);
    }

    #[test]
    fn what_a_machine_has_survives_the_command_line() {
        let (base, stride) = (0xd000_0000, 4096);
        for window in [Window::Ports, Window::Mmio { base, stride }] {
            for timer in [Timer::PerCpu, Timer::None] {
                let line = format!("uart={window} timer={timer}");
                let list = WorkList::parse(&line).unwrap();
                assert_eq!((list.window, list.timer), (Some(window), timer));
            }
        }
        let list = WorkList::parse("").unwrap();
        assert_eq!((list.window, list.timer), (None, Timer::PerCpu));
    }

    #[test]
    fn a_word_that_is_wrong_is_named() {
        for word in [
            "uart",
            "uart:fifo",
            "uart:fifo-burst:x",
            "cpus=",
            "x=1",
            "fail:",
            "uart=mmio",
            "uart=mmio:d0000000:4096",
            "uart=mmio:0xd0000000",
            "uart=mmio:0xd0000000:65536",
            "timer=pit",
            "timer=apic",
            "uart-script:",
            "example:",
            "pstore:",
            "pstore:fifo-burst",
            "pci",
            "pci:read",
            "pci:read:x",
            "pci:read:ports:",
            "pci:read:ports:4294967296",
            "pci:scan:ports:1",
            "pci:assign:",
            "pci:assign:0:1:2",
            "pci:assign:0:1:2:3:4",
            "pci:assign:0:1:2:g",
            "pci:scan:ram",
            "pci:init:ram",
            "pci:enumerate:ports",
            "spi:",
            "spi:flash:1",
            "spi:can",
            "spi:can:x",
            "spi:can:caller:",
            "spi:can:caller:x",
            "spi:can:caller:0",
            "spi:can:caller:1:1",
            "console:",
            "console:bounded",
            "console:x:115200:1",
            "console:bounded:0:1",
            "console:bounded:115200:0",
            "console:bounded:115200:1:1",
            "console:bounded:115200:1:panic-at:",
        ] {
            let line = format!("cpus=1 {word} uart:fifo-burst:whole");
            assert_eq!(WorkList::parse(&line), Err(BadWord(word)));
        }
    }

    proptest! {
        #[test]
        fn no_command_line_is_too_strange(line in ".*") {
            let _ = WorkList::parse(&line).map(|list| list.iter().count());
        }
    }
}

//! The jobs, and their words.

use core::fmt;
use core::str::FromStr;

use nostall_pci::{Choice, Policy};
use serde::{Deserialize, Serialize};

/// Reads that are measured, as in the seed.
pub const READS: u32 = 100_000;

/// Writes that are measured.
pub const WRITES: u32 = 10_000;

/// How configuration space is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// By the ports 0xCF8 and 0xCFC.
    Ports,
    /// By memory.
    Ecam,
    /// Not at all: a copy of one function's registers in plain memory, by the code for
    /// ECAM. No method can be faster.
    Ram,
    /// By what the selector chooses.
    Auto,
}

impl Method {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Ports, Self::Ecam, Self::Ram, Self::Auto];

    /// The method that comes first by this choice; `None` if there is none.
    pub const fn chosen(choice: Choice) -> Option<Self> {
        match choice {
            Choice::Nothing => None,
            Choice::OnlyEcam | Choice::Agreed(Policy::EcamFirst, _) => Some(Self::Ecam),
            _ => Some(Self::Ports),
        }
    }

    /// The stable word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ports => "ports",
            Self::Ecam => "ecam",
            Self::Ram => "ram",
            Self::Auto => "auto",
        }
    }
}

impl FromStr for Method {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|m| m.name() == name).ok_or(())
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// So many reads of vendor and device, 32 bits, of one function.
    Read(u32),
    /// So many writes of the interrupt line, 8 bits, of one function: a register for
    /// software to keep a note in. It is put back.
    Write(u32),
    /// Finding every function.
    Scan,
    /// Finding every function, sizing its BARs and following its list of capabilities. Not
    /// the extended ones, which ports do not reach.
    Init,
}

impl Operation {
    const fn name(self) -> &'static str {
        match self {
            Self::Read(_) => "read",
            Self::Write(_) => "write",
            Self::Scan => "scan",
            Self::Init => "init",
        }
    }
}

/// What a machine without firmware has for its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Room {
    /// Memory below 4 GiB: first address, and the one behind the last.
    pub memory: (u64, u64),
    /// Memory for what may be prefetched, anywhere.
    pub prefetchable: (u64, u64),
}

/// One piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Job {
    /// Give out bus numbers, bridge windows and BARs, as firmware does elsewhere; and tell
    /// what came of it. With nothing given, what the firmware's tables say that there is:
    /// a device tree's.
    Assign(Option<Room>),
    /// Tell of the machine and of every function, by each method there is, and compare.
    Enumerate,
    /// Tell of every function that the `virtio-drivers` crate finds by our access.
    VirtioDrivers,
    /// Do this by this method, and measure it.
    Measure(Operation, Method),
}

impl crate::Job for Job {
    const NAME: &'static str = "pci";
}

impl fmt::Display for Job {
    /// As a word of a work list: `enumerate`, `read:ports:100000`, `scan:ecam`,
    /// `assign`, `assign:c0000000:e0000000:0:0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enumerate => f.write_str("enumerate"),
            Self::VirtioDrivers => f.write_str("virtio-drivers"),
            Self::Assign(None) => f.write_str("assign"),
            Self::Assign(Some(room)) => {
                let Room {
                    memory: (m0, m1),
                    prefetchable: (p0, p1),
                } = room;
                write!(f, "assign:{m0:x}:{m1:x}:{p0:x}:{p1:x}")
            }
            Self::Measure(operation, method) => {
                write!(f, "{}:{}", operation.name(), method.name())?;
                match operation {
                    Operation::Read(n) | Operation::Write(n) => write!(f, ":{n}"),
                    Operation::Scan | Operation::Init => Ok(()),
                }
            }
        }
    }
}

impl FromStr for Job {
    type Err = ();

    /// A count that is not given is [`READS`] or [`WRITES`].
    fn from_str(word: &str) -> Result<Self, ()> {
        match word {
            "enumerate" => return Ok(Self::Enumerate),
            "virtio-drivers" => return Ok(Self::VirtioDrivers),
            "assign" => return Ok(Self::Assign(None)),
            _ => {}
        }
        if let Some(room) = word.strip_prefix("assign:") {
            return room.parse().map(|room| Self::Assign(Some(room)));
        }
        let (operation, method) = word.split_once(':').ok_or(())?;
        let (method, count) = match method.split_once(':') {
            Some((method, count)) => (method, Some(count.parse().map_err(drop)?)),
            None => (method, None),
        };
        let method = method.parse()?;
        let operation = match (operation, count) {
            ("read", count) => Operation::Read(count.unwrap_or(READS)),
            ("write", count) => Operation::Write(count.unwrap_or(WRITES)),
            // One function in memory is no bus.
            (_, _) if method == Method::Ram => return Err(()),
            ("scan", None) => Operation::Scan,
            ("init", None) => Operation::Init,
            _ => return Err(()),
        };
        Ok(Self::Measure(operation, method))
    }
}

impl FromStr for Room {
    type Err = ();

    fn from_str(words: &str) -> Result<Self, ()> {
        let mut numbers = words.split(':').map(|n| u64::from_str_radix(n, 16));
        let mut next = || numbers.next().ok_or(())?.map_err(drop);
        let room = Self {
            memory: (next()?, next()?),
            prefetchable: (next()?, next()?),
        };
        numbers.next().is_none().then_some(room).ok_or(())
    }
}

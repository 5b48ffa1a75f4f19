//! The jobs of the PCI experiment.

use core::fmt;
use core::str::FromStr;

use nostall_pci::{Choice, Policy};
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

/// Default number of measured reads, as in Linux's measurement ("x86/PCI: Prefer MMIO over PIO on
/// VMware hypervisor", 2022).
pub const READS: u32 = 100_000;

/// Default number of measured writes.
pub const WRITES: u32 = 10_000;

/// Access method for configuration space.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", parse_err_ty = crate::BadJob, parse_err_fn = drop)]
pub enum Method {
    /// Ports 0xCF8 and 0xCFC.
    Ports,
    /// Memory-mapped configuration space.
    Ecam,
    /// No device: a copy of one function's registers in plain memory, accessed with the ECAM
    /// code. No method can be faster.
    Ram,
    /// The selector's choice.
    Auto,
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 4] = [Self::Ports, Self::Ecam, Self::Ram, Self::Auto];

    /// Returns the method that `choice` prefers; `None` if there is none.
    pub const fn chosen(choice: Choice) -> Option<Self> {
        match choice {
            Choice::Nothing => None,
            Choice::OnlyEcam | Choice::Agreed(Policy::EcamFirst, _) => Some(Self::Ecam),
            _ => Some(Self::Ports),
        }
    }

    /// Returns the stable name.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Measured operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Operation {
    /// Reads vendor and device ID (32 bits) of one function, this number of times.
    Read(u32),
    /// Writes the interrupt line (8 bits) of one function, this number of times. The register is
    /// scratch space for software, and is restored afterwards.
    Write(u32),
    /// Enumerates all functions.
    Scan,
    /// Enumerates all functions, sizes their BARs, and walks their capability lists. Extended
    /// capabilities are omitted, because ports do not reach them.
    Init,
}

/// Address space for the devices of a machine without firmware. Each range has a start and an
/// exclusive end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Room {
    /// Memory below 4 GiB.
    pub memory: (u64, u64),
    /// Prefetchable memory at any address.
    pub prefetchable: (u64, u64),
}

/// Job of the PCI experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Job {
    /// Assigns bus numbers, bridge windows and BARs, as firmware does elsewhere, and reports the
    /// result. Without a [`Room`], the address space comes from the firmware's tables or the device
    /// tree.
    Assign(Option<Room>),
    /// Reports the machine and every function with each available method, and compares the results.
    Enumerate,
    /// Reports every function that the `virtio-drivers` crate finds through nostall's access.
    VirtioDrivers,
    /// Measures the operation with the method.
    Measure(Operation, Method),
}

impl crate::Job for Job {
    const NAME: &'static str = "pci";
}

impl fmt::Display for Job {
    /// Writes the job as a word of a work list: `enumerate`, `read:ports:100000`, `scan:ecam`,
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
                write!(f, "{}:{}", <&str>::from(operation), method.name())?;
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

    /// Parses a job. A missing count means [`READS`] or [`WRITES`].
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
            // The copy of one function is not a bus to scan.
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

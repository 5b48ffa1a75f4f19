//! A guest's command line, which contains its work list.

use core::fmt;
use core::str::FromStr;

use strum::{Display, EnumString};

use crate::KINDS;
use crate::job::{BadJob, Job};

/// One valid item of a work list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    kind: &'static str,
    words: &'a str,
}

impl<'a> Item<'a> {
    fn parse(word: &'a str) -> Option<Self> {
        let (name, words) = match word.split_once(':') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (word, ""),
        };
        let kind = KINDS.iter().find(|kind| kind.name == name)?;
        let kind_name = kind.name;
        (kind.accepts)(words).then_some(Self {
            kind: kind_name,
            words,
        })
    }

    /// Returns the name of the item's kind: [`Job::NAME`].
    pub const fn kind(&self) -> &'static str {
        self.kind
    }

    /// Returns the job if it is of kind `J`.
    pub fn job<J: Job>(&self) -> Option<J> {
        (self.kind == J::NAME).then(|| self.words.parse().ok())?
    }
}

/// An invalid word of a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadWord<'a>(pub &'a str);

impl fmt::Display for BadWord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command line: `{}` is not understood", self.0)
    }
}

/// Location of the serial port's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UartWindow {
    /// The I/O ports of a PC: `uart=ports`.
    Ports,
    /// Memory: `uart=mmio:0xd0000000:4096`.
    Mmio {
        /// Address of the first register.
        base: u64,
        /// Distance between registers in bytes.
        stride: u16,
    },
}

impl fmt::Display for UartWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ports => f.write_str("ports"),
            Self::Mmio { base, stride } => write!(f, "mmio:{base:#x}:{stride}"),
        }
    }
}

impl FromStr for UartWindow {
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

/// Source of the guest's timer interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Display, EnumString)]
#[strum(serialize_all = "kebab-case", parse_err_ty = BadJob, parse_err_fn = drop)]
pub enum Timer {
    /// Each CPU's own timer (local APIC, or RISC-V's SBI timer), which ticks: `timer=per-cpu`.
    #[default]
    PerCpu,
    /// No timer, or none to use; possible with one CPU only: `timer=none`.
    None,
}

/// A guest's command line: `cpus=2 repeat=5 uart:byte-polled:whole ...`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkList<'a> {
    /// Number of CPUs for the kernel, which starts all of them. The default is 1.
    pub cpus: u16,
    /// Number of times that the whole list is done. The default is 1.
    pub repeat: u16,
    /// Location of the serial port. With `None`, the guest uses a PC's port or the device tree's.
    pub window: Option<UartWindow>,
    /// Source of timer interrupts. The default is each CPU's own timer.
    pub timer: Timer,
    words: &'a str,
}

impl<'a> WorkList<'a> {
    /// Parses a whole command line.
    ///
    /// # Errors
    ///
    /// [`BadWord`] with the first invalid word.
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
                None => Item::parse(word).is_some(),
            };
            if !understood {
                return Err(BadWord(word));
            }
        }
        Ok(list)
    }

    /// Returns the work, once through.
    pub fn iter(&self) -> impl Iterator<Item = Item<'a>> + use<'a> {
        self.words.split_ascii_whitespace().filter_map(Item::parse)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use strum::VariantArray;

    use crate::{BusCheck, Example, Failure};
    use crate::{console, pci, pstore, script, spi, trace, uart};
    use nostall_devices::uart::Profile;
    use proptest::prelude::*;
    use std::format;
    use std::string::{String, ToString};
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
                console::PrintStrategy::ALL.map(|strategy| console::Job {
                    strategy,
                    rate: 115_200,
                    speedup: 26,
                    profile,
                    panic_at,
                })
            };
            Profile::ALL.into_iter().flat_map(on_profile)
        })
    }

    /// Returns the job as a word of a list.
    fn word<J: Job>(job: J) -> String {
        let words = job.to_string();
        match &*words {
            "" => J::NAME.to_string(),
            words => format!("{}:{words}", J::NAME),
        }
    }

    #[test]
    fn a_profile_is_optional() {
        let list = WorkList::parse("console:bounded:115200:1:panic-at:9").unwrap();
        let job = list.iter().find_map(|item| item.job::<console::Job>());
        assert_eq!(
            word(job.unwrap()),
            "console:bounded:115200:1:pc-16550a:panic-at:9"
        );
        for word in ["", "pc", "pc-16550a:vm"] {
            let word = std::format!("console:bounded:115200:1:{word}");
            assert!(WorkList::parse(&word).is_err(), "{word}");
        }
    }

    #[test]
    fn a_count_of_accesses_is_optional() {
        let list = WorkList::parse("pci:read:ports pci:write:ram").unwrap();
        let jobs = list.iter().filter_map(|item| item.job::<pci::Job>());
        let words: Vec<_> = jobs.map(word).collect();
        assert_eq!(words, ["pci:read:ports:100000", "pci:write:ram:10000"]);
    }

    #[test]
    fn a_count_of_frames_is_optional() {
        let list = WorkList::parse("spi:can:pump").unwrap();
        let job = list.iter().find_map(|item| item.job::<spi::Job>());
        assert_eq!(word(job.unwrap()), "spi:can:pump:100000");
    }

    /// Checks that each job survives formatting and parsing, alone and in a list.
    fn survive<J: Job + Copy + PartialEq + fmt::Debug>(jobs: impl Iterator<Item = J>) {
        let jobs: Vec<_> = jobs.collect();
        let words: Vec<_> = jobs.iter().copied().map(word).collect();
        let line = format!("cpus=64 repeat=5 {}", words.join(" "));
        let list = WorkList::parse(&line).unwrap();
        assert_eq!((list.cpus, list.repeat), (64, 5));
        let again: Vec<_> = list.iter().filter_map(|item| item.job::<J>()).collect();
        assert_eq!(again, jobs);
        assert!(list.iter().all(|item| item.kind() == J::NAME));
    }

    #[test]
    fn every_piece_of_work_survives_the_command_line() {
        survive(uart::Job::ours());
        survive([script::Job].into_iter());
        survive(Example::VARIANTS.iter().copied());
        survive([BusCheck].into_iter());
        survive(pstore::Job::all());
        survive(pci_jobs());
        survive(spi::Job::all(7));
        survive(console_jobs());
        survive(trace::Job::all());
        survive(Failure::VARIANTS.iter().copied());
    }

    #[test]
    fn a_job_of_another_kind_is_none() {
        let list = WorkList::parse("uart:fifo-burst:lines uart-script").unwrap();
        let kinds: Vec<_> = list.iter().map(|item| item.kind()).collect();
        assert_eq!(kinds, ["uart", "uart-script"]);
        assert_eq!(
            list.iter()
                .filter_map(|item| item.job::<uart::Job>())
                .count(),
            1
        );
        assert_eq!(
            list.iter()
                .filter_map(|item| item.job::<pci::Job>())
                .count(),
            0
        );
    }

    #[test]
    fn every_kind_of_work_has_a_unique_name() {
        for (n, kind) in KINDS.iter().enumerate() {
            assert!(KINDS[..n].iter().all(|other| other.name != kind.name));
        }
    }

    #[test]
    fn the_machines_properties_survive_the_command_line() {
        let (base, stride) = (0xd000_0000, 4096);
        for window in [UartWindow::Ports, UartWindow::Mmio { base, stride }] {
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
    fn an_invalid_word_is_named() {
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
        fn no_command_line_makes_the_parser_panic(line in ".*") {
            let _ = WorkList::parse(&line).map(|list| list.iter().count());
        }
    }
}

//! The log of Linux in the memory of a machine: the ring of its printk.
//!
//! Every Linux has it. Nothing needs to be prepared on the machine: a VMCOREINFO in its memory
//! leads to the kernel's page tables and to the ring. Without one, the ring is found by its
//! structure. Linux 5.10 and later are read, on x86-64, arm64 and RISC-V. Records that the console
//! had not printed yet are there too.
//!
//! A record is shown as genuine only if its descriptor, its data and its text name the same
//! record.

mod consoles;
mod message;
mod ring;
mod search;
mod structures;

use std::cmp::Reverse;
use std::ops::Range;

use nostall_pstore::Trust;

pub use consoles::ConsoleProgress;
pub use message::{Caller, KernelMessage, LostText, MessageState};

use crate::address_space::{AddressSpace, RamLayout};
use crate::discovery::Discovery;
use crate::kallsyms::Kallsyms;
use crate::kernel::{CrashedKernel, Evidence, Parser};
use crate::symbols::Symbols;
use crate::vmcoreinfo::{InfoSource, Vmcoreinfo};
use ring::{NoMessage, Ring};
use structures::Structures;

/// Maximum number of records that are read of one ring, the newest: those of 128 MiB.
const MOST_RECORDS: u64 = 1 << 22;

/// Maximum number of records of all rings. It bounds the time for forged ones.
const MOST_IN_ALL: u64 = 1 << 22;

/// Number of descriptors of a ring that are tried first. The others are read if one of them is of
/// use.
const TRIED: u64 = 1024;

/// Maximum number of whole searches for page tables in a raw file.
const MOST_SEARCHES: usize = 4;

/// A log of Linux in memory.
#[derive(Debug)]
pub struct KernelLog<'a> {
    /// Physical address of the ring's header; in a raw file its offset.
    pub address: u64,
    /// The VMCOREINFO that led to it. Without one, it has the release of the log's own banner, or
    /// nothing.
    pub info: Vmcoreinfo,
    /// Place of the VMCOREINFO, if one led to it.
    pub source: InfoSource,
    /// Numbers of its records.
    pub counts: Counts,
    /// Whether the dump has the header of a larger ring, but not its records, which may follow these.
    pub is_early: bool,
    space: AddressSpace<'a>,
    ring: Ring,
    /// The ring of the early boot, if the kernel replaced it by a larger one.
    early: Option<Ring>,
}

/// Numbers of the records of a log, by their state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records whose text is complete, or complete so far.
    pub records: u64,
    /// Records that a caller was about to write.
    pub unfinished: u64,
    /// Records whose text is lost.
    pub lost: u64,
    /// Records that the dump lacks.
    pub missing: u64,
    /// Descriptors that belong to other records.
    pub foreign: u64,
    /// Sequence numbers of the first and the last record.
    pub first: Option<u64>,
    /// Sequence number of the last record.
    pub last: Option<u64>,
}

impl<'a> Discovery<'a> {
    /// Returns the logs of Linux outside `besides`. That of the dump's header is the first. Logs
    /// with page tables follow, and of these the one with most records.
    pub fn kernel_logs(&self, besides: &[Range<u64>]) -> Vec<KernelLog<'a>> {
        let memory = self.memory.container();
        let mut logs = Vec::<KernelLog<'a>>::new();
        let (mut searches, mut left) = (MOST_SEARCHES, MOST_IN_ALL);
        for (source, info) in self.vmcoreinfos(besides) {
            let Some((structures, pointer)) = Structures::of(&info).zip(info.symbol("prb")) else {
                continue;
            };
            let spaces = AddressSpace::all(memory, &info, pointer, &mut searches);
            let log = spaces
                .into_iter()
                .find_map(|space| KernelLog::open(space, structures, &info, source, &mut left));
            if let Some(log) = log
                && !logs.iter().any(|known| known.address == log.address)
            {
                logs.push(log);
            }
        }
        if logs.is_empty() {
            logs = self.logs_by_structure(besides, &mut left);
        }
        logs.sort_by_key(|log| {
            let layout = log.ram_layout();
            (
                log.source != InfoSource::Header,
                !layout.has_tables(),
                !layout.starts_at_0(),
                Reverse(log.counts.records),
            )
        });
        logs
    }
}

impl<'a> KernelLog<'a> {
    /// Opens the ring; `None` if there is none with a record.
    fn open(
        space: AddressSpace<'a>,
        structures: Structures,
        info: &Vmcoreinfo,
        source: InfoSource,
        left: &mut u64,
    ) -> Option<Self> {
        let at = space.word(info.symbol("prb")?)?;
        let ring = Ring::open(&space, structures, at)?;
        let early = info.symbol("printk_rb_static").filter(|early| *early != at);
        let early = early.and_then(|early| Ring::open(&space, structures, early));
        let log = Self {
            address: space.place(at)?.0,
            info: info.clone(),
            source,
            counts: Counts::default(),
            is_early: false,
            space,
            ring,
            early,
        };
        let is_use = |nth| {
            log.ring
                .message(&log.space, nth, &mut ring.text_size())
                .is_ok()
        };
        if !log.tried().any(is_use) {
            return None;
        }
        log.counted(left)
    }

    /// Returns the positions of the descriptors that are tried first.
    fn tried(&self) -> impl Iterator<Item = u64> + use<> {
        let ids = self.ring.ids();
        (0..ids).step_by(ids.div_ceil(TRIED) as usize)
    }

    /// Counts the records; `None` if there is none with a text, or if too many were read.
    fn counted(mut self, left: &mut u64) -> Option<Self> {
        *left = left.checked_sub(self.ring.ids().min(MOST_RECORDS))?;
        self.counts = self.count();
        (self.counts.records > 0).then_some(self)
    }

    fn count(&self) -> Counts {
        let mut counts = Counts::default();
        for message in self.entries() {
            match message {
                Ok(message) => {
                    match message.state {
                        MessageState::Complete | MessageState::Reopened => counts.records += 1,
                        MessageState::Unfinished => counts.unfinished += 1,
                        MessageState::Lost(_) => counts.lost += 1,
                    }
                    counts.first.get_or_insert(message.sequence);
                    counts.last = Some(message.sequence);
                }
                Err(NoMessage::Unused) => {}
                Err(NoMessage::Missing) => counts.missing += 1,
                Err(NoMessage::Foreign) => counts.foreign += 1,
            }
        }
        counts
    }

    /// Returns the records, from the oldest.
    pub fn messages(&self) -> impl Iterator<Item = KernelMessage> {
        self.entries().filter_map(Result::ok)
    }

    /// Returns the consoles and their progress; `None` if it is unknown: before Linux 6.0, and
    /// without BTF.
    pub fn consoles(&self) -> Option<Vec<ConsoleProgress>> {
        let end = self.counts.last?.checked_add(1)?;
        consoles::read(&self.space, &self.info, end)
    }

    /// Returns the kernel's symbols at their linked addresses; `None` if its memory does not have
    /// them: before Linux 6.0.
    pub fn symbols(&self) -> Option<Symbols> {
        let names = Kallsyms::open(&self.space, &self.info)?;
        names.symbols(self.info.kernel_offset()?)
    }

    /// Adds the facts and the panics of the log. Times are whole microseconds, as in other logs.
    pub fn tell(&self, kernel: &mut CrashedKernel) {
        kernel.read_vmcoreinfo(&self.info);
        let mut parser = Parser::default();
        for message in self.messages().filter(KernelMessage::is_of_kernel) {
            let time = i64::try_from(message.time_ns).unwrap_or(i64::MAX);
            let text = String::from_utf8_lossy(&message.text);
            // A further line may be from the name of a program. The first banner is the kernel's.
            let line = text.lines().next().unwrap_or_default();
            if kernel
                .release()
                .is_none_or(|it| it.evidence != Evidence::Log)
            {
                kernel.read_line(line);
            }
            parser.line(line, Some(time - time % 1000));
        }
        kernel.add(parser.finish(), Trust::Unchecked, None);
    }

    /// Returns the positions of RAM in the dump.
    pub fn ram_layout(&self) -> &RamLayout {
        self.space.layout()
    }

    /// Returns the number of bytes of the ring of texts.
    pub const fn text_size(&self) -> u64 {
        self.ring.text_size()
    }

    fn entries(&self) -> impl Iterator<Item = Result<KernelMessage, NoMessage>> {
        let first = self.of(&self.ring).find_map(Result::ok);
        let first = first.map_or(u64::MAX, |message| message.sequence);
        let early = self.early.as_ref().into_iter();
        let early = early.flat_map(|early| self.copied(early));
        let early = early.take_while(move |message| message.sequence < first);
        early.map(Ok).chain(self.of(&self.ring))
    }

    /// Returns the records of the early ring that the larger ring starts with, which may have
    /// overwritten them. Linux counts the copies from 0. Behind a lost record the numbers are unknown.
    fn copied(&self, early: &Ring) -> impl Iterator<Item = KernelMessage> {
        let messages = self
            .of(early)
            .filter(|entry| !matches!(entry, Err(NoMessage::Unused)));
        let messages = messages.map_while(Result::ok);
        let messages = messages.take_while(|message| message.state.has_text());
        messages.zip(0..).map(|(message, sequence)| KernelMessage {
            sequence,
            ..message
        })
    }

    fn of(&self, ring: &Ring) -> impl Iterator<Item = Result<KernelMessage, NoMessage>> {
        let ring = *ring;
        let ids = ring.ids();
        let mut room = ring.text_size();
        let ids = ids.saturating_sub(MOST_RECORDS)..ids;
        ids.map(move |nth| ring.message(&self.space, nth, &mut room))
    }
}

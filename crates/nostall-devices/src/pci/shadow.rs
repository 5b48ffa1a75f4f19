//! The ECAM window as memory.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::host_bridge::HostBridge;
use super::registers::SIZE;
use super::tree::Reached;

const BUS: u64 = 1 << 20;
const PAGES: usize = 256;

/// How many mappings a bus can have. One that would need more has none.
pub const MAX_RUNS: usize = 16;

/// A read-only view of a [`HostBridge`]'s ECAM window, for a VMM to map into its
/// guest: then a configuration read is a read of memory, and no exit.
///
/// It knows no hypervisor. After anything that may have changed the bridge (a
/// guest's write by ports or ECAM, a device's own change), and before the guest
/// goes on, the VMM lets it [`follow`](Self::follow), and does what it says, in
/// order. Where nothing is mapped, reads trap and the bridge answers, with the
/// same bytes; writes always trap.
///
/// See [the module](super) for what changing a mapping costs.
#[derive(Debug)]
pub struct Shadow {
    first: u8,
    window_first: u8,
    buses: Vec<Bus>,
    version: Option<u64>,
}

/// What a VMM has to do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Take this run's mapping away: from now on it traps. It was mapped as this
    /// very run.
    Unmap(Run),
    /// Map this run, for reading alone. Its memory must hold its contents before:
    /// [`Shadow::pages`] gives them, and everything else is all ones.
    Map(Run, Contents),
    /// Change bytes of memory that is mapped. Offset and length are multiples of
    /// 4; each such word is stored whole, for virtual CPUs may be reading it.
    Update {
        /// From the start of the window.
        offset: u64,
        /// What is there now.
        bytes: Vec<u8>,
    },
    /// Make this part of a mapped run all ones: its functions are gone. Its pages need no
    /// memory of their own any more.
    Clear(Run),
}

/// A run of pages of one bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// From the start of the bridge's ECAM window.
    pub offset: u64,
    /// In bytes: a multiple of 4 KiB, at most 1 MiB.
    pub length: u64,
}

/// What a run holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// All ones, for good: nothing answers on this bus. One piece of memory can
    /// stand for all such runs.
    AllOnes,
    /// A bus with functions on it; [`Change::Update`]s and [`Change::Clear`]s may come.
    /// The pages without a function are all ones and can share memory, too.
    Functions,
}

/// A bus as the VMM was last told.
#[derive(Debug, Default)]
struct Bus {
    pages: BTreeMap<u8, Page>,
    runs: Vec<Run>,
}

/// A function as the VMM was last told.
#[derive(Debug)]
struct Page {
    reached: Reached,
    version: u64,
    /// `None` if it traps.
    bytes: Option<Box<[u8; SIZE]>>,
}

impl Shadow {
    /// A shadow of these of the bridge's buses; others always trap. Nothing is
    /// mapped before it first [`follow`](Self::follow)s.
    pub fn new(bridge: &HostBridge, buses: RangeInclusive<u8>) -> Self {
        let decoded = bridge.buses();
        let first = *buses.start().max(decoded.start());
        let last = *buses.end().min(decoded.end());
        let count = (usize::from(last) + 1).saturating_sub(usize::from(first));
        Self {
            first,
            window_first: *decoded.start(),
            buses: (0..count).map(|_| Bus::default()).collect(),
            version: None,
        }
    }

    /// What has changed since it was last called. Without a change this costs one
    /// comparison; a changed register, one look at each function; new bus numbers,
    /// or a function that came or went, a look at every bus.
    ///
    /// It must always be given the bridge that it was made from.
    pub fn follow(&mut self, bridge: &HostBridge) -> Vec<Change> {
        let mut changes = Vec::new();
        let now = bridge.tree.version;
        let moved = self.version.is_none_or(|then| then < bridge.tree.moved);
        if self.version == Some(now) {
            return changes;
        }
        for (n, bus) in self.buses.iter_mut().enumerate() {
            let number = self.first + n as u8;
            let start = u64::from(number - self.window_first) * BUS;
            if moved {
                bus.draw(bridge, number, start, &mut changes);
            } else {
                bus.refresh(bridge, start, &mut changes);
            }
        }
        self.version = Some(now);
        changes
    }

    /// The functions' pages in a run as last told: where each starts, and its bytes. The
    /// rest of the run is all ones.
    pub fn pages(&self, run: Run) -> impl Iterator<Item = (u64, &[u8; SIZE])> {
        let offsets = (run.offset..run.offset + run.length).step_by(SIZE);
        offsets.filter_map(|offset| Some((offset, self.page(offset)?.bytes.as_deref()?)))
    }

    /// Fills `to` with what the window holds from `offset` on, as last told; all
    /// ones where it traps.
    pub fn copy(&self, offset: u64, to: &mut [u8]) {
        to.fill(0xff);
        let mut rest = to;
        let mut at = offset;
        while !rest.is_empty() {
            let within = at as usize % SIZE;
            let (now, later) = rest.split_at_mut(rest.len().min(SIZE - within));
            if let Some(bytes) = self.page(at).and_then(|page| page.bytes.as_ref()) {
                now.copy_from_slice(&bytes[within..within + now.len()]);
            }
            at = at.saturating_add(now.len() as u64);
            rest = later;
        }
    }

    fn page(&self, offset: u64) -> Option<&Page> {
        let skipped = u64::from(self.first.saturating_sub(self.window_first));
        let number = (offset / BUS).checked_sub(skipped)?;
        let bus = self.buses.get(usize::try_from(number).ok()?)?;
        bus.pages.get(&((offset / SIZE as u64) as u8))
    }

    /// Everything that is mapped, as last told.
    pub fn runs(&self) -> impl Iterator<Item = Run> {
        self.buses.iter().flat_map(|bus| bus.runs.iter().copied())
    }
}

impl Bus {
    /// Draws the bus anew: functions may have come, gone or moved.
    fn draw(&mut self, bridge: &HostBridge, number: u8, start: u64, changes: &mut Vec<Change>) {
        let first = *bridge.buses().start();
        let pages = bridge
            .tree
            .functions_on(first, number)
            .map(|(devfn, reached)| (devfn, Page::of(bridge, reached)))
            .collect();
        let drawn = Self {
            runs: runs(&pages, start),
            pages,
        };
        if drawn.runs == self.runs && drawn.contents() == self.contents() {
            drawn.differences(self, start, changes);
        } else {
            changes.extend(self.runs.iter().copied().map(Change::Unmap));
            let contents = drawn.contents();
            changes.extend(drawn.runs.iter().map(|&run| Change::Map(run, contents)));
        }
        *self = drawn;
    }

    /// What changes in memory, where the mappings stay.
    fn differences(&self, before: &Self, start: u64, changes: &mut Vec<Change>) {
        if self.runs.is_empty() {
            return;
        }
        let gone = before.pages.keys();
        for &devfn in gone.filter(|devfn| !self.pages.contains_key(devfn)) {
            changes.push(Change::Clear(Run {
                offset: page_offset(start, devfn),
                length: SIZE as u64,
            }));
        }
        for (&devfn, page) in &self.pages {
            let was = match before.pages.get(&devfn) {
                Some(page) => page.bytes.as_deref(),
                None => Some(&ALL_ONES),
            };
            if let (Some(was), Some(is)) = (was, &page.bytes) {
                differences(page_offset(start, devfn), was, is, changes);
            }
        }
    }

    /// Looks at the functions that have changed since, all where they were.
    fn refresh(&mut self, bridge: &HostBridge, start: u64, changes: &mut Vec<Change>) {
        for (&devfn, page) in &mut self.pages {
            if bridge.tree.version_of(page.reached.id) == page.version {
                continue;
            }
            let new = Page::of(bridge, page.reached);
            if let (Some(was), Some(is)) = (&page.bytes, &new.bytes)
                && !self.runs.is_empty()
            {
                differences(page_offset(start, devfn), was, is, changes);
            }
            *page = new;
        }
    }

    fn contents(&self) -> Contents {
        if self.pages.is_empty() {
            Contents::AllOnes
        } else {
            Contents::Functions
        }
    }
}

static ALL_ONES: [u8; SIZE] = [0xff; SIZE];

impl Page {
    fn of(bridge: &HostBridge, reached: Reached) -> Self {
        let shown = bridge
            .tree
            .function(reached.id)
            .filter(|function| !function.is_volatile_below(reached.size));
        Self {
            reached,
            version: bridge.tree.version_of(reached.id),
            bytes: shown.map(|function| {
                let mut bytes = function.bytes.clone();
                bytes[reached.size..].fill(0xff);
                bytes
            }),
        }
    }
}

/// The runs around the pages that trap.
fn runs(pages: &BTreeMap<u8, Page>, start: u64) -> Vec<Run> {
    let trapping = pages.iter().filter(|(_, page)| page.bytes.is_none());
    let ends = trapping
        .map(|(&devfn, _)| usize::from(devfn))
        .chain([PAGES]);
    let mut next = 0;
    let mut runs = Vec::new();
    for end in ends {
        if end > next {
            runs.push(Run {
                offset: start + (next * SIZE) as u64,
                length: ((end - next) * SIZE) as u64,
            });
        }
        next = end + 1;
    }
    if runs.len() > MAX_RUNS {
        runs.clear();
    }
    runs
}

fn page_offset(start: u64, devfn: u8) -> u64 {
    start + u64::from(devfn) * SIZE as u64
}

/// Says which words differ, those side by side in one.
fn differences(offset: u64, was: &[u8; SIZE], is: &[u8; SIZE], changes: &mut Vec<Change>) {
    let differs = |word: &usize| was[*word..word + 4] != is[*word..word + 4];
    let mut words = (0..SIZE).step_by(4).filter(differs).peekable();
    while let Some(first) = words.next() {
        let mut end = first + 4;
        while words.next_if_eq(&end).is_some() {
            end += 4;
        }
        changes.push(Change::Update {
            offset: offset + first as u64,
            bytes: is[first..end].to_vec(),
        });
    }
}

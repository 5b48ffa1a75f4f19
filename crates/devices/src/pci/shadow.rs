//! A memory image of the ECAM window.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::host_bridge::HostBridge;
use super::registers::SIZE;
use super::tree::{self, Reached};
use crate::Credit;

const BUS: u64 = 1 << 20;
const PAGES: usize = 256;

/// Price, in exits, of remapping a run. A hypervisor takes as long as for some tens of exits.
const MAP_PRICE: u32 = 100;

/// Price, in exits, of rebuilding a function's page.
const PAGE_PRICE: u32 = 1;

/// Initial credit per bus, in mappings. A guest assigns bus numbers at boot, after its firmware
/// did, and after a reset.
const AHEAD: u32 = 4;

/// Maximum number of mappings per bus. A bus that needs more has none.
pub const MAX_RUNS: usize = 16;

/// A read-only image of a [`HostBridge`]'s ECAM window, for a VMM to map into its guest. A
/// configuration read is then a memory read without an exit.
///
/// It is independent of the hypervisor. The VMM calls [`follow`](Self::follow) after each guest
/// access that the bridge handled, through ports or ECAM, and after each change by a device. It
/// applies the returned changes, in order, before the guest resumes. Unmapped reads trap, and the
/// bridge returns the same bytes. Writes always trap.
///
/// A guest pays for new mappings with exits: 100 for each mapping, and one for each function's page
/// in it. Four mappings for each bus are free. A bus that changes without enough credit is unmapped
/// and traps; its reads then earn the credit to map it again. A guest that keeps changing bus
/// numbers therefore slows itself and not its host.
///
/// [The module](super) describes the cost of changing a mapping.
#[derive(Debug)]
pub struct Shadow {
    first: u8,
    window_first: u8,
    buses: Vec<Bus>,
    version: Option<u64>,
    credit: Credit,
    /// Lowest price of the waiting buses.
    waits: Option<u32>,
}

/// Action that a VMM must take. Actions are applied in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Unmap this run, so that it traps. It was mapped as exactly this run.
    Unmap(Run),
    /// Map this run read-only. Its memory must already hold the contents: those of
    /// [`Shadow::pages`], and all ones elsewhere.
    Map(Run, Contents),
    /// Change bytes of mapped memory. Offset and length are multiples of 4. Store each word with
    /// one write, because virtual CPUs may be reading it.
    Update {
        /// Byte offset from the start of the window.
        offset: u64,
        /// New bytes at the offset.
        bytes: Vec<u8>,
    },
    /// Fill this part of a mapped run with ones, because its functions are gone. Its pages no
    /// longer need their own memory.
    Clear(Run),
}

/// A range of consecutive pages of one bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// Byte offset from the start of the bridge's ECAM window.
    pub offset: u64,
    /// Length in bytes: a multiple of 4 KiB, at most 1 MiB.
    pub length: u64,
}

/// Contents of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Permanently all ones: the bus has no functions. All such runs can share memory.
    AllOnes,
    /// A bus with functions; [`Change::Update`] and [`Change::Clear`] may follow. Pages without a
    /// function are all ones and can share memory.
    Functions,
}

/// State of a bus as last reported to the VMM.
#[derive(Debug)]
struct Bus {
    /// Pages by device and function number; empty while the bus waits.
    pages: BTreeMap<u8, Page>,
    runs: Vec<Run>,
    /// Price of mapping the bus, while the credit is too low and all of it traps.
    waits: Option<u32>,
}

/// State of a function as last reported to the VMM.
#[derive(Debug)]
struct Page {
    reached: Reached,
    version: u64,
    /// Page contents; `None` if the page traps.
    bytes: Option<Box<[u8; SIZE]>>,
}

impl Shadow {
    /// Creates a shadow of the given buses of the bridge; other buses always trap. Nothing is
    /// mapped before the first call of [`follow`](Self::follow).
    pub fn new(bridge: &HostBridge, buses: RangeInclusive<u8>) -> Self {
        let decoded = bridge.buses();
        let first = *buses.start().max(decoded.start());
        let last = *buses.end().min(decoded.end());
        let count = (usize::from(last) + 1).saturating_sub(usize::from(first));
        Self {
            first,
            window_first: *decoded.start(),
            buses: (0..count).map(|_| Bus::unmapped()).collect(),
            version: None,
            credit: Credit::full(AHEAD * MAP_PRICE * count as u32),
            waits: Some(0),
        }
    }

    /// Returns the changes since the last call, and credits the guest with one exit. Call it
    /// exactly once for each exit, and once after each change by a device.
    ///
    /// Without a change it costs one comparison. After a changed register, it compares the version
    /// of each function. After a change of bus numbers or functions, it walks over all bridges and
    /// functions once. It builds only the pages of functions that changed or moved.
    ///
    /// Always pass the bridge that the shadow was created from.
    pub fn follow(&mut self, bridge: &HostBridge) -> Vec<Change> {
        let mut changes = Vec::new();
        self.credit.earn(1);
        let now = bridge.tree.version;
        let then = self.version.replace(now);
        let pays = self.waits.is_some_and(|price| self.credit.covers(price));
        if then == Some(now) && !pays {
            return changes;
        }
        let moved = then.is_none_or(|then| then < bridge.tree.moved);
        let first = *bridge.buses().start();
        let routes = (moved || pays).then(|| bridge.tree.buses(first));
        for (n, bus) in self.buses.iter_mut().enumerate() {
            let number = self.first + n as u8;
            let start = u64::from(number - self.window_first) * BUS;
            let is_due = match bus.waits {
                Some(price) => self.credit.covers(price),
                None => moved,
            };
            if let Some(routes) = routes.as_ref().filter(|_| is_due) {
                // The first call is caused by the VMM, not by the guest.
                let mut pays = |price| then.is_none() || self.credit.spend(price);
                let route = routes[usize::from(number)];
                bus.draw(bridge, route, start, &mut pays, &mut changes);
            } else if then != Some(now) {
                bus.refresh(bridge, start, &mut changes);
            }
        }
        self.waits = self.buses.iter().filter_map(|bus| bus.waits).min();
        changes
    }

    /// Returns the functions' pages in a run as last reported: offset and contents of each. The
    /// rest of the run is all ones.
    pub fn pages(&self, run: Run) -> impl Iterator<Item = (u64, &[u8; SIZE])> {
        let offsets = (run.offset..run.offset + run.length).step_by(SIZE);
        offsets.filter_map(|offset| Some((offset, self.page(offset)?.bytes.as_deref()?)))
    }

    /// Copies the window's contents from `offset` on, as last reported. Ranges that trap are all
    /// ones.
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

    /// Returns all mapped runs, as last reported.
    pub fn runs(&self) -> impl Iterator<Item = Run> {
        self.buses.iter().flat_map(|bus| bus.runs.iter().copied())
    }
}

impl Bus {
    /// Creates a bus that traps until it is drawn free of charge.
    const fn unmapped() -> Self {
        Self {
            pages: BTreeMap::new(),
            runs: Vec::new(),
            waits: Some(0),
        }
    }

    /// Rebuilds the bus after functions were added, removed or moved. If that costs more than the
    /// guest `pays`, the whole bus traps.
    fn draw(
        &mut self,
        bridge: &HostBridge,
        route: Option<tree::Bus>,
        start: u64,
        pays: &mut impl FnMut(u32) -> bool,
        changes: &mut Vec<Change>,
    ) {
        let on_it = || {
            let bus = route.into_iter();
            bus.flat_map(|bus| bridge.tree.functions_on(bus))
        };
        if self.waits.is_none() && self.shows(bridge, on_it()) {
            return;
        }
        let runs = runs(bridge, on_it(), start);
        let mut present = [false; PAGES];
        let mut new = Vec::new();
        for (devfn, reached) in on_it() {
            present[usize::from(devfn)] = true;
            let page = self.pages.get(&devfn);
            if !page.is_some_and(|page| page.shows(bridge, reached)) {
                new.push((devfn, reached));
            }
        }
        let is_empty = on_it().next().is_none();
        let stays = self.waits.is_none() && runs == self.runs && is_empty == self.pages.is_empty();
        let price = match stays {
            true => new.len() as u32 * PAGE_PRICE,
            false => runs.len() as u32 * MAP_PRICE + on_it().count() as u32 * PAGE_PRICE,
        };
        if price > 0 && !pays(price) {
            changes.extend(self.runs.drain(..).map(Change::Unmap));
            self.pages.clear();
            self.waits = Some(price);
            return;
        }
        self.waits = None;
        if !stays {
            changes.extend(self.runs.drain(..).map(Change::Unmap));
        }
        let is_mapped = !self.runs.is_empty();
        self.pages.retain(|&devfn, _| {
            let stays = present[usize::from(devfn)];
            if is_mapped && !stays {
                changes.push(Change::Clear(Run {
                    offset: page_offset(start, devfn),
                    length: SIZE as u64,
                }));
            }
            stays
        });
        for (devfn, reached) in new {
            let page = Page::of(bridge, reached);
            if is_mapped {
                let was = self.pages.get(&devfn);
                let was = was.map_or(Some(&ALL_ONES), Page::bytes);
                differences(page_offset(start, devfn), was, page.bytes(), changes);
            }
            self.pages.insert(devfn, page);
        }
        if !stays {
            let contents = self.contents();
            changes.extend(runs.iter().map(|&run| Change::Map(run, contents)));
            self.runs = runs;
        }
    }

    /// Returns whether the pages show exactly these functions in their current versions.
    fn shows(&self, bridge: &HostBridge, mut on_it: impl Iterator<Item = (u8, Reached)>) -> bool {
        let same = |(&at, page): (&u8, &Page)| {
            let next = on_it.next();
            next.is_some_and(|(devfn, reached)| at == devfn && page.shows(bridge, reached))
        };
        self.pages.iter().all(same) && on_it.next().is_none()
    }

    /// Updates the pages of changed functions. No function has moved.
    fn refresh(&mut self, bridge: &HostBridge, start: u64, changes: &mut Vec<Change>) {
        for (&devfn, page) in &mut self.pages {
            if bridge.tree.version_of(page.reached.id) == page.version {
                continue;
            }
            let new = Page::of(bridge, page.reached);
            if !self.runs.is_empty() {
                differences(
                    page_offset(start, devfn),
                    page.bytes(),
                    new.bytes(),
                    changes,
                );
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
        let function = bridge.tree.function(reached.id);
        let shown = function.filter(|_| !traps(bridge, reached));
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

    /// Returns whether the page shows this function in its current version.
    fn shows(&self, bridge: &HostBridge, reached: Reached) -> bool {
        self.reached == reached && self.version == bridge.tree.version_of(reached.id)
    }

    fn bytes(&self) -> Option<&[u8; SIZE]> {
        self.bytes.as_deref()
    }
}

/// Returns whether the function's page must trap.
fn traps(bridge: &HostBridge, reached: Reached) -> bool {
    let function = bridge.tree.function(reached.id);
    function.is_none_or(|function| function.is_volatile_below(reached.size))
}

/// Returns the runs between the pages that trap.
fn runs(bridge: &HostBridge, on_it: impl Iterator<Item = (u8, Reached)>, start: u64) -> Vec<Run> {
    let trapping = on_it.filter(|&(_, reached)| traps(bridge, reached));
    let ends = trapping.map(|(devfn, _)| usize::from(devfn)).chain([PAGES]);
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

/// Adds an update for each range of differing words. It adds none if either page traps.
fn differences(
    offset: u64,
    was: Option<&[u8; SIZE]>,
    is: Option<&[u8; SIZE]>,
    changes: &mut Vec<Change>,
) {
    let (Some(was), Some(is)) = (was, is) else {
        return;
    };
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

//! The ECAM window as memory.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::host_bridge::HostBridge;
use super::registers::SIZE;
use super::tree::{self, Reached};
use crate::Credit;

const BUS: u64 = 1 << 20;
const PAGES: usize = 256;

/// Exits that pay for a mapping made once more, and taken away. A hypervisor takes about as
/// long for it as for some tens of exits.
const MAP_PRICE: u32 = 100;

/// Exits that pay for a page of a function that is built anew.
const PAGE_PRICE: u32 = 1;

/// Mappings for each bus that can be made at once: a guest gives out bus numbers at boot,
/// after its firmware, and after a reset.
const AHEAD: u32 = 4;

/// How many mappings a bus can have. One that would need more has none.
pub const MAX_RUNS: usize = 16;

/// A read-only view of a [`HostBridge`]'s ECAM window, for a VMM to map into its
/// guest: then a configuration read is a read of memory, and no exit.
///
/// It is independent of the hypervisor. After each of the guest's accesses that the bridge
/// answered, by ports or ECAM, the VMM calls [`follow`](Self::follow). It does so after each
/// device's own change, too. It makes the returned changes, in order, before the guest goes on.
/// Where nothing is mapped, reads trap and the bridge answers, with the same bytes; writes always
/// trap.
///
/// A guest pays for new mappings with exits, 100 for each and one for each function's page
/// in it; four mappings for each bus are free. A bus that changes without that credit is
/// unmapped and traps, and its own reads then earn the credit to map it again. So a guest that
/// writes bus numbers back and forth slows itself down, and not its host.
///
/// See [the module](super) for the cost of changing a mapping.
#[derive(Debug)]
pub struct Shadow {
    first: u8,
    window_first: u8,
    buses: Vec<Bus>,
    version: Option<u64>,
    credit: Credit,
    /// The least price of a bus that waits.
    waits: Option<u32>,
}

/// Action of a VMM. Actions are done in order.
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
        /// The run's new bytes.
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

/// Contents of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// All ones, for good: nothing answers on this bus. One piece of memory can
    /// stand for all such runs.
    AllOnes,
    /// A bus with functions on it; [`Change::Update`]s and [`Change::Clear`]s may come.
    /// The pages without a function are all ones and can share memory, too.
    Functions,
}

/// A bus as last reported to the VMM.
#[derive(Debug)]
struct Bus {
    /// Empty while it waits.
    pages: BTreeMap<u8, Page>,
    runs: Vec<Run>,
    /// The price of mapping it, while there is not enough credit: all of it traps.
    waits: Option<u32>,
}

/// A function as last reported to the VMM.
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
            buses: (0..count).map(|_| Bus::unmapped()).collect(),
            version: None,
            credit: Credit::full(AHEAD * MAP_PRICE * count as u32),
            waits: Some(0),
        }
    }

    /// Returns the changes since the last call, and counts one exit in the guest's favour: call it
    /// once for each exit.
    ///
    /// Without a change this costs one comparison; a changed register, one look at
    /// each function; new bus numbers, or a function that came or went, one walk over all
    /// bridges and functions. Pages are built only of functions that changed or moved.
    ///
    /// It must always be given the bridge that it was made from.
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
                // The first time is the VMM's own doing.
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

    /// Returns the functions' pages in a run as last reported: where each starts, and its bytes.
    /// The rest of the run is all ones.
    pub fn pages(&self, run: Run) -> impl Iterator<Item = (u64, &[u8; SIZE])> {
        let offsets = (run.offset..run.offset + run.length).step_by(SIZE);
        offsets.filter_map(|offset| Some((offset, self.page(offset)?.bytes.as_deref()?)))
    }

    /// Fills `to` with the window's contents from `offset` on, as last reported; all ones where it
    /// traps.
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
    /// All of it traps, until it is drawn for nothing.
    const fn unmapped() -> Self {
        Self {
            pages: BTreeMap::new(),
            runs: Vec::new(),
            waits: Some(0),
        }
    }

    /// Draws the bus anew: functions may have come, gone or moved. If that costs more than
    /// the guest `pays`, all of it traps.
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

    /// Whether it shows these functions, as they are now, and no others.
    fn shows(&self, bridge: &HostBridge, mut on_it: impl Iterator<Item = (u8, Reached)>) -> bool {
        let same = |(&at, page): (&u8, &Page)| {
            let next = on_it.next();
            next.is_some_and(|(devfn, reached)| at == devfn && page.shows(bridge, reached))
        };
        self.pages.iter().all(same) && on_it.next().is_none()
    }

    /// Refreshes the functions that have changed since; all of them are where they were.
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

    /// Whether it is that function's, as it is now.
    fn shows(&self, bridge: &HostBridge, reached: Reached) -> bool {
        self.reached == reached && self.version == bridge.tree.version_of(reached.id)
    }

    fn bytes(&self) -> Option<&[u8; SIZE]> {
        self.bytes.as_deref()
    }
}

/// Whether memory cannot stand for this function.
fn traps(bridge: &HostBridge, reached: Reached) -> bool {
    let function = bridge.tree.function(reached.id);
    function.is_none_or(|function| function.is_volatile_below(reached.size))
}

/// The runs around the pages that trap.
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

/// Adds the words that differ, those side by side as one; none, if either page traps.
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

//! Enumeration of functions.

use core::ops::RangeInclusive;

use crate::ari::Ari;
use crate::byte_set::ByteSet;
use crate::one_bus::{Links, OneBus};
use crate::{Address, BusFault, Buses, ConfigAccess, Function, ScanFault};

/// Iterator over all functions of a segment, bus by bus.
///
/// It visits all of a bus, then the buses below it, lower numbers first. If buses are numbered
/// depth first, as firmware does, functions come in the order of their addresses. A fault is
/// reported after its function, and the scan continues without the faulty part.
///
/// It probes further functions of a device only if function 0 reports them. Below a PCI Express
/// port it probes only device 0, because a link has no other, and some devices answer for all 32. A
/// switch port with a wrong type is corrected as in Linux, and reported. A present function takes
/// five accesses, an absent one takes one. A bridge's capabilities are read up to that of PCI
/// Express. Nothing is written, except with [`enabling_ari`](Self::enabling_ari).
///
/// Whatever the devices answer, it visits a bus at most once, with at most 256 steps.
#[derive(Clone, Debug)]
pub struct Scan<'a, A> {
    access: &'a A,
    segment: u32,
    ari: Ari,
    /// Current bus; `None` between two.
    place: Option<OneBus>,
    /// Buses found and not yet visited.
    pending: ByteSet,
    links: Links,
    /// Secondary bus of the innermost bridge that claims each bus.
    owner: [u8; 256],
    /// Last bus that may be below each found bus.
    last: [u8; 256],
    faults: [Option<ScanFault>; 4],
}

impl<'a, A: ConfigAccess> Scan<'a, A> {
    /// Creates a scan of `segment` from the first of `buses`, which is the root bus, to the last at
    /// most.
    ///
    /// A machine with several root buses (host bridges) in a segment needs a scan for each;
    /// firmware lists them.
    pub fn new(access: &'a A, segment: u32, buses: RangeInclusive<u8>) -> Self {
        let (root, last) = (*buses.start(), *buses.end());
        let mut pending = ByteSet::default();
        if !buses.is_empty() {
            pending.insert(root);
        }
        Self {
            access,
            segment,
            ari: Ari::AsFound,
            place: None,
            pending,
            links: Links::default(),
            owner: [root; 256],
            last: [last; 256],
            faults: [None; 4],
        }
    }

    /// Enables ARI forwarding at ports that support it, if the device below uses it. Otherwise its
    /// further functions are found only if firmware has enabled it. Most firmware leaves that to
    /// the kernel.
    #[must_use]
    pub fn enabling_ari(mut self) -> Self {
        self.ari = Ari::Enable;
        self
    }

    fn look(&mut self, mut place: OneBus) -> Option<Result<Function, ScanFault>> {
        let (found, fault) = place.next(self.access)?;
        self.place = Some(place);
        self.faults[0] = fault;
        if let Ok(function) = &found
            && let Some(buses) = function.buses()
        {
            self.enter(function, buses);
        }
        Some(found)
    }

    /// Records the bus below a bridge for a visit, if its numbers are valid.
    fn enter(&mut self, bridge: &Function, buses: Buses) {
        let address = bridge.address;
        let claimed = self.claim(address.bus(), buses);
        self.faults[1] = claimed.err().map(|why| ScanFault::Buses {
            address,
            buses,
            why,
        });
        if !matches!(claimed, Ok(()) | Err(BusFault::Beyond(_))) {
            return;
        }
        self.pending.insert(buses.secondary);
        let on = self.links.of(address.bus());
        let (link, wrong) = on.below(self.access, bridge, buses.secondary, self.ari);
        self.links.note(buses.secondary, link);
        [self.faults[2], self.faults[3]] = wrong;
    }

    fn claim(&mut self, on: u8, buses: Buses) -> Result<(), BusFault> {
        let Buses {
            secondary,
            subordinate,
            ..
        } = buses;
        if secondary == 0 {
            return Err(BusFault::NotAssigned);
        }
        if subordinate < secondary {
            return Err(BusFault::Backwards);
        }
        let most = self.last[usize::from(on)];
        if secondary <= on || secondary > most {
            return Err(BusFault::OutsideParent);
        }
        let last = subordinate.min(most);
        let claimed = &mut self.owner[usize::from(secondary)..=usize::from(last)];
        if claimed.iter().any(|owner| *owner != on) {
            return Err(BusFault::Taken);
        }
        self.last[usize::from(secondary)] = last;
        claimed.fill(secondary);
        if last < subordinate {
            return Err(BusFault::Beyond(last));
        }
        Ok(())
    }

    fn next_bus(&mut self) -> Option<Result<OneBus, ScanFault>> {
        let bus = self.pending.pop_lowest()?;
        let first = Address::from_devfn(self.segment, bus, 0);
        if !self.access.reaches(first, 0) {
            return Some(Err(ScanFault::OutOfReach(first)));
        }
        Some(Ok(OneBus::new(first, self.links.of(bus))))
    }
}

impl<A: ConfigAccess> Iterator for Scan<'_, A> {
    type Item = Result<Function, ScanFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(fault) = self.faults.iter_mut().find_map(Option::take) {
            return Some(Err(fault));
        }
        loop {
            let place = match self.place.take() {
                Some(place) => place,
                None => match self.next_bus()? {
                    Ok(place) => place,
                    Err(fault) => return Some(Err(fault)),
                },
            };
            if let Some(found) = self.look(place) {
                return Some(found);
            }
        }
    }
}

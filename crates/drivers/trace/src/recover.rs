//! Reader of regions: finds the zones in an image, and merges their records by time.

use core::array;

use crate::image::Image;
use crate::layout::{
    FILE, FILE_PATH, HeaderFault, LINE, LONGEST_NAME, REGION_HEADER, REGION_LOST, RegionHeader,
    STOP_WHEN_FULL, ZONE_HEADER, ZoneHeader, valid,
};
use crate::records::{Chunk, Missing, Record, ZoneInfo, ZoneReader};

/// Finds the region at the start of an image.
///
/// Nothing is written or allocated. If the region's header is destroyed, the zones are found by
/// their own headers.
///
/// ```
/// use nostall_trace::{Event, recover};
///
/// # fn print(_: impl core::fmt::Debug) {}
/// # let image = vec![0; 4096];
/// if let Ok(previous) = recover(&image[..]) {
///     for record in previous.merged::<8>().expect("at most 8 CPUs") {
///         print((record.time, record.zone, record.event));
///     }
/// }
/// ```
///
/// # Errors
///
/// [`HeaderFault`] of the region's header, if no zone is found either.
/// [`Version`](HeaderFault::Version) is returned without a search for zones.
pub fn recover<I: Image>(image: I) -> Result<Recovered<I>, HeaderFault> {
    let mut bytes = [0; REGION_HEADER];
    let read = image.read(0, &mut bytes);
    let decoded = match read {
        true => RegionHeader::decode(&bytes),
        false => Err(HeaderFault::Magic),
    };
    let fault = match decoded {
        Ok(header) => return Ok(Recovered::new(image, Some(header), None)),
        Err(fault) => fault,
    };
    if let HeaderFault::Version(_) = fault {
        return Err(fault);
    }
    let (at, zone) = first_zone(&image).ok_or(fault)?;
    let before = u64::from(zone.zone).checked_mul(zone.zone_len());
    let first = before.and_then(|before| at.checked_sub(before));
    // A damaged header is used if a zone confirms it.
    let damaged = RegionHeader::decode_unchecked(&bytes).ok().filter(|it| {
        Some(it.first_zone()) == first && it.zone_len == zone.zone_len() && it.boot == zone.boot
    });
    let found = Found {
        fault,
        first: first.unwrap_or(at),
        // If the zones before it are missing, this one is the first.
        number: if first.is_some() { 0 } else { zone.zone },
        zone,
    };
    Ok(Recovered::new(image, damaged, Some(found)))
}

/// Finds a zone's header. Passes over missing bytes.
fn first_zone(image: &impl Image) -> Option<(u64, ZoneHeader)> {
    let end = image.len().checked_sub(ZONE_HEADER as u64)?;
    (0..=end).step_by(LINE).find_map(|at| {
        let mut bytes = [0; ZONE_HEADER];
        let is_there = image.read(at, &mut bytes);
        let header = is_there.then(|| ZoneHeader::decode(&bytes).ok())?;
        header.map(|header| (at, header))
    })
}

/// A zone that was found without the region's header.
#[derive(Clone, Copy, Debug)]
struct Found {
    fault: HeaderFault,
    first: u64,
    number: u32,
    zone: ZoneHeader,
}

/// A region in an image.
#[derive(Clone, Debug)]
pub struct Recovered<I> {
    image: I,
    header: Option<RegionHeader>,
    found: Option<Found>,
}

impl<I: Image> Recovered<I> {
    const fn new(image: I, header: Option<RegionHeader>, found: Option<Found>) -> Self {
        Self {
            image,
            header,
            found,
        }
    }

    /// Returns the image.
    pub const fn image(&self) -> &I {
        &self.image
    }

    /// Returns the region's header; `None` if it is destroyed.
    pub const fn header(&self) -> Option<&RegionHeader> {
        self.header.as_ref()
    }

    /// Returns the damage of the region's header; `None` if it is intact. With damage, the zones
    /// were found by their own headers.
    pub const fn fault(&self) -> Option<HeaderFault> {
        match &self.found {
            Some(found) => Some(found.fault),
            None => None,
        }
    }

    /// Returns the boot number.
    pub fn boot(&self) -> u64 {
        match (&self.header, &self.found) {
            (Some(header), _) => header.boot,
            (None, Some(found)) => found.zone.boot,
            (None, None) => 0,
        }
    }

    /// Returns the path of the program's file, up to the first zero, stored in `buffer`. Empty for
    /// a kernel, for a path that was too long, and if the region's header is destroyed.
    pub fn file<'b>(&self, buffer: &'b mut [u8; FILE]) -> &'b [u8] {
        let is_there = self.header.is_some() && self.image.read(FILE_PATH as u64, buffer);
        let end = buffer.iter().position(|&byte| byte == 0);
        let len = if is_there { end.unwrap_or(FILE) } else { 0 };
        &buffer[..len]
    }

    /// Returns the number of records of CPUs without a zone.
    pub fn lost_without_zone(&self) -> u64 {
        let mut bytes = [0; 8];
        match &self.header {
            Some(header) if self.image.read(REGION_LOST as u64, &mut bytes) => {
                header.order.u64(bytes)
            }
            _ => 0,
        }
    }

    /// Returns the zones in the image. A zone with a damaged header is included if
    /// [`header`](Self::header) gives its place. Without a region header, it is included if it lies
    /// before the first intact zone. Zones with another boot number are also included: compare
    /// [`ZoneInfo::boot`].
    pub fn zones(&self) -> impl Iterator<Item = ZoneInfo> + '_ {
        let (first, len, count, number) = match (&self.header, &self.found) {
            (Some(header), _) => (header.first_zone(), header.zone_len, header.zones, 0),
            (None, Some(found)) => (found.first, found.zone.zone_len(), u32::MAX, found.number),
            (None, None) => (0, 1, 0, 0),
        };
        let places = (0..count).map(move |i| {
            let at = u64::from(i)
                .checked_mul(len)
                .and_then(|at| at.checked_add(first));
            (at, number.checked_add(i))
        });
        let inside = places.map_while(|(at, number)| Some((at?, number?)));
        let end = self.image.len();
        inside
            .take_while(move |(at, _)| {
                at.checked_add(ZONE_HEADER as u64)
                    .is_some_and(|it| it <= end)
            })
            .filter_map(|(at, number)| self.zone_at(at, number))
    }

    fn zone_at(&self, at: u64, number: u32) -> Option<ZoneInfo> {
        let mut bytes = [0; ZONE_HEADER];
        if !self.image.read(at, &mut bytes) {
            return None;
        }
        let region = self.header.as_ref();
        let slots = match (region, &self.found) {
            (Some(header), _) => header.slots()?,
            (None, Some(found)) => found.zone.slots,
            (None, None) => return None,
        };
        let own = ZoneHeader::decode(&bytes).ok();
        let own = own.filter(|own| own.slots == slots && own.zone == number);
        // Zones before the one found exist, regardless of their headers.
        let implied = self.found.filter(|found| number < found.zone.zone);
        let order = region.map(|header| header.order);
        let order = order.or(implied.map(|found| found.zone.order));
        Some(ZoneInfo {
            order: own.map(|own| own.order).or(order)?,
            at,
            zone: number,
            boot: own.map_or(self.boot(), |own| own.boot),
            bits: slots.ilog2(),
            stop_when_full: region.is_some_and(|header| header.flags & STOP_WHEN_FULL != 0),
            whole: own.is_some(),
        })
    }

    /// Returns the records of one zone, in the order of recording.
    pub fn records(&self, zone: ZoneInfo) -> Records<'_, I> {
        Records {
            reader: ZoneReader::new(&self.image, zone, [0; size_of::<Chunk>()]),
            image: &self.image,
        }
    }

    /// Returns the records of all zones of this boot, merged by time; `None` if there are more than
    /// `ZONES` zones. Each zone takes about 800 bytes of stack.
    pub fn merged<const ZONES: usize>(&self) -> Option<Merged<'_, I, ZONES>> {
        let mut zones = self.zones().filter(|zone| zone.boot == self.boot());
        let lanes = array::from_fn(|_| zones.next().map(|zone| Lane::new(self.records(zone))));
        zones.next().is_none().then_some(Merged { lanes })
    }

    /// Returns the text of a name, stored in `buffer`; `None` if the number has no complete text.
    pub fn name<'b>(&self, number: u32, buffer: &'b mut [u8; LONGEST_NAME]) -> Option<&'b str> {
        let offset = u64::from(number.checked_sub(1)?) * 8;
        let (order, area) = match (&self.header, &self.found) {
            (Some(header), _) => (header.order, u64::from(header.names_len)),
            (None, Some(found)) => {
                let area = found.first.checked_sub(REGION_HEADER as u64);
                (found.zone.order, area?)
            }
            (None, None) => return None,
        };
        let at = REGION_HEADER as u64 + offset;
        let mut len = [0; 4];
        let fits = |end: u64| end <= area;
        if !fits(offset + 4) || !self.image.read(at, &mut len) {
            return None;
        }
        let len = order.u32(len) as usize;
        let bytes = buffer.get_mut(..len).filter(|_| len > 0)?;
        if !fits(offset + 4 + len as u64) {
            return None;
        }
        // Reads whole words, because the image may be live.
        let mut words = [0; LONGEST_NAME + 8];
        let whole = &mut words[..(4 + len).next_multiple_of(8)];
        if !self.image.read(at, whole) {
            return None;
        }
        bytes.copy_from_slice(&whole[4..4 + len]);
        Some(valid(bytes)).filter(|text| !text.is_empty())
    }
}

/// Records of one zone, in the order of recording.
#[derive(Clone, Debug)]
pub struct Records<'a, I> {
    reader: ZoneReader<Chunk>,
    image: &'a I,
}

impl<I> Records<'_, I> {
    /// Returns the numbers of slots without a record, up to the current position.
    pub const fn missing(&self) -> Missing {
        self.reader.missing()
    }
}

impl<I: Image> Iterator for Records<'_, I> {
    type Item = Record;
    fn next(&mut self) -> Option<Record> {
        self.reader.next(self.image)
    }
}

/// A zone in a merge: its next record, and the latest time so far. The time never decreases, even
/// if the clock does.
#[derive(Clone, Debug)]
struct Lane<'a, I> {
    records: Records<'a, I>,
    next: Option<Record>,
    time: u64,
}

impl<'a, I: Image> Lane<'a, I> {
    fn new(mut records: Records<'a, I>) -> Self {
        let next = records.next();
        let time = next.map_or(0, |record| record.time);
        Self {
            records,
            next,
            time,
        }
    }

    fn take(&mut self) -> Option<Record> {
        let taken = core::mem::replace(&mut self.next, self.records.next());
        self.time = self.next.map_or(0, |record| record.time).max(self.time);
        taken
    }
}

/// Records of all zones, merged by time. Each zone's records stay in the order of recording.
#[derive(Clone, Debug)]
pub struct Merged<'a, I, const ZONES: usize> {
    lanes: [Option<Lane<'a, I>>; ZONES],
}

impl<I: Image, const ZONES: usize> Iterator for Merged<'_, I, ZONES> {
    type Item = Record;
    fn next(&mut self) -> Option<Record> {
        let lanes = self.lanes.iter_mut().flatten();
        let earliest = lanes.filter(|lane| lane.next.is_some());
        earliest.min_by_key(|lane| lane.time)?.take()
    }
}

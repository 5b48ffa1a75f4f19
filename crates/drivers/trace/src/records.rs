//! Decoding of one zone's slots to records.

use crate::image::Image;
use crate::layout::{
    FORGOTTEN, HEAD, IN_FLIGHT_SLOTS, Kind, LOST, Meta, OWNED_FROM, OWNER, OWNER_ID, OWNER_NAME,
    Order, PASSED, PENDING_SINCE, Role, SLOT, Short, UNREPORTED, ZONE_HEADER, array, lap,
};

/// A record of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Ticks of the recorder's clock. A gap that the reader found has the time of the record before
    /// it. Without one, it has the time of the record after it, or 0 in an empty zone.
    pub time: u64,
    /// Number of the zone: CPU or thread slot.
    pub zone: u32,
    /// Depth of calls at entries and exits. 255 stands for 255 and more.
    pub depth: u8,
    /// Recorded event.
    pub event: Event,
}

/// Function or scope of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionId {
    /// Address in the function.
    Address(u64),
    /// Number of a [name](crate::Recovered::name).
    Name(u32),
}

/// Recorded event. Names are numbers for [`Recovered::name`](crate::Recovered::name); 0 means
/// unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Event {
    /// A function was entered.
    Enter {
        /// The function.
        function: FunctionId,
        /// Recorded argument.
        argument: Option<u64>,
    },
    /// A function was left.
    Exit {
        /// The function.
        function: FunctionId,
    },
    /// A function was left; its entry has no record of its own.
    Call {
        /// The function.
        function: FunctionId,
        /// Time of the entry in ticks.
        entered: u64,
    },
    /// A wait ended.
    Stall {
        /// Name of the condition.
        condition: u32,
        /// Waiting function.
        place: FunctionId,
        /// Duration in ticks.
        duration: u64,
    },
    /// Sample of a counter.
    Counter {
        /// Name of the counter.
        counter: u32,
        /// New value.
        value: i64,
    },
    /// A task runs from here on.
    Task {
        /// Identifier of the task.
        id: u64,
        /// Name of the task.
        name: u32,
    },
    /// Event without a duration.
    Mark {
        /// Name of the event.
        name: u32,
        /// Recorded value.
        value: Option<u64>,
    },
    /// Records are missing.
    Lost {
        /// Number of records without a slot, and of slots that are overwritten, unwritten or
        /// damaged. A record with arguments has up to three slots.
        records: u64,
    },
}

/// Numbers of slots without a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Slots that newer records reused.
    pub overwritten: u64,
    /// Slots that were reserved but never written, of records in flight.
    pub unwritten: u64,
    /// Slots that newer records passed, because a record of an earlier lap was interrupted.
    pub passed: u64,
    /// Slots with invalid contents.
    pub damaged: u64,
    /// Records whose time is not between those of their neighbours. They are shown with the time of
    /// the record before them. The copy of a live recording may have such times.
    pub doubtful_times: u64,
    /// Records without a slot.
    pub dropped: u64,
}

/// A zone in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneInfo {
    pub(crate) order: Order,
    pub(crate) at: u64,
    /// Number of the zone: CPU or thread slot.
    pub zone: u32,
    /// Boot number.
    pub boot: u64,
    /// Base-2 logarithm of the number of slots.
    pub(crate) bits: u32,
    pub(crate) stop_when_full: bool,
    /// Whether the zone's header is intact. If not, the region's header or another zone's supplies
    /// its length.
    pub whole: bool,
}

impl ZoneInfo {
    fn word(&self, image: &(impl Image + ?Sized), at: usize) -> u64 {
        let mut bytes = [0; 8];
        match image.read(self.at + at as u64, &mut bytes) {
            true => self.order.u64(bytes),
            false => 0,
        }
    }

    /// Returns the identifier of the owner.
    pub fn owner_id(&self, image: &(impl Image + ?Sized)) -> u64 {
        self.word(image, OWNER_ID)
    }

    /// Returns the name of the owner.
    pub fn owner_name(&self, image: &(impl Image + ?Sized)) -> Short<OWNER> {
        let mut bytes = [0; OWNER];
        match image.read(self.at + OWNER_NAME as u64, &mut bytes) {
            true => Short::until_zero(&bytes),
            false => Short::EMPTY,
        }
    }
}

/// Buffer for slots that are read at once, without allocation.
pub(crate) type Chunk = [u8; 32 * SLOT];

/// Number of newest slots that must agree with a head.
const NEWEST: u64 = 32;

/// Reader of one zone. It borrows the image in each call only, so that one owner can have the image
/// and the readers of all its zones. [`Records`](crate::Records) is simpler where a borrow is enough.
///
/// Each call needs the image of the [`ZoneInfo`].
///
/// ```
/// use nostall_trace::layout::SLOT;
/// use nostall_trace::{ZoneReader, recover};
///
/// # let image = vec![0; 4096];
/// if let Ok(region) = recover(&image[..]) {
///     for zone in region.zones() {
///         // As many slots are read at once as the buffer has room for.
///         let mut reader = ZoneReader::new(region.image(), zone, vec![0; 256 * SLOT]);
///         while let Some(record) = reader.next(region.image()) {
///             println!("{} {:?}, {} slots left", record.time, record.event, reader.left());
///         }
///         println!("{} slots are damaged", reader.missing().damaged);
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct ZoneReader<B> {
    info: ZoneInfo,
    missing: Missing,
    /// Index of the next slot.
    next: u64,
    /// Index after the newest slot.
    end: u64,
    /// The image lacks the head, which was found from the laps.
    rebuilt: bool,
    /// Number of slots in the image.
    available: u64,
    chunk: B,
    /// Index of the first slot of `chunk`, and the number of slots in it.
    chunk_at: (u64, u64),
    /// Missing records that are not yet reported.
    lost: u64,
    last_time: Option<u64>,
    held: Option<Record>,
    ended: bool,
    /// Number of slots in the image that were reserved and never written.
    incomplete_slots: u64,
    /// Time of the record before the first of them.
    incomplete_since: Option<u64>,
}

/// Records of a zone that were interrupted and are not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incomplete {
    /// Number of their slots.
    pub slots: u64,
    /// Number of times that newer records passed such a slot.
    pub passed: u64,
    /// Time in ticks: the first of them began about then.
    pub since: u64,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> ZoneReader<B> {
    /// Starts at the oldest record of a zone. `buffer` receives the slots that are read at once. With
    /// less room than a [`SLOT`], every slot counts as unwritten.
    pub fn new(image: &(impl Image + ?Sized), zone: ZoneInfo, buffer: B) -> Self {
        let info = zone;
        let slots = 1 << info.bits;
        let room = image.len().saturating_sub(info.at + ZONE_HEADER as u64);
        let mut cursor = Self {
            info,
            missing: Missing::default(),
            next: 0,
            end: info.word(image, HEAD),
            rebuilt: false,
            available: (room / SLOT as u64).min(slots),
            chunk: buffer,
            chunk_at: (0, 0),
            lost: 0,
            last_time: None,
            held: None,
            ended: false,
            incomplete_slots: 0,
            incomplete_since: None,
        };
        // The head of a live recorder moves.
        if !cursor.agrees(image)
            && cursor.end == info.word(image, HEAD)
            && let Some(head) = cursor.rebuild(image)
        {
            cursor.end = head;
            cursor.rebuilt = true;
        }
        // After a head that was found from the laps, slots may be in flight.
        let in_flight = if cursor.rebuilt { IN_FLIGHT_SLOTS } else { 0 };
        let oldest = cursor.end.saturating_add(in_flight).saturating_sub(slots);
        cursor.pass(oldest);
        cursor
    }

    /// Returns the number of slots that are not yet read.
    pub const fn left(&self) -> u64 {
        self.end.saturating_sub(self.next)
    }

    /// Returns the numbers of slots without a record, up to the current position.
    pub const fn missing(&self) -> Missing {
        self.missing
    }

    /// Returns whether the owner in the zone's header may have written the next slot. An earlier owner
    /// of the zone wrote the slots before.
    pub fn is_owned(&self, image: &(impl Image + ?Sized)) -> bool {
        self.next >= self.info.word(image, OWNED_FROM)
    }

    /// Returns the next record, or the gap before it.
    pub fn next(&mut self, image: &(impl Image + ?Sized)) -> Option<Record> {
        if let Some(held) = self.held.take() {
            return Some(held);
        }
        while let Some((word, meta)) = self.take(image) {
            if meta.is_empty() {
                continue;
            }
            let overwritten = self.missing.overwritten;
            let event = self.decode(image, meta);
            if self.missing.overwritten != overwritten {
                // A live recorder reused the slots of its arguments before they were read. The
                // next slots are those of other records.
                self.pass_record();
                continue;
            }
            let Some(event) = event else {
                // Arguments of a missing record are not counted again.
                if meta.kind() != Some(Kind::Argument) || self.lost == 0 {
                    let orphan = meta.kind() == Some(Kind::Argument) && self.last_time.is_none();
                    self.missing.damaged += u64::from(!orphan);
                    self.lost += u64::from(!orphan);
                }
                continue;
            };
            let time = self.bounded(image, word);
            let record = self.record(time, meta.depth(), event);
            let before = self.last_time.replace(time).unwrap_or(time);
            return Some(self.after_gap(before, record));
        }
        self.at_end(image)
    }

    /// Returns the time of a record, or that of the record before it if its own is doubtful. The times
    /// of a zone never decrease, unless the clock went back for good.
    fn bounded(&mut self, image: &(impl Image + ?Sized), time: u64) -> u64 {
        let Some(before) = self.last_time else {
            return time;
        };
        let is_time = |(_, meta): &(u64, Meta)| meta.kind() != Some(Kind::Argument);
        let after = self.peek(image).filter(is_time).map(|(word, _)| word);
        let is_doubtful = match after {
            Some(after) => before <= after && !(before..=after).contains(&time),
            None => time < before,
        };
        if !is_doubtful {
            return time;
        }
        self.missing.doubtful_times += 1;
        before
    }

    /// Returns the gap at the zone's end, according to its counters.
    fn at_end(&mut self, image: &(impl Image + ?Sized)) -> Option<Record> {
        if !self.ended {
            self.ended = true;
            let counter = match self.info.stop_when_full {
                true => LOST,
                false => UNREPORTED,
            };
            // A damaged header has no counters.
            if self.info.whole && !self.rebuilt {
                let dropped = self.info.word(image, counter);
                self.missing.dropped = self.missing.dropped.saturating_add(dropped);
                self.lost = self.lost.saturating_add(dropped);
            }
        }
        let lost = core::mem::take(&mut self.lost);
        let time = self.last_time.unwrap_or(0);
        (lost > 0).then(|| self.record(time, 0, Event::Lost { records: lost }))
    }

    /// Returns `record`, or the gap before it; the record then comes next.
    fn after_gap(&mut self, time: u64, record: Record) -> Record {
        let lost = core::mem::take(&mut self.lost);
        if lost == 0 {
            return record;
        }
        self.held = Some(record);
        self.record(time, 0, Event::Lost { records: lost })
    }

    fn record(&self, time: u64, depth: u8, event: Event) -> Record {
        Record {
            time,
            zone: self.info.zone,
            depth,
            event,
        }
    }

    /// Decodes a slot and takes its arguments.
    fn decode(&mut self, image: &(impl Image + ?Sized), meta: Meta) -> Option<Event> {
        let name = meta.low() as u32;
        Some(match meta.kind()? {
            Kind::Enter => Event::Enter {
                function: FunctionId::Address(meta.address()),
                argument: self.argument(image, Role::Argument),
            },
            Kind::EnterName => Event::Enter {
                function: FunctionId::Name(name),
                argument: self.argument(image, Role::Argument),
            },
            Kind::Exit => Event::Exit {
                function: FunctionId::Address(meta.address()),
            },
            Kind::ExitName => Event::Exit {
                function: FunctionId::Name(name),
            },
            Kind::Call => Event::Call {
                function: FunctionId::Address(meta.address()),
                entered: self.argument(image, Role::Entered)?,
            },
            Kind::CallName => Event::Call {
                function: FunctionId::Name(name),
                entered: self.argument(image, Role::Entered)?,
            },
            Kind::Stall => Event::Stall {
                condition: name,
                duration: self.argument(image, Role::Duration)?,
                place: match self.argument(image, Role::PlaceName) {
                    Some(name) => FunctionId::Name(name as u32),
                    None => FunctionId::Address(self.argument(image, Role::PlaceAddress)?),
                },
            },
            Kind::Counter => Event::Counter {
                counter: name,
                value: self.argument(image, Role::Value)? as i64,
            },
            Kind::Task => Event::Task {
                id: meta.low(),
                name: self.argument(image, Role::TaskName).unwrap_or(0) as u32,
            },
            Kind::Mark => Event::Mark {
                name,
                value: self.argument(image, Role::Argument),
            },
            Kind::Lost => {
                self.missing.dropped = self.missing.dropped.saturating_add(meta.low());
                Event::Lost {
                    records: meta.low(),
                }
            }
            Kind::Argument | Kind::Pending => return None,
        })
    }

    /// Takes the next slot if it is an argument of this role.
    #[inline]
    fn argument(&mut self, image: &(impl Image + ?Sized), role: Role) -> Option<u64> {
        let (word, meta) = self.peek(image)?;
        let fits = meta.kind() == Some(Kind::Argument) && Role::decode(meta.low()) == Some(role);
        self.next += u64::from(fits);
        fits.then_some(word)
    }

    /// Takes the next written slot. Unwritten ones before it are counted.
    fn take(&mut self, image: &(impl Image + ?Sized)) -> Option<(u64, Meta)> {
        while self.next < self.end {
            match self.peek(image) {
                Some(slot) => {
                    self.next += 1;
                    return Some(slot);
                }
                None if self.next >= self.end => break,
                None if self.is_passed(image) => {
                    self.missing.passed += 1;
                    self.next += 1;
                }
                None => {
                    if self.next & ((1 << self.info.bits) - 1) < self.available {
                        self.incomplete_slots += 1;
                        self.incomplete_since
                            .get_or_insert(self.last_time.unwrap_or(0));
                    }
                    let count = self.unreadable();
                    self.missing.unwritten = self.missing.unwritten.saturating_add(count);
                    self.lost = self.lost.saturating_add(count);
                    self.next += count;
                }
            }
        }
        None
    }

    /// Returns whether newer records passed the next slot, because a record of an earlier lap has
    /// it. A record that was forgotten has it no more.
    fn is_passed(&mut self, image: &(impl Image + ?Sized)) -> bool {
        let position = self.next & ((1 << self.info.bits) - 1);
        let own = Meta::new(Kind::Pending, self.next, 0).low();
        let reserved = self.meta_at(image, position).pending();
        reserved.is_some_and(|it| it != own && it >= self.info.word(image, FORGOTTEN))
    }

    /// Returns the zone's incomplete records among those read; `None` if there are none.
    pub fn incomplete(&self, image: &(impl Image + ?Sized)) -> Option<Incomplete> {
        let passed = self.missing.passed;
        Some(Incomplete {
            since: match passed {
                0 => self.incomplete_since?,
                _ => self.info.word(image, PENDING_SINCE),
            },
            slots: self.incomplete_slots + passed,
            passed: self.info.word(image, PASSED),
        })
    }

    /// Returns the number of slots from the next one on that the image lacks, at least 1.
    fn unreadable(&self) -> u64 {
        let slots = 1u64 << self.info.bits;
        let position = self.next & (slots - 1);
        let rest = match position >= self.available {
            true => slots - position,
            false => 1,
        };
        rest.min(self.end - self.next)
    }

    /// Returns the next slot if it was written.
    #[inline]
    fn peek(&mut self, image: &(impl Image + ?Sized)) -> Option<(u64, Meta)> {
        if self.next >= self.end {
            return None;
        }
        let (from, count) = self.chunk_at;
        if self.next < from || self.next >= from + count {
            self.fill(image)?;
        }
        let at = (self.next - self.chunk_at.0) as usize * SLOT;
        let chunk = self.chunk.as_ref();
        let word = self.info.order.u64(array(chunk, at));
        let meta = Meta(self.info.order.u64(array(chunk, at + 8)));
        (meta.lap() == lap(self.next, self.info.bits)).then_some((word, meta))
    }

    /// Reads slots from the next one on. Slots that a recorder overwrites meanwhile are skipped.
    #[cold]
    fn fill(&mut self, image: &(impl Image + ?Sized)) -> Option<()> {
        let slots = 1u64 << self.info.bits;
        let room = (self.chunk.as_ref().len() / SLOT) as u64;
        loop {
            let position = self.next & (slots - 1);
            let left = self.available.checked_sub(position)?;
            let count = left.min(room).min(self.end - self.next);
            let at = self.info.at + (ZONE_HEADER as u64) + position * SLOT as u64;
            let mut read = |count| {
                image
                    .read(at, self.chunk.as_mut().get_mut(..count * SLOT)?)
                    .then_some(count as u64)
            };
            // If part of the image is missing, the slots before it are read one by one.
            let count = match count as usize {
                0 => return None,
                count => read(count).or_else(|| read(1))?,
            };
            self.chunk_at = (self.next, count);
            // A record reserves its slots before it writes them. If the head has not passed these
            // slots yet, they were not overwritten when they were read.
            let head = match self.rebuilt {
                true => self.end,
                false => self.info.word(image, HEAD).max(self.end),
            };
            let oldest = head.saturating_sub(slots);
            if oldest <= self.next {
                return Some(());
            }
            self.pass(oldest);
            if self.next >= self.end {
                return None;
            }
        }
    }

    /// Continues at index `to`, or at the end. The slots before were overwritten.
    fn pass(&mut self, to: u64) {
        let to = to.min(self.end);
        let passed = to.saturating_sub(self.next);
        self.missing.overwritten = self.missing.overwritten.saturating_add(passed);
        self.lost = self.lost.saturating_add(passed);
        self.next = to;
    }

    /// Counts a record that was read in part, and whose rest was overwritten.
    #[cold]
    fn pass_record(&mut self) {
        self.missing.overwritten = self.missing.overwritten.saturating_add(1);
        self.lost = self.lost.saturating_add(1);
    }

    /// Returns whether the head agrees with the laps of the newest slots: all except those in
    /// flight are written. In the first lap, the slot after them is not.
    fn agrees(&mut self, image: &(impl Image + ?Sized)) -> bool {
        let slots = 1u64 << self.info.bits;
        if self.end < slots && self.meta_at(image, self.end).lap() != 0 {
            return false;
        }
        let newest = self.end.min(slots).min(NEWEST);
        let mut written = 0;
        for index in self.end - newest..self.end {
            let meta = self.meta_at(image, index & (slots - 1));
            // A slot with a mark was passed.
            let is_marked = meta.pending().is_some();
            written += u64::from(is_marked || meta.lap() == lap(index, self.info.bits));
        }
        written + IN_FLIGHT_SLOTS >= newest
    }

    /// Finds the head from the laps; `None` if there is no written slot.
    fn rebuild(&mut self, image: &(impl Image + ?Sized)) -> Option<u64> {
        let slots = 1u64 << self.info.bits;
        let mut counts = [0u64; 16];
        let mut last = [0u64; 16];
        for position in 0..self.available {
            let lap = self.meta_at(image, position).lap() as usize;
            counts[lap] += 1;
            last[lap] = position;
        }
        let before = |lap: usize| if lap == 1 { 15 } else { lap - 1 };
        let newest = (1..16)
            .filter(|&lap| counts[lap] > 0)
            .max_by_key(|&lap| (counts[lap] + counts[before(lap)], last[before(lap)]))?;
        let laps = match (newest, counts[15]) {
            (1, 1..) => 15,
            _ => newest as u64 - 1,
        };
        Some(laps * slots + last[newest] + 1)
    }

    /// Reads a slot's meta word.
    fn meta_at(&mut self, image: &(impl Image + ?Sized), position: u64) -> Meta {
        let at = self.info.at + (ZONE_HEADER + 8) as u64 + position * SLOT as u64;
        let mut bytes = [0; 8];
        match image.read(at, &mut bytes) {
            true => Meta(self.info.order.u64(bytes)),
            false => Meta::default(),
        }
    }
}

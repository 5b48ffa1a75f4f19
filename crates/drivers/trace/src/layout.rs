//! Layout of a region in memory: pure encoding and decoding, without any access to memory.
//!
//! A region is a header, a names area, and zones of equal length. All lengths and offsets are
//! multiples of 64 bytes, and the region's start is aligned to 64 bytes. Words have the writer's
//! byte order. A reader learns the order from the magic.
//!
//! ```text
//! +---------------+------------+--------------------------+--------------------------+--
//! | region header | names area | zone 0: header | slots   | zone 1: header | slots   | ...
//! | 512 bytes     |            |         128 B  | 16 B n  |                          |
//! +---------------+------------+--------------------------+--------------------------+--
//! ```
//!
//! # Region header
//!
//! | offset | field |
//! | --- | --- |
//! | 0x00 | u64 magic: the letters `NOSTRACE` on a little-endian machine, `ECARTSON` on a big-endian one |
//! | 0x08 | u32 version, 1 |
//! | 0x0c | u32 length of this header, 512: the names area begins there |
//! | 0x10 | u64 length of the region |
//! | 0x18 | u32 number of zones |
//! | 0x1c | u32 flags: [`STOP_WHEN_FULL`], [`ZONES_OF_THREADS`] |
//! | 0x20 | u64 length of a zone with its header |
//! | 0x28 | u64 ticks per second; 0: unknown |
//! | 0x30 | u64 ticks at the epoch |
//! | 0x38 | u64 the epoch in nanoseconds since 1970; 0: none |
//! | 0x40 | u64 address at which the anchor symbol ran; 0: none |
//! | 0x48 | u64 address for which the anchor symbol was linked |
//! | 0x50 | u64 boot number: tells recordings apart |
//! | 0x58 | u32 length of the build ID |
//! | 0x5c | u32 length of the names area |
//! | 0x60 | 32 bytes of build ID |
//! | 0x80 | 64 bytes: name of the kernel or program, UTF-8, padded with zeros |
//! | 0xc0 | u32 CRC-32C of the 192 bytes before it |
//! | 0xc8 | u64 bytes used in the names area (changes) |
//! | 0xd0 | u64 records lost without a zone (changes) |
//! | 0xd8 | u64 1: frozen (changes) |
//! | 0x100 | 256 bytes: path of the program's file, padded with zeros; empty: unknown. No checksum covers it |
//!
//! # Names area
//!
//! Entries of {u32 length, bytes}, each padded to 8 bytes. While the bytes are written, bit 31 of the
//! length is set. If the writing was cut, it stays set, or all of the entry is zeros. A name's
//! number is its offset in the area / 8 + 1. Number 0 is no name.
//!
//! # Zone
//!
//! | offset | field |
//! | --- | --- |
//! | 0x00 | u64 magic: the letters `NOSTZONE`, or `ENOZTSON` |
//! | 0x08 | u32 version, 1 |
//! | 0x0c | u32 number of the zone: CPU or thread slot |
//! | 0x10 | u64 boot number |
//! | 0x18 | u32 number of slots, a power of two |
//! | 0x1c | u32 CRC-32C of the 28 bytes before it |
//! | 0x20 | u64 owner's id: thread id (changes) |
//! | 0x28 | 24 bytes: owner's name (changes) |
//! | 0x40 | u64 head: number of slots reserved since the start (changes) |
//! | 0x48 | u64 records lost (changes) |
//! | 0x50 | u64 index before which no record can be completed any more (changes) |
//! | 0x58 | u64 records lost for which no slot was written yet (changes) |
//! | 0x60 | u64 depth of calls (changes) |
//! | 0x68 | u64 head when the owner got the zone: older records are of other owners (changes) |
//! | 0x70 | u64 time after the first record that was interrupted for more than a lap; 0: none (changes) |
//! | 0x78 | u64 times that a slot was passed because its record was interrupted (changes) |
//! | 0x80 | slots |
//!
//! # Slot
//!
//! A slot is {u64 word, u64 meta}. The word is a time or a value. Bits of `meta`:
//!
//! | bits | field |
//! | --- | --- |
//! | 0..48 | address, number of a name, task id, or the [role](Role) of an argument |
//! | 48..52 | lap: index / slots % 15 + 1. 0: never written |
//! | 52..56 | [kind](Kind) |
//! | 56..64 | depth of calls, at most 255 |
//!
//! A record is one slot, followed by the argument slots of its kind. Their places are reserved
//! together, and the first slot is written last: if it is there, so are its arguments. A slot
//! with another lap than its index demands was reserved and never written. It stays reserved until
//! its record is completed or forgotten: later laps pass it.
//!
//! An address has 48 bits. A reader extends its sign on 64-bit machines, as x86-64 and RISC-V do.

use core::fmt;

/// Length of the region header in bytes.
pub const REGION_HEADER: usize = 512;
/// Length of a zone's header in bytes.
pub const ZONE_HEADER: usize = 128;
/// Length of a slot in bytes.
pub const SLOT: usize = 16;
/// Alignment of a region, its names area and its zones, in bytes. No two zones share such a line.
pub const LINE: usize = 64;
/// Version of the layout.
pub const VERSION: u32 = 1;
/// Smallest number of slots in a zone: more than [`IN_FLIGHT_SLOTS`].
pub const LEAST_SLOTS: u32 = 16;
/// Maximum number of slots in flight: three each of a task, a soft interrupt, an interrupt and an
/// NMI. With more, a reader considers the head damaged.
pub const IN_FLIGHT_SLOTS: u64 = 12;
/// Longest build ID in bytes.
pub const BUILD_ID: usize = 32;
/// Longest name of a kernel or program in bytes.
pub const PROGRAM: usize = 64;
/// Longest path of a program's file in bytes. A longer one is not stored.
pub const FILE: usize = 256;
/// Longest name of a zone's owner in bytes.
pub const OWNER: usize = 24;
/// Longest name in the names area in bytes. A longer one is truncated between characters.
pub const LONGEST_NAME: usize = 256;

/// Flag of a region: recording ends when a zone is full.
pub const STOP_WHEN_FULL: u32 = 1;
/// Flag of a region: zones belong to threads, not to CPUs.
pub const ZONES_OF_THREADS: u32 = 2;

/// Offset of the number of bytes used in the names area.
pub const NAMES_USED: usize = 0xc8;
/// Offset of the number of records lost without a zone.
pub const REGION_LOST: usize = 0xd0;
/// Offset of the word that is 1 while the region is frozen.
pub const FROZEN: usize = 0xd8;

/// Offset of the path of the program's file.
pub const FILE_PATH: usize = 0x100;

/// Offset of a zone's owner id.
pub const OWNER_ID: usize = 0x20;
/// Offset of a zone's owner name.
pub const OWNER_NAME: usize = 0x28;
/// Offset of a zone's head.
pub const HEAD: usize = 0x40;
/// Offset of a zone's number of lost records.
pub const LOST: usize = 0x48;
/// Offset of the index before which no record can be completed any more.
pub const FORGOTTEN: usize = 0x50;
/// Offset of the number of lost records without a slot.
pub const UNREPORTED: usize = 0x58;
/// Offset of the depth of calls.
pub const DEPTH: usize = 0x60;
/// Offset of the head when the owner got the zone.
pub const OWNED_FROM: usize = 0x68;
/// Offset of the time after the first record that was interrupted for more than a lap.
pub const PENDING_SINCE: usize = 0x70;
/// Offset of the number of times that a slot was passed because its record was interrupted.
pub const PASSED: usize = 0x78;

const REGION_MAGIC: u64 = u64::from_le_bytes(*b"NOSTRACE");
const ZONE_MAGIC: u64 = u64::from_le_bytes(*b"NOSTZONE");
const REGION_CRC: usize = 0xc0;
const ZONE_CRC: usize = 0x1c;

/// Byte order of the machine that wrote a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Lowest byte first.
    Little,
    /// Highest byte first.
    Big,
}

impl Order {
    /// Order of this machine.
    pub const NATIVE: Self = if cfg!(target_endian = "big") {
        Self::Big
    } else {
        Self::Little
    };

    /// Decodes a word of 64 bits.
    #[inline]
    pub const fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }

    /// Decodes a word of 32 bits.
    #[inline]
    pub const fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    const fn bytes64(self, word: u64) -> [u8; 8] {
        match self {
            Self::Little => word.to_le_bytes(),
            Self::Big => word.to_be_bytes(),
        }
    }

    const fn bytes32(self, word: u32) -> [u8; 4] {
        match self {
            Self::Little => word.to_le_bytes(),
            Self::Big => word.to_be_bytes(),
        }
    }

    /// Returns the order in which `bytes` are this magic.
    const fn of_magic(bytes: [u8; 8], magic: u64) -> Option<Self> {
        if u64::from_le_bytes(bytes) == magic {
            Some(Self::Little)
        } else if u64::from_be_bytes(bytes) == magic {
            Some(Self::Big)
        } else {
            None
        }
    }
}

/// A short text or identifier in a header.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Short<const N: usize> {
    bytes: [u8; N],
    len: u8,
}

impl<const N: usize> Short<N> {
    /// The empty text.
    pub const EMPTY: Self = Self {
        bytes: [0; N],
        len: 0,
    };

    /// Stores the first `N` bytes.
    pub fn new(bytes: &[u8]) -> Self {
        let mut short = Self::EMPTY;
        for (to, from) in short.bytes.iter_mut().zip(bytes) {
            *to = *from;
        }
        short.len = bytes.len().min(N).min(255) as u8;
        short
    }

    /// Stores a text of at most `N` bytes. A longer one is truncated between characters.
    pub fn text(text: &str) -> Self {
        Self::new(&text.as_bytes()[..text.floor_char_boundary(N)])
    }

    /// Returns the bytes up to the first zero.
    pub(crate) fn until_zero(bytes: &[u8]) -> Self {
        let len = bytes.iter().position(|&byte| byte == 0);
        Self::new(&bytes[..len.unwrap_or(bytes.len())])
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// Returns the text before the first byte that is not UTF-8.
    pub fn as_str(&self) -> &str {
        valid(self.as_bytes())
    }
}

impl<const N: usize> Default for Short<N> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<const N: usize> fmt::Debug for Short<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}

/// Returns the text before the first byte that is not UTF-8.
pub(crate) fn valid(bytes: &[u8]) -> &str {
    bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}

/// Fields of a region's header that do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionHeader {
    /// Byte order of the writer.
    pub order: Order,
    /// Length of the region in bytes.
    pub len: u64,
    /// Number of zones.
    pub zones: u32,
    /// [`STOP_WHEN_FULL`], [`ZONES_OF_THREADS`].
    pub flags: u32,
    /// Length of a zone with its header in bytes.
    pub zone_len: u64,
    /// Ticks of the clock per second; 0 if unknown.
    pub ticks_per_second: u64,
    /// Ticks at the epoch.
    pub epoch_ticks: u64,
    /// The epoch in nanoseconds since 1970; 0 if there is none.
    pub epoch_nanos: u64,
    /// Address at which the anchor symbol ran; 0 if there is none.
    pub anchor_ran: u64,
    /// Address for which the anchor symbol was linked.
    pub anchor_linked: u64,
    /// Number that distinguishes recordings.
    pub boot: u64,
    /// Length of the names area in bytes.
    pub names_len: u32,
    /// Build ID of the kernel or program.
    pub build_id: Short<BUILD_ID>,
    /// Name of the kernel or program.
    pub program: Short<PROGRAM>,
}

/// Reason why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderFault {
    /// The magic is missing.
    Magic,
    /// The layout has another version.
    Version(u32),
    /// The checksum is wrong.
    Checksum,
    /// The fields contradict each other.
    Geometry,
}

impl fmt::Display for HeaderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => f.write_str("no trace region: the magic is missing"),
            Self::Version(version) => write!(
                f,
                "a trace region of version {version}: this reader knows version {VERSION}"
            ),
            Self::Checksum => f.write_str("a trace header with a wrong checksum"),
            Self::Geometry => f.write_str("a trace header with impossible lengths"),
        }
    }
}

impl core::error::Error for HeaderFault {}

impl RegionHeader {
    /// Encodes the fields, with the checksum. The rest of the header is zeros.
    pub fn encode(&self) -> [u8; REGION_HEADER] {
        let mut out = [0; REGION_HEADER];
        let mut put = Put(&mut out, self.order);
        put.u64(0x00, REGION_MAGIC);
        put.u32(0x08, VERSION);
        put.u32(0x0c, REGION_HEADER as u32);
        put.u64(0x10, self.len);
        put.u32(0x18, self.zones);
        put.u32(0x1c, self.flags);
        put.u64(0x20, self.zone_len);
        put.u64(0x28, self.ticks_per_second);
        put.u64(0x30, self.epoch_ticks);
        put.u64(0x38, self.epoch_nanos);
        put.u64(0x40, self.anchor_ran);
        put.u64(0x48, self.anchor_linked);
        put.u64(0x50, self.boot);
        put.u32(0x58, u32::from(self.build_id.len));
        put.u32(0x5c, self.names_len);
        put.bytes(0x60, &self.build_id.bytes);
        put.bytes(0x80, &self.program.bytes);
        let crc = crc32c(&out[..REGION_CRC]);
        Put(&mut out, self.order).u32(REGION_CRC, crc);
        out
    }

    /// Decodes a header.
    ///
    /// # Errors
    ///
    /// [`HeaderFault`] if the bytes are no valid header. If only the checksum is wrong,
    /// [`decode_unchecked`](Self::decode_unchecked) still decodes it.
    pub fn decode(bytes: &[u8; REGION_HEADER]) -> Result<Self, HeaderFault> {
        let header = Self::decode_unchecked(bytes)?;
        let stored = Get(bytes, header.order).u32(REGION_CRC);
        match stored == crc32c(&bytes[..REGION_CRC]) {
            true => Ok(header),
            false => Err(HeaderFault::Checksum),
        }
    }

    /// Decodes a header without checking its checksum.
    ///
    /// # Errors
    ///
    /// [`HeaderFault`] except [`Checksum`](HeaderFault::Checksum).
    pub fn decode_unchecked(bytes: &[u8; REGION_HEADER]) -> Result<Self, HeaderFault> {
        let magic = array(bytes, 0);
        let order = Order::of_magic(magic, REGION_MAGIC).ok_or(HeaderFault::Magic)?;
        let get = Get(bytes, order);
        if get.u32(0x08) != VERSION {
            return Err(HeaderFault::Version(get.u32(0x08)));
        }
        let header = Self {
            order,
            len: get.u64(0x10),
            zones: get.u32(0x18),
            flags: get.u32(0x1c),
            zone_len: get.u64(0x20),
            ticks_per_second: get.u64(0x28),
            epoch_ticks: get.u64(0x30),
            epoch_nanos: get.u64(0x38),
            anchor_ran: get.u64(0x40),
            anchor_linked: get.u64(0x48),
            boot: get.u64(0x50),
            names_len: get.u32(0x5c),
            build_id: Short::new(&bytes[0x60..0x60 + (get.u32(0x58) as usize).min(BUILD_ID)]),
            program: Short::until_zero(&bytes[0x80..REGION_CRC]),
        };
        let fits = get.u32(0x0c) as usize == REGION_HEADER && header.is_sound();
        fits.then_some(header).ok_or(HeaderFault::Geometry)
    }

    /// Returns whether the lengths are consistent.
    fn is_sound(&self) -> bool {
        let zones = u64::from(self.zones).checked_mul(self.zone_len);
        let end = zones.and_then(|zones| zones.checked_add(self.first_zone()));
        self.zones > 0
            && self.slots().is_some()
            && self.names_len.is_multiple_of(LINE as u32)
            && end.is_some_and(|end| end <= self.len)
    }

    /// Returns the number of slots of a zone; `None` if the zone's length is impossible.
    pub fn slots(&self) -> Option<u32> {
        let bytes = self.zone_len.checked_sub(ZONE_HEADER as u64)?;
        let slots = u32::try_from(bytes / SLOT as u64).ok()?;
        let whole = bytes.is_multiple_of(SLOT as u64);
        (whole && slots.is_power_of_two() && slots >= LEAST_SLOTS).then_some(slots)
    }

    /// Returns the offset of the first zone.
    pub fn first_zone(&self) -> u64 {
        REGION_HEADER as u64 + u64::from(self.names_len)
    }
}

/// Fields of a zone's header that do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneHeader {
    /// Byte order of the writer.
    pub order: Order,
    /// Number of the CPU or thread slot.
    pub zone: u32,
    /// Number that distinguishes recordings.
    pub boot: u64,
    /// Number of slots.
    pub slots: u32,
}

impl ZoneHeader {
    /// Encodes the fields, with the checksum. The rest of the header is zeros.
    pub fn encode(&self) -> [u8; ZONE_HEADER] {
        let mut out = [0; ZONE_HEADER];
        let mut put = Put(&mut out, self.order);
        put.u64(0x00, ZONE_MAGIC);
        put.u32(0x08, VERSION);
        put.u32(0x0c, self.zone);
        put.u64(0x10, self.boot);
        put.u32(0x18, self.slots);
        let crc = crc32c(&out[..ZONE_CRC]);
        Put(&mut out, self.order).u32(ZONE_CRC, crc);
        out
    }

    /// Decodes a header.
    ///
    /// # Errors
    ///
    /// [`HeaderFault`] if the bytes are no valid header.
    pub fn decode(bytes: &[u8; ZONE_HEADER]) -> Result<Self, HeaderFault> {
        let magic = array(bytes, 0);
        let order = Order::of_magic(magic, ZONE_MAGIC).ok_or(HeaderFault::Magic)?;
        let get = Get(bytes, order);
        if get.u32(0x08) != VERSION {
            return Err(HeaderFault::Version(get.u32(0x08)));
        }
        if get.u32(ZONE_CRC) != crc32c(&bytes[..ZONE_CRC]) {
            return Err(HeaderFault::Checksum);
        }
        let header = Self {
            order,
            zone: get.u32(0x0c),
            boot: get.u64(0x10),
            slots: get.u32(0x18),
        };
        let sound = header.slots.is_power_of_two() && header.slots >= LEAST_SLOTS;
        sound.then_some(header).ok_or(HeaderFault::Geometry)
    }

    /// Returns the length of the zone with its header in bytes.
    pub const fn zone_len(&self) -> u64 {
        ZONE_HEADER as u64 + self.slots as u64 * SLOT as u64
    }
}

/// Kind of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Entry of the function at an address. The word is the time.
    Enter = 1,
    /// Exit from the function at an address.
    Exit = 2,
    /// Entry of a function or scope with a name.
    EnterName = 3,
    /// Exit from a function or scope with a name.
    ExitName = 4,
    /// Value of the preceding record. The low bits are its [`Role`].
    Argument = 5,
    /// Wait for a named condition. The word is the time of its end. Arguments:
    /// [`Duration`](Role::Duration), then [`PlaceName`](Role::PlaceName) or
    /// [`PlaceAddress`](Role::PlaceAddress).
    Stall = 6,
    /// Sample of a named counter. Argument: [`Value`](Role::Value).
    Counter = 7,
    /// The task with this id runs from here on. Argument: [`TaskName`](Role::TaskName), if it has a
    /// name.
    Task = 8,
    /// Records are missing. The word is the time; the low bits are their number. With 0, the slot
    /// was passed: it has no record.
    Lost = 9,
    /// Whole call of the function at an address. The word is the time of the exit. Argument:
    /// [`Entered`](Role::Entered).
    Call = 10,
    /// Whole call of a function or scope with a name.
    CallName = 11,
    /// Named event.
    Mark = 12,
    /// Mark of a later lap in a slot that was reserved and never written. It has no lap. The low
    /// bits are the index for which the slot was reserved; the depth counts the marks.
    Pending = 13,
}

impl Kind {
    /// Decodes bits 52 to 55 of a slot's meta word.
    pub const fn decode(bits: u8) -> Option<Self> {
        Some(match bits {
            1 => Self::Enter,
            2 => Self::Exit,
            3 => Self::EnterName,
            4 => Self::ExitName,
            5 => Self::Argument,
            6 => Self::Stall,
            7 => Self::Counter,
            8 => Self::Task,
            9 => Self::Lost,
            10 => Self::Call,
            11 => Self::CallName,
            12 => Self::Mark,
            13 => Self::Pending,
            _ => return None,
        })
    }
}

/// Meaning of an argument slot's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// Argument of a function, or of a mark.
    Argument = 0,
    /// Duration of a stall in ticks.
    Duration = 1,
    /// Number of the name of the waiting place.
    PlaceName = 2,
    /// Address of the waiting place.
    PlaceAddress = 3,
    /// Value of a counter.
    Value = 4,
    /// Number of the name of a task.
    TaskName = 5,
    /// Time of the entry of a whole call.
    Entered = 6,
}

impl Role {
    /// Decodes the low bits of an argument slot's meta word.
    pub const fn decode(bits: u64) -> Option<Self> {
        Some(match bits {
            0 => Self::Argument,
            1 => Self::Duration,
            2 => Self::PlaceName,
            3 => Self::PlaceAddress,
            4 => Self::Value,
            5 => Self::TaskName,
            6 => Self::Entered,
            _ => return None,
        })
    }
}

const LOW: u64 = (1 << 48) - 1;
const LAPS: u64 = 15;

/// Meta word of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta(pub u64);

impl Meta {
    /// Creates the meta word of a slot, without a lap. Only the low 48 bits of `low` are kept.
    #[inline]
    pub const fn new(kind: Kind, low: u64, depth: u64) -> Self {
        let depth = if depth > 255 { 255 } else { depth };
        Self(low & LOW | (kind as u64) << 52 | depth << 56)
    }

    /// Creates the meta word of an argument slot, without a lap.
    #[inline]
    pub const fn argument(role: Role) -> Self {
        Self::new(Kind::Argument, role as u64, 0)
    }

    /// Adds the lap of the slot with this index, in a zone of 2^`bits` slots.
    #[inline]
    pub const fn with_lap(self, index: u64, bits: u32) -> Self {
        Self(self.0 | lap(index, bits) << 48)
    }

    /// Returns the lap; 0 if the slot was never written.
    #[inline]
    pub const fn lap(self) -> u64 {
        self.0 >> 48 & 15
    }

    /// Returns the kind; `None` if the number is undefined.
    #[inline]
    pub const fn kind(self) -> Option<Kind> {
        Kind::decode((self.0 >> 52 & 15) as u8)
    }

    /// Returns the index (its low 48 bits) for which a slot with a [mark](Kind::Pending) was
    /// reserved; `None` without one.
    pub(crate) fn pending(self) -> Option<u64> {
        (self.lap() == 0 && self.kind() == Some(Kind::Pending)).then_some(self.low())
    }

    /// Returns whether a slot with this meta word was [passed](Kind::Lost): it has no record.
    pub(crate) fn is_empty(self) -> bool {
        self.kind() == Some(Kind::Lost) && self.low() == 0
    }

    /// Returns the address, number or role.
    #[inline]
    pub const fn low(self) -> u64 {
        self.0 & LOW
    }

    /// Returns the address, with its sign extended.
    #[inline]
    pub const fn address(self) -> u64 {
        ((self.0 << 16) as i64 >> 16) as u64
    }

    /// Returns the depth of calls. 255 stands for 255 and more.
    #[inline]
    pub const fn depth(self) -> u8 {
        (self.0 >> 56) as u8
    }
}

/// Returns the lap of the slot with this index, in a zone of 2^`bits` slots.
#[inline]
pub const fn lap(index: u64, bits: u32) -> u64 {
    (index >> bits) % LAPS + 1
}

/// Returns the CRC-32C (RFC 3720, appendix B.4), computed bit by bit because headers are short.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| crc >> 1 ^ 0x82f6_3b78 & 0u32.wrapping_sub(crc & 1);
    !bytes
        .iter()
        .fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
}

/// Writer of a header's fields.
struct Put<'a>(&'a mut [u8], Order);

impl Put<'_> {
    fn bytes(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }
    fn u32(&mut self, at: usize, value: u32) {
        self.bytes(at, &self.1.bytes32(value));
    }
    fn u64(&mut self, at: usize, value: u64) {
        self.bytes(at, &self.1.bytes64(value));
    }
}

/// Reader of a header's fields.
struct Get<'a>(&'a [u8], Order);

impl Get<'_> {
    fn u32(&self, at: usize) -> u32 {
        self.1.u32(array::<4>(self.0, at))
    }
    fn u64(&self, at: usize) -> u64 {
        self.1.u64(array::<8>(self.0, at))
    }
}

/// Returns `N` bytes from `at` on. Bytes beyond the end are zeros.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let found = bytes.get(at..).and_then(<[u8]>::first_chunk);
    found.copied().unwrap_or([0; N])
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    fn header(order: Order) -> RegionHeader {
        RegionHeader {
            order,
            len: 1 << 20,
            zones: 3,
            flags: STOP_WHEN_FULL,
            zone_len: 128 + 16 * 64,
            ticks_per_second: 2_400_000_000,
            epoch_ticks: 7,
            epoch_nanos: 8,
            anchor_ran: 0xffff_ffff_8100_0000,
            anchor_linked: 0xffff_ffff_8000_0000,
            boot: 42,
            names_len: 640,
            build_id: Short::new(&[1, 0, 2]),
            program: Short::text("a kernel"),
        }
    }

    #[test]
    fn the_checksum_matches_rfc_3720() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn a_header_has_its_fields_at_the_documented_offsets() {
        let bytes = header(Order::Little).encode();
        assert_eq!(&bytes[..8], b"NOSTRACE");
        assert_eq!(bytes[0x10..0x18], (1u64 << 20).to_le_bytes());
        assert_eq!(bytes[0x60..0x64], [1, 0, 2, 0]);
        assert_eq!(&bytes[0x80..0x89], b"a kernel\0");
        assert_eq!(&header(Order::Big).encode()[..8], b"ECARTSON");
        let zone = ZoneHeader {
            order: Order::Big,
            zone: 5,
            boot: 42,
            slots: 64,
        };
        assert_eq!(&zone.encode()[..8], b"ENOZTSON");
        assert_eq!(zone.encode()[0x0c..0x10], [0, 0, 0, 5]);
        assert_eq!(ZoneHeader::decode(&zone.encode()), Ok(zone));
    }

    #[test]
    fn both_byte_orders_decode_unchanged() {
        for order in [Order::Little, Order::Big] {
            assert_eq!(
                RegionHeader::decode(&header(order).encode()),
                Ok(header(order))
            );
        }
    }

    #[test]
    fn long_texts_are_truncated_between_characters() {
        let long = "é".repeat(40);
        assert_eq!(Short::<25>::text(&long).as_str(), "é".repeat(12));
        assert_eq!(Short::<4>::new(b"abcdef").as_bytes(), b"abcd");
    }

    #[test]
    fn changing_words_are_on_the_zones_second_line() {
        for at in [
            HEAD,
            LOST,
            FORGOTTEN,
            UNREPORTED,
            DEPTH,
            PENDING_SINCE,
            PASSED,
        ] {
            assert!((LINE..ZONE_HEADER).contains(&at) && at.is_multiple_of(8));
        }
        assert!(ZONE_HEADER.is_multiple_of(LINE) && REGION_HEADER.is_multiple_of(LINE));
    }

    proptest! {
        #[test]
        fn any_damaged_byte_of_a_header_is_detected(at in 0usize..REGION_CRC + 4, flip in 1u8..) {
            let mut bytes = header(Order::NATIVE).encode();
            bytes[at] ^= flip;
            prop_assert!(RegionHeader::decode(&bytes).is_err());
        }

        #[test]
        fn any_bytes_decode_without_a_panic(mut bytes in proptest::array::uniform32(any::<[u8; 16]>()), magic: bool) {
            let bytes: &mut [u8; 512] = bytes.as_flattened_mut().try_into().unwrap();
            if magic {
                bytes[..12].copy_from_slice(&header(Order::NATIVE).encode()[..12]);
            }
            if let Ok(header) = RegionHeader::decode_unchecked(bytes) {
                prop_assert!(header.slots().is_some() && header.first_zone() < header.len);
            }
        }

        #[test]
        fn a_meta_word_contains_its_fields(low in 0u64..1 << 48, depth: u64, index: u64, bits in 3u32..20) {
            let meta = Meta::new(Kind::Mark, low, depth).with_lap(index, bits);
            prop_assert_eq!(meta.low(), low);
            prop_assert_eq!(meta.kind(), Some(Kind::Mark));
            prop_assert_eq!(u64::from(meta.depth()), depth.min(255));
            prop_assert_eq!(meta.lap(), lap(index, bits));
            prop_assert!(meta.lap() > 0);
        }
    }
}

//! Layout of a ring's memory, version 1.
//!
//! ```text
//! byte  0  signature, 16 bytes: "nostall log ring"
//!      16  version: 1
//!      17  bytes in a word of this machine, W: 4 or 8
//!      18  bytes in a slot: 112
//!      19  0
//!      20  0x0102 as 16 bits in the machine's byte order
//!      22  0
//!      24  slots, 64 bits
//!      32  word: the greatest word divided by slots
//!      64  word: sequence of the newest record that was begun; 0: none yet
//!    64+W  word: newest record of priority emergency or panic
//!   64+2W  word: newest record of priority panic
//!   64+3W  word: bytes of text that were cut off or found no room
//!   64+4W  four words: each of a sink, the record that it sends next; 0: no sink
//!   64+8W  16 words (40 if W is 4): sequences that found their slot occupied, and have no
//!          record, each in the word of its remainder
//!     256  slots, 112 bytes each; record n is in slot n modulo their number
//!
//! slot  0  word: twice the sequence of the record in it; plus 1 while it is written
//!       W  time in nanoseconds, 64 bits; from 2^63 on: unknown
//!     W+8  level; flags; length of the target; length of the text: a byte each
//!    W+12  CPU, 16 bits, little-endian; two bytes 0
//!    W+16  the target, then the text
//! ```
//!
//! So 1 MiB has 9,360 slots.
//!
//! Words, the time and the number of slots are in the machine's byte order. Flags: bits 1:0 priority,
//! bit 2 the text goes on in the next record, bit 3 it comes from the one before,
//! bit 4 the rest of it was cut off,
//! bit 5 the part before is in the record before,
//! bit 6 the text is raw: bytes of a program's output, line feeds included. All zeros are an empty ring; the first bytes are
//! written with the first records.

/// The first bytes of a ring.
pub const SIGNATURE: [u8; 16] = *b"nostall log ring";
/// Version of this layout.
pub const VERSION: u8 = 1;
/// Number of bytes before the first slot.
pub const HEADER_BYTES: usize = 256;
/// Size of a slot in bytes.
pub const SLOT_BYTES: usize = 112;
/// Number of constant bytes at the start of the header.
pub const CONSTANT_BYTES: usize = 64;
/// Number that shows the machine's byte order.
pub const ORDER_MARK: u16 = 0x0102;
/// Offset of [`ORDER_MARK`] in the header.
pub const ORDER_AT: usize = 20;
/// Offset of the number of slots in the header.
pub const SLOTS_AT: usize = 24;
pub(crate) const RECIPROCAL_AT: usize = 32;

/// Size of a word in bytes.
pub(crate) const WORD: usize = size_of::<usize>();
/// Words of a slot before its record.
pub const STATE_WORDS: usize = 1;
/// Words of what is in a slot.
pub(crate) const BODY_WORDS: usize = SLOT_BYTES / WORD - STATE_WORDS;
/// Contents of a slot as bytes.
pub(crate) type Body = [u8; BODY_WORDS * WORD];
/// Number of bytes before the target.
pub(crate) const META_BYTES: usize = 16;
/// Number of bytes of target and text in a record: 88 with words of 8 bytes, 92 with words of
/// 4.
pub const PAYLOAD: usize = BODY_WORDS * WORD - META_BYTES;
/// The longest in a machine of any kind.
pub(crate) const LONGEST_PAYLOAD: usize = SLOT_BYTES - STATE_WORDS * 4 - META_BYTES;
/// Largest number of bytes of a target.
pub const LONGEST_TARGET: usize = 32;
/// Records that one text may take, if that is not more than a quarter of the ring.
pub const LONGEST_RUN: usize = 64;
/// Sinks whose places are kept in the ring's memory.
pub const SINKS: usize = 4;
/// Words for sequences that found their slot occupied: the rest of the header.
pub(crate) const HOLES: usize = (HEADER_BYTES - CONSTANT_BYTES) / WORD - 4 - SINKS;

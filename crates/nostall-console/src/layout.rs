//! Where everything is in a ring's memory, version 1.
//!
//! ```text
//! byte  0  signature, 16 bytes: "nostall log ring"
//!      16  version: 1
//!      17  bytes in a word of this machine, W: 4 or 8
//!      18  slots, as a power of two
//!      19  bytes in a slot, as a power of two: 7
//!      20  0x0102 as 16 bits in the machine's byte order
//!      22  0
//!      64  word: sequence of the newest record that was begun; 0: none yet
//!    64+W  word: newest record of priority emergency or panic
//!   64+2W  word: newest record of priority panic
//!   64+3W  word: bytes of text that were cut off or found no room
//!    64+4W  four words: each of a sink, the record that it sends next; 0: no sink
//!     128  slots, 128 bytes each; record n is in slot n modulo their number
//!
//! slot  0  word: twice the sequence of the record in it; plus 1 while it is written
//!       W  word: the newest sequence that found the slot occupied, and has no record
//!      2W  time in nanoseconds, 64 bits
//!    2W+8  level; flags; length of the target; length of the text: a byte each
//!   2W+12  CPU, 16 bits, little-endian; two bytes 0
//!   2W+16  the target, then the text
//! ```
//!
//! Words and the time are in the machine's byte order. Flags: bits 1:0 priority,
//! bit 2 the text goes on in the next record, bit 3 it comes from the one before,
//! bit 4 the rest of it was cut off,
//! bit 5 the part before is in the record before. All zeros are an empty ring; the first bytes are
//! written with the first records.

/// The first bytes of a ring.
pub const SIGNATURE: [u8; 16] = *b"nostall log ring";
/// Of this layout.
pub const VERSION: u8 = 1;
/// Bytes before the first slot.
pub const HEADER_BYTES: usize = 128;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 128;
/// In the header, before the words that change.
pub(crate) const CONSTANT_BYTES: usize = 64;
/// In the machine's byte order.
pub(crate) const ORDER_MARK: u16 = 0x0102;

/// Bytes of a word.
pub(crate) const WORD: usize = size_of::<usize>();
/// Words of a slot before what is in it.
pub(crate) const STATE_WORDS: usize = 2;
/// Words of what is in a slot.
pub(crate) const BODY_WORDS: usize = SLOT_BYTES / WORD - STATE_WORDS;
/// Before the target.
pub(crate) const META_BYTES: usize = 16;
/// Bytes of target and text in a record: 96 with words of 8 bytes, 104 of 4.
pub const PAYLOAD: usize = BODY_WORDS * WORD - META_BYTES;
/// The longest in a machine of any kind.
pub(crate) const LONGEST_PAYLOAD: usize = SLOT_BYTES - STATE_WORDS * 4 - META_BYTES;
/// Bytes of a target that are kept.
pub const LONGEST_TARGET: usize = 32;
/// Records that one text may take, if that is not more than a quarter of the ring.
pub const LONGEST_RUN: usize = 64;
/// Sinks whose places are kept in the ring's memory.
pub const SINKS: usize = 4;

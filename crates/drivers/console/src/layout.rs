//! Memory layout of a ring, version 1.
//!
//! ```text
//! byte  0  signature, 16 bytes: "nostall log ring"
//!      16  version: 1
//!      17  bytes in a word of the machine that wrote the ring, W: 4 or 8
//!      18  bytes in a slot: 112
//!      19  0
//!      20  0x0102 as 16 bits in the machine's byte order
//!      22  0
//!      24  slots, 64 bits
//!      32  word: the largest word divided by the number of slots
//!      64  word: sequence of the newest record that was begun; 0: none yet
//!    64+W  word: newest record of priority emergency or panic
//!   64+2W  word: newest record of priority panic
//!   64+3W  word: text bytes that were cut off or found no room
//!   64+4W  four words: the next record of each sink; 0: no sink
//!   64+8W  16 words (40 if W is 4): sequences that found their slot occupied and have no
//!          record, each in the word of its remainder
//!     256  slots, 112 bytes each; record n is in slot n modulo the number of slots
//!
//! slot  0  word: twice the sequence of its record; plus 1 while it is being written
//!       W  time in nanoseconds, 64 bits; 2^63 and above: unknown
//!     W+8  level; flags; length of the target; length of the text: one byte each
//!    W+12  CPU, 16 bits, little-endian; two bytes 0
//!    W+16  the target, then the text
//! ```
//!
//! 1 MiB holds 9,360 slots.
//!
//! Words, the time and the number of slots are in the machine's byte order. The flags:
//!
//! | bits | meaning |
//! | --- | --- |
//! | 1:0 | priority |
//! | 2 | the line continues in a later record |
//! | 3 | the record continues a line |
//! | 4 | the rest of the text was cut off |
//! | 5 | the previous part of the line is in the preceding record |
//! | 6 | raw: a program's output, including line feeds |
//!
//! An empty ring is all zeros. The producers of the first turn write the constant bytes.

/// First bytes of a ring.
pub const SIGNATURE: [u8; 16] = *b"nostall log ring";
/// Version of this layout.
pub const VERSION: u8 = 1;
/// Number of bytes before the first slot.
pub const HEADER_BYTES: usize = 256;
/// Size of a slot in bytes.
pub const SLOT_BYTES: usize = 112;
/// Size of the constant part at the start of the header, in bytes.
pub const CONSTANT_BYTES: usize = 64;
/// Value of the byte-order mark: 0x01 is the first byte on big-endian machines.
pub const ORDER_MARK: u16 = 0x0102;
/// Offset of [`ORDER_MARK`] in the header.
pub const ORDER_AT: usize = 20;
/// Offset of the 64-bit number of slots in the header.
pub const SLOTS_AT: usize = 24;
pub(crate) const RECIPROCAL_AT: usize = 32;

/// Size of a word in bytes.
pub(crate) const WORD: usize = size_of::<usize>();
/// Number of words in a slot before its record.
pub const STATE_WORDS: usize = 1;
/// Number of words of a slot after its state.
pub(crate) const BODY_WORDS: usize = SLOT_BYTES / WORD - STATE_WORDS;
/// Number of bytes of a body before the target.
pub(crate) const META_BYTES: usize = 16;
/// Offset of a record's flags in a body.
pub(crate) const FLAGS_AT: usize = 9;
/// Number of bytes of target and text in a record: 88 with words of 8 bytes, 92 with words of
/// 4.
pub const PAYLOAD: usize = BODY_WORDS * WORD - META_BYTES;
/// Largest payload on any machine: 92 bytes.
pub(crate) const LONGEST_PAYLOAD: usize = SLOT_BYTES - STATE_WORDS * 4 - META_BYTES;
/// Largest size of a stored target, in bytes.
pub const LONGEST_TARGET: usize = 32;
/// Largest number of records of one text in a ring of at least 256 slots. Smaller rings allow a
/// quarter of their slots.
pub const LONGEST_RUN: usize = 64;
/// Number of sinks whose progress is stored in the ring's memory.
pub const SINKS: usize = 4;
/// Number of words for sequences that found their slot occupied: the rest of the header.
pub(crate) const HOLES: usize = (HEADER_BYTES - CONSTANT_BYTES) / WORD - 4 - SINKS;

//! Trace records: one function entry each, in the formats of 64-bit and 32-bit kernels (Linux 6.1,
//! `include/linux/pstore.h`, `struct pstore_ftrace_record`).

use core::fmt;

use crate::format::ByteOrder;

/// A function entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TraceRecord {
    /// Address in the function that was entered.
    pub ip: u64,
    /// Address of the caller.
    pub parent: u64,
    /// Time or count, as selected by the writer. It has 56 bits if the CPU shares its word.
    pub stamp: u64,
    /// Low 8 bits of the CPU's number; fewer if they are part of the address.
    pub cpu: u8,
}

impl TraceRecord {
    /// Returns whether the stamp of `next` plausibly follows this record's stamp: not smaller, and
    /// less than 2^44 larger.
    pub const fn is_before(&self, next: &Self) -> bool {
        self.stamp <= next.stamp && next.stamp - self.stamp < 1 << 44
    }
}

/// Layout of a record in memory.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display, strum::EnumString, strum::IntoStaticStr,
)]
#[strum(serialize_all = "lowercase")]
#[strum(parse_err_ty = UnknownRecordFormat, parse_err_fn = unknown)]
pub enum RecordFormat {
    /// 24 bytes: two 64-bit addresses, and a word with the stamp in its upper 56 bits and the CPU
    /// in its lower 8.
    #[strum(serialize = "64")]
    Bits64,
    /// 16 bytes: two 32-bit addresses, and the same word. 32-bit kernels, except ARM with few CPUs.
    #[strum(serialize = "32")]
    Bits32,
    /// 16 bytes, with the CPU in the low two bits of the first address, and a 64-bit stamp. For
    /// 32-bit ARM kernels for at most four CPUs.
    Arm32,
    /// The same, with the CPU in the lowest bit only. For Thumb-2 kernels for at most two CPUs, in
    /// which addresses are even but not multiples of four.
    Thumb32,
}

/// Size of the longest format in bytes.
pub const LONGEST_TRACE: usize = 24;

impl RecordFormat {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::Bits64, Self::Bits32, Self::Arm32, Self::Thumb32];

    /// Format of a kernel for this machine.
    pub const NATIVE: Self = if cfg!(target_pointer_width = "64") {
        Self::Bits64
    } else if cfg!(target_arch = "arm") {
        Self::Arm32
    } else {
        Self::Bits32
    };

    /// Returns the name on nostall's command line.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the size of a record in bytes.
    #[allow(clippy::len_without_is_empty, reason = "no record is empty")]
    pub const fn len(self) -> usize {
        match self {
            Self::Bits64 => 24,
            _ => 16,
        }
    }

    /// Returns whether the addresses of two successive records are plausible for a kernel: close to
    /// each other, and not small numbers.
    pub const fn has_addresses(self, a: &TraceRecord, b: &TraceRecord) -> bool {
        if matches!(self, Self::Bits64) {
            a.ip >> 48 != 0 && a.ip >> 40 == b.ip >> 40 && a.parent >> 48 == b.parent >> 48
        } else {
            a.ip >> 28 != 0 && a.ip >> 28 == b.ip >> 28 && b.parent >> 28 != 0
        }
    }

    /// Returns the mask of the CPU's number in the first address.
    pub const fn cpu_bits(self) -> u64 {
        match self {
            Self::Bits64 | Self::Bits32 => 0,
            Self::Arm32 => 3,
            Self::Thumb32 => 1,
        }
    }

    /// Decodes a record; `None` without enough bytes.
    pub fn decode(self, bytes: &[u8], order: ByteOrder) -> Option<TraceRecord> {
        let (ip, parent, time) = match self {
            Self::Bits64 => {
                let (ip, rest) = bytes.split_first_chunk()?;
                let (parent, rest) = rest.split_first_chunk()?;
                (order.u64(*ip), order.u64(*parent), rest)
            }
            _ => {
                let (ip, rest) = bytes.split_first_chunk()?;
                let (parent, rest) = rest.split_first_chunk()?;
                (order.u32(*ip).into(), order.u32(*parent).into(), rest)
            }
        };
        let time = order.u64(*time.first_chunk()?);
        Some(match self {
            Self::Bits64 | Self::Bits32 => TraceRecord {
                ip,
                parent,
                stamp: time >> 8,
                cpu: time as u8,
            },
            Self::Arm32 | Self::Thumb32 => TraceRecord {
                ip: ip & !self.cpu_bits(),
                parent,
                stamp: time,
                cpu: (ip & self.cpu_bits()) as u8,
            },
        })
    }

    /// Encodes the record in the first [`len`](Self::len) bytes. Truncates values that do not fit
    /// the format.
    #[inline]
    pub fn encode(self, record: &TraceRecord, order: ByteOrder) -> [u8; LONGEST_TRACE] {
        let time = match self {
            Self::Bits64 | Self::Bits32 => record.stamp << 8 | u64::from(record.cpu),
            Self::Arm32 | Self::Thumb32 => record.stamp,
        };
        let ip = self.raw_ip(record);
        let mut bytes = [0; LONGEST_TRACE];
        match self {
            Self::Bits64 => {
                bytes[..8].copy_from_slice(&order.bytes64(ip));
                bytes[8..16].copy_from_slice(&order.bytes64(record.parent));
                bytes[16..].copy_from_slice(&order.bytes64(time));
            }
            _ => {
                bytes[..4].copy_from_slice(&order.bytes32(ip as u32));
                bytes[4..8].copy_from_slice(&order.bytes32(record.parent as u32));
                bytes[8..16].copy_from_slice(&order.bytes64(time));
            }
        }
        bytes
    }

    /// Returns the first address as stored, including the CPU's bits, as Linux prints it.
    #[inline]
    pub const fn raw_ip(self, record: &TraceRecord) -> u64 {
        record.ip & !self.cpu_bits() | record.cpu as u64 & self.cpu_bits()
    }
}

/// Error: the text is not the name of a [`RecordFormat`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownRecordFormat;

impl fmt::Display for UnknownRecordFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be 64, 32, arm32 or thumb32")
    }
}

impl core::error::Error for UnknownRecordFormat {}

fn unknown(_: &str) -> UnknownRecordFormat {
    UnknownRecordFormat
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_that_fits_its_format_is_read_back_in_either_byte_order(
            record_format in prop::sample::select(&RecordFormat::ALL[..]),
            big in any::<bool>(),
            ip: u64, parent: u64, stamp: u64, cpu: u8,
        ) {
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            let address = if record_format == RecordFormat::Bits64 { u64::MAX } else { u32::MAX.into() };
            let (stamp, cpu) = match record_format.cpu_bits() {
                0 => (stamp >> 8, cpu),
                bits => (stamp, cpu & bits as u8),
            };
            let ip = ip & address & !record_format.cpu_bits();
            let record = TraceRecord { ip, parent: parent & address, stamp, cpu };
            let bytes = record_format.encode(&record, order);
            prop_assert_eq!(record_format.decode(&bytes[..record_format.len()], order), Some(record));
            prop_assert_eq!(record_format.decode(&bytes[..record_format.len() - 1], order), None);
        }
    }
}

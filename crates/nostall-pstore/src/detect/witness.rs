//! What the bytes say for and against a zone at a given place, in bits: how much
//! likelier they are if it is there than if they are anything.

use std::boxed::Box;
use std::cell::Cell;
use std::sync::OnceLock;

use super::records;
use crate::code::Code;
use crate::format::{BLOCK, ByteOrder, Division, HEADER, Header, Kind, MAX_PARITY, SIGNATURE};

/// What a dmesg record starts with.
const DMESG: &[u8] = b"====";

/// A zone that may be there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// Where in the bytes.
    pub(super) at: usize,
    /// Its size.
    pub(super) size: usize,
    /// What it holds.
    pub(super) kind: Kind,
    /// The CPU, if a trace zone is one CPU's.
    pub(super) cpu: Option<usize>,
}

/// What there is to be said for zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    /// For them, or against.
    pub(super) bits: i32,
    /// How many have a header that is sound.
    pub(super) headers: usize,
    /// How many have one that must be corrected first, or none.
    pub(super) missing: usize,
    /// How many headers have the parity they should.
    pub(super) parities: usize,
    /// How many are rings as full as they can be, to the byte.
    pub(super) full: usize,
    /// How many hold what a zone of their kind should.
    pub(super) contents: usize,
}

impl Evidence {
    /// `bits`, and nothing else.
    pub(super) fn of(bits: i32) -> Self {
        Self {
            bits,
            ..Self::default()
        }
    }
}

impl core::ops::Add for Evidence {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            bits: self.bits.saturating_add(other.bits),
            headers: self.headers + other.headers,
            missing: self.missing + other.missing,
            parities: self.parities + other.parities,
            full: self.full + other.full,
            contents: self.contents + other.contents,
        }
    }
}

/// What it costs to correct a header, where a look at one costs 1.
const CORRECTION: usize = 16;

/// The bytes, heard in one byte order and with one signature for trace zones. It
/// can be asked so often and no more.
#[derive(Debug)]
pub(super) struct Witness<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) order: ByteOrder,
    /// Trace zones' signature.
    pub(super) trace: u32,
    patience: Cell<usize>,
}

impl<'a> Witness<'a> {
    /// That answers `patience` times.
    pub(super) fn new(bytes: &'a [u8], order: ByteOrder, trace: u32, patience: usize) -> Self {
        Self {
            bytes,
            order,
            trace,
            patience: Cell::new(patience),
        }
    }

    /// How many answers are left.
    pub(super) fn patience(&self) -> usize {
        self.patience.get()
    }

    /// Takes `cost` of it; `None` if there is no more.
    pub(super) fn spend(&self, cost: usize) -> Option<()> {
        let left = self.patience.get().checked_sub(cost);
        self.patience.set(left.unwrap_or(0));
        left.map(drop)
    }

    /// What the bytes say of this zone, with `parity` parity bytes; `None` if it
    /// cannot be, or if too much was asked already.
    pub(super) fn hear(&self, claim: Claim, parity: usize) -> Option<Evidence> {
        self.spend(1)?;
        let division = Division::new(claim.size, parity)?;
        let Some(bytes) = self.header(claim.at) else {
            // Beyond the dump's end.
            return Some(Evidence::of(-4));
        };
        let header = Header::decode(bytes, self.order);
        let whole = self.bytes.get(claim.at..claim.at + claim.size);
        let signature = match claim.kind {
            Kind::Ftrace => self.trace,
            _ => SIGNATURE,
        };
        if header.signature == signature && header.is_valid(division.data()) {
            let whole = whole.map_or(Evidence::default(), |zone| parities(zone, division, header));
            Some(self.sound(claim, header, division) + self.contents(claim, header) + whole)
        } else {
            if parity > 0 {
                self.spend(CORRECTION)?;
            }
            Some(corrected(
                whole, division, signature, self.order, claim.kind,
            ))
        }
    }

    /// The header's bytes at `at`.
    pub(super) fn header(&self, at: usize) -> Option<[u8; HEADER]> {
        self.bytes.get(at..)?.first_chunk().copied()
    }

    fn sound(&self, claim: Claim, header: Header, division: Division) -> Evidence {
        let full = header.size as usize == division.data();
        let bits = match (full, header) {
            (true, _) => 36,
            (_, Header { size: 0, .. }) => 26,
            // A ring that has come round is full, no other has its start elsewhere
            // than at its end; and a record does not come round at all.
            (_, Header { start, size, .. }) if start < size => 2,
            _ => 20,
        };
        let bits = if full && claim.kind == Kind::Dmesg && header.start < header.size {
            bits - 20
        } else {
            bits
        };
        Evidence {
            bits,
            headers: 1,
            full: full.into(),
            ..Evidence::default()
        }
    }

    fn contents(&self, claim: Claim, header: Header) -> Evidence {
        let data = &self.bytes[claim.at + HEADER..];
        let good = |bits| Evidence {
            contents: 1,
            ..Evidence::of(bits)
        };
        match claim.kind {
            _ if header.size == 0 => Evidence::default(),
            Kind::Dmesg if data.starts_with(DMESG) => good(12),
            Kind::Dmesg => Evidence::of(-12),
            Kind::Ftrace => match records::look(self.bytes, claim.at, header, self.order) {
                Some(look) => match (look.cpu, claim.cpu) {
                    (Some(is), Some(should)) if usize::from(is) == should & 0xff => good(10),
                    // In one or two bits, a CPU is known only so far.
                    (Some(is), Some(should)) => {
                        let known = match look.shape.cpu_bits() {
                            0 => 0xff,
                            bits => bits as usize,
                        };
                        match usize::from(is) & known == should & known {
                            true => good(4),
                            false => Evidence::of(-16),
                        }
                    }
                    (None, Some(_)) => Evidence::of(-4),
                    (_, None) => good(4),
                },
                None => Evidence::default(),
            },
            _ if data.starts_with(DMESG) && data.get(4).is_some_and(u8::is_ascii_digit) => {
                Evidence::of(-12)
            }
            _ if is_text(&data[..data.len().min(header.size as usize).min(64)]) => good(2),
            _ => Evidence::of(-1),
        }
    }
}

/// Printable, nearly all of it.
fn is_text(bytes: &[u8]) -> bool {
    let odd = bytes
        .iter()
        .filter(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace() && **byte != 0x1b);
    odd.count() * 8 <= bytes.len()
}

/// Bits that a group of parity bytes is worth: it is not so sure that all zones
/// are independent as that each is right.
fn worth(parity: usize) -> i32 {
    (parity as i32 * 8).min(40)
}

/// The header's parity, the last bytes of a zone, and that of its first block.
fn parities(zone: &[u8], division: Division, header: Header) -> Evidence {
    let Some(code) = code(division.parity()) else {
        return Evidence::default();
    };
    let mut bytes = [0; HEADER];
    bytes.copy_from_slice(&zone[..HEADER]);
    let mut parity = [0; MAX_PARITY];
    let parity = &mut parity[..division.parity()];
    parity.copy_from_slice(&zone[division.header_parity()..]);

    let mut evidence = Evidence::default();
    if code.check(&bytes, parity) {
        evidence.bits += worth(division.parity());
        evidence.parities += 1;
    } else {
        // Cut off between a header and its parity, or flipped, in one of them.
        evidence.bits -= 6;
    }
    if header.size as usize >= BLOCK && division.block_len(0) == BLOCK {
        let at = division.block_parity(0);
        let good = code.check(&zone[HEADER..HEADER + BLOCK], &zone[at..at + code.parity()]);
        evidence.bits += if good { worth(code.parity()) / 2 } else { -2 };
    }
    evidence
}

/// A zone whose header is none: does its parity know better?
fn corrected(
    zone: Option<&[u8]>,
    division: Division,
    signature: u32,
    order: ByteOrder,
    kind: Kind,
) -> Evidence {
    let missing = |bits| Evidence {
        missing: 1,
        ..Evidence::of(bits)
    };
    let Some(zone) = zone else {
        return missing(-14);
    };
    let looks = if kind == Kind::Dmesg && zone[HEADER..].starts_with(DMESG) {
        12
    } else {
        0
    };
    if let Some(header) = correct(zone, division, order)
        && header.signature == signature
        && header.is_valid(division.data())
    {
        // Nothing at all, corrected by the parity of an empty zone that ends here,
        // does not show that it starts here.
        let blank = zone[..HEADER].iter().all(|&byte| byte == zone[0]);
        return missing(looks + if blank { -2 } else { 24 });
    }
    missing(looks - 14)
}

/// A zone's header as its parity says.
pub(super) fn correct(zone: &[u8], division: Division, order: ByteOrder) -> Option<Header> {
    let mut bytes: [u8; HEADER] = *zone.first_chunk()?;
    let mut parity = [0; MAX_PARITY];
    let parity = &mut parity[..division.parity()];
    parity.copy_from_slice(zone.get(division.header_parity()..division.zone())?);
    code(division.parity())?.correct(&mut bytes, parity).ok()?;
    Some(Header::decode(bytes, order))
}

/// Whether the 12 bytes `header` have this parity.
pub(super) fn has_parity(header: &[u8; HEADER], parity: &[u8]) -> bool {
    code(parity.len()).is_some_and(|code| code.check(header, parity))
}

/// The code with so many parity bytes; made once, when it is first asked for.
fn code(parity: usize) -> Option<&'static Code> {
    static CODES: [OnceLock<Option<Box<Code>>>; MAX_PARITY + 1] =
        [const { OnceLock::new() }; MAX_PARITY + 1];
    let code = CODES.get(parity)?;
    code.get_or_init(|| Code::new(parity).map(Box::new))
        .as_deref()
}

//! Evidence in the bytes for and against a zone at a position, in bits. It is a ratio of
//! likelihoods: with the zone there, and with arbitrary data.

use std::boxed::Box;
use std::cell::Cell;
use std::sync::OnceLock;

use super::records::{self, Look};
use crate::memory::run::Run;
use nostall_pstore::Code;
use nostall_pstore::{
    BLOCK, ByteOrder, Division, HEADER, MAX_PARITY, SIGNATURE, ZoneHeader, ZoneKind,
};

/// First bytes of a dmesg record.
const DMESG: &[u8; 4] = b"====";

/// A possible zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct ZoneGuess {
    /// Position in the bytes.
    pub(super) at: usize,
    /// Size in bytes.
    pub(super) size: usize,
    /// Kind of contents.
    pub(super) kind: ZoneKind,
    /// CPU of the trace zone, if each zone belongs to one CPU.
    pub(super) cpu: Option<usize>,
}

/// Evidence for zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    /// Evidence in bits; negative values count against the zones.
    pub(super) bits: i32,
    /// Number of valid headers.
    pub(super) headers: usize,
    /// Number of headers that must be corrected, or are missing.
    pub(super) missing: usize,
    /// Number of headers with correct parity.
    pub(super) parities: usize,
    /// Number of ring zones that are exactly full.
    pub(super) full: usize,
    /// Number of zones with contents of their kind.
    pub(super) contents: usize,
    /// Number of headers with the right signature but impossible sizes.
    pub(super) wrong_sizes: usize,
    /// Bits that ordinary data does not have by chance. They decide on the grade; `bits` only
    /// compare hypotheses.
    pub(super) proof: i32,
    /// Bits of agreeing parity bytes, of the zone with the most.
    pub(super) parity_bits: i32,
}

impl Evidence {
    /// Creates evidence of `bits` only.
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
            wrong_sizes: self.wrong_sizes + other.wrong_sizes,
            proof: self.proof.saturating_add(other.proof),
            // Headers of empty zones are equal: if one agrees by chance, all do.
            parity_bits: self.parity_bits.max(other.parity_bits),
        }
    }
}

/// Cost of correcting a header, relative to reading one.
const CORRECTION: usize = 16;

/// Memory, read in one byte order and with one signature of trace zones. The number of checks is
/// limited.
#[derive(Debug)]
pub(super) struct Scorer<'a> {
    pub(super) run: &'a Run<'a>,
    pub(super) order: ByteOrder,
    /// Signature of the trace zones.
    pub(super) trace: u32,
    budget: Cell<usize>,
}

impl<'a> Scorer<'a> {
    /// Creates a scorer that allows checks of total cost `budget`.
    pub(super) fn new(run: &'a Run<'a>, order: ByteOrder, trace: u32, budget: usize) -> Self {
        Self {
            run,
            order,
            trace,
            budget: Cell::new(budget),
        }
    }

    /// Returns the remaining cost.
    pub(super) fn budget(&self) -> usize {
        self.budget.get()
    }

    /// Spends `cost`; `None` if not enough is left.
    pub(super) fn spend(&self, cost: usize) -> Option<()> {
        let left = self.budget.get().checked_sub(cost);
        self.budget.set(left.unwrap_or(0));
        left.map(drop)
    }

    /// Returns the evidence for this zone with `parity` parity bytes. `None` if the zone is
    /// impossible, or if the checks are used up.
    pub(super) fn score(&self, guess: ZoneGuess, parity: usize) -> Option<Evidence> {
        self.spend(1)?;
        let division = Division::new(guess.size, parity)?;
        let Some(bytes) = self.header(guess.at) else {
            // Beyond the end of the dump.
            return Some(Evidence::of(-4));
        };
        let header = ZoneHeader::decode(bytes, self.order);
        let is_whole = self.run.holds(guess.at, guess.size);
        let signature = match guess.kind {
            ZoneKind::Ftrace => self.trace,
            _ => SIGNATURE,
        };
        if header.signature == signature && header.is_valid(division.data()) {
            let parities = is_whole.then(|| parities(self.run, guess.at, division, header));
            Some(
                self.sound(guess, header, division)
                    + self.contents(guess, header)
                    + parities.flatten().unwrap_or_default(),
            )
        } else {
            if parity > 0 {
                self.spend(CORRECTION)?;
            }
            Some(if is_whole {
                self.corrected(guess, division, header, signature)
            } else {
                Evidence {
                    missing: 1,
                    ..Evidence::of(-14)
                }
            })
        }
    }

    /// Returns the header's bytes at `at`.
    pub(super) fn header(&self, at: usize) -> Option<[u8; HEADER]> {
        self.run.array(at)
    }

    fn sound(&self, guess: ZoneGuess, header: ZoneHeader, division: Division) -> Evidence {
        let full = header.size as usize == division.data();
        let bits = match (full, header) {
            (true, _) => 36,
            (_, ZoneHeader { size: 0, .. }) => 26,
            // A ring that has wrapped is full; in any other, the start is at the end. A dmesg
            // record never wraps.
            (_, ZoneHeader { start, size, .. }) if start < size => 2,
            _ => 20,
        };
        let bits = if full && guess.kind == ZoneKind::Dmesg && header.start < header.size {
            bits - 20
        } else {
            bits
        };
        // A plain signature has 32 bits, but code and tables also contain it before zeros. A trace
        // zone's signature is any of thousands of words, many of them text.
        let (signature, filled, partly) = match guess.kind {
            ZoneKind::Ftrace => (0, 20, 8),
            _ => (18, 32, 16),
        };
        let sizes = match header.size {
            0 => 0,
            _ if full => filled,
            _ => partly,
        };
        Evidence {
            bits,
            headers: 1,
            full: full.into(),
            proof: signature + sizes,
            ..Evidence::default()
        }
    }

    fn contents(&self, guess: ZoneGuess, header: ZoneHeader) -> Evidence {
        let len = (header.size as usize).min(64);
        let data = self.run.get(guess.at + HEADER, len).unwrap_or_default();
        let good = |bits, proof| Evidence {
            contents: 1,
            proof,
            ..Evidence::of(bits)
        };
        match guess.kind {
            _ if header.size == 0 => Evidence::default(),
            ZoneKind::Dmesg if data.starts_with(DMESG) => good(12, 24),
            // Linux writes no such record, so the header proves nothing.
            ZoneKind::Dmesg => Evidence {
                proof: -34,
                ..Evidence::of(-24)
            },
            ZoneKind::Ftrace => match records::look(self.run, guess.at, header, self.order) {
                Some(look) => match (look.cpu, guess.cpu) {
                    (Some(is), Some(should)) if usize::from(is) == should & 0xff => {
                        good(10, proof(look))
                    }
                    // A CPU number of one or two bits is only partly known.
                    (Some(is), Some(should)) => {
                        let known = match look.record_format.cpu_bits() {
                            0 => 0xff,
                            bits => bits as usize,
                        };
                        match usize::from(is) & known == should & known {
                            true => good(4, proof(look)),
                            false => Evidence::of(-16),
                        }
                    }
                    (None, Some(_)) => Evidence::of(-4),
                    (_, None) => good(4, proof(look)),
                },
                None => Evidence::default(),
            },
            _ if data.starts_with(DMESG) && data.get(4).is_some_and(u8::is_ascii_digit) => {
                Evidence::of(-12)
            }
            _ if is_text(&data) => good(2, 16),
            _ => Evidence::of(-1),
        }
    }

    /// Returns the evidence for a zone whose header `found` is invalid but may be corrected.
    fn corrected(
        &self,
        guess: ZoneGuess,
        division: Division,
        found: ZoneHeader,
        signature: u32,
    ) -> Evidence {
        let missing = |bits| Evidence {
            missing: 1,
            ..Evidence::of(bits)
        };
        let is_dmesg = || self.run.array(guess.at + HEADER) == Some(*DMESG);
        let looks = if guess.kind == ZoneKind::Dmesg && is_dmesg() {
            12
        } else {
            0
        };
        if let Some(header) = correct(self.run, guess.at, division, self.order)
            && header.signature == signature
            && header.is_valid(division.data())
        {
            // An empty header, corrected with the parity of an empty zone that ends here, does not
            // prove that the zone starts here.
            let bytes = self.header(guess.at).unwrap_or_default();
            let is_blank = bytes.iter().all(|&byte| byte == bytes[0]);
            return missing(looks + if is_blank { -2 } else { 24 });
        }
        if found.signature == signature {
            // One of the other two words is damaged, or no zone of this size is here.
            return Evidence {
                wrong_sizes: 1,
                ..missing(looks + 2)
            };
        }
        missing(looks - 14)
    }
}

/// Returns whether nearly all bytes are printable.
fn is_text(bytes: &[u8]) -> bool {
    let odd = bytes
        .iter()
        .filter(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace() && **byte != 0x1b);
    odd.count() * 8 <= bytes.len()
}

/// Returns the bits for agreeing parity bytes. They are limited, because the independence of all
/// zones is less certain than each match.
fn worth(parity: usize) -> i32 {
    (parity as i32 * 8).min(40)
}

/// Returns the bits of proof in trace records.
fn proof(look: Look) -> i32 {
    match look.records {
        16.. if look.quality > 0.9 => 48,
        8.. => 24,
        _ => 8,
    }
}

/// Checks the header's parity, which is at the end of the zone, and that of its first block. `None`
/// without parity.
fn parities(run: &Run<'_>, at: usize, division: Division, header: ZoneHeader) -> Option<Evidence> {
    let code = code(division.parity())?;
    let mut evidence = Evidence::default();
    let parity = run.get(at + division.header_parity(), division.parity())?;
    if code.check(&run.array::<HEADER>(at)?, &parity) {
        evidence.bits += worth(division.parity());
        evidence.parities += 1;
        evidence.parity_bits += 8 * division.parity() as i32;
    } else {
        // The zone is cut off between header and parity, or one of them is damaged.
        evidence.bits -= 6;
    }
    if header.size as usize >= BLOCK && division.block_len(0) == BLOCK {
        let parity = run.get(at + division.block_parity(0), division.parity())?;
        let block = run.array::<BLOCK>(at + HEADER)?;
        let good = code.check(&block, &parity);
        // A block of zeros agrees with zeros anywhere.
        if good && block != [0; BLOCK] {
            evidence.parity_bits += 8 * division.parity() as i32;
        }
        evidence.bits += if good { worth(code.parity()) / 2 } else { -2 };
    }
    Some(evidence)
}

/// Corrects a zone's header with its parity.
pub(super) fn correct(
    run: &Run<'_>,
    at: usize,
    division: Division,
    order: ByteOrder,
) -> Option<ZoneHeader> {
    let mut bytes = run.array(at)?;
    let mut parity = run
        .get(at + division.header_parity(), division.parity())?
        .into_owned();
    code(division.parity())?
        .correct(&mut bytes, &mut parity)
        .ok()?;
    Some(ZoneHeader::decode(bytes, order))
}

/// Returns whether the 12 bytes `header` have this parity.
pub(super) fn has_parity(header: &[u8; HEADER], parity: &[u8]) -> bool {
    code(parity.len()).is_some_and(|code| code.check(header, parity))
}

/// Returns the code with so many parity bytes, created on first use.
fn code(parity: usize) -> Option<&'static Code> {
    static CODES: [OnceLock<Option<Box<Code>>>; MAX_PARITY + 1] =
        [const { OnceLock::new() }; MAX_PARITY + 1];
    let code = CODES.get(parity)?;
    code.get_or_init(|| Code::new(parity).map(Box::new))
        .as_deref()
}

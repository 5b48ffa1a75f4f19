//! The kernel's load offset: from its log, or derived from its trace.

use super::Symbols;

/// Alignment of the kernel with x86-64's KASLR (`CONFIG_PHYSICAL_ALIGN`).
const ALIGN: u64 = 2 << 20;
/// Limit of the offset with x86-64's KASLR (`RANDOMIZE_BASE`: the kernel's mapping has 1 GiB).
const RANGE: u64 = 1 << 30;
/// Distance of an ftrace record's address from its function's start: 0, or 4 after an `endbr64`.
const INTO_FUNCTION: [u64; 2] = [0, 4];
/// Maximum number of different addresses; more do not improve the result.
const MAX_ADDRESSES: usize = 1 << 16;
/// Minimum score. With functions aligned to 16 bytes, about 3 of 100 random addresses match one.
const MIN_SCORE: usize = 8;

/// A kernel offset derived from a trace: see [`Symbols::solve_offset`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solved {
    /// Distance of the kernel above its linked address.
    pub offset: u64,
    /// Number of different addresses that are function starts with this offset.
    pub score: usize,
    /// Score of the second-best offset.
    pub runner_up: usize,
    /// Number of different addresses; at most the first 65,536 count.
    pub addresses: usize,
    /// Number of offsets that were tried.
    pub candidates: usize,
}

/// Returns the kernel's distance above its linked address, from the line that Linux prints in a
/// panic.
///
/// ```
/// use nostall_postmortem::symbols::kernel_offset;
///
/// let x86 = b"<0>[    2.9] Kernel Offset: 0x1e800000 from 0xffffffff81000000 (relocation range: ...)\n";
/// assert_eq!(kernel_offset(x86), Some(0x1e80_0000));
/// let arm64 = b"<0>[    2.9] Kernel Offset: 0x80000 from 0xffffffc008000000\n<0>[    2.9] PHYS_OFFSET: 0x40000000\n";
/// assert_eq!(kernel_offset(arm64), Some(0x8_0000));
/// assert_eq!(kernel_offset(b"Kernel Offset: disabled\n"), Some(0));
/// assert_eq!(kernel_offset(b"Kernel panic - not syncing\n"), None);
/// ```
///
/// If a log has several such lines (of several boots), the last one is used.
pub fn kernel_offset(dmesg: &[u8]) -> Option<u64> {
    dmesg.split(|byte| *byte == b'\n').rev().find_map(in_line)
}

impl Symbols {
    /// Derives an x86-64 kernel's offset from the addresses of traced functions (`ip`, not
    /// `parent`).
    ///
    /// It tries every offset that KASLR can choose, including none: multiples of 2 MiB below 1 GiB.
    /// The score of an offset is the number of traced addresses that are function starts.
    ///
    /// `None` means that no offset is clearly best, or that the table belongs to another kernel.
    /// The best offset needs at least 8 different functions, twice the score of the runner-up, and
    /// half of the addresses in the kernel's code. The others may be in modules. An
    /// [offset](Self::with_offset) that is already set has no effect.
    pub fn solve_offset(&self, addresses: impl IntoIterator<Item = u64>) -> Option<Solved> {
        let addresses = distinct(addresses);
        let starts = self.table.starts();
        let (mut best, mut runner_up) = ((0, 0), 0);
        let mut candidates = 0;
        for offset in (0..RANGE).step_by(ALIGN as usize) {
            candidates += 1;
            let scores = INTO_FUNCTION.map(|into| hits(starts, &addresses, offset + into));
            let score = scores.into_iter().max().unwrap_or_default();
            if score > best.0 {
                runner_up = best.0;
                best = (score, offset);
            } else {
                runner_up = runner_up.max(score);
            }
        }
        let (score, offset) = best;
        let code = within(starts, offset, &addresses);
        let clear = score >= MIN_SCORE && score >= 2 * runner_up && 2 * score >= code.len();
        clear.then_some(Solved {
            offset,
            score,
            runner_up,
            addresses: addresses.len(),
            candidates,
        })
    }
}

/// Returns the different addresses, in ascending order.
fn distinct(addresses: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut distinct = std::collections::BTreeSet::new();
    for address in addresses {
        distinct.insert(address);
        if distinct.len() == MAX_ADDRESSES {
            break;
        }
    }
    distinct.into_iter().collect()
}

/// Returns the addresses from the first function start to the last, both moved by `offset`.
fn within<'a>(starts: &[u64], offset: u64, addresses: &'a [u64]) -> &'a [u64] {
    let (Some(first), Some(last)) = (starts.first(), starts.last()) else {
        return &[];
    };
    let (first, last) = (first.saturating_add(offset), last.saturating_add(offset));
    let from = addresses.partition_point(|address| *address < first);
    let to = addresses.partition_point(|address| *address <= last);
    &addresses[from..to]
}

/// Returns how many addresses minus `offset` are function starts. Both lists are sorted.
fn hits(starts: &[u64], addresses: &[u64], offset: u64) -> usize {
    let mut starts = starts;
    within(starts, offset, addresses)
        .iter()
        .filter(|address| {
            let linked = **address - offset;
            starts = &starts[starts.partition_point(|start| *start < linked)..];
            starts.first() == Some(&linked)
        })
        .count()
}

fn in_line(line: &[u8]) -> Option<u64> {
    const WORDS: &[u8] = b"Kernel Offset: ";
    let at = line.windows(WORDS.len()).position(|words| words == WORDS)?;
    let said = &line[at + WORDS.len()..];
    if said.starts_with(b"disabled") {
        return Some(0);
    }
    let digits = said.strip_prefix(b"0x")?;
    let len = digits
        .iter()
        .take_while(|digit| digit.is_ascii_hexdigit())
        .count();
    let from = digits[len..]
        .starts_with(b" from 0x")
        .then_some(&digits[..len])?;
    u64::from_str_radix(std::str::from_utf8(from).ok()?, 16).ok()
}

//! The address where the kernel was loaded: from its log, or solved for from its trace.

use super::Symbols;

/// x86-64's KASLR moves the kernel by a multiple of this (`CONFIG_PHYSICAL_ALIGN`) ...
const ALIGN: u64 = 2 << 20;
/// ... and by less than this (`RANDOMIZE_BASE`: the kernel's own mapping has 1 GiB).
const RANGE: u64 = 1 << 30;
/// An ftrace record's address is its function's first byte, or after an `endbr64` the next.
const INTO_FUNCTION: [u64; 2] = [0, 4];
/// More different addresses than this make nothing clearer.
const MAX_ADDRESSES: usize = 1 << 16;
/// A function by chance: with functions aligned to 16 bytes some 3 addresses in 100 hit one.
const MIN_SCORE: usize = 8;

/// A kernel offset that a trace speaks for: see [`Symbols::solve_offset`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solved {
    /// How far above its linked address the kernel ran.
    pub offset: u64,
    /// How many of the different addresses are a function's start with this offset.
    pub score: usize,
    /// The same with the next best offset.
    pub runner_up: usize,
    /// How many different addresses there were (at most the first 65,536 are counted).
    pub addresses: usize,
    /// How many offsets were tried.
    pub candidates: usize,
}

/// Returns how far above its linked address the kernel ran, from the line that Linux prints when
/// it panics.
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
/// A log with several such lines (of several boots) is answered with the last one.
pub fn kernel_offset(dmesg: &[u8]) -> Option<u64> {
    dmesg.split(|byte| *byte == b'\n').rev().find_map(in_line)
}

impl Symbols {
    /// Finds an x86-64 kernel's offset from traced functions' addresses (`ip`, not `parent`).
    ///
    /// Every offset that KASLR can choose, including none, is tried: a multiple of 2 MiB below
    /// 1 GiB. An offset is good if it puts traced addresses on starts of functions; `None` means that
    /// none is clearly better than all others (at least 8 different functions, twice as many as the
    /// runner-up, and half of the addresses that are in the kernel's code at all: the rest may be
    /// modules), or that this is another kernel's table. Any [offset](Self::with_offset) that
    /// is already set does not matter.
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

/// The different ones among the addresses, in order.
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

/// The addresses from the first start to the last, if `offset` is added to those.
fn within<'a>(starts: &[u64], offset: u64, addresses: &'a [u64]) -> &'a [u64] {
    let (Some(first), Some(last)) = (starts.first(), starts.last()) else {
        return &[];
    };
    let (first, last) = (first.saturating_add(offset), last.saturating_add(offset));
    let from = addresses.partition_point(|address| *address < first);
    let to = addresses.partition_point(|address| *address <= last);
    &addresses[from..to]
}

/// How many addresses are a start if `offset` is taken off. Both are in order, and stay so.
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

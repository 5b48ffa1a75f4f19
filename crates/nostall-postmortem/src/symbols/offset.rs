//! Where the kernel was loaded, by its own last words.

/// How far above its linked address the kernel ran, from the line that Linux prints when it panics.
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

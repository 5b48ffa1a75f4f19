//! AArch64's caches before a reset.

#[cfg(target_arch = "aarch64")]
use core::arch::asm;
#[cfg(target_arch = "aarch64")]
use core::ptr::NonNull;

/// Cleans the cache lines of `len` bytes to the point of coherency, those of all CPUs, and waits for
/// the end. Returns the number of lines.
///
/// Normal Write-Back memory that survives a reset needs this, because the reset discards the lines
/// in caches. Call it when the bytes are complete, for example in a panic. It executes `DC CVAC` for
/// each line of `CTR_EL0.DminLine`, then `DSB SY` (Arm ARM, DDI 0487, section D7.5, "A64 Cache
/// maintenance instructions").
///
/// A system cache behind the point of coherency keeps its lines. Only the firmware can flush it.
///
/// # Safety
///
/// The bytes are mapped and readable. At EL0, the kernel must allow `DC CVAC` and the read of
/// `CTR_EL0`, as Linux does.
#[cfg(target_arch = "aarch64")]
pub unsafe fn clean_to_poc(start: NonNull<u8>, len: usize) -> usize {
    let ctr: usize;
    // SAFETY: the register only has sizes.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) ctr, options(nomem, nostack, preserves_flags)) };
    let count = lines(start.addr().get(), len, 4 << (ctr >> 16 & 15))
        // SAFETY: the caller's promise. It changes no value of memory.
        .map(|line| unsafe { asm!("dc cvac, {}", in(reg) line, options(nostack, preserves_flags)) })
        .count();
    // SAFETY: waits until the instructions above are complete.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
    count
}

/// Returns the addresses of the lines that `len` bytes at `start` touch.
fn lines(start: usize, len: usize, line: usize) -> impl Iterator<Item = usize> {
    let first = start & !(line - 1);
    let end = if len == 0 { first } else { start + len };
    (first..end).step_by(line)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::lines;
    use std::vec::Vec;

    #[test]
    fn each_line_that_a_range_touches_is_cleaned_once() {
        let lines = |start, len| lines(start, len, 64).collect::<Vec<_>>();
        assert_eq!(lines(128, 128), [128, 192]);
        assert_eq!(lines(191, 1), [128]);
        assert_eq!(lines(191, 2), [128, 192]);
        assert_eq!(lines(191, 66), [128, 192, 256]);
        assert_eq!(lines(191, 0), []);
    }
}

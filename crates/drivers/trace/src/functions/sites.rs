//! Sites of no-operations, and their replacement.

use core::slice;

use super::calls::{Kernel, entered, left};
use super::stubs;

/// Size of a site in bytes.
pub const SITE_BYTES: usize = stubs::BYTES;

/// Sites of a kernel: the addresses in its section `__patchable_function_entries`.
#[derive(Clone, Copy, Debug)]
pub struct Sites(&'static [usize]);

/// Result of [`patch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patched {
    /// Number of sites that call the stub now.
    pub sites: usize,
    /// Number of sites that contain neither no-operations nor a call of the stub, or are too far
    /// from it. They were not changed.
    pub refused: usize,
}

impl Sites {
    /// Creates the sites between two symbols of the linker script.
    ///
    /// # Safety
    ///
    /// Only addresses of code may lie between `start` and `end`, permanently.
    pub const unsafe fn new(start: *const usize, end: *const usize) -> Self {
        // SAFETY: both are symbols of one section.
        let len = unsafe { end.offset_from_unsigned(start) };
        // SAFETY: guaranteed by the caller.
        Self(unsafe { slice::from_raw_parts(start, len) })
    }

    /// Returns the number of sites: 0 in a kernel that is built without the option.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no sites.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the address at which a CPU continues that was interrupted at `pc` while sites were
    /// patched. A CPU inside a site continues after it.
    pub fn resume(&self, pc: usize) -> usize {
        if !stubs::IS_DIVISIBLE {
            return pc;
        }
        let inside = |site: &&usize| pc > **site && pc - **site < SITE_BYTES;
        self.0
            .iter()
            .find(inside)
            .map_or(pc, |site| site + SITE_BYTES)
    }
}

/// Replaces the sites selected with `wanted` with calls of the entry stub, and all others with
/// no-operations.
///
/// `writable` returns the address through which a site's memory can be written.
///
/// # Safety
///
/// - Meanwhile, no other CPU may run code with a site, or start a function.
/// - Before each CPU continues, it executes an instruction that makes it see the new code. On
///   x86-64 this is a serialising one, such as the return from an interrupt; on RISC-V `fence.i`. On
///   AArch64 it is `isb`, after the caches were made coherent. The caller's CPU does this, too. On RISC-V and AArch64 each CPU continues at [`Sites::resume`].
/// - Every CPU that may run a patched function has state that [`Kernel::calls`] returns.
/// - `writable` is another mapping of the same memory.
pub unsafe fn patch<K: Kernel>(
    sites: Sites,
    wanted: impl Fn(usize) -> bool,
    writable: impl Fn(usize) -> *mut u8,
) -> Patched {
    // Functions that run before the recorder is marked as entered on this CPU.
    let own = [
        entered::<K> as *const () as usize,
        left::<K> as *const () as usize,
        K::calls as *const () as usize,
    ];
    let stub = stubs::entry_stub::<K> as *const () as usize;
    let mut patched = Patched::default();
    // Calls through already patched sites do not belong to the trace.
    K::calls().unrecorded(|| {
        for &site in sites.0 {
            let code = site as *const stubs::Unit;
            // SAFETY: a site is code, which is readable.
            let now = unsafe {
                code.cast::<[stubs::Unit; stubs::OFF.len()]>()
                    .read_unaligned()
            };
            let call = stubs::on(site, stub);
            let is_known = now == stubs::OFF || Some(now) == call;
            let next = match wanted(site) && !own.contains(&site) {
                true => call,
                false => Some(stubs::OFF),
            };
            let Some(next) = next.filter(|_| is_known) else {
                patched.refused += 1;
                continue;
            };
            patched.sites += usize::from(next != stubs::OFF);
            if next == now {
                continue;
            }
            // SAFETY: the caller guarantees that this is the site's memory, and that no CPU runs
            // it.
            unsafe { write(writable(site).cast(), next) };
        }
    });
    patched
}

/// Writes the instructions of a site. It calls no function, because any function may contain the
/// site.
///
/// # Safety
///
/// `to` must be the writable memory of the site, and no CPU may run the site.
#[inline(never)]
unsafe fn write(to: *mut stubs::Unit, code: [stubs::Unit; stubs::OFF.len()]) {
    let mut at = 0;
    while at < code.len() {
        // SAFETY: guaranteed by the caller.
        unsafe { to.wrapping_add(at).write_volatile(code[at]) };
        at += 1;
    }
}

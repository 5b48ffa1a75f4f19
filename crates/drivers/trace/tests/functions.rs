//! Patching of functions that start with no-operations, in this process.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]

use std::arch::global_asm;
use std::sync::Mutex;

use nostall_trace::Entered;
use nostall_trace::functions::{Calls, DEPTH, Kernel, Patched, SITE_BYTES, Sites, patch};

global_asm!(
    ".pushsection .text.traced, \"ax\"",
    ".balign 4096",
    ".global traced_outer",
    "traced_outer:",
    ".byte 0x0f, 0x1f, 0x44, 0x00, 0x08",
    "push rbx",
    "call traced_double",
    "mov rdi, rax",
    "call traced_double",
    "pop rbx",
    "ret",
    ".global traced_double",
    "traced_double:",
    ".byte 0x0f, 0x1f, 0x44, 0x00, 0x08",
    "lea rax, [rdi + rdi]",
    "ret",
    // Returns the number of its recursive calls.
    ".global traced_deep",
    "traced_deep:",
    ".byte 0x0f, 0x1f, 0x44, 0x00, 0x08",
    "xor eax, eax",
    "test rdi, rdi",
    "jz 1f",
    "dec rdi",
    "push rbx",
    "call traced_deep",
    "pop rbx",
    "inc rax",
    "1: ret",
    // Does not start with a no-operation.
    ".global traced_other",
    "traced_other:",
    ".byte 0xb8, 1, 0, 0, 0",
    "ret",
    ".balign 4096",
    ".popsection",
);

unsafe extern "C" {
    fn traced_outer(value: u64) -> u64;
    fn traced_double(value: u64) -> u64;
    fn traced_deep(calls: u64) -> u64;
    fn traced_other() -> u64;
}

static CALLS: Calls = Calls::new();
static LOG: Mutex<Vec<(char, u64)>> = Mutex::new(Vec::new());

struct Test;

impl Kernel for Test {
    #[inline(always)]
    fn calls() -> &'static Calls {
        &CALLS
    }

    fn entered(function: usize) -> Entered {
        LOG.lock().unwrap().push(('{', function as u64));
        // A function that the recorder calls is not recorded.
        // SAFETY: a function of this file.
        assert_eq!(unsafe { traced_double(4) }, 8);
        Entered {
            time: function as u64,
            exit: 1,
        }
    }

    fn left(entered: Entered) {
        LOG.lock().unwrap().push(('}', entered.time));
    }
}

/// Patches the functions selected with `wanted`.
fn patch_those(wanted: impl Fn(usize) -> bool) -> Patched {
    let sites = [
        traced_outer as *const () as usize,
        traced_double as *const () as usize,
        traced_deep as *const () as usize,
        traced_other as *const () as usize,
    ];
    let page = sites[0] as *mut libc::c_void;
    let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: the page contains only the functions above.
    assert_eq!(unsafe { libc::mprotect(page, 4096, all) }, 0);
    let sites = sites.to_vec().leak().as_ptr_range();
    // SAFETY: addresses of code, which stays.
    let sites = unsafe { Sites::new(sites.start, sites.end) };
    // SAFETY: only this thread runs the functions, and the memory is writable.
    unsafe { patch::<Test>(sites, wanted, |site| site as *mut u8) }
}

/// Runs the outer function, and returns its calls.
fn calls(value: u64) -> Vec<(char, u64)> {
    // SAFETY: a function of this file.
    assert_eq!(unsafe { traced_outer(value) }, 4 * value);
    std::mem::take(&mut *LOG.lock().unwrap())
}

#[test]
fn patched_functions_are_recorded_with_their_returns_and_work_as_before() {
    let (outer, double) = (
        traced_outer as *const () as u64,
        traced_double as *const () as u64,
    );
    assert_eq!(SITE_BYTES, 5);
    assert_eq!(calls(3), []);

    let refused = 1;
    assert_eq!(patch_those(|_| true), Patched { sites: 3, refused });
    let all = [
        ('{', outer),
        ('{', double),
        ('}', double),
        ('{', double),
        ('}', double),
        ('}', outer),
    ];
    assert_eq!(calls(3), all);
    assert_eq!(CALLS.unrecorded(|| calls(3)), []);
    // Functions of an interrupt of the recorder are recorded.
    assert_eq!(CALLS.unrecorded(|| CALLS.nested(|| calls(3))), all);

    // Calls beyond the depth limit return correctly, and leave no frame.
    // SAFETY: a function of this file.
    assert_eq!(unsafe { traced_deep(100) }, 100);
    let deep = traced_deep as *const () as u64;
    let recorded = std::mem::take(&mut *LOG.lock().unwrap());
    assert_eq!(
        recorded,
        [[('{', deep); DEPTH], [('}', deep); DEPTH]].concat()
    );
    assert_eq!(calls(3), all);

    let only = |site| site as u64 == double;
    assert_eq!(patch_those(only), Patched { sites: 1, refused });
    assert_eq!(calls(5), all[1..5]);

    assert_eq!(patch_those(|_| false), Patched { sites: 0, refused });
    assert_eq!(calls(5), []);
    // SAFETY: a function of this file.
    assert_eq!(unsafe { traced_other() }, 1);
}

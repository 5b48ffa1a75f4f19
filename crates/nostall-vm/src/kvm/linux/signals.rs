//! Signals that are to end a run in order, and not the process at once.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals that a terminal, a user or a service manager ends a program with.
const ENDING: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

static CAME: AtomicBool = AtomicBool::new(false);

/// From now on, until it is dropped, such a signal is only noted: for the whole
/// process, so that there is to be one at a time.
#[derive(Debug)]
pub struct Signals {
    before: Vec<(libc::c_int, Action)>,
}

struct Action(libc::sigaction);

impl std::fmt::Debug for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Action")
    }
}

impl Signals {
    /// Notes them.
    ///
    /// # Errors
    ///
    /// If the system refuses, which it has no reason for.
    pub fn note() -> io::Result<Self> {
        extern "C" fn note(_: libc::c_int) {
            CAME.store(true, Ordering::Release);
        }
        CAME.store(false, Ordering::Release);
        let mut signals = Self { before: Vec::new() };
        for signal in ENDING {
            // SAFETY: all zeros is a valid one: no flags, nothing blocked.
            let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
            action.sa_sigaction = note as extern "C" fn(libc::c_int) as usize;
            let before = set(signal, &action)?;
            signals.before.push((signal, Action(before)));
        }
        Ok(signals)
    }

    /// Whether one came since.
    pub fn came(&self) -> bool {
        CAME.load(Ordering::Acquire)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for (signal, action) in &self.before {
            // As it was before, it is taken again.
            let _ = set(*signal, &action.0);
        }
    }
}

fn set(signal: libc::c_int, action: &libc::sigaction) -> io::Result<libc::sigaction> {
    let mut before = MaybeUninit::zeroed();
    // SAFETY: both are valid for the call; the handler in `action` only stores to an atomic, or is
    // the one that was there before us.
    let result = unsafe { libc::sigaction(signal, ptr::from_ref(action), before.as_mut_ptr()) };
    if result == 0 {
        // SAFETY: filled by the call.
        Ok(unsafe { before.assume_init() })
    } else {
        Err(io::Error::last_os_error())
    }
}

//! Signals that end a run cleanly instead of killing the process.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals with which a terminal, user or service manager ends a program.
const ENDING: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

static CAME: AtomicBool = AtomicBool::new(false);

/// Records the ending signals until dropped, instead of their default action. It applies to the
/// whole process: use one at a time.
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
    /// Starts recording.
    ///
    /// # Errors
    ///
    /// If the system refuses a handler, which does not happen for valid signals.
    pub fn note() -> io::Result<Self> {
        extern "C" fn note(_: libc::c_int) {
            CAME.store(true, Ordering::Release);
        }
        CAME.store(false, Ordering::Release);
        let mut signals = Self { before: Vec::new() };
        for signal in ENDING {
            // SAFETY: all zeros is a valid value: no flags, nothing blocked.
            let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
            action.sa_sigaction = note as extern "C" fn(libc::c_int) as usize;
            let before = set(signal, &action)?;
            signals.before.push((signal, Action(before)));
        }
        Ok(signals)
    }

    /// Returns whether a signal was received since the start.
    pub fn came(&self) -> bool {
        CAME.load(Ordering::Acquire)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for (signal, action) in &self.before {
            // The previous action was valid, so restoring it cannot fail.
            let _ = set(*signal, &action.0);
        }
    }
}

fn set(signal: libc::c_int, action: &libc::sigaction) -> io::Result<libc::sigaction> {
    let mut before = MaybeUninit::zeroed();
    // SAFETY: both pointers are valid during the call. The handler in `action` is the previous one,
    // or stores to an atomic only.
    let result = unsafe { libc::sigaction(signal, ptr::from_ref(action), before.as_mut_ptr()) };
    if result == 0 {
        // SAFETY: the call has initialised it.
        Ok(unsafe { before.assume_init() })
    } else {
        Err(io::Error::last_os_error())
    }
}

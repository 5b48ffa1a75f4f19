//! The open functions of a CPU, and their returns.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

use crate::recorder::Entered;

/// Maximum number of open recorded functions of one [`Calls`]. Functions that they call are not
/// recorded.
pub const DEPTH: usize = 64;

/// A kernel with function tracing.
pub trait Kernel {
    /// Returns the state of the running CPU. It may be called anywhere: it must neither panic nor
    /// call a function that is not inlined.
    fn calls() -> &'static Calls;

    /// Records that the function at an address is entered:
    /// [`Recorder::enter`](crate::Recorder::enter).
    fn entered(function: usize) -> Entered;

    /// Records that the same function returns: [`Recorder::exit`](crate::Recorder::exit).
    fn left(entered: Entered);
}

/// Open functions of one CPU. Only that CPU uses it.
pub struct Calls {
    /// Whether the CPU is in the recorder.
    is_recording: AtomicBool,
    depth: AtomicUsize,
    frames: UnsafeCell<[Frame; DEPTH]>,
}

// SAFETY: only one CPU accesses the frames. Code that interrupts it uses others, because `depth`
// covers a frame from before it is written until after it is read.
unsafe impl Sync for Calls {}

/// A function whose return is recorded.
#[derive(Clone, Copy)]
struct Frame {
    entered: Entered,
    /// Address to which the function returns.
    caller: usize,
}

impl Calls {
    /// Creates the state without open functions.
    pub const fn new() -> Self {
        const NONE: Frame = Frame {
            entered: Entered::NOT_RECORDED,
            caller: 0,
        };
        Self {
            is_recording: AtomicBool::new(false),
            depth: AtomicUsize::new(0),
            frames: UnsafeCell::new([NONE; DEPTH]),
        }
    }

    /// Runs an interrupt's `handler`. Its functions are recorded even if the interrupted code is in
    /// the recorder.
    #[inline(always)]
    pub fn nested<T>(&self, handler: impl FnOnce() -> T) -> T {
        let interrupted = self.is_recording.load(Ordering::Relaxed);
        self.is_recording.store(false, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let result = handler();
        compiler_fence(Ordering::SeqCst);
        self.is_recording.store(interrupted, Ordering::Relaxed);
        result
    }

    /// Runs `work` without recording its functions.
    #[inline(always)]
    pub fn unrecorded<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = self.is_recording.load(Ordering::Relaxed);
        self.is_recording.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let result = work();
        compiler_fence(Ordering::SeqCst);
        self.is_recording.store(before, Ordering::Relaxed);
        result
    }

    fn frame(&self, depth: usize) -> *mut Frame {
        // The remainder prevents a panic inside the recorder.
        let first = self.frames.get().cast::<Frame>();
        first.wrapping_add(depth % DEPTH)
    }
}

impl Default for Calls {
    fn default() -> Self {
        Self::new()
    }
}

/// Handles the entry of `function`, called from the entry stub. `caller` is the word with the
/// function's return address. If the return is recorded, `trampoline` replaces the address.
pub(super) extern "C" fn entered<K: Kernel>(
    function: usize,
    caller: &mut usize,
    trampoline: usize,
) {
    let calls = K::calls();
    if calls.is_recording.load(Ordering::Relaxed) {
        return;
    }
    calls.unrecorded(|| {
        let depth = calls.depth.load(Ordering::Relaxed);
        if depth >= DEPTH {
            return;
        }
        calls.depth.store(depth + 1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let entered = K::entered(function);
        if entered.exit != 0 {
            let frame = Frame {
                entered,
                caller: *caller,
            };
            // SAFETY: this is the CPU's own frame, which no interrupt uses: `depth` covers it.
            unsafe { calls.frame(depth).write(frame) };
            *caller = trampoline;
        } else {
            calls.depth.store(depth, Ordering::Relaxed);
        }
    });
}

/// Handles the return of a function, called from the trampoline. Returns the original return
/// address.
pub(super) extern "C" fn left<K: Kernel>() -> usize {
    let calls = K::calls();
    calls.unrecorded(|| {
        let depth = calls.depth.load(Ordering::Relaxed).wrapping_sub(1);
        // SAFETY: this is the CPU's own frame, which `entered` wrote before the function could
        // return.
        let frame = unsafe { calls.frame(depth).read() };
        K::left(frame.entered);
        compiler_fence(Ordering::SeqCst);
        calls.depth.store(depth, Ordering::Relaxed);
        frame.caller
    })
}

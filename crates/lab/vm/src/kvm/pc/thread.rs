//! A thread that runs a virtual CPU and can be stopped.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use vmm_sys_util::signal::{Killable, SIGRTMIN, register_signal_handler, unblock_signal};

use super::vm::failed;
use crate::Error;

/// Time limit for stopping a CPU, which usually takes microseconds.
const STOPPING: Duration = Duration::from_secs(10);

/// A virtual CPU's thread; dropping it stops the thread.
pub struct CpuThread<T> {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<T, Error>>>,
}

impl<T: Send + 'static> CpuThread<T> {
    /// Calls `run` on a new thread. `run` must return soon after its flag is set. A signal then
    /// interrupts the CPU.
    pub fn start(
        run: impl FnOnce(&AtomicBool) -> Result<T, Error> + Send + 'static,
    ) -> Result<Self, Error> {
        heed_signals()?;
        let stop = Arc::new(AtomicBool::new(false));
        let result = stop.clone();
        let on_thread = move || {
            // The parent may have blocked the signal that stops the thread.
            unblock_signal(SIGRTMIN()).map_err(|error| io::Error::other(error.to_string()))?;
            run(&result)
        };
        let thread = thread::Builder::new()
            .name("vcpu".to_owned())
            .spawn(on_thread)?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    /// Returns the result once, after `run` has ended.
    pub fn ended(&mut self) -> Option<Result<T, Error>> {
        let thread = self.thread.take_if(|thread| thread.is_finished())?;
        Some(
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    }
}

impl<T> CpuThread<T> {
    /// Stops the thread.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let start = Instant::now();
        // A signal just before the CPU enters the guest has no effect, so it is repeated.
        while let Some(thread) = self.thread.as_ref().filter(|thread| !thread.is_finished()) {
            // The signal has a handler (`heed_signals`). An error means that the thread has just
            // ended.
            let _ = thread.kill(SIGRTMIN());
            if start.elapsed() > STOPPING {
                // The thread owns all its data, and may end later.
                return;
            }
            sleep(Duration::from_millis(1));
        }
    }
}

impl<T> Drop for CpuThread<T> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Installs an empty handler for the signal that stops a CPU.
fn heed_signals() -> Result<(), Error> {
    extern "C" fn nothing(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}
    static RESULT: OnceLock<Result<(), kvm_ioctls::Error>> = OnceLock::new();
    RESULT
        .get_or_init(|| register_signal_handler(SIGRTMIN(), nothing))
        .map_err(failed("install its signal handler"))
}

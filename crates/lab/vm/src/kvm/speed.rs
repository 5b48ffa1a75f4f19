//! The speed of guest code, which shows whether KVM interprets it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::{VcpuExit, VcpuFd, VmFd};
use nostall_io::Nanos;

use super::Speed;
use super::options::ROUNDS;
use super::pc::{CpuThread, Kvm, PAGE, SharedMemory, create_vm, failed, set_up};
use crate::Error;

/// Time limit of the loop. An interpreter takes milliseconds, on a busy host many times that.
const LIMIT: Duration = Duration::from_secs(10);

/// Interval between checks for the loop's end.
const LOOK: Duration = Duration::from_micros(100);

impl Speed {
    /// Runs the loop three times, in a separate machine, and returns the fastest result.
    fn measure(kvm: &kvm_ioctls::Kvm) -> Result<Self, Error> {
        let mut best: Option<Nanos> = None;
        for _ in 0..3 {
            let took = run(kvm, &short_loop(), LIMIT)?;
            best = Some(best.map_or(took, |best| best.min(took)));
        }
        Ok(Self {
            took: best.unwrap_or_default(),
        })
    }
}

impl Kvm {
    /// Measures the speed of guest code, in some milliseconds.
    ///
    /// # Errors
    ///
    /// [`Error::Kvm`] if KVM refuses the machine, or [`Error::Cpu`] if the loop does not complete.
    pub fn speed(&self) -> Result<Speed, Error> {
        Speed::measure(&self.system)
    }
}

/// Returns the code `mov ecx, ROUNDS; 1: dec ecx; jnz 1b; hlt`.
fn short_loop() -> Vec<u8> {
    let rounds = u32::from(ROUNDS).to_le_bytes();
    [&[0xb9][..], &rounds, &[0x49, 0x75, 0xfd, 0xf4]].concat()
}

/// Runs `code` in a separate machine up to its `hlt`, for at most `limit`. The CPU starts in
/// protected mode, because KVM interprets real mode on hardware without support for it.
fn run(system: &kvm_ioctls::Kvm, code: &[u8], limit: Duration) -> Result<Nanos, Error> {
    let mut machine = Loop::new(system, code)?;
    let mut thread = CpuThread::start(move |stop| machine.run(stop))?;
    let start = Instant::now();
    loop {
        if let Some(took) = thread.ended() {
            return took;
        }
        if start.elapsed() > limit {
            return Err(Error::Cpu(format!("a short loop did not end in {limit:?}")));
        }
        sleep(LOOK);
    }
}

/// A machine with one page of memory.
struct Loop {
    // Fields are dropped in this order.
    cpu: VcpuFd,
    _vm: VmFd,
    _page: SharedMemory,
}

impl Loop {
    fn new(system: &kvm_ioctls::Kvm, code: &[u8]) -> Result<Self, Error> {
        const START: u64 = 0x1000;
        let page = SharedMemory::filled(PAGE, 0xf4)?;
        for (i, &value) in code.iter().enumerate() {
            if let Some(byte) = page.byte(i) {
                byte.store(value, Ordering::Relaxed);
            }
        }
        let vm = create_vm(system)?;
        let region = kvm_userspace_memory_region {
            slot: 0,
            flags: 0,
            guest_phys_addr: START,
            memory_size: PAGE as u64,
            userspace_addr: page.address(),
        };
        // SAFETY: the page outlives the machine (`Loop`), and this process accesses it only with
        // atomics.
        unsafe { vm.set_user_memory_region(region) }.map_err(failed("map memory"))?;
        let cpu = vm.create_vcpu(0).map_err(failed("create a CPU"))?;
        set_up(&cpu, START)?;
        Ok(Self {
            cpu,
            _vm: vm,
            _page: page,
        })
    }

    fn run(&mut self, stop: &AtomicBool) -> Result<Nanos, Error> {
        let start = Instant::now();
        while !stop.load(Ordering::Acquire) {
            match self.cpu.run() {
                Ok(VcpuExit::Hlt) => {
                    let took = start.elapsed().as_nanos();
                    return Ok(Nanos(took.try_into().unwrap_or(u64::MAX)));
                }
                Err(error) if matches!(error.errno(), libc::EINTR | libc::EAGAIN) => {}
                Ok(other) => return Err(Error::Cpu(format!("{other:?} in a short loop"))),
                Err(error) => return Err(failed("run a loop")(error)),
            }
        }
        Err(Error::Undone)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_loop_that_does_not_end_is_stopped_in_time() {
        let system = match kvm_ioctls::Kvm::new() {
            Ok(system) => system,
            Err(error) => {
                let required = std::env::var_os("NOSTALL_REQUIRE_KVM").is_some();
                assert!(!required, "{error}");
                // Macros of std would write to the test harness's capture.
                let _ = writeln!(
                    std::io::stderr(),
                    "SKIPPED a_loop_that_does_not_end: {error}"
                );
                return;
            }
        };
        let limit = Duration::from_millis(50);
        let endless = [0xeb, 0xfe];
        let error = run(&system, &endless, limit).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the virtual CPU stopped: a short loop did not end in 50ms"
        );
        assert!(run(&system, &short_loop(), LIMIT).unwrap() > Nanos(0));
    }
}

//! Whether a KVM runs guest code, or interprets it.

use std::fmt;
use std::time::Instant;

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::VcpuExit;
use nostall_io::Nanos;

use super::failed;
use super::mapping::{PAGE, SharedMemory};
use crate::Error;

/// What one instruction of a short loop takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    /// The whole loop's time.
    took: Nanos,
}

/// Rounds of the loop, two instructions each.
const ROUNDS: u16 = 10_000;

/// Above so much an instruction nobody would call it hardware: the slowest CPU with
/// VT-x takes a nanosecond, and an exit or two in between make no 50 of it.
const HARDWARE: Nanos = Nanos(50);

impl Speed {
    /// One instruction's time.
    pub fn per_instruction(self) -> Nanos {
        self.took / (2 * u64::from(ROUNDS))
    }

    /// Whether it is too slow to be run by the hardware.
    pub fn is_interpreted(self) -> bool {
        self.per_instruction() > HARDWARE
    }

    /// Runs the loop in a machine of its own, three times: the fastest counts.
    pub(super) fn measure(kvm: &kvm_ioctls::Kvm) -> Result<Self, Error> {
        let mut best: Option<Nanos> = None;
        for _ in 0..3 {
            let took = run_loop(kvm)?;
            best = Some(best.map_or(took, |best| best.min(took)));
        }
        Ok(Self {
            took: best.unwrap_or_default(),
        })
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.is_interpreted() {
            "interprets guest code"
        } else {
            "runs guest code"
        };
        write!(f, "{how}, {} an instruction", self.per_instruction())
    }
}

/// In real mode, as after reset: `mov cx, ROUNDS; 1: dec cx; jnz 1b; hlt`.
fn run_loop(kvm: &kvm_ioctls::Kvm) -> Result<Nanos, Error> {
    const START: u64 = 0x1000;
    let [low, high] = ROUNDS.to_le_bytes();
    let code = [0xb9, low, high, 0x49, 0x75, 0xfd, 0xf4];
    let page = SharedMemory::filled(PAGE, 0xf4)?;
    for (i, value) in code.into_iter().enumerate() {
        if let Some(byte) = page.byte(i) {
            byte.store(value, std::sync::atomic::Ordering::Relaxed);
        }
    }
    let vm = kvm.create_vm().map_err(failed("create a machine"))?;
    let region = kvm_userspace_memory_region {
        slot: 0,
        flags: 0,
        guest_phys_addr: START,
        memory_size: PAGE as u64,
        userspace_addr: page.address(),
    };
    // SAFETY: the page outlives the machine, which is dropped first.
    unsafe { vm.set_user_memory_region(region) }.map_err(failed("map memory"))?;
    let mut cpu = vm.create_vcpu(0).map_err(failed("create a CPU"))?;
    let mut segments = cpu.get_sregs().map_err(failed("tell registers"))?;
    segments.cs.base = 0;
    segments.cs.selector = 0;
    cpu.set_sregs(&segments).map_err(failed("set registers"))?;
    let mut registers = cpu.get_regs().map_err(failed("tell registers"))?;
    registers.rip = START;
    registers.rflags = 2;
    cpu.set_regs(&registers).map_err(failed("set registers"))?;
    let start = Instant::now();
    let ended = loop {
        match cpu.run() {
            Ok(VcpuExit::Hlt) => break Ok(()),
            Err(error) if error.errno() == libc::EINTR => {}
            Ok(other) => break Err(Error::Cpu(format!("{other:?} in a loop"))),
            Err(error) => break Err(failed("run a loop")(error)),
        }
    };
    let took = start.elapsed();
    drop(cpu);
    drop(vm);
    ended.map(|()| Nanos(took.as_nanos().try_into().unwrap_or(u64::MAX)))
}

//! A machine that runs on its own thread.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kvm_ioctls::{VcpuFd, VmFd};
use nostall_devices::pci::HostBridge;
use parking_lot::{FairMutex, FairMutexGuard};

use super::bus::{self, KvmBus};
use super::cpu;
use super::exit::End;
use super::host::Kvm;
use super::pci::PciBus;
use super::ring::CoalescedRing;
use super::serial::KvmSerial;
use super::statistics::KvmStatistics;
use super::thread::CpuThread;
use super::vm::{Memory, create_vm, failed, give_interrupts, give_memory};
use crate::Error;
use crate::guest::Limits;

/// Time to wait for the bus before the time limits are checked again. The CPU's thread holds the
/// bus while the host's kernel changes mappings, which takes milliseconds on some hosts.
const TURN: Duration = Duration::from_millis(100);

/// The shared bus. The CPU's thread locks it for each exit, the watching thread periodically. The
/// lock is fair: otherwise a guest that only causes exits would keep it.
type SharedBus = Arc<FairMutex<KvmBus>>;

/// A machine that is ready to run.
pub struct KvmMachine {
    // Fields are dropped in this order.
    cpu: VcpuFd,
    bus: SharedBus,
    _vm: Arc<VmFd>,
    _memory: Memory,
}

impl KvmMachine {
    /// Creates a machine with this memory and these PCI devices. `set_up` prepares the CPU; its
    /// argument is the time stamp counter's rate, if known.
    pub fn new(
        kvm: &Kvm,
        (memory, bridge): (Memory, HostBridge),
        limits: &Limits,
        set_up: impl FnOnce(&VcpuFd, Option<u32>) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let vm = Arc::new(create_vm(&kvm.system)?);
        give_memory(&vm, &memory)?;
        let has_interrupts = kvm.capabilities().interrupts;
        if has_interrupts {
            give_interrupts(&vm)?;
        }
        let cpu = vm.create_vcpu(0).map_err(failed("create a CPU"))?;
        let result = kvm.capabilities().tsc_rate.then(|| cpu.get_tsc_khz().ok());
        set_up(&cpu, result.flatten())?;
        let capabilities = kvm.capabilities();
        let collects = capabilities.coalesced_ports || capabilities.coalesced_mmio;
        let ring = collects.then(|| CoalescedRing::of(&cpu)).transpose()?;
        let statistics = capabilities.statistics.then(|| KvmStatistics::of(&cpu));
        let output = bus::output(limits);
        let serial = KvmSerial::new(kvm.options().uart, has_interrupts, output)?;
        let pci = PciBus::new(bridge, kvm.options().pci, &vm)?;
        let devices = (serial, pci);
        let mut bus = KvmBus::new(vm.clone(), ring, statistics.flatten(), devices, limits);
        bus.settle()?;
        Ok(Self {
            cpu,
            bus: Arc::new(FairMutex::new(bus)),
            _vm: vm,
            _memory: memory,
        })
    }

    /// Takes the whole machine: a closure that captured single fields would drop the others,
    /// including the memory.
    fn run(&mut self, stop: &AtomicBool) -> Result<End, Error> {
        cpu::run(&mut self.cpu, &self.bus, stop)
    }
}

/// A machine whose CPU runs on its own thread; dropping it stops the CPU.
pub struct RunningMachine {
    bus: SharedBus,
    pub cpu: CpuThread<End>,
}

impl RunningMachine {
    /// Starts the CPU's thread.
    pub fn start(mut machine: KvmMachine) -> Result<Self, Error> {
        Ok(Self {
            bus: machine.bus.clone(),
            cpu: CpuThread::start(move |stop| machine.run(stop))?,
        })
    }

    /// Returns how the machine ended, if it has ended.
    pub fn ended(&mut self) -> Option<Result<End, Error>> {
        self.cpu.ended()
    }

    /// Waits for the guest's bus; `None` if it is not free within the time limit.
    pub fn bus(&self) -> Option<FairMutexGuard<'_, KvmBus>> {
        self.bus.try_lock_for(TURN)
    }
}

/// Returns the error for a CPU thread that does not stop.
pub fn stuck() -> Error {
    Error::Cpu("the host's kernel does not return from running it".to_owned())
}

#[cfg(test)]
pub mod tests {
    use std::io::Write;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::thread::sleep;

    use super::super::pci::devices;
    use super::*;
    use crate::kvm::Options;

    /// Returns a machine's bus without a CPU.
    pub fn bus(test: &str, limits: &Limits) -> Option<SharedBus> {
        let options = Options::default();
        let kvm = match Kvm::find(options) {
            Ok(kvm) => kvm,
            Err(error) => {
                let required = std::env::var_os("NOSTALL_REQUIRE_KVM").is_some();
                assert!(!required, "{test}: {error}");
                // Macros of std would write to the test harness's capture.
                let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {error}");
                return None;
            }
        };
        let vm = Arc::new(create_vm(&kvm.system).unwrap());
        let serial = KvmSerial::new(options.uart, false, bus::output(limits)).unwrap();
        let bridge = devices().unwrap().bridge;
        let pci = PciBus::new(bridge, options.pci, &vm).unwrap();
        let bus = KvmBus::new(vm, None, None, (serial, pci), limits);
        Some(Arc::new(FairMutex::new(bus)))
    }

    /// Returns a machine that consists of this bus and this thread.
    pub fn running(bus: SharedBus, cpu: CpuThread<End>) -> RunningMachine {
        RunningMachine { bus, cpu }
    }

    #[test]
    fn a_cpu_that_locks_the_bus_again_at_once_lets_a_waiter_have_it_first() {
        const WAITS: usize = 50;
        let Some(bus) = bus("a_cpu_that_locks_the_bus_again", &Limits::of(1, 0)) else {
            return;
        };
        // The CPU's current turn, and the first turn in which it found the waiter asleep.
        let turn = Arc::new(AtomicU32::new(0));
        let slept = Arc::new(AtomicU32::new(0));
        let asks = Arc::new(AtomicBool::new(false));
        let waiter = std::fs::canonicalize("/proc/thread-self").unwrap();
        let (shared, its_turn, saw, asked) =
            (bus.clone(), turn.clone(), slept.clone(), asks.clone());
        let _cpu = CpuThread::start(move |stop| {
            while !stop.load(Ordering::Acquire) {
                let _bus = shared.lock();
                let turn = its_turn.fetch_add(1, Ordering::Relaxed) + 1;
                while !stop.load(Ordering::Acquire) {
                    if asked.load(Ordering::Acquire) && sleeps(&waiter) {
                        let _ = saw.compare_exchange(0, turn, Ordering::Relaxed, Ordering::Relaxed);
                        break;
                    }
                    sleep(Duration::from_micros(100));
                }
            }
            Ok(())
        })
        .unwrap();
        for wait in 0..WAITS {
            let last = slept.swap(0, Ordering::Relaxed);
            while turn.load(Ordering::Relaxed) == last {
                std::thread::yield_now();
            }
            asks.store(true, Ordering::Release);
            let bus = bus.lock();
            asks.store(false, Ordering::Release);
            let (turn, slept) = (turn.load(Ordering::Relaxed), slept.load(Ordering::Relaxed));
            assert_eq!(turn, slept, "wait {wait}: overtaken");
            drop(bus);
        }
    }

    /// Returns whether Linux reports the thread as sleeping.
    fn sleeps(thread: &Path) -> bool {
        let stat = std::fs::read_to_string(thread.join("stat")).unwrap();
        // The thread's name, in parentheses, can contain any character.
        stat.rsplit(") ").next().unwrap().starts_with('S')
    }
}

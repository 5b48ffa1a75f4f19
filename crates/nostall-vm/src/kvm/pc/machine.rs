//! A machine that runs on a thread of its own.

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

/// How long to wait for the bus, before the time limits are checked again. The CPU's thread holds
/// it for as long as the host's kernel takes to change the mappings: some milliseconds, on some
/// hosts.
const TURN: Duration = Duration::from_millis(100);

/// The bus. The CPU's thread locks it for each exit, and the watching thread now and then. The
/// lock is fair: a guest that makes nothing but exits would otherwise keep it.
type SharedBus = Arc<FairMutex<KvmBus>>;

/// A machine that is ready to run.
pub struct KvmMachine {
    // In this order they are dropped.
    cpu: VcpuFd,
    bus: SharedBus,
    _vm: Arc<VmFd>,
    _memory: Memory,
}

impl KvmMachine {
    /// A machine with this memory and these PCI devices, whose CPU `set_up` makes ready, and whose
    /// bus `equip` does. `set_up` gets the time stamp counter's rate, if that is known.
    pub fn new(
        kvm: &Kvm,
        (memory, bridge): (Memory, HostBridge),
        limits: &Limits,
        set_up: impl FnOnce(&VcpuFd, Option<u32>) -> Result<(), Error>,
        equip: impl FnOnce(KvmBus) -> KvmBus,
    ) -> Result<Self, Error> {
        let vm = Arc::new(create_vm(&kvm.system)?);
        give_memory(&vm, &memory)?;
        let has_interrupts = kvm.capabilities().interrupts;
        if has_interrupts {
            give_interrupts(&vm)?;
        }
        let cpu = vm.create_vcpu(0).map_err(failed("create a CPU"))?;
        let told = kvm.capabilities().tsc_rate.then(|| cpu.get_tsc_khz().ok());
        set_up(&cpu, told.flatten())?;
        let capabilities = kvm.capabilities();
        let collects = capabilities.coalesced_ports || capabilities.coalesced_mmio;
        let ring = collects.then(|| CoalescedRing::of(&cpu)).transpose()?;
        let statistics = capabilities.statistics.then(|| KvmStatistics::of(&cpu));
        let output = bus::output(limits);
        let serial = KvmSerial::new(kvm.options().uart, has_interrupts, output)?;
        let pci = PciBus::new(bridge, kvm.options().pci, &vm)?;
        let devices = (serial, pci);
        let bus = KvmBus::new(vm.clone(), ring, statistics.flatten(), devices, limits);
        let mut bus = equip(bus);
        bus.settle()?;
        Ok(Self {
            cpu,
            bus: Arc::new(FairMutex::new(bus)),
            _vm: vm,
            _memory: memory,
        })
    }

    /// Of the whole machine: a closure that names parts of it would drop the others, and
    /// the memory with them.
    fn run(&mut self, stop: &AtomicBool) -> Result<End, Error> {
        cpu::run(&mut self.cpu, &self.bus, stop)
    }
}

/// A machine whose CPU runs, on a thread of its own; stopped when dropped.
pub struct RunningMachine {
    bus: SharedBus,
    pub cpu: CpuThread<End>,
}

impl RunningMachine {
    /// Starts it.
    pub fn start(mut machine: KvmMachine) -> Result<Self, Error> {
        Ok(Self {
            bus: machine.bus.clone(),
            cpu: CpuThread::start(move |stop| machine.run(stop))?,
        })
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<Result<End, Error>> {
        let by_itself = self.bus().and_then(|bus| bus.ended());
        if by_itself.is_some() {
            self.cpu.stop();
        }
        self.cpu.ended()
    }

    /// Returns the guest's bus, as soon as it is free; `None` if it is not for a long time.
    pub fn bus(&self) -> Option<FairMutexGuard<'_, KvmBus>> {
        self.bus.try_lock_for(TURN)
    }
}

/// The CPU's thread does not even stop.
pub fn stuck() -> Error {
    Error::Cpu("the host's kernel does not let go of it".to_owned())
}

#[cfg(test)]
pub mod tests {
    use std::io::Write;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::thread::sleep;

    use super::super::capabilities::Options;
    use super::super::pci::devices;
    use super::*;

    /// A machine's bus, without a CPU that uses it.
    pub fn bus(test: &str, limits: &Limits) -> Option<SharedBus> {
        let options = Options::default();
        let kvm = match Kvm::find(options) {
            Ok(kvm) => kvm,
            Err(error) => {
                let required = std::env::var_os("NOSTALL_REQUIRE_KVM").is_some();
                assert!(!required, "{test}: {error}");
                // Not by a macro of std: the test harness would swallow it.
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

    /// A machine that consists of this bus and this thread.
    pub fn running(bus: SharedBus, cpu: CpuThread<End>) -> RunningMachine {
        RunningMachine { bus, cpu }
    }

    #[test]
    fn a_cpu_that_takes_the_bus_again_at_once_leaves_it_to_a_waiter() {
        const WAITS: usize = 50;
        let Some(bus) = bus("a_cpu_that_takes_the_bus_again", &Limits::of(1, 0)) else {
            return;
        };
        // The turn that the CPU has, and the first in which it saw the waiter asleep in line.
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

    /// Whether a thread sleeps, according to Linux.
    fn sleeps(thread: &Path) -> bool {
        let stat = std::fs::read_to_string(thread.join("stat")).unwrap();
        // Its name, which may have any character, is in parentheses.
        stat.rsplit(") ").next().unwrap().starts_with('S')
    }
}

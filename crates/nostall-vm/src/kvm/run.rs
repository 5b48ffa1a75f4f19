//! One run of a guest, watched.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::{Duration, Instant};

use kvm_bindings::{KVM_PIT_SPEAKER_DUMMY, kvm_pit_config, kvm_userspace_memory_region};
use kvm_ioctls::{VcpuFd, VmFd};
use nostall_devices::pci::HostBridge;
use nostall_work::Timer;
use parking_lot::{FairMutex, FairMutexGuard};
use vm_memory::{GuestMemoryBackend, GuestMemoryRegion};

use super::boot::{self, Memory};
use super::bus::{self, Bus};
use super::cpu;
use super::exit::End;
use super::pci::{self, PciBus};
use super::ring::Ring;
use super::serial::Serial;
use super::statistics::Statistics;
use super::thread::CpuThread;
use super::{Kvm, create_vm, failed};
use crate::Error;
use crate::guest::{self, Ending, Guest, Limits, Ran};

/// How often a run is looked at, and what was collected is handed over: well within
/// the 10 ms that are promised.
pub const LOOK: Duration = Duration::from_millis(2);

/// The memory slots of RAM, which is one range or two: beyond those of PCI
/// configuration space, and below the 509 that every KVM has.
const RAM_SLOTS: [u32; 2] = [0, 500];

/// How long to wait for the bus, before the time limits are looked at again. The CPU's
/// thread holds it for as long as the host's kernel takes to change what is offered:
/// some milliseconds, on some hosts.
const TURN: Duration = Duration::from_millis(100);

/// The CPU's thread has it for each exit, and whoever watches now and then. It is a fair
/// lock, since a guest that does nothing but exits would never leave it to others.
type SharedBus = Arc<FairMutex<Bus>>;

/// Runs `guest` to its end.
pub fn run(
    kvm: &Kvm,
    guest: &Guest<'_>,
    limits: &Limits,
    ending: Ending,
    progress: &mut dyn FnMut(u64),
) -> Result<Ran, Error> {
    let start = Instant::now();
    let machine = KvmMachine::new(kvm, guest, limits)?;
    let run = Run {
        running: Running::start(machine)?,
        limits,
        ending,
        start,
    };
    run.watch(progress)
}

/// A machine that is ready to run.
pub struct KvmMachine {
    // In this order they are dropped.
    cpu: VcpuFd,
    bus: SharedBus,
    _vm: Arc<VmFd>,
    _memory: Memory,
}

impl KvmMachine {
    fn new(kvm: &Kvm, guest: &Guest<'_>, limits: &Limits) -> Result<Self, Error> {
        let memory = boot::memory(guest)?;
        let entry = boot::load(&memory, guest, &command_line(kvm, guest))?;
        let set_up = |cpu: &VcpuFd, tsc_khz| {
            cpu::identify(&kvm.system, cpu, tsc_khz, |_| {})?;
            cpu::set_up(cpu, entry)
        };
        let bridge = pci::devices()?.bridge;
        Self::with(kvm, (memory, bridge), limits, set_up, |bus| bus)
    }

    /// A machine with this memory and these PCI devices, whose CPU is made ready by
    /// `set_up` (which is told the time stamp counter's rate, if that is known), and its
    /// bus by `equip`.
    pub fn with(
        kvm: &Kvm,
        (memory, bridge): (Memory, HostBridge),
        limits: &Limits,
        set_up: impl FnOnce(&VcpuFd, Option<u32>) -> Result<(), Error>,
        equip: impl FnOnce(Bus) -> Bus,
    ) -> Result<Self, Error> {
        let vm = Arc::new(create_vm(&kvm.system)?);
        give_memory(&vm, &memory)?;
        let has_interrupts = kvm.capabilities.interrupts;
        if has_interrupts {
            give_interrupts(&vm)?;
        }
        let cpu = vm.create_vcpu(0).map_err(failed("create a CPU"))?;
        let told = kvm.capabilities.tsc_rate.then(|| cpu.get_tsc_khz().ok());
        set_up(&cpu, told.flatten())?;
        let capabilities = kvm.capabilities;
        let collects = capabilities.coalesced_ports || capabilities.coalesced_mmio;
        let ring = collects.then(|| Ring::of(&cpu)).transpose()?;
        let statistics = capabilities.statistics.then(|| Statistics::of(&cpu));
        let output = bus::output(limits);
        let serial = Serial::new(kvm.options.uart, has_interrupts, output)?;
        let pci = PciBus::new(bridge, kvm.options.pci, &vm)?;
        let devices = (serial, pci);
        let bus = Bus::new(vm.clone(), ring, statistics.flatten(), devices, limits);
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

/// What the work needs, and what is particular to this machine. There is a timer,
/// but each of its ticks would be an exit of nobody's making.
fn command_line(kvm: &Kvm, guest: &Guest<'_>) -> String {
    let mut words = guest.words();
    words.push(format!("uart={}", kvm.options.uart.window()));
    words.push(format!("timer={}", Timer::None));
    words.join(" ")
}

fn give_memory(vm: &VmFd, memory: &Memory) -> Result<(), Error> {
    for (slot, range) in memory.iter().enumerate() {
        let host = memory
            .get_host_address(range.start_addr())
            .map_err(|error| Error::Unbootable(error.to_string()))?;
        let region = kvm_userspace_memory_region {
            slot: RAM_SLOTS[slot.min(1)],
            flags: 0,
            guest_phys_addr: range.start_addr().0,
            memory_size: range.len(),
            userspace_addr: host.addr() as u64,
        };
        // SAFETY: the memory lives as long as the machine (`KvmMachine`), and nobody in
        // this process has a reference into it.
        unsafe { vm.set_user_memory_region(region) }.map_err(failed("map memory"))?;
    }
    Ok(())
}

fn give_interrupts(vm: &VmFd) -> Result<(), Error> {
    vm.create_irq_chip()
        .map_err(failed("create interrupt controllers"))?;
    let config = kvm_pit_config {
        flags: KVM_PIT_SPEAKER_DUMMY,
        ..Default::default()
    };
    vm.create_pit2(config).map_err(failed("create a timer"))
}

/// A machine whose CPU runs, on a thread of its own; stopped when dropped.
pub struct Running {
    bus: SharedBus,
    pub cpu: CpuThread<End>,
}

impl Running {
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

    /// What the guest reaches, as soon as it is free; `None` if it is not for a long
    /// time.
    pub fn bus(&self) -> Option<FairMutexGuard<'_, Bus>> {
        self.bus.try_lock_for(TURN)
    }
}

struct Run<'a> {
    running: Running,
    limits: &'a Limits,
    ending: Ending,
    start: Instant,
}

impl Run<'_> {
    /// Until it ends, or has to.
    fn watch(mut self, progress: &mut dyn FnMut(u64)) -> Result<Ran, Error> {
        let mut first_report = None;
        let mut seen = (0, 0);
        let mut changed = self.start;
        loop {
            // In this order: what came before the end is seen.
            let ended = self.running.ended();
            // Without a turn at it nothing has come, for all that is known.
            let now = self.look()?.unwrap_or(seen);
            if now != seen {
                (seen, changed) = (now, Instant::now());
                progress(now.0);
            }
            if now.1 > 0 && first_report.is_none() {
                first_report = Some(self.start.elapsed());
            }
            self.limits.check_bytes(now)?;
            if let Some(end) = ended {
                return self.judge(end?, first_report);
            }
            self.limits
                .check_time(self.start, changed, first_report.is_some())?;
            sleep(LOOK);
        }
    }

    /// Hands over what was collected, and tells the bytes of both channels; `None` if
    /// the bus was never free.
    fn look(&self) -> Result<Option<(u64, u64)>, Error> {
        let Some(mut bus) = self.running.bus() else {
            return Ok(None);
        };
        bus.tend()?;
        let reports = bus.reports.len() as u64;
        Ok(Some((bus.serial.sent().bytes().len() as u64, reports)))
    }

    fn judge(&self, end: End, first_report: Option<Duration>) -> Result<Ran, Error> {
        let mut bus = self.running.bus().ok_or_else(stuck)?;
        let reports = guest::reports(&bus.reports)?;
        match end {
            End::Status(status) => self.ending.judge(status, &reports)?,
            End::Reset => return Err(Error::Reset),
            End::Stopped | End::Off => return Err(Error::Undone),
        }
        Ok(Ran {
            reports,
            serial: bus.serial.sent().take(),
            first_report: first_report.unwrap_or_default(),
            exits: Some(bus.exit_log()),
        })
    }
}

/// The CPU's thread does not even stop.
pub fn stuck() -> Error {
    Error::Cpu("the host's kernel does not let go of it".to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use super::*;
    use crate::kvm::Options;

    /// A machine's bus, without a CPU that uses it.
    fn bus(test: &str, limits: &Limits) -> Option<SharedBus> {
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
        let serial = Serial::new(options.uart, false, bus::output(limits)).unwrap();
        let bridge = pci::devices().unwrap().bridge;
        let pci = PciBus::new(bridge, options.pci, &vm).unwrap();
        let bus = Bus::new(vm, None, None, (serial, pci), limits);
        Some(Arc::new(FairMutex::new(bus)))
    }

    #[test]
    fn a_cpu_that_never_leaves_the_bus_is_ended_by_the_time_limits() {
        let limits = Limits {
            start: Duration::from_millis(300),
            ..Limits::of(1, 0)
        };
        let Some(bus) = bus("a_cpu_that_never_leaves_the_bus", &limits) else {
            return;
        };
        let held = bus.clone();
        let cpu = CpuThread::start(move |stop| {
            let _bus = held.lock();
            while !stop.load(Ordering::Acquire) {
                sleep(Duration::from_millis(1));
            }
            Ok(End::Stopped)
        });
        let run = Run {
            running: Running {
                bus,
                cpu: cpu.unwrap(),
            },
            limits: &limits,
            ending: Ending::Done,
            start: Instant::now(),
        };
        let error = run.watch(&mut |_| {}).unwrap_err();
        assert!(
            matches!(error, Error::NeverStarted(after) if after == limits.start),
            "{error}"
        );
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

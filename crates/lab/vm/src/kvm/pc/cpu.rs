//! The virtual CPU: its initial state and its run loop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use kvm_bindings::{
    KVM_INTERNAL_ERROR_EMULATION, KVM_MAX_CPUID_ENTRIES, kvm_cpuid_entry2, kvm_segment,
};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd};
use parking_lot::FairMutex;

use super::boot::START_INFO;
use super::bus::KvmBus;
use super::exit::{End, Exit, Next};
use super::ring::Place;
use super::vm::failed;
use crate::Error;

/// First CPUID leaf of hypervisors, which reports the last one.
const HYPERVISOR: u32 = 0x4000_0000;

/// CPUID leaf with the rate of the time stamp counter in kHz in EAX, as VMware defines it.
const TIMING: u32 = 0x4000_0010;

/// Sets the state that PVH requires: 32-bit protected mode, paging off, flat segments,
/// interrupts off, EBX pointing to the start info.
pub fn set_up(cpu: &VcpuFd, entry: u64) -> Result<(), Error> {
    let segment = |selector, type_, limit, is_system: bool| kvm_segment {
        limit,
        selector,
        type_,
        present: 1,
        // A system segment is neither code nor data, and its limit is in bytes.
        s: u8::from(!is_system),
        db: u8::from(!is_system),
        g: u8::from(!is_system),
        ..Default::default()
    };
    const CODE: u8 = 0xb;
    const DATA: u8 = 0x3;
    const TASK: u8 = 0xb;
    const PROTECTED_MODE: u64 = 1 << 0;
    const EXTENSION_TYPE: u64 = 1 << 4;
    let mut special = cpu.get_sregs().map_err(failed("tell registers"))?;
    special.cs = segment(0x08, CODE, !0, false);
    let data = segment(0x10, DATA, !0, false);
    (special.ds, special.es, special.ss) = (data, data, data);
    (special.fs, special.gs) = (data, data);
    special.tr = segment(0x18, TASK, 0x67, true);
    special.cr0 = PROTECTED_MODE | EXTENSION_TYPE;
    special.cr4 = 0;
    special.efer = 0;
    cpu.set_sregs(&special).map_err(failed("set registers"))?;
    let mut registers = cpu.get_regs().map_err(failed("tell registers"))?;
    registers.rip = entry;
    registers.rbx = START_INFO;
    registers.rflags = 1 << 1; // reserved bit, always set
    cpu.set_regs(&registers).map_err(failed("set registers"))
}

/// Sets the guest's CPUID: all features that KVM supports, and the clock rate if known.
pub fn identify(kvm: &Kvm, cpu: &VcpuFd, tsc_khz: Option<u32>) -> Result<(), Error> {
    let mut leaves = kvm
        .get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)
        .map_err(failed("report the supported CPUID"))?;
    for leaf in leaves.as_mut_slice() {
        describe(leaf, tsc_khz.is_some());
    }
    if let Some(khz) = tsc_khz {
        let timing = kvm_cpuid_entry2 {
            function: TIMING,
            eax: khz,
            ..Default::default()
        };
        leaves
            .push(timing)
            .map_err(|error| Error::Cpu(format!("too many CPUID leaves: {error:?}")))?;
    }
    cpu.set_cpuid2(&leaves).map_err(failed("take CPUID leaves"))
}

/// Changes a leaf of KVM's supported CPUID so that it describes the guest's CPU.
fn describe(leaf: &mut kvm_cpuid_entry2, is_timing_told: bool) {
    /// Bit that reports a hypervisor to the guest. Some KVMs do not set it.
    const IN_A_MACHINE: u32 = 1 << 31;
    match leaf.function {
        // One CPU, number 0 (SDM volume 2, CPUID).
        1 => {
            leaf.ebx = leaf.ebx & 0xffff | 1 << 16;
            leaf.ecx |= IN_A_MACHINE;
        }
        HYPERVISOR if is_timing_told => leaf.eax = leaf.eax.max(TIMING),
        _ => {}
    }
}

/// Runs the guest until it ends or is stopped. After setting `stop`, send the thread a signal, so
/// that the CPU leaves the guest.
pub fn run(cpu: &mut VcpuFd, bus: &FairMutex<KvmBus>, stop: &AtomicBool) -> Result<End, Error> {
    while !stop.load(Ordering::Acquire) {
        match step(cpu, bus)? {
            Next::GoOn => {}
            Next::End(end) => return Ok(end),
            Next::Wait => {
                while !stop.load(Ordering::Acquire) && bus.lock().is_full() {
                    sleep(Duration::from_millis(1));
                }
            }
            // No interrupt can occur: the guest hangs.
            Next::Rest => sleep(Duration::from_millis(1)),
        }
    }
    Ok(End::Stopped)
}

/// Runs the guest until its next exit, and handles the exit.
fn step(cpu: &mut VcpuFd, bus: &FairMutex<KvmBus>) -> Result<Next, Error> {
    let handle = |exit: Exit<'_>| bus.lock().exit(exit);
    match cpu.run() {
        Ok(VcpuExit::IoIn(port, data)) => {
            let data: *mut [u8] = data;
            let size = item_size(cpu);
            // SAFETY: this is KVM's page for the CPU. It is mapped as long as the CPU exists, and
            // has no other user until the CPU runs again.
            let data = unsafe { &mut *data };
            let place = Place::Port(port);
            handle(Exit::Read { place, size, data })
        }
        Ok(VcpuExit::IoOut(port, data)) => {
            let data: *const [u8] = data;
            let size = item_size(cpu);
            // SAFETY: as above.
            let data = unsafe { &*data };
            let place = Place::Port(port);
            handle(Exit::Write { place, size, data })
        }
        Ok(VcpuExit::MmioRead(address, data)) => {
            let size = data.len();
            let place = Place::Memory(address);
            handle(Exit::Read { place, size, data })
        }
        Ok(VcpuExit::MmioWrite(address, data)) => {
            let size = data.len();
            let place = Place::Memory(address);
            handle(Exit::Write { place, size, data })
        }
        Ok(VcpuExit::Hlt) => handle(Exit::Halt),
        Ok(VcpuExit::Shutdown | VcpuExit::SystemEvent(..)) => Ok(Next::End(End::Reset)),
        Ok(VcpuExit::Intr | VcpuExit::IrqWindowOpen | VcpuExit::SetTpr) => handle(Exit::Other),
        Err(error) if matches!(error.errno(), libc::EINTR | libc::EAGAIN) => handle(Exit::Other),
        Ok(VcpuExit::InternalError) => {
            let why = internal_error(cpu);
            Err(stopped(cpu, &why))
        }
        Ok(other) => {
            let why = format!("{other:?}");
            Err(stopped(cpu, &why))
        }
        Err(error) => Err(failed("run the CPU")(error)),
    }
}

fn stopped(cpu: &VcpuFd, why: &str) -> Error {
    let at = cpu.get_regs().map_or(0, |registers| registers.rip);
    Error::Cpu(format!("{why} at {at:#x}"))
}

fn internal_error(cpu: &mut VcpuFd) -> String {
    // SAFETY: the exit was an internal error, which uses this field of the union.
    match unsafe { cpu.get_kvm_run().__bindgen_anon_1.internal.suberror } {
        KVM_INTERNAL_ERROR_EMULATION => {
            "this KVM can neither run nor interpret the instruction".to_owned()
        }
        number => format!("KVM's internal error {number}"),
    }
}

/// Returns the size of one item. A string instruction moves several items in one exit.
fn item_size(cpu: &mut VcpuFd) -> usize {
    // SAFETY: the exit was a port access, which uses this field of the union.
    usize::from(unsafe { cpu.get_kvm_run().__bindgen_anon_1.io.size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpuid_reports_a_hypervisor_even_if_the_hosts_kernel_does_not() {
        let leaf = |function| kvm_cpuid_entry2 {
            function,
            eax: HYPERVISOR + 1,
            ebx: 0xaabb_ccdd,
            ..Default::default()
        };
        let described = |function, is_timing_told| {
            let mut leaf = leaf(function);
            describe(&mut leaf, is_timing_told);
            leaf
        };
        let basic = described(1, false);
        assert_eq!((basic.ebx, basic.ecx), (0x0001_ccdd, 1 << 31));
        assert_eq!(described(HYPERVISOR, false), leaf(HYPERVISOR));
        assert_eq!(described(HYPERVISOR, true).eax, TIMING);
        assert_eq!(described(7, true), leaf(7));
    }
}

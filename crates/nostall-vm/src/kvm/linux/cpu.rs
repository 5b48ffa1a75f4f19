//! The initial state of the virtual CPU for Linux.

use kvm_bindings::{Msrs, kvm_cpuid_entry2, kvm_msr_entry, kvm_segment};
use kvm_ioctls::VcpuFd;

use super::boot::{Entry, LongMode, ZERO_PAGE};
use crate::Error;
use crate::kvm::pc::{self, failed};

/// Prepares the CPU to enter the kernel.
pub fn set_up(cpu: &VcpuFd, entry: Entry) -> Result<(), Error> {
    match entry {
        Entry::Long(long) => enter_long_mode(cpu, &long)?,
        Entry::Pvh(entry) => pc::set_up(cpu, entry)?,
    }
    all_memory_is_cached(cpu);
    Ok(())
}

/// Sets the state of the "64-bit Boot Protocol": paging on, flat 64-bit segments, interrupts
/// off, RSI pointing to the zero page.
fn enter_long_mode(cpu: &VcpuFd, long: &LongMode) -> Result<(), Error> {
    // Intel SDM volume 3, 2.5 and 2.2.1.
    const PROTECTED: u64 = 1 << 0;
    const EXTENSION_TYPE: u64 = 1 << 4;
    const PAGING: u64 = 1 << 31;
    const LARGE_ADDRESSES: u64 = 1 << 5;
    const LONG_ENABLED: u64 = 1 << 8;
    const LONG_ACTIVE: u64 = 1 << 10;
    const CODE: u8 = 0xb;
    const DATA: u8 = 0x3;
    const TASK: u8 = 0xb;
    let segment = |selector, type_, long: bool| kvm_segment {
        limit: !0,
        selector,
        type_,
        present: 1,
        s: 1,
        g: 1,
        l: long.into(),
        db: (!long).into(),
        ..Default::default()
    };
    let mut special = cpu.get_sregs().map_err(failed("tell registers"))?;
    special.cs = segment(0x10, CODE, true);
    let data = segment(0x18, DATA, false);
    (special.ds, special.es, special.ss) = (data, data, data);
    (special.fs, special.gs) = (data, data);
    // The hardware requires a task segment, even without task switches.
    special.tr = kvm_segment {
        limit: 0x67,
        type_: TASK,
        present: 1,
        ..Default::default()
    };
    special.gdt.base = long.descriptors;
    special.gdt.limit = long.descriptors_limit;
    special.cr3 = long.page_tables;
    special.cr4 = LARGE_ADDRESSES;
    special.cr0 = PROTECTED | EXTENSION_TYPE | PAGING;
    special.efer = LONG_ENABLED | LONG_ACTIVE;
    cpu.set_sregs(&special).map_err(failed("set registers"))?;
    let mut registers = cpu.get_regs().map_err(failed("tell registers"))?;
    registers.rip = long.entry;
    registers.rsi = ZERO_PAGE;
    registers.rflags = 1 << 1; // reserved bit, always set
    cpu.set_regs(&registers).map_err(failed("set registers"))
}

/// Enables write-back caching by default, as a PC's firmware does. Otherwise Linux does not use the
/// page attributes. A KVM without these registers does not need this.
fn all_memory_is_cached(cpu: &VcpuFd) {
    // Intel SDM volume 3, 12.11.2.1: MTRRs enabled, write-back by default.
    let default_type = kvm_msr_entry {
        index: 0x2ff,
        data: 1 << 11 | 6,
        ..Default::default()
    };
    if let Ok(registers) = Msrs::from_entries(&[default_type]) {
        let _ = cpu.set_msrs(&registers);
    }
}

/// Changes the host's CPUID leaves to those of a machine with one CPU (Intel SDM volume 2, CPUID;
/// AMD APM volume 3, appendix E).
pub fn be_alone(leaves: &mut [kvm_cpuid_entry2], has_deadline_timer: bool) {
    const DEADLINE_TIMER: u32 = 1 << 24;
    const SEVERAL: u32 = 1 << 28;
    for leaf in leaves {
        match (leaf.function, leaf.index) {
            (1, _) => {
                leaf.edx &= !SEVERAL;
                // The deadline timer requires KVM's interrupt controllers, and has its own
                // capability.
                if has_deadline_timer {
                    leaf.ecx |= DEADLINE_TIMER;
                }
            }
            // Caches: not shared with other CPUs, one core.
            (4, _) if leaf.eax & 0x1f != 0 => leaf.eax &= 0x3fff,
            // First the thread level, then the core level: one each, and this is CPU 0.
            (0xb | 0x1f, level @ 0..=1) => {
                leaf.eax = 0;
                leaf.ebx = 1;
                leaf.ecx = level | (level + 1) << 8;
                leaf.edx = 0;
            }
            (0xb | 0x1f, level) => {
                (leaf.eax, leaf.ebx, leaf.ecx, leaf.edx) = (0, 0, level, 0);
            }
            (0x8000_0008, _) => leaf.ecx &= !0xf0ff,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guests_cpuid_reports_one_cpu_on_any_host() {
        let leaf = |function, index| kvm_cpuid_entry2 {
            function,
            index,
            eax: !0,
            ebx: !0,
            ecx: !(1 << 24),
            edx: !0,
            ..Default::default()
        };
        let mut leaves = [
            leaf(1, 0),
            leaf(4, 0),
            leaf(0xb, 0),
            leaf(0xb, 1),
            leaf(0xb, 2),
            leaf(0x8000_0008, 0),
            leaf(7, 0),
        ];
        be_alone(&mut leaves, true);
        let [basic, cache, thread, core, beyond, extended, other] = leaves;
        assert_eq!((basic.edx, basic.ecx), (!(1 << 28), !0));
        assert_eq!(cache.eax, 0x3fff);
        assert_eq!((thread.eax, thread.ebx, thread.ecx), (0, 1, 0x100));
        assert_eq!((core.eax, core.ebx, core.ecx), (0, 1, 0x201));
        assert_eq!((beyond.ebx, beyond.ecx, beyond.edx), (0, 2, 0));
        assert_eq!(extended.ecx & 0xf0ff, 0);
        assert_eq!(other, leaf(7, 0));
        let mut basic = [leaf(1, 0)];
        be_alone(&mut basic, false);
        assert_eq!(basic[0].ecx & 1 << 24, 0);
    }
}

//! A KVM machine without nostall's device models.

use kvm_bindings::{KVM_PIT_SPEAKER_DUMMY, kvm_pit_config, kvm_userspace_memory_region};
use kvm_ioctls::{Cap, VmFd};
use vm_memory::{GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};

use crate::Error;

/// The guest's RAM.
pub type Memory = GuestMemoryMmap<()>;

/// Memory slot of RAM.
const RAM_SLOT: u32 = 0;

/// Address of three pages that Intel's KVM needs where the hardware cannot run a guest without
/// paging; below the end of the firmware.
const TASK_STATE: usize = 0xfffb_d000;

/// Creates an empty machine.
pub fn create_vm(system: &kvm_ioctls::Kvm) -> Result<VmFd, Error> {
    let vm = system.create_vm().map_err(failed("create a machine"))?;
    if system.check_extension(Cap::SetTssAddr) {
        vm.set_tss_address(TASK_STATE)
            .map_err(failed("reserve its own pages"))?;
    }
    Ok(vm)
}

/// Returns a conversion of KVM's errors, for the operation `doing`.
pub fn failed(doing: &'static str) -> impl Fn(kvm_ioctls::Error) -> Error {
    move |errno| Error::Kvm {
        doing,
        cause: errno.into(),
    }
}

pub fn give_memory(vm: &VmFd, memory: &Memory) -> Result<(), Error> {
    for range in memory.iter() {
        let host = memory
            .get_host_address(range.start_addr())
            .map_err(|error| Error::Unbootable(error.to_string()))?;
        let region = kvm_userspace_memory_region {
            slot: RAM_SLOT,
            flags: 0,
            guest_phys_addr: range.start_addr().0,
            memory_size: range.len(),
            userspace_addr: host.addr() as u64,
        };
        // SAFETY: the memory lives as long as the machine (`KvmMachine`), and this process has no
        // reference into it.
        unsafe { vm.set_user_memory_region(region) }.map_err(failed("map memory"))?;
    }
    Ok(())
}

pub fn give_interrupts(vm: &VmFd) -> Result<(), Error> {
    vm.create_irq_chip()
        .map_err(failed("create interrupt controllers"))?;
    let config = kvm_pit_config {
        flags: KVM_PIT_SPEAKER_DUMMY,
        ..Default::default()
    };
    vm.create_pit2(config).map_err(failed("create a timer"))
}

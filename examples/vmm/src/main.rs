//! Virtual machine whose guest prints through nostall's serial port and reads PCI configuration
//! space without exits. With `--trap`, each of its reads exits.

use std::io;

use kvm_bindings::{KVM_MEM_READONLY, kvm_userspace_memory_region};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};
use nostall_devices::pci::{Change, Class, Function, HostBridge, Shadow};
use nostall_devices::uart::{Line, Uart};
use nostall_io::HostClock;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

#[cfg(test)]
mod tests;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const RAM: u64 = 0x1_0000;
const CODE: u64 = 0x1000;
const ECAM: u64 = 0xb000_0000;
const SERIAL: u16 = 0x3f8;

core::arch::global_asm!(include_str!("guest.s"));

unsafe extern "C" {
    static guest_start: u8;
    static guest_end: u8;
}

/// Virtual machine, and the memory through which its guest reads configuration space.
struct Machine {
    vm: VmFd,
    /// Start of the memory in each of KVM's slots.
    slots: Vec<Option<u64>>,
    bridge: HostBridge,
    /// Copy of the registers; `None` if every read exits.
    shadow: Option<Shadow>,
    /// RAM, and the memory behind the shadow.
    memory: GuestMemoryMmap,
}

impl Machine {
    fn new(kvm: &Kvm, bridge: HostBridge) -> Result<Self> {
        let ranges = [(0, RAM), (ECAM, bridge.ecam_size())];
        let ranges = ranges.map(|(start, size)| (GuestAddress(start), size as usize));
        let mut machine = Self {
            vm: kvm.create_vm()?,
            slots: vec![None; kvm.get_nr_memslots()], // 32,764; older kernels have 509
            bridge,
            shadow: None,
            memory: GuestMemoryMmap::from_ranges(&ranges)?,
        };
        machine.map(0, RAM)?;
        Ok(machine)
    }

    /// Maps memory into the guest at `address`, in one slot: configuration space read-only. A
    /// length of 0 unmaps it. Without a free slot nothing is mapped, so that each access exits.
    fn map(&mut self, address: u64, length: u64) -> Result<()> {
        let mapped = Some(address);
        let (from, to) = if length > 0 {
            (None, mapped)
        } else {
            (mapped, None)
        };
        let Some(slot) = self.slots.iter().position(|slot| *slot == from) else {
            return Ok(());
        };
        let region = kvm_userspace_memory_region {
            slot: slot as u32,
            flags: if address < ECAM { 0 } else { KVM_MEM_READONLY },
            guest_phys_addr: address,
            memory_size: length,
            userspace_addr: self.memory.get_host_address(GuestAddress(address))? as u64,
        };
        // SAFETY: the memory lives as long as the machine, and no reference into it exists.
        unsafe { self.vm.set_user_memory_region(region) }?;
        self.slots[slot] = to;
        Ok(())
    }

    /// Stores registers into the memory that the guest reads.
    fn store(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let address = GuestAddress(ECAM + offset);
        Ok(self.memory.write_slice(bytes, address)?)
    }

    /// Keeps the memory that the guest reads equal to the bridge's registers. The only virtual CPU
    /// stands still meanwhile. With several, each word of an update has to be stored whole.
    fn follow(&mut self) -> Result<()> {
        let follow = |shadow: &mut Shadow| shadow.follow(&self.bridge);
        for change in self.shadow.as_mut().map(follow).unwrap_or_default() {
            match change {
                Change::Unmap(run) => self.map(ECAM + run.offset, 0)?,
                Change::Map(run, _) => {
                    let mut contents = vec![0; run.length as usize];
                    if let Some(shadow) = &self.shadow {
                        shadow.copy(run.offset, &mut contents);
                    }
                    self.store(run.offset, &contents)?;
                    self.map(ECAM + run.offset, run.length)?;
                }
                Change::Update { offset, bytes } => self.store(offset, &bytes)?,
                Change::Clear(run) => self.store(run.offset, &vec![0xff; run.length as usize])?,
            }
        }
        Ok(())
    }
}

/// Starts the guest in 32-bit mode, with flat segments and without paging.
fn prepare(cpu: &VcpuFd) -> Result<()> {
    let mut special = cpu.get_sregs()?;
    for (segment, kind) in [(&mut special.cs, 11), (&mut special.ds, 3)] {
        (segment.base, segment.limit) = (0, u32::MAX);
        (segment.type_, segment.db, segment.g) = (kind, 1, 1);
    }
    (special.es, special.ss) = (special.ds, special.ds);
    special.cr0 |= 1;
    cpu.set_sregs(&special)?;
    let mut registers = cpu.get_regs()?;
    (registers.rip, registers.rflags) = (CODE, 2);
    Ok(cpu.set_regs(&registers)?)
}

fn main() -> Result<()> {
    let trap = std::env::args().any(|argument| argument == "--trap");
    let mut bridge = HostBridge::new(0..=0);
    let function = Function::endpoint(0x1af4, 0x10f0, Class::HOST_BRIDGE);
    bridge.add(0, 0, function.build()?)?;
    let mut machine = Machine::new(&Kvm::new()?, bridge)?;
    machine.shadow = (!trap).then(|| Shadow::new(&machine.bridge, machine.bridge.buses()));
    // SAFETY: both symbols are in one section, and the guest's code is between them.
    let guest = unsafe {
        let (start, end) = (&raw const guest_start, &raw const guest_end);
        std::slice::from_raw_parts(start, end.offset_from_unsigned(start))
    };
    machine.memory.write_slice(guest, GuestAddress(CODE))?;
    machine.follow()?;
    machine.vm.set_tss_address(0xfffb_d000)?; // Intel's KVM keeps three pages there.
    let mut cpu = machine.vm.create_vcpu(0)?;
    prepare(&cpu)?;

    let mut serial = Uart::new(HostClock::new(), Line::AtOnce, io::stdout());
    let (mut port_exits, mut pci_exits) = (0, 0);
    loop {
        match cpu.run()? {
            VcpuExit::IoIn(port, data) if port & !7 == SERIAL => {
                port_exits += 1;
                data.fill(serial.read(usize::from(port - SERIAL)));
            }
            VcpuExit::IoOut(port, data) if port & !7 == SERIAL => {
                port_exits += 1;
                serial.write(usize::from(port - SERIAL), data[0]);
            }
            VcpuExit::MmioRead(address, data) if address >= ECAM => {
                pci_exits += 1;
                machine.bridge.ecam_read(address - ECAM, data);
            }
            VcpuExit::MmioWrite(address, data) if address >= ECAM => {
                pci_exits += 1;
                machine.bridge.ecam_write(address - ECAM, data);
            }
            VcpuExit::Hlt => break,
            exit => return Err(format!("the guest cannot go on: {exit:?}").into()),
        }
        machine.follow()?;
    }
    println!("exits: {port_exits} of the serial port, {pci_exits} of configuration space");
    Ok(())
}

//! Reads of configuration space in plain memory, compared with other crates and with a bare read.
//!
//! The memory replaces registers that a hypervisor maps for its guest, so that only the software's
//! cost remains.

use std::hint::black_box;
use std::ptr::NonNull;

use lock_api::RawMutex;
use nostall_bench::{Effort, Limit, Table, Unit, main as bench};
use nostall_io::{Mmio, MmioLayout, Processor, Registers};
use nostall_pci::{Address, ConfigAccess, ConfigPorts, ECAM_BUS_SIZE, Ecam, PciTypes, Scan};
use pci_types::{PciAddress, PciHeader};
use spin::mutex::SpinMutex;
use virtio_drivers::transport::pci::bus::{
    Cam, ConfigurationAccess, DeviceFunction, MmioCam, PciRoot,
};

/// A processor that masks no interrupts, because a program cannot.
struct Host;

impl Processor for Host {
    fn id(&self) -> usize {
        0
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        critical()
    }
}

/// Returns the memory of 256 buses. Bus 0 has a host bridge, and no other function.
fn memory() -> NonNull<u8> {
    let words = vec![0_u32; 256 * ECAM_BUS_SIZE / 4].leak();
    words[..ECAM_BUS_SIZE / 4].fill(!0);
    // ID, class, header type (PCI 3.0, 6.1).
    words[..4].copy_from_slice(&[0x1237_8086, 0, 0x0600_0000, 0]);
    NonNull::from(words).cast()
}

fn tables(effort: Effort) {
    let memory = memory();
    let size = 256 * ECAM_BUS_SIZE;
    // SAFETY: the memory is leaked, and only this thread accesses it, through volatile reads.
    let window = unsafe { Mmio::new(memory, size, MmioLayout::BYTES) }.expect("it is aligned");
    let ecam = Ecam::new(window, 0, 0..=255);
    // SAFETY: as above; the size is that of the layout.
    let cam = || unsafe { MmioCam::new(memory.as_ptr(), Cam::Ecam) };
    let bare = memory.as_ptr().cast::<u32>();

    let mut table = Table::new(
        "A word of configuration space, in memory",
        Unit::Nanoseconds,
    );
    let virtio = cam();
    table.row("virtio-drivers 0.13, MmioCam", None, |times| {
        let function = DeviceFunction {
            bus: 0,
            device: 0,
            function: 0,
        };
        for _ in 0..times {
            black_box(virtio.read_word(black_box(function), 0));
        }
    });
    table.row("a volatile read of it: the limit", None, |times| {
        for _ in 0..times {
            // SAFETY: as above, and the first word is in the memory.
            black_box(unsafe { black_box(bare).read_volatile() });
        }
    });
    let ours = Address::new(0, 0, 0).expect("it exists");
    table.row("nostall, Ecam", Limit::RatioAtMost(1.0), |times| {
        for _ in 0..times {
            black_box(ecam.at(black_box(ours)).read32(0).unwrap_or(!0));
        }
    });
    table.row(
        "pci_types 0.10, PciHeader::id over nostall's Ecam",
        None,
        |times| {
            for _ in 0..times {
                let header = PciHeader::new(black_box(PciAddress::new(0, 0, 0, 0)));
                black_box(header.id(PciTypes(&ecam)));
            }
        },
    );
    table.print(effort);

    let pair = [0_u32; 2].map(std::cell::Cell::new);
    let pair = NonNull::from(&pair).cast();
    // SAFETY: the two words outlive the window, and no reference to them is used.
    let pair = unsafe { Mmio::new(pair, 8, MmioLayout::BYTES) }.expect("it is aligned");
    let ports = ConfigPorts::<SpinMutex<()>, _, _>::new(pair, Host);
    let lock = SpinMutex::<()>::INIT;
    let mut table = Table::new(
        "A word through a pair of registers that takes no time",
        Unit::Nanoseconds,
    );
    table.row("index and data, no lock: the limit", None, |times| {
        for _ in 0..times {
            pair.write32(0, black_box(1 << 31));
            black_box(pair.read32(4));
        }
    });
    table.row("index and data under a spin lock", None, |times| {
        for _ in 0..times {
            lock.lock();
            pair.write32(0, black_box(1 << 31));
            black_box(pair.read32(4));
            // SAFETY: locked above.
            unsafe { lock.unlock() };
        }
    });
    table.row("nostall, ConfigPorts", None, |times| {
        for _ in 0..times {
            black_box(ports.at(black_box(ours)).read32(0).unwrap_or(!0));
        }
    });
    table.print(effort);

    let mut table = Table::new("A bus with one function, scanned", Unit::Nanoseconds);
    let root = PciRoot::new(cam());
    table.row("virtio-drivers 0.13, enumerate_bus", None, |times| {
        for _ in 0..times {
            black_box(root.enumerate_bus(black_box(0)).count());
        }
    });
    table.row("nostall, Scan", Limit::RatioAtMost(1.0), |times| {
        for _ in 0..times {
            black_box(Scan::new(&ecam, 0, 0..=black_box(0)).count());
        }
    });
    table.print(effort);
}

fn main() {
    bench(&[("config", tables)]);
}

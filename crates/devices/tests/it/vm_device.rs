//! The models behind rust-vmm's device manager.
#![cfg(feature = "vm-device")]

use std::sync::{Arc, Mutex};

use nostall_devices::pci::{
    Address, Bar, BarPlace, Class, Decoding, Function, HostBridge, Prefetch, Shadow, ShadowMemory,
    Topology, Written,
};
use nostall_devices::uart::{BESIDE, Chip, Line, LineStatus, Serial, Stride, Uart};
use nostall_devices::vm_device::{MmioUart, PciHost};
use nostall_io::HostClock;
use nostall_uart::registers::{DW_UCV, LCR, LSR, SCR, THR, lsr};
use vm_device::MutDeviceMmio;
use vm_device::bus::{MmioAddress, MmioRange, PioAddress, PioRange};
use vm_device::device_manager::{IoManager, MmioManager, PioManager};

const ECAM: u64 = 0xb000_0000;
const COM1: u16 = 0x3f8;

fn pio_read<const N: usize>(manager: &IoManager, port: u16) -> [u8; N] {
    let mut data = [0; N];
    manager.pio_read(PioAddress(port), &mut data).unwrap();
    data
}

fn mmio_read<const N: usize>(manager: &IoManager, address: u64) -> [u8; N] {
    let mut data = [0; N];
    manager.mmio_read(MmioAddress(address), &mut data).unwrap();
    data
}

#[test]
fn a_host_bridge_responds_through_ports_and_ecam() {
    let bridge = Topology::new(0..=7).unwrap().bridge;
    let ecam = MmioRange::new(MmioAddress(ECAM), bridge.ecam_size()).unwrap();
    let mut shadow = Shadow::new(&bridge, 0..=7);
    shadow.follow(&bridge);
    let bridge = Arc::new(Mutex::new(PciHost::new(bridge, |_, _| {})));
    let mut manager = IoManager::new();
    let port = |first, size| PioRange::new(PioAddress(first), size).unwrap();
    // Index and data port are two ranges, because another device may need 0xcf9.
    for range in [port(0xcf8, 4), port(0xcfc, 4)] {
        manager.register_pio(range, bridge.clone()).unwrap();
    }
    manager.register_mmio(ecam, bridge.clone()).unwrap();

    let select = 0x8000_0800u32.to_le_bytes();
    manager.pio_write(PioAddress(0xcf8), &select).unwrap();
    assert_eq!(pio_read(&manager, 0xcf8), select);
    assert_eq!(pio_read(&manager, 0xcfe), [0xf5, 0x10]);
    assert_eq!(
        mmio_read(&manager, ECAM | 8 << 12),
        [0xf4, 0x1a, 0xf5, 0x10]
    );
    manager
        .mmio_write(MmioAddress(ECAM | 8 << 12 | 0x10), &[0xff; 4])
        .unwrap();
    assert_eq!(shadow.follow(bridge.lock().unwrap().bridge_mut()).len(), 1);
    let mut bar = [0; 4];
    shadow.copy(8 << 12 | 0x10, &mut bar);
    assert_eq!(bar, mmio_read(&manager, ECAM | 8 << 12 | 0x10));
    assert_eq!(u32::from_le_bytes(bar), 0xffff_f000);
}

#[test]
fn the_hook_reports_that_a_bar_has_moved_and_is_decoded() {
    const FUNCTION: u64 = 8 << 12;
    let bridge = Topology::new(0..=7).unwrap().bridge;
    let accelerator = bridge.at(Address::new(0, 1, 0).unwrap()).unwrap();
    let size = bridge.ecam_size();
    let mut shadow = Shadow::new(&bridge, 0..=7);
    shadow.follow(&bridge);
    let told: Arc<Mutex<Vec<_>>> = Arc::default();
    let seen = told.clone();
    let host = PciHost::new(bridge, move |bridge, written| {
        let Some(written) = written else {
            return;
        };
        let function = bridge.function(written.function).unwrap();
        let changes = shadow.follow(bridge).len();
        seen.lock()
            .unwrap()
            .push((written, function.bar(0), changes));
    });
    let host = Arc::new(Mutex::new(host));
    let mut manager = IoManager::new();
    let ecam = MmioRange::new(MmioAddress(ECAM), size).unwrap();
    manager.register_mmio(ecam, host.clone()).unwrap();
    let ports = PioRange::new(PioAddress(0xcf8), 8).unwrap();
    manager.register_pio(ports, host).unwrap();

    let place = |address, decoding| BarPlace {
        bar: Bar::Memory32(0x1000, Prefetch::No),
        address,
        decoding,
    };
    let written = |register, length| Written {
        function: accelerator,
        register,
        length,
    };
    // The address is written through memory, and the decode bit through ports.
    let bar = MmioAddress(ECAM | FUNCTION | 0x10);
    manager
        .mmio_write(bar, &0xc000_0000u32.to_le_bytes())
        .unwrap();
    let select = 0x8000_0804u32.to_le_bytes();
    manager.pio_write(PioAddress(0xcf8), &select).unwrap();
    manager.pio_write(PioAddress(0xcfc), &[2, 0]).unwrap();
    // There is no function at this address.
    manager
        .mmio_write(MmioAddress(ECAM | 31 << 15), &[0; 4])
        .unwrap();
    let expected = [
        (written(0x10, 4), Some(place(0xc000_0000, Decoding::Off)), 1),
        (written(0x04, 2), Some(place(0xc000_0000, Decoding::On)), 1),
    ];
    assert_eq!(*told.lock().unwrap(), expected);
}

/// Lets the guest toggle a bridge's numbers until its buses trap. Then it only reads.
#[test]
fn a_bus_that_was_limited_is_mapped_again_after_reads() {
    type Read = fn(&IoManager) -> [u8; 4];
    const NUMBERS: u64 = 0x18;
    let port_read = |manager: &IoManager| {
        let address = 0x8000_0000 | 1 << 16;
        manager
            .pio_write(PioAddress(0xcf8), &u32::to_le_bytes(address))
            .unwrap();
        pio_read::<4>(manager, 0xcfc)
    };
    let ecam_read = |manager: &IoManager| mmio_read::<4>(manager, ECAM | 1 << 20);
    let ways: [(u32, Read); 2] = [(1, ecam_read), (2, port_read)];
    for (exits, read) in ways {
        let mut bridge = HostBridge::new(0..=1);
        let pci = Function::bridge(0x1af4, 0x10f3).build().unwrap();
        let pci = bridge.add(0, 0, pci).unwrap();
        let behind = Function::endpoint(0x1af4, 0x10f5, Class::new(0x12, 0, 0));
        bridge
            .add_behind(pci, 0, 0, behind.build().unwrap())
            .unwrap();
        let size = bridge.ecam_size();
        let mut shadow = Shadow::new(&bridge, 0..=1);
        let mut view = ShadowMemory::new();
        view.apply(&shadow.follow(&bridge), &shadow).unwrap();
        let memory = Arc::new(Mutex::new(view));
        let mapped = memory.clone();
        let host = PciHost::new(bridge, move |bridge, _| {
            let changes = shadow.follow(bridge);
            mapped.lock().unwrap().apply(&changes, &shadow).unwrap();
        });
        let host = Arc::new(Mutex::new(host));
        let mut manager = IoManager::new();
        let window = MmioRange::new(MmioAddress(ECAM), size).unwrap();
        manager.register_mmio(window, host.clone()).unwrap();
        let ports = PioRange::new(PioAddress(0xcf8), 8).unwrap();
        manager.register_pio(ports, host).unwrap();
        let is_mapped = || memory.lock().unwrap().read(1 << 20, &mut [0; 4]);

        for n in 0..=100 {
            let numbers = if n % 2 == 0 { 0x0001_0100u32 } else { 0 };
            let at = MmioAddress(ECAM | NUMBERS);
            manager.mmio_write(at, &numbers.to_le_bytes()).unwrap();
        }
        assert!(!is_mapped(), "not limited");
        // 100 exits pay for the mapping, and one for its page.
        let reads = (1..=101).find(|_| {
            assert_eq!(read(&manager), [0xf4, 0x1a, 0xf5, 0x10]);
            is_mapped()
        });
        assert!(
            reads.is_some_and(|reads| reads * exits <= 101 + exits),
            "mapped after {reads:?} reads of {exits} exits"
        );
    }
}

#[test]
fn a_serial_port_responds_through_ports() {
    let uart = Uart::new(HostClock::new(), Line::AtOnce, Vec::new());
    let uart = Arc::new(Mutex::new(Serial::new(uart, ())));
    let mut manager = IoManager::new();
    let range = PioRange::new(PioAddress(COM1), 8).unwrap();
    manager.register_pio(range, uart.clone()).unwrap();
    manager.pio_write(PioAddress(COM1), b"x").unwrap();
    let status = pio_read::<1>(&manager, COM1 + LSR as u16);
    assert_eq!(status[0] & lsr::TEMT, lsr::TEMT);
    // LCR and MCR in one word.
    let both = PioAddress(COM1 + LCR as u16);
    manager.pio_write(both, &[3, 0x0b]).unwrap();
    assert_eq!(pio_read(&manager, both.0), [3, 0x0b]);
    // A guest cannot make accesses of three bytes.
    assert_eq!(pio_read(&manager, COM1), [0xff; 3]);
    manager.pio_write(PioAddress(COM1), b"abc").unwrap();
    assert_eq!(uart.lock().unwrap().uart_mut().sink_mut(), b"x");
}

#[test]
fn memory_mapped_registers_are_one_stride_apart() {
    for bytes in [1, 4, 4096] {
        let stride = Stride::new(bytes).unwrap();
        let uart = Uart::new(HostClock::new(), Line::AtOnce, Vec::new());
        let uart = Arc::new(Mutex::new(MmioUart::new(Serial::new(uart, ()), stride)));
        let mut manager = IoManager::new();
        let range = MmioRange::new(MmioAddress(ECAM), 8 * bytes).unwrap();
        manager.register_mmio(range, uart.clone()).unwrap();
        let at = |register: usize| ECAM + register as u64 * bytes;
        manager.mmio_write(MmioAddress(at(THR)), b"x").unwrap();
        manager.mmio_write(MmioAddress(at(SCR)), &[0x5a]).unwrap();
        assert_eq!(mmio_read(&manager, at(SCR)), [0x5a]);
        assert_eq!(mmio_read::<1>(&manager, at(LSR))[0] & lsr::TEMT, lsr::TEMT);
        if stride != Stride::BYTES {
            assert_eq!(mmio_read(&manager, at(SCR)), [0x5a, 0, 0, 0]);
            assert_eq!(mmio_read(&manager, at(SCR) + 1), [0], "between registers");
            manager.mmio_write(MmioAddress(at(SCR) + 1), &[1]).unwrap();
            manager
                .mmio_write(MmioAddress(at(THR)), &[b'y', 0, 0, 0])
                .unwrap();
            assert_eq!(
                uart.lock().unwrap().serial_mut().uart_mut().sink_mut(),
                b"xy"
            );
        }
        assert_eq!(mmio_read(&manager, at(SCR)), [0x5a]);
    }
    assert_eq!(Stride::new(3), None);
    assert_eq!(Stride::new(4), Some(Stride::WORDS));
}

/// Maps the line status register's page as a VMM does: reads of it are reads of memory.
#[test]
fn a_mapped_page_and_a_trap_return_the_same_for_every_read() {
    let mut model = Uart::new(HostClock::new(), Line::AtOnce, Vec::new());
    let LineStatus::Memory(value) = model.offer().line_status else {
        panic!("not offered");
    };
    let mut page = [BESIDE; 4096];
    page[0] = value;
    let mut trapped = MmioUart::new(Serial::new(model, ()), Stride::PAGES);
    let start = LSR as u64 * 4096;
    for offset in 0..4096 {
        for length in [1, 2, 4, 8] {
            let Some(mapped) = page.get(offset..offset + length) else {
                continue; // a hypervisor splits it at the page's end
            };
            let mut data = [0xaa; 8];
            let data = &mut data[..length];
            trapped.mmio_read(MmioAddress(0), start + offset as u64, data);
            assert_eq!(data, mapped, "{length} bytes at {offset}");
        }
    }
}

#[test]
fn a_memory_mapped_designware_has_word_registers() {
    let uart = Uart::of(
        Chip::designware(16),
        HostClock::new(),
        Line::AtOnce,
        Vec::new(),
    );
    let mut manager = IoManager::new();
    let range = MmioRange::new(MmioAddress(ECAM), 0x100).unwrap();
    let uart = Arc::new(Mutex::new(MmioUart::new(
        Serial::new(uart, ()),
        Stride::WORDS,
    )));
    manager.register_mmio(range, uart).unwrap();
    let version = mmio_read(&manager, ECAM + DW_UCV as u64 * 4);
    assert_eq!(u32::from_le_bytes(version), u32::from_be_bytes(*b"300*"));
}

//! The models behind rust-vmm's own device manager.
#![cfg(feature = "vm-device")]

use std::sync::{Arc, Mutex};

use nostall_devices::pci::{Shadow, Topology};
use nostall_devices::uart::{BESIDE, Chip, Line, LineStatus, Stride, Uart};
use nostall_devices::vm_device::MmioUart;
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
fn a_host_bridge_answers_by_ports_and_ecam() {
    let bridge = Topology::new(0..=7).unwrap().bridge;
    let ecam = MmioRange::new(MmioAddress(ECAM), bridge.ecam_size()).unwrap();
    let mut shadow = Shadow::new(&bridge, 0..=7);
    shadow.follow(&bridge);
    let bridge = Arc::new(Mutex::new(bridge));
    let mut manager = IoManager::new();
    let port = |first, size| PioRange::new(PioAddress(first), size).unwrap();
    // The index and the data port as two ranges: something else may want 0xcf9.
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
    assert_eq!(shadow.follow(&bridge.lock().unwrap()).len(), 1);
    let mut bar = [0; 4];
    shadow.copy(8 << 12 | 0x10, &mut bar);
    assert_eq!(bar, mmio_read(&manager, ECAM | 8 << 12 | 0x10));
    assert_eq!(u32::from_le_bytes(bar), 0xffff_f000);
}

#[test]
fn a_serial_port_answers_by_ports() {
    let uart = Uart::new(HostClock::new(), Line::AtOnce, Vec::new());
    let uart = Arc::new(Mutex::new(uart));
    let mut manager = IoManager::new();
    let range = PioRange::new(PioAddress(COM1), 8).unwrap();
    manager.register_pio(range, uart.clone()).unwrap();
    manager.pio_write(PioAddress(COM1), b"x").unwrap();
    let status = pio_read::<1>(&manager, COM1 + LSR as u16);
    assert_eq!(status[0] & lsr::TEMT, lsr::TEMT);
    // LCR and MCR as one word.
    let both = PioAddress(COM1 + LCR as u16);
    manager.pio_write(both, &[3, 0x0b]).unwrap();
    assert_eq!(pio_read(&manager, both.0), [3, 0x0b]);
    // Three bytes are none of a guest's accesses.
    assert_eq!(pio_read(&manager, COM1), [0xff; 3]);
    manager.pio_write(PioAddress(COM1), b"abc").unwrap();
    assert_eq!(uart.lock().unwrap().sink_mut(), b"x");
}

#[test]
fn a_serial_port_in_memory_has_its_registers_a_stride_apart() {
    for bytes in [1, 4, 4096] {
        let stride = Stride::new(bytes).unwrap();
        let uart = Uart::new(HostClock::new(), Line::AtOnce, Vec::new());
        let uart = Arc::new(Mutex::new(MmioUart::new(uart, stride)));
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
            assert_eq!(uart.lock().unwrap().uart_mut().sink_mut(), b"xy");
        }
        assert_eq!(mmio_read(&manager, at(SCR)), [0x5a]);
    }
    assert_eq!(Stride::new(3), None);
    assert_eq!(Stride::new(4), Some(Stride::WORDS));
}

/// As a VMM maps the line status register's page: reads of it are the memory's.
#[test]
fn a_mapped_page_answers_every_read_as_a_trapped_one_does() {
    let mut model = Uart::new(HostClock::new(), Line::AtOnce, Vec::new());
    let LineStatus::Memory(value) = model.offer().line_status else {
        panic!("not offered");
    };
    let mut page = [BESIDE; 4096];
    page[0] = value;
    let mut trapped = MmioUart::new(model, Stride::PAGES);
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
fn a_designware_in_memory_is_of_words() {
    let uart = Uart::of(
        Chip::designware(16),
        HostClock::new(),
        Line::AtOnce,
        Vec::new(),
    );
    let mut manager = IoManager::new();
    let range = MmioRange::new(MmioAddress(ECAM), 0x100).unwrap();
    let uart = Arc::new(Mutex::new(MmioUart::new(uart, Stride::WORDS)));
    manager.register_mmio(range, uart).unwrap();
    let version = mmio_read(&manager, ECAM + DW_UCV as u64 * 4);
    assert_eq!(u32::from_le_bytes(version), u32::from_be_bytes(*b"300*"));
}

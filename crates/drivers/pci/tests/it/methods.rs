//! Ports and ECAM on the model of a host bridge, compared for each access.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use nostall_devices::pci::{Topology, VirtualBus};
use nostall_io::{Counting, Processor, Registers};
use nostall_pci::{
    AccessError, AccessWidth, Address, ConfigAccess, ConfigPorts, ECAM_BUS_SIZE, Ecam, Register,
};
use proptest::prelude::*;
use spin::mutex::SpinMutex;

/// A CPU that records when its interrupts are masked.
struct Cpu<'a>(&'a RefCell<Vec<Event>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Mask,
    Unmask,
    Write(usize, u32),
    Read(usize),
}

impl Processor for Cpu<'_> {
    fn id(&self) -> usize {
        0
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        self.0.borrow_mut().push(Event::Mask);
        let result = critical();
        self.0.borrow_mut().push(Event::Unmask);
        result
    }
}

/// Ports that record their accesses, with no device behind them.
struct Noting<'a>(&'a RefCell<Vec<Event>>);

impl Registers for Noting<'_> {
    fn read8(&self, offset: usize) -> u8 {
        self.0.borrow_mut().push(Event::Read(offset));
        !0
    }

    fn write8(&self, offset: usize, value: u8) {
        self.write32(offset, value.into());
    }

    fn read32(&self, offset: usize) -> u32 {
        self.read8(offset);
        !0
    }

    fn write32(&self, offset: usize, value: u32) {
        self.0.borrow_mut().push(Event::Write(offset, value));
    }
}

fn at(bus: u8, device: u8, function: u8) -> Address {
    Address::new(bus, device, function).unwrap()
}

#[test]
fn index_and_data_are_one_critical_section() {
    let events = RefCell::new(Vec::new());
    let ports = ConfigPorts::<SpinMutex<()>, _, _>::new(Noting(&events), Cpu(&events));
    ports.at(at(0x12, 0x1f, 7)).read32(0xfc).unwrap();
    ports.at(at(0, 0, 1)).write8(0x3d, 0xaa).unwrap();
    let expected = [
        Event::Mask,
        Event::Write(0, 0x8012_fffc),
        Event::Read(4),
        Event::Unmask,
        Event::Mask,
        Event::Write(0, 0x8000_013c),
        Event::Write(5, 0xaa),
        Event::Unmask,
    ];
    assert_eq!(events.into_inner(), expected);
}

#[test]
fn absent_ports_are_detected_from_their_index() {
    let events = RefCell::new(Vec::new());
    let none = ConfigPorts::<SpinMutex<()>, _, _>::new(Noting(&events), Cpu(&events));
    assert!(!none.exist());
    let bus = VirtualBus::new(Topology::new(0..=0).unwrap().bridge);
    let window = bus.ports();
    window.write32(0, 0x8000_0910);
    let some = ConfigPorts::<SpinMutex<()>, _, _>::new(bus.ports(), Cpu(&events));
    assert!(some.exist());
    assert_eq!(window.read32(0), 0x8000_0910, "put back");
    let events = events.into_inner();
    assert_eq!(
        (events[0], events.last()),
        (Event::Mask, Some(&Event::Unmask))
    );
}

#[test]
fn a_method_does_not_access_unreachable_registers() {
    let events = RefCell::new(Vec::new());
    let ports = ConfigPorts::<SpinMutex<()>, _, _>::new(Noting(&events), Cpu(&events));
    let there = at(0, 0, 0);
    let elsewhere = there.in_segment(1);
    let out = |address, register| Err(AccessError::OutOfReach { address, register });
    assert_eq!(ports.at(there).read32(0x100), out(there, 0x100));
    assert_eq!(
        ports.at(there).read32(0x100).unwrap_err().to_string(),
        "register 0x100 of 0000:00:00.0 cannot be reached in this way: ports end at register \
         0xff of segment 0, ECAM at the buses of its windows"
    );
    assert_eq!(ports.at(elsewhere).read32(0), out(elsewhere, 0));
    assert_eq!(
        ports.at(elsewhere).write32(0, 1),
        out(elsewhere, 0).map(drop)
    );
    let ecam = Ecam::new(Noting(&events), 1, 2..=3);
    for address in [
        at(2, 0, 0),
        at(1, 0, 0).in_segment(1),
        at(4, 0, 0).in_segment(1),
    ] {
        assert_eq!(ecam.at(address).read8(0), out(address, 0).map(|_: u32| 0));
    }
    for method in [&ports as &dyn ConfigAccess, &ecam] {
        for address in [there, at(2, 0, 0).in_segment(1)] {
            let unaligned = |register, width| AccessError::Unaligned { register, width };
            let (word, dword) = (AccessWidth::Word, AccessWidth::Dword);
            let function = (&method).at(address);
            assert_eq!(function.read16(1), Err(unaligned(1, word)));
            assert_eq!(function.read32(2), Err(unaligned(2, dword)));
            assert_eq!(function.write32(3, 0), Err(unaligned(3, dword)));
            let beyond = AccessError::NoSuchRegister;
            assert_eq!(function.read8(4096), Err(beyond(4096)));
            assert_eq!(function.read32(u16::MAX - 3), Err(beyond(65532)));
        }
    }
    assert_eq!(events.into_inner(), []);
}

#[test]
fn a_window_reaches_its_buses_and_no_other() {
    let events = RefCell::new(Vec::new());
    for (first, last) in [
        (0, 255),
        (0, 0),
        (2, 3),
        (254, 255),
        (255, 255),
        (3, 2),
        (255, 0),
    ] {
        let buses = RangeInclusive::new(first, last);
        let ecam = Ecam::new(Noting(&events), 0, buses.clone());
        assert_eq!(ecam.buses(), buses);
        for bus in 0..=255 {
            let function = at(bus, 0, 0);
            let start = usize::from(bus.wrapping_sub(first)) * ECAM_BUS_SIZE;
            let expected = buses.contains(&bus).then_some(Event::Read(start));
            assert_eq!(ecam.reaches(function, 0), expected.is_some());
            assert_eq!(ecam.at(function).read32(0).is_ok(), expected.is_some());
            assert_eq!(events.borrow_mut().pop(), expected);
        }
    }
}

#[test]
fn a_window_begins_with_its_first_bus() {
    let events = RefCell::new(Vec::new());
    let ecam = Ecam::new(Noting(&events), 1, 2..=3);
    ecam.at(at(2, 0, 0).in_segment(1)).read8(0).unwrap();
    ecam.at(at(3, 31, 7).in_segment(1)).read32(4092).unwrap();
    let expected = [Event::Read(0), Event::Read(2 * ECAM_BUS_SIZE - 4)];
    assert_eq!(events.into_inner(), expected);
}

#[test]
fn an_access_takes_two_with_ports_one_with_ecam_and_no_exit_when_shadowed() {
    let events = RefCell::new(Vec::new());
    let bus = VirtualBus::shadowed(Topology::new(0..=3).unwrap().bridge);
    let ports = Counting::new(bus.ports());
    let by_ports = ConfigPorts::<SpinMutex<()>, _, _>::new(&ports, Cpu(&events));
    let ecam = Counting::new(bus.ecam());
    let by_ecam = Ecam::new(&ecam, 0, 0..=3);
    let before = bus.exits();
    for register in (0..256).step_by(4) {
        let (a, b) = (
            by_ports.at(at(0, 1, 0)).read32(register),
            by_ecam.at(at(0, 1, 0)).read32(register),
        );
        assert_eq!(a, b, "{register:#x}");
    }
    assert_eq!(ports.counts().bus_accesses(), 2 * 64);
    assert_eq!(ecam.counts().bus_accesses(), 64);
    assert_eq!(bus.exits() - before, 2 * 64, "only the ports exit");
}

proptest! {
    /// Makes accesses of every width at every register, with both methods, in any order.
    #[test]
    fn both_methods_have_the_same_effect(
        accesses in prop::collection::vec(
            (0..4u8, 0..5u8, 0..4u8, 0..256u16, 0..3usize, prop::option::of(any::<u32>())), 1..100)
    ) {
        let events = RefCell::new(Vec::new());
        let buses = [(); 2].map(|()| VirtualBus::new(Topology::new(0..=3).unwrap().bridge));
        let by_ports = ConfigPorts::<SpinMutex<()>, _, _>::new(buses[0].ports(), Cpu(&events));
        let by_ecam = Ecam::new(buses[1].ecam(), 0, 0..=3);
        for (bus, device, function, register, width, value) in accesses {
            let width = [AccessWidth::Byte, AccessWidth::Word, AccessWidth::Dword][width];
            let register = Register::new(register - register % width.bytes(), width).unwrap();
            let address = at(bus, device, function);
            match value {
                None => prop_assert_eq!(
                    by_ports.read(address, register),
                    by_ecam.read(address, register)
                ),
                Some(value) => prop_assert_eq!(
                    by_ports.write(address, register, value),
                    by_ecam.write(address, register, value)
                ),
            }
        }
    }
}

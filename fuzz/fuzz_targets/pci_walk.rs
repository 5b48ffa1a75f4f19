//! Walks configuration space with arbitrary contents: the walk ends after a bounded number of
//! accesses, and restores the registers.

#![no_main]

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nostall_pci::{
    AccessError, Address, AssignFault, Capabilities, ConfigAccess, Decoding, ExtendedCapabilities,
    Function, Ranges, Scan, BarSlot, Register, assign, bars, bars_as_set,
};

#[derive(Arbitrary, Debug)]
struct Input {
    functions: Vec<Description>,
    /// Number of accesses after which all devices vanish.
    vanish: Option<u16>,
    last_bus: u8,
    /// Number of slots of scratch memory.
    slots: u16,
    io: (u16, u16),
    memory: (u32, u32),
    prefetchable: (u64, u64),
}

#[derive(Arbitrary, Debug)]
struct Description {
    bus: u8,
    devfn: u8,
    header: [u8; 64],
    /// Writable bits of the header.
    writable: [u8; 64],
    capabilities: Vec<u8>,
    extended: Vec<u8>,
}

const LAST_BUS: u8 = 3;
const MOST: usize = 48;

struct Device {
    at: (u8, u8),
    bytes: Vec<u8>,
    writable: [u8; 64],
}

struct Space {
    devices: RefCell<Vec<Device>>,
    accesses: Cell<u64>,
    vanish: u64,
}

impl Space {
    fn new(input: &Input) -> Self {
        let device = |description: &Description| {
            let mut bytes = vec![0; 4096];
            bytes[..64].copy_from_slice(&description.header);
            let n = description.capabilities.len().min(192);
            bytes[64..][..n].copy_from_slice(&description.capabilities[..n]);
            let n = description.extended.len().min(3840);
            bytes[256..][..n].copy_from_slice(&description.extended[..n]);
            Device {
                at: (description.bus & LAST_BUS, description.devfn),
                bytes,
                writable: description.writable,
            }
        };
        Self {
            devices: RefCell::new(input.functions.iter().take(MOST).map(device).collect()),
            accesses: Cell::new(0),
            vanish: input.vanish.map_or(u64::MAX, u64::from),
        }
    }

    fn with<T>(&self, address: Address, act: impl FnOnce(&mut Device) -> T) -> Option<T> {
        self.accesses.set(self.accesses.get() + 1);
        let there = self.accesses.get() <= self.vanish && address.segment() == 0;
        let at = (address.bus(), address.devfn());
        let mut devices = self.devices.borrow_mut();
        let device = devices.iter_mut().find(|device| there && device.at == at)?;
        Some(act(device))
    }

    fn contents(&self) -> Vec<Vec<u8>> {
        let devices = self.devices.borrow();
        devices.iter().map(|device| device.bytes.clone()).collect()
    }
}

impl ConfigAccess for Space {
    fn reaches(&self, address: Address, register: u16) -> bool {
        address.bus() <= LAST_BUS && register < 4096
    }

    fn read(&self, address: Address, register: Register) -> Result<u32, AccessError> {
        let (register, width) = (register.number(), register.width());
        assert!(self.reaches(address, register));
        let (at, len) = (usize::from(register), usize::from(width.bytes()));
        let value = self.with(address, |device| {
            let mut word = [0; 4];
            word[..len].copy_from_slice(&device.bytes[at..at + len]);
            u32::from_le_bytes(word)
        });
        Ok(value.unwrap_or(width.all_ones()))
    }

    fn write(&self, address: Address, register: Register, v: u32) -> Result<(), AccessError> {
        let (at, width) = (register.number(), register.width());
        assert!(self.reaches(address, at));
        self.with(address, |device| {
            let bytes = v.to_le_bytes();
            for (n, byte) in bytes[..usize::from(width.bytes())].iter().enumerate() {
                let at = usize::from(at) + n;
                let mask = device.writable.get(at).copied().unwrap_or(0);
                device.bytes[at] = device.bytes[at] & !mask | byte & mask;
            }
        });
        Ok(())
    }
}

/// Bound on accesses to a function: header, two lists, and a few more.
const A_FUNCTION: u64 = 8 + (2 + 48) + 962 + 8;

fuzz_target!(|input: Input| {
    let space = Space::new(&input);
    let functions = space.devices.borrow().len() as u64;
    let whole = 4 * (256 + functions * A_FUNCTION);

    let mut found: Vec<Function> = Vec::new();
    for one in Scan::new(&space, 0, 0..=255) {
        match one {
            Ok(function) => found.push(function),
            Err(fault) => drop(fault.to_string()),
        }
    }
    assert!(space.accesses.get() <= whole);
    let places: BTreeSet<_> = found.iter().map(|function| function.address).collect();
    assert_eq!(places.len(), found.len());

    for function in &found {
        assert!(Capabilities::new(&space, function).count() <= 49);
        assert!(ExtendedCapabilities::new(&space, function).count() <= 961);
        let before = space.contents();
        let accesses = space.accesses.get();
        let sized = bars(&space, function).unwrap();
        // Four for each register, and one more where both halves of 64 bits read all ones.
        assert!(space.accesses.get() - accesses <= 3 + 7 * 4 + 3);
        if space.vanish == u64::MAX {
            // Registers may stay changed only in a device that vanishes during sizing.
            assert_eq!(space.contents(), before);
        }
        for bar in sized.good() {
            assert!(bar.size.unwrap().is_power_of_two());
        }
        bars_as_set(&space, function).unwrap();
    }
    let scan = Scan::new(&space, 0, 0..=255).enabling_ari();
    assert!(scan.count() <= 4 * 256 * 3);

    let range = |(start, size): (u64, u64)| start..start.saturating_add(size);
    let ranges = Ranges {
        buses: 0..=input.last_bus,
        io: range((input.io.0.into(), input.io.1.into())),
        memory: range((input.memory.0.into(), input.memory.1.into())),
        prefetchable: range(input.prefetchable),
    };
    let mut slots = vec![BarSlot::EMPTY; usize::from(input.slots) % 512];
    let mut run = || {
        let before = space.accesses.get();
        let mut left = 0;
        let done = assign(&space, 0, &ranges, Decoding::On, &mut slots, |fault| {
            // Some faults count for all BARs of a function, others for one.
            left += match fault {
                AssignFault::NoSlot(_) => 7,
                _ => 1,
            };
            drop(fault.to_string());
        });
        // Each bus is walked once, and each bridge is read once more. BARs are filled, read,
        // cleared and placed, and a few registers are written.
        let most = 3 * whole + functions * 4 * (4 * 7 + 48);
        assert!(space.accesses.get() - before <= most);
        (done, left)
    };
    let first = run();
    if let Ok(done) = first.0 {
        assert!(first.1 >= done.left);
    }
});

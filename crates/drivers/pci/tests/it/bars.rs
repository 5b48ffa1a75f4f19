//! BARs: their kinds and sizes, the number of accesses, and unchanged registers afterwards.

use std::cell::Cell;

use crate::common::{Fake, Tree, at, function};
use nostall_io::Counts;
use nostall_pci::registers::*;
use nostall_pci::{
    AccessError, Address, Bar, BarFault, BarKind, ConfigAccess, Register, bars, bars_as_set,
};
use proptest::prelude::*;

const MEMORY: u32 = 0x0;
const IO: u32 = 0x1;
const BELOW_1M: u32 = 0x2;
const WIDE: u32 = 0x4;
const PREFETCHABLE: u32 = 0x8;

fn one(fake: Fake) -> Tree {
    let tree = Tree::default();
    tree.put(None, 1, 0, fake);
    tree
}

fn sized(fake: Fake) -> Vec<Result<Bar, BarFault>> {
    let tree = one(fake);
    let ecam = tree.ecam();
    let function = function(&ecam, at(0, 1, 0));
    bars(&ecam, &function).unwrap().into_iter().collect()
}

fn bar(register: u16, kind: BarKind, bits: u8, address: u64, size: u64) -> Result<Bar, BarFault> {
    Ok(Bar {
        register,
        kind,
        bits,
        address,
        size: Some(size),
    })
}

/// Returns a function with one BAR of each kind, all assigned and enabled.
fn full() -> Fake {
    let mut fake = Fake::new(1, 0x02_0000)
        .bar(0, IO, 0x20)
        .bar(1, MEMORY, 0x1000)
        .bar(2, WIDE | PREFETCHABLE, 0x2_0000_0000)
        .bar(4, WIDE, 0x4000)
        .rom(0x1_0000);
    fake.set32(0x10, 0xc041);
    fake.set32(0x14, 0xfebd_1000);
    fake.set32(0x18, 0xc);
    fake.set32(0x1c, 0x38);
    fake.set32(0x20, 0xfe00_0004);
    fake.set32(EXPANSION_ROM, 0xfeb0_0001);
    fake.set16(COMMAND, 0x0407);
    fake
}

#[test]
fn every_kind_is_found_and_restored() {
    let tree = one(full());
    let before = tree.contents();
    let ecam = tree.ecam();
    let function = function(&ecam, at(0, 1, 0));
    let start = ecam.window().counts();
    let found: Vec<_> = bars(&ecam, &function).unwrap().into_iter().collect();
    let expected = [
        bar(0x10, BarKind::Io, 32, 0xc040, 0x20),
        bar(0x14, BarKind::Memory, 32, 0xfebd_1000, 0x1000),
        bar(
            0x18,
            BarKind::Prefetchable,
            64,
            0x38_0000_0000,
            0x2_0000_0000,
        ),
        bar(0x20, BarKind::Memory, 64, 0xfe00_0000, 0x4000),
        bar(0x30, BarKind::Rom, 32, 0xfeb0_0000, 0x1_0000),
    ];
    assert_eq!(found, expected);
    assert_eq!(tree.contents(), before);
    // Four accesses for each of seven registers: read, write, read, write. For Command: read, off,
    // on.
    let expected = Counts {
        reads: 7 * 2 + 1,
        writes: 7 * 2 + 2,
        ..Counts::default()
    };
    assert_eq!(ecam.window().counts() - start, expected);

    let start = ecam.window().counts();
    let as_set = bars_as_set(&ecam, &function).unwrap();
    let unsized_bars: Vec<_> = found
        .into_iter()
        .map(|bar| bar.map(|bar| Bar { size: None, ..bar }))
        .collect();
    assert_eq!(as_set.iter().collect::<Vec<_>>(), unsized_bars);
    assert_eq!(as_set.good().count(), 5);
    let expected = Counts {
        reads: 7,
        ..Counts::default()
    };
    assert_eq!(ecam.window().counts() - start, expected);
}

#[test]
fn a_bridge_has_two_bars_and_its_rom_in_another_register() {
    let bridge = Fake::bridge(1, 0, 1, 1).bar(0, WIDE, 0x1000).rom(0x800);
    let expected = [
        bar(0x10, BarKind::Memory, 64, 0, 0x1000),
        bar(0x38, BarKind::Rom, 32, 0, 0x800),
    ];
    assert_eq!(sized(bridge), expected);
}

#[test]
fn a_device_may_decode_16_bits_of_io_and_20_of_memory() {
    let mut fake = Fake::new(1, 0x02_0000)
        .bar(0, IO, 8)
        .bar(1, BELOW_1M, 0x100);
    fake.mask32(0x10, 0xfff8);
    fake.mask32(0x14, 0xf_ff00);
    let found = sized(fake);
    assert_eq!(found[0], bar(0x10, BarKind::Io, 16, 0, 8));
    // The upper bits that are not decoded do not count as a gap.
    assert_eq!(found[1], bar(0x14, BarKind::Memory, 20, 0, 0x100));
}

#[test]
fn sizes_that_are_no_power_of_two_are_reported() {
    let mut fake = Fake::new(1, 0x02_0000)
        .bar(0, WIDE, 0x1000)
        .bar(2, MEMORY, 16);
    fake.mask32(0x10, 0xfff0_f000);
    fake.mask32(0x18, 0x7fff_f000);
    let gaps = |register, mask| Err(BarFault::NotAPowerOfTwo { register, mask });
    let expected = [
        gaps(0x10, 0xffff_ffff_fff0_f000),
        gaps(0x18, 0xffff_ffff_7fff_f000),
    ];
    assert_eq!(sized(fake), expected);
}

#[test]
fn a_device_may_decode_fewer_than_64_bits() {
    let prefetchable = |bits, size| bar(0x10, BarKind::Prefetchable, bits, 0, size);
    for (high, bits, size) in [
        (0xff, 40, 0x4000),
        (0x8000_0000 - 1, 63, 0x4000),
        (0, 32, 0x4000),
        (0xf0, 40, 1 << 36),
    ] {
        let mut fake = Fake::new(1, 0x02_0000).bar(0, WIDE | PREFETCHABLE, size);
        fake.mask32(0x14, high);
        assert_eq!(sized(fake), [prefetchable(bits, size)]);
    }
    // A hole within the mask is still a gap. So are missing upper bits of only one register.
    for (low, high) in [(0xffff_f000, 0xf0), (0x7fff_f000, 0)] {
        let mut fake = Fake::new(1, 0x02_0000).bar(0, WIDE, 0x1000);
        fake.mask32(0x10, low);
        fake.mask32(0x14, high);
        let mask = u64::from(high) << 32 | u64::from(low);
        let register = 0x10;
        assert_eq!(
            sized(fake),
            [Err(BarFault::NotAPowerOfTwo { register, mask })]
        );
    }
}

#[test]
fn an_upper_half_may_be_set_to_all_ones() {
    let mut fake = Fake::new(1, 0x02_0000).bar(0, WIDE, 0x1000);
    fake.set32(0x10, 0xffff_f004);
    fake.set32(0x14, !0);
    let address = 0xffff_ffff_ffff_f000;
    let expected = bar(0x10, BarKind::Memory, 64, address, 0x1000);
    assert_eq!(sized(fake.clone()), [expected]);
    let tree = one(fake);
    let ecam = tree.ecam();
    let found = function(&ecam, at(0, 1, 0));
    let as_set = bars_as_set(&ecam, &found).unwrap();
    assert_eq!(as_set.good().next().map(|bar| bar.address), Some(address));
    // All ones from a function that has vanished do not count as an address.
    for accesses in 6..11 {
        let fake = Fake::new(1, 0x02_0000).bar(0, WIDE, 0x1000);
        let tree = one(fake.lives(accesses));
        let ecam = tree.ecam();
        let found = function(&ecam, at(0, 1, 0));
        let bars = bars(&ecam, &found).unwrap();
        let first = bars.iter().next().unwrap();
        let register = 0x10;
        assert_eq!(first, Err(BarFault::DoesNotSize { register }), "{accesses}");
    }
}

#[test]
fn bars_that_do_not_size_are_reported() {
    let mut fake = Fake::new(1, 0x02_0000);
    fake.set32(0x10, 0x1f1); // read-only
    fake.set32(0x14, 0x6); // both reserved
    fake.set32(0x18, 0xfee0_0000); // read-only
    fake.set32(0x24, 0x4); // 64 bits, but the last slot
    fake.set32(EXPANSION_ROM, 0x000c_0000);
    let expected = [
        Err(BarFault::DoesNotSize { register: 0x10 }),
        Err(BarFault::ReservedType { register: 0x14 }),
        Err(BarFault::DoesNotSize { register: 0x18 }),
        Err(BarFault::NoUpperHalf { register: 0x24 }),
        Err(BarFault::DoesNotSize { register: 0x30 }),
    ];
    assert_eq!(sized(fake), expected);
    let bridge = Fake::bridge(1, 0, 1, 1).bar(1, WIDE, 0x1000);
    assert_eq!(
        sized(bridge),
        [Err(BarFault::NoUpperHalf { register: 0x14 })]
    );
}

#[test]
fn decoding_is_disabled_while_a_bar_has_all_ones() {
    /// A window that checks Command at each write of a BAR.
    struct Watch<'a>(&'a Tree, Cell<u32>);
    impl ConfigAccess for Watch<'_> {
        fn reaches(&self, _: Address, _: u16) -> bool {
            true
        }
        fn read(&self, at: Address, register: Register) -> Result<u32, AccessError> {
            self.0.ecam().read(at, register)
        }
        fn write(&self, at: Address, register: Register, value: u32) -> Result<(), AccessError> {
            if register.number() >= BASE_ADDRESS {
                let command = self.0.ecam().at(at).read16(COMMAND)?;
                assert_eq!(command & 7, COMMAND_BUS_MASTER);
                self.1.set(self.1.get() + 1);
            }
            self.0.ecam().write(at, register, value)
        }
    }
    let tree = one(full());
    let watch = Watch(&tree, Cell::new(0));
    bars(&watch, &function(&tree.ecam(), at(0, 1, 0))).unwrap();
    assert_eq!(watch.1.get(), 14);
}

#[test]
fn command_is_not_written_without_decoding_or_at_a_host_bridge() {
    for (fake, writes) in [
        (Fake::new(1, 0x02_0000).bar(0, MEMORY, 0x1000), 14),
        (Fake::host_bridge().bar(0, MEMORY, 0x1000), 14),
    ] {
        let mut fake = fake;
        if fake.bytes[0x0b] == 6 {
            fake.set16(COMMAND, 7);
        }
        let tree = one(fake);
        let ecam = tree.ecam();
        let function = function(&ecam, at(0, 1, 0));
        assert_eq!(bars(&ecam, &function).unwrap().good().count(), 1);
        assert_eq!(ecam.window().counts().writes, writes);
    }
}

#[test]
fn all_registers_are_restored_also_after_a_failed_access() {
    /// A window whose `n`th read of a BAR fails.
    struct Failing<'a>(&'a Tree, Cell<u32>);
    impl ConfigAccess for Failing<'_> {
        fn reaches(&self, _: Address, _: u16) -> bool {
            true
        }
        fn read(&self, at: Address, register: Register) -> Result<u32, AccessError> {
            if register.number() >= BASE_ADDRESS {
                self.1.set(self.1.get().wrapping_sub(1));
                if self.1.get() == 0 {
                    return Err(AccessError::Failed);
                }
            }
            self.0.ecam().read(at, register)
        }
        fn write(&self, at: Address, register: Register, value: u32) -> Result<(), AccessError> {
            self.0.ecam().write(at, register, value)
        }
    }
    let tree = one(full());
    let before = tree.contents();
    let function = function(&tree.ecam(), at(0, 1, 0));
    for n in 1..=14 {
        let failing = Failing(&tree, Cell::new(n));
        assert_eq!(bars(&failing, &function), Err(AccessError::Failed));
        assert_eq!(tree.contents(), before, "read {n}");
    }
}

#[test]
fn a_function_that_vanishes_while_it_is_sized_has_no_valid_bars_afterwards() {
    for lives in 5..40 {
        let tree = one(full());
        let ecam = tree.ecam();
        let function = function(&ecam, at(0, 1, 0));
        tree.functions.borrow()[0].fake.lives.set(lives - 5);
        let found = bars(&ecam, &function).unwrap();
        let whole: Vec<_> = sized(full());
        for bar in found.good() {
            // The result is true, or the function vanished between two halves.
            let same = whole
                .iter()
                .flatten()
                .any(|other| other.register == bar.register);
            assert!(same);
        }
        if lives == 5 {
            assert_eq!(found.good().count(), 0);
        }
    }
}

#[test]
fn an_unknown_header_has_no_bars() {
    let mut fake = full();
    fake.bytes[0x0e] = 5;
    assert_eq!(sized(fake), []);
}

proptest! {
    #[test]
    fn a_bar_that_keeps_its_upper_bits_is_sized(shift in 4u32..63, set: u64, prefetchable: bool) {
        let flags = if prefetchable { WIDE | PREFETCHABLE } else { WIDE };
        let size = 1u64 << shift;
        let mut fake = Fake::new(1, 0x02_0000).bar(0, flags, size);
        let address = set & !(size - 1);
        fake.set32(0x10, address as u32 | flags);
        fake.set32(0x14, (address >> 32) as u32);
        prop_assume!(address >> 32 != 0xffff_ffff);
        let kind = if prefetchable { BarKind::Prefetchable } else { BarKind::Memory };
        prop_assert_eq!(sized(fake), [bar(0x10, kind, 64, address, size)]);
    }

    #[test]
    fn all_registers_are_restored_with_any_values_and_fixed_bits(
        bytes in prop::array::uniform32(any::<u8>()), masks in prop::array::uniform32(any::<u8>()),
        command: u16, kind in 0u8..3,
    ) {
        let mut fake = Fake::new(1, 0x02_0000);
        fake.bytes[0x0e] = kind;
        fake.bytes[0x10..0x30].copy_from_slice(&bytes);
        fake.writable[0x10..0x30].copy_from_slice(&masks);
        fake.set16(COMMAND, command & 0x0407);
        let tree = one(fake);
        let before = tree.contents();
        let ecam = tree.ecam();
        let function = function(&ecam, at(0, 1, 0));
        for bar in bars(&ecam, &function).unwrap().good() {
            prop_assert!(bar.size.unwrap().is_power_of_two());
        }
        prop_assert_eq!(tree.contents(), before);
    }
}

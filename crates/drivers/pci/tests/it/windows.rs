//! A bridge's windows, read from its registers.

use crate::common::{Fake, Tree, at, function};
use nostall_pci::BridgeWindows;
use nostall_pci::registers::*;

fn windows(prepare: impl FnOnce(&mut Fake)) -> BridgeWindows {
    let mut bridge = Fake::bridge(1, 0, 1, 1);
    prepare(&mut bridge);
    let tree = Tree::default();
    tree.put(None, 1, 0, bridge);
    let ecam = tree.ecam();
    BridgeWindows::read(&ecam, &function(&ecam, at(0, 1, 0))).unwrap()
}

#[test]
fn a_limit_gives_the_last_granule_and_existing_upper_halves_count() {
    let wide = windows(|bridge| {
        bridge.set16(IO_BASE, 0x2111);
        bridge.set32(IO_BASE_UPPER, 0x0003_0002);
        bridge.set32(MEMORY_BASE, 0xc010_c000);
        bridge.set32(PREFETCHABLE_BASE, 0x0011_0001);
        bridge.set32(PREFETCHABLE_BASE_UPPER, 0x80);
        bridge.set32(PREFETCHABLE_LIMIT_UPPER, 0x81);
    });
    assert_eq!(wide.io, Some(0x2_1000..=0x3_2fff));
    assert_eq!(wide.memory, Some(0xc000_0000..=0xc01f_ffff));
    assert_eq!(wide.prefetchable, Some(0x80_0000_0000..=0x81_001f_ffff));
    // Without the bits for wide windows, the upper halves do not exist.
    let narrow = windows(|bridge| {
        bridge.set16(IO_BASE, 0x2010);
        bridge.set32(IO_BASE_UPPER, 0x0003_0002);
        bridge.set32(PREFETCHABLE_BASE, 0xd010_d000);
        bridge.set32(PREFETCHABLE_BASE_UPPER, 0x80);
        bridge.set32(PREFETCHABLE_LIMIT_UPPER, 0x81);
    });
    assert_eq!(narrow.io, Some(0x1000..=0x2fff));
    assert_eq!(narrow.prefetchable, Some(0xd000_0000..=0xd01f_ffff));
}

#[test]
fn a_base_above_its_limit_closes_a_window() {
    let closed = windows(|bridge| {
        bridge.set16(IO_BASE, 0x01f1);
        bridge.set32(MEMORY_BASE, 0x0000_fff0);
        bridge.set32(PREFETCHABLE_BASE, 0x0001_0001);
        bridge.set32(PREFETCHABLE_BASE_UPPER, 1); // by the upper half alone
    });
    assert_eq!(closed, BridgeWindows::default());
}

#[test]
fn zeros_mean_no_window_except_for_memory() {
    let zeros = windows(|bridge| {
        bridge.set16(IO_BASE, 0);
        bridge.set32(PREFETCHABLE_BASE, 0);
    });
    let expected = BridgeWindows {
        memory: Some(0..=0xf_ffff),
        ..BridgeWindows::default()
    };
    assert_eq!(zeros, expected);
}

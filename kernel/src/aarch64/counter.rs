//! The counter of the generic timer.

use nostall_io::VirtualCounter;

use crate::device_tree::{node, number};

/// Name of the timer in device trees.
pub const COMPATIBLE: &str = "arm,armv8-timer";

/// Returns the rate of the counter in hertz.
///
/// Panics if neither the device tree nor the firmware has it.
pub fn hz() -> u32 {
    let given = node(COMPATIBLE).and_then(|node| number(&node, "clock-frequency"));
    let hz = u32::try_from(given.unwrap_or_else(VirtualCounter::hz)).unwrap_or(0);
    assert!(
        hz > 0,
        "no clock: CNTFRQ_EL0 is not set, and the device tree has no clock-frequency below 4 GHz"
    );
    hz
}

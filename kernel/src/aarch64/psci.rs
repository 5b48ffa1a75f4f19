//! The firmware's interface for power (PSCI, DEN0022), called as the device tree says.

use core::sync::atomic::{AtomicBool, Ordering};

use nostall_uart::UartHardware;
use nostall_uart::registers::lsr;
use smccc::psci::{self, Error};
use smccc::{Hvc, Smc};

use super::{hang, serial_port};
use crate::device_tree::{node, pl011, serial, text};

/// Names of versions whose calls have fixed numbers.
const COMPATIBLE: [&str; 2] = ["arm,psci-1.0", "arm,psci-0.2"];

/// More polls than a byte takes on any line.
const POLLS: u32 = 1_000_000;

/// Instruction that calls the firmware.
enum Conduit {
    Hvc,
    Smc,
}

/// Returns the conduit, or `None` without a known PSCI.
fn conduit() -> Option<Conduit> {
    let node = COMPATIBLE.into_iter().find_map(node)?;
    match text(&node, "method")? {
        "hvc" => Some(Conduit::Hvc),
        "smc" => Some(Conduit::Smc),
        _ => None,
    }
}

/// Starts a CPU at `entry` with the argument `context`.
///
/// Panics if the device tree has no known PSCI.
pub fn cpu_on(id: usize, entry: usize, context: usize) -> Result<(), Error> {
    let [id, entry, context] = [id, entry, context].map(|value| value as u64);
    match conduit() {
        Some(Conduit::Hvc) => psci::cpu_on::<Hvc>(id, entry, context),
        Some(Conduit::Smc) => psci::cpu_on::<Smc>(id, entry, context),
        None => panic!("no other CPU can start: the device tree has no PSCI 0.2 with hvc or smc"),
    }
}

fn say(port: &impl UartHardware) {
    for byte in *b"nostall: no semihosting here: give QEMU -semihosting-config enable=on\r\n" {
        let _ = (0..POLLS).any(|_| port.line_status() & lsr::THRE != 0);
        port.send(byte);
    }
}

/// Ends a machine without semihosting: prints the reason on the port under test, if there is one, and
/// powers off.
pub extern "C" fn end_without_semihosting() -> ! {
    static IS_ENDING: AtomicBool = AtomicBool::new(false);
    // Once only, because a fault in here is reported, too.
    if !IS_ENDING.swap(true, Ordering::Relaxed) {
        if let Some(port) = pl011::find() {
            say(&port);
        } else if serial::find().is_some() {
            say(&serial_port());
        }
    }
    let _ = match conduit() {
        Some(Conduit::Hvc) => psci::system_off::<Hvc>(),
        Some(Conduit::Smc) => psci::system_off::<Smc>(),
        None => Ok(()),
    };
    hang()
}

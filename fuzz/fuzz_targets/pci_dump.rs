//! Reads an arbitrary dump: its functions are in order, and every part of them can be decoded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nostall_pci::{
    BridgeWindows, Capabilities, ConfigAccess, ExtendedCapabilities, Function, bars_as_set,
};

#[path = "../../crates/drivers/pci/examples/functions/dump.rs"]
#[allow(dead_code, reason = "it is a module of an example")]
mod dump;

use dump::Dump;

fuzz_target!(|bytes: &[u8]| {
    let Ok(dump) = Dump::read(bytes) else {
        return;
    };
    assert!(dump.functions().is_sorted_by(|a, b| a < b));
    for address in dump.functions() {
        let registers = (0..4096).filter(|register| dump.reaches(*address, *register));
        assert!(registers.clone().count() > 0);
        for register in registers {
            dump.at(*address).read8(register).unwrap();
        }
        let Ok(Some(function)) = Function::read_listed(dump.at(*address)) else {
            continue;
        };
        let _ = BridgeWindows::read(&dump, &function);
        if let Ok(bars) = bars_as_set(&dump, &function) {
            assert!(bars.iter().count() <= 7);
        }
        // A capability takes at least one word, and each list has at most one fault.
        let near = Capabilities::new(&dump, &function).count();
        assert!(near <= (256 - 0x40) / 4 + 1);
        let extended = ExtendedCapabilities::new(&dump, &function).count();
        assert!(extended <= (4096 - 256) / 4 + 1);
    }
});

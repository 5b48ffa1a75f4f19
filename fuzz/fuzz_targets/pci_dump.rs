//! Lists an arbitrary dump: each of its functions is listed once.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nostall_pci::{ConfigAccess, Dump, Function, Names};
use nostall_postmortem::cli::output::Style;
use nostall_postmortem::cli::{escape, output};
use pci::json::{self, Device};
use pci::source::Source;
use pci::{text, tree};

// The modules of the command, which are not in a library.
#[allow(dead_code)]
#[path = "../../crates/nostall/src/pci"]
mod pci {
    pub mod json;
    pub mod source;
    pub mod text;
    pub mod tree;
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(dump) = Dump::read(bytes) else {
        return;
    };
    assert!(dump.functions().is_sorted_by(|a, b| a < b));
    let names = Names::bundled();
    let mut devices = Vec::new();
    for address in dump.functions() {
        let registers = (0..4096).filter(|register| dump.reaches(*address, *register));
        assert!(registers.clone().count() > 0);
        for register in registers {
            dump.read8(*address, register).unwrap();
        }
        if let Ok(Some(function)) = Function::read_listed(&dump, *address) {
            let device = Device::read(&dump, &function, None, &names);
            // A capability takes at least one word. Each list and BAR has at most one problem, and
            // there are a few others.
            assert!(device.capabilities.len() <= (256 - 0x40) / 4 + (4096 - 256) / 4);
            assert!(device.bars.len() <= 7 && device.problems.len() <= 16);
            devices.push(device);
        }
    }
    assert!(json::correct_ports(&mut devices).len() <= devices.len());
    for style in [Style::Plain, Style::Colour] {
        let (mut list, mut drawing) = (Vec::new(), Vec::new());
        for device in &devices {
            text::line(device, true, true, style, &mut list).unwrap();
            assert_eq!(list.iter().filter(|byte| **byte == b'\n').count(), 1);
            text::details(device, style, &mut list).unwrap();
            list.clear();
        }
        tree::write(&devices, style, &mut drawing).unwrap();
        if style == Style::Plain {
            // A root's line begins with its number.
            let lines = drawing.split(|byte| *byte == b'\n');
            let entries = lines.filter(|it| it.first().is_some_and(|it| !it.is_ascii_hexdigit()));
            assert_eq!(entries.count(), devices.len());
        }
    }
    json::document(&Source::Dump(String::new(), dump), &devices).unwrap();
});

//! The crash records of a kernel: those of the boot before are logged, and a panic leaves one.
//!
//!     cargo run -p nostall-pstore --example panic_record
//!
//! Two boots share a region, which is a vector here. Nothing else needs an operating system.

// ANCHOR: boot
use nostall_pstore::{
    DumpHeader, Layout, LayoutError, LinuxVersion, Load, Params, Ram, Zone, ZoneKind, recover,
};

/// Logs what the boot before left, and returns the zone for this boot's panic.
fn boot(region: Ram<'_>) -> Result<Option<Zone<'_, Ram<'_>>>, LayoutError> {
    let layout = Layout::new(&Params::command_line(region.len(), 1))?; // for 1 CPU
    for mut record in recover(&region, &layout, None).zones_of(ZoneKind::Dmesg) {
        let mut at = record.dmesg_header().map_or(0, |(_, text)| text);
        while let Some((text, _trust)) = record.chunk(at) {
            log(text);
            at += text.len();
        }
    }
    let mut panic = None;
    // All zones are attached: a reader doubts a region with few headers.
    for (place, memory) in layout.split(region) {
        let linux = LinuxVersion::new(6, 12, 0); // the order of its zones
        let Ok((mut zone, _)) = Zone::attach(memory, place.kind, linux, None) else {
            continue;
        };
        if place.kind == ZoneKind::Dmesg {
            zone.erase(); // it is in the log now
            panic.get_or_insert(zone);
        }
    }
    Ok(panic)
}

/// Called by the panic handler, after `CONSOLE.panic`, with the text of `RING.tail`.
fn leave(panic: &mut Zone<'_, Ram<'_>>, text: &[u8]) {
    panic.write_dmesg(&DumpHeader::PANIC, text);
}
// ANCHOR_END: boot

fn log(text: &[u8]) {
    print!("{}", String::from_utf8_lossy(text));
}

fn main() -> Result<(), LayoutError> {
    let mut reserved = vec![0; 0x4_0000];
    for boot_number in 1..=2 {
        println!("boot {boot_number}:");
        if let Some(mut panic) = boot(Ram::of(&mut reserved))? {
            leave(&mut panic, b"panicked: out of coffee\n");
        }
    }
    Ok(())
}

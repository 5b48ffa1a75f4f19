//! A serial port behind a PCI host bridge, for machines whose device tree has none.

use nostall_pci::device_tree::{Host, Space};
use nostall_pci::registers::{COMMAND, COMMAND_IO, COMMAND_MEMORY};
use nostall_pci::{
    AccessError, BarKind, BarSlot, ConfigAccess, Decoding, Ecam, Function, Scan, assign, bars,
};
use spin::Once;

use super::{get, pci};

/// Simple communication controllers with the registers of a 16550 or of its successors (PCI Code
/// and ID Assignment Specification 1.11, section 1.8).
const CLASS: (u8, u8) = (0x07, 0x00);
const FROM_16550: u8 = 0x02;

/// Returns the CPUs' address of the first port's registers. If no firmware has assigned addresses,
/// this function does.
pub fn find() -> Option<u64> {
    static FOUND: Once<Option<u64>> = Once::new();
    *FOUND.call_once(|| Host::all(get()).flatten().find_map(|host| below(&host)))
}

fn below(host: &Host) -> Option<u64> {
    let segment = &host.segment;
    let window = pci::ecam(&segment.window())?;
    let access = Ecam::new(window, segment.number, segment.buses.clone());
    let mut scan = Scan::new(&access, segment.number, segment.buses.clone()).flatten();
    let port = scan.find(|function| {
        let class = function.class;
        (class.base(), class.sub()) == CLASS && class.interface() >= FROM_16550
    })?;
    address(&access, host, &port).ok()?
}

fn address<A: ConfigAccess>(
    access: &A,
    host: &Host,
    port: &Function,
) -> Result<Option<u64>, AccessError> {
    let first = || Ok(bars(access, port)?.good().next());
    let bar = match first()? {
        Some(bar) if bar.address == 0 => {
            let mut slots = [BarSlot::EMPTY; 64];
            let number = host.segment.number;
            let ranges = host.ranges();
            let _ = assign(access, number, &ranges, Decoding::Off, &mut slots, |_| {});
            first()?
        }
        assigned => assigned,
    };
    let Some(bar) = bar.filter(|bar| bar.address != 0) else {
        return Ok(None);
    };
    let (space, decodes) = match bar.kind {
        BarKind::Io => (Space::Io, COMMAND_IO),
        _ => (Space::Memory64, COMMAND_MEMORY),
    };
    let at = access.at(port.address);
    at.write16(COMMAND, at.read16(COMMAND)? | decodes)?;
    Ok(host.cpu_address(space, bar.address))
}

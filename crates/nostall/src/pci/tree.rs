//! Devices as bridges connect them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use nostall_pci::Address;

use super::json::{Device, impossible};
use super::text::{DeviceLabel, Numbers};
use crate::output::Style;

/// The tree of each segment and of each root bus in it, like `lspci -t`'s.
pub fn write(devices: &[Device], style: Style, out: &mut dyn Write) -> io::Result<()> {
    let tree = Tree::new(devices);
    for root in &tree.roots {
        let ((segment, bus), heading) = (root, style.heading());
        writeln!(out, "{heading}{segment:04x}:{bus:02x}{heading:#}")?;
        tree.children(&[*root], &mut String::new(), style, out)?;
    }
    Ok(())
}

/// Segment and bus.
type Bus = (u32, u8);

struct Tree<'a> {
    /// Devices on each bus.
    buses: BTreeMap<Bus, Vec<&'a Device>>,
    /// Buses that no bridge leads to.
    roots: Vec<Bus>,
    /// Those that a bridge leads to, and have something on them.
    behind: BTreeMap<Address, Vec<Bus>>,
}

impl<'a> Tree<'a> {
    fn new(devices: &'a [Device]) -> Self {
        let mut buses: BTreeMap<Bus, Vec<&Device>> = BTreeMap::new();
        let mut bridges: BTreeMap<u32, Vec<&Device>> = BTreeMap::new();
        for device in devices {
            let segment = device.address.segment();
            let bus = (segment, device.address.bus());
            buses.entry(bus).or_default().push(device);
            if is_bridge(device) {
                bridges.entry(segment).or_default().push(device);
            }
        }
        let (mut roots, mut behind) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
        for bus in buses.keys() {
            // Innermost: the one whose own bus has the greatest number. A bus need not be
            // the bridge's secondary one: virtual functions take numbers behind it.
            let above = bridges.get(&bus.0).into_iter().flatten();
            let above = above.filter(|bridge| leads_to(bridge, bus.1));
            match above.max_by_key(|bridge| bridge.buses.map(|buses| buses.secondary)) {
                Some(bridge) => behind.entry(bridge.address).or_default().push(*bus),
                None => roots.push(*bus),
            }
        }
        Self {
            buses,
            roots,
            behind,
        }
    }

    /// Writes all devices on `buses`, a line each, and below each the devices behind it. It ends:
    /// numbers behind a bridge are greater than that of its own bus.
    fn children(
        &self,
        buses: &[Bus],
        indent: &mut String,
        style: Style,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let all = buses.iter().filter_map(|bus| self.buses.get(bus)).flatten();
        let mut all = all.peekable();
        while let Some(device) = all.next() {
            let (branch, beside) = match all.peek() {
                Some(_) => ("+-", "| "),
                None => ("\\-", "  "),
            };
            line(device, &format!("{indent}{branch}"), style, out)?;
            if let Some(behind) = self.behind.get(&device.address) {
                indent.push_str(beside);
                self.children(behind, indent, style, out)?;
                indent.truncate(indent.len() - beside.len());
            }
        }
        Ok(())
    }
}

fn line(device: &Device, branch: &str, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let (heading, doubt) = (style.heading(), style.doubt());
    let address = device.address.to_string();
    let (_, address) = address.split_once(':').unwrap_or_default();
    let what = DeviceLabel {
        device,
        numbers: Numbers::Nameless,
    };
    write!(out, "{branch} {heading}{address}{heading:#} {what}")?;
    if let Some(buses) = device.buses {
        write!(out, " -> {:02x}", buses.secondary)?;
        if buses.subordinate != buses.secondary {
            write!(out, "-{:02x}", buses.subordinate)?;
        }
        if let Some(problem) = impossible(device.address, &buses) {
            write!(out, " {doubt}({problem}){doubt:#}")?;
        }
    }
    writeln!(out)
}

fn is_bridge(device: &Device) -> bool {
    let possible = |buses| impossible(device.address, buses).is_none();
    device.buses.as_ref().is_some_and(possible)
}

fn leads_to(bridge: &Device, bus: u8) -> bool {
    let range = bridge
        .buses
        .map(|buses| buses.secondary..=buses.subordinate);
    range.is_some_and(|range| range.contains(&bus))
}

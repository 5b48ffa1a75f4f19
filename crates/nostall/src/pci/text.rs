//! Devices for people.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

use nostall_pci::PortType;

use super::json::{BaseAddress, Device, Id, Listed, port_name};
use crate::escape::escape;
use crate::output::Style;

/// A device in a line, as `lspci -nn` has it, and with `verbose` as `lspci -vnn` begins.
pub fn line(
    device: &Device,
    segments: bool,
    verbose: bool,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let heading = style.heading();
    let address = device.address.to_string();
    let address = match address.split_once(':') {
        Some((_, short)) if !segments => short,
        _ => &address,
    };
    let what = DeviceLabel {
        device,
        numbers: Numbers::All,
    };
    write!(out, "{heading}{address}{heading:#} {what}")?;
    if device.revision.0 != 0 {
        write!(out, " (rev {:02x})", device.revision.0)?;
    }
    let interface = device.class.interface();
    match &device.interface_name {
        _ if !verbose => {}
        Some(name) => write!(out, " (prog-if {interface:02x} [{}])", safe(name))?,
        None if interface != 0 => write!(out, " (prog-if {interface:02x})")?,
        None => {}
    }
    writeln!(out)
}

/// Label of a device: class, vendor and device.
pub struct DeviceLabel<'a> {
    pub device: &'a Device,
    pub numbers: Numbers,
}

/// Which numbers are shown beside names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// All, as by `lspci -nn`.
    All,
    /// Those that have no name, as by `lspci`.
    Nameless,
}

impl fmt::Display for DeviceLabel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, numbers } = *self;
        let number = device.class;
        match (device.class_name.as_deref(), numbers) {
            (name, Numbers::All) => write!(f, "{} [{number}]: ", safe(name.unwrap_or("Class")))?,
            (Some(name), Numbers::Nameless) => write!(f, "{}: ", safe(name))?,
            (None, Numbers::Nameless) => write!(f, "Class {number}: ")?,
        }
        let maker = Maker {
            vendor: device.vendor_name.as_deref(),
            device: device.device_name.as_deref(),
            ids: (device.vendor, device.device),
            numbers,
        };
        maker.fmt(f)
    }
}

/// Vendor and device as lspci names them: a device without a name is a `Device`.
struct Maker<'a> {
    vendor: Option<&'a str>,
    device: Option<&'a str>,
    ids: (Id, Id),
    numbers: Numbers,
}

impl fmt::Display for Maker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(vendor) = self.vendor {
            write!(f, "{} ", safe(vendor))?;
        }
        // A device's name without its vendor's would be ambiguous.
        let device = self.device.filter(|_| self.vendor.is_some());
        let (Id(vendor), Id(number)) = self.ids;
        f.write_str(&safe(device.unwrap_or("Device")))?;
        match (self.numbers, self.vendor, device) {
            (Numbers::All, _, _) => write!(f, " [{vendor:04x}:{number:04x}]"),
            (Numbers::Nameless, _, Some(_)) => Ok(()),
            (Numbers::Nameless, Some(_), None) => write!(f, " {number:04x}"),
            (Numbers::Nameless, None, _) => write!(f, " {vendor:04x}:{number:04x}"),
        }
    }
}

/// Writes further properties, a line each, behind a tab.
pub fn details(device: &Device, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let doubt = style.doubt();
    if let Some(subsystem) = &device.subsystem {
        let maker = Maker {
            vendor: subsystem.vendor_name.as_deref(),
            device: subsystem.name.as_deref(),
            ids: (subsystem.vendor, subsystem.device),
            numbers: Numbers::All,
        };
        writeln!(out, "\tSubsystem: {maker}")?;
    }
    if let Some(interrupt) = device.interrupt {
        write!(out, "\tInterrupt: pin {}", interrupt.pin)?;
        match interrupt.line {
            // Firmware's number for no interrupt.
            255 => writeln!(out)?,
            line => writeln!(out, ", line {line}")?,
        }
    }
    for bar in &device.bars {
        base_address(bar, out)?;
    }
    if let Some(buses) = device.buses {
        writeln!(out, "\tBuses: {buses}")?;
    }
    for window in &device.windows {
        let (kind, first, last) = (window.kind, window.first.0, window.last.0);
        // A range can be all there is.
        let size = (last - first).checked_add(1).map(Size);
        write!(out, "\tWindow: {} {first:#x}-{last:#x}", kind_words(kind))?;
        match size {
            Some(size) => writeln!(out, ", {size}")?,
            None => writeln!(out)?,
        }
    }
    for capability in &device.capabilities {
        listed(capability, device.port, out)?;
    }
    for problem in &device.problems {
        writeln!(out, "\t{doubt}Problem: {}{doubt:#}", safe(problem))?;
    }
    Ok(())
}

fn base_address(bar: &BaseAddress, out: &mut dyn Write) -> io::Result<()> {
    let (register, address) = (bar.register.0, bar.address.0);
    match bar.kind {
        "rom" => write!(out, "\tROM: ")?,
        _ => write!(
            out,
            "\tBAR {}: {}",
            (register - 0x10) / 4,
            kind_words(bar.kind)
        )?,
    }
    match (bar.kind, address) {
        (_, 0) => write!(out, " not assigned")?,
        ("rom", _) => write!(out, "at {address:#x}")?,
        _ => write!(out, " at {address:#x}")?,
    }
    if matches!(bar.kind, "memory" | "prefetchable") {
        write!(out, ", {}-bit", bar.bits)?;
    }
    match bar.size {
        Some(size) => writeln!(out, ", {}", Size(size)),
        None => writeln!(out),
    }
}

fn kind_words(kind: &str) -> &str {
    match kind {
        "io" => "I/O",
        "prefetchable" => "prefetchable memory",
        other => other,
    }
}

fn listed(capability: &Listed, port: Option<PortType>, out: &mut dyn Write) -> io::Result<()> {
    let (id, register) = (capability.id.0, capability.register.0);
    let width = if capability.extended { 5 } else { 4 };
    write!(out, "\tCapability {register:#0width$x}: ")?;
    match capability.name {
        Some(name) => write!(out, "{name}")?,
        None => write!(out, "unknown, ID {id:#x}")?,
    }
    let port = port.and_then(port_name);
    if let ((EXPRESS, false), Some(port)) = ((id, capability.extended), port) {
        write!(out, ", {}", port.replace('-', " "))?;
    }
    match capability.version {
        Some(version) => writeln!(out, " (extended, version {version})"),
        None => writeln!(out),
    }
}

/// PCI Express's own.
const EXPRESS: u16 = nostall_pci::Capability::PCIE as u16;

/// A name for one line of a terminal.
fn safe(name: &str) -> Cow<'_, str> {
    escape(name.as_bytes())
}

/// A size in bytes.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let steps = (self.0.max(1).trailing_zeros() / 10).min(6);
        write!(f, "{} {}", self.0 >> (steps * 10), UNITS[steps as usize])
    }
}

//! Names of vendors, devices and classes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::format;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::string::String;
use std::vec::Vec;

use pci_ids::FromId;

/// Paths of the PCI ID Repository's list (pci-ids.ucw.cz): Debian and Arch, Fedora, and pciutils'
/// default.
const LISTS: [&str; 3] = [
    "/usr/share/misc/pci.ids",
    "/usr/share/hwdata/pci.ids",
    "/usr/local/share/pci.ids",
];

/// Largest list to read, in bytes. The list of 2026 has 1.6 MB.
const LONGEST: u64 = 32 << 20;

/// Names of vendors, devices and classes.
///
/// They come from the system's `pci.ids`, which lspci also reads, or without one from the `pci-ids`
/// crate.
#[derive(Clone, Debug)]
pub struct Names(Option<List>);

impl Names {
    /// Returns the system's list, or the `pci-ids` crate's.
    pub fn of_the_system() -> Self {
        let mut lists = LISTS.iter().map(Path::new);
        lists.find_map(Self::from_file).unwrap_or(Self::bundled())
    }

    /// Returns the list of the `pci-ids` crate.
    pub const fn bundled() -> Self {
        Self(None)
    }

    /// Reads the list in `file`; `None` if it cannot be read or has no vendor or class.
    pub fn from_file(file: &Path) -> Option<Self> {
        List::read(file).map(Some).map(Self)
    }

    /// Returns the name of a vendor.
    pub fn vendor(&self, vendor: u16) -> Option<Cow<'_, str>> {
        match &self.0 {
            Some(list) => list.name(&[Key::Vendor(vendor)]),
            None => pci_ids::Vendor::from_id(vendor).map(|it| it.name().into()),
        }
    }

    /// Returns the name of a vendor's device.
    pub fn device(&self, vendor: u16, device: u16) -> Option<Cow<'_, str>> {
        match &self.0 {
            Some(list) => list.name(&[Key::Vendor(vendor), Key::Four(device)]),
            None => pci_ids::Device::from_vid_pid(vendor, device).map(|it| it.name().into()),
        }
    }

    /// Returns the name of a subsystem, given by vendor and number, with this device.
    pub fn subsystem(
        &self,
        (vendor, device): (u16, u16),
        (subvendor, subdevice): (u16, u16),
    ) -> Option<Cow<'_, str>> {
        match &self.0 {
            Some(list) => list.name(&[
                Key::Vendor(vendor),
                Key::Four(device),
                Key::Pair(subvendor, subdevice),
            ]),
            None => pci_ids::Device::from_vid_pid(vendor, device)?
                .subsystems()
                .find(|it| (it.subvendor(), it.subdevice()) == (subvendor, subdevice))
                .map(|it| it.name().into()),
        }
    }

    /// Returns the name of a class.
    pub fn class(&self, class: u8) -> Option<Cow<'_, str>> {
        match &self.0 {
            Some(list) => list.name(&[Key::Class(class)]),
            None => pci_ids::Class::from_id(class).map(|it| it.name().into()),
        }
    }

    /// Returns the name of a subclass.
    pub fn subclass(&self, class: u8, subclass: u8) -> Option<Cow<'_, str>> {
        match &self.0 {
            Some(list) => list.name(&[Key::Class(class), Key::Two(subclass)]),
            None => pci_ids::Subclass::from_cid_sid(class, subclass).map(|it| it.name().into()),
        }
    }

    /// Returns the name of a subclass's programming interface.
    pub fn interface(&self, class: u8, subclass: u8, interface: u8) -> Option<Cow<'_, str>> {
        match &self.0 {
            Some(list) => list.name(&[Key::Class(class), Key::Two(subclass), Key::Two(interface)]),
            None => pci_ids::Subclass::from_cid_sid(class, subclass)?
                .prog_ifs()
                .find(|it| it.id() == interface)
                .map(|it| it.name().into()),
        }
    }
}

/// Text of a `pci.ids` file: a line for each name, indented with one tab for each parent.
#[derive(Clone, Debug)]
struct List {
    text: Vec<u8>,
    /// Start of the line of each vendor or class.
    starts: HashMap<Key, usize>,
}

/// Key at the start of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Vendor(u16),
    Class(u8),
    Four(u16),
    Two(u8),
    Pair(u16, u16),
}

impl List {
    fn read(file: &Path) -> Option<Self> {
        let mut text = Vec::new();
        let file = File::open(file).ok()?.take(LONGEST);
        { file }.read_to_end(&mut text).ok()?;
        Self::new(text)
    }

    fn new(text: Vec<u8>) -> Option<Self> {
        let mut starts = HashMap::new();
        let mut at = 0;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            if let Some(key) = Key::of_top(line) {
                starts.entry(key).or_insert(at);
            }
            at += line.len();
        }
        (!starts.is_empty()).then_some(Self { text, starts })
    }

    /// Returns the name of the last key of `path`, in which each key is a child of the one before.
    fn name(&self, path: &[Key]) -> Option<Cow<'_, str>> {
        let (top, children) = path.split_first()?;
        let lines = self.text.get(*self.starts.get(top)?..)?;
        let mut lines = lines
            .split(|byte| *byte == b'\n')
            .filter(|line| !is_remark(line));
        let mut found = lines.next()?;
        for (child, tabs) in children.iter().zip(1..) {
            let key = child.text();
            // Deeper lines are children of siblings. A line with less indentation ends the search.
            found = lines
                .by_ref()
                .take_while(|line| indentation(line) >= tabs)
                .filter(|line| indentation(line) == tabs)
                .find(|line| line[tabs..].starts_with(key.as_bytes()))?;
        }
        let words = found.trim_ascii();
        let name = words.windows(2).position(|two| two == b"  ")?;
        Some(String::from_utf8_lossy(words[name..].trim_ascii_start()))
    }
}

fn is_remark(line: &[u8]) -> bool {
    line.is_empty() || line[0] == b'#'
}

fn indentation(line: &[u8]) -> usize {
    line.iter().take_while(|byte| **byte == b'\t').count()
}

impl Key {
    /// Parses the key of a vendor's or a class's line.
    fn of_top(line: &[u8]) -> Option<Self> {
        let word = |digits: &[u8]| u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok();
        match line {
            [b'C', b' ', a, b, b' ', b' ', ..] => {
                word(&[*a, *b]).map(|class| Self::Class(class as u8))
            }
            [a, b, c, d, b' ', b' ', ..] if line[0].is_ascii_hexdigit() => {
                word(&[*a, *b, *c, *d]).map(Self::Vendor)
            }
            _ => None,
        }
    }

    /// Returns the start of the line, without the tabs.
    fn text(self) -> String {
        match self {
            Self::Vendor(id) | Self::Four(id) => format!("{id:04x}  "),
            Self::Class(id) => format!("C {id:02x}  "),
            Self::Two(id) => format!("{id:02x}  "),
            Self::Pair(vendor, device) => format!("{vendor:04x} {device:04x}  "),
        }
    }
}

//! Devices of a Linux host.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::string::{String, ToString};
use std::vec::Vec;

use thiserror::Error;

use crate::Address;
use crate::access::{AccessError, ConfigAccess, REGISTERS, Register};
use crate::dump::put_virtual_id;

/// Linux's directory of PCI devices.
pub const DEVICES: &str = "/sys/bus/pci/devices";

/// Number of registers that Linux shows to unprivileged users (its `pci-sysfs.c`; twice as many for
/// a CardBus bridge).
const UNPRIVILEGED: u16 = 64;

/// Functions known to Linux, read from the `config` files of sysfs.
///
/// It is read-only, because the devices are in use. Each read accesses the device, with the
/// requested width. An absent or vanished function reads all ones. Users other than root can read
/// the first 64 registers; the others return [`AccessError::NotRecorded`].
///
/// A virtual function's own Vendor ID and Device ID read all ones (PCI Express Base, 9.3.4.1.1),
/// although it is present. They are taken from Linux's files.
#[derive(Clone, Debug)]
pub struct Sysfs {
    devices: PathBuf,
    functions: Vec<Address>,
    unrecognized: usize,
    restricted: bool,
}

impl Sysfs {
    /// Opens the functions in `root`: [`DEVICES`], a copy of it, or a directory that contains
    /// `bus/pci/devices` or `devices`, such as a copy of `/sys`.
    ///
    /// # Errors
    ///
    /// [`NoDevices`] if the directory cannot be read, or no entry has the name of a function.
    pub fn open(root: &Path) -> Result<Self, NoDevices> {
        let inside = ["bus/pci/devices", "devices"].map(|folder| root.join(folder));
        let devices = inside.into_iter().find(|folder| folder.is_dir());
        let devices = devices.unwrap_or_else(|| root.to_path_buf());
        let failed = |error| NoDevices::Io(devices.clone(), error);
        let (mut functions, mut unrecognized) = (Vec::new(), 0);
        for entry in fs::read_dir(&devices).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            match name.to_str().and_then(|name| name.parse().ok()) {
                Some(address) => functions.push(address),
                None => unrecognized += 1,
            }
        }
        if functions.is_empty() {
            return Err(NoDevices::Empty(devices));
        }
        functions.sort_unstable();
        // A copy may hold a function twice: with and without its segment.
        functions.dedup();
        let mut sysfs = Self {
            devices,
            functions,
            unrecognized,
            restricted: false,
        };
        sysfs.restricted = sysfs.functions.iter().any(|at| sysfs.is_kept_from_us(*at));
        Ok(sysfs)
    }

    /// Returns the functions, in order.
    pub fn functions(&self) -> &[Address] {
        &self.functions
    }

    /// Returns the directory of the devices.
    pub fn folder(&self) -> &Path {
        &self.devices
    }

    /// Returns the number of entries without a function's name.
    pub const fn unrecognized(&self) -> usize {
        self.unrecognized
    }

    /// Returns whether the system restricts registers for this user, as Linux does for users other
    /// than root.
    pub const fn is_restricted(&self) -> bool {
        self.restricted
    }

    /// Returns Linux's address ranges of a function, from its `resource` file.
    ///
    /// # Errors
    ///
    /// The system's error, or [`ErrorKind::InvalidData`] for other contents.
    pub fn resources(&self, address: Address) -> io::Result<Resources> {
        /// Largest file to read. Linux's has 57 bytes a line, and a line for each of up to 17
        /// ranges.
        const LONGEST: u64 = 16 << 10;
        let mut text = String::new();
        let file = File::open(self.file(address, "resource"))?;
        file.take(LONGEST).read_to_string(&mut text)?;
        let invalid = || io::Error::new(ErrorKind::InvalidData, "not a list of ranges");
        Resources::parse(&text).ok_or_else(invalid)
    }

    fn file(&self, address: Address, name: &str) -> PathBuf {
        let mut folder = self.devices.join(address.to_string());
        if address.segment() == 0 && !folder.exists() {
            folder = self.devices.join(&address.to_string()["0000:".len()..]);
        }
        folder.join(name)
    }

    fn config(&self, address: Address) -> Result<Option<File>, AccessError> {
        // In a directory other than sysfs, a function's name may lead anywhere, for example to a
        // pipe.
        let path = self.file(address, "config");
        match fs::metadata(&path) {
            Ok(file) if file.is_file() => {}
            Ok(_) => return Err(AccessError::Failed),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(_) => return Err(AccessError::Failed),
        }
        match File::open(path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(_) => Err(AccessError::Failed),
        }
    }

    /// Returns vendor and device of a virtual function, from Linux's files.
    fn virtual_id(&self, address: Address) -> Option<[u8; 4]> {
        fs::symlink_metadata(self.file(address, "physfn")).ok()?;
        let number = |name| {
            let mut text = String::new();
            let file = File::open(self.file(address, name)).ok()?;
            file.take(16).read_to_string(&mut text).ok()?;
            u16::from_str_radix(text.trim_end().strip_prefix("0x")?, 16).ok()
        };
        let (vendor, device) = (number("vendor")?, number("device")?);
        Some((u32::from(device) << 16 | u32::from(vendor)).to_le_bytes())
    }

    /// Returns whether more registers exist than this user may read. Reads one byte of a device.
    fn is_kept_from_us(&self, address: Address) -> bool {
        let Ok(Some(file)) = self.config(address) else {
            return false;
        };
        let more = file
            .metadata()
            .is_ok_and(|file| file.len() > UNPRIVILEGED.into());
        more && matches!(file.read_at(&mut [0], UNPRIVILEGED.into()), Ok(0))
    }
}

impl ConfigAccess for Sysfs {
    fn reaches(&self, address: Address, register: u16) -> bool {
        let has = |file: File| file.metadata().is_ok_and(|it| it.len() > register.into());
        let allowed = register < UNPRIVILEGED || !self.restricted;
        match self.config(address) {
            Ok(Some(file)) => allowed && has(file),
            Ok(None) => register < REGISTERS,
            Err(_) => false,
        }
    }

    fn read(&self, address: Address, register: Register) -> Result<u32, AccessError> {
        let (number, width) = (register.number(), register.width());
        let Some(file) = self.config(address)? else {
            return Ok(width.all_ones());
        };
        let mut bytes = [0; 4];
        let wanted = &mut bytes[..usize::from(width.bytes())];
        match file.read_exact_at(wanted, number.into()) {
            Ok(()) => {
                put_virtual_id(number, wanted, || self.virtual_id(address));
                Ok(u32::from_le_bytes(bytes))
            }
            Err(error) => match error.kind() {
                ErrorKind::UnexpectedEof => Err(AccessError::NotRecorded(number)),
                // Linux's answer for a device that has vanished after the file was opened.
                ErrorKind::NotFound => Ok(width.all_ones()),
                _ if error.raw_os_error() == Some(NO_DEVICE) => Ok(width.all_ones()),
                _ => Err(AccessError::Failed),
            },
        }
    }

    fn write(&self, _: Address, _: Register, _: u32) -> Result<(), AccessError> {
        Err(AccessError::ReadOnly)
    }
}

/// Linux's ENODEV (`errno-base.h`).
const NO_DEVICE: i32 = 19;

/// Address ranges of a function: BARs 0 to 5, the ROM, and those that drivers or bridges add.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources(Vec<Resource>);

/// A range of addresses in Linux's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Resource {
    first: u64,
    last: u64,
    flags: u64,
}

impl Resources {
    /// Parses one line for each range: first and last address, flags.
    fn parse(text: &str) -> Option<Self> {
        let line = |line: &str| {
            let mut numbers = line
                .split_ascii_whitespace()
                .map(|number| u64::from_str_radix(number.strip_prefix("0x")?, 16).ok());
            let resource = Resource {
                first: numbers.next()??,
                last: numbers.next()??,
                flags: numbers.next()??,
            };
            numbers.next().is_none().then_some(resource)
        };
        text.lines().map(line).collect::<Option<_>>().map(Self)
    }

    /// Returns the size of a BAR, 0 to 5; `None` if Linux does not report it.
    pub fn bar(&self, index: u8) -> Option<u64> {
        (index < 6).then(|| self.size(index.into()))?
    }

    /// Returns the size of the expansion ROM; `None` if Linux does not report it.
    pub fn rom(&self) -> Option<u64> {
        self.size(6)
    }

    fn size(&self, index: usize) -> Option<u64> {
        let range = self.0.get(index).filter(|range| range.flags != 0)?;
        // Linux represents an empty range as last = first - 1.
        let size = range.last.checked_sub(range.first)?.checked_add(1)?;
        // An upper half has no flags and is not a BAR. A range from 0 to 0 is unused.
        (range.last != 0).then_some(size)
    }
}

/// Reason for which the devices cannot be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NoDevices {
    /// This folder could not be read.
    #[error("{}: {}", .0.display(), .1)]
    Io(PathBuf, #[source] io::Error),
    /// This folder has no entry with a function's address.
    #[error("{}: no PCI devices here, such as 0000:00:1f.2", .0.display())]
    Empty(PathBuf),
}

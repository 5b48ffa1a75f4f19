//! Devices of a Linux host.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nostall_pci::{AccessError, Address, ConfigAccess, REGISTERS, Register};
use thiserror::Error;

use super::dump::put_virtual_id;

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
    /// The system restricts registers for this user, as Linux does for users other than root.
    restricted: bool,
}

impl Sysfs {
    /// Opens the functions in `devices`: [`DEVICES`], or a copy of it.
    ///
    /// # Errors
    ///
    /// [`NoDevices`] if the directory cannot be read, or no entry has the name of a function.
    pub fn open(devices: &Path) -> Result<Self, NoDevices> {
        let failed = |error| NoDevices::Io(devices.to_path_buf(), error);
        let mut functions = Vec::new();
        for entry in fs::read_dir(devices).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            functions.extend(name.to_str().and_then(|name| name.parse::<Address>().ok()));
        }
        if functions.is_empty() {
            return Err(NoDevices::Empty(devices.to_path_buf()));
        }
        functions.sort_unstable();
        // A copy may hold a function twice: with and without its segment.
        functions.dedup();
        let mut sysfs = Self {
            devices: devices.to_path_buf(),
            functions,
            restricted: false,
        };
        sysfs.restricted = sysfs.functions.iter().any(|at| sysfs.is_kept_from_us(*at));
        Ok(sysfs)
    }

    /// Returns the functions, in order.
    pub fn functions(&self) -> &[Address] {
        &self.functions
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

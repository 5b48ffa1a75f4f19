//! Linux's description of a device and its bus, without a message.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use spidev::{SpiModeFlags, Spidev};

use super::counters::{self, Counters};

/// spidev's, of old (drivers/spi/spidev.c); asked where there is no sysfs.
const MAJOR: u32 = 153;

/// Bytes each way in a message, unless spidev's parameter says otherwise.
const BUFSIZ: usize = 4096;

/// Linux's description of a device.
#[derive(Debug)]
pub struct Board {
    /// `6.12.107`.
    pub release: String,
    /// `spi0.0`, and its driver.
    pub device: Option<Node>,
    /// `spi0`, and its driver.
    pub controller: Option<Node>,
    pub bufsiz: usize,
}

/// A device of Linux's.
#[derive(Debug)]
pub struct Node {
    /// Folder in sysfs.
    folder: PathBuf,
    pub name: String,
    /// `sifive_spi`.
    pub driver: Option<String>,
    /// Names in the device tree, or else Linux's name.
    pub is: Option<String>,
}

/// How the device is set.
#[derive(Clone, Copy, Debug)]
pub struct Set {
    pub mode: SpiModeFlags,
    pub bits: u8,
    /// Hertz.
    pub clock: u32,
}

impl Board {
    /// Returns the description of the device behind a file, which is not opened.
    ///
    /// # Errors
    ///
    /// It is none of spidev's.
    pub fn of(path: &Path) -> Result<Self> {
        let name = shown(path);
        let file = fs::metadata(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => anyhow!("there is no {name}: {}", offer()),
            _ => anyhow!("{name}: {error}"),
        })?;
        let (major, minor) = (libc::major(file.rdev()), libc::minor(file.rdev()));
        let class = PathBuf::from(format!("/sys/dev/char/{major}:{minor}"));
        let subsystem = last_of(&class.join("subsystem"));
        let is_spidev = file.file_type().is_char_device()
            && subsystem.map_or(major == MAJOR, |subsystem| subsystem == "spidev");
        if !is_spidev {
            bail!("{name} is no SPI device: {}", offer());
        }
        let device = fs::canonicalize(class.join("device")).ok();
        let controller = device.as_deref().and_then(Path::parent);
        Ok(Self {
            release: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
            controller: controller.and_then(|folder| Node::of(folder, &folder.join("device"))),
            device: device.as_ref().and_then(|folder| Node::of(folder, folder)),
            bufsiz: read("/sys/module/spidev/parameters/bufsiz")
                .and_then(|bufsiz| bufsiz.parse().ok())
                .filter(|&bufsiz| bufsiz > 0)
                .unwrap_or(BUFSIZ),
        })
    }

    /// Linux's counters of the device and of its controller, where it keeps them.
    pub fn counters(&self) -> [Option<Counters>; 2] {
        [&self.device, &self.controller]
            .map(|node| counters::read(&node.as_ref()?.folder.join("statistics")))
    }
}

impl Node {
    fn of(folder: &Path, hardware: &Path) -> Option<Self> {
        // Names one after the other, each ended by a zero.
        let compatible = fs::read(hardware.join("of_node/compatible")).ok();
        let compatible = compatible.map(|names| {
            let names = String::from_utf8_lossy(&names);
            let names: Vec<_> = names.split('\0').filter(|name| !name.is_empty()).collect();
            names.join(", ")
        });
        Some(Self {
            folder: folder.to_owned(),
            name: folder.file_name()?.to_str()?.to_owned(),
            driver: last_of(&hardware.join("driver")),
            is: compatible.or_else(|| read(hardware.join("modalias"))),
        })
    }
}

impl Set {
    /// Returns the settings that Linux has for a device.
    ///
    /// # Errors
    ///
    /// Returns the operating system's error.
    pub fn of(device: &Spidev) -> std::io::Result<Self> {
        let options = device.query_configuration()?;
        Ok(Self {
            mode: options.spi_mode.unwrap_or(SpiModeFlags::empty()),
            bits: match options.bits_per_word.unwrap_or(0) {
                0 => 8,
                bits => bits,
            },
            clock: options.max_speed_hz.unwrap_or(0),
        })
    }
}

/// A name that may have anything in it, for a terminal.
pub fn shown(path: &Path) -> String {
    path.display().to_string().escape_debug().to_string()
}

/// Returns the hint for a device that does not exist: those that do.
fn offer() -> String {
    let mut names: Vec<_> = fs::read_dir("/sys/class/spidev")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| format!("/dev/{}", entry.file_name().display()))
        .collect();
    names.sort();
    if names.is_empty() {
        return "this kernel has no spidev devices (CONFIG_SPI_SPIDEV, and a device bound to the \
                driver spidev)"
            .to_owned();
    }
    format!("there is {}", names.join(", "))
}

fn last_of(link: &Path) -> Option<String> {
    let to = fs::read_link(link).ok()?;
    Some(to.file_name()?.to_str()?.to_owned())
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn device_numbers_are_taken_apart_as_linux_packs_them() {
        let numbers = |device| (libc::major(device), libc::minor(device));
        assert_eq!(numbers(0x9900), (153, 0));
        assert_eq!(numbers(0x9901), (153, 1));
        assert_eq!(numbers(0x103), (1, 3));
        assert_eq!(numbers(0x0010_0800), (8, 0x100));
    }
}

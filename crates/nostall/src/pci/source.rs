//! Where devices are read from.

use std::io;
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use nostall_pci::dump::LONGEST;
use nostall_pci::sysfs::{DEVICES, NoDevices, Resources};
use nostall_pci::{Address, ConfigAccess, Dump, Sysfs};
use nostall_postmortem::cli::read_file;

use crate::output::note;

/// A host, or a record of one.
pub enum Source {
    Sysfs(Sysfs),
    Dump(String, Dump),
}

impl Source {
    /// This host's devices.
    pub fn host() -> Result<Self> {
        match Sysfs::open(Path::new(DEVICES)) {
            Ok(sysfs) => Ok(Self::of_sysfs(sysfs)),
            Err(error @ NoDevices::Empty(_)) => Err(anyhow!(
                "{error}: there is no PCI on this host, or it is kept from this container"
            )),
            Err(error) => Err(anyhow!(
                "{error}: this system has no PCI, or hides it (a container does); to look at \
                 another's, see --dump and --sysfs"
            )),
        }
    }

    /// Those of which `folder` has the files.
    pub fn sysfs(folder: &Path) -> Result<Self> {
        match Sysfs::open(folder) {
            Ok(sysfs) => Ok(Self::of_sysfs(sysfs)),
            Err(NoDevices::Io(_, error)) if error.kind() == io::ErrorKind::NotADirectory => bail!(
                "{} is a file: for the output of lspci -xxxx, use --dump",
                folder.display()
            ),
            Err(error) => Err(anyhow!("{error}")),
        }
    }

    fn of_sysfs(sysfs: Sysfs) -> Self {
        if sysfs.unrecognized() > 0 {
            let (unrecognized, folder) = (sysfs.unrecognized(), sysfs.folder().display());
            note(format_args!(
                "{folder}: entries left out, whose names are no addresses of functions: \
                 {unrecognized}"
            ));
        }
        Self::Sysfs(sysfs)
    }

    /// Reads the output of lspci in `file`.
    pub fn dump(file: &Path) -> Result<Self> {
        let name = match file.to_str() {
            Some("-") => "standard input".into(),
            _ => file.display().to_string(),
        };
        if file.is_dir() {
            bail!("{name} is a directory: for a copy of sysfs, use --sysfs");
        }
        let text = read_file(file, LONGEST as usize)?;
        // Not as context: these errors contain their cause.
        let dump = Dump::read(&*text).map_err(|error| anyhow!("{name}: {error}"))?;
        let oddities = dump.oddities();
        for (count, what) in [
            (
                oddities.cut_lines,
                "lines of registers that are cut off, or go on as something else; what is \
                 before that counts",
            ),
            (
                oddities.stray_lines,
                "lines of registers that are left out, for they belong to no function, or to \
                 no register",
            ),
            (
                oddities.repeated,
                "functions that come again; of each, the last counts",
            ),
            (
                oddities.without_registers,
                "functions that are left out, for they have no registers here (lspci -xxxx \
                 prints them)",
            ),
        ] {
            if count > 0 {
                note(format_args!("{name}: {what}: {count}"));
            }
        }
        Ok(Self::Dump(name, dump))
    }

    /// Returns its name for the user.
    pub fn name(&self) -> String {
        match self {
            Self::Sysfs(sysfs) => sysfs.folder().display().to_string(),
            Self::Dump(name, _) => name.clone(),
        }
    }

    /// A word for it that stays the same.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Sysfs(_) => "sysfs",
            Self::Dump(..) => "dump",
        }
    }

    /// The functions that it lists, in order.
    pub fn functions(&self) -> &[Address] {
        match self {
            Self::Sysfs(sysfs) => sysfs.functions(),
            Self::Dump(_, dump) => dump.functions(),
        }
    }

    /// Their registers.
    pub fn access(&self) -> &dyn ConfigAccess {
        match self {
            Self::Sysfs(sysfs) => sysfs,
            Self::Dump(_, dump) => dump,
        }
    }

    /// Returns the system's address ranges of a function. A copy may do without.
    pub fn resources(&self, address: Address) -> Option<Resources> {
        match self {
            Self::Sysfs(sysfs) => sysfs.resources(address).ok(),
            Self::Dump(..) => None,
        }
    }

    /// One line of it, if it concerns all functions.
    pub fn say_what_is_missing(&self) {
        if let Self::Sysfs(sysfs) = self
            && sysfs.is_restricted()
        {
            note(format_args!(
                "only root may read registers above 0x3f, where capabilities are"
            ));
        }
    }
}

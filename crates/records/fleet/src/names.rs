//! Symbols of the kernels of a fleet.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use nostall_postmortem::kernel::is_of_release;
use nostall_postmortem::symbols::Symbols;

/// Source of symbols.
#[derive(Clone, Debug, Default)]
pub enum Maps {
    /// No source: addresses have no names.
    #[default]
    None,
    /// From one file, for every dump.
    One(Arc<Symbols>),
    /// From a directory with a file for each release.
    Releases(Arc<Releases>),
}

/// A directory of symbols.
#[derive(Debug)]
pub struct Releases {
    folder: PathBuf,
    loaded: Mutex<HashMap<String, Option<Arc<Symbols>>>>,
}

impl Maps {
    /// Loads the symbols of a file. A directory has files `System.map-RELEASE`,
    /// `System.map-RELEASE.gz` or `vmlinux-RELEASE`, which are loaded on demand.
    ///
    /// # Errors
    ///
    /// If the file has no symbols, or if the directory cannot be read. The error starts with the
    /// option's name.
    pub fn load(path: &Path) -> Result<Self> {
        if !path.is_dir() {
            let symbols = Symbols::load(path);
            let symbols = symbols.with_context(|| format!("--symbols {}", path.display()))?;
            return Ok(Self::One(Arc::new(symbols)));
        }
        ensure!(
            path.read_dir().is_ok(),
            "--symbols {}: cannot be read",
            path.display()
        );
        Ok(Self::Releases(Arc::new(Releases {
            folder: path.to_owned(),
            loaded: Mutex::default(),
        })))
    }

    /// Returns the symbols of a kernel, with linked addresses; `None` if there is no file for the
    /// release.
    pub fn of(&self, release: Option<&str>) -> Option<Arc<Symbols>> {
        match self {
            Self::None => None,
            Self::One(symbols) => Some(Arc::clone(symbols)),
            Self::Releases(releases) => releases.of(release?),
        }
    }
}

impl Releases {
    /// Maximum number of cached releases: forged dumps may have any number.
    const MOST: usize = 64;

    fn of(&self, release: &str) -> Option<Arc<Symbols>> {
        // The release is text of the crashed machine, and no path.
        if !release.chars().all(is_of_release) {
            return None;
        }
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = loaded.get(release) {
            return known.clone();
        }
        let names = ["System.map-@", "System.map-@.gz", "vmlinux-@"];
        let paths = names.map(|name| self.folder.join(name.replace('@', release)));
        let found = paths
            .iter()
            .find_map(|path| Symbols::load(path).ok().map(Arc::new));
        if loaded.len() == Self::MOST {
            loaded.clear();
        }
        loaded.insert(release.to_owned(), found.clone());
        found
    }
}

//! The files in which Linux reports, below a root folder that tests replace.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use nostall_postmortem::cli::escape::escape;
use serde::Serialize;

/// No file that is read here is longer, on any machine.
const LONGEST: u64 = 4 << 20;

/// Names that a folder lists, at most.
const MOST_NAMES: usize = 100_000;

/// The files of /proc and /sys.
pub struct System {
    root: PathBuf,
    missing: RefCell<Vec<Missing>>,
}

/// A file that only root may read, and the answer that is missing for that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    pub file: String,
    pub answer: &'static str,
}

impl System {
    /// Returns the system whose /proc and /sys are in that folder.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            missing: RefCell::default(),
        }
    }

    /// Returns a file's text, without its last line feed and with escapes for harmful characters.
    /// `answer` is noted as missing if only root may read the file.
    pub fn read(&self, file: &str, answer: &'static str) -> Option<String> {
        let mut bytes = Vec::new();
        let path = self.root.join(file);
        let read = File::open(path).and_then(|open| open.take(LONGEST).read_to_end(&mut bytes));
        match read {
            Ok(_) => Some(escape(bytes.trim_ascii_end()).into_owned()),
            Err(error) => {
                self.note(file, &error, answer);
                None
            }
        }
    }

    /// Returns the number in a file, decimal or after 0x.
    pub fn number(&self, file: &str, answer: &'static str) -> Option<u64> {
        crate::uart::number(&self.read(file, answer)?).ok()
    }

    /// Returns the names in a folder in their order, each harmless. `None` if there is no such
    /// folder, or it may not be listed.
    pub fn names(&self, folder: &str, answer: &'static str) -> Option<Vec<String>> {
        let entries = match fs::read_dir(self.root.join(folder)) {
            Ok(entries) => entries.flatten().take(MOST_NAMES),
            Err(error) => {
                self.note(folder, &error, answer);
                return None;
            }
        };
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<_> = names
            .filter(|name| escape(name.as_bytes()) == *name)
            .collect();
        names.sort();
        Some(names)
    }

    pub fn exists(&self, file: &str) -> bool {
        self.root.join(file).exists()
    }

    /// Returns a file's size as its folder shows it, which needs no right to read the file.
    pub fn size(&self, file: impl AsRef<Path>) -> Option<u64> {
        Some(fs::metadata(self.root.join(file)).ok()?.len())
    }

    /// Returns the answers that are missing, because only root may read the files.
    pub fn missing(&self) -> Vec<Missing> {
        self.missing.borrow().clone()
    }

    pub fn note(&self, file: &str, error: &std::io::Error, answer: &'static str) {
        let missing = Missing {
            file: format!("/{file}"),
            answer,
        };
        let mut noted = self.missing.borrow_mut();
        if error.kind() == ErrorKind::PermissionDenied && !noted.contains(&missing) {
            noted.push(missing);
        }
    }
}

//! Names of a recorded program's or kernel's functions, from a file with its symbols.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::Result;
use nostall_postmortem::cli::load_symbols;
use nostall_postmortem::symbols::{self, Error};
use nostall_trace::layout::{FILE, RegionHeader};
use nostall_trace::{Image, Recovered};
use nostall_tracefile::Symbols;
use rustc_demangle::demangle;

use super::candidate::Options;
use crate::escape::escape_name;

/// Note about a file whose build ID is not the recording's.
const OTHER_BUILD: &str = "not used for names: it is of another build";

/// Folder in which distributions keep symbols, by build ID.
const DEBUG: &str = "/usr/lib/debug/.build-id";

/// Maximum number of builds whose symbols are cached. Forged guest RAM may have more.
const MOST_BUILDS: usize = 16;

/// Names of the functions in one recording. A program's symbols are searched for when the first
/// function has only an address.
pub struct Names {
    recording: PathBuf,
    given: Option<(PathBuf, Rc<symbols::Symbols>)>,
    program: RefCell<Program>,
    /// Results of the last searches, the oldest first.
    found: RefCell<VecDeque<Found>>,
    /// Notes about files that are not used, or that are used without a matching build ID.
    notes: RefCell<Vec<String>>,
    /// Functions without a symbol.
    unnamed: Cell<u64>,
}

/// Symbols of the program with this build ID, if there are any.
struct Found {
    build_id: Vec<u8>,
    symbols: Option<Rc<symbols::Symbols>>,
}

/// The recorded program, as its recording describes it.
#[derive(Clone, Debug, Default)]
struct Program {
    name: String,
    /// Path of its file; empty if it is unknown.
    file: PathBuf,
    build_id: Vec<u8>,
}

impl Names {
    /// Creates the names for a recording.
    ///
    /// # Errors
    ///
    /// If the file of `--symbols` cannot be read.
    pub fn new(recording: &Path, options: &Options) -> Result<Rc<Self>> {
        let load = |path: &PathBuf| anyhow::Ok((path.clone(), load_symbols(path)?.into()));
        let given = options.symbols.as_ref().map(load).transpose()?;
        Ok(Rc::new(Self {
            recording: recording.to_owned(),
            given,
            program: RefCell::default(),
            found: RefCell::default(),
            notes: RefCell::default(),
            unnamed: Cell::new(0),
        }))
    }

    /// Takes the program's description from its recording.
    pub fn of<I: Image>(self: &Rc<Self>, region: &Recovered<I>) -> Shared {
        let mut path = [0; FILE];
        let header = region.header();
        let id = |header: &RegionHeader| header.build_id.as_bytes().to_vec();
        *self.program.borrow_mut() = Program {
            name: header.map_or_else(String::new, |it| escape_name(it.program.as_str())),
            file: path_of(region.file(&mut path)),
            build_id: header.map(id).unwrap_or_default(),
        };
        Shared(self.clone())
    }

    /// Returns the symbols of the program, or of the kernel.
    fn symbols(&self) -> Option<Rc<symbols::Symbols>> {
        let program = self.program.borrow();
        if let Some((path, given)) = &self.given {
            let wanted = &program.build_id[..];
            match given.build_id() {
                id if wanted.is_empty() || id == wanted => return Some(given.clone()),
                [] => {
                    self.note(path, "used for names, without a build ID to compare");
                    return Some(given.clone());
                }
                _ => self.note(path, OTHER_BUILD),
            }
        }
        let mut found = self.found.borrow_mut();
        if let Some(known) = found.iter().find(|it| it.build_id == program.build_id) {
            return known.symbols.clone();
        }
        let mut files = program.files(&self.recording).into_iter();
        let symbols = files.find_map(|path| self.load(&path, &program.build_id));
        let symbols = symbols.map(Rc::new);
        if found.len() >= MOST_BUILDS {
            found.pop_front();
        }
        found.push_back(Found {
            build_id: program.build_id.clone(),
            symbols: symbols.clone(),
        });
        symbols
    }

    /// Loads the symbols of a file, if it exists and is of the program's build.
    fn load(&self, path: &Path, build_id: &[u8]) -> Option<symbols::Symbols> {
        // A pipe or a device would not end.
        if !fs::metadata(path).is_ok_and(|file| file.is_file()) {
            return None;
        }
        match symbols::Symbols::load(path) {
            Ok(symbols) if symbols.build_id() == build_id => return Some(symbols),
            Ok(_) => self.note(path, OTHER_BUILD),
            Err(Error::Stripped) => self.note(path, "not used for names: it has no symbols"),
            Err(error) => self.note(path, &format!("not used for names: {error}")),
        }
        None
    }

    fn note(&self, path: &Path, text: &str) {
        let line = format!("{}: {text}", escape_name(&path.to_string_lossy()));
        let mut notes = self.notes.borrow_mut();
        if !notes.contains(&line) {
            notes.push(line);
        }
    }
}

impl Program {
    /// Returns files that may have the symbols: the program's, one with its name beside the
    /// recording, and that of a distribution. Without a build ID in the recording, no file is
    /// certain, and the result is empty.
    fn files(&self, recording: &Path) -> Vec<PathBuf> {
        let [first, rest @ ..] = &self.build_id[..] else {
            return Vec::new();
        };
        let beside = self
            .file
            .file_name()
            .map(|name| recording.with_file_name(name));
        let debug = Path::new(DEBUG).join(format!("{first:02x}/{}.debug", hex(rest)));
        let mut files = vec![self.file.clone()];
        files.extend(beside);
        files.push(debug);
        files
    }
}

/// The same names, for the events of a recording.
pub struct Shared(Rc<Names>);

impl Symbols for Shared {
    fn name(&self, linked: u64) -> Option<String> {
        let symbols = self.0.symbols();
        let symbol = symbols.as_ref().and_then(|table| table.lookup(linked));
        if symbol.is_none() {
            self.0.unnamed.set(self.0.unnamed.get() + 1);
        }
        // Without the hash at the end of a Rust name.
        Some(format!("{:#}", demangle(symbol?.name)))
    }

    fn notes(&self) -> Vec<String> {
        let (names, count) = (&self.0, self.0.unnamed.get());
        let program = names.program.borrow();
        let mut notes = names.notes.borrow().clone();
        if count > 0 {
            let name = &program.name;
            let reason = match (names.symbols(), &program.build_id[..]) {
                (Some(_), _) => {
                    format!("{name} has no symbol for them; those of shared objects are not read")
                }
                (None, []) => "give --symbols FILE".to_owned(),
                (None, id) => format!("give --symbols FILE, of {name} with build ID {}", hex(id)),
            };
            notes.push(format!("functions shown as addresses: {count}; {reason}"));
        }
        notes
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(unix)]
fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    OsStr::from_bytes(bytes).into()
}

#[cfg(not(unix))]
fn path_of(bytes: &[u8]) -> PathBuf {
    OsStr::new(&*String::from_utf8_lossy(bytes)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Memory([u8; 4096]);

    #[test]
    fn a_recording_of_another_build_gets_no_names_from_the_file_of_the_one_before_it() {
        let file = std::env::current_exe().unwrap();
        let symbols = symbols::Symbols::load(&file).unwrap();
        let known = |&address: &u64| symbols.lookup(address).is_some();
        let function = (0..).step_by(4096).find(known).unwrap();
        let names = Names::new(Path::new("recording"), &Options::default()).unwrap();
        let name = |build_id: &[u8]| {
            let mut memory = Memory([0; 4096]);
            let options = nostall_trace::Options {
                zones: 1,
                build_id,
                ..nostall_trace::Options::default()
            };
            let region = nostall_trace::Region::format(&mut memory.0, &options).unwrap();
            region.set_file(file.as_os_str().as_encoded_bytes());
            let names = names.of(&nostall_trace::recover(&memory.0[..]).unwrap());
            names.name(function)
        };
        let own = name(symbols.build_id());
        assert_ne!(own, None);
        assert_eq!(name(b"another build"), None);
        assert_eq!(name(symbols.build_id()), own);
    }

    #[test]
    fn symbols_of_recordings_of_two_builds_are_loaded_once() {
        let names = Names::new(Path::new("recording"), &Options::default()).unwrap();
        let file = std::env::current_exe().unwrap();
        let own = symbols::Symbols::load(&file).unwrap().build_id().to_vec();
        let look = |build_id: &[u8]| {
            *names.program.borrow_mut() = Program {
                name: String::new(),
                file: file.clone(),
                build_id: build_id.to_vec(),
            };
            names.symbols()
        };
        let first = look(&own).unwrap();
        assert!(look(b"another build").is_none());
        let second = look(&own).unwrap();
        assert!(Rc::ptr_eq(&first, &second), "the file was loaded again");
        (0..100_u8).for_each(|build| assert!(look(&[build]).is_none()));
        assert_eq!(names.found.borrow().len(), MOST_BUILDS);
    }

    #[test]
    fn symbols_are_searched_for_at_three_places_and_never_without_a_build_id() {
        let mut program = Program {
            name: "server".to_owned(),
            file: "/opt/server".into(),
            build_id: vec![0xab, 0x01, 0xfe],
        };
        let files = program.files(Path::new("traces/today.trace"));
        let expected = [
            "/opt/server",
            "traces/server",
            "/usr/lib/debug/.build-id/ab/01fe.debug",
        ];
        assert_eq!(files, expected.map(PathBuf::from));
        program.build_id.clear();
        assert!(program.files(Path::new("today.trace")).is_empty());
    }
}

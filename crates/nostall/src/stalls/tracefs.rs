//! Linux's tracefs: an instance and probes of the command's own.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use serde::Serialize;

use super::paths::{self, Function, GROUP, RETURN};

/// Places of tracefs.
const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// A change in tracefs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    MakeFolder(PathBuf),
    /// Replaces a setting.
    Set(PathBuf, String),
    /// Adds a line to a list.
    Add(PathBuf, String),
    RemoveFolder(PathBuf),
}

impl Change {
    /// Makes the change.
    ///
    /// # Errors
    ///
    /// Errors of tracefs.
    pub fn make(&self) -> io::Result<()> {
        match self {
            Self::MakeFolder(path) => fs::create_dir(path),
            Self::Set(path, text) => {
                write(OpenOptions::new().write(true).truncate(true), path, text)
            }
            Self::Add(path, text) => write(OpenOptions::new().append(true), path, text),
            Self::RemoveFolder(path) => fs::remove_dir(path),
        }
    }

    /// Returns the change as a command of the shell.
    pub fn shell(&self) -> String {
        match self {
            Self::MakeFolder(path) => format!("mkdir {}", path.display()),
            Self::Set(path, text) => format!("echo '{text}' > {}", path.display()),
            Self::Add(path, text) => format!("echo '{text}' >> {}", path.display()),
            Self::RemoveFolder(path) => format!("rmdir {}", path.display()),
        }
    }
}

fn write(options: &OpenOptions, path: &Path, text: &str) -> io::Result<()> {
    options.open(path)?.write_all(text.as_bytes())
}

/// Reads a file of tracefs. Some return their text to the first read alone, so that has much room.
///
/// # Errors
///
/// Errors of tracefs.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let (mut text, mut part) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut part)? {
            0 => return Ok(text),
            read => text.extend(&part[..read]),
        }
    }
}

/// This machine's tracefs.
#[derive(Clone, Debug)]
pub struct Tracefs {
    root: PathBuf,
}

/// A function or a tracepoint that this kernel does not show, with the reason.
#[derive(Clone, Serialize)]
pub struct Refused {
    pub name: &'static str,
    pub reason: String,
}

/// Number of calls of each probed function, and of those that its probes missed.
pub type Hits = BTreeMap<&'static str, (u64, u64)>;

impl Tracefs {
    /// Finds tracefs.
    ///
    /// # Errors
    ///
    /// If it is not mounted, or may not be read.
    pub fn find() -> Result<Self> {
        for root in MOUNTS {
            match fs::metadata(Path::new(root).join("trace")) {
                Ok(_) => return Ok(Self { root: root.into() }),
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    bail!("{root} may not be read: run it as root")
                }
                Err(_) => {}
            }
        }
        bail!(
            "there is no tracefs: as root, run `mount -t tracefs tracefs {}`; a kernel without \
             CONFIG_FTRACE, or a container, has none",
            MOUNTS[0]
        )
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the path of a file of the instance.
    pub fn own(&self, name: &str) -> PathBuf {
        self.root.join("instances").join(GROUP).join(name)
    }

    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        read(&self.path(name))
    }

    /// Returns the changes that make the instance.
    fn instance(&self) -> [Change; 2] {
        [
            Change::MakeFolder(self.own("")),
            // This clock is the same on all CPUs, and does not jump.
            Change::Set(self.own("trace_clock"), "mono".to_owned()),
        ]
    }

    /// Returns the changes that set the ring's size for each CPU, and empty it. Before the first
    /// event is switched on, the change of the size would keep Linux 6.1's own ring at 7 KiB.
    fn ring(&self, kib: u64) -> [Change; 2] {
        [
            Change::Set(self.own("buffer_size_kb"), kib.to_string()),
            Change::Set(self.own("trace"), String::new()),
        ]
    }

    fn switch(&self, system: &str, event: &str, is_on: bool) -> Change {
        let file = format!("events/{system}/{event}/enable");
        Change::Set(self.own(&file), u8::from(is_on).to_string())
    }

    /// Returns the changes that define and switch on the probes of a function.
    fn probe(&self, event: &str, function: &str, bytes: &str) -> [Change; 4] {
        let add = |probe| Change::Add(self.path("kprobe_events"), probe);
        let fetch = match bytes {
            "" => String::new(),
            bytes => format!(" bytes={bytes}:u32"),
        };
        [
            add(format!("p:{GROUP}/{event} {function}{fetch}")),
            add(format!("r:{GROUP}/{event}{RETURN} {function}")),
            self.switch(GROUP, &format!("{event}{RETURN}"), true),
            self.switch(GROUP, event, true),
        ]
    }

    /// Returns all changes of a measurement.
    pub fn plan(&self, kib: u64, cost: &str) -> Vec<Change> {
        let mut changes = self.instance().to_vec();
        changes.extend(self.probe(COST, cost, ""));
        changes.extend(self.off(COST));
        changes.extend(self.ring(kib));
        for function in paths::functions() {
            changes.extend(self.probe(function.name, function.name, function.bytes));
        }
        changes.extend(paths::tracepoints().map(|(system, name)| self.switch(system, name, true)));
        changes.extend(paths::functions().flat_map(|function| self.off(function.name)));
        changes.push(Change::RemoveFolder(self.own("")));
        changes.push(self.boot_off());
        let names = paths::functions().map(|function| function.name);
        for name in names.chain([COST]) {
            changes.extend(["", RETURN].map(|end| self.removal(&format!("{name}{end}"))));
        }
        changes
    }

    fn boot_off(&self) -> Change {
        let enable = format!("events/{GROUP}/enable");
        Change::Set(self.path(&enable), "0".to_owned())
    }

    /// Returns the changes that switch off the probes of a function.
    fn off(&self, event: &str) -> [Change; 2] {
        ["", RETURN].map(|end| self.switch(GROUP, &format!("{event}{end}"), false))
    }

    fn removal(&self, event: &str) -> Change {
        let probes = self.path("kprobe_events");
        Change::Add(probes, format!("-:{GROUP}/{event}"))
    }

    fn probes(&self) -> String {
        let probes = self.read("kprobe_events").unwrap_or_default();
        String::from_utf8_lossy(&probes).into_owned()
    }

    pub fn has_probes(&self) -> bool {
        self.probes().lines().any(|line| own(line).is_some())
    }

    /// Removes the instance and the probes. Returns whether there were any.
    ///
    /// # Errors
    ///
    /// If a part stays. The others are removed all the same.
    pub fn clean(&self) -> Result<bool> {
        let instance = Change::RemoveFolder(self.own(""));
        let mut result = match instance.make() {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).with_context(|| instance.shell()),
        };
        // Probes of the kernel's command line (--boot) record into the kernel's own ring.
        _ = self.boot_off().make();
        for event in self.probes().lines().filter_map(own) {
            let removal = self.removal(event);
            match removal.make() {
                Ok(()) => result = result.map(|_| true),
                // An event has several lines after probes were added to it: the first removal
                // removed all.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => result = Err(error).with_context(|| removal.shell()),
            }
        }
        result
    }
}

/// Event of the probes that measure the cost of a probe.
pub const COST: &str = "nostall_cost";

/// Returns the event of a line of `kprobe_events` that is the command's own.
fn own(line: &str) -> Option<&str> {
    let (_, name) = line.split_whitespace().next()?.split_once(':')?;
    name.strip_prefix(GROUP)?.strip_prefix('/')
}

/// The command's instance of tracing. It and the probes are removed when it is dropped.
#[derive(Debug)]
pub struct Instance {
    pub tracefs: Tracefs,
    /// Tells another run of the command that this one is alive.
    _lock: File,
}

impl Instance {
    /// Makes the instance. The rest of a killed run is removed first.
    ///
    /// # Errors
    ///
    /// If another run measures, or a change is refused.
    pub fn new(tracefs: Tracefs) -> Result<Self> {
        let lock = lock(&tracefs)?;
        tracefs
            .clean()
            .context("removing what an earlier run left")?;
        let instance = Self {
            tracefs,
            _lock: lock,
        };
        make(&instance.tracefs.instance())?;
        Ok(instance)
    }

    /// Switches on a function's probes.
    ///
    /// # Errors
    ///
    /// The kernel's refusal.
    pub fn switch_on(&self, event: &str, function: &str, bytes: &str) -> io::Result<()> {
        let make = |bytes| {
            let changes = self.tracefs.probe(event, function, bytes);
            changes.iter().try_for_each(Change::make)
        };
        match make(bytes) {
            // Kernels without BTF do not know an argument by its name.
            Err(_) if !bytes.is_empty() => make(""),
            made => made,
        }
    }

    /// Sets the ring's size, and switches on all probes and tracepoints. Returns the refused ones.
    ///
    /// # Errors
    ///
    /// If all are refused.
    pub fn switch_all_on(&self, kib: u64) -> Result<Vec<Refused>> {
        make(&self.tracefs.ring(kib))?;
        let probes = paths::functions().map(|Function { name, bytes }| {
            let made = self.switch_on(name, name, bytes);
            (*name, made.map_err(|error| reason(&error)))
        });
        let tracepoints = paths::tracepoints().map(|(system, name)| {
            let made = self.tracefs.switch(system, name, true).make();
            let reason = |error: io::Error| match error.kind() {
                ErrorKind::NotFound => "this kernel has no such tracepoint".to_owned(),
                _ => error.to_string(),
            };
            (name, made.map_err(reason))
        });
        let all: Vec<_> = probes.chain(tracepoints).collect();
        ensure!(
            all.iter().any(|(_, made)| made.is_ok()),
            "this kernel has none of the probed functions, or it has no kprobes \
             (CONFIG_KPROBE_EVENTS): record with trace-cmd, as `nostall stalls --trace-cmd` prints"
        );
        let refused = all.into_iter().filter_map(|(name, made)| {
            let reason = made.err()?;
            Some(Refused { name, reason })
        });
        Ok(refused.collect())
    }

    /// Switches off a function's probes.
    ///
    /// # Errors
    ///
    /// Errors of tracefs.
    pub fn switch_off(&self, event: &str) -> io::Result<()> {
        self.tracefs.off(event).iter().try_for_each(Change::make)
    }

    /// Opens the pages of each CPU, for reads that do not wait.
    ///
    /// # Errors
    ///
    /// Errors of tracefs.
    pub fn pages(&self) -> io::Result<Vec<(u32, File)>> {
        let mut cpus = Vec::new();
        for entry in fs::read_dir(self.tracefs.own("per_cpu"))? {
            let entry = entry?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("cpu"));
            if let Some(cpu) = number.and_then(|number| number.parse().ok()) {
                let flags = OFlags::NONBLOCK.bits() as i32;
                let mut options = OpenOptions::new();
                let options = options.read(true).custom_flags(flags);
                cpus.push((cpu, options.open(entry.path().join("trace_pipe_raw"))?));
            }
        }
        cpus.sort_by_key(|(cpu, _)| *cpu);
        Ok(cpus)
    }

    /// Returns the calls and the misses of each probed function.
    pub fn hits(&self) -> Hits {
        let profile = self.tracefs.read("kprobe_profile").unwrap_or_default();
        let mut all = Hits::new();
        for line in String::from_utf8_lossy(&profile).lines() {
            let mut words = line.split_whitespace();
            let event = words.next().unwrap_or_default();
            let mut number = || words.next()?.parse::<u64>().ok();
            let (hits, missed) = (number().unwrap_or(0), number().unwrap_or(0));
            let name = event.strip_suffix(RETURN).unwrap_or(event);
            if let Some(function) = paths::function(name) {
                let known = all.entry(function.name).or_default();
                // A call is counted at its entry.
                known.0 += if event == name { hits } else { 0 };
                known.1 += missed;
            }
        }
        all
    }

    /// Returns whether the instance still records.
    pub fn is_on(&self) -> bool {
        read(&self.tracefs.own("tracing_on")).is_ok_and(|text| text.starts_with(b"1"))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Err(error) = self.tracefs.clean() {
            crate::output::error(format_args!(
                "{error:#}; `nostall stalls --clean` removes the rest"
            ));
        }
    }
}

/// Locks tracefs's folder, which stays while runs of the command make and remove the instance.
///
/// # Errors
///
/// If another run of the command has the lock.
pub fn lock(tracefs: &Tracefs) -> Result<File> {
    let folder = File::open(tracefs.path("")).context("tracefs: run it as root")?;
    ensure!(
        flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok(),
        "another run of `nostall stalls` measures on this machine: wait for its end"
    );
    Ok(folder)
}

/// Makes changes that a measurement cannot do without.
fn make(changes: &[Change]) -> Result<()> {
    changes.iter().try_for_each(|change| {
        let needs = "was refused: it needs root, and a kernel with tracing that is not locked down";
        change
            .make()
            .with_context(|| format!("`{}` {needs}", change.shell()))
    })
}

/// Returns the reason for which a kernel refuses a probe.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        // Linux 6.1 and 7.3 without the function.
        ErrorKind::NotFound | ErrorKind::InvalidInput => {
            "this kernel has no such function (its driver is missing, or it was inlined), or \
             refuses a probe there"
                .to_owned()
        }
        ErrorKind::AddrNotAvailable => "this kernel has several functions of that name".to_owned(),
        ErrorKind::PermissionDenied => "the kernel is locked down".to_owned(),
        _ => error.to_string(),
    }
}

/// Reads one page. An empty slice: there is none now.
///
/// # Errors
///
/// Errors of tracefs.
pub fn page<'a>(file: &mut File, into: &'a mut [u8]) -> io::Result<&'a [u8]> {
    match file.read(into) {
        Ok(read) => Ok(&into[..read]),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(&[]),
        // A CPU that was never online has a file, but no ring.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NODEV) => Ok(&[]),
        Err(error) => Err(error),
    }
}

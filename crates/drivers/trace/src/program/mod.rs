//! Recording of a Linux program: zones in a mapped file, one for each thread.
//!
//! The file is complete after each record. The trace thus survives SIGKILL and every other end of
//! the program, but not a crash of the machine unless the file system does. `nostall trace report
//! FILE` reads it, even while the program runs.

mod clock;
mod executable;
mod slots;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::MmapRaw;
use rustix::fs::FallocateFlags;

use crate::layout::{LEAST_SLOTS, LINE, REGION_HEADER, SLOT, ZONE_HEADER};
use crate::{Entered, Filter, Options, Recorder, Region, clear_recorder, set_recorder};
use clock::ProgramClock;
use slots::{MOST, Threads};

/// Environment variable with the path of an empty file to record into. `nostall trace run` sets it.
pub const VARIABLE: &str = "NOSTALL_TRACE";

/// Parameters of a program's recording.
#[derive(Clone, Copy, Debug)]
pub struct ProgramOptions {
    /// Number of zones: the maximum number of concurrently recording threads, at most 1,024.
    pub threads: u32,
    /// Slots of 16 bytes in each zone, rounded up to a power of two. An entry and its exit take
    /// two.
    pub slots: u32,
    /// Length of the names area in bytes.
    pub names: u32,
    /// A thread's recording ends when its zone is full, and zones of ended threads are not reused.
    /// By default, the oldest records are overwritten.
    pub stop_when_full: bool,
    /// Number of earlier files that [`ProgramTrace::create`] keeps, as `NAME.1` (the newest),
    /// `NAME.2` and so on.
    pub kept: u32,
}

impl ProgramOptions {
    /// 64 threads with 16,384 slots each, and 64 KiB of names: 16.1 MiB. One earlier file is kept.
    pub const DEFAULT: Self = Self {
        threads: 64,
        slots: 1 << 14,
        names: 1 << 16,
        stop_when_full: false,
        kept: 1,
    };
}

impl Default for ProgramOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The recording of this process.
///
/// A process has one recording, until its end. `#[traced]`, [`trace_scope!`](crate::trace_scope)
/// and the layer for `tracing` record into it. A thread gets a zone with its first record. Once all
/// zones have been used, it gets that of the thread that ended longest ago, and overwrites its
/// records. The records of a thread without a zone are counted as lost.
///
/// A child process of `fork` does not record, because the zones belong to its parent. A child of
/// `_Fork`, `vfork` or the system call `clone` is not recognized. Until it calls `exec`, its records
/// go to the zone of the thread that made it.
///
/// The file must not be truncated while the program runs. Otherwise the next record ends the
/// program with SIGBUS, as in each program that maps a file. Linux can forbid truncation
/// (`F_SEAL_SHRINK`) only for memory without a path, which would not survive the program. Other
/// processes may rename or remove the file at any time.
///
/// ```no_run
/// use nostall_trace::{ProgramOptions, ProgramTrace, trace_scope};
///
/// let trace = ProgramTrace::create("/tmp/server.trace", &ProgramOptions::DEFAULT)?;
/// {
///     trace_scope!("request");
/// }
/// println!("recorded into {}", trace.path().display());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct ProgramTrace {
    path: PathBuf,
    /// Its lock shows other processes that the file is in use.
    _file: File,
}

static RECORDER: Recorder<'static, ProgramClock, Threads> = Recorder::new(ProgramClock, Threads);

#[cfg(feature = "stall-hook")]
static HOOK: &dyn nostall_io::StallHook = &RECORDER;

/// This process's recording.
static TRACE: OnceLock<ProgramTrace> = OnceLock::new();
/// Whether the recording has started or is starting. A failed start clears it.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Whether this process is a forked child of the recording one.
static FORKED: AtomicBool = AtomicBool::new(false);

impl ProgramTrace {
    /// Starts recording into a new file. An existing file with this path gets the name `NAME.1`, and
    /// older ones the following numbers. The trace of a killed run thus survives a restart.
    /// [`ProgramOptions::kept`] is the number of such files. A process that still records into one
    /// continues there.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](io::ErrorKind::AlreadyExists) if this process already records, or if the
    /// path is a directory, a symbolic link or a device.
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) for impossible options. Otherwise the file
    /// system's error, for example if there is no room for all zones.
    pub fn create(path: impl AsRef<Path>, options: &ProgramOptions) -> io::Result<&'static Self> {
        let path = path.as_ref();
        begin(|| {
            if fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) {
                keep_earlier(path, options.kept)?;
            }
            let mut open = OpenOptions::new();
            let file = open.read(true).write(true).create_new(true).open(path)?;
            record_into(file, path, options)
        })
    }

    /// Starts recording into the empty file that the environment variable [`VARIABLE`] names.
    /// Returns `None` if it is not set, or if the file is in use or not empty. The file then
    /// belongs to a parent whose environment this process inherited, or to this process.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`create`](Self::create), or the file system's error if the file does
    /// not exist.
    pub fn from_environment(options: &ProgramOptions) -> io::Result<Option<&'static Self>> {
        let Some(path) = std::env::var_os(VARIABLE) else {
            return Ok(None);
        };
        let path = Path::new(&path);
        let file = File::options().read(true).write(true).open(path)?;
        match file.try_lock() {
            Ok(()) if file.metadata()?.len() == 0 => {}
            Ok(()) | Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        begin(|| record_into(file, path, options)).map(Some)
    }

    /// Returns the path of the file as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of lost records: of threads without a zone, or in full zones.
    pub fn lost(&self) -> u64 {
        RECORDER.lost()
    }

    /// Stops recording, so that the last records stay, for example after a detected fault.
    ///
    /// In a forked child it does nothing, because the file belongs to the parent.
    pub fn freeze(&self) {
        if !FORKED.load(Ordering::Relaxed) {
            RECORDER.freeze();
        }
    }

    /// Records that the function at `address` was entered, for example from a compiler's hook or
    /// for a call through a pointer. The address is that of the function's first byte in memory.
    ///
    /// `nostall trace report` names it from the symbols in the program's file. Functions of shared
    /// objects are shown as addresses.
    ///
    /// ```no_run
    /// # use nostall_trace::ProgramTrace;
    /// fn run(handler: fn(), trace: &ProgramTrace) {
    ///     let entered = trace.enter(handler as usize);
    ///     handler();
    ///     trace.exit(entered);
    /// }
    /// ```
    #[inline]
    pub fn enter(&self, address: usize) -> Entered {
        RECORDER.enter(address as u64)
    }

    /// Records the exit of an entry; call it on the same thread.
    #[inline]
    pub fn exit(&self, entered: Entered) {
        RECORDER.exit(entered);
    }

    /// Gives the slots of this thread's interrupted records to later records. Call it after a jump
    /// out of a signal handler, such as `siglongjmp`. The handler may have interrupted a record,
    /// which then keeps up to three slots for good.
    ///
    /// None of the thread's interrupted records may continue after the call.
    pub fn forget(&self) {
        RECORDER.forget();
    }

    /// Sets the filter, which applies to later entries; `None` records everything.
    pub fn set_filter(&self, filter: Option<&'static Filter<'static>>) {
        RECORDER.set_filter(filter);
    }
}

/// Renames an existing file to `NAME.1`, and up to `kept` older ones to the following numbers.
fn keep_earlier(path: &Path, kept: u32) -> io::Result<()> {
    let numbered = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    // The first number without a file ends the series.
    let last = (1..kept).find(|&number| !numbered(number).exists());
    for number in (1..last.unwrap_or(kept)).rev() {
        fs::rename(numbered(number), numbered(number + 1))?;
    }
    match kept {
        0 => fs::remove_file(path),
        _ => fs::rename(path, numbered(1)),
    }
}

/// Starts this process's recording, if there is none.
fn begin(trace: impl FnOnce() -> io::Result<ProgramTrace>) -> io::Result<&'static ProgramTrace> {
    if BEGUN.swap(true, Ordering::AcqRel) {
        let text = "this process records already: there is one trace for a process";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    let trace = trace().inspect_err(|_| BEGUN.store(false, Ordering::Release))?;
    Ok(TRACE.get_or_init(|| trace))
}

fn record_into(file: File, path: &Path, options: &ProgramOptions) -> io::Result<ProgramTrace> {
    // The lock shows children with the inherited environment variable that the file is in use.
    _ = file.try_lock();
    clock::choose();
    let region = map(&file, options)?;
    slots::open(region.zones(), options.stop_when_full, claimed);
    RECORDER.start(region);
    set_recorder(&RECORDER);
    #[cfg(feature = "stall-hook")]
    nostall_io::set_stall_hook(&HOOK);
    // SAFETY: the handler only stores single words, which is allowed after a fork.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    Ok(ProgramTrace {
        path: path.to_owned(),
        _file: file,
    })
}

/// Stops recording in a child process, including open calls, scopes and stalls.
unsafe extern "C" fn forked() {
    FORKED.store(true, Ordering::Relaxed);
    clear_recorder();
    RECORDER.stop();
    slots::leave();
}

/// Initialises the zone that this thread got. It may contain the records of an ended thread, which
/// must not count as this one's.
fn claimed(zone: usize) {
    let id = rustix::thread::gettid().as_raw_nonzero().get() as u64;
    let name = rustix::thread::name().unwrap_or_default();
    let name = name.to_str().unwrap_or_default();
    RECORDER.set_owner(zone, id, name);
    // A thread that ended inside a signal handler, with `pthread_exit`, left its record incomplete.
    RECORDER.forget();
    RECORDER.set_depth(0);
    RECORDER.task(id, name);
}

/// Maps a file of the right length, and writes the headers.
fn map(file: &File, options: &ProgramOptions) -> io::Result<Region<'static>> {
    let invalid = |text| io::Error::new(io::ErrorKind::InvalidInput, text);
    let slots = options.slots.max(LEAST_SLOTS).checked_next_power_of_two();
    let names = options.names.checked_next_multiple_of(LINE as u32);
    let (Some(slots), Some(names), 1..=MOST) = (slots, names, options.threads as usize) else {
        return Err(invalid(
            "a trace has zones for 1 to 1,024 threads of at most 2^31 slots, and at most 4 GiB of names",
        ));
    };
    let zone = ZONE_HEADER as u64 + u64::from(slots) * SLOT as u64;
    let room = REGION_HEADER as u64 + u64::from(names) + zone * u64::from(options.threads);
    let len = usize::try_from(room).map_err(|_| invalid("the trace is larger than the memory"))?;
    // Reserve disk space for all zones: a write to the mapping cannot report a full disk.
    rustix::fs::fallocate(file, FallocateFlags::empty(), 0, room)?;
    let memory = mem::ManuallyDrop::new(MmapRaw::map_raw(file)?);
    let base = NonNull::new(memory.as_mut_ptr()).ok_or(io::ErrorKind::OutOfMemory)?;
    let (ticks_per_second, epoch) = clock::calibrate(&ProgramClock);
    let executable = executable::running();
    let path = std::env::current_exe().unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let anchor = ProgramTrace::path as fn(&ProgramTrace) -> &Path as usize as u64;
    let options = Options {
        zones: options.threads,
        names,
        stop_when_full: options.stop_when_full,
        zones_of_threads: true,
        ticks_per_second,
        epoch: Some(epoch),
        anchor: Some((anchor, anchor - executable.bias)),
        boot: u64::from(std::process::id()) << 32 ^ epoch.1,
        build_id: &executable.build_id,
        program: &name,
    };
    // SAFETY: the mapping has `len` bytes, is aligned to pages, and is permanent. Only this process
    // writes to it: the file is new, or it is locked and was empty.
    let region = unsafe { Region::format_at(base, len, &options) }.map_err(io::Error::other)?;
    region.set_file(path.as_os_str().as_bytes());
    Ok(region)
}

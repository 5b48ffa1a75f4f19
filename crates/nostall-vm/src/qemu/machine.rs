//! One run of a guest, watched.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::RawFd;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::Error;
use crate::guest::{self, Ending, FAILURE, Guest, Limits, QEMU_BYTES, Ran, SUCCESS};
use crate::process::{MemoryFile, Running, name, spawn};
use crate::uart::{Experiment, Outcome};

/// How often a run is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// How long QEMU has to tell its version.
const VERSION: Duration = Duration::from_secs(10);

/// Bytes of QEMU's own words that are read for the last line.
const LAST_WORDS: u64 = 64 << 10;

/// A machine that QEMU emulates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Machine {
    /// A PC of 2009: Intel's Q35 chipset, PCI Express.
    #[default]
    Q35,
}

impl Machine {
    /// QEMU's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Q35 => "q35",
        }
    }

    const fn program(self) -> &'static str {
        match self {
            Self::Q35 => "qemu-system-x86_64",
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A QEMU that can be run.
#[derive(Clone, Debug)]
pub struct Qemu {
    machine: Machine,
    version: String,
}

impl Qemu {
    /// The system's QEMU for `machine`.
    ///
    /// # Errors
    ///
    /// [`Error::NotInstalled`], or [`Error::Qemu`] or [`Error::NoVersion`] if it
    /// does not even tell its version.
    pub fn find(machine: Machine) -> Result<Self, Error> {
        let version = version(machine.program(), VERSION)?;
        Ok(Self { machine, version })
    }

    /// Its version, as it says: `7.2.22`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The machine it emulates.
    pub const fn machine(&self) -> Machine {
        self.machine
    }

    /// Runs `guest` to its end.
    ///
    /// `progress` is told now and then how many bytes have come over the serial
    /// line so far.
    ///
    /// # Errors
    ///
    /// [`Error`]: whatever kept the guest from doing all of its work. QEMU has
    /// ended by then.
    pub fn run(
        &self,
        guest: &Guest<'_>,
        limits: &Limits,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Ran, Error> {
        self.run_to(Ending::Done, guest, limits, progress)
    }

    /// Runs `guest` until it panics, as it is told to by its work; the last of
    /// its reports says so.
    ///
    /// # Errors
    ///
    /// [`Error`]: whatever kept it from getting there; [`Error::Unbroken`] if it
    /// did all of its work instead.
    pub fn run_to_panic(
        &self,
        guest: &Guest<'_>,
        limits: &Limits,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Ran, Error> {
        self.run_to(Ending::Panic, guest, limits, progress)
    }

    fn run_to(
        &self,
        ending: Ending,
        guest: &Guest<'_>,
        limits: &Limits,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Ran, Error> {
        if daemonizes(guest.qemu_args) {
            return Err(Error::Daemonize);
        }
        let files = Files::new(guest)?;
        let mut for_child = files.for_child().to_vec();
        for_child.extend(guest.ram.map(|ram| (&ram.file, PERSISTENT)));
        let qemu = spawn(self.command(guest, &files)?, &for_child)?;
        let run = Run {
            qemu,
            files,
            limits,
            ending,
            start: Instant::now(),
        };
        run.watch(progress)
    }

    /// Runs the experiment of sending a text in `guest`, whose work and input
    /// are then those of the experiment.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn uart(
        &self,
        guest: &Guest<'_>,
        experiment: &Experiment<'_>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(Outcome, Ran), Error> {
        let work = experiment.work();
        let guest = experiment.guest(&work, guest);
        let mut ran = self.run(&guest, &experiment.limits(), progress)?;
        Ok((experiment.outcome(&mut ran)?, ran))
    }

    fn command(&self, guest: &Guest<'_>, files: &Files) -> io::Result<Command> {
        let words = guest.words();
        let ram = guest.mebibytes();
        let file = |id, number| format!("file,id={id},path={}", name(number));

        let mut machine = self.machine.name().to_owned();
        if guest.ram.is_some() {
            machine += ",memory-backend=ram";
        }
        let mut command = Command::new(self.machine.program());
        command
            .args(["-machine", &machine])
            .args(["-smp", &guest.cpus.to_string()])
            .args(["-m", &format!("{ram}M")])
            // Nothing but what is named here, and no restart.
            .args(["-nodefaults", "-no-user-config", "-no-reboot"])
            .args(["-display", "none"])
            .args(["-kernel", &name(KERNEL)])
            .args(["-append", &words.join(" ")])
            .args(["-chardev", &file("serial", SERIAL)])
            .args(["-device", "isa-serial,chardev=serial,iobase=0x3f8,irq=4"])
            .args(["-chardev", &file("reports", REPORTS)])
            .args(["-device", "isa-debugcon,chardev=reports,iobase=0xe9"])
            .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
        if guest.ram.is_some() {
            let file = format!("share=on,size={ram}M,mem-path={}", name(PERSISTENT));
            command.args(["-object", &format!("memory-backend-file,id=ram,{file}")]);
        }
        if !guest.input.is_empty() {
            command.args(["-initrd", &name(INPUT)]);
        }
        if !names_accelerator(guest.qemu_args) {
            command.args(["-accel", "tcg"]);
        }
        command
            .args(guest.qemu_args)
            .stdin(Stdio::null())
            .stdout(files.said.to_stdio()?)
            .stderr(files.said.to_stdio()?);
        Ok(command)
    }
}

/// The version that `program` tells within `limit`.
fn version(program: &'static str, limit: Duration) -> Result<String, Error> {
    let said = MemoryFile::new(&[])?;
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(said.to_stdio()?)
        .stderr(said.to_stdio()?);
    let start = Instant::now();
    let mut qemu = spawn(command, &[]).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::NotInstalled(program),
        _ => error.into(),
    })?;
    let status = loop {
        if let Some(status) = qemu.ended()? {
            break status;
        }
        if said.len()? > QEMU_BYTES {
            return Err(Error::QemuFlood(QEMU_BYTES));
        }
        if start.elapsed() > limit {
            return Err(Error::NoVersion(program, limit));
        }
        sleep(LOOK);
    };
    if !status.success() {
        let said = last_words(&said)?;
        return Err(Error::Qemu { status, said });
    }
    // "QEMU emulator version 7.2.22 (Debian ...)", perhaps after a warning.
    let said = said.read_last(LAST_WORDS)?;
    let said = String::from_utf8_lossy(&said);
    let mut words = said.split_whitespace();
    words.find(|&word| word == "version");
    Ok(words.next().unwrap_or("?").to_owned())
}

/// QEMU takes an option with one dash or two.
fn is_option(arg: &OsStr, names: &[&str]) -> bool {
    let arg = arg.to_str().and_then(|arg| arg.strip_prefix('-'));
    arg.is_some_and(|arg| names.contains(&arg.strip_prefix('-').unwrap_or(arg)))
}

fn daemonizes(args: &[OsString]) -> bool {
    args.iter().any(|arg| is_option(arg, &["daemonize"]))
}

fn names_accelerator(args: &[OsString]) -> bool {
    let by_itself = |arg: &OsString| is_option(arg, &["accel", "enable-kvm"]);
    // "-machine q35,accel=kvm"
    let by_machine = |pair: &[OsString]| {
        is_option(&pair[0], &["machine", "M"])
            && pair[1]
                .to_string_lossy()
                .split(',')
                .any(|property| property.starts_with("accel="))
    };
    args.iter().any(by_itself) || args.windows(2).any(by_machine)
}

// The numbers under which QEMU has the files.
const KERNEL: RawFd = 10;
const INPUT: RawFd = 11;
const SERIAL: RawFd = 12;
const REPORTS: RawFd = 13;
const PERSISTENT: RawFd = 14;

/// All that goes in and comes out. Files, and not pipes: a full pipe would slow
/// the guest down, or make QEMU drop bytes.
struct Files {
    kernel: MemoryFile,
    input: MemoryFile,
    serial: MemoryFile,
    reports: MemoryFile,
    /// QEMU's own words.
    said: MemoryFile,
}

impl Files {
    fn new(guest: &Guest<'_>) -> io::Result<Self> {
        Ok(Self {
            kernel: MemoryFile::new(guest.kernel)?,
            input: MemoryFile::new(guest.input)?,
            serial: MemoryFile::new(&[])?,
            reports: MemoryFile::new(&[])?,
            said: MemoryFile::new(&[])?,
        })
    }

    fn for_child(&self) -> [(&MemoryFile, RawFd); 4] {
        [
            (&self.kernel, KERNEL),
            (&self.input, INPUT),
            (&self.serial, SERIAL),
            (&self.reports, REPORTS),
        ]
    }
}

struct Run<'a> {
    qemu: Running,
    files: Files,
    limits: &'a Limits,
    ending: Ending,
    start: Instant,
}

impl Run<'_> {
    /// Until it ends, or has to.
    fn watch(mut self, progress: &mut dyn FnMut(u64)) -> Result<Ran, Error> {
        let mut first_report = None;
        let mut seen = (0, 0);
        let mut changed = self.start;
        loop {
            // In this order: what came before the end is seen.
            let ended = self.qemu.ended()?;
            let now = (self.files.serial.len()?, self.files.reports.len()?);
            if now != seen {
                (seen, changed) = (now, Instant::now());
                progress(now.0);
            }
            if now.1 > 0 && first_report.is_none() {
                first_report = Some(self.start.elapsed());
            }
            if let Some(status) = ended {
                return self.judge(status, first_report);
            }
            self.check_limits(now, changed, first_report.is_some())?;
            sleep(LOOK);
        }
    }

    fn check_limits(
        &self,
        (serial, reports): (u64, u64),
        changed: Instant,
        started: bool,
    ) -> Result<(), Error> {
        self.limits.check_bytes((serial, reports))?;
        if self.files.said.len()? > self.limits.qemu_bytes {
            return Err(Error::QemuFlood(self.limits.qemu_bytes));
        }
        self.limits.check_time(self.start, changed, started)
    }

    /// What a run came to that ended by itself.
    fn judge(&self, status: ExitStatus, first_report: Option<Duration>) -> Result<Ran, Error> {
        let reports = guest::reports(&self.files.reports.read_from(0, self.limits.report_bytes)?)?;
        match (status.code(), first_report) {
            (Some(code @ (SUCCESS | FAILURE)), first_report) => {
                self.ending.judge(code, &reports)?;
                let serial = self
                    .files
                    .serial
                    .read_from(0, self.limits.serial_bytes + 1)?;
                if serial.len() as u64 > self.limits.serial_bytes {
                    return Err(Error::Flood(self.limits.serial_bytes));
                }
                Ok(Ran {
                    reports,
                    serial,
                    first_report: first_report.unwrap_or_default(),
                    exits: None,
                })
            }
            // Without either, QEMU may only have been asked for help.
            (Some(0), first_report) if first_report.is_some() || self.files.said.len()? == 0 => {
                Err(Error::Reset)
            }
            _ => Err(Error::Qemu {
                status,
                said: last_words(&self.files.said)?,
            }),
        }
    }
}

/// The last line that is not empty.
fn last_words(said: &MemoryFile) -> io::Result<String> {
    let said = said.read_last(LAST_WORDS)?;
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    Ok(last.unwrap_or("it said nothing").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(args: &[&str]) -> bool {
        let args: Vec<_> = args.iter().map(OsString::from).collect();
        names_accelerator(&args)
    }

    #[test]
    fn an_accelerator_is_seen_wherever_it_is_named() {
        for args in [
            &["-accel", "kvm"][..],
            &["--accel", "kvm"],
            &["-enable-kvm"],
            &["--enable-kvm"],
            &["-machine", "q35,accel=kvm:tcg"],
            &["-S", "-M", "accel=kvm"],
        ] {
            assert!(names(args), "{args:?}");
        }
        for args in [&["-machine", "q35"][..], &["-name", "accel=kvm"], &["-M"]] {
            assert!(!names(args), "{args:?}");
        }
    }

    #[test]
    fn the_last_words_are_the_last_of_a_long_speech() {
        let mut said = vec![b'x'; 2 * LAST_WORDS as usize];
        said.extend(b"\nthe reason\n\n");
        let said = MemoryFile::new(&said).unwrap();
        assert_eq!(last_words(&said).unwrap(), "the reason");
    }

    #[test]
    fn a_program_that_does_not_tell_its_version_is_not_waited_for() {
        let dir = std::env::temp_dir().join(format!("nostall-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let program = dir.join("qemu");
        fs::write(&program, "#!/bin/sh\nexec sleep 600\n").unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        let program = program.to_str().unwrap().to_owned().leak();
        let error = version(program, Duration::from_millis(50)).unwrap_err();
        fs::remove_dir_all(&dir).unwrap();
        assert!(matches!(error, Error::NoVersion(..)), "{error}");
    }
}

//! One boot of a Linux in QEMU.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nostall_vm::process::{MemoryFile, Running, name, spawn};

use super::counts;
use super::linux::Build;
use super::report;
use crate::escape::escape;

/// Limit of one boot. The longest takes 20 s, and several times that on a busy host.
const LIMIT: Duration = Duration::from_secs(180);

/// Interval of looks at the running machine.
const LOOK: Duration = Duration::from_millis(5);

/// Largest output of the console that is kept.
const CONSOLE: u64 = 16 << 20;

/// Lines of the console's end that an error shows.
const LAST_LINES: usize = 5;

// File descriptors of QEMU.
const REPORTS: i32 = 3;
const SERIAL: i32 = 4;
const TRACE: i32 = 5;

/// Files of one boot. They lie in memory and end with this process.
struct Files {
    reports: MemoryFile,
    serial: MemoryFile,
    trace: MemoryFile,
    said: MemoryFile,
}

/// Output of one boot.
pub struct Output {
    /// The report of Linux.
    pub report: Vec<u8>,
    /// QEMU's trace, empty if it was not asked for.
    pub trace: Vec<u8>,
}

/// Boots the build with these words on its command line, on the same machine as nostall's
/// kernel. `is_traced` lets QEMU record device accesses.
///
/// # Errors
///
/// A text with the reason and the end of the console's output.
pub fn boot(build: &Build, words: &str, cpus: u16, is_traced: bool) -> Result<Output, String> {
    boot_within(LIMIT, build, words, cpus, is_traced)
}

fn boot_within(
    limit: Duration,
    build: &Build,
    words: &str,
    cpus: u16,
    is_traced: bool,
) -> Result<Output, String> {
    let file = || MemoryFile::new(&[]).map_err(|error| error.to_string());
    let files = Files {
        reports: file()?,
        serial: file()?,
        trace: file()?,
        said: file()?,
    };
    let ended = files.run(limit, build, words, cpus, is_traced);
    let read = |file: &MemoryFile, most| file.read_from(0, most).map_err(|error| error.to_string());
    match ended {
        Ok(()) => Ok(Output {
            report: read(&files.reports, report::LONGEST)?,
            trace: read(&files.trace, counts::LONGEST)?,
        }),
        Err(why) => Err(files.with_last_words(&why)),
    }
}

impl Files {
    fn run(
        &self,
        limit: Duration,
        build: &Build,
        words: &str,
        cpus: u16,
        is_traced: bool,
    ) -> Result<(), String> {
        let start = Instant::now();
        let qemu = self
            .start(build, words, cpus, is_traced)
            .map_err(|error| format!("QEMU does not start: {error}"))?;
        loop {
            match qemu.ended().map_err(|error| error.to_string())? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("QEMU ended with {status}")),
                None => {}
            }
            self.check()?;
            if start.elapsed() > limit {
                return Err(format!("it has not ended within {} s", limit.as_secs()));
            }
            sleep(LOOK);
        }
    }

    fn start(
        &self,
        build: &Build,
        words: &str,
        cpus: u16,
        is_traced: bool,
    ) -> std::io::Result<Running> {
        let port = |id, number| format!("file,id={id},path={}", name(number));
        let mut command = Command::new("qemu-system-x86_64");
        command
            .args(["-machine", "q35", "-accel", "tcg", "-m", "256M"])
            .args(["-smp", &cpus.to_string()])
            .args(["-nodefaults", "-no-user-config", "-no-reboot"])
            .args(["-display", "none"])
            .arg("-kernel")
            .arg(&build.kernel)
            .arg("-initrd")
            .arg(&build.initramfs)
            .args(["-append", &command_line(words)])
            .args(["-chardev", &port("serial", SERIAL)])
            .args(["-device", "isa-serial,chardev=serial,iobase=0x3f8,irq=4"])
            .args(["-chardev", &port("reports", REPORTS)])
            .args(["-device", "isa-debugcon,chardev=reports,iobase=0xe9"])
            .stdin(Stdio::null())
            .stdout(self.said.to_stdio()?)
            .stderr(self.said.to_stdio()?);
        if is_traced {
            command.args(["-D", &name(TRACE)]);
            for event in counts::EVENTS {
                command.args(["-trace", event]);
            }
        }
        let files = [
            (&self.reports, REPORTS),
            (&self.serial, SERIAL),
            (&self.trace, TRACE),
        ];
        spawn(command, &files)
    }

    /// Refuses a machine that floods one of its files.
    fn check(&self) -> Result<(), String> {
        for (what, file, most) in [
            ("reports", &self.reports, report::LONGEST),
            ("console", &self.serial, CONSOLE),
            ("trace", &self.trace, counts::LONGEST),
            ("QEMU's messages", &self.said, report::LONGEST),
        ] {
            if file.len().map_err(|error| error.to_string())? > most {
                return Err(format!("{what}: more than {most} bytes"));
            }
        }
        Ok(())
    }

    /// Adds the end of QEMU's and the console's output to a reason.
    fn with_last_words(&self, why: &str) -> String {
        let mut lines = Vec::new();
        for file in [&self.said, &self.serial] {
            let end = file.read_last(4096).unwrap_or_default();
            let end = String::from_utf8_lossy(&end).replace('\r', "");
            let shown = end.lines().filter(|line| !line.trim().is_empty());
            lines.extend(shown.map(|line| escape(line.as_bytes()).into_owned()));
        }
        let last = lines.split_off(lines.len().saturating_sub(LAST_LINES));
        match last[..] {
            [] => format!("{why}; its console has no output"),
            _ => format!("{why}; its console ends with\n    {}", last.join("\n    ")),
        }
    }
}

/// Returns the command line of Linux. `panic=-1` ends the machine on a panic. The timer's check
/// fails on a busy host. The reserved memory is that of ramoops (`linux/init/init.c`).
fn command_line(words: &str) -> String {
    format!("console=ttyS0,115200 quiet no_timer_check panic=-1 memmap=4M$0xc000000 {words}")
}

//! One boot of a Linux in QEMU.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nostall_vm::process::{MemoryFile, Running, name, spawn};

use super::counts;
use super::linux::Build;
use super::report::{self, Measured, Report};
use crate::escape::escape;

/// Limit of one boot. The longest takes 20 s, and several times that on a busy host.
const LIMIT: Duration = Duration::from_secs(180);

/// Interval of checks of the running machine.
const LOOK: Duration = Duration::from_millis(5);

/// Options of a QEMU whose instructions take a nanosecond each.
pub const BY_INSTRUCTIONS: [&str; 2] = ["-icount", "shift=0,sleep=off"];

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

/// Recording of QEMU beside running the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Nothing: times are measured.
    Times,
    /// It records device accesses, which are counted.
    Accesses,
    /// It counts instructions, each of which takes a nanosecond: times become counts.
    Instructions,
}

/// Boots the build with these words on its command line, on the same machine as nostall's kernel.
/// Returns its report with the watched values.
///
/// # Errors
///
/// A text with the reason and the end of the console's output.
pub fn boot(build: &Build, words: &str, cpus: u16, watch: Watch) -> Result<Report, String> {
    boot_within(LIMIT, build, words, cpus, watch)
}

fn boot_within(
    limit: Duration,
    build: &Build,
    words: &str,
    cpus: u16,
    watch: Watch,
) -> Result<Report, String> {
    let file = || MemoryFile::new(&[]).map_err(|error| error.to_string());
    let files = Files {
        reports: file()?,
        serial: file()?,
        trace: file()?,
        said: file()?,
    };
    let ended = files.run(limit, build, words, cpus, watch);
    let measured = ended.and_then(|()| files.measured(watch));
    measured.map_err(|why| files.with_last_words(&why))
}

impl Files {
    fn run(
        &self,
        limit: Duration,
        build: &Build,
        words: &str,
        cpus: u16,
        watch: Watch,
    ) -> Result<(), String> {
        let start = Instant::now();
        let qemu = self
            .start(build, words, cpus, watch)
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
        watch: Watch,
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
        if watch == Watch::Accesses {
            command.args(["-D", &name(TRACE)]);
            for event in counts::EVENTS {
                command.args(["-trace", event]);
            }
        }
        if watch == Watch::Instructions {
            command.args(BY_INSTRUCTIONS);
        }
        let files = [
            (&self.reports, REPORTS),
            (&self.serial, SERIAL),
            (&self.trace, TRACE),
        ];
        spawn(command, &files)
    }

    /// Returns the report of a machine that has ended, with the values that are watched. Part of
    /// a file that is too long is no measurement.
    fn measured(&self, watch: Watch) -> Result<Report, String> {
        self.check()?;
        let read = |file: &MemoryFile, most| {
            let content = file.read_from(0, most);
            content.map_err(|error| error.to_string())
        };
        let mut report = report::parse(&read(&self.reports, report::LONGEST)?)?;
        if watch == Watch::Accesses {
            report.measured = counts::count(&read(&self.trace, counts::LONGEST)?);
        }
        if watch == Watch::Instructions {
            report
                .measured
                .iter_mut()
                .for_each(Measured::count_instructions);
        }
        Ok(report)
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

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_machine_that_has_flooded_a_file_before_its_end_has_no_measurements() {
        let flooded = |more: usize| {
            let mut reports = b"nostall-peer 1 6.1.192\ndone\n".to_vec();
            reports.resize(reports.len() + more, b'.');
            let file = |bytes| MemoryFile::new(bytes).unwrap();
            let files = Files {
                reports: file(&reports),
                serial: file(&[]),
                trace: file(&[]),
                said: file(&[]),
            };
            files.measured(Watch::Times)
        };
        assert_eq!(flooded(10).unwrap().release, "6.1.192");
        let refused = flooded(report::LONGEST as usize).unwrap_err();
        assert_eq!(refused, "reports: more than 1048576 bytes");
    }

    /// Returns a kernel that sends a line over the serial port, and then executes `end`.
    ///
    /// QEMU loads it as a multiboot image (Multiboot Specification 0.6.96, 3.1.3): the header has
    /// the addresses.
    fn kernel(end: &[u8]) -> Vec<u8> {
        const AT: u32 = 0x10_0000;
        const MAGIC: u32 = 0x1bad_b002;
        const HAS_ADDRESSES: u32 = 1 << 16;
        const TEXT: &[u8] = b"the last words\n\0";
        let code = AT + 32;
        let text = code + 18 + end.len() as u32;
        let header = [
            MAGIC,
            HAS_ADDRESSES,
            0_u32.wrapping_sub(MAGIC).wrapping_sub(HAS_ADDRESSES),
            AT, // of the header
            AT, // load from
            0,  // all of the file
            0,  // no bss
            code,
        ];
        let mut kernel: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
        kernel.push(0xbe); // mov esi, text
        kernel.extend(text.to_le_bytes());
        kernel.extend([0x66, 0xba, 0xf8, 0x03]); // mov dx, 0x3f8
        kernel.extend([0xac, 0x84, 0xc0, 0x74, 0x03]); // again: lodsb; test al, al; jz end
        kernel.extend([0xee, 0xeb, 0xf8, 0x90]); // out dx, al; jmp again; nop
        kernel.extend(end);
        kernel.extend(TEXT);
        kernel
    }

    /// Boots such a kernel, or returns `None` where there is no QEMU.
    fn boot(end: &[u8], limit: u64) -> Option<String> {
        let found = Command::new("qemu-system-x86_64").arg("--version").output();
        found.ok()?;
        let dir = TempDir::new().unwrap();
        let build = Build {
            kernel: dir.path().join("vmlinuz"),
            initramfs: dir.path().join("initramfs"),
        };
        fs::write(&build.kernel, kernel(end)).unwrap();
        fs::write(&build.initramfs, "nothing").unwrap();
        let limit = Duration::from_secs(limit);
        boot_within(limit, &build, "", 1, Watch::Times).err()
    }

    #[test]
    fn a_peer_that_hangs_is_given_up_and_its_last_words_are_shown() {
        // jmp to itself
        if let Some(error) = boot(&[0xeb, 0xfe], 15) {
            let expected = "it has not ended within 15 s; its console ends with\n";
            assert!(error.starts_with(expected), "{error}");
            assert!(error.contains("the last words"), "{error}");
        }
    }

    #[test]
    fn a_peer_that_ends_without_a_report_is_refused_with_its_last_words() {
        // lidt [0]; int3: without a table of interrupts the machine resets, and ends.
        if let Some(error) = boot(&[0x0f, 0x01, 0x1d, 0, 0, 0, 0, 0xcc], 120) {
            let expected = "it ended without a report; its console ends with\n";
            assert!(error.starts_with(expected), "{error}");
            assert!(error.contains("the last words"), "{error}");
        }
    }
}

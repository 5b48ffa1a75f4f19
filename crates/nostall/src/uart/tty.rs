//! Linux's information about a serial port, read without touching the port.
//!
//! The rate is not available this way. To read it, the tty must be opened, and opening a tty that
//! no process has open writes to its port.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

/// Folders in which Linux reports.
pub struct Linux {
    sys: PathBuf,
    proc: PathBuf,
}

/// A serial port of Linux's that is reached by I/O ports.
#[derive(Debug, PartialEq, Eq)]
pub struct Tty {
    pub name: String,
    pub port: u16,
    /// In hertz; `None` if Linux does not say.
    pub clock: Option<u32>,
}

impl Linux {
    /// Returns this machine's sysfs and procfs.
    pub fn here() -> Self {
        Self {
            sys: "/sys".into(),
            proc: "/proc".into(),
        }
    }

    /// The tty of that name, with `/dev/` or without.
    pub fn tty(&self, name: &str) -> Result<Tty> {
        let name = name.strip_prefix("/dev/").unwrap_or(name);
        let dir = self.sys.join("class/tty").join(name);
        ensure!(
            !name.is_empty() && !name.contains('/') && !name.starts_with('.') && dir.exists(),
            "there is no tty {name}: see /sys/class/tty"
        );
        let Some(kind) = attribute(&dir, "type")? else {
            bail!("{name} is not a serial port of the 16550's family");
        };
        ensure!(kind != 0, "Linux has found no port behind {name}");
        let port = attribute(&dir, "port")?.unwrap_or(0);
        let by_ports = attribute(&dir, "io_type")?.unwrap_or(0) == 0;
        ensure!(
            by_ports && port != 0,
            "{name} is not reached by I/O ports but by memory, which /dev/port cannot"
        );
        Ok(Tty {
            name: name.to_owned(),
            port: port
                .try_into()
                .with_context(|| format!("{name}: port {port:#x}"))?,
            clock: attribute(&dir, "uartclk")?
                .and_then(|clock| clock.try_into().ok())
                .filter(|&clock| clock != 0),
        })
    }

    /// Returns the tty that has `port`, if Linux has one.
    pub fn tty_at(&self, port: u16) -> Option<Tty> {
        let entries = fs::read_dir(self.sys.join("class/tty")).ok()?;
        entries
            .flatten()
            .filter_map(|entry| self.tty(entry.file_name().to_str()?).ok())
            .find(|tty| tty.port == port)
    }

    /// Returns its user, as far as the caller may read that.
    pub fn user(&self, tty: &Tty) -> Option<String> {
        let consoles = fs::read_to_string(self.proc.join("consoles")).unwrap_or_default();
        let mut names = consoles.lines().filter_map(|l| l.split_whitespace().next());
        if names.any(|name| name == tty.name) {
            return Some("Linux's console".to_owned());
        }
        let device = Path::new("/dev").join(&tty.name);
        let processes = fs::read_dir(&self.proc).ok()?;
        processes.flatten().find_map(|process| {
            let id: u32 = process.file_name().to_str()?.parse().ok()?;
            let mut files = fs::read_dir(process.path().join("fd")).ok()?.flatten();
            let has = files.any(|file| fs::read_link(file.path()).is_ok_and(|to| to == device));
            has.then(|| format!("process {id}"))
        })
    }

    /// The rate that the kernel's command line gives it as a console.
    pub fn console_rate(&self, tty: &Tty) -> Option<u32> {
        let line = fs::read_to_string(self.proc.join("cmdline")).ok()?;
        let mut rates = line.split_whitespace().filter_map(|word| {
            let options = word.strip_prefix("console=")?.strip_prefix(&tty.name)?;
            let digits = options.strip_prefix(',')?;
            let end = digits.find(|c: char| !c.is_ascii_digit());
            digits[..end.unwrap_or(digits.len())].parse().ok()
        });
        rates.rfind(|&rate| rate != 0)
    }
}

/// A number of a tty's, decimal or after 0x; `None` if it has no such thing.
fn attribute(dir: &Path, name: &str) -> Result<Option<u64>> {
    let tty = dir.file_name().unwrap_or_default().display();
    let text = match fs::read_to_string(dir.join(name)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| format!("reading {tty}'s {name}: run it as root"))?,
    };
    let text = text.trim();
    let number = number(text).with_context(|| format!("{tty}'s {name} is {text:?}"))?;
    Ok(Some(number))
}

/// A number, decimal or after 0x.
pub fn number(text: &str) -> Result<u64, std::num::ParseIntError> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    fn linux() -> (TempDir, Linux) {
        let dir = TempDir::new().unwrap();
        let (sys, proc) = (dir.path().join("sys"), dir.path().join("proc"));
        fs::create_dir_all(sys.join("class/tty/tty0")).unwrap();
        fs::create_dir_all(&proc).unwrap();
        let linux = Linux { sys, proc };
        add(&linux, "ttyS0", ["0x3F8", "4", "0", "1843200"]);
        (dir, linux)
    }

    fn add(linux: &Linux, name: &str, values: [&str; 4]) {
        let dir = linux.sys.join("class/tty").join(name);
        fs::create_dir_all(&dir).unwrap();
        for (file, value) in ["port", "type", "io_type", "uartclk"].iter().zip(values) {
            fs::write(dir.join(file), format!("{value}\n")).unwrap();
        }
    }

    #[test]
    fn a_tty_gives_its_port_and_a_port_its_tty() {
        let (_dir, linux) = linux();
        let tty = linux.tty("/dev/ttyS0").unwrap();
        assert_eq!((tty.port, tty.clock), (0x3f8, Some(1_843_200)));
        assert_eq!(linux.tty_at(0x3f8), Some(tty));
        assert_eq!(linux.tty_at(0x2f8), None);
    }

    #[test]
    fn a_tty_that_is_no_16550_by_ports_says_what_it_is() {
        let (_dir, linux) = linux();
        add(&linux, "ttyS1", ["0x2F8", "0", "0", "0"]);
        add(&linux, "ttyS2", ["0x0", "4", "2", "48000000"]);
        for (name, says) in [
            ("ttyS9", "there is no tty"),
            ("../ttyS0", "there is no tty"),
            ("", "there is no tty"),
            ("tty0", "is not a serial port"),
            ("ttyS1", "no port behind"),
            ("ttyS2", "by memory"),
        ] {
            let error = linux.tty(name).unwrap_err().to_string();
            assert!(error.contains(says), "{name}: {error}");
        }
    }

    #[test]
    fn a_console_and_an_open_tty_are_used() {
        let (_dir, linux) = linux();
        let tty = linux.tty("ttyS0").unwrap();
        assert_eq!(linux.user(&tty), None);
        let files = linux.proc.join("42/fd");
        fs::create_dir_all(&files).unwrap();
        symlink("/dev/ttyS01", files.join("0")).unwrap();
        assert_eq!(linux.user(&tty), None);
        symlink("/dev/ttyS0", files.join("1")).unwrap();
        assert_eq!(linux.user(&tty).as_deref(), Some("process 42"));
        let line = "ttyS0                -W- (EC  p a)    4:64\n";
        fs::write(linux.proc.join("consoles"), line).unwrap();
        assert_eq!(linux.user(&tty).as_deref(), Some("Linux's console"));
    }

    #[test]
    fn the_last_console_argument_with_a_rate_counts() {
        let (_dir, linux) = linux();
        let tty = linux.tty("ttyS0").unwrap();
        assert_eq!(linux.console_rate(&tty), None);
        for (line, rate) in [
            ("console=ttyS0", None),
            ("console=ttyS01,9600", None),
            ("console=ttyS0,115200n8 quiet", Some(115_200)),
            ("console=ttyS0,9600 console=ttyS0,19200", Some(19_200)),
            ("console=ttyS0,n8 console=ttyS0,0", None),
        ] {
            fs::write(linux.proc.join("cmdline"), line).unwrap();
            assert_eq!(linux.console_rate(&tty), rate, "{line}");
        }
    }
}

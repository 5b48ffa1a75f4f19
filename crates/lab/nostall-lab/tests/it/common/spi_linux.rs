//! Debian's Linux for riscv64, in QEMU, with our programs in it.

use std::io::{self, Cursor, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::common::pauses::pause_until;
use cpio::newc::ModeFileType;
use cpio::{NewcBuilder, write_cpio};
use nostall_vm::process::{MemoryFile, name, spawn};

/// The folder that `make spi-linux` fills.
const PEER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/spi-linux-peer");

const TARGET: &str = "riscv64gc-unknown-linux-gnu";
const LINKER: &str = "riscv64-linux-gnu-gcc";
const QEMU: &str = "qemu-system-riscv64";

/// The guest's last line.
const END: &str = "== the end";

// File descriptors of the child.
const INITRAMFS: i32 = 3;
const CONSOLE: i32 = 4;

/// Linux, and the programs for it.
pub struct Guest {
    command: PathBuf,
    controller: PathBuf,
}

/// Returns Linux. Without its requirements the test prints that it is skipped, and fails if
/// `NOSTALL_REQUIRE_SPI_LINUX` is set.
pub fn guest(test: &str) -> Option<Guest> {
    let there = |program: &str| {
        let mut command = Command::new(program);
        let command = command.arg("--version").stdout(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if Path::new(PEER).exists() && there(QEMU) && there(LINKER) {
        return Some(Guest::build());
    }
    let error = "there is no Linux with SPI: run make spi-linux";
    assert!(
        env::var_os("NOSTALL_REQUIRE_SPI_LINUX").is_none(),
        "{test}: {error}"
    );
    // The test harness captures the output of std's macros, so they are not used here.
    let _ = writeln!(io::stderr(), "SKIPPED {test}: {error}");
    None
}

impl Guest {
    fn build() -> Self {
        Self {
            command: build(&["build", "--package", "nostall", "--bin", "nostall"]),
            controller: build(&[
                "test",
                "--no-run",
                "--package",
                "nostall-spi",
                "--features",
                "spidev",
                "--test",
                "spidev",
            ]),
        }
    }

    /// Returns the guest's output while it runs `script`, or the reason for a failure with the
    /// last output.
    pub fn run(&self, script: &str) -> Result<String, String> {
        let console = MemoryFile::new(&[]).map_err(|error| error.to_string())?;
        let said = || {
            let all = console.read_last(4 << 20).unwrap_or_default();
            String::from_utf8_lossy(&all).replace('\r', "")
        };
        match self.boot(script, &console, &said) {
            Ok(()) => Ok(said()),
            Err(error) => {
                let said = said();
                let last = said.char_indices().rev().nth(4000).map_or(0, |(at, _)| at);
                Err(format!("Linux: {error}\n{}", &said[last..]))
            }
        }
    }

    fn boot(
        &self,
        script: &str,
        console: &MemoryFile,
        said: &dyn Fn() -> String,
    ) -> io::Result<()> {
        let initramfs = MemoryFile::new(&self.initramfs(script)?)?;
        let mut command = Command::new(QEMU);
        command
            // One hart is a monitor core, two are for Linux.
            .args(["-machine", "sifive_u", "-smp", "3", "-m", "256M"])
            .args([
                "-no-user-config",
                "-no-reboot",
                "-net",
                "none",
                "-monitor",
                "none",
            ])
            .args(["-display", "none"])
            .args(["-kernel", &format!("{PEER}/vmlinuz")])
            .args(["-initrd", &name(INITRAMFS)])
            .args(["-append", "console=ttySIF0 loglevel=1 panic=-1"])
            .args(["-serial", &format!("file:{}", name(CONSOLE))])
            .stdin(Stdio::null());
        let qemu = spawn(command, &[(&initramfs, INITRAMFS), (console, CONSOLE)])?;
        let mut ended = None;
        pause_until(|| {
            ended = qemu.ended().transpose();
            ended.is_some() || said().contains(END)
        });
        match ended.transpose()? {
            _ if said().contains(END) => Ok(()),
            Some(status) => Err(io::Error::other(format!("it ended too early ({status})"))),
            None => Err(io::Error::other("it does not end")),
        }
    }

    fn initramfs(&self, script: &str) -> io::Result<Vec<u8>> {
        let entry = |name: &str, kind, content| {
            let builder = NewcBuilder::new(name).mode(0o755).set_mode_file_type(kind);
            (builder, Cursor::new(content))
        };
        let folder = |name| entry(name, ModeFileType::Directory, Vec::new());
        let file = |name, content| entry(name, ModeFileType::Regular, content);
        let mut entries: Vec<_> = ["bin", "dev", "etc", "proc", "sys"].map(folder).into();
        entries.push(file("init", init(script).into_bytes()));
        let users = "root:x:0:0::/:/bin/sh\nguest:x:65534:65534::/:/bin/sh\n";
        entries.push(file("etc/passwd", users.into()));
        entries.push(file("nostall", fs::read(&self.command)?));
        entries.push(file("controller", fs::read(&self.controller)?));
        let peer = |name: &str| fs::read(format!("{PEER}/{name}"));
        entries.push(file("bin/busybox", peer("busybox")?));
        for module in ["spi-bitbang.ko", "spi-sifive.ko"] {
            entries.push(file(module, peer(module)?));
        }
        write_cpio(entries.into_iter(), Vec::new())
    }

    /// Returns the exit status and the output of a part of the script.
    pub fn part(said: &str, name: &str) -> (i32, String) {
        let begin = format!("== {name}\n");
        let part = said
            .split_once(&begin)
            .and_then(|(_, rest)| rest.split_once("== ended "));
        let Some((part, rest)) = part else {
            panic!("no {name}: {said}");
        };
        let status = rest.lines().next().unwrap_or_default();
        (status.trim().parse().unwrap(), part.to_owned())
    }
}

/// Returns the init script. It binds both SPI devices to spidev, for any names in the device tree.
fn init(script: &str) -> String {
    format!(
        "#!/bin/busybox sh
/bin/busybox mount -t devtmpfs devtmpfs /dev
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox --install -s /bin
export PATH=/bin
cd /
insmod /spi-bitbang.ko
insmod /spi-sifive.ko
for device in spi0.0 spi1.0; do
    echo spidev > /sys/bus/spi/devices/$device/driver_override
    echo $device > /sys/bus/spi/drivers/spidev/bind
done
{script}
echo '{END}'
reboot -f
"
    )
}

/// Builds a static program for the guest, and returns its path.
fn build(args: &[&str]) -> PathBuf {
    let folder = concat!(env!("CARGO_TARGET_TMPDIR"), "/spi-linux");
    let mut command = Command::new(env!("CARGO"));
    command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(args)
        .args(["--locked", "--quiet", "--target", TARGET])
        .args(["--message-format", "json", "--target-dir", folder])
        // `scripts/test-times` sets it.
        .env_remove("RUSTC_BOOTSTRAP")
        // The guest needs no embedded kernel.
        .env("NOSTALL_KERNEL", "/dev/null")
        .env("CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_LINKER", LINKER)
        .env(
            "CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_RUSTFLAGS",
            "-Ctarget-feature=+crt-static",
        )
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{args:?}");
    let messages = String::from_utf8(output.stdout).unwrap();
    let executable = messages.lines().rev().find_map(|message| {
        let message: serde_json::Value = serde_json::from_str(message).ok()?;
        Some(PathBuf::from(message["executable"].as_str()?))
    });
    executable.unwrap_or_else(|| panic!("cargo {args:?} has built nothing"))
}

//! The minimal kernel that a newcomer copies (examples/kernel), as its README runs it. It is built
//! for each architecture, booted in QEMU, and used on its serial port.

use crate::common::{self, root};

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::common::pauses::pause_until;
use nostall_vm::qemu::QemuBoard;
use tempfile::NamedTempFile;

const X86_64: &str = "x86_64-unknown-none";
const RISCV64: &str = "riscv64gc-unknown-none-elf";
const AARCH64: &str = "aarch64-unknown-none-softfloat";

/// Ends a kernel that does not react.
const HANG_LIMIT: Duration = Duration::from_secs(120);

/// Input of 49 bytes, which cost at most 6 receive interrupts.
const PASTED: &str = "forty-nine bytes, all of which come in one burst.";

/// Pastes, of which the one with the fewest interrupts counts. A busy host that pauses QEMU
/// within a paste adds some: the port also interrupts when no byte comes for four frames.
const PASTES: usize = 5;

fn folder() -> PathBuf {
    root().join("examples/kernel")
}

/// Runs cargo in the kernel's folder, with its flags and not those of this test.
fn cargo(command: &str, target: &str) -> Command {
    cargo_in(&folder(), command, target)
}

fn cargo_in(folder: &Path, command: &str, target: &str) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args([command, "--locked", "--quiet", "--target", target])
        .current_dir(folder)
        .env(
            "CARGO_TARGET_DIR",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("minimal-kernel"),
        )
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTC_BOOTSTRAP");
    cargo
}

/// A running kernel.
struct Kernel {
    qemu: Child,
    /// QEMU's list of the interrupts that CPUs have taken.
    interrupts: NamedTempFile,
    output: Receiver<Vec<u8>>,
    seen: String,
}

impl Kernel {
    fn boot(target: &str) -> Self {
        let built = cargo("build", target).status().unwrap();
        assert!(built.success(), "{target}");
        // cargo becomes QEMU.
        let interrupts = NamedTempFile::new().unwrap();
        let mut run = cargo("run", target);
        run.args(["--", "-d", "int", "-D"]).arg(interrupts.path());
        Self::start(run, interrupts)
    }

    fn start(mut run: Command, interrupts: NamedTempFile) -> Self {
        let mut qemu = run
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = qemu.stdout.take().unwrap();
        let (sender, output) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = stdout.read(&mut bytes) {
                let _ = sender.send(bytes[..read].to_vec());
            }
        });
        Self {
            qemu,
            interrupts,
            output,
            seen: String::new(),
        }
    }

    /// Waits until `reached` holds for the output, and panics if that takes too long.
    fn wait(&mut self, expected: &str, reached: impl Fn(&str) -> bool) {
        while !reached(&self.seen) {
            let Ok(bytes) = self.output.recv_timeout(HANG_LIMIT) else {
                panic!("no {expected:?} in:\n{}", self.seen);
            };
            self.seen += &String::from_utf8_lossy(&bytes);
        }
    }

    fn wait_for(&mut self, text: &str) {
        self.wait(text, |seen| seen.contains(text));
    }

    /// Returns the number of interrupts of the serial port so far, as `port` names them in QEMU's
    /// list.
    fn interrupts(&self, port: &str) -> usize {
        let list = fs::read_to_string(self.interrupts.path()).unwrap();
        list.lines().filter(|line| line.contains(port)).count()
    }

    fn type_in(&mut self, text: &str) {
        let mut stdin = self.qemu.stdin.as_ref().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
    }

    /// Waits for the end, and returns all output and the exit status.
    fn end(mut self) -> (String, Option<i32>) {
        while let Ok(bytes) = self.output.recv_timeout(HANG_LIMIT) {
            self.seen += &String::from_utf8_lossy(&bytes);
        }
        // The output is closed, so only the exit itself is left.
        let mut status = None;
        pause_until(|| {
            status = self.qemu.try_wait().unwrap();
            status.is_some()
        });
        let Some(status) = status else {
            panic!("still runs:\n{}", self.seen);
        };
        (std::mem::take(&mut self.seen), status.code())
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// Returns the output without the lines of the tick, which may come between any two bytes.
fn without_ticks(output: &str) -> String {
    let lines = output.lines().filter(|line| !line.contains("a tick"));
    lines.collect()
}

/// Boots the kernel twice, and uses everything that its README promises.
fn use_it(test: &str, target: &str, board: QemuBoard, port: &str) {
    if common::qemu_for(test, board).is_none() {
        return;
    }
    let mut kernel = Kernel::boot(target);
    kernel.wait_for("ready: type");
    kernel.wait_for("kernel: a tick, in an interrupt handler");
    let early = "[            ] kernel: no port and no clock yet";
    assert!(kernel.seen.contains(early), "{}", kernel.seen);
    kernel.type_in("h");
    kernel.wait("an echo", |seen| without_ticks(seen).ends_with('h'));
    kernel.type_in("ello\r");
    kernel.wait("an echo", |seen| without_ticks(seen).ends_with("hello"));
    let pastes = (1..=PASTES).map(|paste| {
        let before = kernel.interrupts(port);
        assert!(before > 0, "none has {port}");
        kernel.type_in(PASTED);
        kernel.wait("a pasted line", |seen| {
            without_ticks(seen).ends_with(&PASTED.repeat(paste))
        });
        kernel.interrupts(port) - before
    });
    let fewest = pastes.min().unwrap();
    assert!((1..=6).contains(&fewest), "{fewest} interrupts");
    kernel.type_in("!");
    let (output, status) = kernel.end();
    let panic = output.split("panicked at src/main.rs:").nth(1);
    let panic = panic.unwrap_or_else(|| panic!("no panic in:\n{output}"));
    assert!(panic.contains("as requested"), "{panic}");
    assert!(output.ends_with("\r\n"), "{output:?}");
    assert_eq!(status, Some(1));

    let mut kernel = Kernel::boot(target);
    kernel.wait_for("ready: type");
    kernel.type_in("\x04");
    let (output, status) = kernel.end();
    assert!(output.ends_with("kernel: the end\r\n"), "{output:?}");
    assert_eq!(status, Some(0));
}

#[test]
fn the_minimal_kernel_logs_echoes_and_panics_on_a_pc() {
    use_it(
        "the_minimal_kernel_logs_echoes_and_panics_on_a_pc",
        X86_64,
        QemuBoard::Q35,
        ": v=24 ",
    );
}

#[test]
fn the_minimal_kernel_logs_echoes_and_panics_on_riscv() {
    use_it(
        "the_minimal_kernel_logs_echoes_and_panics_on_riscv",
        RISCV64,
        QemuBoard::Virt,
        "desc=s_external",
    );
}

/// QEMU's list does not tell the port's interrupts from the timer's. Its PL011 interrupts for each
/// byte that comes alone.
#[test]
fn the_minimal_kernel_logs_echoes_and_panics_on_arm() {
    use_it(
        "the_minimal_kernel_logs_echoes_and_panics_on_arm",
        AARCH64,
        QemuBoard::ArmVirtPl011,
        "[IRQ]",
    );
}

/// The program of examples/raspi3, on the board that QEMU emulates.
#[test]
fn both_ports_of_a_raspberry_pi_3_send() {
    let test = "both_ports_of_a_raspberry_pi_3_send";
    if common::qemu_for(test, QemuBoard::ArmVirtPl011).is_none() {
        return;
    }
    let folder = root().join("examples/raspi3");
    let built = cargo_in(&folder, "build", AARCH64).status().unwrap();
    assert!(built.success());
    let mini_uart = NamedTempFile::new().unwrap();
    let mut run = cargo_in(&folder, "run", AARCH64);
    run.args(["--", "-serial"])
        .arg(format!("file:{}", mini_uart.path().display()));
    let mut board = Kernel::start(run, NamedTempFile::new().unwrap());
    board.wait_for("the PL011 takes 16 bytes at once\r\n");
    board.type_in("hi");
    board.wait_for("hi");
    let sent = fs::read_to_string(mini_uart.path()).unwrap();
    // QEMU's mini UART has no divisor latch, so it sends the divisor.
    let text = sent.strip_prefix('\u{f}');
    assert_eq!(text, Some("the mini UART takes 1 byte at once\r\n"));
}

/// Returns the source files, and the sign that begins a comment.
fn sources() -> Vec<(String, &'static str)> {
    let files = fs::read_dir(folder().join("src")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let source = |path: PathBuf| {
        let comment = match path.extension().and_then(|kind| kind.to_str()) {
            Some("rs") => "//",
            _ => "#",
        };
        (fs::read_to_string(path).unwrap(), comment)
    };
    files.map(source).collect()
}

#[test]
fn the_minimal_kernel_has_fewer_than_400_lines() {
    let lines = |(text, comment): (String, &str)| {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(comment));
        lines.count()
    };
    let lines: usize = sources().into_iter().map(lines).sum();
    assert!((100..400).contains(&lines), "{lines}");
}

#[test]
fn the_walk_through_of_the_minimal_kernel_shows_its_own_lines() {
    let readme = fs::read_to_string(folder().join("README.md")).unwrap();
    let kernel = fs::read_to_string(folder().join("src/main.rs")).unwrap();
    let blocks = readme.split("```rust\n").skip(1);
    let blocks: Vec<_> = blocks.filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 3);
    for line in blocks.iter().flat_map(|block| block.lines()) {
        assert!(kernel.lines().any(|own| own == line), "{line}");
    }
}

//! A QEMU machine that can be stopped between any two instructions, examined, and killed. The
//! moment of a kill from outside is unknown. A test of a certain moment therefore freezes the
//! machine, checks the moment, and continues if it is another one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use nostall_vm::qemu;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::common::pauses::pause_until;

const MEBIBYTES: u64 = 128;

/// A machine that runs the reference kernel. Dropping it kills it.
pub struct Machine {
    qemu: Child,
    dir: PathBuf,
}

impl Machine {
    /// Starts a PC with 4 CPUs and `words` on the kernel's command line. Its RAM is the file
    /// `ram` in `dir`, with the contents that an earlier machine left. Its output and reports
    /// are in the files `serial` and `reports`.
    pub fn start(dir: &Path, words: &str, input: &[u8]) -> Self {
        Self::of(qemu::QemuBoard::Q35, dir, words, input)
    }

    /// Starts a machine of this kind: a PC, or `virt` of RISC-V or Arm.
    pub fn of(kind: qemu::QemuBoard, dir: &Path, words: &str, input: &[u8]) -> Self {
        let pc = "-chardev file,id=serial,path=serial -chardev file,id=reports,path=reports \
                  -device isa-serial,chardev=serial,iobase=0x3f8,irq=4 \
                  -device isa-debugcon,chardev=reports,iobase=0xe9 \
                  -device isa-debug-exit,iobase=0xf4,iosize=4";
        let virt = "-bios default -chardev file,id=serial,path=serial -serial chardev:serial \
                    -chardev file,id=reports,path=reports \
                    -semihosting-config enable=on,target=native,chardev=reports";
        let arm_virt = "-machine gic-version=3 -cpu cortex-a72 \
                        -chardev file,id=serial,path=serial -device pci-serial,chardev=serial \
                        -chardev file,id=reports,path=reports \
                        -semihosting-config enable=on,target=native,chardev=reports";
        let (qemu, kernel, devices): (_, &[u8], _) = match kind {
            qemu::QemuBoard::Q35 => (
                "qemu-system-x86_64",
                include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL")),
                pc,
            ),
            qemu::QemuBoard::Virt => (
                "qemu-system-riscv64",
                include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL_RISCV64")),
                virt,
            ),
            qemu::QemuBoard::ArmVirt => (
                "qemu-system-aarch64",
                include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL_AARCH64")),
                arm_virt,
            ),
            other => panic!("no test freezes a {other}"),
        };
        let name = match kind {
            qemu::QemuBoard::ArmVirt => "virt",
            other => other.name(),
        };
        let file = |name: &str| dir.join(name);
        fs::write(file("kernel"), kernel).unwrap();
        fs::write(file("input"), input).unwrap();
        let ram = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(file("ram"));
        ram.unwrap().set_len(MEBIBYTES << 20).unwrap();
        let args = "-smp 4 -m 128M -accel tcg -nodefaults -no-user-config -no-reboot \
                    -display none -kernel kernel \
                    -object memory-backend-file,id=ram,share=on,size=128M,mem-path=ram";
        let mut command = Command::new(qemu);
        command
            .args(["-machine", &format!("{name},memory-backend=ram")])
            .args(args.split_whitespace())
            .args(devices.split_whitespace())
            .args(["-append", &format!("cpus=4 {words}")])
            .current_dir(dir)
            .stdin(Stdio::null())
            .stderr(File::create(file("said")).unwrap());
        match (input, kind) {
            ([], _) => {}
            (_, qemu::QemuBoard::ArmVirt) => {
                command.args(["-device", "guest-loader,addr=0x45100000,initrd=input"]);
            }
            _ => {
                command.args(["-initrd", "input"]);
            }
        }
        Self {
            qemu: command.spawn().unwrap(),
            dir: dir.to_owned(),
        }
    }

    /// Kills the machine at a moment for which `is_it` returns true. The machine is stopped for
    /// each call, so its files are as the kill leaves them.
    pub fn kill_when(mut self, mut is_it: impl FnMut() -> bool) {
        // Dropping the stopped machine kills it.
        let came = pause_until(|| {
            self.freeze();
            let came = is_it();
            if !came {
                kill_process(self.pid(), Signal::CONT).unwrap();
            }
            came
        });
        assert!(came, "it never came: {}", self.files());
    }

    /// Waits until the machine ends by itself.
    pub fn wait(mut self) -> ExitStatus {
        let mut status = None;
        pause_until(|| {
            status = self.qemu.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap_or_else(|| panic!("it never ends: {}", self.files()))
    }

    /// Stops the machine. All its threads have stopped when this returns.
    fn freeze(&mut self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
        let stopped = waitpid(Some(self.pid()), WaitOptions::UNTRACED).unwrap();
        let (_, status) = stopped.expect("there is a child, and it is waited for");
        assert!(status.stopped(), "{status:?}: {}", self.files());
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.qemu)
    }

    /// Returns the machine's files, for the message of a failed test.
    fn files(&self) -> String {
        let text = |name| fs::read(self.dir.join(name)).unwrap_or_default();
        let last = |name| {
            let text = text(name);
            let start = text.len().saturating_sub(1_000);
            String::from_utf8_lossy(&text[start..]).into_owned()
        };
        format!("{}\n{}", last("said"), last("reports"))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

//! QEMU's command line.

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{Command, Stdio};

use nostall_work::trace::REGION;

use super::architecture::Architecture;
use super::board::QemuBoard;
use super::files::{FLASH, Files, INPUT, KERNEL, PERSISTENT, REPORTS, SERIAL};
use crate::guest::Guest;
use crate::process::name;

/// Start of RAM on QEMU's generic Arm board (docs/system/arm/virt.rst).
const RAM_OF_ARM: u64 = 0x4000_0000;

/// Returns the command that runs `guest` on `machine`.
pub(super) fn command(machine: QemuBoard, guest: &Guest<'_>, files: &Files) -> io::Result<Command> {
    let words = guest.words();
    let ram = match guest.ram {
        Some(_) => guest.mebibytes(),
        None => guest.mebibytes() + machine.more_mebibytes(),
    };
    let mut name_and_options = machine.name_in_qemu().to_owned();
    if guest.ram.is_some() {
        name_and_options += ",memory-backend=ram";
    }
    let mut command = Command::new(machine.architecture().program());
    command
        .args(["-machine", &name_and_options])
        .args(["-smp", &(guest.cpus + machine.other_cpus()).to_string()])
        .args(["-m", &format!("{ram}M")])
        // Only the named devices, and no restart.
        .args(["-nodefaults", "-no-user-config", "-no-reboot"])
        .args(["-display", "none"])
        .args(["-kernel", &name(KERNEL)])
        .args(["-append", &words.join(" ")])
        .args(["-chardev", &to_file("serial", SERIAL)])
        .args(["-chardev", &to_file("reports", REPORTS)]);
    match machine.architecture() {
        Architecture::X86_64 => channels_of_a_pc(&mut command),
        Architecture::Riscv64 => channels_of_riscv(&mut command),
        Architecture::Aarch64 => channels_of_arm(&mut command, machine),
    }
    if guest.ram.is_some() {
        let file = format!("share=on,size={ram}M,mem-path={}", name(PERSISTENT));
        command.args(["-object", &format!("memory-backend-file,id=ram,{file}")]);
    }
    match (guest.input, machine.architecture()) {
        ([], _) => {}
        // QEMU has no `-initrd` for an ELF file there. The device tree describes this as a module.
        (_, Architecture::Aarch64) => {
            let input = name(INPUT);
            let address = RAM_OF_ARM + REGION.end;
            let options = format!("guest-loader,addr={address:#x},initrd={input}");
            command.args(["-device", &options]);
        }
        _ => {
            command.args(["-initrd", &name(INPUT)]);
        }
    }
    if guest.flash.is_some() {
        let file = format!("if=mtd,id=mtd0,format=raw,file={}", name(FLASH));
        command.args(["-drive", &file]);
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

/// Adds a device each for the port under test, the reports, and the exit status.
fn channels_of_a_pc(command: &mut Command) {
    command
        .args(["-device", "isa-serial,chardev=serial,iobase=0x3f8,irq=4"])
        .args(["-device", "isa-debugcon,chardev=reports,iobase=0xe9"])
        .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
}

/// Adds the port under test, which is the board's own and the firmware's console.
fn channels_of_riscv(command: &mut Command) {
    command
        .args(["-bios", "default"])
        .args(["-serial", "chardev:serial"]);
    semihosting(command);
}

/// Adds the port under test: on PCI, or the board's own. Chooses a 64-bit CPU, and the interrupt
/// controller for 64 CPUs.
fn channels_of_arm(command: &mut Command, board: QemuBoard) {
    command.args(["-machine", "gic-version=3", "-cpu", "cortex-a72"]);
    match board {
        QemuBoard::ArmVirtPl011 => command.args(["-serial", "chardev:serial"]),
        _ => command.args(["-device", "pci-serial,chardev=serial"]),
    };
    semihosting(command);
}

/// Uses semihosting for reports and the exit status.
fn semihosting(command: &mut Command) {
    let options = "enable=on,target=native,chardev=reports";
    command.args(["-semihosting-config", options]);
}

fn to_file(id: &str, number: i32) -> String {
    format!("file,id={id},path={}", name(number))
}

/// Returns whether `arg` is one of the options `names`, with one dash or two.
fn is_option(arg: &OsStr, names: &[&str]) -> bool {
    let arg = arg.to_str().and_then(|arg| arg.strip_prefix('-'));
    arg.is_some_and(|arg| names.contains(&arg.strip_prefix('-').unwrap_or(arg)))
}

pub(super) fn daemonizes(args: &[OsString]) -> bool {
    args.iter().any(|arg| is_option(arg, &["daemonize"]))
}

fn names_accelerator(args: &[OsString]) -> bool {
    let by_itself = |arg: &OsString| is_option(arg, &["accel", "enable-kvm"]);
    // For example "-machine q35,accel=kvm".
    let by_machine = |pair: &[OsString]| {
        is_option(&pair[0], &["machine", "M"])
            && pair[1]
                .to_string_lossy()
                .split(',')
                .any(|property| property.starts_with("accel="))
    };
    args.iter().any(by_itself) || args.windows(2).any(by_machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(args: &[&str]) -> bool {
        let args: Vec<_> = args.iter().map(OsString::from).collect();
        names_accelerator(&args)
    }

    #[test]
    fn an_accelerator_is_recognised_in_every_option_that_names_one() {
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
}

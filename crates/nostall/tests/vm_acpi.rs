//! The tables of our own machine, read by other software: Linux boots in QEMU with these tables
//! only, and `iasl` disassembles them.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod common;
#[path = "common/linux.rs"]
#[allow(dead_code, reason = "the half that knows persistent memory")]
mod peer;

use std::fs;
use std::io::{self, Cursor, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use common::pauses::pause_until;
use cpio::newc::ModeFileType;
use cpio::{NewcBuilder, write_cpio};
use nostall_vm::kvm::linux::{Configuration, Description, SerialLocation, TimerPin, tables};
use nostall_vm::process::{MemoryFile, name, spawn};
use peer::{PEER, linux};

const RAM: usize = 128 << 20;

/// The address of the tables, and of the memory that replaces a serial port. Linux does not use
/// it.
const TABLES: usize = 96 << 20;
const SERIAL: usize = 97 << 20;
const ROOM: &str = "2M$0x6000000";

/// The address of ECAM in QEMU's microvm.
const ECAM: u32 = 0xe000_0000;

// File descriptors of the child.
const MEMORY: i32 = 3;
const INITRAMFS: i32 = 4;
const SERIAL_LINE: i32 = 5;

const END: &str = "== the end ==";

const INIT: &str = "#!/busybox sh
/busybox mount -t devtmpfs devtmpfs /dev
/busybox mount -t sysfs sysfs /sys
/busybox mount -t proc proc /proc
exec >/dev/ttyS0 2>&1
/busybox dmesg
echo == acpi; /busybox ls /sys/bus/acpi/devices
echo == pci; /busybox ls /sys/bus/pci/devices
echo == driver; /busybox ls /sys/bus/platform/drivers/dw-apb-uart
echo == iomem; /busybox cat /proc/iomem
echo == ioports; /busybox cat /proc/ioports
echo == the end ==
/busybox sleep 1000
";

fn in_memory(serial: u32) -> Description {
    Description {
        serial: SerialLocation::Memory(serial),
        configuration: Configuration::Ecam(ECAM),
        last_bus: 15,
        timer: TimerPin::Two,
    }
}

const BY_PORTS: Description = Description {
    serial: SerialLocation::Ports,
    configuration: Configuration::Ports,
    last_bus: 15,
    timer: TimerPin::Two,
};

/// Returns a guest's memory with the tables and a serial port, which is plain memory. Its line
/// and modem status have the values that a driver expects, the latter those in loopback.
fn memory(description: &Description) -> io::Result<(MemoryFile, u64)> {
    let (tables, rsdp) = tables(description, TABLES as u64);
    let mut memory = vec![0; RAM];
    memory[TABLES..][..tables.len()].copy_from_slice(&tables);
    memory[SERIAL + 5 * 0x1000] = 0x60;
    memory[SERIAL + 6 * 0x1000] = 0x90;
    Ok((MemoryFile::new(&memory)?, rsdp))
}

fn initramfs() -> io::Result<Vec<u8>> {
    let busybox = fs::read(Path::new(PEER).join("busybox"))?;
    let entry = |name: &str, kind, content: Vec<u8>| {
        let builder = NewcBuilder::new(name).mode(0o755).set_mode_file_type(kind);
        (builder, Cursor::new(content))
    };
    let entries = [
        entry("dev", ModeFileType::Directory, vec![]),
        entry("sys", ModeFileType::Directory, vec![]),
        entry("proc", ModeFileType::Directory, vec![]),
        entry("busybox", ModeFileType::Regular, busybox),
        entry("init", ModeFileType::Regular, INIT.into()),
    ];
    write_cpio(entries.into_iter(), Vec::new())
}

/// Returns Linux's output up to the end of its script, and its memory afterwards.
///
/// QEMU's microvm is the machine that is most like ours: a PC's interrupt controllers
/// and timer, and PCI by ECAM without ports.
fn boot(description: &Description, console: &str) -> io::Result<(String, MemoryFile)> {
    let (memory, rsdp) = memory(description)?;
    let initramfs = MemoryFile::new(&initramfs()?)?;
    let serial = MemoryFile::new(&[])?;
    let said = MemoryFile::new(&[])?;
    let backend = format!(
        "memory-backend-file,id=memory,size={RAM},mem-path={},share=on",
        name(MEMORY)
    );
    // microvm has tables of its own, so Linux gets the address of ours.
    let line = format!(
        "console={console} 8250.nr_uarts=5 nokaslr cryptomgr.notests quiet \
         memmap={ROOM} acpi_rsdp={rsdp:#x}"
    );
    let mut command = Command::new("qemu-system-x86_64");
    command
        .args(["-machine", "microvm,pcie=on,memory-backend=memory"])
        .args(["-accel", "tcg", "-m", &format!("{}M", RAM >> 20)])
        .args(["-object", &backend])
        .args(["-nodefaults", "-no-user-config", "-no-reboot"])
        .args(["-display", "none", "-device", "virtio-rng-pci,addr=5"])
        .args(["-kernel", &format!("{PEER}/vmlinuz")])
        .args(["-initrd", &name(INITRAMFS), "-append", &line])
        .args(["-serial", &format!("file:{}", name(SERIAL_LINE))])
        .stdin(Stdio::null())
        .stdout(said.to_stdio()?)
        .stderr(said.to_stdio()?);
    let files = [
        (&memory, MEMORY),
        (&initramfs, INITRAMFS),
        (&serial, SERIAL_LINE),
    ];
    let qemu = spawn(command, &files)?;
    let mut text = String::new();
    let mut error = None;
    pause_until(|| {
        let ended = qemu.ended();
        match serial.read_from(0, 1 << 20) {
            Ok(bytes) => text = String::from_utf8_lossy(&bytes).into_owned(),
            Err(failed) => error = Some(failed),
        }
        // The text stands on a line of its own, because the script itself is not shown.
        error.is_some() || text.contains(END) || !matches!(ended, Ok(None))
    });
    match error {
        Some(error) => Err(error),
        None if text.contains(END) => Ok((text, memory)),
        None => {
            let said = String::from_utf8_lossy(&said.read_last(2000)?).into_owned();
            let ended = qemu.ended();
            Err(io::Error::other(format!("{ended:?}\n{said}\n{text}")))
        }
    }
}

/// Returns Linux's complaints about the tables. That there is no CMOS clock, and no other PCI
/// access, is correct.
fn complaints(text: &str) -> Vec<&str> {
    let bad = [
        "ACPI Error",
        "ACPI BIOS",
        "ACPI Warning",
        "ACPI: Unable",
        "[Firmware",
    ];
    text.lines()
        .filter(|line| bad.iter().any(|bad| line.contains(bad)))
        .collect()
}

#[test]
fn linux_finds_the_serial_port_in_memory_and_pci_by_ecam() {
    if linux("linux_finds_the_serial_port_in_memory").is_none() {
        return;
    }
    let (text, memory) = boot(&in_memory(SERIAL as u32), "ttyS4").unwrap();
    assert_eq!(complaints(&text), [""; 0]);
    for line in [
        // Without `clock-frequency` the driver refuses the port. The rate is a sixteenth of it.
        "HISI0031:00: ttyS4 at MMIO 0x6100000 (irq = 4, base_baud = 115200)",
        "MMCONFIG at [mem 0xe0000000-0xe0ffffff] reserved in ACPI motherboard resources",
        "ACPI: PCI Root Bridge [PCI0] (domain 0000 [bus 00-0f])",
        "ACPI: PM: (supports S0 S5)",
        "Using ACPI (MADT) for SMP configuration information",
        "ACPI FADT declares the system doesn't support MSI",
        "i8042: PNP: No PS/2 controller found.",
        // This ID can be read through ECAM only.
        "pci 0000:00:05.0: [1af4:1005]",
        // Eight registers, each with a page of its own.
        "06100000-06107fff : serial",
        "0604-0605 : ACPI PM1a_CNT_BLK",
    ] {
        assert!(text.contains(line), "`{line}` is not in:\n{text}");
    }
    let devices = text.split("== acpi").nth(1).unwrap();
    let devices = devices.split("== pci").next().unwrap();
    for device in ["HISI0031:00", "PNP0A08:00", "PNP0C02:00"] {
        assert!(devices.contains(device), "{devices}");
    }
    let driver = text.split("== driver").nth(1).unwrap();
    assert!(
        driver
            .split("== iomem")
            .next()
            .unwrap()
            .contains("HISI0031:00")
    );

    // The driver's values are in its registers, and nowhere else: the divisor of 9600 baud at
    // that clock, 8N1.
    let register = |n: u64| {
        let page = SERIAL as u64 + n * 0x1000;
        memory.read_from(page, 256).unwrap()
    };
    assert_eq!(register(0)[0], 12);
    assert_eq!(register(3)[0] & 0x3f, 0x13);
    for n in 0..8 {
        // Except a DesignWare register, which the driver writes in vain.
        let beside = register(n);
        assert!(
            beside[1..0xac].iter().all(|&byte| byte == 0),
            "{n}: {beside:x?}"
        );
    }
}

#[test]
fn linux_finds_the_serial_port_at_its_ports() {
    if linux("linux_finds_the_serial_port_at_its_ports").is_none() {
        return;
    }
    let (text, _) = boot(&BY_PORTS, "ttyS0").unwrap();
    assert_eq!(complaints(&text), [""; 0]);
    for line in [
        "] 00:01: ttyS0 at I/O 0x3f8 (irq = 4, base_baud = 115200) is a 16550A",
        "PNP0501:00",
    ] {
        assert!(text.contains(line), "`{line}` is not in:\n{text}");
    }
    assert!(!text.contains("MMCONFIG for domain"), "{text}");
}

/// Returns each table in `bytes`, by its name. The RSDP is at the end.
fn apart(bytes: &[u8]) -> Vec<(String, &[u8])> {
    let mut rest = bytes;
    let mut all = Vec::new();
    while !rest.starts_with(b"RSD ") {
        let length = u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
        let name = String::from_utf8(rest[..4].to_vec()).unwrap();
        all.push((name, &rest[..length]));
        rest = &rest[length.next_multiple_of(16)..];
    }
    all
}

#[test]
fn iasl_takes_every_table_apart_and_puts_the_dsdt_together_again() {
    let iasl =
        |folder: &Path, args: &[&str]| Command::new("iasl").args(args).current_dir(folder).output();
    if iasl(Path::new("."), &["-v"]).is_err() {
        // The test harness captures the output of std's macros, so they are not used here.
        let _ = writeln!(
            io::stderr(),
            "SKIPPED iasl_takes_every_table_apart: there is no iasl (package acpica-tools)"
        );
        return;
    }
    for description in [BY_PORTS, in_memory(0xd000_0000)] {
        let folder = tempfile::tempdir().unwrap();
        let (bytes, _) = tables(&description, TABLES as u64);
        for (name, table) in apart(&bytes) {
            let file = format!("{name}.aml");
            fs::write(folder.path().join(&file), table).unwrap();
            let output = iasl(folder.path(), &["-d", &file]).unwrap();
            let said =
                String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert!(output.status.success(), "{name}: {said}");
            let wrong = ["Error", "Warning", "Invalid", "ncorrect"];
            assert!(
                !wrong.iter().any(|wrong| said.contains(wrong)),
                "{name}: {said}"
            );
        }
        let output = iasl(folder.path(), &["-we", "DSDT.dsl"]).unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("0 Errors, 0 Warnings"), "{said}");
    }
}

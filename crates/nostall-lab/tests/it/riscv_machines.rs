//! Guests in QEMU's RISC-V machines, correct and faulty: every run ends in bounded time, and
//! reports the reason.

use crate::common;
use crate::common::accesses;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::qemu_for;
use nostall_lab::experiments::pstore::run as pstore;
use nostall_vm::qemu::{Architecture, Error, Guest, Limits, Qemu, QemuBoard, Ran};
use nostall_vm::{Ending, Machine as _};
use nostall_work::{BusCheck, Example, Failure, Report};

static KERNEL: &[u8] = include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL_RISCV64"));

/// Limits that also hold on a busy machine, which takes many times as long as an idle one. For
/// waits that must fail, see [`HANG`].
const LIMITS: Limits = Limits {
    start: Duration::from_secs(60),
    silence: Duration::from_secs(60),
    total: Duration::from_secs(300),
    serial_bytes: 10_000,
    report_bytes: 10_000,
    qemu_bytes: 1 << 20,
};

/// Time limit for guests that hang.
const HANG: Duration = Duration::from_secs(2);

const GUEST: Guest<'_> = Guest {
    kernel: KERNEL,
    cpus: 1,
    work: &[],
    repeat: 1,
    input: b"input",
    ram: None,
    drives: &[],
    qemu_args: &[],
};

/// Returns the machines, with the system's QEMU.
fn machines(test: &str) -> impl Iterator<Item = Qemu> {
    [QemuBoard::Virt, QemuBoard::SifiveU]
        .into_iter()
        .filter_map(move |machine| qemu_for(&format!("{test} on {machine}"), machine))
}

fn fails(qemu: &Qemu, guest: &Guest<'_>) -> Error {
    qemu.run(guest, &LIMITS, Ending::Done, &mut |_| {})
        .unwrap_err()
}

fn failing(qemu: &Qemu, failure: Failure) -> Error {
    let work = [failure.into()];
    fails(
        qemu,
        &Guest {
            work: &work,
            ..GUEST
        },
    )
}

#[test]
fn all_harts_start_and_tick_and_the_firmwares_words_are_not_ours() {
    for qemu in machines("all_harts_start_and_tick") {
        for cpus in [1, 4] {
            let guest = Guest { cpus, ..GUEST };
            let Ran {
                reports, serial, ..
            } = qemu
                .run(&guest, &LIMITS, Ending::Done, &mut |_| {})
                .unwrap();
            let [
                Report::Ready {
                    cpus: up,
                    clock_hz,
                    timer_hz,
                },
                Report::Done,
            ] = reports[..]
            else {
                panic!("{reports:?}");
            };
            assert_eq!(up, cpus);
            assert!(clock_hz >= 1_000_000 && timer_hz >= 1_000_000);
            assert_eq!(String::from_utf8_lossy(&serial), "");
        }
    }
}

#[test]
fn a_long_input_finds_room_beside_the_kernel_and_the_device_tree() {
    for qemu in machines("a_long_input_finds_room") {
        for len in [1, 16 << 20] {
            let guest = Guest {
                input: &vec![0x5a; len],
                ..GUEST
            };
            let ran = qemu
                .run(&guest, &LIMITS, Ending::Done, &mut |_| {})
                .unwrap();
            assert_eq!(ran.reports.last(), Some(&Report::Done), "{len}");
        }
    }
}

#[test]
fn more_cpus_than_a_machine_can_have_are_refused() {
    for (qemu, most) in machines("more_cpus_than_a_machine_can_have").zip([64, 4]) {
        let machine = qemu.board();
        for cpus in [0, most + 1] {
            let error = fails(&qemu, &Guest { cpus, ..GUEST }).to_string();
            let says = format!("{machine} can have 1 to {most} CPUs for the guest, not {cpus}");
            assert_eq!(error, says);
        }
    }
}

#[test]
fn fewer_harts_than_asked_for_is_the_guests_failure() {
    for qemu in machines("fewer_harts_than_asked_for") {
        let qemu_args = ["-smp", "2"].map(OsString::from);
        let guest = Guest {
            cpus: 3,
            qemu_args: &qemu_args,
            ..GUEST
        };
        let there = match qemu.board() {
            QemuBoard::SifiveU => 1, // the other has no supervisor mode
            _ => 2,
        };
        let error = fails(&qemu, &guest).to_string();
        let says = format!("only {there} of 3 CPUs are there");
        assert!(error.contains(&says), "{error}");
    }
}

/// Writes QEMU's device tree of `virt` with 256 MiB, with `old` replaced by `new`.
fn device_tree(dir: &Path, old: &[u8], new: &[u8]) -> PathBuf {
    let tree = dir.join("tree");
    let dumped = Command::new(Architecture::Riscv64.program())
        .arg("-machine")
        .arg(format!("virt,dumpdtb={}", tree.display()))
        .args(["-m", "256M", "-display", "none"])
        .output()
        .unwrap();
    assert!(dumped.status.success(), "{dumped:?}");
    let mut bytes = fs::read(&tree).unwrap();
    let places = bytes.windows(old.len()).enumerate();
    let places: Vec<_> = places.filter(|(_, at)| *at == old).collect();
    let [(place, _)] = places[..] else {
        panic!("{old:?} is there {} times", places.len());
    };
    bytes[place..][..old.len()].copy_from_slice(new);
    fs::write(&tree, bytes).unwrap();
    tree
}

#[test]
fn an_impossible_device_tree_is_reported() {
    let Some(qemu) = qemu_for("a_device_tree_that_cannot_be_right", QemuBoard::Virt) else {
        return;
    };
    let cells = |cells: &[u32]| -> Vec<u8> {
        let bytes = cells.iter().flat_map(|cell| cell.to_be_bytes());
        bytes.collect()
    };
    let ram = cells(&[0, 0x8000_0000, 0, 0x1000_0000]);
    for (old, new, says) in [
        (
            &ram,
            cells(&[1, 0x8000_0000, 0, 0x1000_0000]),
            "the device tree has no RAM at 0x80200000..0x",
        ),
        (
            &ram,
            cells(&[0, 0x8000_0000, 0, 0x0000_1000]),
            "the device tree has no RAM at 0x80200000..0x",
        ),
        (
            &cells(&[10_000_000]),
            cells(&[0]),
            "the device tree has no timebase-frequency below 4 GHz",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let tree = device_tree(dir.path(), old, &new);
        let mut qemu_args = ["-m", "256M", "-dtb"].map(OsString::from).to_vec();
        qemu_args.push(tree.into());
        let guest = Guest {
            qemu_args: &qemu_args,
            ..GUEST
        };
        let error = fails(&qemu, &guest).to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_hart_without_memory_protection_is_reported() {
    let Some(qemu) = qemu_for("a_hart_that_protects_no_memory", QemuBoard::Virt) else {
        return;
    };
    let qemu_args = ["-cpu", "rv64,mmu=off"].map(OsString::from);
    let guest = Guest {
        qemu_args: &qemu_args,
        ..GUEST
    };
    let error = fails(&qemu, &guest).to_string();
    assert!(
        error.contains("panic on CPU 0: this hart does not support Sv39"),
        "{error}"
    );
}

#[test]
fn panics_and_exceptions_are_reported_with_their_known_details() {
    for qemu in machines("panics_and_exceptions") {
        for (failure, told) in [
            (
                Failure::Panic,
                "panic on CPU 0: on purpose (kernel/src/fail.rs:",
            ),
            (
                Failure::NullRead,
                "exception 13 on CPU 0: page fault on read, not mapped (pc 0x802",
            ),
            (
                Failure::CodeWrite,
                "exception 15 on CPU 0: page fault on write, read-only (pc 0x802",
            ),
            (
                Failure::StackOverflow,
                "exception 15 on CPU 0: page fault, the stack is full (pc 0x802",
            ),
        ] {
            let error = failing(&qemu, failure);
            assert!(matches!(error, Error::Guest(_)));
            assert!(error.to_string().contains(told), "{error}");
        }
    }
}

#[test]
fn a_guest_that_hangs_is_ended() {
    for qemu in machines("a_guest_that_hangs") {
        let guest = Guest {
            work: &[Failure::Hang.into()],
            ..GUEST
        };
        let limits = Limits {
            silence: HANG,
            ..LIMITS
        };
        let error = qemu
            .run(&guest, &limits, Ending::Done, &mut |_| {})
            .unwrap_err();
        assert!(matches!(error, Error::Hung(HANG)));
    }
}

#[test]
fn a_guest_that_floods_is_ended() {
    for qemu in machines("a_guest_that_floods") {
        let error = failing(&qemu, Failure::ReportFlood);
        assert!(matches!(error, Error::ReportFlood(10_000)), "{error}");
    }
    if let Some(qemu) = qemu_for("a_guest_that_floods", QemuBoard::Virt) {
        let error = failing(&qemu, Failure::Flood);
        assert!(matches!(error, Error::Flood(10_000)), "{error}");
    }
}

#[test]
fn a_guest_that_never_says_a_word_is_ended() {
    for qemu in machines("a_guest_that_never_says_a_word") {
        let qemu_args = ["-S"].map(OsString::from); // the CPUs stay stopped
        let guest = Guest {
            qemu_args: &qemu_args,
            ..GUEST
        };
        let limits = Limits {
            start: Duration::from_secs(1),
            ..LIMITS
        };
        let error = qemu
            .run(&guest, &limits, Ending::Done, &mut |_| {})
            .unwrap_err();
        assert!(matches!(error, Error::NeverStarted(_)), "{error}");
    }
}

/// Returns an ELF file that consists of the code `code`.
fn tiny_kernel(code: &[u32]) -> Vec<u8> {
    const BASE: u64 = 0x8020_0000;
    const HEADERS: u64 = 64 + 56;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    elf.extend([2_u16, 243].map(u16::to_le_bytes).concat()); // executable, for RISC-V
    elf.extend(1_u32.to_le_bytes());
    elf.extend([BASE, 64, 0].map(u64::to_le_bytes).concat());
    elf.extend(0_u32.to_le_bytes());
    elf.extend([64_u16, 56, 1, 64, 0, 0].map(u16::to_le_bytes).concat());
    let len = 4 * code.len() as u64;
    elf.extend([1_u32, 7].map(u32::to_le_bytes).concat()); // loaded
    elf.extend(
        [HEADERS, BASE, BASE, len, len, 0x1000]
            .map(u64::to_le_bytes)
            .concat(),
    );
    elf.extend(code.iter().flat_map(|word| word.to_le_bytes()));
    elf
}

/// Returns `addi a0, zero, operation`, and a semihosting call with its arguments `words` words
/// behind the call's first instruction.
fn semihosting(operation: u32, words: u32) -> [u32; 6] {
    [
        0x0000_0513 | operation << 20,
        0x0000_0597,                         // auipc a1, 0
        0x0005_8593 | (4 * words - 4) << 20, // addi a1, a1, ...
        0x01f0_1013,                         // slli zero, zero, 31
        0x0010_0073,                         // ebreak
        0x4070_5013,                         // srai zero, zero, 7
    ]
}

const WRITE: u32 = 4;
const EXIT_EXTENDED: u32 = 0x20;

/// Returns code that ends the machine with `status`.
fn exit(status: u32) -> Vec<u32> {
    const APPLICATION_EXIT: u32 = 0x2_0026;
    let call = semihosting(EXIT_EXTENDED, 6);
    [&call[..], &[APPLICATION_EXIT, 0, status, 0]].concat()
}

#[test]
fn a_guest_that_ends_early_has_not_succeeded() {
    let Some(qemu) = qemu_for("a_guest_that_ends_early", QemuBoard::Virt) else {
        return;
    };
    for status in [33, 35] {
        let kernel = tiny_kernel(&exit(status));
        let guest = Guest {
            kernel: &kernel,
            ..GUEST
        };
        assert!(matches!(fails(&qemu, &guest), Error::Undone));
    }
}

#[test]
fn a_guest_that_speaks_nonsense_is_quoted() {
    let Some(qemu) = qemu_for("a_guest_that_speaks_nonsense", QemuBoard::Virt) else {
        return;
    };
    let said = u32::from_le_bytes(*b"x\xff\0\0");
    let over = 0x0080_006f; // j over the text
    let code = [&semihosting(WRITE, 7)[..], &[over, said], &exit(33)].concat();
    let kernel = tiny_kernel(&code);
    let guest = Guest {
        kernel: &kernel,
        ..GUEST
    };
    let error = fails(&qemu, &guest);
    assert!(
        matches!(&error, Error::NotAReport(line) if line == "x\u{fffd}"),
        "{error}"
    );
}

#[test]
fn a_guest_that_resets_the_machine_is_reported() {
    // SBI 2.0, 10.1: extension 0x53525354 in a7, function 0 in a6, a cold reboot in a0.
    let reset = [
        0x5352_58b7, // lui a7, 0x53525
        0x3548_8893, // addi a7, a7, 0x354
        0x0000_0813, // li a6, 0
        0x0010_0513, // li a0, 1
        0x0000_0593, // li a1, 0
        0x0000_0073, // ecall
        0x0000_006f, // j here
    ];
    let kernel = tiny_kernel(&reset);
    let guest = Guest {
        kernel: &kernel,
        ..GUEST
    };
    for qemu in machines("a_guest_that_resets") {
        let error = fails(&qemu, &guest);
        assert!(matches!(error, Error::Reset), "{error}");
    }
}

#[test]
fn missing_firmware_is_reported_with_the_package_that_has_it() {
    for qemu in machines("a_machine_without_firmware") {
        let qemu_args = ["-bios", "no-such-firmware"].map(OsString::from);
        let guest = Guest {
            qemu_args: &qemu_args,
            ..GUEST
        };
        let error = fails(&qemu, &guest);
        assert!(matches!(error, Error::NoFirmware(_)), "{error}");
        let error = error.to_string();
        assert!(error.contains("opensbi"), "{error}");
        assert!(error.contains("no-such-firmware"), "{error}");
        assert_eq!(error.lines().count(), 1);
    }
}

#[test]
fn every_instruction_of_the_machines_windows_does_what_it_should() {
    for qemu in machines("every_instruction") {
        let work = [BusCheck.into()];
        let ran = qemu.run(
            &Guest {
                work: &work,
                ..GUEST
            },
            &LIMITS,
            Ending::Done,
            &mut |_| {},
        );
        assert_eq!(ran.unwrap().reports.last(), Some(&Report::Done));
    }
}

#[test]
fn the_drivers_example_prints_in_a_kernel() {
    let Some(qemu) = qemu_for("the_drivers_example_prints", QemuBoard::Virt) else {
        return;
    };
    let work = [Example::Console.into()];
    let ran = qemu
        .run(
            &Guest {
                work: &work,
                ..GUEST
            },
            &LIMITS,
            Ending::Done,
            &mut |_| {},
        )
        .unwrap();
    let serial = String::from_utf8_lossy(&ran.serial);
    // Behind each line's time.
    let lines = serial.split("\r\n");
    let lines = lines.map(|line| line.split_once("] ").map_or(line, |(_, text)| text));
    let expected = ["nothing stalls, 4 times", "not even now", ""];
    assert!(lines.eq(expected), "{serial}");
}

#[test]
fn the_accesses_we_count_are_the_ones_that_qemu_sees() {
    if let Some(qemu) = qemu_for("the_accesses_we_count", QemuBoard::Virt) {
        accesses::are_the_ones_that_qemu_sees(&qemu, &GUEST);
    }
}

#[test]
fn persistent_ram_outlives_a_guest_on_a_board_too() {
    let Some(qemu) = qemu_for("persistent_ram_outlives_a_guest", QemuBoard::SifiveU) else {
        return;
    };
    let guest = Guest { cpus: 4, ..GUEST };
    let (survived, _) = pstore::run(&qemu, &guest, 1).unwrap();
    assert_eq!(survived.host, survived.next_boot);
    assert!(survived.host.starts_with(&survived.writer));
    assert_eq!(survived.writer.len(), 4 + 1, "four CPUs and the merge");
    assert!(survived.panic.is_some());
}

//! The report on made machines: each is a few files of /proc and /sys.

use std::fs;
use std::io::ErrorKind;

use tempfile::TempDir;

use super::report::{Report, Verdict};
use super::system::System;
use super::{examine, text};

/// Files of a machine, each with its text.
type Files<'a> = &'a [(&'a str, &'a str)];

fn report(files: &[Files]) -> Report {
    let dir = TempDir::new().unwrap();
    for (file, text) in files.iter().copied().flatten() {
        let file = dir.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    examine(&System::new(dir.path()))
}

/// The reason and verdict of the path with that name, and its remedies' texts.
fn of(report: &Report, path: &str) -> (Verdict, String, Vec<String>) {
    let finding = report.paths.iter().find(|finding| finding.path == path);
    let finding = finding.unwrap_or_else(|| panic!("{path}: {}", text::all(report)));
    let remedies = report.remedies.iter().filter(|remedy| remedy.path == path);
    let texts = remedies.map(|remedy| format!("{} {}", remedy.text, remedy.commands.join(" ")));
    (finding.verdict, finding.reason.clone(), texts.collect())
}

/// Asserts that the texts are in this order in `all`.
fn in_order(all: &[String], texts: &[&str]) {
    let places = texts.iter().map(|text| {
        let place = all.iter().position(|one| one.contains(text));
        place.unwrap_or_else(|| panic!("{text}: {all:#?}"))
    });
    let places: Vec<_> = places.collect();
    assert!(places.is_sorted(), "{places:?}: {all:#?}");
    assert_eq!(all.len(), texts.len(), "{all:#?}");
}

const METAL: Files = &[
    ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme\n"),
    ("proc/sys/kernel/watchdog_thresh", "10\n"),
    ("proc/sys/kernel/printk", "7\t4\t1\t7\n"),
    (
        "proc/cmdline",
        "root=/dev/sda1 console=tty0 console=ttyS0,115200n8\n",
    ),
    (
        "proc/consoles",
        "ttyS0                -W- (EC p a)    4:64\n",
    ),
    ("sys/bus/pci/devices/0000:00:00.0/config", ""),
];

const GUEST: Files = &[
    ("proc/cpuinfo", "flags\t\t: fpu hypervisor vme\n"),
    ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
    (
        "sys/class/dmi/id/product_name",
        "Standard PC (Q35 + ICH9, 2009)\n",
    ),
    ("proc/sys/kernel/printk", "4\t4\t1\t7\n"),
];

const PORT: Files = &[
    ("sys/class/tty/ttyS0/type", "4\n"),
    ("sys/class/tty/ttyS0/irq", "4\n"),
    ("sys/class/tty/ttyS0/xmit_fifo_size", "16\n"),
    ("sys/class/tty/ttyS0/uartclk", "1843200\n"),
    ("sys/class/tty/ttyS0/console", "Y\n"),
];

const V6_1: Files = &[("proc/sys/kernel/osrelease", "6.1.0-56-amd64\n")];
const OPEN: Files = &[(
    "proc/interrupts",
    "       CPU0\n  4:  40  IO-APIC  4-edge  ttyS0\n",
)];
const CLOSED: Files = &[(
    "proc/interrupts",
    "       CPU0\n  1:  40  IO-APIC  1-edge  i8042\n",
)];

#[test]
fn a_real_line_of_6_1_stalls_its_caller() {
    let report = report(&[METAL, PORT, V6_1, CLOSED]);
    let (verdict, reason, remedies) = of(&report, "console ttyS0");
    assert_eq!(verdict, Verdict::Stalls);
    for part in [
        "115,200 baud, 16550A, Linux 6.1. printk's caller pays",
        "A byte takes 86.8 us; a panic of 200 lines of 70 bytes holds the CPU 1.22 s.",
        "After 230 KB without a pause,",
        "reaches the 20 s of the soft lock-up watchdog.",
        "not used: no program has opened the port yet.",
        "Messages of the levels 0 to 6 are printed.",
    ] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    let order = ["dmesg -n 4", "PREEMPT_RT", "true >/dev/ttyS0", "echo N >"];
    in_order(&remedies, &order);
    let (verdict, reason, _) = of(&report, "PCI");
    assert_eq!(verdict, Verdict::Fine, "{reason}");
    assert!(reason.contains("1 function, 0 with 4,096"), "{reason}");
    assert_eq!(of(&report, "SPI").0, Verdict::Absent);
    let (verdict, _, remedies) = of(&report, "crash records");
    assert_eq!(verdict, Verdict::Absent);
    in_order(&remedies, &["nostall pstore plan --size 1M --cpus N"]);
}

#[test]
fn an_opened_port_uses_its_fifo_only_since_5_19_and_without_flow_control() {
    let release = "proc/sys/kernel/osrelease";
    let flow = ("proc/cmdline", "console=ttyS0,115200n8r");
    for (files, says) in [
        (&[][..], ""),
        (&[(release, "5.18.19\n")][..], "since 5.19"),
        (&[(release, "5.19.0\n")], ""),
        (
            &[(release, "5.14.0-427.el9.x86_64\n")],
            "not known: Red Hat's",
        ),
        (&[(release, "oddly\n")], "not known: the kernel's version"),
        (&[flow], "flow control is on"),
        (
            &[("sys/class/tty/ttyS0/xmit_fifo_size", "1\n")],
            "the port has none",
        ),
        (
            &[("sys/class/tty/ttyS0/xmit_fifo_size", "?")],
            "its depth is not known",
        ),
        (
            &[("proc/interrupts", " 4:  1  x  ttyS2\n")],
            "has opened the port is not known",
        ),
        (&[("proc/interrupts", " 4:  1  x  ttyS2, ttyS0\n")], ""),
        (
            &[("sys/class/tty/ttyS0/irq", "0\n")],
            "has opened the port is not known",
        ),
        (
            &[(
                "sys/class/tty/ttyS0/device/of_node/compatible",
                "brcm,bcm2835-aux-uart\0",
            )],
            "mini UART",
        ),
    ] {
        let report = report(&[METAL, PORT, V6_1, OPEN, files]);
        let (_, reason, _) = of(&report, "console ttyS0");
        assert_eq!(
            reason.contains("FIFO"),
            !says.is_empty(),
            "{files:?}: {reason}"
        );
        assert!(reason.contains(says), "{files:?}: {reason}");
    }
}

#[test]
fn a_rate_is_that_of_the_option_or_linux_s_default_and_else_not_known() {
    let tree = "sys/firmware/devicetree/base/chosen/stdout-path";
    for (files, says) in [
        (
            &[("proc/cmdline", "console=ttyS0")][..],
            "9,600 baud (Linux's default",
        ),
        (&[("proc/cmdline", "quiet")], "9,600 baud (Linux's default"),
        (
            &[("proc/cmdline", "console=ttyS0,9600 console=ttyS0,57600o7")],
            "57,600 baud, 16550A",
        ),
        (&[("proc/cmdline", "console=ttyS01,9600")], "Rate not known"),
        (
            &[("proc/cmdline", "console=ttyS0,0")],
            "9,600 baud (Linux's default",
        ),
        (
            &[("proc/cmdline", ""), (tree, "serial0:19200n8\0")],
            "19,200 baud (device tree)",
        ),
        (
            &[("proc/cmdline", ""), (tree, "serial0\0")],
            "Rate not known",
        ),
        (
            &[("proc/cmdline", ""), ("sys/firmware/acpi/tables/SPCR", "")],
            "Rate not known",
        ),
    ] {
        let report = report(&[METAL, PORT, V6_1, files]);
        let (verdict, reason, remedies) = of(&report, "console ttyS0");
        assert!(reason.starts_with(says), "{files:?}: {reason}");
        let is_known = !says.starts_with("Rate");
        assert_eq!(verdict == Verdict::Stalls, is_known, "{files:?}");
        let faster = remedies
            .iter()
            .any(|text| text.contains("console=ttyS0,115200n8"));
        assert_eq!(faster, is_known, "{remedies:?}");
    }
}

#[test]
fn a_thread_prints_with_preempt_rt_since_6_12_or_an_nbcon_driver() {
    let rt = (
        "proc/sys/kernel/version",
        "#1 SMP PREEMPT_RT Debian 6.12.117-1\n",
    );
    let patched = ("sys/kernel/realtime", "1\n");
    let nbcon = (
        "proc/consoles",
        "ttyS0                -W- (EC Np a)    4:64\n",
    );
    let release = "proc/sys/kernel/osrelease";
    for (files, says) in [
        (
            &[rt, (release, "6.12.117-rt-amd64\n")][..],
            Some("The thread pr/legacy prints"),
        ),
        (
            &[nbcon, (release, "7.3.4-amd64\n")],
            Some("The console's own thread prints"),
        ),
        (&[patched, (release, "6.1.0-rt\n")], None),
        (&[(release, "6.12.0\n")], None),
    ] {
        let report = report(&[METAL, PORT, V6_1, files]);
        let (verdict, reason, remedies) = of(&report, "console ttyS0");
        assert_eq!(
            verdict == Verdict::Fine,
            says.is_some(),
            "{files:?}: {reason}"
        );
        assert!(reason.contains(says.unwrap_or("caller pays")), "{reason}");
        assert_eq!(remedies.is_empty(), says.is_some(), "{remedies:?}");
        assert!(
            reason.contains("holds the CPU 1.22 s"),
            "a panic waits: {reason}"
        );
        assert_eq!(reason.contains("soft lock-up"), says.is_none(), "{reason}");
    }
}

#[test]
fn an_emulated_port_costs_exits() {
    let q35: Files = &[
        ("proc/cmdline", "console=ttyS0,115200"),
        (
            "proc/consoles",
            "ttyS0                -W- (EC p a)    4:64\n",
        ),
        (
            "proc/iomem",
            "b0000000-bfffffff : PCI MMCONFIG 0000 [bus 00-ff]\n",
        ),
        (
            "proc/tty/driver/serial",
            "serinfo:1.0\n0: uart:16550A port:3F8 irq:4 tx:1234 rx:0\n",
        ),
    ];
    let made = report(&[GUEST, PORT, V6_1, OPEN, METAL, GUEST, q35]);
    let (verdict, reason, remedies) = of(&made, "console ttyS0");
    assert_eq!(verdict, Verdict::Costs);
    assert!(
        reason.contains("about 1.06 exits to the host a byte"),
        "{reason}"
    );
    assert!(reason.contains("takes 14,882 exits"), "{reason}");
    assert!(reason.contains("programs sent 1,234 bytes"), "{reason}");
    in_order(&remedies, &["console=hvc0", "PREEMPT_RT", "echo N >"]);
    let (verdict, reason, remedies) = of(&made, "PCI");
    assert_eq!(verdict, Verdict::Costs);
    assert!(reason.contains("There is a window"), "{reason}");
    in_order(&remedies, &["prefers memory in guests"]);

    let pc: Files = &[("proc/iomem", "00000000-00000fff : Reserved\n")];
    let made = report(&[GUEST, METAL, GUEST, pc]);
    in_order(&of(&made, "PCI").2, &["-machine q35", "prefers memory"]);
    let off: Files = &[("proc/cmdline", "pci=noacpi,nommconf")];
    let made = report(&[GUEST, METAL, GUEST, pc, off]);
    in_order(&of(&made, "PCI").2, &["pci=nommconf", "prefers memory"]);
}

#[test]
fn a_microvm_with_a_virtio_console_has_neither_line_nor_pci() {
    let hvc: Files = &[(
        "proc/consoles",
        "hvc0                 -W- (EC  p  )  229:0\n",
    )];
    let report = report(&[&GUEST[..1], V6_1, hvc]);
    let (verdict, reason, _) = of(&report, "console hvc0");
    assert_eq!(verdict, Verdict::Costs);
    assert!(reason.contains("one exit for each 16 bytes"), "{reason}");
    assert_eq!(of(&report, "PCI").0, Verdict::Absent);
}

#[test]
fn an_arm64_board_has_a_pl011_and_no_ports() {
    let board: Files = &[
        ("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\n"),
        (
            "proc/consoles",
            "ttyAMA0              -W- (EC   a)  204:64\n",
        ),
        ("proc/cmdline", "console=ttyAMA0"),
        ("sys/bus/pci/devices/0000:00:00.0/config", ""),
    ];
    let made = report(&[board, V6_1]);
    let (verdict, reason, _) = of(&made, "console ttyAMA0");
    assert_eq!(verdict, Verdict::Unknown, "the firmware's rate: {reason}");
    assert!(
        reason.starts_with("Rate not known, PL011, Linux 6.1."),
        "{reason}"
    );
    assert_eq!(of(&made, "PCI").0, Verdict::Unknown);

    let virt: Files = &[
        (
            "sys/firmware/devicetree/base/compatible",
            "linux,dummy-virt\0",
        ),
        ("proc/iomem", "4010000000-401fffffff : PCI ECAM\n"),
    ];
    let made = report(&[board, V6_1, virt]);
    let (verdict, reason, _) = of(&made, "console ttyAMA0");
    assert_eq!(verdict, Verdict::Costs);
    assert!(reason.contains("takes 2 exits"), "{reason}");
    let (verdict, reason, remedies) = of(&made, "PCI");
    assert_eq!(verdict, Verdict::Costs);
    assert!(reason.contains("A read takes 1 exit"), "{reason}");
    in_order(&remedies, &["A host that maps the window"]);
}

#[test]
fn the_spi_worker_is_judged_by_version_and_counters() {
    let release = "proc/sys/kernel/osrelease";
    for (version, sync, immediate, verdict, says) in [
        (
            "5.10.0",
            "1000",
            "990",
            Verdict::Costs,
            "99.0 % of the 1,000 synchronous",
        ),
        (
            "6.1.0",
            "1000",
            "990",
            Verdict::Fine,
            "needs no worker thread",
        ),
        ("6.1.0", "1000", "10", Verdict::Costs, "1.0 % of the 1,000"),
        ("6.1.0", "0", "0", Verdict::Fine, "none was synchronous"),
        ("?", "1000", "990", Verdict::Unknown, "is not known"),
        ("6.1.0", "?", "990", Verdict::Unknown, "cannot be read"),
    ] {
        let folder = "sys/class/spi_master/spi0/statistics";
        let [messages, syncs, immediates, errors] =
            ["messages", "spi_sync", "spi_sync_immediate", "errors"]
                .map(|name| format!("{folder}/{name}"));
        let report = report(&[&[
            (&*messages, "1200\n"),
            (&*syncs, sync),
            (&*immediates, immediate),
            (&*errors, "3\n"),
            (release, version),
        ]]);
        let (is, reason, remedies) = of(&report, "SPI spi0");
        assert_eq!(is, verdict, "{version}: {reason}");
        assert!(reason.contains(says), "{version}: {reason}");
        assert_eq!(remedies.is_empty(), version != "5.10.0", "{remedies:?}");
    }
}

#[test]
fn ramoops_costs_only_parity_of_traces() {
    let folder = "sys/module/ramoops/parameters";
    let names = ["mem_size", "ftrace_size", "ecc"].map(|name| format!("{folder}/{name}"));
    for (ftrace, ecc, verdict) in [
        ("0", "16", Verdict::Fine),
        ("4096", "0", Verdict::Fine),
        ("4096", "16", Verdict::Costs),
    ] {
        let report = report(&[&[
            ("sys/module/pstore/parameters/backend", "ramoops\n"),
            (&*names[0], "1048576\n"),
            (&*names[1], ftrace),
            (&*names[2], ecc),
            ("sys/fs/pstore/dmesg-ramoops-0", ""),
        ]]);
        let (is, reason, remedies) = of(&report, "crash records");
        assert_eq!(is, verdict, "{reason}");
        assert!(reason.contains("mem_size 1,048,576"), "{reason}");
        assert!(reason.contains("1 file of earlier crashes"), "{reason}");
        assert_eq!(remedies.len(), usize::from(verdict == Verdict::Costs));
    }
    for (backend, verdict) in [
        ("(null)", Verdict::Absent),
        ("efi_pstore", Verdict::Unknown),
    ] {
        let cpus = ("sys/devices/system/cpu/possible", "0-3\n");
        let report = report(&[&[("sys/module/pstore/parameters/backend", backend), cpus]]);
        let (is, _, remedies) = of(&report, "crash records");
        assert_eq!(is, verdict);
        in_order(&remedies, &["--cpus 4"]);
    }
}

#[test]
fn other_consoles_are_named_and_not_judged() {
    let consoles = "tty0                 -WU (EC  p  )    4:1\n\
                    netcon0              -W- (E      )\n\
                    ramoops-1            -W- (E  p a )\n\
                    ttyS1                -W- (   p a )    4:65\n\
                    lp0                  -W- (E      )\n\
                    ttyS0/..             -W- (E      )\n\
                    uart0                -W- (E  Bp  )\n";
    let backend = ("sys/module/pstore/parameters/backend", "ramoops");
    let report = report(&[METAL, &[("proc/consoles", consoles), backend]]);
    for (path, says) in [
        ("console tty0", "The screen's"),
        ("console netcon0", "The network console"),
        ("console ramoops-1", "pstore's console"),
        ("console lp0", "does not know"),
        ("console ttyS0/..", "does not know"),
    ] {
        let (verdict, reason, _) = of(&report, path);
        assert_eq!(verdict, Verdict::Unknown);
        assert!(reason.contains(says), "{reason}");
    }
    let (verdict, _, remedies) = of(&report, "console uart0");
    assert_eq!(verdict, Verdict::Stalls);
    in_order(&remedies, &["keep_bootcon"]);
    assert!(
        report
            .paths
            .iter()
            .all(|finding| finding.path != "console ttyS1")
    );
}

#[test]
fn a_machine_without_files_is_unknown_and_no_error() {
    let report = report(&[]);
    let text = text::all(&report);
    let first = "Linux of unknown release, on real hardware or a virtual machine, which";
    assert!(text.starts_with(first), "{text}");
    assert_eq!(of(&report, "console").0, Verdict::Unknown);
    assert!(report.missing.is_empty());
}

#[test]
fn a_file_that_only_root_may_read_is_named_once_with_its_answer() {
    let system = System::new("/nonexistent");
    for kind in [ErrorKind::PermissionDenied, ErrorKind::NotFound] {
        for _ in 0..2 {
            system.note("proc/tty/driver/serial", &kind.into(), "the bytes");
        }
    }
    let text = text::all(&examine(&system));
    let end = "\nNot known, because only root may read the file:\n  the bytes \
               (/proc/tty/driver/serial)\n";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn hostile_files_neither_control_the_terminal_nor_break_its_lines() {
    let long = "x".repeat(300);
    let console = format!("{long}\x1b[2J -W- (EC) \nttyS0 -W- (EC)\nttyS../.. -W- (E)\n() (\n");
    let huge = "9".repeat(400);
    let rate = format!("console=ttyS0,{huge} console=ttyS0,18446744073709551615n8");
    let files: Files = &[
        ("proc/consoles", &console),
        ("proc/cmdline", &rate),
        ("proc/sys/kernel/osrelease", "4294967296.\u{202e}1\n"),
        ("proc/sys/kernel/watchdog_thresh", "18446744073709551615"),
        ("proc/sys/kernel/printk", &huge),
        ("sys/class/dmi/id/sys_vendor", &long),
        ("sys/class/tty/ttyS0/type", "18446744073709551615"),
        ("sys/class/tty/ttyS0/uartclk", "0xffffffffffffffff"),
        (
            "sys/class/spi_master/spi0/statistics/messages",
            "18446744073709551615",
        ),
        ("sys/class/spi_master/spi0/statistics/spi_sync", "1"),
        (
            "sys/class/spi_master/spi0/statistics/spi_sync_immediate",
            "18446744073709551615",
        ),
        (
            "sys/class/spi_master/spi0/statistics/errors",
            "18446744073709551615",
        ),
        (
            "sys/class/spi_master/spi0/statistics/timedout",
            "18446744073709551615",
        ),
        ("sys/devices/system/cpu/possible", "0-4294967295"),
        ("proc/interrupts", ":\n::\n4:"),
        ("sys/fs/pstore/a\u{1b}b", ""),
    ];
    let report = report(&[METAL, PORT, files]);
    let text = text::all(&report);
    assert!(
        text.chars()
            .all(|c| c == '\n' || (c.is_ascii() && !c.is_ascii_control())),
        "{text}"
    );
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    serde_json::to_string(&report).unwrap();
}

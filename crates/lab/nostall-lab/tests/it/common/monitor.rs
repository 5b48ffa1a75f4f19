//! A guest's view of PCI, compared with QEMU's monitor.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use nostall_vm::qemu::QemuBoard;
use nostall_work::Report;
use nostall_work::pci::{FoundBarKind, FoundFunction, JobResult, Method};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::pauses::pause_until;

/// Root ports, two of them in one device; virtio functions behind and beside them; a device of
/// three functions with a gap.
pub const ROOT_PORTS: &[&str] = &[
    "pcie-root-port,id=port0,chassis=1,addr=5.0,multifunction=on",
    "pcie-root-port,id=port1,chassis=2,addr=5.1",
    "virtio-net-pci,id=net,bus=port0",
    "virtio-rng-pci,id=rng,addr=6.0,multifunction=on",
    "virtio-balloon-pci,id=balloon,addr=6.2",
    "qemu-xhci,id=usb,addr=6.7",
];

/// A switch with three ports, one of them empty, behind a root port.
pub const SWITCH: &[&str] = &[
    "pcie-root-port,id=root,chassis=1",
    "x3130-upstream,id=up,bus=root",
    "xio3130-downstream,id=down0,bus=up,chassis=2,addr=0",
    "xio3130-downstream,id=down1,bus=up,chassis=3,addr=1",
    "xio3130-downstream,id=down2,bus=up,chassis=4,addr=2",
    "e1000e,id=e1000e,bus=down0",
    "virtio-rng-pci,id=rng,bus=down2",
];

/// Conventional buses: behind a bridge from PCI Express, behind one of the chipset's, and
/// another one behind those.
pub const CONVENTIONAL: &[&str] = &[
    "pcie-root-port,id=root,chassis=1",
    "pcie-pci-bridge,id=pci,bus=root",
    "e1000,id=e1000,bus=pci,addr=3",
    "pci-bridge,id=below,bus=pci,chassis_nr=2,addr=4",
    "rtl8139,id=rtl,bus=below,addr=1f.0",
    "i82801b11-bridge,id=dmi",
    "pci-bridge,id=further,bus=dmi,chassis_nr=3,addr=1",
    "virtio-rng-pci,id=rng,bus=further,addr=2",
    "bochs-display,id=display",
];

/// A QEMU process that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the kernel, and the arguments for its machine with reports in `reports`.
fn machine(of: QemuBoard) -> (&'static [u8], &'static [&'static str]) {
    match of {
        QemuBoard::Virt => (
            include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL_RISCV64")),
            &[
                "-machine",
                "virt",
                "-semihosting-config",
                "enable=on,target=native,chardev=reports",
            ],
        ),
        QemuBoard::ArmVirt | QemuBoard::ArmVirtPl011 => (
            include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL_AARCH64")),
            &[
                "-machine",
                "virt",
                "-cpu",
                "cortex-a72",
                "-semihosting-config",
                "enable=on,target=native,chardev=reports",
            ],
        ),
        _ => (
            include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL")),
            &[
                "-machine",
                "q35",
                "-device",
                "isa-debugcon,chardev=reports,iobase=0xe9",
                "-device",
                "isa-debug-exit,iobase=0xf4,iosize=4",
            ],
        ),
    }
}

/// Returns the guest's reports, and the monitor's view of its devices afterwards.
pub fn both(
    of: QemuBoard,
    devices: &[&str],
    more: &[&str],
    work: &str,
) -> (Vec<JobResult>, Vec<Value>) {
    let dir = TempDir::new().unwrap();
    let (kernel, reports) = (dir.path().join("kernel"), dir.path().join("reports"));
    let (content, machine) = machine(of);
    fs::write(&kernel, content).unwrap();
    let mut command = Command::new(of.architecture().program());
    command
        .args(["-accel", "tcg", "-m", "128M"])
        .args([
            "-nodefaults",
            "-no-user-config",
            "-no-reboot",
            "-display",
            "none",
        ])
        .args(["-append", &format!("{work} fail:hang"), "-kernel"])
        .arg(&kernel)
        .args([
            "-chardev",
            &format!("file,id=reports,path={}", reports.display()),
        ])
        .args(machine)
        .args(["-qmp", "stdio"]);
    for device in devices {
        command.args(["-device", device]);
    }
    let qemu = command
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut qemu = Running(qemu.unwrap());
    let mut so_far = String::new();
    let has_ended = pause_until(|| {
        so_far = fs::read_to_string(&reports).unwrap_or_default();
        let ended = qemu.0.try_wait().unwrap();
        assert!(ended.is_none(), "QEMU ended with {ended:?}: {so_far}");
        so_far.contains("compared") && so_far.ends_with('\n')
    });
    assert!(has_ended, "no end: {so_far}");
    (results(&so_far), query_pci(&mut qemu.0))
}

fn results(reports: &str) -> Vec<JobResult> {
    let reports = reports
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let result = reports.filter_map(|report| match report {
        Report::Result { result, .. } => Some(result),
        Report::Ready { .. } => None,
        other => panic!("{other:?}"),
    });
    result.collect()
}

/// Returns the monitor's `query-pci`: the devices of all root buses.
fn query_pci(qemu: &mut Child) -> Vec<Value> {
    let mut to = qemu.stdin.take().unwrap();
    for command in ["qmp_capabilities", "query-pci"] {
        writeln!(to, "{}", json!({ "execute": command })).unwrap();
    }
    let lines = BufReader::new(qemu.stdout.take().unwrap()).lines();
    let answers = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let mut answers = answers.filter(|answer| answer["return"].is_array());
    let buses = answers.next().unwrap();
    let buses = buses["return"].as_array().unwrap().iter();
    buses
        .flat_map(|bus| bus["devices"].as_array().unwrap().clone())
        .collect()
}

/// The properties of a function that the monitor shows.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown {
    pub vendor: u64,
    pub device: u64,
    pub class: u64,
    pub subsystem: Option<(u64, u64)>,
    /// Primary, secondary, subordinate.
    pub buses: Option<[u64; 3]>,
    /// A bridge's windows: I/O, memory, prefetchable memory.
    pub windows: Option<[Option<(u64, u64)>; 3]>,
    /// Each BAR. Its address is `None` if the function does not decode it.
    pub bars: BTreeMap<u64, Region>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Region {
    pub io: bool,
    pub prefetch: bool,
    pub wide: bool,
    pub size: u64,
    pub address: Option<u64>,
}

pub type Place = (u64, u64);

/// Adds each function of the monitor's tree, by bus and by device and function.
fn shown(devices: &[Value], all: &mut BTreeMap<Place, Shown>, names: &mut Vec<String>) {
    for device in devices {
        let number = |value: &Value| value.as_u64().unwrap();
        let devfn = number(&device["slot"]) << 3 | number(&device["function"]);
        let place = (number(&device["bus"]), devfn);
        let bridge = device.get("pci_bridge");
        let id = &device["id"];
        let bars = device["regions"].as_array().unwrap().iter().map(|region| {
            let io = region["type"] == "io";
            let place = match (number(&region["bar"]), bridge) {
                (6, Some(_)) => 0x38,
                (6, None) => 0x30,
                (n, _) => 0x10 + 4 * n,
            };
            let shown = Region {
                io,
                prefetch: region["prefetch"] == true,
                wide: region["mem_type_64"] == true,
                size: number(&region["size"]),
                address: region["address"]
                    .as_i64()
                    .filter(|at| *at > 0)
                    .map(|at| at as u64),
            };
            (place, shown)
        });
        let shown_here = Shown {
            vendor: number(&id["vendor"]),
            device: number(&id["device"]),
            class: number(&device["class_info"]["class"]),
            subsystem: id
                .get("subsystem")
                .map(|subsystem| (number(&id["subsystem-vendor"]), number(subsystem))),
            buses: bridge.map(|bridge| {
                ["number", "secondary", "subordinate"].map(|name| number(&bridge["bus"][name]))
            }),
            windows: bridge.map(|bridge| {
                ["io_range", "memory_range", "prefetchable_range"].map(|name| {
                    let range = &bridge["bus"][name];
                    let (base, limit) = (number(&range["base"]), number(&range["limit"]));
                    (base <= limit).then_some((base, limit))
                })
            }),
            bars: bars.collect(),
        };
        assert!(all.insert(place, shown_here).is_none(), "{place:?} twice");
        names.push(device["qdev_id"].as_str().unwrap().to_owned());
        if let Some(below) = bridge.and_then(|bridge| bridge["devices"].as_array()) {
            shown(below, all, names);
        }
    }
}

/// Returns the same properties from the guest's report, as far as `monitor` shows them.
fn as_shown(found: &FoundFunction, monitor: &Shown) -> Shown {
    let bars = found.bars.iter().map(|bar| {
        let register = u64::from(bar.register);
        // The monitor shows no address for a BAR that is not decoded.
        let answers = monitor
            .bars
            .get(&register)
            .is_some_and(|bar| bar.address.is_some());
        let region = Region {
            io: bar.kind == FoundBarKind::Io,
            prefetch: bar.kind == FoundBarKind::Prefetchable,
            wide: bar.bits > 32,
            size: bar.size,
            address: answers.then_some(bar.address),
        };
        (register, region)
    });
    Shown {
        vendor: found.vendor.into(),
        device: found.device.into(),
        class: u64::from(found.class >> 8),
        subsystem: found
            .subsystem
            .filter(|_| monitor.subsystem.is_some())
            .map(|(vendor, device)| (vendor.into(), device.into())),
        buses: found.buses.map(|(primary, secondary, subordinate)| {
            [primary, secondary, subordinate].map(u64::from)
        }),
        windows: found.buses.map(|_| found.windows),
        bars: bars.collect(),
    }
}

pub fn functions(result: &[JobResult], by: Method) -> Vec<&FoundFunction> {
    let functions = result.iter().filter_map(|result| match result {
        JobResult::Function { method, found } if *method == by => Some(found),
        _ => None,
    });
    functions.collect()
}

/// Returns every function that the monitor shows, by its place. Asserts that `devices` are among
/// them.
pub fn all_shown(monitor: &[Value], devices: &[&str]) -> BTreeMap<Place, Shown> {
    let (mut all, mut names) = (BTreeMap::new(), Vec::new());
    shown(monitor, &mut all, &mut names);
    for device in devices {
        let id = device
            .split(',')
            .find_map(|word| word.strip_prefix("id="))
            .unwrap();
        assert!(
            names.iter().any(|name| name == id),
            "{id} is not in {names:?}"
        );
    }
    all
}

/// Checks that the guest's tree equals the monitor's, with each of these methods.
pub fn check(result: &[JobResult], all: &BTreeMap<Place, Shown>, methods: &[Method]) {
    for &method in methods {
        let found = functions(result, method);
        let places = |found: &FoundFunction| (u64::from(found.bus), u64::from(found.devfn));
        let found: BTreeMap<_, _> = found
            .into_iter()
            .map(|found| (places(found), found))
            .collect();
        assert!(
            found.keys().eq(all.keys()),
            "{method:?}: {found:x?} and {all:x?}"
        );
        for (place, found) in found {
            let monitor = &all[&place];
            assert_eq!(as_shown(found, monitor), *monitor, "{method:?} {place:x?}");
        }
    }
    assert!(
        result
            .iter()
            .any(|result| matches!(result, JobResult::Compared { equal: true }))
    );
    assert!(
        !result
            .iter()
            .any(|result| matches!(result, JobResult::Fault { .. }))
    );
}

/// Checks that the `virtio-drivers` crate finds the same functions as we do.
pub fn check_virtio_drivers(result: &[JobResult]) {
    let theirs: Vec<_> = result
        .iter()
        .filter_map(|result| match result {
            JobResult::VirtioDrivers {
                bus,
                devfn,
                vendor,
                device,
                class,
            } => Some((*bus, *devfn, *vendor, *device, *class)),
            _ => None,
        })
        .collect();
    let mut ours: Vec<_> = functions(result, Method::Auto)
        .iter()
        .map(|found| {
            (
                found.bus,
                found.devfn,
                found.vendor,
                found.device,
                found.class,
            )
        })
        .collect();
    ours.sort_unstable();
    assert_eq!(theirs, ours);
}

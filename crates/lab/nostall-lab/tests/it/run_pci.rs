//! `nostall-lab run pci`: the guest finds the machine's functions with each method, and its accesses
//! and exits are counted.

use crate::common::monitor;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::qemu;
use assert_cmd::cargo::cargo_bin;
use monitor::{CONVENTIONAL, ROOT_PORTS, SWITCH, functions};
use nostall_lab::experiments::pci::run::{
    self as pci, AccessStrategy, PciPlan, PciSurvey, SurveyedFunction,
};
use nostall_lab::experiments::pci::{kvm as pci_on_kvm, model};
use nostall_vm::Guest;
use nostall_vm::qemu::QemuBoard;
use nostall_work::pci::{FoundBarKind, JobResult, Method, Operation};
use serde_json::{Value, json};
use tempfile::TempDir;

static KERNEL: &[u8] = include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL"));

/// The four functions of a Q35 PC itself.
const Q35: [(u8, u16); 4] = [
    (0x00, 0x29c0),
    (0xf8, 0x2918),
    (0xfa, 0x2922),
    (0xfb, 0x2930),
];

/// Returns the guest's reports on a PC, and the monitor's view of its devices afterwards.
fn both(devices: &[&str], more: &[&str], work: &str) -> (Vec<JobResult>, Vec<Value>) {
    monitor::both(QemuBoard::Q35, devices, more, work)
}

/// Checks that the guest's tree equals the monitor's with each method, and has every device of
/// `devices`.
fn check(result: &[JobResult], monitor: &[Value], devices: &[&str]) {
    let all = monitor::all_shown(monitor, devices);
    assert_eq!(all.len(), Q35.len() + devices.len());
    monitor::check(result, &all, &[Method::Ports, Method::Ecam, Method::Auto]);
}

#[test]
fn root_ports_and_many_functions_are_found_as_the_monitor_shows_them() {
    if qemu("root_ports").is_none() {
        return;
    }
    let (result, monitor) = both(ROOT_PORTS, &[], "pci:enumerate");
    check(&result, &monitor, ROOT_PORTS);
}

#[test]
fn a_switch_is_found_as_the_monitor_shows_it() {
    if qemu("a_switch").is_none() {
        return;
    }
    let (result, monitor) = both(SWITCH, &[], "pci:enumerate");
    check(&result, &monitor, SWITCH);
}

#[test]
fn conventional_buses_are_found_as_the_monitor_shows_them() {
    if qemu("conventional_buses").is_none() {
        return;
    }
    let (result, monitor) = both(CONVENTIONAL, &[], "pci:enumerate");
    check(&result, &monitor, CONVENTIONAL);
}

/// Returns the guest's environment and its choice of methods.
fn choice(result: &[JobResult]) -> (&str, bool, Option<Method>, &str) {
    let machine = result.iter().find_map(|result| match result {
        JobResult::Machine {
            environment,
            ecam_first,
            chosen,
            why,
        } => Some((environment.as_str(), *ecam_first, *chosen, why.as_str())),
        _ => None,
    });
    machine.unwrap()
}

#[test]
fn under_a_hypervisor_ecam_comes_first() {
    if qemu("under_a_hypervisor").is_none() {
        return;
    }
    let (result, _) = both(&[], &[], "pci:enumerate");
    let why = "ECAM first, ports for the rest; they agree about 0000:00:00.0";
    let expected = ("hypervisor TCGTCGTCGTCG", true, Some(Method::Ecam), why);
    assert_eq!(choice(&result), expected);
    let found = functions(&result, Method::Auto);
    let found: Vec<_> = found
        .iter()
        .map(|found| (found.devfn, found.device))
        .collect();
    assert_eq!(found, Q35);
}

#[test]
fn on_bare_metal_ports_come_first_and_a_reserved_window_is_believed() {
    if qemu("on_bare_metal").is_none() {
        return;
    }
    let cpu = ["-cpu", "qemu64,-hypervisor"];
    let (result, monitor) = both(SWITCH, &cpu, "pci:enumerate");
    let why = "ports first, ECAM for the rest; they agree about 0000:00:00.0";
    assert_eq!(
        choice(&result),
        ("bare metal", false, Some(Method::Ports), why)
    );
    check(&result, &monitor, SWITCH);
    let windows: Vec<_> = result
        .iter()
        .filter(|result| matches!(result, JobResult::Window { doubt: None, .. }))
        .collect();
    assert_eq!(windows.len(), 1, "{windows:?}");
}

/// Runs a PC of 1996, which has no ECAM, with an MCFG table of `entries`.
fn lie(entries: &[u8], more: &[&str]) -> Vec<JobResult> {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("mcfg");
    fs::write(&data, [&[0; 8], entries].concat()).unwrap();
    let table = format!("sig=MCFG,rev=1,data={}", data.display());
    let old = ["-machine", "pc", "-acpitable", &table];
    both(&[], &[&old[..], more].concat(), "pci:enumerate").0
}

/// Returns an entry for all buses of segment 0.
fn entry(base: u64) -> Vec<u8> {
    [&base.to_le_bytes()[..], &[0, 0, 0, 255, 0, 0, 0, 0]].concat()
}

fn falls_back(result: &[JobResult], why: &str) {
    let (_, _, chosen, said) = choice(result);
    assert_eq!((chosen, said), (Some(Method::Ports), why));
    assert!(!functions(result, Method::Ports).is_empty());
    assert!(functions(result, Method::Ecam).is_empty());
    let (ports, auto) = (
        functions(result, Method::Ports),
        functions(result, Method::Auto),
    );
    assert_eq!(ports, auto);
}

#[test]
fn a_machine_without_ecam_is_read_by_ports() {
    if qemu("a_machine_without_ecam").is_none() {
        return;
    }
    let (result, _) = both(&[], &["-machine", "pc"], "pci:enumerate");
    falls_back(&result, "ports: there is no ECAM");
    assert!(
        result.contains(&JobResult::NoWindows(nostall_work::text(format_args!(
            "ACPI has no MCFG table"
        ))))
    );
}

#[test]
fn a_table_that_lies_is_found_out_and_ports_are_used() {
    if qemu("a_table_that_lies").is_none() {
        return;
    }
    let result = lie(&entry(0xc000_0000), &[]);
    falls_back(&result, "ports: ECAM disagrees about 0000:00:00.0");
}

#[test]
fn a_damaged_table_is_said_to_be_damaged_and_ports_are_used() {
    if qemu("a_damaged_table").is_none() {
        return;
    }
    let twice = [entry(0xc000_0000), entry(0xd000_0000)].concat();
    for (entries, why) in [
        (&entry(0xc000_0000)[..15], "ACPI's MCFG table is cut off"),
        (&[], "ACPI's MCFG table has no entries"),
        (&entry(1), "ACPI's MCFG table has an impossible entry 0"),
        (
            &twice,
            "ACPI's MCFG table has an entry 1 that overlaps an earlier one",
        ),
    ] {
        let result = lie(entries, &[]);
        falls_back(&result, "ports: there is no ECAM");
        assert!(
            result.contains(&JobResult::NoWindows(nostall_work::text(format_args!(
                "{why}"
            ))))
        );
    }
}

#[test]
fn a_window_that_cannot_be_is_doubted_and_ports_are_used() {
    if qemu("a_window_that_cannot_be").is_none() {
        return;
    }
    let bare = ["-cpu", "qemu64,-hypervisor"];
    for (base, more, why) in [
        (
            0xc000_0000,
            &bare[..],
            "the ECAM window is not reserved by the firmware's memory map from 0xc0000000 on",
        ),
        (
            1 << 60,
            &[],
            "the ECAM window is beyond addresses of 40 bits",
        ),
        (
            1 << 36,
            &[],
            "the ECAM window shares a page with RAM, or is beyond the 4 GiB that this kernel maps",
        ),
        (
            1 << 20,
            &[],
            "the ECAM window shares a page with RAM, or is beyond the 4 GiB that this kernel maps",
        ),
    ] {
        let result = lie(&entry(base), more);
        falls_back(&result, "ports: there is no ECAM");
        let doubt = result.iter().find_map(|result| match result {
            JobResult::Window { doubt, .. } => doubt.as_deref(),
            _ => None,
        });
        assert_eq!(doubt, Some(why));
    }
}

#[test]
fn the_monitor_shows_the_newly_assigned_addresses() {
    if qemu("the_monitor_shows_the_newly_assigned_addresses").is_none() {
        return;
    }
    // Other addresses than the firmware's. The second assignment changes nothing.
    let assign = "pci:assign:c0000000:f0000000:4000000000:8000000000";
    for devices in [ROOT_PORTS, SWITCH, CONVENTIONAL] {
        let (result, monitor) = both(devices, &[], &format!("{assign} {assign} pci:enumerate"));
        check(&result, &monitor, devices);
        let assigned: Vec<_> = result
            .iter()
            .filter(|result| matches!(result, JobResult::Assigned { left: 0, .. }))
            .collect();
        assert_eq!(assigned.len(), 2);
        assert_eq!(assigned[0], assigned[1]);
        let places = |kind| {
            let found = functions(&result, Method::Ecam);
            let bars = found.into_iter().flat_map(|found| &found.bars);
            let bars = bars.filter(move |bar| bar.kind == kind);
            bars.map(|bar| bar.address).collect::<Vec<_>>()
        };
        assert!(
            places(FoundBarKind::Memory)
                .iter()
                .all(|at| (0xc000_0000..0xf000_0000).contains(at))
        );
        assert!(
            places(FoundBarKind::Io)
                .iter()
                .all(|at| (0x1000..0x1_0000).contains(at))
        );
    }
}

#[test]
fn virtio_drivers_finds_the_same_by_our_access() {
    if qemu("virtio_drivers").is_none() {
        return;
    }
    for devices in [ROOT_PORTS, SWITCH, CONVENTIONAL] {
        let (result, _) = both(devices, &[], "pci:virtio-drivers pci:enumerate");
        monitor::check_virtio_drivers(&result);
        let ours = functions(&result, Method::Auto);
        assert_eq!(ours.len(), Q35.len() + devices.len());
    }
}

/// Reads and writes of one round, and rounds, as in the command.
const READ: Operation = Operation::Read(1_000);
const WRITE: Operation = Operation::Write(500);

/// Returns every operation with each of these strategies, once.
fn all(strategies: &[AccessStrategy]) -> Vec<(Operation, AccessStrategy)> {
    let operations = [READ, WRITE, Operation::Scan, Operation::Init];
    operations
        .into_iter()
        .flat_map(|operation| strategies.iter().map(move |by| (operation, *by)))
        .filter(|(operation, by)| {
            matches!(operation, Operation::Read(_) | Operation::Write(_))
                || *by != AccessStrategy::Ram
        })
        .collect()
}

/// Bus accesses, and exits where they are counted, of one measuring.
fn counts(
    survey: &PciSurvey,
    operation: Operation,
    strategy: AccessStrategy,
) -> (u64, Option<u64>) {
    let mut measurings = survey.measurings.iter();
    let one = measurings.find(|one| (one.operation, one.strategy) == (operation, strategy));
    let one = one.unwrap();
    let measured = one.measured.unwrap();
    assert_eq!(measured.faults, 0);
    (measured.bus_accesses, one.exits)
}

/// Checks for one bus access by memory and two by ports, for every operation.
fn check_counts(survey: &PciSurvey) {
    use AccessStrategy::{Ecam, Ports};
    assert_eq!(counts(survey, READ, Ports).0, 2_000);
    assert_eq!(counts(survey, READ, Ecam).0, 1_000);
    assert_eq!(counts(survey, WRITE, Ports).0, 1_000);
    assert_eq!(counts(survey, WRITE, Ecam).0, 500);
    for walk in [Operation::Scan, Operation::Init] {
        let ecam = counts(survey, walk, Ecam).0;
        assert_eq!(counts(survey, walk, Ports).0, 2 * ecam);
    }
    // A function that is there takes five accesses, one that is not takes one. A bus has 32
    // devices, and three of the chipset's functions share one.
    let functions = survey.by(Method::Auto).unwrap().functions.len() as u64;
    assert!(counts(survey, Operation::Scan, Ecam).0 >= 5 * functions + 32 - functions);
}

#[test]
fn a_read_is_two_bus_accesses_by_ports_and_one_by_memory() {
    let Some(qemu) = qemu("a_read_is_two_bus_accesses") else {
        return;
    };
    let strategies = [
        AccessStrategy::Ports,
        AccessStrategy::Ecam,
        AccessStrategy::Ram,
        AccessStrategy::Auto,
    ];
    let measure = all(&strategies);
    let plan = PciPlan {
        measure: &measure,
        repeat: 2,
    };
    for (cpu, auto) in [("qemu64", 1_000), ("qemu64,-hypervisor", 2_000)] {
        let qemu_args = ["-cpu", cpu].map(OsString::from);
        let guest = Guest {
            qemu_args: &qemu_args,
            ..GUEST
        };
        let (survey, _) = pci::run(&qemu, &guest, &plan).unwrap();
        assert!(survey.equal);
        assert_eq!(survey.measurings.len(), 2 * measure.len());
        check_counts(&survey);
        // The chosen method is the one used.
        assert_eq!(counts(&survey, READ, AccessStrategy::Auto), (auto, None));
        assert_eq!(counts(&survey, READ, AccessStrategy::Ram).0, 1_000);
    }
}

const GUEST: Guest<'_> = Guest {
    kernel: KERNEL,
    cpus: 1,
    work: &[],
    repeat: 1,
    input: &[],
    ram: None,
    flash: None,
    qemu_args: &[],
};

#[test]
fn in_the_model_a_shadow_leaves_exits_to_writes_alone() {
    let measure = all(&[
        AccessStrategy::Ports,
        AccessStrategy::Ecam,
        AccessStrategy::EcamShadow,
    ]);
    let plan = PciPlan {
        measure: &measure,
        repeat: 1,
    };
    let survey = model::run(&plan).unwrap();
    assert!(survey.equal);
    check_counts(&survey);
    check_exits(&survey);
}

/// Every access is an exit, unless the machine maps readable registers.
fn check_exits(survey: &PciSurvey) {
    use AccessStrategy::{Ecam, EcamShadow, Ports};
    for operation in [READ, WRITE, Operation::Scan, Operation::Init] {
        for strategy in [Ports, Ecam] {
            let (accesses, exits) = counts(survey, operation, strategy);
            assert_eq!(exits, Some(accesses), "{operation:?} by {strategy:?}");
        }
    }
    assert_eq!(counts(survey, READ, EcamShadow).1, Some(0));
    assert_eq!(counts(survey, WRITE, EcamShadow).1, Some(500));
    assert_eq!(counts(survey, Operation::Scan, EcamShadow).1, Some(0));
    // Two writes for each BAR, or half of one, and two for each command register; no more.
    let devices = &survey.by(Method::Auto).unwrap().functions;
    let bars = devices.iter().map(|device| match device.found.header {
        _ if device.found.class >> 8 == 0x0600 => 7,
        1 => 3,
        _ => 7,
    });
    let bars = bars.sum::<u64>();
    let commands = 2 * devices.len() as u64;
    let writes = counts(survey, Operation::Init, EcamShadow).1.unwrap();
    assert!(
        writes <= 2 * bars + commands,
        "{writes} for {bars} registers"
    );
    assert!(writes > commands);
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn on_kvm_a_read_that_is_mapped_takes_no_exit() {
    use nostall_vm::kvm::{Kvm, Options};
    let kvm = match Kvm::find(Options::default()) {
        Ok(kvm) => kvm,
        Err(error) => {
            assert!(std::env::var_os("NOSTALL_REQUIRE_KVM").is_none(), "{error}");
            let _ = writeln!(std::io::stderr(), "SKIPPED on_kvm_a_read: {error}");
            return;
        }
    };
    use AccessStrategy::{Auto, Ecam, EcamShadow, Ports, PortsCoalesced, Ram};
    let measure = all(&[Ports, PortsCoalesced, Ecam, EcamShadow, Ram, Auto]);
    let plan = PciPlan {
        measure: &measure,
        repeat: 1,
    };
    let (survey, _, notes) = pci_on_kvm::run(&kvm, &GUEST, &plan).unwrap();
    if !notes.is_empty() {
        assert!(
            std::env::var_os("NOSTALL_REQUIRE_KVM").is_none(),
            "{notes:?}"
        );
        let _ = writeln!(std::io::stderr(), "SKIPPED on_kvm_a_read: {notes:?}");
        return;
    }
    assert!(survey.equal);
    check_counts(&survey);
    check_exits(&survey);
    for operation in [READ, WRITE, Operation::Scan, Operation::Init] {
        // The index is collected, the data is not.
        let (accesses, exits) = counts(&survey, operation, PortsCoalesced);
        assert_eq!(exits, Some(accesses / 2), "{operation:?}");
    }
    assert_eq!(counts(&survey, READ, Ram), (1_000, Some(0)));
    assert_eq!(counts(&survey, READ, Auto), (1_000, Some(1_000)));
    let found = survey.by(Method::Ecam).unwrap();
    let ids: Vec<_> = found.functions.iter().map(SurveyedFunction::id).collect();
    assert_eq!(ids, survey.virtio_drivers);
    assert_eq!((found.sum.functions, found.sum.buses), (14, 7));
}

fn run(args: &[&str], dir: &Path) -> Output {
    Command::new(cargo_bin("nostall-lab"))
        .args(["run", "pci"])
        .args(args)
        .current_dir(dir)
        .env("TMPDIR", dir)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Returns the output of a command that succeeds, and the document that it writes.
fn succeed(args: &[&str]) -> (String, Value) {
    let dir = TempDir::new().unwrap();
    let args = [args, &["--json", "figures"]].concat();
    let output = run(&args, dir.path());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    assert_eq!(stderr, "", "nothing but the answer");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let out = String::from_utf8(output.stdout).unwrap();
    for line in out.lines() {
        // Names of devices may make a line longer.
        let device = line.contains("- 0");
        assert!(
            (device || line.len() <= 80) && line == line.trim_end(),
            "{line}"
        );
    }
    let document = fs::read_to_string(dir.path().join("figures")).unwrap();
    (out, serde_json::from_str(&document).unwrap())
}

/// Returns figures by strategy and metric.
fn figures(document: &Value, on: &str) -> HashMap<(String, String), f64> {
    assert_eq!(document["schema"], 2);
    let mut figures = HashMap::new();
    for result in document["results"].as_array().unwrap() {
        assert_eq!(
            (&result["path"], &result["on"]),
            (&json!("pci"), &json!(on))
        );
        assert!(result["unit"].is_string() && result["n"].as_u64() >= Some(1));
        let key = |name: &str| result[name].as_str().unwrap().to_owned();
        let value = result["value"].as_f64().unwrap();
        let known = figures.insert((key("strategy"), key("metric")), value);
        assert_eq!(known, None, "one figure a name");
    }
    figures
}

#[test]
fn the_command_lists_all_devices_and_the_cost_of_access() {
    if qemu("the_command_lists").is_none() {
        return;
    }
    let args = SWITCH
        .iter()
        .flat_map(|device| [DEVICE.to_owned(), format!("--qemu-arg={device}")]);
    let args: Vec<String> = args.chain(["--on=qemu".to_owned()]).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (out, document) = succeed(&args);
    assert!(out.contains("show the same 11 functions"), "{out}");
    let figures = figures(&document, "qemu");
    let figure = |strategy: &str, metric: &str| figures.get(&(strategy.into(), metric.into()));
    for (strategy, accesses) in [("ports", 2.0), ("ecam", 1.0), ("ram", 1.0), ("auto", 1.0)] {
        for what in ["read", "write"] {
            let metric = format!("bus_accesses_per_{what}");
            assert_eq!(figure(strategy, &metric), Some(&accesses), "{strategy}");
            assert!(figure(strategy, &format!("ns_per_{what}")) > Some(&0.0));
            assert!(figure(strategy, &format!("{what}_time_ratio_to_ports")) > Some(&0.0));
            assert_eq!(figure(strategy, &format!("exits_per_{what}")), None);
        }
    }
    // The network device, and the first function behind the switch.
    for part in [" 0200: 8086:10d3\n", "\n  0000:03:00.0 "] {
        assert!(out.contains(part), "{out}");
    }
    for strategy in ["ports", "ecam", "auto"] {
        assert_eq!(figure(strategy, "functions"), Some(&11.0));
        assert_eq!(figure(strategy, "buses"), Some(&6.0));
        assert_eq!(figure(strategy, "faults"), Some(&0.0));
        assert!(figure(strategy, "ns_per_init") > Some(&0.0));
        assert!(figure(strategy, "ns_per_scan") > Some(&0.0));
    }
}

const DEVICE: &str = "--qemu-arg=-device";

#[test]
fn the_command_says_that_bare_metal_is_read_by_ports() {
    if qemu("the_command_says").is_none() {
        return;
    }
    let (out, _) = succeed(&[
        "--on=qemu",
        "--qemu-arg=-cpu",
        "--qemu-arg=qemu64,-hypervisor",
    ]);
    assert!(
        out.contains("\nbare metal: the policy is ports first\n"),
        "{out}"
    );
    assert!(
        out.contains("\nchosen: ports first, ECAM for the rest;"),
        "{out}"
    );
}

#[test]
fn the_command_needs_no_machine_for_counts() {
    let (out, document) = succeed(&["--on=model"]);
    assert!(out.contains("show the same 14 functions"), "{out}");
    let figures = figures(&document, "model");
    let figure = |strategy: &str, metric: &str| figures[&(strategy.into(), metric.into())];
    assert_eq!(figure("ports", "exits_per_read"), 2.0);
    assert_eq!(figure("ecam", "exits_per_read"), 1.0);
    assert_eq!(figure("ecam-shadow", "exits_per_read"), 0.0);
    assert_eq!(figure("ecam-shadow", "exits_per_scan"), 0.0);
    assert_eq!(figure("ecam-shadow", "maps_at_start"), 256.0);
    assert_eq!(figure("ecam-shadow", "map_changes"), 12.0);
    let is_time = |metric: &str| metric.contains("ns_per") || metric.ends_with("_ns");
    assert!(!figures.keys().any(|(_, metric)| is_time(metric)));
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn the_command_counts_exits_on_kvm() {
    use nostall_vm::kvm::{Kvm, Options, PciMode};
    let all = PciMode::ALL.map(|pci| {
        let options = Options {
            pci,
            ..Options::default()
        };
        Kvm::find(options).map(|kvm| kvm.notes().to_vec())
    });
    if let Some(missing) = all
        .iter()
        .find(|kvm| !matches!(kvm, Ok(notes) if notes.is_empty()))
    {
        let required = std::env::var_os("NOSTALL_REQUIRE_KVM").is_some();
        assert!(!required, "{missing:?}");
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED the_command_counts_exits_on_kvm: {missing:?}"
        );
        return;
    }
    let (out, document) = succeed(&["--on=kvm"]);
    assert!(out.contains("show the same 14 functions"), "{out}");
    let figures = figures(&document, "kvm");
    for (strategy, exits) in [
        ("ports", 2.0),
        ("ports-coalesced", 1.0),
        ("ecam", 1.0),
        ("ecam-shadow", 0.0),
        ("ram", 0.0),
        ("auto", 1.0),
    ] {
        let figure = &figures[&(strategy.to_owned(), "exits_per_read".to_owned())];
        assert_eq!(*figure, exits, "{strategy}");
    }
    let figure = |strategy: &str, metric: &str| figures[&(strategy.into(), metric.into())];
    // Sixteen buses. Six of them get functions, and are mapped again.
    assert_eq!(figure("ecam-shadow", "maps_at_start"), 16.0);
    assert_eq!(figure("ecam-shadow", "map_changes"), 12.0);
    assert!(figure("ecam-shadow", "map_change_ns") > 0.0);
    assert_eq!(figure("ports", "map_changes"), 0.0);
    assert!(out.contains("\na boot   ecam-shadow    16 "), "{out}");
}

#[test]
fn options_of_other_experiments_are_refused() {
    let dir = TempDir::new().unwrap();
    for (args, says) in [
        (&["--capture", "x"][..], "unexpected argument '--capture'"),
        (&["--bytes", "1"], "unexpected argument '--bytes'"),
        (
            &["--on", "model", "--qemu-arg", "x"],
            "--qemu-arg has no meaning with --on model",
        ),
    ] {
        let output = run(args, dir.path());
        assert!(!output.status.success());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(says), "{stderr}");
    }
}

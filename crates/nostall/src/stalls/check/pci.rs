//! PCI configuration space: how Linux reaches it, and what that costs.
//!
//! Source: Linux 6.1, 6.12: `raw_pci_read` (`arch/x86/pci/common.c`), the names of the windows in
//! /proc/iomem (`arch/x86/pci/mmconfig-shared.c`, `drivers/pci/ecam.c`).

use nostall_figures::numbers::grouped;
use nostall_postmortem::cli::counted;

use super::machine::Machine;
use super::report::{Finding, Verdict};
use super::system::System;

/// Returns the finding of PCI.
pub fn examine(system: &System, machine: &Machine) -> Finding {
    let folder = "sys/bus/pci/devices";
    let functions = system
        .names(folder, "the PCI functions")
        .unwrap_or_default();
    if functions.is_empty() {
        return Finding::new("PCI", Verdict::Absent, "There is no PCI function.");
    }
    let size = |name: &&String| system.size(format!("{folder}/{name}/config"));
    let large = functions.iter().filter(|name| size(name) == Some(4096));
    let large = large.count();
    let memory = system.read("proc/iomem", "whether configuration space is in memory");
    let has_window = memory.map(|map| map.contains("PCI MMCONFIG") || map.contains("PCI ECAM"));
    let window = match (has_window, system.exists("sys/firmware/acpi/tables/MCFG")) {
        (Some(true), _) => "There is a window in memory (ECAM).",
        (Some(false), true) => "Firmware describes a window (MCFG), which Linux does not use.",
        (Some(false), false) => "There is no window in memory (ECAM).",
        (None, _) => "Whether there is a window in memory (ECAM) is not known.",
    };
    let is_off = machine
        .option("pci")
        .any(|value| value.split(',').any(|v| v == "nommconf"));
    let (verdict, cost) = match (machine.is_guest, machine.has_ports, has_window) {
        (Some(true), true, _) => (
            Verdict::Costs,
            "A read through ports, which 6.1 and 6.12 prefer below register 256, takes 2 exits; \
             through memory 1, or none if the host maps the window.",
        ),
        (Some(true), false, Some(true)) => (
            Verdict::Costs,
            "A read takes 1 exit, or none if the host maps the window.",
        ),
        (Some(false), ..) => (
            Verdict::Fine,
            "No read leaves this machine: it has no exits.",
        ),
        _ => (Verdict::Unknown, "The cost of a read is not known."),
    };
    let mut finding = Finding::new("PCI", verdict, "");
    let figures = [
        ("functions", functions.len()),
        ("functions_of_4096_bytes", large),
    ];
    finding
        .figures
        .extend(figures.map(|(name, count)| (name, count as u64)));
    finding.reason = format!(
        "{}, {} with 4,096 bytes of registers. {window} {cost}",
        counted(grouped(functions.len()), "function"),
        grouped(large)
    );
    if verdict == Verdict::Costs {
        mend(&mut finding, machine, has_window, is_off);
    }
    finding
}

const KAHER: &str = "\
    Ajay Kaher, \"x86/PCI: Prefer MMIO over PIO on VMware hypervisor\", v2, 2022: 100,000 reads take \
    12.809 s through ports, 8.517 s through memory, 0.010 s through a mapped window. Linux 6.1 and \
    6.12 do not have it (raw_pci_read).";

fn mend(finding: &mut Finding, machine: &Machine, has_window: Option<bool>, is_off: bool) {
    if is_off {
        finding
            .mend(90, "Take pci=nommconf from the kernel's command line.")
            .source("Linux 6.12, pcibios_setup (arch/x86/pci/common.c).");
    } else if has_window == Some(false) && machine.has_ports {
        finding
            .mend(90, "A machine with a window in memory (ECAM). In QEMU:")
            .command("-machine q35")
            .but("below register 256, Linux 6.1 and 6.12 use it only with the next remedy.")
            .source("seen: Debian's 6.1 and 7.3 in QEMU's q35 list the window in /proc/iomem.");
    }
    let text = match machine.has_ports {
        true => {
            "A kernel that prefers memory in guests (linux/patches in nostall's sources), and a \
             host that maps the window for reading (book, \"PCI configuration space\")."
        }
        false => "A host that maps the window for reading (book, \"PCI configuration space\").",
    };
    finding.mend(91, text).source(KAHER);
}

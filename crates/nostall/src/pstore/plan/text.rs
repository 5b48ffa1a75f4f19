//! The plan for a person.

use comfy_table::Table;
use nostall_postmortem::cli::counted;
use nostall_pstore::{Params, Place, RecordFormat, ZoneKind, ZoneOrder, longest_deflated};

use super::boot;
use super::region::{LINE, Plan, Row};
use nostall_figures::numbers::grouped;
use nostall_figures::table::{aligned, time};

/// Everything.
pub fn all(plan: &Plan) -> String {
    let Params { mem_size, cpus, .. } = *plan.params();
    let mut parts = vec![
        format!(
            "A region of {} for {}, as Linux{} divides it:",
            size(mem_size),
            counted(cpus, "CPU"),
            which(plan)
        ),
        table(plan),
    ];
    parts.extend(history(plan));
    if !plan.suggested.is_empty() {
        parts.push(format!(
            "Suggested by nostall: {}.",
            plan.suggested.join(", ")
        ));
    }
    parts.extend(boot_text(plan));
    if !plan.notes.is_empty() {
        parts.push(format!("Note:\n  {}", plan.notes.join("\n  ")));
    }
    parts.join("\n\n") + "\n"
}

/// The versions of Linux that a plan is for.
fn which(plan: &Plan) -> &'static str {
    let Params {
        ftrace_size,
        pmsg_size,
        zone_order,
        ..
    } = *plan.params();
    match zone_order {
        _ if ftrace_size == 0 || pmsg_size == 0 => "",
        ZoneOrder::Linux4_0 => " before 6.2",
        ZoneOrder::Linux6_2 => " 6.2 or newer",
    }
}

fn table(plan: &Plan) -> String {
    let mut table = Table::new();
    table.set_header(["zone", "each holds", "from", "size", "data", "ECC"]);
    for row in plan.rows() {
        let Place {
            kind,
            offset,
            division,
            ..
        } = row.first;
        let name = match row.count {
            1 => kind.to_string(),
            count => format!("{kind} 0-{}", count - 1),
        };
        let (zone, data) = (division.zone(), division.data());
        table.add_row([
            name,
            holds(kind, data),
            format!("{offset:#x}"),
            grouped(zone),
            grouped(data),
            grouped(row.parity()),
        ]);
    }
    aligned(table, 2)
}

fn holds(kind: ZoneKind, data: usize) -> String {
    match kind {
        ZoneKind::Dmesg => format!("{} deflated", grouped(longest_deflated(data))),
        ZoneKind::Console => format!("{} lines", grouped(data / LINE)),
        ZoneKind::Ftrace => format!("{} calls", grouped(data / RecordFormat::Bits64.len())),
        ZoneKind::Pmsg => "from /dev/pmsg0".to_owned(),
    }
}

/// Returns the meaning of the table's figures.
fn history(plan: &Plan) -> Option<String> {
    let mut lines = Vec::new();
    for Row { first, .. } in plan.rows() {
        let data = first.division.data();
        match first.kind {
            ZoneKind::Dmesg => lines.push(
                "deflated: bytes of log, at most as many as Linux can inflate again.".to_owned(),
            ),
            ZoneKind::Console => lines.push(format!("lines: of {LINE} bytes.")),
            ZoneKind::Ftrace => {
                let calls = |record_format: RecordFormat| data / record_format.len();
                let (long, short) = (calls(RecordFormat::Bits64), calls(RecordFormat::Bits32));
                let whose = match plan.layout.traces_per_cpu() {
                    true => "a CPU that makes",
                    false => "all CPUs, that together make",
                };
                lines.push(format!(
                    "calls: function entries, 24 bytes each; of {whose} a million\n\
                     a second, the last {}. (On 32-bit kernels 16 bytes, {} calls.)",
                    time(long as f64 * 1e3),
                    grouped(short)
                ));
            }
            ZoneKind::Pmsg => {}
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn boot_text(plan: &Plan) -> Vec<String> {
    let Some(line) = boot::command_line(plan) else {
        return vec![
            "No kernel command line says flags=0 (there a CPU always has its own trace\n\
             zone): use a device tree, with --address N --device-tree."
                .to_owned(),
        ];
    };
    let place = match plan.address {
        Some(_) => {
            "memmap= keeps x86 Linux off that memory; for its $, GRUB's files want \\\\\\$.\n\
             On other machines leave it out, and reserve the memory in the device tree:\n\
             --device-tree prints a node that does, in place of this command line."
        }
        None => {
            "Linux 6.11 and newer find room themselves (reserve_mem=), mostly the same at the\n\
             next boot of the same kernel; to say where, or for an older one: --address N."
        }
    };
    let mut needs = vec!["PSTORE_RAM"];
    needs.extend(plan.rows().filter_map(|row| match row.first.kind {
        ZoneKind::Dmesg => None,
        ZoneKind::Console => Some("PSTORE_CONSOLE"),
        ZoneKind::Ftrace => Some("PSTORE_FTRACE"),
        ZoneKind::Pmsg => Some("PSTORE_PMSG"),
    }));
    let mut rest = "pstore.backend= keeps EFI from taking its place.\n".to_owned();
    rest += &format!("The kernel needs {}.", needs.join(", "));
    if needs.contains(&"PSTORE_FTRACE") {
        rest += "\nTo trace: echo 1 > /sys/kernel/debug/pstore/record_ftrace";
    }
    vec![
        "Kernel command line:".to_owned(),
        line,
        place.to_owned(),
        rest,
    ]
}

/// Formats a size as the options take it.
fn size(bytes: usize) -> String {
    match bytes {
        n if n >= 1 << 20 && n.is_multiple_of(1 << 20) => format!("{}M", n >> 20),
        n if n >= 1 << 10 && n.is_multiple_of(1 << 10) => format!("{}K", n >> 10),
        n => format!("{n} bytes"),
    }
}

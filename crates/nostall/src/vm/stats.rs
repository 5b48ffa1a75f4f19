//! Statistics of a run of Linux: one `name: value` a line, for readers and for scripts.

use nostall_io::Nanos;
use nostall_vm::kvm::Speed;
use nostall_vm::kvm::linux::{Ended, Finished};

/// Returns the statistics as text.
pub fn of(finished: &Finished, uart: &str, pci: &str, speed: Speed) -> String {
    let exits = &finished.exits;
    let per_byte = |count: u64| match finished.bytes {
        0 => "-".to_owned(),
        bytes => format!("{:.4}", count as f64 / bytes as f64),
    };
    let seconds = |span: std::time::Duration| format!("{:.6}", span.as_secs_f64());
    let nanos = |span: Nanos| format!("{:.6}", span.0 as f64 / 1e9);
    let unknown = || "unknown".to_owned();
    let lines = [
        ("uart", uart.to_owned()),
        ("pci", pci.to_owned()),
        ("kvm", speed.to_string()),
        ("ended by", ended(finished.ended)),
        ("seconds", seconds(finished.took)),
        (
            "seconds to the first byte",
            finished.first_byte.map_or_else(unknown, seconds),
        ),
        ("bytes sent", finished.bytes.to_string()),
        ("exits to user space", exits.to_user_space().to_string()),
        ("port reads", exits.port_reads.to_string()),
        ("port writes", exits.port_writes.to_string()),
        ("memory reads", exits.mmio_reads.to_string()),
        ("memory writes", exits.mmio_writes.to_string()),
        ("other exits", (exits.halts + exits.others).to_string()),
        ("exits at the UART", exits.uart.to_string()),
        ("exits at the UART per byte", per_byte(exits.uart)),
        ("exits at PCI configuration space", exits.pci.to_string()),
        ("writes collected", exits.collected.to_string()),
        ("map changes", exits.maps.count.to_string()),
        ("seconds for map changes", nanos(exits.maps.took)),
        (
            "exits in the host's kernel",
            exits
                .light()
                .map_or_else(unknown, |light| light.to_string()),
        ),
    ];
    let lines: Vec<_> = lines
        .into_iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    lines.join("\n")
}

fn ended(ended: Ended) -> String {
    match ended {
        Ended::Off => "power off".to_owned(),
        Ended::Reset => "reset".to_owned(),
        Ended::Status(status) => format!("status {status}"),
        Ended::Left => "its user".to_owned(),
        Ended::Signal => "a signal".to_owned(),
        Ended::TooLong => "the time limit".to_owned(),
    }
}

//! Device accesses of a Linux, counted in QEMU's trace.
//!
//! QEMU records a line for each access to a device's registers:
//!
//! ```text
//! memory_region_ops_write cpu 0 mr 0x55d1 addr 0x3f8 value 0x61 size 1 name 'serial'
//! ```
//!
//! The report of Linux itself passes through a device, so the same trace shows where each
//! measurement begins and ends.

use super::report::{Key, Line, Measured};

/// Longest trace that is read. A boot's has some 20 MB.
pub const LONGEST: u64 = 512 << 20;

/// QEMU's names of the trace events.
pub const EVENTS: [&str; 2] = ["memory_region_ops_read", "memory_region_ops_write"];

/// QEMU's names of the devices whose accesses count.
const DEVICES: [&str; 4] = ["serial", "pci-conf-idx", "pci-conf-data", "pcie-mmcfg-mmio"];

/// QEMU's name of the device to which Linux writes its report.
const REPORTS: &str = "isa-debugcon";

/// Returns the accesses of each measurement that the trace holds from `begin` to `end`.
pub fn count(trace: &[u8]) -> Vec<Measured> {
    let mut all = Vec::new();
    let mut line = Vec::new();
    let mut open: Option<(Key, f64)> = None;
    let mut accesses = 0_u64;
    for event in trace.split(|&byte| byte == b'\n') {
        let Some((name, value)) = parse(event) else {
            continue;
        };
        if DEVICES.contains(&name) {
            accesses += 1;
        } else if name == REPORTS && value == b'\n' {
            match Line::parse(&String::from_utf8_lossy(&line)) {
                Some(Line::Begin { key, per }) => (open, accesses) = (Some((key, per)), 0),
                Some(Line::End) => all.extend(open.take().map(|(key, per)| Measured {
                    key,
                    value: accesses as f64 / per,
                })),
                _ => {}
            }
            line.clear();
        } else if name == REPORTS {
            line.push(value);
        }
    }
    all
}

/// Returns the device of an event, and the lowest byte of the value.
fn parse(event: &[u8]) -> Option<(&str, u8)> {
    let event = std::str::from_utf8(event).ok()?;
    let (before, name) = event
        .trim_end()
        .strip_suffix('\'')?
        .rsplit_once(" name '")?;
    let (_, value) = before.rsplit_once(" value 0x")?;
    let (value, _) = value.split_once(' ')?;
    Some((name, u64::from_str_radix(value, 16).ok()? as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, value: u8) -> String {
        format!(
            "memory_region_ops_write cpu 0 mr 0x5 addr 0x1 value {value:#x} size 1 name '{name}'\n"
        )
    }

    fn said(line: &str) -> String {
        line.bytes().map(|byte| event(REPORTS, byte)).collect()
    }

    #[test]
    fn accesses_between_begin_and_end_are_counted_and_others_are_not() {
        let trace = [
            event("serial", b'x'),
            said("begin - bus_accesses_per_byte_of_a_2_byte_write 1/B 2\n"),
            event("serial", b'a'),
            event("acpi-tmr", 0),
            event("serial", b'\n'),
            event("serial", b'b'),
            said("end\n"),
            event("serial", b'y'),
            said("begin ecam accesses 1 1\n"),
            event("pcie-mmcfg-mmio", 0),
        ];
        let counted = count(trace.concat().as_bytes());
        assert_eq!(counted.len(), 1, "a measurement without end has no count");
        assert_eq!(counted[0].value, 1.5);
        let name = counted[0].key.name();
        let case = Some("2-byte-write".to_owned());
        assert_eq!(name, ("bus_accesses_per_byte".to_owned(), case));
    }

    #[test]
    fn lines_that_are_no_events_are_passed_over() {
        for trace in [
            &b""[..],
            b"\xff\xfe\n",
            b"memory_region_ops_read cpu 0 mr 0x5 addr 0x1 value 0x size 1 name 'serial'",
            b"value 0x1 name 'serial'",
            b"' name '",
        ] {
            assert_eq!(count(trace), []);
        }
    }
}

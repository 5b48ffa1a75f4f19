//! Where persistent RAM is, how it is divided, and how its contents are found.

use core::ops::Range;

use nostall_pstore::{FTRACE_PER_CPU, Layout, LinuxVersion, Params, Place, Ram, ZoneOrder};

/// The reference kernel's persistent RAM, counted from where RAM begins: 1 MiB at
/// 64 MiB, in the middle of the machine's 128 MiB.
///
/// Nothing that runs before the kernel, on this boot or the next, writes there. On a PC
/// the kernel's image ends below 8 MiB (checked where it is mapped), the firmware uses
/// the first MiB and takes its own memory from the top of RAM, and QEMU puts the input
/// just below that. On RISC-V the firmware uses the first 2 MiB and the image ends below
/// 10; QEMU puts the input as far behind the image's start as half of RAM is long, or
/// 128 MiB, and the device tree near the end of RAM (checked when the region is used).
pub const REGION: Range<u64> = 64 << 20..65 << 20;

/// The Linux that could read the traces: it takes only those of its own version.
pub const LINUX: LinuxVersion = LinuxVersion::new(6, 1, 0);

/// CPUs that the experiment needs, one for each stage.
pub const FEWEST_CPUS: u16 = 3;

/// CPUs whose traces are merged when they are recovered: as many as fit on a kernel's stack.
pub const MOST_CPUS: u16 = 8;

/// How traces are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traces {
    /// In one zone.
    Together,
    /// In a zone for each CPU.
    PerCpu,
}

/// How the region is divided: 11 dmesg records and a console of 64 KiB each, and
/// 256 KiB of traces.
pub const fn params(cpus: u16, traces: Traces) -> Params {
    Params {
        mem_size: (REGION.end - REGION.start) as usize,
        record_size: 64 << 10,
        console_size: 64 << 10,
        ftrace_size: 256 << 10,
        pmsg_size: 0,
        ecc: 0,
        cpus: cpus as usize,
        flags: match traces {
            Traces::Together => 0,
            Traces::PerCpu => FTRACE_PER_CPU,
        },
        zone_order: ZoneOrder::Linux6_2,
    }
}

/// How much of a region comes before its traces: logs and console.
pub const LOGS: usize = {
    let all = params(FEWEST_CPUS, Traces::Together);
    all.mem_size - all.ftrace_size
};

/// That part alone. Its zones lie where they do in a region that has traces.
pub(super) const fn logs() -> Params {
    Params {
        mem_size: LOGS,
        ftrace_size: 0,
        ..params(FEWEST_CPUS, Traces::Together)
    }
}

/// The zones of a region, each with its memory; `None` if it is not made for so
/// many CPUs.
pub(super) fn carve(
    region: Ram<'_>,
    cpus: u16,
    traces: Traces,
) -> Option<impl Iterator<Item = (Place, Ram<'_>)>> {
    if !(FEWEST_CPUS..=MOST_CPUS).contains(&cpus) {
        return None;
    }
    let layout = Layout::new(&params(cpus, traces)).ok()?;
    Some(layout.split(region))
}

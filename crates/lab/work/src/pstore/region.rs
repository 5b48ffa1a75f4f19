//! Location and layout of persistent RAM.

use core::ops::Range;

use nostall_pstore::{Code, FTRACE_PER_CPU, Layout, LinuxVersion, Params, Place, Ram, ZoneOrder};

/// The reference kernel's persistent RAM, relative to the start of RAM: 1 MiB at 64 MiB, in the
/// middle of the machine's 128 MiB.
///
/// No code that runs before the kernel writes there, on this boot or the next. On a PC, the
/// kernel's image ends below 8 MiB (checked where it is mapped). The firmware uses the first MiB
/// and the top of RAM. QEMU places the input just below that (checked when the region is used).
///
/// On RISC-V, the firmware uses the first 2 MiB, and the image ends below 10 MiB. QEMU places the
/// input behind the image's start, at a distance of half the RAM, at most 128 MiB. With 128 MiB of
/// RAM, it is at 66 MiB. The device tree is near the end of RAM (checked when the region is used).
///
/// On Arm, the device tree is in the first 2 MiB, and the image ends below 12 MiB. The input is
/// behind the memory for traces.
pub const REGION: Range<u64> = 64 << 20..65 << 20;

/// Linux version whose traces have this format: Linux reads only those of its own version.
pub const LINUX: LinuxVersion = LinuxVersion::new(6, 1, 0);

/// Minimum number of CPUs, one for each stage.
pub const FEWEST_CPUS: u16 = 3;

/// Maximum number of CPUs: recovery merges as many traces as fit on a kernel's stack.
pub const MOST_CPUS: u16 = 8;

/// Division of the traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traces {
    /// One zone for all CPUs.
    Together,
    /// One zone for each CPU.
    PerCpu,
    /// One zone for each CPU, with error correction.
    PerCpuEcc,
}

/// Bytes of error correction for each block of 128, as with Linux's `ramoops.ecc=1`.
const PARITY: usize = 16;

static CODE: Code = Code::new(PARITY).unwrap();

impl Traces {
    /// Returns the error correction of the zones.
    pub fn code(self) -> Option<&'static Code> {
        (self == Self::PerCpuEcc).then_some(&CODE)
    }
}

/// Returns the region's layout: 11 dmesg records and a console of 64 KiB each, and 256 KiB of
/// traces.
pub const fn params(cpus: u16, traces: Traces) -> Params {
    Params {
        mem_size: (REGION.end - REGION.start) as usize,
        record_size: 64 << 10,
        console_size: 64 << 10,
        ftrace_size: 256 << 10,
        pmsg_size: 0,
        ecc: match traces {
            Traces::Together | Traces::PerCpu => 0,
            Traces::PerCpuEcc => PARITY,
        },
        cpus: cpus as usize,
        flags: match traces {
            Traces::Together => 0,
            Traces::PerCpu | Traces::PerCpuEcc => FTRACE_PER_CPU,
        },
        zone_order: ZoneOrder::Linux6_2,
    }
}

/// Size in bytes of the region's part before its traces: logs and console.
pub const LOGS: usize = {
    let all = params(FEWEST_CPUS, Traces::Together);
    all.mem_size - all.ftrace_size
};

/// Returns the layout of that part alone. Its zones have the same addresses as with traces.
pub(super) const fn logs() -> Params {
    Params {
        mem_size: LOGS,
        ftrace_size: 0,
        ..params(FEWEST_CPUS, Traces::Together)
    }
}

/// Returns the zones of a region, each with its memory. `None` if the number of CPUs is
/// unsupported.
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

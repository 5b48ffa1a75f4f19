//! Sizes of a region's zones.

use nostall_postmortem::cli::number;
use nostall_pstore::Params;

/// Sizes of a region's zones, as options of a command that writes.
#[derive(clap::Args)]
#[command(next_help_heading = "Zones")]
pub(super) struct Sizes {
    /// ramoops.record_size: bytes of a dmesg zone, at least
    #[arg(long, value_name = "N", value_parser = number::size)]
    pub(super) record_size: Option<usize>,

    /// ramoops.console_size
    #[arg(long, value_name = "N", value_parser = number::size)]
    pub(super) console_size: Option<usize>,

    /// ramoops.ftrace_size: the trace zones of all CPUs together
    #[arg(long, value_name = "N", value_parser = number::size)]
    pub(super) ftrace_size: Option<usize>,

    /// ramoops.pmsg_size
    #[arg(long, value_name = "N", value_parser = number::size)]
    pub(super) pmsg_size: Option<usize>,

    /// ramoops.ecc: parity bytes for each 128 bytes of data, where 1 means 16; 0, none,
    /// unless given
    #[arg(long, value_name = "N", value_parser = number::size)]
    pub(super) ecc: Option<usize>,

    /// Flags: 1, a trace zone for each CPU, unless given; 0, one for all, can only be
    /// said in a device tree
    #[arg(long, value_name = "N", value_parser = number::flags)]
    pub(super) flags: Option<u32>,
}

impl Sizes {
    /// Returns the given parameters, and those of `unless_given` for the others.
    pub(super) fn params(&self, unless_given: Params) -> Params {
        Params {
            record_size: self.record_size.unwrap_or(unless_given.record_size),
            console_size: self.console_size.unwrap_or(unless_given.console_size),
            ftrace_size: self.ftrace_size.unwrap_or(unless_given.ftrace_size),
            pmsg_size: self.pmsg_size.unwrap_or(unless_given.pmsg_size),
            ecc: self.ecc.map_or(unless_given.ecc, Params::command_line_ecc),
            flags: self.flags.unwrap_or(unless_given.flags),
            ..unless_given
        }
    }
}

//! `nostall pstore`: persistent memory, planned and made.

mod inject;
mod plan;

use anyhow::Result;
pub use nostall_postmortem::cli::number;
use nostall_pstore::Params;

/// Plan and make persistent memory, where a crashed kernel leaves records (Linux's ramoops)
#[derive(clap::Args)]
#[command(after_long_help = AFTER)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "\
Examples:
  nostall pstore plan --size 1M --cpus 4
  nostall pstore inject --out region.bin --size 64K --dmesg dmesg.txt

`nostall pstore COMMAND --help` has more. `nostall postmortem` reads such memory.";

#[derive(clap::Subcommand)]
enum Command {
    Inject(inject::Args),
    Plan(plan::Args),
}

/// Does what the arguments say.
///
/// # Errors
///
/// The reason why it cannot be done, in one line.
pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Inject(args) => inject::run(args),
        Command::Plan(args) => plan::run(args),
    }
}

/// How a region is divided, as options of a command that writes.
#[derive(clap::Args)]
#[command(next_help_heading = "Zones")]
struct Sizes {
    /// ramoops.record_size: bytes of a dmesg zone, at least
    #[arg(long, value_name = "N", value_parser = number::size)]
    record_size: Option<usize>,

    /// ramoops.console_size
    #[arg(long, value_name = "N", value_parser = number::size)]
    console_size: Option<usize>,

    /// ramoops.ftrace_size: the trace zones of all CPUs together
    #[arg(long, value_name = "N", value_parser = number::size)]
    ftrace_size: Option<usize>,

    /// ramoops.pmsg_size
    #[arg(long, value_name = "N", value_parser = number::size)]
    pmsg_size: Option<usize>,

    /// ramoops.ecc: parity bytes for each 128 bytes of data, where 1 means 16; 0, none,
    /// unless given
    #[arg(long, value_name = "N", value_parser = number::size)]
    ecc: Option<usize>,

    /// Flags: 1, a trace zone for each CPU, unless given; 0, one for all, can only be
    /// said in a device tree
    #[arg(long, value_name = "N", value_parser = number::flags)]
    flags: Option<u32>,
}

impl Sizes {
    /// Returns the given parameters, and those of `unless_given` for the others.
    fn params(&self, unless_given: Params) -> Params {
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

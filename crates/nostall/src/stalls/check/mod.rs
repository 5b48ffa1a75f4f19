//! `nostall stalls check`: what the machine's own files say about its slow paths.

mod console;
pub mod line;
pub mod machine;
mod pci;
mod printed;
mod pstore;
mod report;
mod serial;
mod spi;
pub mod system;
#[cfg(test)]
mod tests;
mod text;

use anyhow::Result;
use nostall_postmortem::cli::escape::json_document;
use nostall_postmortem::cli::output::to_stdout;

use machine::Machine;
use report::Report;
use system::System;

/// Say which slow paths this machine's Linux has, and how to mend them
///
/// Reads files of /proc and /sys: consoles, PCI configuration space, SPI buses, crash records.
/// Traces nothing, writes nothing and opens no tty. Without root, it names the files that it may
/// not read, and the answers that are missing for that.
///
/// Verdicts: `stalls` (a CPU waits for a device), `costs` (exits to the host, or work that newer
/// kernels avoid), `fine`, `absent`, `unknown`. The exit status is 0 for each.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  nostall stalls check
  sudo nostall stalls check --json | jq .remedies";

/// Runs the command with these arguments.
///
/// # Errors
///
/// If standard output cannot be written.
pub fn run(args: &Args) -> Result<()> {
    let report = examine(&System::new("/"));
    let text = match args.json {
        true => json_document(&report)?,
        false => text::all(&report),
    };
    to_stdout(|out| out.write_all(text.as_bytes()))
}

/// Examines all paths, from the files of that system.
fn examine(system: &System) -> Report {
    let machine = Machine::new(system);
    let mut paths = console::examine(system, &machine);
    paths.push(pci::examine(system, &machine));
    paths.extend(spi::examine(system, &machine));
    paths.push(pstore::examine(system));
    Report::new(machine, paths, system.missing())
}

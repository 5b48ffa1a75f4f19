//! Experiment console: a flood of messages on a slow serial console.

mod check;
mod drawing;
mod fold;
mod guest;
mod input;
pub(super) mod metrics;
pub mod model;
pub mod outcome;
mod peers;
mod picture;
pub mod qemu;
mod run;
mod table;
pub(super) mod tour;

use std::fs;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, ensure};
use nostall_devices::uart::{Line, Profile};
use nostall_io::Nanos;
use nostall_uart::LineSettings;
use nostall_vm::Device;

use super::args::{self, Common, GivenOption, OnArg};
use super::experiment::{Answer, Experiment};
use super::on::On;
use super::peers::PeerComparison;
use super::tour::row::TourRows;
use crate::report::drawing::Drawings;
use crate::report::part::PagePart;
pub use check::{Checked, Damage};
use fold::Summary;
use nostall_figures::figure::Figure;
use outcome::RATE;

/// Log a flood of messages to a slow serial console
///
/// Several CPUs log a recorded flood to a slow serial port, on a model in virtual time. Compares
/// Linux's strategies, which lock up CPUs, with nostall's, which does not. Succeeds only if each
/// lost line is reported and nostall's strategy holds no CPU. With --on qemu, the reference kernel
/// does it in real time, with a part of the flood. It leaves the text of a panic in persistent RAM.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    common: Common,

    /// Log this file (- for standard input) instead of the flood: in dmesg's form, at the pace of
    /// its times
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,

    /// Serial port
    ///
    /// `vm` empties at once, as virtual ports do. `pc-16550a` and `fast-16550a` have a line of
    /// 115,200 baud. `hp-dl380-gen9` is the slow port of a management controller. The default is
    /// first `pc-16550a` and then `hp-dl380-gen9` (in QEMU only the first).
    #[arg(long, value_name = "NAME", value_parser = args::profile)]
    profile: Option<Profile>,

    /// Rate of the line in baud, at least 300 (in QEMU 9600); the default is 115200
    #[arg(long, value_name = "BAUD")]
    baud: Option<u32>,

    /// Time of the panic, in seconds after the first line; the default is the middle of the log
    ///
    /// Each strategy runs twice, once without a panic.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    panic_at: Option<Nanos>,

    /// Draw the CPUs that held the console as a picture for a browser
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
}

/// A slower line does not bring a panic's text in the time that a panic may take.
const SLOWEST: u32 = 300;

const EXAMPLES: &str = "\
Examples:
  nostall-lab run console               a flood with and without locked-up CPUs
  nostall-lab run console --svg flood.svg
                                        also draw it
  nostall-lab run console --on qemu     a part of it in a kernel, in real time
  nostall-lab run console --on qemu --qemu-arg=-icount \\
      --qemu-arg=shift=5,sleep=off
                                        repeatable: 32 ns an instruction";

impl Experiment for Args {
    const NAME: &'static str = "console";
    const TOUR: TourRows = tour::TOUR;
    const PAGE: PagePart = metrics::PAGE;
    // The model comes first: it is exact, and sooner through.
    const BEST: &'static [OnArg] = &[OnArg::Model, OnArg::Qemu];
    const DEVICES: &'static [Device] = &[Device::Uart16550];
    // CPUs that log, if not given.
    const CPUS: u16 = 4;
    const CPU_RANGE: RangeInclusive<u16> = 1..=64;
    const PEERS: Option<&'static PeerComparison> = Some(&peers::PEERS);
    type Input = input::Log;
    type Found = Drawings;

    fn common(&self) -> &Common {
        &self.common
    }

    fn given(&self) -> Vec<GivenOption> {
        Vec::new()
    }

    fn read(&self) -> Result<input::Log> {
        let for_guest = |given: &GivenOption| !given.on.contains(&OnArg::Model);
        let in_qemu = match self.common.on {
            OnArg::Auto => self.common.given().iter().any(for_guest),
            on => on == OnArg::Qemu,
        };
        if in_qemu {
            guest::check(self.baud, self.panic_at)?;
        }
        if let (Some(_), Some(profile)) = (self.baud, self.profile) {
            ensure!(
                profile.line == Line::Baud,
                "--baud has no meaning with --profile {}, whose speed is its own",
                profile.name
            );
        }
        let baud = self.baud.unwrap_or(RATE);
        ensure!(
            baud >= SLOWEST,
            "--baud {baud}: {SLOWEST} at least, or the text of a panic takes longer than a \
             panic may"
        );
        LineSettings::baud(baud)
            .divisor()
            .map_err(|error| anyhow!("--baud: {error}"))?;
        input::read(self.input.as_deref())
    }

    fn measure_beside(&self, on: &On, _: &input::Log) -> Result<Vec<Figure>> {
        peers::measure(on, &self.common.qemu_arg)
    }

    fn measure(&self, on: &On, _: Option<&str>, log: &input::Log) -> Result<Answer<Drawings>> {
        let args = run::ConsoleArgs {
            cpus: self.cpus(),
            profile: self.profile,
            rate: self.baud,
            panic_at: self.panic_at,
            qemu_args: &self.common.qemu_arg,
        };
        let floods = run::measure(on, &args, log.clone())?;
        if let Some(file) = &self.svg {
            fs::write(file, floods.picture())
                .with_context(|| format!("--svg {}", file.display()))?;
        }
        let Summary { figures, verdicts } = fold::fold(&floods);
        let mut text = vec![
            table::heading(&floods),
            table::tables(&floods, &figures),
            table::legend(&floods),
            fold::text(&verdicts),
        ];
        if self.common.qemu_arg.iter().any(|arg| arg == "-icount") {
            text.push(fold::goals(&figures, &floods));
        }
        Ok(Answer {
            text: text.join("\n\n"),
            figures,
            found: drawing::drawings(&floods),
            failure: fold::failure(&verdicts),
        })
    }
}

/// Parses a time in seconds, of an hour at most.
fn seconds(number: &str) -> Result<Nanos, String> {
    let seconds: f64 = number
        .parse()
        .map_err(|_| format!("`{number}` is not a number of seconds"))?;
    if !(0.0..=3_600.0).contains(&seconds) {
        return Err("not from 0 to 3600 seconds".to_owned());
    }
    Ok(Nanos((seconds * 1e9) as u64))
}

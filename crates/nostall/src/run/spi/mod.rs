//! A flash, an SD card, and a busy bus.

mod card;
mod figures;
mod host;
mod table;
mod text;
mod verdict;

use anyhow::{Result, ensure};
use nostall_vm::qemu::{Machine, Qemu};
use nostall_vm::spi::{Broken, Entry, Experiment, Outcome, model};
use nostall_vm::{Guest, Ran};
use nostall_work::spi::{FRAMES, SpiMeasured as BusyBus, Strategy};
use serde::Serialize;

use super::on::On;
use super::progress::Busy;
use super::{Answer, Args, IoPath};
pub use card::Card;
use host::HostEntry;
use text::Named;

/// The most frames that can be asked for: a quarter of an hour's on a model.
pub const MOST_FRAMES: i64 = 10_000_000;

/// CPUs of the guest: two tasks and the worker.
const CPUS: u16 = 3;

/// How often the busy bus is measured by each strategy.
const ROUNDS: u16 = 1;

/// Nothing that was asked for is dropped in silence.
pub fn check(args: &Args) -> Result<()> {
    if !args.paths.contains(&IoPath::Spi) {
        ensure!(args.sd.is_none(), "--sd goes with the path spi");
        ensure!(args.frames.is_none(), "--frames goes with the path spi");
        return Ok(());
    }
    let cpus = args.cpus.unwrap_or(CPUS);
    ensure!(cpus >= CPUS, "--cpus {cpus}: spi runs on {CPUS} and more");
    Ok(())
}

/// What was measured.
pub struct Measured {
    /// Where.
    headline: String,
    /// The stable word for where the devices are, and for where the busy bus is.
    on: (&'static str, &'static str),
    frames: u32,
    card: CardImage,
    outcome: Outcome,
}

/// What is known of the card's image.
struct CardImage {
    name: String,
    bytes: u64,
    entries: Vec<HostEntry>,
}

/// A file or directory on the card, for programs.
#[derive(Serialize)]
pub struct CardFile {
    name: String,
    bytes: u64,
    directory: bool,
    sha256: Option<String>,
    /// Whether the host reads the same from the image.
    equal: bool,
}

/// Runs the experiment on `on`.
pub fn measure(on: &On, args: &Args, card: &Card) -> Result<Measured> {
    let _busy = Busy::new("trying the flash, reading the card, receiving frames");
    let frames = args.frames.unwrap_or(FRAMES);
    let experiment = Experiment {
        frames,
        rounds: ROUNDS,
    };
    let image = card.image()?;
    let (outcome, headline, on) = match on {
        On::Qemu { qemu, kernel } => {
            card.fits_qemu()?;
            let guest = Guest {
                kernel,
                cpus: args.cpus.unwrap_or(CPUS),
                work: &[],
                repeat: 1,
                input: &[],
                ram: None,
                drives: &[],
                qemu_args: &args.qemu_arg,
            };
            let (outcome, ran) = qemu.spi(&guest, &image, &experiment)?;
            (outcome, on_qemu(qemu, guest.cpus, &ran), ("qemu", "qemu"))
        }
        // KVM is not chosen for this path.
        _ => {
            let headline = format!(
                "spi on models, in virtual time; the busy bus on threads, 3 on {} CPUs",
                std::thread::available_parallelism().map_or(1, usize::from)
            );
            let outcome = model(image, &experiment, Broken::default());
            (outcome, headline, ("model", "host-threads"))
        }
    };
    Ok(Measured {
        headline,
        on,
        frames,
        card: CardImage {
            name: card.name.clone(),
            bytes: card.bytes,
            entries: card.entries.clone(),
        },
        outcome,
    })
}

fn on_qemu(qemu: &Qemu, cpus: u16, ran: &Ran) -> String {
    format!(
        "spi on qemu {}, {}, {cpus} CPUs on {} of the host; up after {:.2} s",
        qemu.version(),
        qemu.machine(),
        std::thread::available_parallelism().map_or(1, usize::from),
        ran.first_report.as_secs_f64(),
    )
}

/// Whether the machine has what this is about.
pub fn fits(machine: Machine) -> bool {
    machine == Machine::SifiveU
}

impl Measured {
    /// For people and for programs.
    pub fn answer(&self) -> Answer {
        let faults = self.faults();
        let mut parts = vec![self.heading()];
        parts.extend(self.flash_text());
        parts.extend(self.card_text());
        parts.extend(self.table());
        parts.push(if faults.is_empty() {
            self.success()
        } else {
            format!("Not as it should be:\n  {}", faults.join("\n  "))
        });
        Answer {
            text: parts.join("\n\n"),
            figures: self.figures(),
            devices: None,
            files: Some(self.files()),
            failure: faults.into_iter().next(),
        }
    }

    /// Of the rounds of a strategy, the one.
    fn busy(&self, strategy: Strategy) -> Option<&BusyBus> {
        let mut measured = self.outcome.measured.iter();
        measured.find(|measured| measured.strategy == strategy)
    }

    fn files(&self) -> Vec<CardFile> {
        let entries = self.outcome.entries.iter().enumerate();
        let files = entries.map(|(number, entry)| CardFile {
            name: entry.name().to_owned(),
            bytes: entry.size.into(),
            directory: entry.directory,
            sha256: entry.sha256.as_ref().map(hex),
            equal: self.is_equal(number),
        });
        files.collect()
    }

    /// Whether the host has read the same.
    fn is_equal(&self, number: usize) -> bool {
        let pair = self.outcome.entries.get(number);
        let pair = pair.zip(self.card.entries.get(number));
        pair.is_some_and(|(ours, hosts)| is_equal(ours, hosts))
    }
}

fn is_equal(ours: &Entry, hosts: &HostEntry) -> bool {
    // A short name has no case, and an alphabet that nobody knows; spaces in it the
    // guest's crate leaves out.
    let short = || hosts.name.replace(' ', "");
    let same_name = match &ours.long {
        Some(long) => *long == hosts.name,
        None => !hosts.name.is_ascii() || short().eq_ignore_ascii_case(&ours.short),
    };
    let same_size = ours.directory || u64::from(ours.size) == hosts.bytes;
    same_name && same_size && ours.directory == hosts.directory && ours.sha256 == hosts.sha256
}

/// As `sha256sum` prints it.
fn hex(digest: &[u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

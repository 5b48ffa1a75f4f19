//! A flash, an SD card, and a busy bus.

use std::ffi::OsString;

use anyhow::Result;
use nostall_vm::Guest;
use nostall_work::spi::{SpiMeasured as BusyBus, Strategy};
use serde::Serialize;

use super::card::Card;
use super::host::HostEntry;
use super::model::{self, Broken};
use super::run::{Entry, Experiment, Outcome, run};
use super::text::Named;
use crate::experiments::experiment::Answer;
use crate::experiments::on::{On, on_qemu};
use crate::experiments::progress::Busy;
use crate::experiments::table::{cpus_on_host, host_cpus};

/// How often the busy bus is measured by each strategy.
const ROUNDS: u16 = 1;

/// What was measured.
pub struct Measured {
    /// Where.
    pub headline: String,
    /// The stable word for where the devices are, and for where the busy bus is.
    pub on: (&'static str, &'static str),
    pub frames: u32,
    pub card: CardImage,
    pub outcome: Outcome,
}

/// What is known of the card's image.
pub struct CardImage {
    pub name: String,
    pub bytes: u64,
    pub entries: Vec<HostEntry>,
}

/// What is in the root directory of the card, for programs.
#[derive(Serialize)]
pub struct Files {
    pub files: Vec<CardFile>,
}

/// A file or directory on the card, for programs.
#[derive(Serialize)]
pub struct CardFile {
    pub name: String,
    pub bytes: u64,
    pub directory: bool,
    sha256: Option<String>,
    /// Whether the host reads the same from the image.
    pub equal: bool,
}

/// Runs the experiment on `on`.
pub fn measure(
    on: &On,
    cpus: u16,
    qemu_args: &[OsString],
    frames: u32,
    card: &Card,
) -> Result<Measured> {
    let _busy = Busy::new("trying the flash, reading the card, receiving frames");
    let experiment = Experiment {
        frames,
        rounds: ROUNDS,
    };
    let image = card.image()?;
    let (outcome, headline, on) = match on {
        On::Qemu { qemu, kernel } => {
            card.fits_qemu()?;
            let guest = Guest {
                qemu_args,
                ..Guest::new(kernel, cpus)
            };
            let (outcome, ran) = run(qemu, &guest, &image, &experiment)?;
            let headline = on_qemu("spi", qemu, &cpus_on_host(cpus), &ran);
            (outcome, headline, ("qemu", "qemu"))
        }
        // KVM is not chosen for this path.
        _ => {
            let headline = format!(
                "spi on models, in virtual time; the busy bus on threads, 3 on {} CPUs",
                host_cpus()
            );
            let outcome = model::run(image, &experiment, Broken::default());
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

impl Measured {
    /// For people and for programs.
    pub fn answer(&self) -> Answer<Files> {
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
            figures: self.figures().into(),
            found: Files {
                files: self.files(),
            },
            failure: faults.into_iter().next(),
        }
    }

    /// Of the rounds of a strategy, the one.
    pub fn busy(&self, strategy: Strategy) -> Option<&BusyBus> {
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
    pub fn is_equal(&self, number: usize) -> bool {
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
pub fn hex(digest: &[u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

//! `nostall log read`: a memory image's rings, as text or JSON.

use std::borrow::Cow;
use std::path::PathBuf;

use anyhow::{Result, anyhow, ensure};
use nostall_console::image::{self, Found, NotARing};
use nostall_pstore::image::Image;

use super::{json, text};
use crate::output::{note, to_stdout};

/// At which rings start.
const ALIGNMENT: u64 = 64;

/// Show the log records in a dead machine's memory that had not been printed
///
/// Finds the log rings of nostall-console in a memory dump: raw guest RAM, ELF cores
/// (kdump, QEMU's dump-guest-memory), LiME. What had been printed is known where a sink
/// has a place in the ring; where none has, all records are shown. Nothing is changed.
#[derive(clap::Args)]
#[command(after_long_help = AFTER)]
pub struct Args {
    /// The memory image
    #[arg(value_name = "IMAGE")]
    image: PathBuf,

    /// Every record that is still there, printed or not
    #[arg(long)]
    all: bool,

    /// For programs: one object a line, for each record
    #[arg(long)]
    json: bool,
}

const AFTER: &str = "\
What was found goes to stderr: where a ring is, how many records it shows, and how many
are unfinished (begun when the machine died) or damaged.

JSON: an object has schema (1), ring (its address), sequence, time_ns, cpu, level (as
syslog's), priority (normal, emergency, panic), target, text, text_hex where the bytes
are not UTF-8, continues and continued (parts of a long line), cut (the text was longer),
printed; or schema, ring, sequence and unfinished.

Exit status: 0 if there was a ring, even one with nothing in it; 1 if not.";

/// A ring that was found.
pub struct Ring {
    /// Its physical address.
    pub address: u64,
    /// What is to be shown of it, from the oldest.
    pub found: Vec<Found>,
    /// Records before this one had been printed.
    pub unprinted_from: u64,
    newest: u64,
    /// Records that should be there, and are not.
    damaged: u64,
}

/// Does what the arguments say.
pub fn run(args: &Args) -> Result<()> {
    let path = args.image.display();
    ensure!(!args.image.is_dir(), "{path} is a directory, not an image");
    let image = Image::open(&args.image).map_err(|error| anyhow!("{path}: {error}"))?;
    let rings = find(&image, args.all);
    ensure!(!rings.is_empty(), "{path}: there is no log ring in it");
    for ring in &rings {
        note(format_args!("{}", ring.describe()));
    }
    to_stdout(|out| {
        if args.json {
            rings.iter().try_for_each(|ring| json::write(ring, out))
        } else {
            text::write(&rings, out)
        }
    })
}

fn find(image: &Image, all: bool) -> Vec<Ring> {
    let mut rings = Vec::new();
    for (start, bytes) in image.data_ranges() {
        let skip = start.next_multiple_of(ALIGNMENT) - start;
        let bytes = bytes.get(skip as usize..).unwrap_or_default();
        for at in image::find(bytes) {
            let address = start + skip + at as u64;
            if let Some(ring) = read(image, address, &bytes[at..], all) {
                rings.push(ring);
            }
        }
    }
    rings
}

/// The ring at `address`, of which there is at least `bytes`; `None` if it is none: the
/// words that it begins with are elsewhere, too.
fn read(image: &Image, address: u64, bytes: &[u8], all: bool) -> Option<Ring> {
    let bytes = match image::decode(bytes) {
        // What was never written may be a hole in the file.
        Err(NotARing::Short { whole }) => image.read(address, whole)?,
        Err(_) => return None,
        Ok(_) => Cow::Borrowed(bytes),
    };
    let ring = image::decode(&bytes).ok()?;
    let newest = ring.newest();
    let kept = newest.min(ring.slots() as u64);
    let found: Vec<_> = ring.records().collect();
    let damaged = kept.saturating_sub(found.len() as u64);
    // Of several sinks, the one that was the furthest behind.
    let sent = ring.sent().into_iter().filter(|&sent| sent != 0).min();
    let unprinted_from = sent.unwrap_or(0);
    let shown = |found: &Found| all || sequence(found) >= unprinted_from;
    Some(Ring {
        address,
        found: found.into_iter().filter(shown).collect(),
        unprinted_from,
        newest,
        damaged,
    })
}

/// Of the record.
pub const fn sequence(found: &Found) -> u64 {
    match found {
        Found::Record(record) => record.sequence,
        Found::Unfinished(sequence) => *sequence,
    }
}

impl Ring {
    fn describe(&self) -> String {
        let unfinished = self.found.iter();
        let unfinished = unfinished.filter(|found| matches!(found, Found::Unfinished(_)));
        let unfinished = unfinished.count();
        let mut what = format!(
            "a log ring at {:#x}: {} of {} records",
            self.address,
            self.found.len() - unfinished,
            self.newest
        );
        if self.unprinted_from > 0 {
            what += &format!(", printed up to {}", self.unprinted_from - 1);
        }
        if unfinished > 0 {
            what += &format!(", {unfinished} unfinished");
        }
        if self.damaged > 0 {
            what += &format!(", {} damaged", self.damaged);
        }
        what
    }
}

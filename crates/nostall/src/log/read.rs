//! `nostall log read`: a memory image's rings, as text or JSON.

use std::borrow::Cow;
use std::path::PathBuf;

use anyhow::{Result, anyhow, ensure};
use nostall_console::image::{self, Found, NotARing};
use nostall_pstore::image::{Image, MAX_COPY};

use super::{json, text};
use crate::output::{note, to_stdout};

/// At which rings start.
const ALIGNMENT: u64 = 64;

/// Show the log records in a dead machine's memory that had not been printed
///
/// Finds the log rings of nostall-console in a memory dump: raw guest RAM, ELF cores
/// (kdump, QEMU's dump-guest-memory), LiME; holes of sparse files are not read. What had
/// been printed is known where a sink has a place in the ring; where none has, all records
/// are shown. Nothing is changed.
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
What was found goes to stderr: where a ring is, how many records it shows, and
how many are unfinished (begun when the machine died) or damaged. Where several
sinks have a place, printed is what all of them have sent; an emergency or a
panic that was sent before its turn is shown all the same.

Text: a line each, as on the machine's console; control characters, bytes that
are no UTF-8 and characters that turn the direction of writing are escapes.

JSON: an object has schema (1), ring (its address), sequence, time_ns, cpu,
level (as syslog's), priority (normal, emergency, panic), target, text, text_hex
where the bytes are not UTF-8, continues and continued (parts of a long line),
cut (the text was longer), printed; or schema, ring, sequence and unfinished.

Examples:
  nostall log read ram                    # QEMU's memory-backend-file, share=on
  nostall log read vmcore --all | less    # kdump's, or dump-guest-memory's

Exit status: 0 if there was a ring, even one with nothing in it; 1 if not.";

/// The most that are shown: whoever made an image may have filled it with them.
const MOST_RINGS: usize = 4_096;

/// A ring that was found.
pub struct Ring<'a> {
    /// Its physical address.
    pub address: u64,
    /// Records before this one had been printed; `None` if nobody knows.
    unprinted_from: Option<u64>,
    /// So many of the newest are shown.
    last: u64,
    bytes: Cow<'a, [u8]>,
    /// Bytes of it that the image lacks, and that are zeros in `bytes`.
    missing: usize,
    /// The newest record's sequence; and whether there are records from before sequences
    /// wrapped, as those of machines of 32 bits do.
    newest: u64,
    has_wrapped: bool,
    /// Records that are shown; those that were begun alone; those that should be there,
    /// and are not.
    shown: u64,
    unfinished: u64,
    damaged: usize,
}

/// Does what the arguments say.
pub fn run(args: &Args) -> Result<()> {
    let path = args.image.display();
    ensure!(!args.image.is_dir(), "{path} is a directory, not an image");
    let image = Image::open(&args.image).map_err(|error| anyhow!("{path}: {error}"))?;
    let rings = find(&image, args.all);
    ensure!(!rings.is_empty(), "{path}: there is no log ring in it");
    if image.missing() > 0 {
        let missing = image.missing();
        note(format_args!(
            "the image is cut short: {missing} bytes that it promises are missing"
        ));
    }
    if rings.len() == MOST_RINGS {
        note(format_args!("only the first {MOST_RINGS} rings are shown"));
    }
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

/// What is inside of a ring is passed by: it may be a text that was logged. So each byte is
/// looked at once, whatever the image says.
fn find(image: &Image, all: bool) -> Vec<Ring<'_>> {
    let mut rings = Vec::new();
    let mut next = 0;
    for (start, bytes) in image.data_ranges() {
        let skip = start.max(next).next_multiple_of(ALIGNMENT) - start;
        let bytes = bytes.get(skip as usize..).unwrap_or_default();
        for at in image::find(bytes) {
            let address = start + skip + at as u64;
            if address < next {
                continue;
            }
            if let Some(ring) = Ring::at(image, address, &bytes[at..], all) {
                next = address.saturating_add((ring.bytes.len() - ring.missing) as u64);
                rings.push(ring);
            }
            if rings.len() == MOST_RINGS {
                return rings;
            }
        }
    }
    rings
}

/// Of the record.
pub const fn sequence(found: &Found) -> u64 {
    match found {
        Found::Record(record) => record.sequence,
        Found::Unfinished(sequence) => *sequence,
    }
}

impl<'a> Ring<'a> {
    /// The ring at `address`, of which there is at least `bytes`; `None` if it is none: the
    /// words that it begins with are elsewhere, too.
    fn at(image: &'a Image, address: u64, bytes: &'a [u8], all: bool) -> Option<Self> {
        let (bytes, missing) = match image::decode(bytes) {
            Ok(ring) => (Cow::Borrowed(&bytes[..ring.size()]), 0),
            Err(NotARing::Short { whole }) => match image.read(address, whole) {
                // What was never written was a hole in the file.
                Some(bytes) => (bytes, 0),
                None => padded(image, address, whole)?,
            },
            Err(_) => return None,
        };
        let ring = image::decode(&bytes).ok()?;
        // Of several sinks, the one that was the furthest behind.
        let unprinted_from = ring
            .sent()
            .into_iter()
            .filter(|&sent| sent != 0)
            .max_by_key(|&sent| ring.since(sent));
        let last = match unprinted_from {
            Some(sent) if !all => ring.since(sent),
            _ => u64::MAX,
        };
        let newest = ring.newest();
        let (mut shown, mut unfinished, mut has_wrapped) = (0, 0, false);
        for found in ring.records() {
            let sequence = sequence(&found);
            has_wrapped |= sequence > newest;
            match found {
                _ if ring.since(sequence) > last => {}
                Found::Record(_) => shown += 1,
                Found::Unfinished(_) => unfinished += 1,
            }
        }
        let damaged = ring.missing();
        Some(Self {
            address,
            unprinted_from,
            last,
            bytes,
            missing,
            newest,
            has_wrapped,
            shown,
            unfinished,
            damaged,
        })
    }

    /// What is to be shown of it, from the oldest.
    pub fn shown(&self) -> impl Iterator<Item = Found> + use<'_> {
        let ring = image::decode(&self.bytes).ok();
        let any = self.shown + self.unfinished > 0;
        let records = ring.filter(|_| any).into_iter();
        let records = records.flat_map(|ring| ring.records());
        records.filter(|found| self.since(sequence(found)) <= self.last)
    }

    /// How many records there are from this one to the newest, both included.
    pub fn since(&self, sequence: u64) -> u64 {
        image::decode(&self.bytes).map_or(0, |ring| ring.since(sequence))
    }

    /// All sinks have sent it.
    pub fn is_printed(&self, sequence: u64) -> bool {
        self.unprinted_from
            .is_some_and(|unprinted| self.since(sequence) > self.since(unprinted))
    }

    fn describe(&self) -> String {
        let mut what = format!("a log ring at {:#x}: ", self.address);
        if self.missing > 0 {
            let len = self.bytes.len();
            let there = len - self.missing;
            what += &format!("the image has {there} of its {len} bytes; ");
        }
        what += &if self.has_wrapped {
            let Self { shown, newest, .. } = self;
            format!("{shown} records, to {newest} after the numbers wrapped")
        } else {
            format!("{} of {} records", self.shown, self.newest)
        };
        if let Some(unprinted) = self.unprinted_from {
            what += &format!(", printed up to {}", unprinted - 1);
        }
        let damaged = self.damaged as u64;
        for (number, are) in [(self.unfinished, "unfinished"), (damaged, "damaged")] {
            if number > 0 {
                what += &format!(", {number} {are}");
            }
        }
        what
    }
}

/// What there is of a ring that the image's end cuts off, zeros after it, and how many.
fn padded(image: &Image, address: u64, whole: usize) -> Option<(Cow<'_, [u8]>, usize)> {
    let segments = image.segments();
    let behind = segments.partition_point(|segment| segment.physical <= address);
    let segment = segments.get(behind.checked_sub(1)?)?;
    let there = segment.len.checked_sub(address - segment.physical)? as usize;
    let missing = whole.checked_sub(there)?;
    if whole > MAX_COPY {
        return None;
    }
    let mut bytes = image.read(address, there)?.into_owned();
    bytes.resize(whole, 0);
    Some((Cow::Owned(bytes), missing))
}

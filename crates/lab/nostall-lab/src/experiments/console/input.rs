//! Input of the experiment: the log.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Error, Result, anyhow, ensure};
use flate2::read::{GzDecoder, MultiGzDecoder};
use nostall_io::Nanos;
use nostall_postmortem::cli::read_or;
use nostall_work::console::Lines;

/// Linux 6.1's log on the article's trigger; see fixtures/README.md.
const FLOOD: &[u8] = include_bytes!("../../../fixtures/console/scsi-debug-flood.log.gz");

/// The longest log: an hour of line, and still an answer within a minute.
const LONGEST: usize = 4 << 20;

/// First bytes of a gzip file (RFC 1952, section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A recorded log.
#[derive(Clone)]
pub struct Log {
    pub bytes: Vec<u8>,
    name: String,
    lines: usize,
    /// From its first line to its last.
    span: Nanos,
    /// It is the one that the experiment is about.
    pub is_flood: bool,
}

impl Log {
    fn new(bytes: Vec<u8>, name: String, is_flood: bool) -> Self {
        let lines = Lines::new(&bytes);
        let last = lines.clone().last();
        Self {
            lines: lines.count(),
            span: last.map(|line| line.at).unwrap_or_default(),
            bytes,
            name,
            is_flood,
        }
    }

    /// In a line.
    pub fn describe(&self) -> String {
        let pace = match self.span {
            Nanos::ZERO => "as fast as can be".to_owned(),
            span => format!("in {span}"),
        };
        let lines = match self.lines {
            1 => "1 line".to_owned(),
            n => format!("{n} lines"),
        };
        format!("{}: {lines}, {} bytes {pace}", self.name, self.bytes.len())
    }

    /// One line in so many, and as many times as soon.
    pub fn one_line_in(self, part: u32) -> Self {
        let part = part.max(1);
        let mut bytes = Vec::new();
        for line in Lines::new(&self.bytes).step_by(part as usize) {
            let us = line.at.0 / u64::from(part) / 1_000;
            let (s, us) = (us / 1_000_000, us % 1_000_000);
            let time = format!("<{}>[{s:5}.{us:06}] ", line.level as u8);
            bytes.extend_from_slice(time.as_bytes());
            bytes.extend_from_slice(line.text);
            bytes.push(b'\n');
        }
        let name = match part {
            1 => self.name,
            part => format!("1 line in {part} of {}", self.name),
        };
        // The experiment's own flood is longer.
        Self::new(bytes, name, false)
    }

    /// When half of it is logged, or sent if it is logged all at once.
    pub fn middle(&self, frame: Nanos) -> Nanos {
        match self.span {
            Nanos::ZERO => frame * (self.bytes.len() as u64 / 2),
            span => span / 2,
        }
    }
}

/// Reads the log that the arguments select.
pub fn read(input: Option<&Path>) -> Result<Log> {
    let Some(path) = input else {
        let bytes = unpack(GzDecoder::new(FLOOD)).context("the flood inside this command")?;
        return Ok(Log::new(bytes, "scsi_debug flood".to_owned(), true));
    };
    let name = path.display().to_string();
    let bytes = read_file(path).with_context(|| format!("--input {name}"))?;
    let log = Log::new(bytes, name, false);
    ensure!(log.lines > 0, "--input {}: no line to log", log.name);
    Ok(log)
}

/// Reads a log, and unpacks it if gzip has compressed it.
fn read_file(path: &Path) -> Result<Vec<u8>> {
    let bytes = read_or(path, LONGEST, too_long)?;
    if bytes.starts_with(&GZIP) {
        return unpack(MultiGzDecoder::new(bytes.as_slice())).context("gzip cannot read it");
    }
    Ok(bytes)
}

fn unpack(log: impl Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more than is allowed shows that there is more.
    log.take(LONGEST as u64 + 1).read_to_end(&mut bytes)?;
    match bytes.len() <= LONGEST {
        true => Ok(bytes),
        false => Err(too_long()),
    }
}

fn too_long() -> Error {
    anyhow!("the log is longer than {LONGEST} bytes: give a part of it")
}

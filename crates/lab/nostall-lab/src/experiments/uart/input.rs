//! The text to send.

use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use nostall_devices::Fault;
use nostall_postmortem::cli::read_or;

use super::model::PlannedFault;
use super::run::alphabet;

/// The log of Linux 6.1 booting a virtual PC; see fixtures/README.md.
const BOOT_LOG: &[u8] = include_bytes!("../../../fixtures/console/linux-boot.log");

/// The longest text: a log of hours, and still an answer within minutes.
pub const LONGEST: u64 = 16 << 20;

/// A text and its name.
pub struct NamedText {
    pub bytes: Vec<u8>,
    name: String,
}

impl NamedText {
    /// Describes the text in a line.
    pub fn describe(&self, on_the_line: usize, rounds: u16) -> String {
        let rounds = match rounds {
            1 => "1 round".to_owned(),
            n => format!("medians of {n} rounds"),
        };
        format!(
            "{}: {} bytes, {on_the_line} with CRs; {rounds}",
            self.name,
            self.bytes.len(),
        )
    }
}

/// Returns the text that the arguments name.
pub fn read(input: Option<&Path>, bytes: Option<u64>) -> Result<NamedText> {
    if let Some(path) = input {
        let bytes = read_file(path).with_context(|| format!("--input {}", path.display()))?;
        let name = path.display().to_string();
        return Ok(NamedText { bytes, name });
    }
    Ok(match bytes {
        Some(n) => NamedText {
            bytes: alphabet(n as usize),
            name: "alphabet".to_owned(),
        },
        None => NamedText {
            bytes: BOOT_LOG.to_vec(),
            name: "Linux boot log".to_owned(),
        },
    })
}

/// Parses a fault, `NAME` or `NAME:AFTER`.
pub fn fault(words: &str) -> Result<PlannedFault, String> {
    let (name, after) = words.split_once(':').unwrap_or((words, "1000"));
    let fault = name.parse().map_err(|_| {
        let names = Fault::ALL.map(Fault::name);
        format!("the faults are {}", names.join(", "))
    })?;
    let after = after
        .parse()
        .map_err(|_| format!("`{after}` is not a number of accesses"))?;
    Ok(PlannedFault { fault, after })
}

fn read_file(path: &Path) -> Result<Vec<u8>> {
    let bytes = read_or(path, LONGEST as usize, || {
        anyhow!("the file is longer than {LONGEST} bytes: send a part of it")
    })?;
    ensure!(!bytes.is_empty(), "the file is empty: nothing to send");
    Ok(bytes)
}

//! The text to send.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use nostall_devices::Fault;

use super::model::PlannedFault;
use super::run::alphabet;
use crate::experiments::args::open;

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
    let mut bytes = Vec::new();
    // One byte more than is allowed shows that the file is too long. It may be a device
    // without an end.
    open(path)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
    ensure!(!bytes.is_empty(), "the file is empty: nothing to send");
    ensure!(
        bytes.len() as u64 <= LONGEST,
        "the file is longer than {LONGEST} bytes: send a part of it"
    );
    Ok(bytes)
}

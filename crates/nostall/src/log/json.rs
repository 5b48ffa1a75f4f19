//! Records as JSON, one object a line.

use std::fmt::Write as _;
use std::io::{self, Write};

use nostall_console::Priority;
use nostall_console::image::Found;
use serde::Serialize;

use super::read::Ring;
use crate::escape::escape_json;

#[derive(Serialize)]
struct Record<'a> {
    schema: u32,
    ring: String,
    sequence: u64,
    time_ns: u64,
    cpu: u16,
    level: u8,
    priority: &'static str,
    target: String,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    text_hex: Option<&'a str>,
    continues: bool,
    continued: bool,
    cut: bool,
    printed: bool,
}

#[derive(Serialize)]
struct Unfinished {
    schema: u32,
    ring: String,
    sequence: u64,
    unfinished: bool,
}

/// Writes them.
pub fn write(ring: &Ring<'_>, out: &mut dyn Write) -> io::Result<()> {
    let address = || format!("{:#x}", ring.address);
    for found in ring.shown() {
        let json = match found {
            Found::Unfinished(sequence) => serde_json::to_string(&Unfinished {
                schema: 1,
                ring: address(),
                sequence,
                unfinished: true,
            }),
            Found::Record(ref record) => {
                let hex = str::from_utf8(record.text()).is_err().then(|| {
                    record.text().iter().fold(String::new(), |mut hex, byte| {
                        let _ = write!(hex, "{byte:02x}");
                        hex
                    })
                });
                serde_json::to_string(&Record {
                    schema: 1,
                    ring: address(),
                    sequence: record.sequence,
                    time_ns: record.time.0,
                    cpu: record.cpu,
                    level: record.level as u8,
                    priority: match record.priority {
                        Priority::Normal => "normal",
                        Priority::Emergency => "emergency",
                        Priority::Panic => "panic",
                    },
                    target: String::from_utf8_lossy(record.target()).into_owned(),
                    text: String::from_utf8_lossy(record.text()).into_owned(),
                    text_hex: hex.as_deref(),
                    continues: record.continues,
                    continued: record.continued,
                    cut: record.cut,
                    printed: ring.is_printed(record.sequence),
                })
            }
        };
        writeln!(out, "{}", escape_json(&json?))?;
    }
    Ok(())
}

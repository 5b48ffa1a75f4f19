//! Records as lines, as a drain sends them, and fit for a terminal.

use std::io::{self, Write};

use nostall_console::image::Found;

use super::read::Ring;
use crate::escape::escape;

/// Writes them.
pub fn write(rings: &[Ring<'_>], out: &mut dyn Write) -> io::Result<()> {
    for (n, ring) in rings.iter().enumerate() {
        if rings.len() > 1 {
            let between = if n > 0 { "\n" } else { "" };
            writeln!(out, "{between}==> ring at {:#x} <==", ring.address)?;
        }
        // Whose line goes on in the next: how far from the newest, as sequences wrap.
        let mut open = None;
        for found in ring.shown() {
            let Found::Record(mut record) = found else {
                continue;
            };
            let joins = record.adjoins && open == Some(ring.since(record.sequence) + 1);
            if open.is_some() && !joins {
                writeln!(out)?;
            }
            record.adjoins = joins;
            write!(out, "{}", escape(record.to_string().as_bytes()))?;
            open = record.continues.then(|| ring.since(record.sequence));
        }
        if open.is_some() {
            writeln!(out)?;
        }
    }
    Ok(())
}

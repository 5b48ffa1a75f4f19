//! Traces in memory of crashed machines.

use anyhow::{Context, Result};
use nostall_postmortem::cli::escape::escape_name;
use nostall_postmortem::cli::load_symbols;
use nostall_postmortem::ftrace_ring::{RingSource, load_formats};
use nostall_postmortem::memory::Memory;
use nostall_postmortem::trace_region;
use nostall_tracefile::linux::Formats;
use nostall_tracefile::model::Source;

use super::candidate::Candidate;

/// Opens memory of a crashed machine, or a recording with a damaged header.
pub fn open(candidate: &Candidate<'_>) -> Result<Option<Box<dyn Source>>> {
    let symbols = || {
        let symbols = candidate.options.symbols.as_deref();
        symbols.map(load_symbols).transpose()
    };
    let image = Memory::open(candidate.path)?;
    if let Some(source) = trace_region::open(image, symbols()?) {
        return Ok(Some(source));
    }
    // Linux's own trace. Without the formats of that kernel, its events are numbers.
    let formats = match &candidate.options.event_formats {
        Some(path) => load_formats(path).with_context(|| {
            let path = escape_name(&path.to_string_lossy());
            format!("--event-formats {path}")
        })?,
        None => Formats::default(),
    };
    let source = RingSource::open(candidate.path, symbols()?, formats)?;
    Ok(source.map(|source| Box::new(source) as _))
}

//! Traces in memory of crashed machines.

use anyhow::{Context, Result};
use nostall_postmortem::cli::escape::escape_name;
use nostall_postmortem::cli::load_symbols;
use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::ftrace_ring::{RingSource, load_formats};
use nostall_postmortem::memory::Memory;
use nostall_postmortem::trace_region::FirstTrace;
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
    let discovery = Discovery::within(&image, 0..u64::MAX, None);
    let trace = FirstTrace::of(discovery.traces(&[]));
    let buffer = discovery.ring_buffers(&[]).into_iter().next();
    if let Some(trace) = trace {
        return Ok(trace.open(image, symbols()?));
    }
    // Linux's own trace. Without the formats of that kernel, its events are numbers.
    let formats = match &candidate.options.event_formats {
        Some(path) => load_formats(path).with_context(|| {
            let path = escape_name(&path.to_string_lossy());
            format!("--event-formats {path}")
        })?,
        None => Formats::default(),
    };
    let Some(buffer) = buffer else {
        return Ok(None);
    };
    let source = RingSource::new(image, buffer, symbols()?, formats)?;
    Ok(Some(Box::new(source)))
}

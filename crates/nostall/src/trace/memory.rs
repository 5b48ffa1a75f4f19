//! Traces in memory of crashed machines.

use anyhow::Result;
use nostall_postmortem::cli::load_symbols;
use nostall_postmortem::ftrace_ring::RingSource;
use nostall_postmortem::image::Image;
use nostall_postmortem::trace_region;
use nostall_trace::linux::Formats;
use nostall_trace::model::Source;

use super::candidate::Candidate;

/// Opens memory of a crashed machine, or a recording with a damaged header.
pub fn open(candidate: &Candidate<'_>) -> Result<Option<Box<dyn Source>>> {
    let symbols = || {
        let symbols = candidate.options.symbols.as_deref();
        symbols.map(load_symbols).transpose()
    };
    let image = Image::open(candidate.path)?;
    if let Some(source) = trace_region::open(image, symbols()?) {
        return Ok(Some(source));
    }
    // Linux's own trace. Without the formats of that kernel, its events are numbers.
    let source = RingSource::open(candidate.path, symbols()?, Formats::default())?;
    Ok(source.map(|source| Box::new(source) as _))
}

//! Traces in memory of crashed machines.

use anyhow::Result;
use nostall_postmortem::cli::load_symbols;
use nostall_postmortem::image::Image;
use nostall_postmortem::trace_region;
use nostall_trace::model::Source;

use super::candidate::Candidate;

/// Opens memory of a crashed machine, or a recording with a damaged header.
pub fn open(candidate: &Candidate<'_>) -> Result<Option<Box<dyn Source>>> {
    let symbols = candidate.options.symbols.as_deref();
    let symbols = symbols.map(load_symbols).transpose()?;
    let image = Image::open(candidate.path)?;
    Ok(trace_region::open(image, symbols))
}

//! Traces for other tools: Perfetto, uftrace, flame graphs.
//!
//! Each export consumes the [steps](crate::graph::Step) of a function graph. So all of them have
//! the same calls as the reports.

mod error;
#[cfg(feature = "perfetto")]
mod perfetto;
#[cfg(test)]
mod random;

pub use error::ExportError;
#[cfg(feature = "perfetto")]
pub use perfetto::Perfetto;

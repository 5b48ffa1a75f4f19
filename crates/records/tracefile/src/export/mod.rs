//! Exports for other tools: Perfetto, uftrace, trace-cmd, flame graphs.
//!
//! Each export consumes the [steps](crate::graph::Step) of a function graph, so that it has the
//! same calls as the reports.

pub mod dat;
mod error;
mod folded;
mod lane;
#[cfg_attr(
    not(feature = "perfetto"),
    allow(dead_code, reason = "uftrace has no words for some of it")
)]
mod nest;
#[cfg(feature = "perfetto")]
mod perfetto;
#[cfg(test)]
mod random;
mod text;
mod uftrace;

pub use error::ExportError;
pub use folded::{Folded, Weight};
#[cfg(feature = "perfetto")]
pub use perfetto::Perfetto;
pub use uftrace::Uftrace;

//! Shared parts of nostall's benchmarks: tables whose rows are measured in turn, and the entry point
//! of a benchmark.
//!
//! Not for use outside nostall; it is not published.
//!
//! # Example
//!
//! ```
//! use nostall_bench::{Effort, Limit, Table, Unit};
//!
//! let mut table = Table::new("Adding", Unit::Nanoseconds);
//! let mut sum = 0_u64;
//! table.row("one by one", None, |times| (0..times).for_each(|_| sum += 1));
//! table.row("at once", Limit::RatioAtMost(2.0), |times| drop(std::hint::black_box(times)));
//! table.print(Effort::TEST);
//! ```

#![forbid(unsafe_code)]

mod lttng;
mod parts;
mod table;

pub use lttng::Lttng;
pub use parts::{Tables, main};
pub use table::{Effort, Limit, Table, Unit};

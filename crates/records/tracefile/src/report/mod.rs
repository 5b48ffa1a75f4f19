//! Reports on traces, as text and as JSON.
//!
//! [`Graph`] prints calls immediately. The others collect: pass each [`Step`](crate::graph::Step)
//! of [`walk`](crate::graph::walk) to `push`. Their memory depends on the number of functions, not
//! of events.

mod columns;
mod diff;
mod graph;
mod histogram;
mod look;
mod number;
mod rate;
mod selection;
mod spread;
mod stalls;
mod table;

pub use diff::{Diff, DiffRow};
pub use graph::{Graph, GraphLine};
pub use histogram::{Bucket, Histogram};
pub use look::Look;
pub use rate::{CounterRate, CpuRate, Interval, Rate};
pub use selection::Selection;
pub use stalls::{StallRow, Stalls};
pub use table::{Sort, Table, TableRow};

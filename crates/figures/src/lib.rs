//! Figures and tables of nostall's commands.
//!
//! A [`Figure`](figure::Figure) is the only form of a result: one measured or counted value with
//! its strategy, machine, metric and unit. [`metrics!`] declares the metrics of an experiment, which
//! figures and columns refer to. Tables are columns over figures, and JSON is the figures.
//!
//! ```
//! use nostall_figures::figure::Figures;
//! use nostall_figures::metric::Metric;
//! use nostall_figures::table::{Column, table, time, whole};
//!
//! nostall_figures::metrics! {
//!     ACCESSES = Metric::new("bus_accesses", "1");
//!     NS_PER_BYTE = Metric::new("ns_per_byte", "ns");
//! }
//!
//! let mut figures = Figures::new("uart", "model");
//! let mut polled = figures.record("byte-polled");
//! polled.value(ACCESSES, 2_000.0);
//! polled.value(NS_PER_BYTE, 86_805.0);
//!
//! const COLUMNS: &[Column] = &[
//!     Column::of("accesses", ACCESSES, whole),
//!     Column::of("a byte", NS_PER_BYTE, time),
//! ];
//! let rows = ["byte-polled"].map(|name| ([name], figures.row(name)));
//! let text = table(["strategy"], COLUMNS, rows);
//! assert_eq!(text.lines().nth(1), Some("byte-polled      2000  86.8 us"));
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod figure;
pub mod metric;
pub mod numbers;
pub mod table;

/// The README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

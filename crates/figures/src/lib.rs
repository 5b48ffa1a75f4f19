//! Figures and tables of nostall's commands.
//!
//! A [`Figure`](figure::Figure) is the only form of a result: one measured or counted value with
//! its strategy, machine, metric and unit. Tables are columns over figures, and JSON is the
//! figures.
//!
//! ```
//! use nostall_figures::figure::Figures;
//! use nostall_figures::table::{Column, table, time, whole};
//!
//! let mut figures = Figures::new("uart", "model");
//! let mut polled = figures.record("byte-polled");
//! polled.value("bus_accesses", "1", 2_000.0);
//! polled.value("ns_per_byte", "ns", 86_805.0);
//!
//! const COLUMNS: &[Column] = &[
//!     Column::of("accesses", "bus_accesses", whole),
//!     Column::of("a byte", "ns_per_byte", time),
//! ];
//! let rows = ["byte-polled"].map(|name| ([name], figures.row(name)));
//! let text = table(["strategy"], COLUMNS, rows);
//! assert_eq!(text.lines().nth(1), Some("byte-polled      2000  86.8 us"));
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod figure;
pub mod numbers;
pub mod table;

/// The README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

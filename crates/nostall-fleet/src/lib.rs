//! Turns the memory of many crashed machines into tables for query engines.
//!
//! - [`schema`]: the tables `dumps`, `records`, `calls` and `crashes`, with units.

pub mod schema;

//! Turns the memory of many crashed machines into tables for query engines.
//!
//! - [`schema`]: the tables `dumps`, `records`, `calls` and `crashes`, with units.
//! - [`decode`]: one input as rows of these tables.
//! - [`signature`]: the signature of a crash, from the functions of its stack.
//! - [`export`]: many inputs into files, in batches that a killed run resumes.
//! - [`synth`]: a fleet of made dumps with known answers.
//!
//! Without the default feature `cli`, the crate has only the decoder, for programs.
//!
//! When not to use it: for one dump, `nostall postmortem` prints its records.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(feature = "cli")]
pub mod cli;
pub mod decode;
#[cfg(feature = "cli")]
pub mod export;
#[cfg(feature = "cli")]
pub mod list;
#[cfg(feature = "cli")]
pub mod manifest;
pub mod names;
#[cfg(feature = "cli")]
pub mod output;
pub mod schema;
pub mod signature;
#[cfg(feature = "cli")]
pub mod synth;
pub mod tables;

//! Function graphs that survive a crash: a recorder for kernels and Linux programs, and reports
//! on its traces and on Linux's.

#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(feature = "report")]
pub mod export;
#[cfg(feature = "report")]
pub mod graph;
#[cfg(feature = "report")]
pub mod linux;
#[cfg(feature = "report")]
pub mod model;
#[cfg(feature = "report")]
pub mod read;
#[cfg(feature = "report")]
pub mod report;

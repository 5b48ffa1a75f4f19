//! Function graphs that survive a crash: a recorder for kernels and Linux programs, and reports
//! on its traces and on Linux's.

#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(any(target_arch = "x86_64", target_arch = "riscv64"))]
pub mod functions;
#[cfg(feature = "report")]
pub mod model;

//! Function tracing of a kernel without changes to its source.
//!
//! The kernel is built with the compiler's option `-Zpatchable-function-entry`, which needs a
//! nightly Rust. Its value is 5 on x86-64, 4 on RISC-V with compressed instructions, 2 on AArch64.
//! Each function then starts with no-operations, whose addresses are in the section
//! `__patchable_function_entries`. [`patch`] replaces them with calls of an entry stub. The stub
//! replaces the function's return address, so that the function returns to a trampoline.
//!
//! This module itself only needs stable Rust. A kernel built without the option has no sites.
//!
//! # Functions that are not recorded
//!
//! - The handlers that this module's stubs call, and [`Kernel::calls`]: [`patch`] skips them.
//! - All functions that [`Kernel::entered`] and [`Kernel::left`] call: [`Calls`] records that this
//!   CPU is in the recorder. They cost less if their crate is built without the option.
//! - Functions of crates that were compiled without the option, such as `core`. Its generic
//!   functions belong to the crate that uses them.
//!
//! - Functions inside 64 open recorded ones: [`Calls`] has no frame for them.
//!
//! # Tasks
//!
//! [`Calls`] stores return addresses in a stack. Recorded functions must therefore return in the
//! reverse order of their entries, on the CPU of their entry. A function inside which the kernel
//! switches to another task must not be recorded.
//!
//! # Interrupts
//!
//! The kernel's handler of interrupts and exceptions calls [`Calls::nested`]. Its functions are
//! then recorded although the interrupted code may be in the recorder.

mod calls;
mod sites;
#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod stubs;
#[cfg(target_arch = "riscv64")]
#[path = "riscv64.rs"]
mod stubs;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod stubs;

pub use calls::{Calls, DEPTH, Kernel};
pub use sites::{Patched, SITE_BYTES, Sites, patch};

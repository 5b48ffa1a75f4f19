//! A machine of several CPUs in virtual time, with one shared serial port.
//!
//! A [`Program`] runs on it with the same drivers as in a kernel. Instructions take no time;
//! accesses to the port take the time of its profile. The results for waiting, lock holding and the
//! line are exact and repeatable.

mod bus;
mod cpus;
mod polls;

pub use bus::{LineOutput, ModelPort};
pub use cpus::{Deadlock, ModelCpu, ModelMachine, Program};

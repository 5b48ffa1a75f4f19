//! A machine of several CPUs in virtual time, with one serial port that they share.
//!
//! A [`Program`] runs on it with the very drivers that run in a kernel. Instructions cost
//! nothing here, accesses to the port cost as much as its profile says: it answers questions
//! about waiting, holding and the line, exactly, and the same every time.

mod bus;
mod cpus;
mod polls;

pub use bus::{LineOutput, ModelPort};
pub use cpus::{Deadlock, ModelCpu, ModelMachine, Program};

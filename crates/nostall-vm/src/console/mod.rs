//! A flood of messages on a slow serial console, on a machine of several CPUs in
//! virtual time.
//!
//! What runs there is [`nostall_work::console`], with the very drivers that run in a
//! kernel. Instructions cost nothing here, accesses to the port cost what its profile
//! says: it answers questions about waiting, holding and the line, exactly, and the same
//! every time.
//!
//! [`Qemu::console`](crate::qemu::Qemu::console) runs it in nostall's kernel, in real time, and comes to the same
//! [`Outcome`].

mod bus;
mod check;
mod cut;
mod machine;
mod outcome;
mod polls;
mod qemu;
mod run;

pub use check::{Checked, Damage};
pub use outcome::{CpuOutcome, Outcome, PanicOutcome, PanicRecord};
pub use qemu::{bytes_on_the_line, time_on_the_line};
pub use run::{Experiment, Failure, run};

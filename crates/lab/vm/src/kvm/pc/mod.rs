//! Building blocks of a PC with one CPU, using KVM and nostall's device models. Other modules use
//! only the items exported below.

mod acpi;
pub mod boot;
mod bus;
mod capabilities;
mod cpu;
mod exit;
mod host;
mod machine;
mod mapping;
mod pci;
mod ring;
mod serial;
mod statistics;
mod thread;
mod vm;

pub use cpu::{identify, set_up};
pub use exit::End;
pub use host::Kvm;
#[cfg(test)]
pub use machine::tests as machine_tests;
pub use machine::{KvmMachine, RunningMachine, stuck};
pub use mapping::{PAGE, SharedMemory};
pub use pci::devices;
pub use thread::CpuThread;
pub use vm::{create_vm, failed};

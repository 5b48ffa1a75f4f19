//! PCI configuration space without stalls.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "std")]
extern crate std;

mod access;
mod address;
mod ecam;
mod environment;
pub mod mcfg;
mod ports;
mod selector;
mod window;

pub use access::{AccessError, ConfigAccess, REGISTERS, Width};
pub use address::{Address, BadAddress};
pub use ecam::{BUS, Ecam};
pub use environment::{Environment, Signature};
pub use ports::{PORT, PORTS, Ports};
pub use selector::{Choice, Known, Policy, Selector};

//! A PCI host bridge.

mod address;
mod bar;
mod builder;
mod capability;
mod express;
mod function;
mod host_bridge;
mod memory;
mod ports;
mod registers;
mod saving;
mod shadow;
mod topology;
mod tree;
mod virtual_bus;

pub use address::Address;
pub use bar::{Bar, Prefetch};
pub use builder::{BuildError, Class, FunctionBuilder, IoWindow, Pin, PrefetchableWindow, Windows};
pub use capability::{Capability, ExtendedCapability};
pub use express::PortType;
pub use function::{Function, Volatile};
pub use host_bridge::{HostBridge, Written};
pub use memory::{ShadowCounts, ShadowError, ShadowMemory};
pub use saving::State;
pub use shadow::{Change, Contents, MAX_RUNS, Run, Shadow};
pub use topology::{Topology, TopologyFailure};
pub use tree::{FunctionId, TopologyError};
pub use virtual_bus::{EcamWindow, PortWindow, VirtualBus};

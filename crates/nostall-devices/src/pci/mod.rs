//! A PCI host bridge: configuration functions behind it, reached by ports and by
//! ECAM, and a [`Shadow`] of its ECAM window that makes reads of memory of them.
//!
//! Configuration space only: what an address in a BAR does is its device's. When
//! not to use it: for a VMM whose guests configure a dozen devices once, plain
//! [`HostBridge::ecam_read`] is enough; the shadow is for guests that are booted
//! often, or scan much.
//!
//! # Example
//!
//! A device, a guest that asks for the size of its BAR, and a VMM that maps the
//! window:
//!
//! ```
//! use nostall_devices::pci::{
//!     Bar, Capability, Change, Class, Contents, Function, HostBridge, PortType, Prefetch,
//!     Shadow, ShadowMemory, Written,
//! };
//!
//! let mut bridge = HostBridge::new(0..=255);
//! bridge.add(0, 0, Function::endpoint(0x1af4, 0x10f0, Class::HOST_BRIDGE).build()?)?;
//! let accelerator = Function::endpoint(0x1af4, 0x10f5, Class::new(0x12, 0, 0))
//!     .express(PortType::RootComplexEndpoint)
//!     .bar(0, Bar::Memory64(0x4000, Prefetch::Yes))
//!     .capability(Capability::msix(4, 0, 0x2000, 0x3000))
//!     .build()?;
//! let accelerator = bridge.add(1, 0, accelerator)?;
//!
//! // At first, everything is mapped. (A VMM would now call its hypervisor.)
//! let mut shadow = Shadow::new(&bridge, 0..=255);
//! let changes = shadow.follow(&bridge);
//! assert_eq!(changes.len(), 256); // one mapping a bus
//! assert!(matches!(changes[0], Change::Map(_, Contents::Functions)));
//! assert!(matches!(changes[1], Change::Map(_, Contents::AllOnes)));
//! let mut memory = ShadowMemory::new(); // stands for the mappings
//! memory.apply(&changes, &shadow)?;
//!
//! // The guest's write traps; the device sees that it was meant.
//! let bar = 1 << 15 | 0x10;
//! let written = bridge.ecam_write(bar, &[0xff; 4]);
//! let expected = Written { function: accelerator, register: 0x10, length: 4 };
//! assert_eq!(written, Some(expected));
//!
//! // Before the guest goes on, its memory is brought up to date: one word.
//! let changes = shadow.follow(&bridge);
//! let bytes = 0xffff_c00c_u32.to_le_bytes().to_vec();
//! assert_eq!(changes, [Change::Update { offset: bar, bytes }]);
//! memory.apply(&changes, &shadow)?;
//!
//! // Its read does not trap, and a trap would have answered the same.
//! let (mut seen, mut answered) = ([0; 4], [0; 4]);
//! assert!(memory.read(bar, &mut seen));
//! bridge.port_write(0, &0x8000_0810_u32.to_le_bytes());
//! bridge.port_read(4, &mut answered);
//! assert_eq!(seen, answered);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Topology`] is a machine with one of everything, ready made; [`VirtualBus`]
//! lets a driver reach a bridge in this process, and counts what would be exits.
//!
//! # What a guest can and cannot do
//!
//! Writes change the bits that a function's masks let them, and nothing else.
//! Bridges pass accesses on by their secondary and subordinate numbers as they are
//! now; loops, overlaps and numbers upside down lead nowhere, or to the first that
//! would pass. No write makes anything grow: memory is bounded by the functions
//! that the VMM puts in, four pages each and one more in each shadow.
//!
//! Not modelled: power states (stored, without effect), the reset of single
//! functions, advanced error reporting, hot-plug controllers, configuration by
//! type 1 cycles from below, and more than one segment: make one bridge for each.
//!
//! # Changing mappings while virtual CPUs run
//!
//! The order in which [`Shadow::follow`] tells its changes is the order to make
//! them in. What each costs, and why it is safe:
//!
//! - [`Change::Update`] stores words into memory that the guest may be reading. It
//!   costs no more than that. Store each word whole (an aligned, atomic store of
//!   32 bits), so that no CPU sees half of one. Registers that span two words, as
//!   64-bit BARs do, may be seen half changed, as on hardware.
//! - [`Change::Map`] comes when the memory holds its contents: fill it with
//!   [`Shadow::pages`] first, and map it read-only. (KVM: a slot with
//!   `KVM_MEM_READONLY`; writes to it exit as MMIO.)
//! - [`Change::Clear`] makes pages all ones whose functions are gone. Store ones, or give
//!   the pages back: a private mapping of a file of ones needs `MADV_DONTNEED` alone.
//! - [`Change::Unmap`] makes a run trap. It is the expensive one: KVM on x86 then drops
//!   all of the guest's page tables, to be built again fault by fault, and every
//!   CPU has to leave the guest. It comes only if bus numbers change which buses have
//!   functions on them, or if a function that traps comes, goes or moves: a few
//!   times at boot, never because a register changed.
//! - KVM cannot change a slot in place. Between the `Unmap` of a run and the `Map`
//!   of what replaces it, other CPUs' reads trap. That is harmless: the bridge
//!   answers them, as it would always. It has to be locked for that; keep it so
//!   from the guest's write until the last change is made, and the CPU that wrote
//!   sees what it wrote.
//!
//! - While bus numbers change, several buses are mapped anew, one after the other. Until
//!   the last change is made, CPUs other than the one that wrote may see moved buses
//!   half moved: a function at its old place and at its new one, or at neither. On
//!   hardware, too, nobody may rely on what is below a bridge whose numbers are being
//!   written; a guest that does harms itself.
//! - A guest can write bus numbers back and forth. Each write that moves functions costs one
//!   walk over bridges and functions, and changes of the buses whose functions moved. The guest
//!   pays for those with exits: 100 for a mapping, 1 for a page that is built. Four mappings
//!   for each bus are free, so that a boot is never short of them. Without that credit a bus
//!   is unmapped, once, and traps: no old value is ever shown. Its mapping comes back with a
//!   later call of [`Shadow::follow`], when exits have paid for it. Call it after each access
//!   that the bridge answered, therefore, reads included.
//!
//! All ones need no memory of their own. Back every run with a private mapping
//! (`MAP_PRIVATE`) of one file of ones, 1 MiB: only the functions' pages, which are stored
//! to, then take memory, 4 KiB each. A bus takes one mapping, and one more for each function
//! on it that traps, up to [`MAX_RUNS`]; a whole window of 256 buses without such
//! functions takes 256.
//!
//! # Registers that trap
//!
//! Memory cannot stand for a register whose read has an effect, or that changes
//! without a write. [`FunctionBuilder::volatile`] names such ranges, and for each the
//! [`Volatile`] device that answers for it; their function's page then traps. For the
//! registers of a capability, [`Function::capabilities`] returns where they are, and
//! [`Function::with_volatile`] adds the range. A
//! register that changes now and then (an error bit, a link's state) needs none of
//! that: [`HostBridge::store`] it, and let the shadow follow.

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
pub use builder::{Class, FunctionBuilder, IoWindow, Pin, PrefetchableWindow, WindowKinds};
pub use capability::{Capability, ExtendedCapability};
pub use express::PortType;
pub use function::{BarPlace, BuildError, Decoding, Function, Volatile};
pub use host_bridge::{HostBridge, Written};
pub use memory::{ShadowCounts, ShadowError, ShadowMemory};
pub use saving::State;
pub use shadow::{Change, Contents, MAX_RUNS, Run, Shadow};
pub use topology::{Topology, TopologyFailure};
pub use tree::{FunctionId, TopologyError};
pub use virtual_bus::{EcamWindow, PortWindow, VirtualBus};

//! A PCI host bridge with configuration functions behind it, accessible through ports and
//! through ECAM. A [`Shadow`] of its ECAM window lets a guest read the window as plain memory.
//!
//! Only configuration space is modelled: accesses to a BAR belong to the device's own model. A VMM
//! whose guests configure a dozen devices once only needs [`HostBridge::ecam_read`]. The shadow is
//! for guests that boot often or scan many functions.
//!
//! # Example
//!
//! A device, a guest that sizes the device's BAR, and a VMM that maps the window:
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
//! // The guest's write traps. The bridge reports which device it reached.
//! let bar = 1 << 15 | 0x10;
//! let written = bridge.ecam_write(bar, &[0xff; 4]);
//! let expected = Written { function: accelerator, register: 0x10, length: 4 };
//! assert_eq!(written, Some(expected));
//!
//! // Before the guest resumes, one word of its memory is brought up to date.
//! let changes = shadow.follow(&bridge);
//! let bytes = 0xffff_c00c_u32.to_le_bytes().to_vec();
//! assert_eq!(changes, [Change::Update { offset: bar, bytes }]);
//! memory.apply(&changes, &shadow)?;
//!
//! // The guest's read does not trap, and returns the same as a trap would.
//! let (mut seen, mut answered) = ([0; 4], [0; 4]);
//! assert!(memory.read(bar, &mut seen));
//! bridge.port_write(0, &0x8000_0810_u32.to_le_bytes());
//! bridge.port_read(4, &mut answered);
//! assert_eq!(seen, answered);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A VMM that models its functions itself keeps its model: a [`Mirror`] is the shadow of a bus of
//! them.
//!
//! [`Topology`] is a ready-made machine with one device of each kind. With [`VirtualBus`], a
//! driver in this process reaches a bridge, and accesses that would be exits are counted.
//!
//! # Limits of a guest
//!
//! Writes change only the bits in a function's write masks. Bridges forward accesses according to
//! their current secondary and subordinate numbers. Loops and reversed ranges lead nowhere. Where
//! ranges overlap, the first bridge that forwards the access wins.
//!
//! No write allocates memory without bound. The functions that the VMM adds limit it: four pages
//! for each, and one more in each shadow.
//!
//! Not modelled: power states (stored, without effect), the reset of single functions, advanced
//! error reporting, hot-plug controllers and configuration by type 1 cycles from below. Each
//! bridge has one segment: create a bridge per segment.
//!
//! # Changing mappings while virtual CPUs run
//!
//! Apply the changes in the order in which [`Shadow::follow`] returns them. Their costs, and
//! why each is safe:
//!
//! - [`Change::Update`] stores words into memory that the guest may be reading. It costs no
//!   more than that. Store each word whole (an aligned, atomic 32-bit store), so that no CPU
//!   sees half of one. Registers that span two words, such as 64-bit BARs, may be seen half
//!   changed, as on hardware.
//! - [`Change::Map`] requires memory that already holds the contents: fill it with
//!   [`Shadow::pages`] first, and map it read-only. (KVM: a slot with `KVM_MEM_READONLY`;
//!   writes to it exit as MMIO.)
//! - [`Change::Clear`] fills pages with ones after their functions have moved away. Store ones,
//!   or discard the pages: a private mapping of a file of ones only needs `MADV_DONTNEED`.
//! - [`Change::Unmap`] makes a run trap. It is the expensive change: every CPU has to leave the
//!   guest. KVM on x86 also drops all of the guest's page tables, which are rebuilt fault by
//!   fault. It occurs only when bus numbers move functions to other buses, or when a function
//!   that traps is added, removed or moved. That is a few times at boot, never because of a
//!   register's value.
//! - KVM cannot change a slot in place. Between the `Unmap` of a run and the `Map` of its
//!   replacement, reads from other CPUs trap. That is harmless: the bridge answers them. Hold
//!   the bridge's lock from the guest's write until the last change is applied. Then the
//!   writing CPU sees its own write.
//!
//! - While bus numbers change, buses are mapped again, one after the other. Until the last change
//!   is applied, other CPUs may see a moved function at either place, at both or at neither.
//!   Hardware gives no guarantee either for functions below a bridge whose numbers are being
//!   written, so only the guest itself is affected.
//! - A guest can write bus numbers back and forth. Each write that moves functions costs one
//!   walk over bridges and functions, and changes of the buses whose functions moved. The guest
//!   pays for those with exits: 100 for a mapping, 1 for a page that is built. Four mappings
//!   for each bus are free, enough for any boot. Without credit a bus is unmapped once and
//!   traps, so an outdated value is never visible. A later call of [`Shadow::follow`] maps it
//!   again when enough exits have paid. Therefore, call `follow` after each access that the
//!   bridge answered, including reads.
//!
//! All ones need no memory of their own. Back every run with a private mapping (`MAP_PRIVATE`)
//! of one file of ones, 1 MiB. Then only the functions' pages, which are stored to, take
//! memory: 4 KiB each. A bus takes one mapping, and one more for each function on it that
//! traps, up to [`MAX_RUNS`]. A whole window of 256 buses without such functions takes 256.
//!
//! # Registers that trap
//!
//! Memory cannot stand in for a register that has a read side effect or that changes without a
//! write. [`FunctionBuilder::volatile`] sets such ranges, and for each the [`Volatile`] device
//! that answers for it; the function's page then traps. For the registers of a capability,
//! [`Function::capabilities`] returns their location, and [`Function::with_volatile`] adds the
//! range. A register that changes now and then (an error bit, a link's state) needs no trap:
//! store it with [`HostBridge::store`], and let the shadow follow.

mod address;
mod bar;
mod builder;
mod capability;
mod express;
mod function;
mod host_bridge;
mod memory;
mod mirror;
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
pub use mirror::{Mirror, Page, Window};
pub use saving::State;
pub use shadow::{Change, Contents, MAX_RUNS, Run, Shadow};
pub use topology::{Topology, TopologyFailure};
pub use tree::{FunctionId, TopologyError};
pub use virtual_bus::{EcamWindow, PortWindow, VirtualBus};

//! Peers: other systems, measured beside nostall on the same machine.
//!
//! Each Linux boots in QEMU with a measuring module of nostall's (`linux/`). Boots alternate
//! with boots of nostall's kernel, and their order is reversed half-way, so that a change in the
//! host's speed affects all alike.

mod arg;
mod boot;
mod compare;
mod counts;
mod linux;
mod report;
mod state;

pub use arg::PeerArg;
pub use boot::{BY_INSTRUCTIONS, Watch};
pub use compare::{PeerComparison, ProgramTable, compare};
pub use state::PeerStates;

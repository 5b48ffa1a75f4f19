//! The 16550A, as the PC16550D data sheet has it.

mod model;
mod port;
mod profile;

pub use model::Uart;
pub use port::VirtualPort;
pub use profile::{Line, Profile};

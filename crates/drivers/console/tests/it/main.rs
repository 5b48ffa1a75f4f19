//! The integration tests of nostall-console, in one program.

mod clocks;
#[path = "../common/mod.rs"]
mod common;
mod dead_owner;
mod drain;
mod flush;
mod formats;
mod front_ends;
mod hand_over;
mod lumps;
mod pace;
mod rejoining;
mod ring;
mod sinks;
mod stalls;
mod terminals;
mod uart;

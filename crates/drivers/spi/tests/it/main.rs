//! The integration tests of nostall-spi, in one program.

mod bounds;
mod common;
mod controllers;
mod faults;
mod flash;
mod futures;
mod hal;
mod messages;
mod sharing;
mod stalls;

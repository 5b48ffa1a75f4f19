//! The integration tests of nostall-uart, in one program.

mod clocks;
mod console;
mod console_receive;
mod example;
mod offers;
mod outages;
mod peers;
mod pl011;
mod probe;
mod schedules;
mod settings;
mod sifive;
mod stalls;

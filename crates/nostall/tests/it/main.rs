//! The integration tests of nostall, in one program.

mod console_join;
mod front;
mod postmortem;
mod pstore_inject;
mod pstore_plan;
mod sinks;
mod spi_bench;
mod stalls_check;
#[cfg(target_os = "linux")]
mod stalls_trace;
mod terminal;
mod trace_convert;
mod trace_image;
mod trace_report;
mod uart_probe;

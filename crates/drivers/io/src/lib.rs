//! Interfaces between nostall's drivers and hardware: a window of device [`Registers`], a [`Clock`]
//! and a [`Processor`]. A [`Timeout`] bounds every wait by time and by the number of clock reads.
//!
//! A driver that is generic over these three runs unchanged in three environments. These are a
//! kernel (x86 `Ports`, [`Mmio`]), a Linux process (`DevPort`, feature `std`), and the host with a
//! device model in virtual time.
//!
//! Two features are not in other port wrappers. A *burst* is many values for one register: on x86
//! ports, a single `rep outsb`. [`Counting`] counts a driver's bus accesses.
//!
//! A kernel's clock is a `static` of `Tsc` (x86-64), `Rdtime` (riscv64) or `Cntvct` (aarch64). Until
//! its rate is set, it returns [`Nanos::UNKNOWN`]: a log shows blanks, and drivers bound their waits
//! by polls.
//!
//! When not to use it: for a device with typed registers at fixed addresses and without ports, use
//! `safe-mmio` or `tock-registers`.
//!
//! The crate has no dependencies. It has its own MMIO accesses, because on AArch64 a hypervisor can
//! emulate only some of the instructions that a compiler may choose. Two lines of assembly for each
//! width replace a crate that would also affect kernels without MMIO.
//!
//! # Example
//!
//! A driver for a device with a FIFO at register 0 and a "room" bit in register 5. It runs on a
//! window of plain memory that counts every access:
//!
//! ```
//! use nostall_io::{Counting, Mmio, MmioLayout, Registers};
//! use std::ptr::NonNull;
//!
//! fn send(device: &impl Registers, bytes: &[u8]) {
//!     for burst in bytes.chunks(16) {
//!         while device.read8(5) & 0x20 == 0 {}
//!         device.write_burst(0, burst);
//!     }
//! }
//!
//! let mut memory = [0x20u8; 8];
//! // SAFETY: the window covers `memory`, which no other code accesses while it exists.
//! let window = unsafe { Mmio::new(NonNull::from(&mut memory).cast(), 8, MmioLayout::BYTES) }?;
//! let device = Counting::new(window);
//! send(&device, &[b'x'; 40]);
//!
//! let counts = device.counts();
//! assert_eq!(counts.reads, 3); // one read of the status for each burst
//! assert_eq!(counts.bus_accesses(), 3 + 40);
//! # Ok::<(), nostall_io::MmioError>(())
//! ```
//!
//! # Looking inside
//!
//! Wrap any window in [`Counting`] and print its [`Counts`] in a debugger or a test.
//! `register_instructions` counts the CPU's instructions, and `bus_accesses` the accesses at the
//! device. They differ only if one instruction moves many values.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(target_arch = "x86_64")]
mod accumulator;
#[cfg(target_arch = "aarch64")]
mod cntvct;
mod counting;
#[cfg(all(feature = "std", target_os = "linux"))]
mod dev_port;
#[cfg(feature = "std")]
mod host;
mod mmio;
mod offered;
#[cfg(any(target_arch = "aarch64", test))]
mod poc;
#[cfg(target_arch = "x86_64")]
mod ports;
mod processor;
#[cfg(target_arch = "riscv64")]
mod rdtime;
mod registers;
mod stall;
mod text;
#[cfg(target_has_atomic = "64")]
mod tick_clock;
mod time;
mod timeout;
#[cfg(target_arch = "x86_64")]
mod tsc;

#[cfg(target_arch = "x86_64")]
pub use accumulator::Accumulator;
#[cfg(target_arch = "aarch64")]
pub use cntvct::{Cntvct, VirtualCounter};
pub use counting::{Counting, Counts};
#[cfg(all(feature = "std", target_os = "linux"))]
pub use dev_port::DevPort;
#[cfg(feature = "std")]
pub use host::HostClock;
pub use mmio::{Endian, Mmio, MmioError, MmioLayout, Width};
pub use offered::Offered;
#[cfg(target_arch = "aarch64")]
pub use poc::clean_to_poc;
#[cfg(target_arch = "x86_64")]
pub use ports::{Ports, StringIo};
pub use processor::Processor;
#[cfg(target_arch = "riscv64")]
pub use rdtime::{Rdtime, TimeCounter};
pub use registers::Registers;
#[cfg(feature = "stall-hook")]
pub use stall::set_stall_hook;
pub use stall::{Counter, Held, Stall, StallCondition, StallHook, count};
pub use text::{is_free_of, line_feed_in, word_of};
#[cfg(target_has_atomic = "64")]
pub use tick_clock::{TickClock, TickSource};
pub use time::{Clock, Nanos};
pub use timeout::Timeout;
#[cfg(target_arch = "x86_64")]
pub use tsc::{TimeStampCounter, Tsc};

/// The README's example.
#[cfg(all(doctest, target_arch = "x86_64"))]
#[doc = include_str!("../README.md")]
struct Readme;

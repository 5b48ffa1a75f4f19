//! A log console that cannot lock up a machine.
//!
//! A producer stores a record in a ring and returns. It takes no lock and touches no device, in any
//! context. A task, timer or idle loop then *drains* the ring. It offers the sinks as many bytes as
//! they take *now*, and returns when they can take more. So a CPU spends the time of a few register
//! writes, never the time of sending over the line. Only panics wait.
//!
//! The crate is `no_std` and does not allocate. Its one unsafe function turns the caller's memory
//! into a ring.
//!
//! When not to use it: a program with an operating system has files, threads and
//! `tracing-appender`. On a single CPU whose interrupt handlers log nothing, a buffer in a mutex is
//! smaller and takes half the time. The ring is for NMIs and crashes: no handler waits for a lock,
//! and a crashed producer holds none.
//!
//! # Start here
//!
//! A kernel with a serial port starts with [`SystemConsole`] (feature `uart`, on by default). It has
//! all parts in one `static`: log, standard output, receive and panic. The kernel implements one
//! trait, [`Kernel`], with two methods and a clock. It needs no timer. The names of nostall-io and
//! nostall-uart that it needs are re-exported. The features `log` and `tracing` add front ends.
//!
//! A whole program for a host. Its port is a model of nostall-devices, for one thread, whose time passes
//! only with its clock. A kernel has its own port and clock, and its console in a `static`:
//!
//! ```
#![doc = include_str!("../examples/host.rs")]
//! ```
//!
//! The rest of this page describes the parts.
//!
//! # Example of the parts
//!
//! ```
//! use nostall_console::{Clock, Drain, FlushLimits, Level, LineSettings, Meta, Nanos, Priority};
//! use nostall_console::{Ring, SinkOptions, Slot, UartSink, flush};
//! use nostall_uart::Console;
//!
//! // 1 MiB of zeros: takes no space in a kernel's image.
//! static RING: Ring<[Slot; 9360]> = Ring::new();
//!
//! # use nostall_devices::uart::{Profile, Uart};
//! # let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
//! let console = Console::open(&port, &clock, LineSettings::baud(115_200))?;
//! // Other sinks implement `Sink`.
//! let options = SinkOptions::DEFAULT.level(Level::Info);
//! let serial = Drain::new(&RING, UartSink::new(console), options);
//!
//! // In any context, including NMIs.
//! let meta = Meta {
//!     time: clock.now(),
//!     cpu: 0,
//!     level: Level::Info,
//!     priority: Priority::Normal,
//!     target: "",
//! };
//! RING.format(&meta, format_args!("{} disks", 600));
//!
//! // After logging in a task, and in this CPU's timer handler.
//! while let Some(time) = serial.drain_bounded(0, Priority::Normal, &clock).time() {
//!     clock.sleep_until(time); // do something else until then
//! }
//!
//! // In the panic handler. Afterwards, write the text of `RING.tail()` to persistent memory.
//! RING.format(&Meta { priority: Priority::Panic, ..meta }, format_args!("the end"));
//! # struct Advancing<C>(C); // Virtual time advances with each read of the clock.
//! # impl<C: Clock> Clock for Advancing<C> {
//! #     fn now(&self) -> Nanos {
//! #         self.0.wait_until(self.0.now() + Nanos(500));
//! #         self.0.now()
//! #     }
//! # }
//! # let clock = Advancing(&clock);
//! flush(&[&serial], 0, &clock, FlushLimits::DEFAULT.total(Nanos::from_secs(5)));
//! let sent = String::from_utf8(port.into_sink())?;
//! assert!(sent.contains("] 600 disks\r\n[") && sent.ends_with("] the end\r\n"), "{sent}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The ring
//!
//! The ring is an array of 112-byte slots, one record each: 9,360 in 1 MiB. [`layout`] describes
//! every byte. A record holds 88 bytes of target and text, so most lines of a kernel's log take one
//! record.
//!
//! A producer takes a sequence number with one atomic addition. Its slot is the sequence modulo the
//! number of slots, computed with a multiplication because a division is slower. One exchange
//! changes the slot from *complete, older* to *mine, being written*. The producer then writes the
//! record and stores *complete*. It never waits:
//!
//! - if another producer stopped in a write to this slot one turn of the ring ago, it keeps the
//!   slot. The record gets the next sequence;
//! - if a producer of the next turn takes the slot first, the record also gets the next sequence.
//!
//! So a crashed producer costs one slot. After eight failed attempts the rest of a text is cut off
//! and counted ([`Ring::cut`]). A sequence that found its slot occupied is noted, so that no reader
//! waits for it or reports it as lost. One of 16 words (40 on 32-bit machines), selected by the
//! sequence's remainder, stores the note. If two sequences of one turn select the same word, the
//! newer note replaces the older one. Readers that have not passed the older sequence then wait for
//! it and report it as lost.
//!
//! A reader checks the slot's state, copies the record, and checks again. Overwritten records are
//! counted. A record that is still being written is [pending](Read::Pending), and the reader
//! decides how long to wait for it.
//!
//! All memory consists of atomic words with relaxed loads and stores between two fences. Taking a
//! slot acquires the stores of its previous owner, so no word of an old record overwrites a newer
//! one's. `tests/loom.rs` explores the memory orders of these source files with up to three
//! pre-emptions. `tests/steps` stops or interrupts a producer at every step.
//!
//! On CPUs without an atomic exchange (thumbv6m, riscv32imc), `portable-atomic` uses the
//! application's critical section. There, NMI handlers must not log.
//!
//! Sequences are machine words and wrap from the largest value to 1: after 2^32 records on 32-bit
//! machines. At a wrap no records are mixed up, repeated or waited for, and lost ones are counted,
//! with these limits:
//!
//! - records after the wrap use other slots than without it, so records before it may be
//!   overwritten up to one turn earlier;
//! - a new reader ([`Cursor::START`] or a new drain) starts after the wrap;
//! - of two sequences at least 2^31 apart, the older one cannot be determined. A reader that pauses
//!   for so long finds nothing new until as many records again are logged;
//! - a producer that pauses for 2^30 records while writing and then continues costs its slot for as
//!   many more;
//! - after a pause of exactly 2^31 records, its record is taken for the expected one;
//! - a noted sequence that recurs while its note remains is skipped, uncounted, if it is incomplete
//!   when its turn comes.
//!
//! # The owner of a sink
//!
//! A *slice* is one call of [`drain_bounded`](Drain::drain_bounded).
//!
//! | | takes a sink | sends | waits |
//! | --- | --- | --- | --- |
//! | slice, normal | without an owner | urgent records first, then the backlog | never |
//! | slice, emergency | without an owner | urgent records only; the CPU [returns](Next::Backlog) for the rest | never |
//! | [`flush`] | once released; from any owner after [`FlushLimits::owner`] | panic text, emergencies, the backlog | for the line, up to [`FlushLimits::total`] |
//!
//! A CPU that finds a sink taken gets [`Next::Busy`], and the owner sends its record. An emergency
//! goes out as soon as the sink takes the next bytes. Both CPUs return: the owner when the sink
//! takes more, the other one 10 ms later, in case the owner hangs.
//!
//! Each drain has three positions in the ring (*lanes*), one for each priority. A lane sends the
//! records of its priority and above. A slice is bounded, so it runs with pre-emption off, and no
//! owner keeps a sink for long.
//!
//! A line that is cut by a more urgent one ends with `{cut 0}`, and its rest follows later, after
//! `{rest 0}`. The number is that of the lane. Two words for each lane store its progress: the
//! sequence and the state of its line. Exchanges update them after each offer. So:
//!
//! - *a hand-over repeats and omits nothing*: no byte that the sink has taken, whether it is still
//!   in its FIFO or not;
//! - but if an owner crashes inside [`Sink::offer`], or before it has stored the result, it is
//!   unknown how much of that offer was sent. After `{again}`, the lines of that offer are sent
//!   again, and incomplete lines start again at the beginning of their records.
//!
//! A panic that interrupts the drain on its own CPU takes the sink at once. If another CPU owns the
//! sink, the panic first waits for the current offer, up to [`FlushLimits::owner`]. The second of
//! two panics waits while the first is active, and the first sends the second one's text too. A
//! panic that neither offers nor searches for 100 ms counts as crashed. After a panic no slice
//! sends anything.
//!
//! # Bounds
//!
//! A text takes at most 64 records and a quarter of the ring; the rest is cut off, marked and
//! counted.
//!
//! A slice makes offers of at most 256 bytes while the sink is ready and takes bytes. To a sink that
//! needs time after a [load](Sink::load), an offer has one load. Each record is rendered once: a partly sent line is kept as text, and the next offer
//! continues at its next byte. A slice ends after [`SinkOptions::slice`] bytes,
//! [`SinkOptions::hold`], or 256 records that this sink skips. Only the search for an urgent record
//! passes by all normal ones, and reads one word of each, once. A sink that takes nothing gets
//! offers at longer and longer intervals, up to 10 ms.
//!
//! A panic's flush ends after [`FlushLimits::total`] plus one offer to each sink. It polls the
//! clock and counts the polls, so it ends even if the clock stops.
//!
//! # In a debugger
//!
//! A ring starts with `nostall log ring`. nostall-postmortem searches the memory of a crashed
//! machine for this signature and decodes the ring. `Drain`'s `Debug` output shows the owner word: 0 without an owner, otherwise `(cpu + 1) * 4 + priority`.

#![cfg_attr(
    not(feature = "uart"),
    doc = "",
    doc = "[`SystemConsole`]: https://docs.rs/nostall-console/latest/nostall_console/struct.SystemConsole.html",
    doc = "[`Kernel`]: https://docs.rs/nostall-console/latest/nostall_console/trait.Kernel.html"
)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![deny(unsafe_code)]

mod cursor;
mod drain;
mod feed;
mod flush;
#[cfg(feature = "uart")]
mod input;
mod kept;
#[cfg(feature = "uart")]
mod kernel;
mod lane;
#[cfg(feature = "tracing")]
mod layer;
pub mod layout;
mod level;
mod line;
#[cfg(feature = "log")]
mod logger;
mod next_offer;
mod options;
mod owner;
mod parts;
mod pieces;
mod prefix;
mod record;
mod render;
mod ring;
mod sequence;
#[cfg(feature = "uart")]
mod shared;
mod sink;
mod slot;
#[allow(unsafe_code)] // Turns the caller's memory into a ring.
mod storage;
mod sync;
#[cfg(feature = "uart")]
mod system;
mod tail;
#[cfg(feature = "uart")]
mod uart;
mod watchdog;

pub use cursor::{Cursor, Read};
pub use drain::{Drain, Next};
pub use flush::{FlushLimits, FlushReport, flush};
#[cfg(feature = "uart")]
pub use kernel::{AsProcessor, Kernel};
#[cfg(feature = "tracing")]
pub use layer::RingLayer;
#[cfg(any(feature = "log", feature = "tracing"))]
pub use level::EMERGENCY;
pub use level::{Level, Priority};
#[cfg(feature = "log")]
pub use logger::Logger;
#[cfg(target_arch = "riscv64")]
pub use nostall_io::Rdtime;
pub use nostall_io::{self, Clock, Mmio, MmioLayout, Nanos, Offered, Registers};
#[cfg(target_arch = "aarch64")]
pub use nostall_io::{Cntvct, VirtualCounter};
#[cfg(target_arch = "x86_64")]
pub use nostall_io::{Ports, Tsc};
#[cfg(feature = "uart")]
pub use nostall_uart::{self, ConsoleSettings, LineSettings, OpenError, Pl011, UartHardware};
pub use options::{Charset, OverflowPolicy, PanicOrder, SinkOptions};
pub use prefix::{Prefix, write_time, write_time_cpu_level};
pub use record::{Meta, Record};
pub use ring::{Logged, Ring};
pub use sink::{Caller, Sink};
pub use slot::Slot;
#[cfg(feature = "uart")]
pub use system::{Nmi, SystemConsole, TimerInterrupt};
#[cfg(feature = "uart")]
pub use uart::UartSink;
pub use watchdog::{Lockup, Stall, StallDetector, Watchdog};

#[cfg(all(doctest, feature = "uart", target_arch = "x86_64"))]
#[doc = include_str!("../README.md")]
struct Readme;

//! A console that cannot lock up a machine.
//!
//! A producer puts a record into a ring and goes on: no lock, no line, in any context. A task,
//! timer or idle loop then *drains* the ring: it hands the sinks as much as they take *now*, and
//! comes back when they take more. So a CPU is held for the time of writing a serial port's
//! registers, never for the time of sending over its line. Only panics wait. no_std, no
//! allocation; unsafe code in one function, which makes a ring of the caller's memory.
//!
//! When not to use it: a program of an operating system has files and threads, and
//! `tracing-appender`. For a single CPU whose interrupt handlers log nothing, a buffer in a
//! mutex is smaller and takes half the time. The ring is for NMIs and crashes: no handler waits
//! for a lock, and a crashed producer keeps none.
//!
//! # Start here
//!
//! A kernel with a serial port begins with `SystemConsole` (feature `uart`): all parts in one
//! `static`, with log, standard output, receive and panic. `log` and `tracing` are front ends of
//! it (features). The rest of this page is about the parts.
//!
//! # Example of the parts
//!
//! ```
//! use nostall_console::{Drain, Level, FlushLimits, Meta, SinkOptions, Priority};
//! use nostall_console::{Ring, Slot, UartSink, flush};
//! use nostall_io::{Clock, Nanos};
//! use nostall_uart::{Console, LineSettings};
//!
//! // 1 MiB, all zeros: it takes no room in a kernel's file.
//! static RING: Ring<[Slot; 9360]> = Ring::new();
//!
//! # use nostall_devices::uart::{Profile, Uart};
//! # let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
//! let console = Console::open(&port, &clock, LineSettings::baud(115_200))?;
//! // Feature `uart`. Other sinks implement `Sink`.
//! let options = SinkOptions::DEFAULT.level(Level::Info);
//! let serial = Drain::new(&RING, UartSink::new(console), options);
//!
//! // Anywhere, NMIs included.
//! let meta = Meta {
//!     time: clock.now(),
//!     cpu: 0,
//!     level: Level::Info,
//!     priority: Priority::Normal,
//!     target: "",
//! };
//! RING.format(&meta, format_args!("{} disks", 600));
//!
//! // After logging in a task, and when this CPU's timer comes.
//! while let Some(time) = serial.drain_bounded(0, Priority::Normal, &clock).time() {
//!     clock.sleep_until(time); // do something else until then
//! }
//!
//! // In the panic handler. Then comes the record in persistent memory, with the text of
//! // `RING.tail()`.
//! RING.format(&Meta { priority: Priority::Panic, ..meta }, format_args!("the end"));
//! # struct Looked<C>(C); // Virtual time goes on while a panic looks at it.
//! # impl<C: Clock> Clock for Looked<C> {
//! #     fn now(&self) -> Nanos {
//! #         self.0.wait_until(self.0.now() + Nanos(500));
//! #         self.0.now()
//! #     }
//! # }
//! # let clock = Looked(&clock);
//! flush(&[&serial], 0, &clock, FlushLimits::DEFAULT.total(Nanos::from_secs(5)));
//! let sent = String::from_utf8(port.into_sink())?;
//! assert!(sent.contains("] 600 disks\r\n[") && sent.ends_with("] the end\r\n"), "{sent}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The ring
//!
//! Slots of 112 bytes, each for one record ([`layout`] has every byte): 9,360 in 1 MiB. A
//! record has 88 bytes of target and text, so that most lines of a kernel's log are one. A
//! producer takes a sequence by one addition; its slot is the sequence modulo their number
//! (using a multiplication, as they are any number, and a division takes longer). It takes the
//! slot in one exchange, from *complete, older* to *mine, in mid-write*, writes, and
//! stores *complete*. It never waits:
//!
//! - if another producer stopped in mid-write in that slot a whole turn ago, the slot is left
//!   to it, and the record gets the next sequence;
//! - if this producer was overtaken by a turn before it took its slot, likewise.
//!
//! So a crashed producer costs one slot. If one crashed in every slot, texts are cut off, and
//! that is counted ([`Ring::cut`]). A sequence that found its slot occupied is noted, so
//! that no reader waits for it or reports it as lost. One of 16 words (40 on 32-bit
//! machines) has the note, selected by the sequence's remainder. If two sequences of one turn
//! select the same word, readers wait for the first and report it as lost, unless they read it
//! before.
//!
//! A reader looks at the state, copies, and looks again. What has been overwritten
//! is counted; what is in mid-write is [pending](Read::Pending), and it is the reader's
//! choice how long to wait for it. All memory is words that are atomic, stored and
//! loaded relaxed, between two fences; taking a slot acquires what its last owner
//! stored, so that no word of an old record comes after a new one's. `tests/loom.rs`
//! tries the orders of the very same files with up to three pre-emptions,
//! `tests/steps` every step to die or to be interrupted at.
//!
//! On CPUs without an atomic exchange (thumbv6m, riscv32imc) it is by `portable-atomic`
//! and the application's critical section; there, NMIs must not log.
//!
//! Sequences are words, which wrap from the greatest to 1: on 32-bit machines after 2^32
//! records. Nothing is mixed up, sent twice or waited for then, and what is lost is
//! counted, with these bounds:
//!
//! - the records after the wrap are in other slots than a turn would have them in, so those
//!   before it may be overwritten sooner, by up to a turn;
//! - a new reader, by [`Cursor::START`] or a new drain, begins after the wrap;
//! - of two sequences, 2^31 or more apart, the older one is not known: a reader that does
//!   not read for so long finds nothing new, until as many again are logged;
//! - a producer that sleeps in mid-write for 2^30 records, and goes on, costs its slot for as
//!   many more; and if it is for 2^31, to one, its record is taken for the one that should
//!   be there;
//! - a sequence noted as one without a record, and still noted when it comes again, is passed
//!   by, uncounted, if it is not complete when its turn to be read comes.
//!
//! # The owner of a sink
//!
//! A *slice* is one call of [`drain_bounded`](Drain::drain_bounded).
//!
//! | | takes a sink | sends | waits |
//! | --- | --- | --- | --- |
//! | slice, normal | without an owner | urgent records first, then the backlog | never |
//! | slice, emergency | without an owner | urgent records alone; the CPU [comes back](Next::Backlog) for the rest | never |
//! | [`flush`] | when its owner lets go; from any owner after [`FlushLimits::owner`] | panics' text, emergencies', the backlog | for the line, up to [`FlushLimits::total`] |
//!
//! A CPU that finds a sink taken gets [`Next::Busy`], and the owner sends its record: an
//! emergency's as soon as the sink takes the next bytes. Both come back: the owner when
//! the sink takes more, the other one 10 ms later, in case the owner hangs. For that, each sink has
//! three places in the ring (*lanes*), one for each priority and those above it. A
//! slice is bounded, so it is run with pre-emption off, and no owner keeps a sink for long.
//!
//! A line that is cut by a more urgent one is closed by `{cut 0}`, and its rest comes
//! later, after `{rest 0}`. The number is that of the lane. How far a sink is, is one word
//! for each lane, changed by an exchange when an offer comes back. So:
//!
//! - *a hand-over sends nothing twice and leaves nothing out*: not a byte that the sink
//!   has taken, whether it is still in its FIFO or not;
//! - but if an owner dies inside [`Sink::offer`], or it panics, or before it has noted the
//!   result, it is not known how much of that one offer is out. After `{again}`, lines of
//!   it are sent again, and lines that are not complete, from their records' beginnings.
//!
//! A panic on the CPU whose drain it interrupts takes the sink at once; on another CPU it
//! first waits, [`FlushLimits::owner`] long, for the offer under way. Of two panics, the
//! second waits while the first one lives, which sends the second one's text too; one
//! that has made no offer for 100 ms is dead. After a panic no slice sends anything.
//!
//! # Bounds
//!
//! A text takes at most 64 records, and a quarter of the ring; the rest is cut off,
//! marked, and counted. A slice makes offers of 256 bytes at most, or of
//! [`Sink::load`], while the sink is ready and takes bytes. Each record becomes text once: a line
//! that is out in part is kept as text, and the next offer goes on at its byte. It ends after [`SinkOptions::slice`] bytes, [`SinkOptions::hold`], or 256 records
//! that this sink leaves out. A sink that takes nothing is offered to less and less often,
//! down to every 10 ms. A panic's flush ends after [`FlushLimits::total`] and the time of one
//! more offer to each sink. It polls the clock and counts the polls, so that no clock can
//! keep it.
//!
//! # Looking inside
//!
//! In a debugger: a ring starts with `nostall log ring`. nostall-postmortem searches the
//! memory of a crashed machine for these bytes and decodes the ring.
//! `Drain`'s `Debug` shows its owner's word: 0, or four times the CPU plus 1, plus the
//! priority.

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
mod lane;
#[cfg(feature = "tracing")]
mod layer;
pub mod layout;
mod level;
mod line;
#[cfg(feature = "log")]
mod logger;
mod options;
mod owner;
mod parts;
mod pieces;
mod prefix;
mod promise;
mod record;
mod render;
mod ring;
mod sequence;
#[cfg(feature = "uart")]
mod shared;
mod sink;
mod slot;
#[allow(unsafe_code)] // Memory of the caller's becomes a ring.
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
#[cfg(feature = "tracing")]
pub use layer::RingLayer;
#[cfg(any(feature = "log", feature = "tracing"))]
pub use level::EMERGENCY;
pub use level::{Level, Priority};
#[cfg(feature = "log")]
pub use logger::Logger;
pub use nostall_io::Offered;
pub use options::{Charset, OverflowPolicy, PanicOrder, SinkOptions};
pub use prefix::{Prefix, write_time, write_time_cpu_level};
pub use record::{Meta, Record};
pub use ring::{Logged, Ring};
pub use sink::{Caller, Sink};
pub use slot::Slot;
#[cfg(feature = "uart")]
pub use system::{Nmi, Platform, SystemConsole, TimerInterrupt};
#[cfg(feature = "uart")]
pub use uart::UartSink;
pub use watchdog::{Lockup, Stall, StallDetector, Watchdog};

#[cfg(all(doctest, feature = "uart", target_arch = "x86_64"))]
#[doc = include_str!("../README.md")]
struct Readme;

//! Readers of Linux's traces.
//!
//! ```
//! use nostall_tracefile::model::{EventKind, Source};
//! use nostall_tracefile::read::open_text;
//!
//! let text = " 0) ! 411.342 us |  serial8250_console_write();\n";
//! let mut source = open_text(text.as_bytes(), text.len() as u64);
//! source.next_event()?;
//! let exit = source.next_event()?.unwrap();
//! assert_eq!(exit.time, 411_342);
//! # Ok::<_, nostall_tracefile::model::ReadError>(())
//! ```

mod dat;
mod marks;
mod text;

pub use dat::{DatSource, is_dat, open_dat};
pub use text::{TextSource, looks_like_text, open_text};

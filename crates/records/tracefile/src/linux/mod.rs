//! Formats of Linux's tracing: the pages of its ring buffer, its events' formats and their text.

mod field;
mod fields;
mod format;
mod names;
mod order;
mod page;
mod print;

pub use field::Field;
pub use fields::fields;
pub use format::{EventFormat, Formats};
pub use names::{Names, Place};
pub use order::Order;
pub use page::{BadPage, BadRecord, Page, PageForm, RawRecord, Records};
pub use print::PrintFormat;

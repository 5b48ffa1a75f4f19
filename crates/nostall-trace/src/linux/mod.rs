//! Formats of Linux's tracing: the pages of its ring buffer.

mod order;
mod page;

pub use order::Order;
pub use page::{BadPage, BadRecord, Page, PageForm, RawRecord, Records};

//! Formatted output, gathered so that its pieces share records.

use core::fmt;

use arrayvec::ArrayVec;
use nostall_uart::UartHardware;

use crate::layout::PAYLOAD;
use crate::{Kernel, SystemConsole};

/// Output that is being formatted.
pub(super) struct Output<'c, U: UartHardware + 'static, K: Kernel + 'static> {
    console: &'c SystemConsole<U, K>,
    text: ArrayVec<u8, PAYLOAD>,
}

impl<'c, U: UartHardware, K: Kernel> Output<'c, U, K> {
    pub(super) fn new(console: &'c SystemConsole<U, K>) -> Self {
        let text = ArrayVec::new();
        Self { console, text }
    }

    /// Stores the gathered text.
    pub(super) fn flush(&mut self) -> fmt::Result {
        let taken = self.console.put_output(&self.text);
        let is_whole = taken == self.text.len();
        self.text.clear();
        if is_whole { Ok(()) } else { Err(fmt::Error) }
    }
}

impl<U: UartHardware, K: Kernel> fmt::Write for Output<'_, U, K> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(self.text.remaining_capacity()));
            // The piece is no longer than the room.
            let _ = self.text.try_extend_from_slice(now);
            rest = later;
            if self.text.is_full() {
                self.flush()?;
            }
        }
        Ok(())
    }
}

/// If a caller's `Display` unwinds, the text before it is stored.
impl<U: UartHardware, K: Kernel> Drop for Output<'_, U, K> {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

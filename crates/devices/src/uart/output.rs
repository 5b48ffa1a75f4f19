//! Bounded memory for a port's output.

use std::io::{self, Write};

/// Output of a port, stored in memory until its owner takes it.
///
/// It is the sink for a port whose owner may be slower than the guest. Stop the guest while
/// [`is_full`](Self::is_full): check after every access and after every batch of collected writes.
/// The slack stores the bytes that one such step can still deliver.
///
/// Memory stays bounded even without that check. Bytes beyond the slack are refused, and the port
/// counts them as [`lost`](super::Uart::lost).
#[derive(Debug)]
pub struct Output {
    bytes: Vec<u8>,
    full: usize,
    slack: usize,
}

impl Output {
    /// Creates an empty buffer that counts as full at `full` bytes and stores at most `slack` more.
    pub const fn new(full: usize, slack: usize) -> Self {
        Self {
            bytes: Vec::new(),
            full,
            slack,
        }
    }

    /// Returns whether the guest must wait until the owner takes the bytes.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= self.full
    }

    /// Returns the bytes not yet taken.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes all bytes.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let most = self.full.saturating_add(self.slack);
        let now = bytes.len().min(most.saturating_sub(self.bytes.len()));
        self.bytes.extend_from_slice(&bytes[..now]);
        Ok(now)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use nostall_io::HostClock;
    use nostall_uart::registers::THR;

    use super::*;
    use crate::uart::{Line, Uart};

    #[test]
    fn untaken_output_stays_within_its_bound_and_the_rest_counts_as_lost() {
        let mut uart = Uart::new(HostClock::new(), Line::AtOnce, Output::new(100, 10));
        for n in 0..110 {
            assert_eq!(uart.sink_mut().is_full(), n >= 100, "after {n} bytes");
            uart.write(THR, n);
        }
        assert_eq!(uart.lost(), 0);
        (0..1_000).for_each(|_| uart.write(THR, b'x'));
        assert_eq!(uart.lost(), 1_000);
        assert_eq!(uart.sink_mut().bytes().len(), 110);
        let taken = uart.sink_mut().take();
        assert_eq!(taken, (0..110).collect::<Vec<u8>>());
        assert!(!uart.sink_mut().is_full());
        uart.write(THR, b'y');
        assert_eq!(uart.sink_mut().bytes(), b"y");
        assert_eq!(uart.lost(), 1_000);
    }
}

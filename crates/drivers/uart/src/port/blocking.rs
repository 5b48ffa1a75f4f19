//! `embedded-io` on a port: reads and writes with bounded waits.

use embedded_io::{ErrorType, Read, ReadReady, Write, WriteReady};
use nostall_io::{Clock, Nanos, Timeout};

use super::{IoError, Port, SharedPort};

/// Shortest polling interval, at any line rate.
const SHORTEST_PAUSE: Nanos = Nanos::from_micros(1);

/// Port whose reads and writes wait for a bounded time.
///
/// It polls the port twice a frame, and sleeps in between. So it works with and without a connected
/// interrupt.
#[derive(Clone, Copy, Debug)]
pub struct Blocking<S, C> {
    port: S,
    clock: C,
    longest: Nanos,
}

impl<S: SharedPort, C: Clock> Blocking<S, C> {
    /// Creates the adapter. A read waits at most `longest` for its first byte, and a write for room
    /// for its first byte. A write waits longer by the time of a full FIFO, and a flush by the time
    /// of all pending bytes.
    pub const fn new(port: S, clock: C, longest: Nanos) -> Self {
        Self {
            port,
            clock,
            longest,
        }
    }

    fn wait<T>(
        &self,
        longest: Nanos,
        mut attempt: impl FnMut(&mut Port<'_, S::Registers>) -> Option<Result<T, IoError>>,
    ) -> Result<T, IoError> {
        let mut timeout = Timeout::new(self.clock.now(), longest);
        loop {
            let (result, frame_time) = self.port.with(|port| {
                // Bytes that are already there come before later errors.
                let result = attempt(port).or_else(|| {
                    let gone = port.poll().gone;
                    attempt(port).or(gone.then_some(Err(IoError::Gone)))
                });
                (result, port.frame_time())
            });
            match result {
                Some(result) => return result,
                None if timeout.is_over() => return Err(IoError::TimedOut),
                None => {
                    // Twice a frame, so that even a port without a FIFO loses no byte.
                    let pause = (frame_time / 2).max(SHORTEST_PAUSE).min(timeout.left());
                    self.clock.sleep_until(self.clock.now() + pause);
                    timeout.charge(self.clock.now(), pause);
                }
            }
        }
    }
}

impl<S, C> ErrorType for Blocking<S, C> {
    type Error = IoError;
}

impl<S: SharedPort, C: Clock> Read for Blocking<S, C> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize, IoError> {
        if into.is_empty() {
            return Ok(0);
        }
        self.wait(self.longest, |port| match port.read_bytes(into) {
            Ok(0) => None,
            other => Some(other.map_err(IoError::from)),
        })
    }
}

impl<S: SharedPort, C: Clock> Write for Blocking<S, C> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, IoError> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let load = |port: &mut Port<'_, _>| port.frame_time() * port.transmit_load() as u64;
        let longest = self.longest + self.port.with(load);
        self.wait(longest, |port| match port.write(bytes) {
            0 => None,
            taken => Some(Ok(taken)),
        })
    }

    fn flush(&mut self) -> Result<(), IoError> {
        // Bytes in the ring, in the FIFO and in the shift register.
        let left = |port: &mut Port<'_, _>| {
            port.frame_time() * (port.pending() + port.transmit_load() + 1) as u64
        };
        let longest = self.longest + self.port.with(left);
        self.wait(longest, |port| port.is_drained().then_some(Ok(())))
    }
}

impl<S: SharedPort, C: Clock> ReadReady for Blocking<S, C> {
    fn read_ready(&mut self) -> Result<bool, IoError> {
        Ok(self.port.with(|port| {
            port.poll();
            !port.is_empty()
        }))
    }
}

impl<S: SharedPort, C: Clock> WriteReady for Blocking<S, C> {
    fn write_ready(&mut self) -> Result<bool, IoError> {
        Ok(self.port.with(|port| {
            port.poll();
            port.room() > 0
        }))
    }
}

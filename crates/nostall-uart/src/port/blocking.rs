//! `embedded-io` on a port: reads and writes that wait, but not for ever.

use embedded_io::{ErrorType, Read, ReadReady, Write, WriteReady};
use nostall_io::{Clock, Nanos, Timeout};

use super::{IoError, Port, SharedPort};

/// Between two looks, however fast the line is.
const SHORTEST_PAUSE: Nanos = Nanos::from_micros(1);

/// A port whose reads and writes wait, no longer than they may.
///
/// While it waits it polls the port twice a frame, so that it works with the
/// interrupt wired and without, and sleeps in between.
#[derive(Clone, Copy, Debug)]
pub struct Blocking<S, C> {
    port: S,
    clock: C,
    longest: Nanos,
}

impl<S: SharedPort, C: Clock> Blocking<S, C> {
    /// Waits for the first byte of a read, and for room for the first byte of a
    /// write, no longer than `longest`; for a write, the time that a full FIFO
    /// takes comes on top, for a flush the time that all that is pending takes.
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
                // Bytes that are there come before anything that went wrong since.
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
                    // Twice a frame: not even a port without a FIFO loses a byte.
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
        // All in the ring, in the FIFO and in the shift register.
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

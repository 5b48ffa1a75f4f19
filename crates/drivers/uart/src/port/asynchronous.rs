//! `embedded-io-async` on a port: the interrupt handler wakes the task.

use core::future::poll_fn;
use core::task::{Context, Poll};

use embedded_io::ErrorType;
use embedded_io_async::{Read, Write};

use super::{IoError, Port, SharedPort};

/// Port whose reads and writes sleep until [`on_interrupt`](super::Port::on_interrupt) wakes them.
///
/// It supports one reader and one writer at a time; of two readers, the last to poll is woken.
/// There is no time limit here, because executors have their own. A read or write that is dropped
/// has taken nothing.
#[derive(Clone, Copy, Debug)]
pub struct Async<S> {
    port: S,
}

impl<S: SharedPort> Async<S> {
    /// Creates the adapter for a port whose handler runs in interrupts, or is polled.
    pub const fn new(port: S) -> Self {
        Self { port }
    }

    async fn wait<T>(
        &self,
        mut attempt: impl FnMut(&mut Port<'_, S::Registers>, &Context<'_>) -> Option<Result<T, IoError>>,
    ) -> Result<T, IoError> {
        poll_fn(|context| {
            self.port.with(|port| match attempt(port, context) {
                Some(result) => Poll::Ready(result),
                None if port.is_gone() => Poll::Ready(Err(IoError::Gone)),
                None => Poll::Pending,
            })
        })
        .await
    }
}

impl<S> ErrorType for Async<S> {
    type Error = IoError;
}

impl<S: SharedPort> Read for Async<S> {
    async fn read(&mut self, into: &mut [u8]) -> Result<usize, IoError> {
        if into.is_empty() {
            return Ok(0);
        }
        self.wait(|port, context| match port.read_bytes(into) {
            Ok(0) => {
                port.wakers.reader = Some(context.waker().clone());
                None
            }
            other => Some(other.map_err(IoError::from)),
        })
        .await
    }
}

impl<S: SharedPort> Write for Async<S> {
    async fn write(&mut self, bytes: &[u8]) -> Result<usize, IoError> {
        if bytes.is_empty() {
            return Ok(0);
        }
        self.wait(|port, context| match port.write(bytes) {
            0 => {
                port.wakers.writer = Some(context.waker().clone());
                None
            }
            taken => Some(Ok(taken)),
        })
        .await
    }

    async fn flush(&mut self) -> Result<(), IoError> {
        self.wait(|port, context| {
            if port.is_drained() {
                return Some(Ok(()));
            }
            port.wakers.writer = Some(context.waker().clone());
            // No interrupt reports an empty shift register, so poll again during its frame.
            if port.is_resting() {
                context.waker().wake_by_ref();
            }
            None
        })
        .await
    }
}

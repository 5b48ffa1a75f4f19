//! A port shared by several contexts, none of which waits for another.

use core::ops::{Deref, DerefMut};

use crate::sink::Caller;
use crate::sync::{AtomicUsize, Guard, Ordering, TryLock, fence};

/// Largest number of rounds of serving after one use. Each round except the first needs an
/// interrupt during the previous one.
const ROUNDS: usize = 4;

/// Number of bytes that the handler of the port's interrupt receives at most.
const MOST: usize = 256;

/// Number of bytes that any other user receives at most, for handlers that found the port in use. A
/// log call must not hold its CPU for a paste.
const MOST_OF_USER: usize = 16;

/// Number of further ways to the port for panics: one that interrupts the port's user, and one that
/// interrupts that panic.
pub(crate) const SPARES: usize = 2;

/// A lock that is tried and never waited for, and the interrupts that found it taken.
///
/// A panic that finds it taken uses a spare, which has a lock of its own.
///
/// An interrupt handler that finds the lock taken leaves its work to the lock's holder. So no byte
/// stays in the port, and an edge-triggered controller sees the next edge.
#[derive(Debug)]
pub(crate) struct Shared<T> {
    pub(crate) port: TryLock<T>,
    pub(crate) spares: [TryLock<T>; SPARES],
    /// Nonzero if an interrupt must be served.
    pub(crate) pending: AtomicUsize,
    /// Nonzero if a user has left interrupts to a later user, because its rounds were over.
    pub(crate) late: AtomicUsize,
}

/// A taken port. Dropping it releases the port, and serves each interrupt that came meanwhile.
pub(crate) struct Taken<'s, T, S: FnMut(&mut T, usize) -> usize> {
    port: Guard<'s, T>,
    /// Dropped after the port.
    _meanwhile: Meanwhile<'s, T, S>,
}

/// Serves the interrupts that came during a use of the port, when this is dropped.
struct Meanwhile<'s, T, S: FnMut(&mut T, usize) -> usize> {
    shared: &'s Shared<T>,
    serve: S,
}

impl<T> Shared<T> {
    /// Takes the port, or a spare if it is in use and a panic asks. Returns `None` if it is in use,
    /// to a panic only if the spares are in use too: then panics came inside of panics.
    ///
    /// Dropping the guard calls `serve` with the number of bytes that it may receive.
    pub(crate) fn take<S>(&self, caller: Caller, serve: S) -> Option<Taken<'_, T, S>>
    where
        S: FnMut(&mut T, usize) -> usize,
    {
        let spares = match caller {
            Caller::Normal => &[],
            Caller::Panic => &self.spares[..],
        };
        let spare = || spares.iter().find_map(TryLock::try_lock);
        let port = self.port.try_lock().or_else(spare)?;
        let shared = self;
        let _meanwhile = Meanwhile { shared, serve };
        Some(Taken { port, _meanwhile })
    }

    /// Calls `serve` for an interrupt, or leaves it to the port's holder. Returns the sum of the
    /// results.
    pub(crate) fn interrupt(&self, serve: impl FnMut(&mut T, usize) -> usize) -> usize {
        self.pending.store(1, Ordering::Relaxed);
        self.serve_pending(MOST, serve)
    }

    /// Returns whether interrupts were left to a later user.
    pub(crate) fn is_late(&self) -> bool {
        self.late.load(Ordering::Relaxed) != 0
    }

    /// Calls `serve` for interrupts that were left to a later user. Returns whether interrupts are
    /// left again.
    pub(crate) fn serve_late(&self, serve: impl FnMut(&mut T, usize) -> usize) -> bool {
        self.late.store(0, Ordering::Relaxed);
        self.serve_pending(MOST_OF_USER, serve);
        self.is_late()
    }

    fn serve_pending(&self, most: usize, mut serve: impl FnMut(&mut T, usize) -> usize) -> usize {
        let mut served = 0;
        for round in 0..=ROUNDS {
            fence(Ordering::SeqCst);
            if self.pending.load(Ordering::Relaxed) == 0 {
                break;
            }
            if round == ROUNDS || served >= most {
                self.late.store(1, Ordering::Relaxed);
                break;
            }
            let Some(mut port) = self.port.try_lock() else {
                break;
            };
            self.pending.store(0, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            served += serve(&mut port, most - served);
        }
        served
    }
}

impl<T, S: FnMut(&mut T, usize) -> usize> Deref for Taken<'_, T, S> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.port
    }
}

impl<T, S: FnMut(&mut T, usize) -> usize> DerefMut for Taken<'_, T, S> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.port
    }
}

impl<T, S: FnMut(&mut T, usize) -> usize> Drop for Meanwhile<'_, T, S> {
    fn drop(&mut self) {
        self.shared.serve_pending(MOST_OF_USER, &mut self.serve);
    }
}

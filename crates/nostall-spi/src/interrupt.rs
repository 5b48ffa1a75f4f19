//! The controller's interrupt, and the owner that waits for it.

use core::task::Waker;

use nostall_io::Nanos;

use crate::sync::{Critical, constant};

/// Whether the controller has interrupted, and the waker of the task that waits.
#[derive(Debug)]
pub(crate) struct Interrupt(Critical<State>);

#[derive(Debug)]
struct State {
    came: bool,
    waker: Option<Waker>,
    /// When the owner looks again without an interrupt, if it has no timer of its own.
    deadline: Nanos,
}

impl Interrupt {
    constant! {
        pub(crate) fn new() -> Self {
            Self(Critical::new(State {
                came: false,
                waker: None,
                deadline: Nanos::ZERO,
            }))
        }
    }

    /// Records the interrupt. Returns the waker of the owner.
    pub(crate) fn raise(&self) -> Option<Waker> {
        self.0.with(|state| {
            state.came = true;
            state.waker.take()
        })
    }

    /// Returns the waker of an owner whose time is over.
    pub(crate) fn late(&self, now: Nanos) -> Option<Waker> {
        self.0
            .with(|state| state.waker.take_if(|_| now >= state.deadline))
    }

    /// Whether the interrupt has come; then it is taken. Otherwise `waker` is woken when
    /// it comes.
    pub(crate) fn take_or_wait(&self, waker: Option<Waker>, deadline: Nanos) -> bool {
        let mut waker = waker;
        self.0.with(|state| {
            core::mem::swap(&mut state.waker, &mut waker);
            state.deadline = deadline;
            core::mem::take(&mut state.came)
        })
    }

    /// Has `waker` woken by [`late`](Self::late) after `deadline`.
    pub(crate) fn expect(&self, waker: &Waker, deadline: Nanos) {
        let mut waker = Some(waker.clone());
        self.0.with(|state| {
            core::mem::swap(&mut state.waker, &mut waker);
            state.deadline = deadline;
        });
    }
}

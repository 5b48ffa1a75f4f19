//! Result of an offer of bytes to a device that takes a limited number at a time.

use crate::Nanos;

/// Number of bytes that a device took without a wait, and the time of the next offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    /// Number of bytes that need not be offered again.
    pub taken: usize,
    /// Time of the next offer; `None` if the device has disappeared.
    ///
    /// A time in the past means at once: [`Nanos::ZERO`] if the device takes bytes faster than they
    /// are offered.
    pub ready_at: Option<Nanos>,
}

impl Offered {
    /// Result of an offer to a device that has disappeared.
    pub const GONE: Self = Self {
        taken: 0,
        ready_at: None,
    };
}

//! Accesses whose effect is known before they are made: those of a driver that polls.

use nostall_io::Nanos;

/// Effects of such accesses, until the state changes.
///
/// An access that changes the state resets it, and computes it again for the new state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quiet {
    /// Time at which something happens without an access; [`Self::FOREVER`] if never. Until then
    /// the interrupt line is low, and a read of the LSR only returns `status`. Zero if an interrupt
    /// is pending, or if a read of the LSR does more.
    pub(super) until: Nanos,
    pub(super) status: u8,
    /// Whether the sink gets each written byte at once, and nothing else happens.
    pub(super) at_once: bool,
}

impl Quiet {
    pub(super) const FOREVER: Nanos = Nanos(u64::MAX);

    /// Nothing is known.
    pub(super) const NOT: Self = Self {
        until: Nanos::ZERO,
        status: 0,
        at_once: false,
    };
}

//! Interrupts and exceptions, as an architecture decodes them.

use nostall_work::ReportText;

/// Cause of a trap, for [`rust_trap`](crate::rust_trap).
pub enum Trap {
    /// The architecture has handled it.
    Handled,
    /// An interrupt of this CPU's timer.
    Timer,
    /// An interrupt that another CPU sent with [`call_others`](crate::arch::call_others), and the
    /// exception to report if no CPU sent one.
    Call(Option<Exception>),
    /// An exception or an unexpected interrupt. It ends the kernel.
    Exception(Exception),
}

/// An exception and the state of its CPU.
pub struct Exception {
    pub vector: u8,
    pub name: ReportText,
    pub error: u64,
    pub pc: u64,
    pub sp: u64,
    pub address: u64,
}

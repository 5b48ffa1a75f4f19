//! Exits of the CPU, and the action after each.

use super::ring::Place;

/// An exit of the CPU.
pub enum Exit<'a> {
    /// A read of `data`, in items of `size` bytes.
    Read {
        place: Place,
        size: usize,
        data: &'a mut [u8],
    },
    /// A write of `data`, in items of `size` bytes.
    Write {
        place: Place,
        size: usize,
        data: &'a [u8],
    },
    /// The CPU is halted.
    Halt,
    /// An exit that the guest did not cause, such as a signal.
    Other,
}

/// Action after an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Resume the guest.
    GoOn,
    /// Resume the guest as soon as its output has room.
    Wait,
    /// Resume the guest after a pause, because its CPU is halted.
    Rest,
    /// The guest ended itself.
    End(End),
}

/// How a guest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The guest ended itself with this exit status.
    Status(i32),
    /// The guest reset the machine.
    Reset,
    /// This process stopped it.
    Stopped,
}

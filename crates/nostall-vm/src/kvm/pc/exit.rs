//! Exits of the CPU from the guest, and the action after each.

use super::ring::Place;

/// A reason for which the CPU has left the guest.
pub enum Exit<'a> {
    /// A read of `data`, item by item of `size` bytes.
    Read {
        place: Place,
        size: usize,
        data: &'a mut [u8],
    },
    /// A write, likewise.
    Write {
        place: Place,
        size: usize,
        data: &'a [u8],
    },
    /// The CPU is halted.
    Halt,
    /// A signal, or something else that is not the guest's doing.
    Other,
}

/// Action after an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Let the guest go on.
    GoOn,
    /// The same, but not before there is room for its output.
    Wait,
    /// The same, but the guest has nothing to do.
    Rest,
    /// The guest has ended itself.
    End(End),
}

/// How a guest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At its own word, with this status.
    Status(i32),
    /// By a reset.
    Reset,
    /// By turning itself off.
    Off,
    /// This process stopped it.
    Stopped,
}

/// Device that a read was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The serial port, beside its eight registers.
    Serial,
    /// Another device.
    Other,
}

/// A further device of a machine, besides serial port and PCI.
pub trait BusDevice: Send {
    /// Handles a read; `None` if nothing of it is at `place`.
    fn read(&mut self, place: Place, data: &mut [u8]) -> Option<Read>;

    /// Handles a write, likewise.
    fn write(&mut self, place: Place, data: &[u8]) -> Option<Next>;
}

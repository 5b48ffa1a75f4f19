//! What serial ports cost, as data.

use nostall_io::Nanos;

/// How fast the transmitter empties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// At once, whatever rate is set: a virtual machine's.
    AtOnce,
    /// At the rate that is set, frame by frame.
    Baud,
}

/// What a serial port costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The stable word for it.
    pub name: &'static str,
    /// What one access to a register takes on the bus.
    pub access: Nanos,
    /// How fast it empties.
    pub line: Line,
}

impl Profile {
    /// A virtual machine's port: it empties at once.
    ///
    /// The cost of an access is *assumed*, the same as `pc-16550a`'s, so that
    /// the two profiles differ in the line alone.
    pub const VM: Self = Self {
        name: "vm",
        access: Nanos(1_700),
        line: Line::AtOnce,
    };

    /// A PC's port.
    ///
    /// 1.7 us an access, *measured* by others: the function trace in "Improving
    /// the Kernel TTY throughput" (Costa), `io_serial_in` and `io_serial_out`.
    pub const PC_16550A: Self = Self {
        name: "pc-16550a",
        access: Nanos(1_700),
        line: Line::Baud,
    };

    /// Every profile.
    pub const ALL: [Self; 2] = [Self::VM, Self::PC_16550A];
}

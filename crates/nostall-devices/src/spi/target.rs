//! Behaviour of every device at the end of the wires.

/// A device at the end of the wires: a target, as the wires' other end is the
/// controller. Mode 0, most significant bit first.
///
/// With `std`, an `Rc<RefCell<_>>` of one is one too: to inspect it, and to change it, while it is
/// connected.
pub trait Target {
    /// Its chip-select line is asserted.
    fn select(&mut self);

    /// Clocks eight bits while the device is selected: takes in `byte`, and returns the byte that
    /// it puts out meanwhile.
    fn exchange(&mut self, byte: u8) -> u8;

    /// Its chip-select line is released.
    fn release(&mut self);

    /// Eight clocks, while it is not selected.
    fn pass(&mut self, byte: u8) {
        let _ = byte;
    }
}

#[cfg(feature = "std")]
impl<T: Target> Target for std::rc::Rc<std::cell::RefCell<T>> {
    fn select(&mut self) {
        self.borrow_mut().select();
    }

    fn exchange(&mut self, byte: u8) -> u8 {
        self.borrow_mut().exchange(byte)
    }

    fn release(&mut self) {
        self.borrow_mut().release();
    }

    fn pass(&mut self, byte: u8) {
        self.borrow_mut().pass(byte);
    }
}

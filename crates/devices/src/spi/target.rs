//! The interface of every SPI device.

/// An SPI device: the target of a controller. SPI mode 0, most significant bit first.
///
/// With `std`, an `Rc<RefCell<_>>` of a target is also a target. A test can then inspect and change
/// the device while it is connected.
pub trait Target {
    /// Handles the assertion of the chip-select line.
    fn select(&mut self);

    /// Exchanges one byte (eight clock cycles) while the device is selected: receives `byte` and
    /// returns the byte sent meanwhile.
    fn exchange(&mut self, byte: u8) -> u8;

    /// Handles the release of the chip-select line.
    fn release(&mut self);

    /// Handles eight clock cycles, with `byte` on the data wire, while the device is not selected.
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

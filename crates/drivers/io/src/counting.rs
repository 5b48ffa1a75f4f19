//! Counting of a driver's bus accesses.

use core::cell::Cell;

use crate::Registers;

/// Numbers of accesses through a [`Counting`] window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of single reads.
    pub reads: u64,
    /// Number of single writes.
    pub writes: u64,
    /// Number of bursts in either direction.
    pub bursts: u64,
    /// Number of values moved in bursts. Each is one access on the bus.
    pub burst_values: u64,
    /// Number of register instructions for the bursts: one for each burst if the bus has a string
    /// instruction, otherwise one for each value.
    pub burst_instructions: u64,
}

impl Counts {
    /// Returns the number of register instructions of the CPU. A `rep outsb` is one.
    pub const fn register_instructions(&self) -> u64 {
        self.reads + self.writes + self.burst_instructions
    }

    /// Returns the number of accesses at the device. A `rep outsb` of sixteen bytes is sixteen.
    pub const fn bus_accesses(&self) -> u64 {
        self.reads + self.writes + self.burst_values
    }
}

impl core::ops::Sub for Counts {
    type Output = Self;

    /// Returns the accesses between two readings of the same window.
    fn sub(self, earlier: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            writes: self.writes.saturating_sub(earlier.writes),
            bursts: self.bursts.saturating_sub(earlier.bursts),
            burst_values: self.burst_values.saturating_sub(earlier.burst_values),
            burst_instructions: self
                .burst_instructions
                .saturating_sub(earlier.burst_instructions),
        }
    }
}

/// Window that counts every access and passes it to `R`.
///
/// A driver that does not use one has no cost.
#[derive(Debug)]
pub struct Counting<R> {
    inner: R,
    counts: Cell<Counts>,
}

impl<R> Counting<R> {
    /// Creates a window whose counts are zero.
    pub const fn new(inner: R) -> Self {
        Self {
            inner,
            counts: Cell::new(Counts {
                reads: 0,
                writes: 0,
                bursts: 0,
                burst_values: 0,
                burst_instructions: 0,
            }),
        }
    }

    /// Returns the numbers of accesses so far.
    pub fn counts(&self) -> Counts {
        self.counts.get()
    }

    /// Returns the counted window.
    pub const fn inner(&self) -> &R {
        &self.inner
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }
}

impl<R: Registers> Counting<R> {
    fn count_burst(&self, values: usize) {
        self.count(|c| {
            c.bursts += 1;
            c.burst_values += values as u64;
            c.burst_instructions += self.inner.burst_instructions(values) as u64;
        });
    }
}

impl<R: Registers> Registers for Counting<R> {
    fn read8(&self, offset: usize) -> u8 {
        self.count(|c| c.reads += 1);
        self.inner.read8(offset)
    }
    fn write8(&self, offset: usize, value: u8) {
        self.count(|c| c.writes += 1);
        self.inner.write8(offset, value);
    }
    fn write_burst(&self, offset: usize, values: &[u8]) {
        self.count_burst(values.len());
        self.inner.write_burst(offset, values);
    }
    fn burst_instructions(&self, values: usize) -> usize {
        self.inner.burst_instructions(values)
    }
    fn read16(&self, offset: usize) -> u16 {
        self.count(|c| c.reads += 1);
        self.inner.read16(offset)
    }
    fn write16(&self, offset: usize, value: u16) {
        self.count(|c| c.writes += 1);
        self.inner.write16(offset, value);
    }
    fn read32(&self, offset: usize) -> u32 {
        self.count(|c| c.reads += 1);
        self.inner.read32(offset)
    }
    fn write32(&self, offset: usize, value: u32) {
        self.count(|c| c.writes += 1);
        self.inner.write32(offset, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bus with a string instruction, like x86 ports.
    struct StringBus;

    impl Registers for StringBus {
        fn read8(&self, _: usize) -> u8 {
            0
        }
        fn write8(&self, _: usize, _: u8) {}
        fn burst_instructions(&self, values: usize) -> usize {
            values.min(1)
        }
    }

    /// A bus without a string instruction.
    struct LoopBus;

    impl Registers for LoopBus {
        fn read8(&self, _: usize) -> u8 {
            0
        }
        fn write8(&self, _: usize, _: u8) {}
    }

    fn use_it(window: &impl Registers) {
        window.read8(5);
        window.write8(1, 0);
        window.write_burst(0, &[0; 16]);
        window.write_burst(0, &[]);
    }

    #[test]
    fn a_burst_is_one_instruction_where_the_bus_has_a_string_instruction() {
        let window = Counting::new(StringBus);
        use_it(&window);
        assert_eq!(window.counts().register_instructions(), 1 + 1 + 1);
        assert_eq!(window.counts().bus_accesses(), 1 + 1 + 16);
        assert_eq!(window.counts().bursts, 2);
    }

    #[test]
    fn a_burst_is_one_instruction_a_value_without_a_string_instruction() {
        let window = Counting::new(LoopBus);
        use_it(&window);
        assert_eq!(window.counts().register_instructions(), 1 + 1 + 16);
        assert_eq!(window.counts().bus_accesses(), 1 + 1 + 16);
    }

    #[test]
    fn every_access_is_counted_and_passed_to_the_window() {
        let inner = crate::registers::tests::Recorded::default();
        let window = Counting::new(inner);
        let seen = crate::registers::tests::use_every_access(&window);
        assert_eq!(seen, crate::registers::tests::answers());
        assert_eq!(window.inner().0.take(), crate::registers::tests::accesses());
        let counts = window.counts();
        assert_eq!((counts.reads, counts.writes, counts.bursts), (3, 3, 1));
    }

    #[test]
    fn counts_of_an_interval_are_the_difference_of_two_readings() {
        let window = Counting::new(StringBus);
        use_it(&window);
        let before = window.counts();
        window.write_burst(0, &[0; 3]);
        let stretch = window.counts() - before;
        assert_eq!(stretch.register_instructions(), 1);
        assert_eq!(stretch.bus_accesses(), 3);
    }
}

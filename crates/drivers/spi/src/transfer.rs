//! Messages: sequences of transfers in one selection of the device.

use embedded_hal::spi::Operation;
use nostall_io::Nanos;

use crate::settings::{Settings, Wire, WordSize};

/// Options of a transfer besides its operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Fastest clock in hertz, limited to the controller's fastest. `None` uses the device's.
    pub clock: Option<u32>,
    /// Word size; `None` uses the device's.
    pub word: Option<WordSize>,
    /// Delay after the transfer, before anything else happens.
    pub delay: Nanos,
    /// Time for which the device is deselected after the transfer. Not allowed for the last
    /// transfer, because a message always ends deselected.
    pub cs_change: Option<Nanos>,
}

impl Options {
    const NONE: Self = Self {
        clock: None,
        word: None,
        delay: Nanos::ZERO,
        cs_change: None,
    };

    #[inline]
    pub(crate) fn wire(&self, settings: &Settings) -> Wire {
        Wire {
            mode: settings.mode,
            order: settings.order,
            wires: settings.wires,
            select: settings.select,
            clock: self.clock.unwrap_or(settings.clock),
            word: self.word.unwrap_or(settings.word),
        }
    }
}

/// An embedded-hal operation, with options.
///
/// If an operation receives more than it sends, [`Settings::fill`] is sent for the rest. If it
/// sends more than it receives, the remaining received bytes are dropped.
#[derive(Debug)]
pub struct Transfer<'a> {
    /// Bytes to move.
    pub operation: Operation<'a, u8>,
    /// Other options.
    pub options: Options,
}

impl<'a> From<Operation<'a, u8>> for Transfer<'a> {
    #[inline]
    fn from(operation: Operation<'a, u8>) -> Self {
        Self {
            operation,
            options: Options::NONE,
        }
    }
}

impl<'a> Transfer<'a> {
    const fn new(operation: Operation<'a, u8>) -> Self {
        let options = Options::NONE;
        Self { operation, options }
    }

    /// Creates a transfer that sends `bytes` and drops the received bytes.
    pub const fn write(bytes: &'a [u8]) -> Self {
        Self::new(Operation::Write(bytes))
    }

    /// Creates a transfer that receives into `into`.
    pub const fn read(into: &'a mut [u8]) -> Self {
        Self::new(Operation::Read(into))
    }

    /// Creates a transfer that sends `write` and receives into `read` at the same time. The longer
    /// one sets the length.
    #[allow(clippy::self_named_constructors, reason = "embedded-hal's name")]
    pub const fn transfer(write: &'a [u8], read: &'a mut [u8]) -> Self {
        Self::new(Operation::Transfer(read, write))
    }

    /// Creates a transfer that sends `bytes` and replaces them with the received bytes.
    pub const fn in_place(bytes: &'a mut [u8]) -> Self {
        Self::new(Operation::TransferInPlace(bytes))
    }

    /// Creates a transfer that moves nothing and takes `span`.
    pub const fn pause(span: Nanos) -> Self {
        Self::write(&[]).delay(span)
    }

    /// Sets the delay after the transfer.
    pub const fn delay(mut self, span: Nanos) -> Self {
        self.options.delay = span;
        self
    }

    /// Sets the fastest clock, in hertz.
    pub const fn clock(mut self, hertz: u32) -> Self {
        self.options.clock = Some(hertz);
        self
    }

    /// Sets the word size.
    pub const fn word(mut self, word: WordSize) -> Self {
        self.options.word = Some(word);
        self
    }

    /// Deselects the device for `span` after the transfer.
    pub const fn cs_change(mut self, span: Nanos) -> Self {
        self.options.cs_change = Some(span);
        self
    }

    /// Returns the number of bytes to send.
    #[inline]
    pub const fn sends(&self) -> usize {
        match &self.operation {
            Operation::Write(bytes) | Operation::Transfer(_, bytes) => bytes.len(),
            Operation::TransferInPlace(bytes) => bytes.len(),
            Operation::Read(_) | Operation::DelayNs(_) => 0,
        }
    }

    /// Returns the number of bytes to receive.
    #[inline]
    pub const fn receives(&self) -> usize {
        match &self.operation {
            Operation::Read(bytes)
            | Operation::Transfer(bytes, _)
            | Operation::TransferInPlace(bytes) => bytes.len(),
            Operation::Write(_) | Operation::DelayNs(_) => 0,
        }
    }

    /// Returns the number of bytes on the wire.
    #[inline]
    pub const fn len(&self) -> usize {
        let (sends, receives) = (self.sends(), self.receives());
        if sends > receives { sends } else { receives }
    }

    /// Returns whether no bytes are moved.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes to send.
    pub const fn sent(&self) -> &[u8] {
        match &self.operation {
            Operation::Write(bytes) | Operation::Transfer(_, bytes) => bytes,
            Operation::TransferInPlace(bytes) => bytes,
            Operation::Read(_) | Operation::DelayNs(_) => &[],
        }
    }

    /// Returns the memory for the received bytes.
    pub const fn received(&mut self) -> &mut [u8] {
        match &mut self.operation {
            Operation::Read(bytes)
            | Operation::Transfer(bytes, _)
            | Operation::TransferInPlace(bytes) => bytes,
            Operation::Write(_) | Operation::DelayNs(_) => &mut [],
        }
    }

    /// Returns the delay after the transfer, from the operation and the options.
    #[inline]
    pub(crate) fn pause_after(&self) -> Nanos {
        match self.operation {
            Operation::DelayNs(span) => self.options.delay + Nanos(span.into()),
            _ => self.options.delay,
        }
    }
}

/// A message: a slice of [`Transfer`]s, or of embedded-hal's [`Operation`]s.
pub trait Message {
    /// Returns the number of transfers.
    fn transfers(&self) -> usize;

    /// Returns transfer `index`, counted from 0.
    fn transfer(&mut self, index: usize) -> Option<Transfer<'_>>;
}

#[inline]
fn reborrow<'a>(operation: &'a mut Operation<'_, u8>) -> Operation<'a, u8> {
    match operation {
        Operation::Write(bytes) => Operation::Write(bytes),
        Operation::Read(into) => Operation::Read(into),
        Operation::Transfer(read, write) => Operation::Transfer(read, write),
        Operation::TransferInPlace(bytes) => Operation::TransferInPlace(bytes),
        Operation::DelayNs(span) => Operation::DelayNs(*span),
    }
}

impl Message for [Transfer<'_>] {
    #[inline]
    fn transfers(&self) -> usize {
        self.len()
    }

    #[inline]
    fn transfer(&mut self, index: usize) -> Option<Transfer<'_>> {
        let transfer = self.get_mut(index)?;
        Some(Transfer {
            operation: reborrow(&mut transfer.operation),
            options: transfer.options,
        })
    }
}

/// Represents operations as a message. An empty slice is one empty transfer, which selects the
/// device and releases it, as `SpiDevice::transaction` requires.
impl Message for [Operation<'_, u8>] {
    #[inline]
    fn transfers(&self) -> usize {
        self.len().max(1)
    }

    #[inline]
    fn transfer(&mut self, index: usize) -> Option<Transfer<'_>> {
        match self.get_mut(index) {
            None if index == 0 => Some(Operation::DelayNs(0).into()),
            operation => operation.map(|it| reborrow(it).into()),
        }
    }
}

//! QEMU's cards, which say that they are idle when they are not.
//!
//! Asked for its OCR (CMD58), QEMU's model of a card in SPI mode (seen with 7.2) answers
//! with the idle bit set, always. `embedded-sdmmc` takes that for an error. It asks only
//! after the card has said that it is not idle any more, so the bit tells nothing, and
//! is taken off.

use embedded_hal::spi::{ErrorType, Operation, SpiDevice};

/// CMD58, as it begins on the wire.
const READ_OCR: u8 = 0x40 | 58;

/// R1: the card is idle.
const IDLE: u8 = 1 << 0;

/// A card whose answer to CMD58 is not idle.
pub(super) struct NotIdle<S> {
    pub(super) card: S,
    /// CMD58 was sent, and is not answered yet.
    asked: bool,
}

impl<S> NotIdle<S> {
    pub(super) const fn new(card: S) -> Self {
        Self { card, asked: false }
    }
}

impl<S: ErrorType> ErrorType for NotIdle<S> {
    type Error = S::Error;
}

/// The crate sends commands as one write, and then reads byte by byte.
impl<S: SpiDevice> SpiDevice for NotIdle<S> {
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), S::Error> {
        self.card.transaction(operations)?;
        match operations {
            [Operation::Write(command)] => self.asked = command.first() == Some(&READ_OCR),
            // Bit 7 is clear in an answer, and set before it.
            [Operation::Transfer([answer], _)] if self.asked && *answer & 0x80 == 0 => {
                *answer &= !IDLE;
                self.asked = false;
            }
            _ => {}
        }
        Ok(())
    }
}

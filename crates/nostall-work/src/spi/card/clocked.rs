//! A card with a slow and a fast clock rate.

use embedded_hal::spi::{ErrorType, Operation, SpiDevice};
use nostall_spi::{Controller, Device, Error, Platform};

/// A device with two clock rates.
pub(super) struct Clocked<
    'b,
    C: Controller,
    P: Platform,
    const W: usize,
    const S: usize,
    const B: usize,
> {
    now: Device<'b, C, P, W, S, B>,
    /// Fast device, once the rate was raised.
    fast: Option<Device<'b, C, P, W, S, B>>,
    idle_bit: IdleBit,
}

impl<'b, C: Controller, P: Platform, const W: usize, const S: usize, const B: usize>
    Clocked<'b, C, P, W, S, B>
{
    pub(super) fn new(slow: Device<'b, C, P, W, S, B>, fast: Device<'b, C, P, W, S, B>) -> Self {
        Self {
            now: slow,
            fast: Some(fast),
            idle_bit: IdleBit::default(),
        }
    }

    pub(super) fn speed_up(&mut self) {
        if let Some(fast) = self.fast.take() {
            self.now = fast;
        }
    }
}

impl<C: Controller, P: Platform, const W: usize, const S: usize, const B: usize> ErrorType
    for Clocked<'_, C, P, W, S, B>
{
    type Error = Error;
}

impl<C: Controller, P: Platform, const W: usize, const S: usize, const B: usize> SpiDevice
    for Clocked<'_, C, P, W, S, B>
{
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), Error> {
        SpiDevice::transaction(&mut self.now, operations)?;
        self.idle_bit.look(operations);
        Ok(())
    }
}

/// READ_OCR as sent: start bit 0, transmission bit 1, and the number (SD Physical Layer Simplified
/// Specification, "Command Format" of SPI mode).
const READ_OCR: u8 = 0x40 | 58;

/// Response with only "in idle state" in its first byte ("Format R1").
const ONLY_IDLE: u8 = 0x01;

/// Bit 7 of a byte that is not a response yet.
const NOT_YET: u8 = 0x80;

/// Clears the "in idle state" bit in the response to READ_OCR, which is only sent after that state.
///
/// QEMU's card (`hw/sd/ssi-sd.c`, as of 7.2) always sets the bit, although its response to
/// SD_SEND_OP_COND has ended the state. `embedded-sdmmc` reports the bit as an error.
#[derive(Debug, Default)]
pub(super) struct IdleBit {
    /// READ_OCR was sent and has no response yet.
    asked: bool,
}

impl IdleBit {
    /// Checks the operations of a message. Commands are written whole; responses are read byte by
    /// byte until one arrives.
    pub(super) fn look(&mut self, operations: &mut [Operation<'_, u8>]) {
        match operations {
            [Operation::Write([command, _, _, _, _, _])] => self.asked = *command == READ_OCR,
            [Operation::Transfer([answer], _)] if self.asked && *answer & NOT_YET == 0 => {
                self.asked = false;
                if *answer == ONLY_IDLE {
                    *answer = 0;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(command: u8, answers: &mut [u8]) {
        let mut bit = IdleBit::default();
        bit.look(&mut [Operation::Write(&[0x40 | command, 0, 0, 0, 0, 0])]);
        for answer in answers.chunks_mut(1) {
            bit.look(&mut [Operation::Transfer(answer, &[0xff])]);
        }
    }

    #[test]
    fn the_bit_is_cleared_in_the_first_byte_of_one_response() {
        let mut answers = [0xff, 0xff, 0x01, 0x01];
        answered(58, &mut answers);
        assert_eq!(answers, [0xff, 0xff, 0x00, 0x01]);
    }

    #[test]
    fn errors_and_other_commands_are_unchanged() {
        for (command, answer) in [(58, 0x05), (58, 0x00), (8, 0x01), (0, 0x01)] {
            let mut answers = [answer];
            answered(command, &mut answers);
            assert_eq!(answers, [answer], "command {command}");
        }
    }
}

//! A card that says that it is idle when it is not.
//!
//! QEMU's (`hw/sd/ssi-sd.c`, as seen in 7.2) answers READ_OCR always with the "in idle
//! state" bit, also once initialisation has ended it, by its own word in answer to
//! SD_SEND_OP_COND. `embedded-sdmmc` takes that for an error.

use embedded_hal::spi::Operation;

/// READ_OCR as it is sent: start bit 0, transmission bit 1, and the number (SD Physical
/// Layer Simplified Specification, section "Command Format" of SPI mode).
const READ_OCR: u8 = 0x40 | 58;

/// Nothing but "in idle state" in the first byte of an answer (section "Format R1").
const ONLY_IDLE: u8 = 0x01;

/// Bit 7 of a byte that is no answer yet.
const NOT_YET: u8 = 0x80;

/// Takes the bit off the answer to READ_OCR, which is asked for only when it has ended.
#[derive(Debug, Default)]
pub(super) struct IdleBit {
    /// READ_OCR was sent, and is not answered.
    asked: bool,
}

impl IdleBit {
    /// Looks at what went over the wires: commands are written whole, and their answers
    /// are read byte by byte until there is one.
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
    fn the_bit_is_taken_off_the_first_byte_of_one_answer() {
        let mut answers = [0xff, 0xff, 0x01, 0x01];
        answered(58, &mut answers);
        assert_eq!(answers, [0xff, 0xff, 0x00, 0x01]);
    }

    #[test]
    fn errors_and_other_commands_are_left_alone() {
        for (command, answer) in [(58, 0x05), (58, 0x00), (8, 0x01), (0, 0x01)] {
            let mut answers = [answer];
            answered(command, &mut answers);
            assert_eq!(answers, [answer], "command {command}");
        }
    }
}

//! Transfer from the line to the receive ring, with a report of each loss.

use nostall_io::Registers;

use super::interrupt::Gone;
use super::{Handshake, Port, ReceiveError, Received};
use crate::registers::{MCR, RBR, lsr, mcr};

/// Errors that belong to the next byte (PC16550D, section 8.4).
const OF_NEXT_BYTE: u8 = lsr::PARITY | lsr::FRAMING | lsr::BREAK;

impl<R: Registers> Port<'_, R> {
    /// Reads the bytes in the receive FIFO, at most `most`. Returns their number.
    ///
    /// The line status is read before each byte, because its errors are those of the byte at the
    /// front of the FIFO.
    pub(super) fn empty_receiver(&mut self, most: usize) -> Result<usize, Gone> {
        for received in 0..most {
            if self.line_status()? & lsr::DATA_READY == 0 {
                return Ok(received);
            }
            let byte = self.registers.read8(RBR);
            self.take(byte);
        }
        Ok(most)
    }

    /// Keeps the errors that a read of the line status has cleared.
    pub(super) fn keep_errors(&mut self, status: u8) {
        self.held |= status & OF_NEXT_BYTE;
        if status & lsr::OVERRUN != 0 {
            self.statistics.overruns += 1;
            // The lost bytes followed a full FIFO.
            self.lost |= 1 << (self.depth - 1);
        }
        if status & lsr::DATA_READY == 0 {
            self.settle();
        }
    }

    /// Reports the errors that have no byte, because the FIFO is empty.
    fn settle(&mut self) {
        // Some ports report a break without a NUL.
        if self.held & lsr::BREAK != 0 {
            let entry = self.judge(0);
            self.store(entry);
        }
        if self.lost != 0 {
            self.lost = 0;
            self.store(Received::Error(ReceiveError::Overrun));
        }
    }

    fn take(&mut self, byte: u8) {
        self.statistics.received += 1;
        let entry = self.judge(byte);
        let lost_here = self.lost & 1 != 0;
        self.lost >>= 1;
        // Without a FIFO, this byte overwrote the lost one. With a FIFO, it is the last byte before
        // the loss (PC16550D, section 8.4, OE).
        let overrun = Received::Error(ReceiveError::Overrun);
        if lost_here && self.depth == 1 {
            self.store(overrun);
        }
        self.store(entry);
        if lost_here && self.depth > 1 {
            self.store(overrun);
        }
    }

    /// Combines `byte` with the pending errors.
    fn judge(&mut self, byte: u8) -> Received {
        let errors = core::mem::take(&mut self.held);
        let counts = &mut self.statistics;
        // A break is a frame without a stop bit, of any parity.
        if errors & lsr::BREAK != 0 {
            counts.breaks += 1;
            return Received::Error(ReceiveError::Break);
        }
        counts.parity += u64::from(errors & lsr::PARITY != 0);
        counts.framing += u64::from(errors & lsr::FRAMING != 0);
        if errors & lsr::FRAMING != 0 {
            Received::Error(ReceiveError::Framing(byte))
        } else if errors & lsr::PARITY != 0 {
            Received::Error(ReceiveError::Parity(byte))
        } else {
            Received::Byte(byte)
        }
    }

    /// Stores `entry` in the ring. Without room it is dropped, and the next stored entry follows an
    /// overrun.
    fn store(&mut self, entry: Received) {
        let overrun = Received::Error(ReceiveError::Overrun);
        self.news = true;
        #[cfg(feature = "embedded-io-async")]
        self.wakers.wake_reader();
        if self.dropping && self.receive.free() >= 2 {
            self.dropping = false;
            self.receive.push(overrun);
            if entry == overrun {
                return;
            }
        }
        if self.dropping || !self.receive.push(entry) {
            self.dropping = true;
            self.statistics.dropped += u64::from(entry != overrun);
        }
    }

    /// Returns the next entry without removing it.
    pub(super) fn front(&self) -> Option<Received> {
        let overrun = Received::Error(ReceiveError::Overrun);
        let after_last = self.dropping.then_some(overrun);
        self.receive.front().or(after_last)
    }

    pub(super) fn pop(&mut self) -> Option<Received> {
        let front = self.front();
        if self.receive.pop().is_none() {
            self.dropping = false;
        }
        front
    }

    /// Releases RTS when the ring gets full, and raises it again when there is room.
    pub(super) fn hold_sender_off(&mut self) {
        if self.handshake == Handshake::None {
            return;
        }
        let (free, all) = (self.receive.free(), self.receive.capacity());
        let ready = self.modem_control & mcr::RTS != 0;
        let stop = ready && free < (all / 4).max(1);
        let go_on = !ready && free >= (all / 2).max(1);
        if stop || go_on {
            self.modem_control ^= mcr::RTS;
            self.registers.write8(MCR, self.modem_control);
        }
    }
}

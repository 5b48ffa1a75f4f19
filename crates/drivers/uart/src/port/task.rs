//! Interface of a port for the task.

use nostall_io::{Nanos, Registers};

use super::{Port, PortStatistics, ReceiveError, Received};
#[cfg(feature = "embedded-io-async")]
use crate::registers::ier;
use crate::registers::lsr;

impl<R: Registers> Port<'_, R> {
    /// Stores as many of `bytes` in the transmit ring as there is room for, and starts an idle
    /// transmitter. Returns the number of bytes stored.
    ///
    /// Never waits: returns 0 when the ring is full.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let mut taken = self.transmit.extend(bytes);
        self.start_transmitter();
        // Bytes that the transmitter took at once have made room.
        taken += self.transmit.extend(&bytes[taken..]);
        taken
    }

    /// Moves received entries to `into`, oldest first. Returns their number. Never waits.
    pub fn read(&mut self, into: &mut [Received]) -> usize {
        let mut len = 0;
        while let Some(place) = into.get_mut(len)
            && let Some(entry) = self.pop()
        {
            *place = entry;
            len += 1;
        }
        self.hold_sender_off();
        len
    }

    /// Moves received bytes to `into`, up to the first error. Returns their number, 0 if there are
    /// none. Never waits.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`], once for each error, after the bytes before it have been read. The next
    /// call continues after it.
    pub fn read_bytes(&mut self, into: &mut [u8]) -> Result<usize, ReceiveError> {
        let mut len = 0;
        while let Some(place) = into.get_mut(len) {
            match self.front() {
                Some(Received::Byte(byte)) => *place = byte,
                Some(Received::Error(error)) if len == 0 => {
                    self.pop();
                    self.hold_sender_off();
                    return Err(error);
                }
                Some(Received::Error(_)) | None => break,
            }
            self.pop();
            len += 1;
        }
        self.hold_sender_off();
        Ok(len)
    }

    /// Returns whether there is neither a byte nor an error to read.
    pub fn is_empty(&self) -> bool {
        self.front().is_none()
    }

    /// Returns the number of bytes that [`write`](Self::write) is sure to take now.
    pub fn room(&self) -> usize {
        self.transmit.free()
    }

    /// Returns the number of bytes in the transmit ring.
    pub fn pending(&self) -> usize {
        self.transmit.len()
    }

    /// Returns whether the transmitter is empty and has no byte to send.
    #[cfg(feature = "embedded-io-async")]
    pub(super) const fn is_resting(&self) -> bool {
        self.transmit.is_empty() && self.enabled & ier::TRANSMITTER_EMPTY == 0
    }

    /// Returns whether the last bit of everything written has been sent.
    ///
    /// Reads one register, or none while there are bytes in the ring. Returns `false` if the port
    /// is gone.
    pub fn is_drained(&mut self) -> bool {
        if !self.transmit.is_empty() {
            return false;
        }
        let status = self.line_status();
        self.gone = status.is_err();
        status.is_ok_and(|status| status & lsr::TEMT != 0)
    }

    /// Returns the modem lines CTS, DSR, RI and DCD as in
    /// [`registers::msr`](crate::registers::msr), with deltas 0.
    ///
    /// Reads one register. The handler reports changes at once only with
    /// [`Handshake::RtsCts`](super::Handshake::RtsCts).
    pub fn modem_status(&mut self) -> u8 {
        let status = self.look_at_modem();
        // This read may have cleared the change that allows sending.
        self.start_transmitter();
        status
    }

    /// Returns whether the port did not answer at the last access.
    pub const fn is_gone(&self) -> bool {
        self.gone
    }

    /// Returns the counters so far.
    pub const fn statistics(&self) -> PortStatistics {
        self.statistics
    }

    /// Returns the time of one frame on the line.
    pub const fn frame_time(&self) -> Nanos {
        self.frame_time
    }

    /// Returns the number of bytes that the transmitter takes at once.
    pub const fn transmit_load(&self) -> usize {
        self.load
    }

    /// Returns the register window.
    pub const fn registers(&self) -> &R {
        &self.registers
    }
}

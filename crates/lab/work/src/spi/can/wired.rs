//! An SPI controller connected to a model of a CAN controller.

use core::mem;

use embedded_hal::spi::Operation;
use nostall_devices::spi::{Frame, Identifier, Mcp2515, Target};
use nostall_spi::{Capabilities, Controller, Fault, Level, Progress, Wire, Words};

/// Length of the longest transfer in bytes.
const LONGEST: usize = 32;

/// Bytes on the real wires: no device decodes them as a command.
const QUIET: [u8; LONGEST] = [0xff; LONGEST];

/// The far end of the CAN bus. It sends its frames as fast as they are accepted, and checks the
/// frames that it receives.
#[derive(Debug)]
pub struct FarEnd {
    chip: Mcp2515,
    /// Number of frames to send to the guest.
    frames: u32,
    /// Number of frames sent to the guest.
    given: u32,
    /// Number of frames received from the guest, correct and in order.
    pub(super) sent: u32,
}

impl FarEnd {
    fn new(frames: u32) -> Self {
        Self {
            chip: Mcp2515::new(),
            frames,
            given: 0,
            sent: 0,
        }
    }

    /// Runs the CAN bus while the chip is deselected.
    fn turn(&mut self) {
        while let Some(frame) = self.chip.transmit() {
            if frame == to_send(self.sent) {
                self.sent += 1;
            }
        }
        // The next frame arrives exactly when there is room for it. Each frame thus takes three
        // messages, and only a fault can lose one.
        if self.given < self.frames
            && self.chip.has_room()
            && self.chip.receive(&to_receive(self.given))
        {
            self.given += 1;
        }
    }

    /// Returns the number of frames lost in the chip.
    pub(super) const fn overflows(&self) -> u32 {
        self.chip.overflows()
    }
}

/// Returns frame `number` of those that the guest receives.
pub(super) fn to_receive(number: u32) -> Frame {
    let mixed = number.wrapping_mul(0x9e37_79b1);
    let [a, b, c, d] = number.to_be_bytes();
    let [e, f, g, h] = mixed.to_be_bytes();
    let len = 4 + (mixed >> 29) as usize % 5;
    let identifier = match number % 2 {
        0 => Identifier::Standard(mixed as u16),
        _ => Identifier::Extended(mixed),
    };
    Frame::new(identifier, &[a, b, c, d, e, f, g, h][..len])
}

/// Returns frame `number` of those that the guest sends.
pub(super) fn to_send(number: u32) -> Frame {
    let [a, b, c, d] = number.to_be_bytes();
    let [e, f, g, h] = number.wrapping_mul(0x85eb_ca6b).to_be_bytes();
    let identifier = Identifier::Standard(number as u16);
    Frame::new(identifier, &[h, g, f, e, d, c, b, a])
}

/// An SPI controller connected to a model. Each transfer runs on the controller with ones instead
/// of the sent words, and takes its usual time. The model receives the sent words, and its response
/// is the received data.
#[derive(Debug)]
pub struct Wired<C> {
    controller: C,
    pub(super) far: FarEnd,
    /// The model's output in this transfer, once computed.
    out: Option<[u8; LONGEST]>,
}

impl<C: Controller> Wired<C> {
    /// Creates the far end with `frames` frames to send.
    pub(super) fn new(controller: C, frames: u32) -> Self {
        Self {
            controller,
            far: FarEnd::new(frames),
            out: None,
        }
    }

    /// Passes the transfer's sent words to the model.
    fn exchange(&mut self, words: &mut Words<'_>) -> Result<[u8; LONGEST], Fault> {
        let (total, fill) = (words.total(), words.fill());
        let mut out = [0; LONGEST];
        let out_of_transfer = out.get_mut(..total).ok_or(Fault::Refused)?;
        let sent: &[u8] = match words.operation() {
            Operation::Write(bytes) | Operation::Transfer(_, bytes) => bytes,
            Operation::TransferInPlace(bytes) => bytes,
            Operation::Read(_) | Operation::DelayNs(_) => &[],
        };
        for (index, out) in out_of_transfer.iter_mut().enumerate() {
            let byte = sent.get(index).copied().unwrap_or(fill);
            *out = self.far.chip.exchange(byte);
        }
        Ok(out)
    }
}

impl<C: Controller> Controller for Wired<C> {
    /// Returns the controller's capabilities, limited to 8-bit words.
    fn capabilities(&self) -> Capabilities {
        self.controller
            .capabilities()
            .words(&[nostall_spi::WordSize::Bits8])
            .longest(LONGEST)
    }

    fn prepare(&mut self) -> Result<(), Fault> {
        self.controller.prepare()
    }

    fn unprepare(&mut self) {
        self.controller.unprepare();
    }

    fn set(&mut self, wire: &Wire) -> Result<u32, Fault> {
        self.controller.set(wire)
    }

    fn select(&mut self, level: Level) -> Result<(), Fault> {
        match level {
            Level::Asserted => self.far.chip.select(),
            Level::Released => {
                self.far.chip.release();
                self.far.turn();
            }
        }
        self.controller.select(level)
    }

    fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault> {
        let out = match self.out.take() {
            Some(out) => out,
            None => self.exchange(words)?,
        };
        // Ones: QEMU's SiFive controller passes words without a selected device to its flash.
        let quiet = Operation::Write(QUIET.get(..words.total()).ok_or(Fault::Refused)?);
        let operation = mem::replace(words.operation(), quiet);
        let progress = self.controller.transfer(words);
        *words.operation() = operation;
        let progress = progress?;
        if progress != Progress::Done {
            self.out = Some(out);
            return Ok(progress);
        }
        let into = match words.operation() {
            Operation::Read(into) | Operation::Transfer(into, _) => into,
            Operation::TransferInPlace(bytes) => bytes,
            Operation::Write(_) | Operation::DelayNs(_) => return Ok(progress),
        };
        into.copy_from_slice(&out[..into.len()]);
        Ok(progress)
    }

    fn abort(&mut self) -> Result<(), Fault> {
        self.far.chip.release();
        self.out = None;
        self.controller.abort()
    }

    fn drain(&mut self) -> Result<Progress, Fault> {
        self.controller.drain()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use nostall_devices::VirtualClock;
    use nostall_spi::{Bare, Bus, Select, Settings, Slots, Transfer};

    use super::*;

    /// Records the words sent over the wires; received words are zeros.
    #[derive(Default)]
    struct Recorded(Vec<u8>);

    impl Controller for Recorded {
        fn capabilities(&self) -> Capabilities {
            Capabilities::all(1)
        }
        fn set(&mut self, wire: &Wire) -> Result<u32, Fault> {
            Ok(wire.clock)
        }
        fn select(&mut self, _: Level) -> Result<(), Fault> {
            Ok(())
        }
        /// Transfers one byte per call.
        fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault> {
            if let Some(word) = words.next_word() {
                self.0.push(word as u8);
                words.receive(0);
            }
            Ok(match words.is_complete() {
                true => Progress::Done,
                false => Progress::After(nostall_io::Nanos(1)),
            })
        }
        fn abort(&mut self) -> Result<(), Fault> {
            Ok(())
        }
    }

    #[test]
    fn the_model_receives_the_sent_words_and_the_wires_carry_ones() {
        let wired = Wired::new(Recorded::default(), 1);
        let clock = Bare(VirtualClock::new());
        let bus: Bus<_, _, Slots<4, 4, 32>> = Bus::sized(wired, clock);
        let chip = bus
            .device(Settings::new(1_000, 0).select(Select::None))
            .unwrap();
        // Receive any frame, in normal mode: it is there at once.
        chip.write(&[0x02, 0x60, 0x60]).unwrap();
        chip.write(&[0x02, 0x0f, 0x00]).unwrap();
        let mut flags = [0];
        chip.write_then_read(&[0x03, 0x2c], &mut flags).unwrap();
        assert_eq!(flags, [1]);
        let mut frame = [0; 14];
        frame[0] = 0x90;
        chip.sync(&mut [Transfer::in_place(&mut frame)]).unwrap();
        assert_eq!(frame[1..], to_receive(0).received());
        // Sent, and checked by the far end.
        let mut load = [0x40; 14];
        load[1..].copy_from_slice(&to_send(0).to_transmit());
        chip.write(&load).unwrap();
        chip.write(&[0x81]).unwrap();
        let too_long = chip.write(&[0; LONGEST + 1]);
        assert!(too_long.is_err());
        let (sent, wires) = bus
            .with_controller(|wired| (wired.far.sent, mem::take(&mut wired.controller.0)))
            .unwrap();
        assert_eq!(sent, 1);
        assert_eq!(wires, [0xff; 3 + 3 + 3 + 14 + 14 + 1]);
    }
}

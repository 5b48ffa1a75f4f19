//! A controller with a model of a CAN controller at its wires' end.

use nostall_devices::spi::{Frame, Identifier, Mcp2515, Target};
use nostall_spi::{Buffers, Words};
use nostall_spi::{Capabilities, Controller, Fault, Level, Progress, Wire};

/// Bytes of the longest transfer that the experiment has.
const LONGEST: usize = 32;

/// The CAN bus: who sends so many frames to us as fast as they are taken, and looks at
/// those that we send.
#[derive(Debug)]
pub struct FarEnd {
    chip: Mcp2515,
    /// Frames to come.
    frames: u32,
    /// Those that have come.
    given: u32,
    /// Frames that we have sent, as they should be and in their order.
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

    /// What happens on the bus while the chip is not spoken to.
    fn turn(&mut self) {
        while let Some(frame) = self.chip.transmit() {
            if frame == to_send(self.sent) {
                self.sent += 1;
            }
        }
        // The next frame is there as soon as there is room for it, and never before: so
        // that each takes three messages, and none is lost but by a fault.
        if self.given < self.frames
            && self.chip.has_room()
            && self.chip.receive(&to_receive(self.given))
        {
            self.given += 1;
        }
    }

    /// Frames that were lost in the chip.
    pub(super) const fn overflows(&self) -> u32 {
        self.chip.overflows()
    }
}

/// The frame of this number that comes to us.
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

/// The frame of this number that we send.
pub(super) fn to_send(number: u32) -> Frame {
    let [a, b, c, d] = number.to_be_bytes();
    let [e, f, g, h] = number.wrapping_mul(0x85eb_ca6b).to_be_bytes();
    let identifier = Identifier::Standard(number as u16);
    Frame::new(identifier, &[h, g, f, e, d, c, b, a])
}

/// A controller with a model at its wires' end. Each transfer runs on the controller, for
/// as long as it takes there; what comes in is the model's.
#[derive(Debug)]
pub struct Wired<C> {
    controller: C,
    pub(super) far: FarEnd,
    /// What the model puts out in this transfer, once it was asked.
    out: Option<[u8; LONGEST]>,
}

impl<C: Controller> Wired<C> {
    /// So many frames will come.
    pub(super) fn new(controller: C, frames: u32) -> Self {
        Self {
            controller,
            far: FarEnd::new(frames),
            out: None,
        }
    }

    /// Has the model take in what this transfer sends.
    fn exchange(&mut self, words: &mut Words<'_>) -> Result<[u8; LONGEST], Fault> {
        let (total, fill) = (words.total(), words.fill());
        let mut out = [0; LONGEST];
        let out_of_transfer = out.get_mut(..total).ok_or(Fault::Refused)?;
        let sent: &[u8] = match words.buffers() {
            Buffers::Write(bytes) | Buffers::Both { write: bytes, .. } => bytes,
            Buffers::InPlace(bytes) => bytes,
            Buffers::Read(_) => &[],
        };
        for (index, out) in out_of_transfer.iter_mut().enumerate() {
            let byte = sent.get(index).copied().unwrap_or(fill);
            *out = self.far.chip.exchange(byte);
        }
        Ok(out)
    }
}

impl<C: Controller> Controller for Wired<C> {
    /// The controller's, in words of 8 bits.
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

    fn set(&mut self, wire: &Wire) -> Result<(), Fault> {
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
        let progress = self.controller.transfer(words)?;
        if progress != Progress::Done {
            self.out = Some(out);
            return Ok(progress);
        }
        let into = match words.buffers() {
            Buffers::Read(into) | Buffers::Both { read: into, .. } => into,
            Buffers::InPlace(bytes) => bytes,
            Buffers::Write(_) => return Ok(progress),
        };
        into.copy_from_slice(&out[..into.len()]);
        Ok(progress)
    }

    fn abort(&mut self) {
        self.controller.abort();
        self.far.chip.release();
        self.out = None;
    }
}

//! SiFive's controller, of the FE310, the FU540 and the FU740, and of QEMU's
//! `sifive_u`.
//!
//! Source: SiFive FU540-C000 Manual v1p3, chapter "Serial Peripheral Interface (SPI)"; register
//! names are its own. We had no copy, so offsets, fields and the values of `csmode` and `fmt` were
//! compared with QEMU's model (`hw/ssi/sifive_spi.c`) and Linux's driver
//! (`drivers/spi/spi-sifive.c`). So were the watermark interrupts and the depth of the FIFOs. The
//! divisor was compared with Linux's alone, as QEMU's has no speed.
//!
//! The window's registers are numbered in words: `sckdiv` is 0, `csid` (at byte 0x10)
//! is 4. In memory, that is [`MmioLayout::WORDS`](nostall_io::MmioLayout::WORDS).

use nostall_io::{Nanos, Registers};

use crate::capabilities::Capabilities;
use crate::controller::{AsyncController, Controller, Level, Progress};
use crate::error::Fault;
use crate::settings::{BitOrder, Mode, Select, Wire};
use crate::station::time_of;
use crate::words::Words;

/// Registers (section "Memory Map").
mod register {
    /// The manual's offset, in bytes, as a window's number.
    const fn at(offset: usize) -> usize {
        offset / 4
    }

    pub(super) const SCKDIV: usize = at(0x00);
    pub(super) const SCKMODE: usize = at(0x04);
    pub(super) const CSID: usize = at(0x10);
    pub(super) const CSMODE: usize = at(0x18);
    pub(super) const FMT: usize = at(0x40);
    pub(super) const TXDATA: usize = at(0x48);
    pub(super) const RXDATA: usize = at(0x4c);
    pub(super) const RXMARK: usize = at(0x54);
    pub(super) const FCTRL: usize = at(0x60);
    pub(super) const IE: usize = at(0x70);
}
use register::{CSID, CSMODE, FCTRL, FMT, IE, RXDATA, RXMARK, SCKDIV, SCKMODE, TXDATA};

/// `sckdiv`: 12 bits ("Serial Clock Divisor Register").
const SCKDIV_MOST: u32 = 0xfff;
/// `csmode` ("Chip Select Mode Register"): the line follows each frame.
const CSMODE_AUTO: u32 = 0;
/// `csmode`: the line is asserted with the first frame, and stays.
const CSMODE_HOLD: u32 = 2;
/// `csmode`: the hardware leaves the line alone. (QEMU 7.2 to 10 takes any mode but
/// `AUTO` for asserted.)
const CSMODE_OFF: u32 = 3;
/// `fmt` ("Frame Format Register"): one data wire each way, frames of 8 bits.
const FMT_8_BITS: u32 = 8 << 16;
/// `fmt`: the least significant bit first.
const FMT_LSB_FIRST: u32 = 1 << 2;
/// `rxdata` ("Receive Data Register"): nothing was there.
const RXDATA_EMPTY: u32 = 1 << 31;
/// `ie` ("SPI Interrupt Registers"): more in the receive FIFO than `rxmark`.
const IE_RXWM: u32 = 1 << 1;

/// Depth of each FIFO, in words ("SPI Instances").
const FIFO: usize = 8;

/// Whether the controller's interrupt is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// No: the driver waits for the time that the words in the FIFO take, and then polls.
    Polled,
    /// Yes, and the handler calls [`mask`] and then
    /// [`Bus::on_interrupt`](crate::Bus::on_interrupt). Waits that are shorter than
    /// this are waited for as if not: an interrupt takes a few microseconds itself.
    Interrupt(Nanos),
}

/// Masks the controller's interrupt, which is at a level: for its handler. `registers`
/// is a window of its own onto the same registers.
pub fn mask(registers: &impl Registers) {
    registers.write32(IE, 0);
}

/// SiFive's controller: a FIFO of 8 each way, filled and emptied without asking
/// whether there is room. Words of 8 bits; lines active low.
#[derive(Debug)]
pub struct Sifive<R> {
    registers: R,
    /// Of the bus that it is on, in hertz.
    input: u32,
    lines: u8,
    completion: Completion,
    /// Clock that `set` has set, in hertz.
    clock: u32,
    select: Select,
    /// `csmode` is `OFF`.
    off: bool,
    /// The interrupt is enabled.
    enabled: bool,
    /// Frames sent whose answers had not come back at the last check.
    under_way: usize,
    /// Frames of a message that was ended, which are still to come back.
    stale: usize,
}

impl<R: Registers> Sifive<R> {
    /// `input` is the clock of the bus that it is on (`tlclk`), in hertz; `lines` is
    /// how many chip selects this instance has.
    pub const fn new(registers: R, input: u32, lines: u8, completion: Completion) -> Self {
        Self {
            registers,
            input,
            lines,
            completion,
            clock: 1,
            select: Select::None,
            off: false,
            enabled: false,
            under_way: 0,
            stale: 0,
        }
    }

    /// Takes the received words for `words`, no more than are under way.
    fn empty(&mut self, words: &mut Words<'_>) -> Result<(), Fault> {
        for _ in 0..(self.stale + words.under_way()).min(FIFO) {
            match self.registers.read32(RXDATA) {
                // The bits between are 0 of a controller that is there.
                u32::MAX => return Err(Fault::Gone),
                data if data & RXDATA_EMPTY != 0 => break,
                _ if self.stale > 0 => self.stale -= 1,
                data => words.receive(data & 0xff),
            }
        }
        self.under_way = words.under_way();
        Ok(())
    }

    /// Sends as much as there is sure to be room for, both there and on the way back.
    fn fill(&self, words: &mut Words<'_>) {
        for _ in self.stale + words.under_way()..FIFO {
            match words.next_word() {
                Some(word) => self.registers.write32(TXDATA, word),
                None => break,
            }
        }
    }

    fn unmask(&mut self, under_way: usize) {
        self.registers.write32(RXMARK, under_way as u32 - 1);
        self.registers.write32(IE, IE_RXWM);
        self.enabled = true;
    }

    fn mask(&mut self) {
        if self.enabled {
            mask(&self.registers);
            self.enabled = false;
        }
    }
}

impl<R: Registers> AsyncController for Sifive<R> {}

impl<R: Registers> Controller for Sifive<R> {
    fn capabilities(&self) -> Capabilities {
        Capabilities::least(self.lines)
            .modes(&Mode::ALL)
            .with_lsb_first()
            .slowest(self.input.div_ceil(2 * (SCKDIV_MOST + 1)).max(1))
            .fastest((self.input / 2).max(1))
    }

    fn prepare(&mut self) -> Result<(), Fault> {
        if self.registers.read32(SCKDIV) == u32::MAX {
            return Err(Fault::Gone);
        }
        // The first instance starts as a window onto its flash ("SPI Flash Interface
        // Control Register").
        self.registers.write32(FCTRL, 0);
        self.abort();
        // Words that were under way before have been sent since.
        self.stale = 0;
        for _ in 0..=FIFO {
            if self.registers.read32(RXDATA) & RXDATA_EMPTY != 0 {
                break;
            }
        }
        Ok(())
    }

    fn set(&mut self, wire: &Wire) -> Result<u32, Fault> {
        // The clock is input / 2(div + 1): rounded to the slower side.
        let div = self.input.div_ceil(wire.clock.max(1).saturating_mul(2));
        let div = div.saturating_sub(1).min(SCKDIV_MOST);
        self.clock = (self.input / (2 * (div + 1))).max(1);
        let format = match wire.order {
            BitOrder::MsbFirst => FMT_8_BITS,
            BitOrder::LsbFirst => FMT_8_BITS | FMT_LSB_FIRST,
        };
        self.select = wire.select;
        self.registers.write32(SCKDIV, div);
        // Bit 0 is the phase, bit 1 the polarity ("Serial Clock Mode Register").
        let mode = u32::from(wire.mode.number());
        self.registers.write32(SCKMODE, mode);
        self.registers.write32(FMT, format);
        match wire.select {
            Select::Line(number, _) => {
                if core::mem::take(&mut self.off) {
                    // Else QEMU sees no edge when the line is asserted.
                    self.registers.write32(CSMODE, CSMODE_AUTO);
                }
                self.registers.write32(CSID, number.into());
            }
            Select::None => {
                self.off = true;
                self.registers.write32(CSMODE, CSMODE_OFF);
            }
        }
        Ok(self.clock)
    }

    fn select(&mut self, level: Level) -> Result<(), Fault> {
        if self.select != Select::None {
            let mode = match level {
                Level::Asserted => CSMODE_HOLD,
                Level::Released => CSMODE_AUTO,
            };
            self.registers.write32(CSMODE, mode);
        }
        Ok(())
    }

    fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault> {
        self.mask();
        self.empty(words)?;
        self.fill(words);
        // Words that have come in since.
        self.empty(words)?;
        if words.is_complete() {
            return Ok(Progress::Done);
        }
        let under_way = self.stale + self.under_way;
        let time = time_of(8 * under_way as u64, self.clock);
        match self.completion {
            Completion::Interrupt(least) if time >= least && under_way > 0 => {
                self.unmask(under_way);
                Ok(Progress::Interrupt)
            }
            _ => Ok(Progress::After(time)),
        }
    }

    fn abort(&mut self) {
        mask(&self.registers);
        self.enabled = false;
        // There is no way to stop frames. They come back in their order, before those
        // of the next message; if they left that no room at all, they never do.
        self.stale = match self.under_way {
            0 => 0,
            more => (self.stale + more).min(FIFO),
        };
        self.under_way = 0;
        self.off = false;
        self.registers.write32(CSMODE, CSMODE_AUTO);
    }
}

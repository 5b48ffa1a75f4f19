//! SPI controller of SiFive's FE310, FU540 and FU740, and of QEMU's `sifive_u`.
//!
//! Source: SiFive FU540-C000 Manual v1p3, chapter "Serial Peripheral Interface (SPI)"; the register
//! names are the manual's. No copy was available. So offsets, fields, the values of `csmode` and
//! `fmt`, the watermark interrupts and the FIFO depth were compared with two sources. These are
//! QEMU's model (`hw/ssi/sifive_spi.c`) and Linux's driver (`drivers/spi/spi-sifive.c`). The
//! divisor was compared with Linux only, because QEMU's model has no speed. A change of `csmode`
//! between frames was compared with SiFive's own source (sifive-blocks, `SPIMedia.scala`).
//!
//! Registers are numbered in 32-bit words: `sckdiv` is 0, and `csid` (at byte 0x10) is 4. For
//! memory, use [`MmioLayout::WORDS`](nostall_io::MmioLayout::WORDS).

use embedded_hal::spi::{MODE_0, MODE_1, MODE_2, MODE_3};
use nostall_io::{Nanos, Registers};

use crate::capabilities::Capabilities;
use crate::controller::{AsyncController, Controller, Level, Progress};
use crate::error::Fault;
use crate::settings::{BitOrder, Select, Wire, mode_number};
use crate::station::time_of;
use crate::words::Words;

/// Register numbers (section "Memory Map").
mod register {
    /// Converts the manual's byte offset to a register number.
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

/// `sckdiv` ("Serial Clock Divisor Register"): largest value of the 12-bit divisor.
const SCKDIV_MOST: u32 = 0xfff;
/// `csmode` ("Chip Select Mode Register"): the line is asserted during each frame.
const CSMODE_AUTO: u32 = 0;
/// `csmode`: the line is asserted with the first frame, and stays asserted.
const CSMODE_HOLD: u32 = 2;
/// `csmode`: no line is asserted, from the end of the present frame on. (QEMU 7.2 to 10 asserts it
/// in every mode except `AUTO`.)
const CSMODE_OFF: u32 = 3;
/// `fmt` ("Frame Format Register"): one data wire for each direction, 8-bit frames.
const FMT_8_BITS: u32 = 8 << 16;
/// `fmt`: least significant bit first.
const FMT_LSB_FIRST: u32 = 1 << 2;
/// `rxdata` ("Receive Data Register"): the receive FIFO was empty.
const RXDATA_EMPTY: u32 = 1 << 31;
/// `ie` ("SPI Interrupt Registers"): interrupts if the receive FIFO holds more words than `rxmark`.
const IE_RXWM: u32 = 1 << 1;

/// Depth of each FIFO in words ("SPI Instances").
const FIFO: usize = 8;

/// Detection of the end of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// Without an interrupt: the driver waits for the time of the words in the FIFO, and then
    /// polls.
    Polled,
    /// With an interrupt, whose handler calls [`mask`] and then
    /// [`Bus::on_interrupt`](crate::Bus::on_interrupt). Waits shorter than this time are polled,
    /// because an interrupt itself takes a few microseconds.
    Interrupt(Nanos),
}

/// Masks the controller's level-triggered interrupt, for its handler. `registers` is another window
/// to the same registers.
pub fn mask(registers: &impl Registers) {
    registers.write32(IE, 0);
}

/// SiFive's controller, with a FIFO of 8 words in each direction. It never needs to read whether
/// there is room. Words have 8 bits; chip-select lines are active low.
#[derive(Debug)]
pub struct Sifive<R> {
    registers: R,
    /// Input clock in hertz.
    input: u32,
    lines: u8,
    completion: Completion,
    /// Actual clock in hertz.
    clock: u32,
    select: Select,
    /// Set if `csmode` is `OFF`.
    off: bool,
    /// Set if the interrupt is enabled.
    enabled: bool,
    /// Number of frames sent without an answer at the last check.
    under_way: usize,
    /// Number of frames of an aborted message whose answers are still to come.
    stale: usize,
}

impl<R: Registers> Sifive<R> {
    /// Creates the driver. `input` is the clock of the controller's bus (`tlclk`) in hertz. `lines`
    /// is the number of chip selects of this instance.
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

    /// Reads the received words for `words`, at most those that are expected.
    fn empty(&mut self, words: &mut Words<'_>) -> Result<(), Fault> {
        for _ in 0..words.under_way().min(FIFO) {
            match self.receive()? {
                Some(word) => words.receive(word),
                None => break,
            }
        }
        self.under_way = words.under_way();
        Ok(())
    }

    /// Reads a received word, if any.
    fn receive(&self) -> Result<Option<u32>, Fault> {
        match self.registers.read32(RXDATA) {
            // A working controller returns 0 in the other bits.
            u32::MAX => Err(Fault::Gone),
            data if data & RXDATA_EMPTY != 0 => Ok(None),
            data => Ok(Some(data & 0xff)),
        }
    }

    /// Drops the answers of aborted messages that have come.
    fn drop_stale(&mut self) -> Result<(), Fault> {
        while self.stale > 0 && self.receive()?.is_some() {
            self.stale -= 1;
        }
        Ok(())
    }

    /// Waits for the answers of this number of frames.
    fn wait_for(&mut self, frames: usize) -> Progress {
        let time = time_of(8 * frames as u64, self.clock);
        match self.completion {
            Completion::Interrupt(least) if time >= least && frames > 0 => {
                self.unmask(frames);
                Progress::Interrupt
            }
            _ => Progress::After(time),
        }
    }

    /// Sends as many words as both FIFOs have room for.
    fn fill(&self, words: &mut Words<'_>) {
        for _ in words.under_way()..FIFO {
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
            .modes(&[MODE_0, MODE_1, MODE_2, MODE_3])
            .with_lsb_first()
            .slowest(self.input.div_ceil(2 * (SCKDIV_MOST + 1)).max(1))
            .fastest((self.input / 2).max(1))
    }

    fn prepare(&mut self) -> Result<(), Fault> {
        if self.registers.read32(SCKDIV) == u32::MAX {
            return Err(Fault::Gone);
        }
        // The first instance starts as a memory-mapped window of its flash ("SPI Flash Interface
        // Control Register").
        self.registers.write32(FCTRL, 0);
        self.abort()?;
        // Words of earlier transfers have been sent in the idle time.
        self.stale = 0;
        for _ in 0..=FIFO {
            if self.registers.read32(RXDATA) & RXDATA_EMPTY != 0 {
                break;
            }
        }
        Ok(())
    }

    fn set(&mut self, wire: &Wire) -> Result<u32, Fault> {
        // The clock is input / 2(div + 1), rounded to the slower one.
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
        let mode = u32::from(mode_number(wire.mode));
        self.registers.write32(SCKMODE, mode);
        self.registers.write32(FMT, format);
        match wire.select {
            Select::Line(number, _) => {
                if core::mem::take(&mut self.off) {
                    // Otherwise QEMU sees no edge when the line is asserted.
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
        // Reads words that have arrived meanwhile.
        self.empty(words)?;
        if words.is_complete() {
            return Ok(Progress::Done);
        }
        Ok(self.wait_for(self.under_way))
    }

    fn drain(&mut self) -> Result<Progress, Fault> {
        self.mask();
        self.drop_stale()?;
        match self.stale {
            0 => Ok(Progress::Done),
            frames => Ok(self.wait_for(frames)),
        }
    }

    fn abort(&mut self) -> Result<(), Fault> {
        mask(&self.registers);
        self.enabled = false;
        // Frames cannot be stopped. If they have not begun, they are clocked without a selected
        // device. If a fault loses their answers, messages time out until `prepare` forgets them.
        self.stale += core::mem::take(&mut self.under_way);
        let _ = self.drop_stale();
        self.off = self.stale > 0;
        let mode = if self.off { CSMODE_OFF } else { CSMODE_AUTO };
        self.registers.write32(CSMODE, mode);
        Ok(())
    }
}

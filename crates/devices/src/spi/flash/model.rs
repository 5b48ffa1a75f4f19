//! The model of the flash.

use std::fmt;

use nostall_io::{Clock, Nanos};

use super::instruction::Instruction;
use crate::spi::Target;

/// Capacity in bytes.
const SIZE: usize = 32 << 20;

/// Size of a program page in bytes.
const PAGE: usize = 256;

/// JEDEC ID: ISSI, 1.8 V, 2^25 bytes.
const ID: [u8; 3] = [0x9d, 0x70, 0x19];

/// Status register, WIP: an operation is in progress.
const BUSY: u8 = 1 << 0;
/// Status register, WEL: writes are enabled.
const WRITABLE: u8 = 1 << 1;

/// Typical durations of a page program and of each erase. Assumed, of the order that data sheets of
/// such chips give.
const PROGRAM: Nanos = Nanos::from_micros(200);
const ERASE_SECTOR: Nanos = Nanos::from_millis(70);
const ERASE_32K: Nanos = Nanos::from_millis(100);
const ERASE_64K: Nanos = Nanos::from_millis(150);
const ERASE_CHIP: Nanos = Nanos::from_secs(70);

/// Fault of a flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashFault {
    /// An operation never ends once it has begun.
    StuckBusy,
    /// The chip is write-protected: WREN has no effect.
    Protected,
    /// An erase leaves the last byte of its sector unchanged.
    WeakErase,
    /// A program leaves the last bit of its page unchanged.
    WeakProgram,
}

/// A NOR flash like ISSI's IS25WP256, as an SPI [`Target`].
///
/// Not modelled: more than one data wire, block protection, SFDP, one-time programmable rows,
/// suspension, deep power-down. Address bits beyond the chip's size are ignored.
pub struct Flash<C> {
    clock: C,
    memory: Vec<u8>,
    writable: bool,
    busy_until: Nanos,
    four_bytes: bool,
    fault: Option<FlashFault>,
    /// Instruction since the chip was selected.
    instruction: Option<Instruction>,
    taken: usize,
    address: usize,
    /// Page to program. Bytes that the instruction does not supply are 0xff.
    page: [u8; PAGE],
}

impl<C: Clock> Flash<C> {
    /// Creates an erased flash.
    pub fn new(clock: C) -> Self {
        Self {
            clock,
            memory: vec![0xff; SIZE],
            writable: false,
            busy_until: Nanos::ZERO,
            four_bytes: false,
            fault: None,
            instruction: None,
            taken: 0,
            address: 0,
            page: [0xff; PAGE],
        }
    }

    /// Injects `fault`, from now on.
    pub fn set_fault(&mut self, fault: FlashFault) {
        self.fault = Some(fault);
    }

    /// Returns the whole memory.
    pub fn memory(&self) -> &[u8] {
        &self.memory
    }

    /// Returns the whole memory, to change it.
    pub fn memory_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }

    /// Returns whether an erase or program operation is in progress.
    pub fn is_busy(&self) -> bool {
        self.clock.now() < self.busy_until
    }

    fn status(&self) -> u8 {
        let busy = if self.is_busy() { BUSY } else { 0 };
        busy | if self.writable { WRITABLE } else { 0 }
    }

    fn begin(&mut self, byte: u8) {
        let address = if self.four_bytes { 4 } else { 3 };
        let instruction = Instruction::of(byte, address);
        self.instruction = Some(match instruction {
            Instruction::ReadStatus => instruction,
            // A busy chip ignores all other instructions.
            _ if self.is_busy() => Instruction::Unknown,
            _ => instruction,
        });
        self.address = 0;
        self.page = [0xff; PAGE];
    }

    /// Handles byte `number` (from 0) after the opcode, and returns the byte sent meanwhile.
    fn follow(&mut self, instruction: Instruction, number: usize, byte: u8) -> u8 {
        let address = usize::from(instruction.address());
        if number < address {
            self.address = (self.address << 8 | usize::from(byte)) % SIZE;
            return 0xff;
        }
        let number = number - address;
        match instruction {
            Instruction::ReadId => ID[number % ID.len()],
            Instruction::ReadStatus => self.status(),
            Instruction::ReadUniqueId(before) if number >= before.into() => number as u8,
            Instruction::Read { dummy, .. } if number >= dummy.into() => {
                self.memory[(self.address + number - usize::from(dummy)) % SIZE]
            }
            Instruction::Program { .. } => {
                self.page[(self.address + number) % PAGE] = byte;
                0xff
            }
            _ => 0xff,
        }
    }

    /// Ends the instruction after `followed` bytes beyond its opcode.
    fn end(&mut self, instruction: Instruction, followed: usize) {
        let address = usize::from(instruction.address());
        match instruction {
            Instruction::WriteEnable if followed == 0 => {
                self.writable = self.fault != Some(FlashFault::Protected);
            }
            Instruction::WriteDisable if followed == 0 => self.writable = false,
            Instruction::EnterFourBytes if followed == 0 => self.four_bytes = true,
            Instruction::LeaveFourBytes if followed == 0 => self.four_bytes = false,
            Instruction::Program { .. } if followed > address => self.program(),
            Instruction::Erase { bytes, .. } if followed == address => {
                let start = self.address / bytes * bytes;
                let span = match bytes >> 10 {
                    4 => ERASE_SECTOR,
                    32 => ERASE_32K,
                    _ => ERASE_64K,
                };
                self.erase(start, bytes, span);
            }
            Instruction::EraseChip if followed == 0 => self.erase(0, SIZE, ERASE_CHIP),
            _ => {}
        }
    }

    /// Programs the page: bits can only be cleared.
    fn program(&mut self) {
        if !self.start(PROGRAM) {
            return;
        }
        if self.fault == Some(FlashFault::WeakProgram) {
            self.page[PAGE - 1] |= 1;
        }
        let start = self.address / PAGE * PAGE;
        for (byte, new) in self.memory[start..start + PAGE].iter_mut().zip(self.page) {
            *byte &= new;
        }
    }

    fn erase(&mut self, start: usize, bytes: usize, span: Nanos) {
        if !self.start(span) {
            return;
        }
        let end = start + bytes;
        let last = self.memory[end - 1];
        self.memory[start..end].fill(0xff);
        if self.fault == Some(FlashFault::WeakErase) {
            self.memory[end - 1] = last;
        }
    }

    /// Starts an operation of duration `span`, and returns whether writes were enabled.
    fn start(&mut self, span: Nanos) -> bool {
        let may = std::mem::take(&mut self.writable);
        if may {
            self.busy_until = match self.fault {
                Some(FlashFault::StuckBusy) => Nanos(u64::MAX),
                _ => self.clock.now() + span,
            };
        }
        may
    }
}

impl<C: Clock> Target for Flash<C> {
    fn select(&mut self) {
        self.instruction = None;
        self.taken = 0;
    }

    fn exchange(&mut self, byte: u8) -> u8 {
        let taken = self.taken;
        self.taken += 1;
        match self.instruction {
            None => {
                self.begin(byte);
                0xff
            }
            Some(instruction) => self.follow(instruction, taken - 1, byte),
        }
    }

    fn release(&mut self) {
        if let Some(instruction) = self.instruction.take() {
            self.end(instruction, self.taken - 1);
        }
    }
}

impl<C> fmt::Debug for Flash<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flash")
            .field("writable", &self.writable)
            .field("busy_until", &self.busy_until)
            .field("four_bytes", &self.four_bytes)
            .field("fault", &self.fault)
            .field("instruction", &self.instruction)
            .finish_non_exhaustive()
    }
}

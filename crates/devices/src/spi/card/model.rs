//! The model of the card.

use std::collections::VecDeque;
use std::fmt;

use nostall_io::{Clock, Nanos};

use super::blocks::Blocks;
use super::registers::{capacity, cid, crc7, crc16, csd};
use crate::spi::Target;

/// Clock cycles that a card needs before its first selection ("Power Up").
const WAKE: u32 = 74;

/// Time from the first ACMD41 until the card is ready; a real card may take up to a second.
const INITIALISE: Nanos = Nanos::from_millis(50);
/// Time from a read command to its data. Assumed, typical of cards.
const READ: Nanos = Nanos::from_micros(100);
/// Time from the data of a block to the end of its programming. Assumed, typical of cards.
const WRITE: Nanos = Nanos::from_micros(500);

/// Response R1 ("Format R1").
mod r1 {
    pub(super) const IDLE: u8 = 1 << 0;
    pub(super) const ILLEGAL: u8 = 1 << 2;
    pub(super) const CRC: u8 = 1 << 3;
    pub(super) const PARAMETER: u8 = 1 << 6;
}

/// Tokens ("Control Tokens").
mod token {
    /// Starts a block that is read, or a single block that is written.
    pub(super) const START: u8 = 0xfe;
    /// Starts each block of a multiple-block write.
    pub(super) const START_OF_MORE: u8 = 0xfc;
    pub(super) const STOP: u8 = 0xfd;
    /// Error token: the card's ECC failed.
    pub(super) const ECC_FAILED: u8 = 1 << 2;
    pub(super) const ACCEPTED: u8 = 0xe5;
    pub(super) const CRC_ERROR: u8 = 0xeb;
    pub(super) const WRITE_ERROR: u8 = 0xed;
}

/// Fault of a card. For a missing card, leave the chip-select line unconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardFault {
    /// Data blocks have a wrong checksum.
    BadCrc,
    /// The card's error correction fails.
    Unreadable,
    /// The card never becomes ready.
    NeverReady,
    /// The card stops responding.
    Silent,
}

/// Meaning of the next received byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expects {
    Command,
    /// The start token of this block; `true` in a multiple-block write.
    Token(u32, bool),
    /// Data of this block and its checksum; `true` in a multiple-block write.
    Data(u32, bool),
}

/// A read command in progress.
#[derive(Clone, Copy, Debug)]
struct Reading {
    block: u32,
    more: bool,
    ready: Nanos,
}

/// A high-capacity SD card in SPI mode, as an SPI [`Target`].
///
/// It supports CMD0, 8, 9, 10, 12, 13, 16, 17, 18, 24, 25, 55, 58 and 59, and ACMD23 and ACMD41. It
/// does not support others, such as erasing, locking and SD status. A command in progress continues
/// when the card is released and selected again, as with most cards. An incomplete command is
/// discarded.
pub struct SdCard<C, M> {
    clock: C,
    memory: M,
    fault: Option<(CardFault, u32)>,
    /// Number of clock cycles before the first selection.
    clocks: u32,
    selected_before: bool,
    /// Whether a command has set SPI mode.
    in_spi_mode: bool,
    ready: Option<Nanos>,
    initialised: bool,
    checks_crc: bool,
    application: bool,
    command: Vec<u8>,
    expects: Expects,
    data: Vec<u8>,
    out: VecDeque<u8>,
    reading: Option<Reading>,
    /// End of the current write; `None` once the card was found ready.
    busy_until: Option<Nanos>,
    blocks_read: u32,
}

impl<C: Clock, M: Blocks> SdCard<C, M> {
    /// Creates a card that was just inserted.
    pub fn new(clock: C, memory: M) -> Self {
        Self {
            clock,
            memory,
            fault: None,
            clocks: 0,
            selected_before: false,
            in_spi_mode: false,
            ready: None,
            initialised: false,
            checks_crc: false,
            application: false,
            command: Vec::new(),
            expects: Expects::Command,
            data: Vec::new(),
            out: VecDeque::new(),
            reading: None,
            busy_until: None,
            blocks_read: 0,
        }
    }

    /// Injects `fault` after `after` blocks have been read.
    pub fn set_fault(&mut self, fault: CardFault, after: u32) {
        self.fault = Some((fault, after));
    }

    /// Returns the card's storage.
    pub const fn memory(&self) -> &M {
        &self.memory
    }

    fn has(&self, fault: CardFault) -> bool {
        self.fault
            .is_some_and(|(is, after)| is == fault && self.blocks_read >= after)
    }

    fn is_idle(&mut self) -> bool {
        if !self.initialised
            && let Some(ready) = self.ready
            && self.clock.now() >= ready
            && !self.has(CardFault::NeverReady)
        {
            self.initialised = true;
        }
        !self.initialised
    }

    fn is_busy(&mut self) -> bool {
        self.busy_until = self.busy_until.filter(|&until| self.clock.now() < until);
        self.busy_until.is_some()
    }

    fn take_command(&mut self, byte: u8) {
        // Between commands the data wire is high. A command starts with the bits 01.
        if self.command.is_empty() && byte & 0xc0 != 0x40 {
            return;
        }
        self.command.push(byte);
        if let Ok(command) = <[u8; 6]>::try_from(self.command.as_slice()) {
            self.command.clear();
            self.run(command);
        }
    }

    fn run(&mut self, command: [u8; 6]) {
        let number = command[0] & 0x3f;
        let argument = u32::from_be_bytes([command[1], command[2], command[3], command[4]]);
        let application = std::mem::take(&mut self.application);
        // The first command is still in SD mode, in which checksums are mandatory.
        let checks = self.checks_crc || number == 8 || !self.in_spi_mode;
        let intact = command[5] == crc7(&command[..5]);
        if !self.in_spi_mode && (number != 0 || !intact) {
            return;
        }
        self.reading = None;
        self.out.clear();
        self.expects = Expects::Command;
        // At least one byte precedes every response (N_CR).
        self.out.push_back(0xff);
        if checks && !intact {
            return self.respond(r1::CRC, &[]);
        }
        match (application, number) {
            (_, 0) => {
                self.in_spi_mode = true;
                self.ready = None;
                self.initialised = false;
                self.checks_crc = false;
                self.respond(0, &[]);
            }
            // Accepts 2.7 to 3.6 V and echoes the check pattern.
            (_, 8) => self.respond(0, &[0, 0, (argument >> 8) as u8 & 0xf, argument as u8]),
            (_, 58) => {
                let idle = self.is_idle();
                // OCR: 2.7 to 3.6 V. Once initialised, also ready and high capacity.
                let ready = if idle { 0 } else { 0xc0 };
                self.respond(0, &[ready, 0xff, 0x80, 0]);
            }
            (_, 59) => {
                self.checks_crc = argument & 1 != 0;
                self.respond(0, &[]);
            }
            (_, 55) => {
                self.application = true;
                self.respond(0, &[]);
            }
            (true, 41) => self.initialise(argument),
            _ if self.is_idle() => self.respond(r1::ILLEGAL, &[]),
            (true, 23) | (false, 12) => self.respond(0, &[]),
            (_, 13) => self.respond(0, &[0]),
            (false, 9) => self.send_register(csd(self.memory.blocks())),
            (false, 10) => self.send_register(cid()),
            // The block length stays 512 bytes for any setting (7.2.3).
            (false, 16) if argument > 512 => self.respond(r1::PARAMETER, &[]),
            (false, 16) => self.respond(0, &[]),
            (false, 17 | 18 | 24 | 25) if !self.has_block(argument) => {
                self.respond(r1::PARAMETER, &[]);
            }
            (false, 17 | 18) => {
                self.respond(0, &[]);
                self.reading = Some(Reading {
                    block: argument,
                    more: number == 18,
                    ready: self.clock.now() + READ,
                });
            }
            (false, 24 | 25) => {
                self.respond(0, &[]);
                self.expects = Expects::Token(argument, number == 25);
            }
            _ => self.respond(r1::ILLEGAL, &[]),
        }
    }

    /// Runs ACMD41. Initialisation never completes for a host without support for high capacity.
    fn initialise(&mut self, argument: u32) {
        const HIGH_CAPACITY: u32 = 1 << 30;
        if argument & HIGH_CAPACITY != 0 && self.ready.is_none() {
            self.ready = Some(self.clock.now() + INITIALISE);
        }
        self.respond(0, &[]);
    }

    fn respond(&mut self, flags: u8, more: &[u8]) {
        let idle = if self.is_idle() { r1::IDLE } else { 0 };
        self.out.push_back(flags | idle);
        self.out.extend(more);
    }

    fn send_register(&mut self, register: [u8; 16]) {
        self.respond(0, &[]);
        self.out.push_back(0xff);
        self.send(&register);
    }

    fn send(&mut self, data: &[u8]) {
        let mut crc = crc16(data);
        if self.has(CardFault::BadCrc) {
            crc ^= 1;
        }
        self.out.push_back(token::START);
        self.out.extend(data);
        self.out.extend(crc.to_be_bytes());
    }

    fn has_block(&self, block: u32) -> bool {
        u64::from(block) < capacity(self.memory.blocks())
    }

    /// Queues the next block if a read is in progress and its access time has passed.
    fn read_on(&mut self) {
        let Some(reading) = self.reading else {
            return;
        };
        let now = self.clock.now();
        if now < reading.ready {
            return;
        }
        let mut data = [0; 512];
        let can = !self.has(CardFault::Unreadable)
            && self.has_block(reading.block)
            && (reading.block >= self.memory.blocks()
                || self.memory.read(reading.block, &mut data));
        self.reading = (can && reading.more).then(|| Reading {
            block: reading.block.saturating_add(1),
            ready: now + READ,
            ..reading
        });
        if can {
            self.send(&data);
            self.blocks_read = self.blocks_read.saturating_add(1);
        } else {
            self.out.push_back(token::ECC_FAILED);
        }
    }

    fn take_token(&mut self, block: u32, more: bool, byte: u8) {
        match (byte, more) {
            (token::START, false) | (token::START_OF_MORE, true) => {
                self.data.clear();
                self.expects = Expects::Data(block, more);
            }
            (token::STOP, true) => {
                // A real card shows that it is busy one byte later (N_BR).
                self.expects = Expects::Command;
                self.busy_until = Some(self.clock.now() + WRITE);
            }
            // Another command ends the write.
            _ if byte & 0xc0 == 0x40 => {
                self.expects = Expects::Command;
                self.take_command(byte);
            }
            _ => {}
        }
    }

    fn take_data(&mut self, block: u32, more: bool, byte: u8) {
        self.data.push(byte);
        if self.data.len() < 512 + 2 {
            return;
        }
        let mut data = [0; 512];
        data.copy_from_slice(&self.data[..512]);
        let crc = u16::from_be_bytes([self.data[512], self.data[513]]);
        let answer = if self.checks_crc && crc != crc16(&data) {
            token::CRC_ERROR
        } else if block >= self.memory.blocks() || !self.memory.write(block, &data) {
            token::WRITE_ERROR
        } else {
            self.busy_until = Some(self.clock.now() + WRITE);
            token::ACCEPTED
        };
        self.out.push_back(answer);
        self.expects = match more {
            true => Expects::Token(block.saturating_add(1), true),
            false => Expects::Command,
        };
    }
}

impl<C: Clock, M: Blocks> Target for SdCard<C, M> {
    fn select(&mut self) {
        self.selected_before = true;
        self.command.clear();
    }

    fn exchange(&mut self, byte: u8) -> u8 {
        let is_silent = self.has(CardFault::Silent) && self.out.is_empty();
        if self.clocks < WAKE || is_silent {
            return 0xff;
        }
        if self.out.is_empty() {
            self.read_on();
        }
        let out = self.out.pop_front();
        if out.is_none() && self.is_busy() {
            return 0;
        }
        match self.expects {
            Expects::Command => self.take_command(byte),
            Expects::Token(block, more) => self.take_token(block, more, byte),
            Expects::Data(block, more) => self.take_data(block, more, byte),
        }
        out.unwrap_or(0xff)
    }

    fn release(&mut self) {}

    fn pass(&mut self, byte: u8) {
        // The data wire must be high. A card that is selected too soon ignores all commands.
        if !self.selected_before && byte == 0xff {
            self.clocks = self.clocks.saturating_add(8);
        }
    }
}

impl<C, M> fmt::Debug for SdCard<C, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SdCard")
            .field("in_spi_mode", &self.in_spi_mode)
            .field("initialised", &self.initialised)
            .field("expects", &self.expects)
            .field("reading", &self.reading)
            .field("busy_until", &self.busy_until)
            .field("blocks_read", &self.blocks_read)
            .finish_non_exhaustive()
    }
}

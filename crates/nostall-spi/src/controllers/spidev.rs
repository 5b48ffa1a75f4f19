//! Linux's /dev/spidevX.Y.

use std::io;
use std::path::Path;
use std::vec::Vec;

use spidev::{SpiModeFlags, SpidevOptions, SpidevTransfer};

use crate::capabilities::Capabilities;
use crate::controller::{Controller, Level, Progress};
use crate::error::Fault;
use crate::settings::{BitOrder, Mode, Polarity, Select, Settings, Wire, Wires, WordSize};
use crate::transfer::{Buffers, Message};
use crate::words::Words;

/// Bytes of a message, unless Linux was told otherwise (spidev's parameter `bufsiz`).
const BUFSIZ: usize = 4096;

/// A device that Linux drives: the file stands for one chip-select line, and messages
/// are given to it whole, so that no line moves in between.
///
/// What its controller cannot do, Linux refuses only when it is asked: as a
/// [`Fault::System`]. Delays are rounded up to microseconds, no more than 65,535: a
/// longer one is shortened to that. Spans of deselection, [`Settings::setup`] and
/// [`Settings::hold`] are Linux's own.
#[derive(Debug)]
pub struct Spidev {
    device: spidev::Spidev,
    set: Option<Wire>,
}

impl Spidev {
    /// Opens the file.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let device = spidev::Spidev::open(path)?;
        Ok(Self { device, set: None })
    }

    fn configure(&mut self, wire: Wire) -> io::Result<()> {
        if self.set == Some(wire) {
            return Ok(());
        }
        let mut mode = match wire.mode {
            Mode::Mode0 => SpiModeFlags::SPI_MODE_0,
            Mode::Mode1 => SpiModeFlags::SPI_MODE_1,
            Mode::Mode2 => SpiModeFlags::SPI_MODE_2,
            Mode::Mode3 => SpiModeFlags::SPI_MODE_3,
        };
        if wire.wires == Wires::Three {
            mode |= SpiModeFlags::SPI_3WIRE;
        }
        match wire.select {
            Select::None => mode |= SpiModeFlags::SPI_NO_CS,
            Select::Line(_, Polarity::ActiveHigh) => mode |= SpiModeFlags::SPI_CS_HIGH,
            Select::Line(_, Polarity::ActiveLow) => {}
        }
        let options = SpidevOptions::new()
            .mode(mode)
            .lsb_first(wire.order == BitOrder::LsbFirst)
            .bits_per_word(wire.word.bits() as u8)
            .max_speed_hz(wire.clock)
            .build();
        self.device.configure(&options)?;
        self.set = Some(wire);
        Ok(())
    }

    fn run<M: Message + ?Sized>(&mut self, settings: &Settings, message: &mut M) -> io::Result<()> {
        let transfers = message.transfers();
        self.configure(message.shape(0).options.wire(&Settings {
            word: settings.word,
            ..*settings
        }))?;
        // All transfers at once need memory of their own: a message lends one after
        // the other.
        let mut memory: Vec<(Vec<u8>, Vec<u8>)> = (0..transfers)
            .map(|index| {
                let shape = message.shape(index);
                let mut sent = message.sent(index).to_vec();
                sent.resize(shape.len(), settings.fill);
                (
                    sent,
                    std::vec![0; if shape.read > 0 { shape.len() } else { 0 }],
                )
            })
            .collect();
        let mut given: Vec<SpidevTransfer<'_, '_>> = Vec::with_capacity(transfers);
        for (index, (sent, received)) in memory.iter_mut().enumerate() {
            let options = message.shape(index).options;
            let wire = options.wire(settings);
            let mut transfer = match received.is_empty() {
                true => SpidevTransfer::write(sent),
                false => SpidevTransfer::read_write(sent, received),
            };
            transfer.speed_hz = wire.clock;
            transfer.bits_per_word = wire.word.bits() as u8;
            let micros = options.delay.0.div_ceil(1_000);
            transfer.delay_usecs = u16::try_from(micros).unwrap_or(u16::MAX);
            transfer.cs_change = options.deselect.is_some().into();
            given.push(transfer);
        }
        self.device.transfer_multiple(&mut given)?;
        drop(given);
        for (index, (_, received)) in memory.iter().enumerate() {
            let into = message.transfer(index).map(|transfer| transfer.buffers);
            if let Some(
                Buffers::Read(into) | Buffers::Both { read: into, .. } | Buffers::InPlace(into),
            ) = into
            {
                let len = into.len().min(received.len());
                into[..len].copy_from_slice(&received[..len]);
            }
        }
        Ok(())
    }
}

impl Controller for Spidev {
    fn capabilities(&self) -> Capabilities {
        Capabilities::all(1).longest(BUFSIZ).words(&WordSize::ALL)
    }

    fn set(&mut self, _wire: &Wire) -> Result<(), Fault> {
        Ok(())
    }

    fn select(&mut self, _level: Level) -> Result<(), Fault> {
        Ok(())
    }

    /// Never: messages are run whole.
    fn transfer(&mut self, _words: &mut Words<'_>) -> Result<Progress, Fault> {
        Err(Fault::Refused)
    }

    fn abort(&mut self) {
        self.set = None;
    }

    fn whole<M: Message + ?Sized>(
        &mut self,
        settings: &Settings,
        message: &mut M,
    ) -> Option<Result<(), (usize, Fault)>> {
        let failed = |error: io::Error| (0, Fault::System(error.raw_os_error().unwrap_or(0)));
        Some(self.run(settings, message).map_err(failed))
    }
}

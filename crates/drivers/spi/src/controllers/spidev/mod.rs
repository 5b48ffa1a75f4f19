//! Linux's `/dev/spidevX.Y`.

mod request;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::thread;
use std::time::Duration;
use std::vec::Vec;

use libc::{ENODEV, ENXIO, ESHUTDOWN};
use spidev::{SpiModeFlags, SpidevOptions, SpidevTransfer};

use crate::capabilities::Capabilities;
use crate::controller::{AsyncController, Controller, Level, Progress};
use crate::error::Fault;
use crate::settings::{BitOrder, Polarity, Select, Settings, Wire, Wires, WordSize, mode_number};
use crate::transfer::Message;
use crate::words::Words;

use request::{Directions, fits, push, requests};

/// File with spidev's module parameter `bufsiz`.
const BUFSIZ_FILE: &str = "/sys/module/spidev/parameters/bufsiz";

/// Default of `bufsiz`: bytes in each direction of one message.
const BUFSIZ: usize = 4096;

/// Mode bits that [`Settings`] define. The others (more data wires, loopback, a ready line) are
/// kept.
const OURS: SpiModeFlags = SpiModeFlags::SPI_CPHA
    .union(SpiModeFlags::SPI_CPOL)
    .union(SpiModeFlags::SPI_CS_HIGH)
    .union(SpiModeFlags::SPI_LSB_FIRST)
    .union(SpiModeFlags::SPI_3WIRE)
    .union(SpiModeFlags::SPI_NO_CS);

/// Device driven by Linux. The file represents one chip-select line, and Linux gets whole messages,
/// so that no line changes inside of one.
///
/// - Linux reports the limits of the controller only for a message, which then fails with
///   [`Fault::System`] before anything is sent. Linux does not report the failed transfer: the
///   error names the first one of the request.
/// - spidev moves at most `bufsiz` bytes in each direction of a message, with each transfer rounded
///   up to a cache line. `bufsiz` is 4,096 by default; it is read when the file is opened. A longer
///   message fails with `EMSGSIZE` before anything is sent. So does a message of more than 255
///   transfers.
/// - Delays are rounded up to microseconds. Delays over 65 ms take further transfers of no bytes.
/// - Between two transfers the device is deselected for about 10 us, Linux's own time. For a longer
///   time, the following transfers are sent as a separate message, and other programs' messages may
///   come in between.
/// - Linux controls [`Settings::setup`] and [`Settings::hold`], from its device tree.
/// - If the line is a GPIO of the device tree, the device tree sets the active level, and
///   [`Polarity`] is ignored.
/// - The mode remains set for other programs after the file is closed. Clock and word size do not,
///   because each transfer has its own. Other mode bits (more data wires, loopback, a ready line)
///   are kept.
/// - On three wires, or if [`Settings::fill`] is 0, a transfer that only receives has no bytes to
///   send, as half-duplex controllers require.
#[derive(Debug)]
pub struct Spidev {
    device: spidev::Spidev,
    bufsiz: usize,
    /// Mode as last set, if known.
    mode: Option<SpiModeFlags>,
    /// Bytes that one request sends and receives, transfer after transfer. Copies are needed
    /// because a message lends only one of its buffers at a time.
    sent: Vec<u8>,
    received: Vec<u8>,
}

impl Spidev {
    /// Opens a spidev file.
    ///
    /// # Errors
    ///
    /// The operating system's error.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let device = spidev::Spidev::open(path)?;
        Ok(Self {
            device,
            bufsiz: bufsiz(),
            mode: None,
            sent: Vec::new(),
            received: Vec::new(),
        })
    }

    /// Returns the largest number of bytes in each direction of a message.
    pub const fn bufsiz(&self) -> usize {
        self.bufsiz
    }

    fn run<M: Message + ?Sized>(
        &mut self,
        settings: &Settings,
        message: &mut M,
    ) -> Result<(), (usize, Fault)> {
        let requests = requests(message);
        for request in &requests {
            fits(self.bufsiz, settings, message, request.clone())?;
        }
        self.set_mode(settings)
            .map_err(|error| (0, fault(&error)))?;
        for request in requests {
            let (first, last) = (request.start, request.end - 1);
            self.give(settings, message, request)
                .map_err(|error| (first, fault(&error)))?;
            let span = message.transfer(last).and_then(|it| it.options.cs_change);
            if let Some(span) = span {
                thread::sleep(Duration::from_nanos(span.0));
            }
        }
        Ok(())
    }

    fn set_mode(&mut self, settings: &Settings) -> io::Result<()> {
        let wanted = mode(settings);
        if self.mode == Some(wanted) {
            return Ok(());
        }
        let set = self.device.query_configuration()?.spi_mode;
        let set = set.unwrap_or(SpiModeFlags::empty());
        let wanted_all = (set - OURS) | wanted;
        if set != wanted_all {
            self.device
                .configure(SpidevOptions::new().mode(wanted_all))?;
        }
        self.mode = Some(wanted);
        Ok(())
    }

    /// Runs these transfers as one request, in one selection except for their own changes of it.
    fn give<M: Message + ?Sized>(
        &mut self,
        settings: &Settings,
        message: &mut M,
        request: Range<usize>,
    ) -> io::Result<()> {
        self.sent.clear();
        let mut comes = 0;
        for index in request.clone() {
            let Some(transfer) = message.transfer(index) else {
                break;
            };
            let directions = Directions::of(&transfer, settings);
            if directions.sends {
                let end = self.sent.len() + transfer.len();
                self.sent.extend_from_slice(transfer.sent());
                self.sent.resize(end, settings.fill);
            }
            if directions.receives {
                comes += transfer.len();
            }
        }
        self.received.clear();
        self.received.resize(comes, 0);

        let (mut sent, mut received) = (&self.sent[..], &mut self.received[..]);
        let mut given = Vec::with_capacity(request.len());
        for index in request.clone() {
            let Some(asked) = message.transfer(index) else {
                break;
            };
            let Directions { sends, receives } = Directions::of(&asked, settings);
            let out = sent.split_off(..if sends { asked.len() } else { 0 });
            let into = received.split_off_mut(..if receives { asked.len() } else { 0 });
            let (out, into) = (out.unwrap_or_default(), into.unwrap_or_default());
            let mut transfer = match (sends, receives) {
                (true, true) => SpidevTransfer::read_write(out, into),
                (true, false) => SpidevTransfer::write(out),
                (false, true) => SpidevTransfer::read(into),
                (false, false) => SpidevTransfer::delay(0),
            };
            let wire = asked.options.wire(settings);
            transfer.speed_hz = wire.clock;
            transfer.bits_per_word = wire.word.bits() as u8;
            let cs_change = index + 1 != request.end && asked.options.cs_change.is_some();
            push(&mut given, transfer, asked.pause_after(), cs_change);
        }
        self.device.transfer_multiple(&mut given)?;
        drop(given);

        let mut received = &self.received[..];
        for index in request {
            let Some(mut transfer) = message.transfer(index) else {
                break;
            };
            if Directions::of(&transfer, settings).receives {
                let came = received.split_off(..transfer.len()).unwrap_or_default();
                let into = transfer.received();
                let len = into.len().min(came.len());
                into[..len].copy_from_slice(&came[..len]);
            }
        }
        Ok(())
    }
}

impl Controller for Spidev {
    fn capabilities(&self) -> Capabilities {
        Capabilities::all(1)
            .longest(self.bufsiz)
            .words(&WordSize::ALL)
    }

    fn set(&mut self, wire: &Wire) -> Result<u32, Fault> {
        Ok(wire.clock)
    }

    fn select(&mut self, _level: Level) -> Result<(), Fault> {
        Ok(())
    }

    /// Refuses: messages are run whole.
    fn transfer(&mut self, _words: &mut Words<'_>) -> Result<Progress, Fault> {
        Err(Fault::Refused)
    }

    fn abort(&mut self) -> Result<(), Fault> {
        self.mode = None;
        Ok(())
    }

    fn whole<M: Message + ?Sized>(
        &mut self,
        settings: &Settings,
        message: &mut M,
    ) -> Option<Result<(), (usize, Fault)>> {
        Some(self.run(settings, message))
    }
}

/// Blocks the executor while a message runs, because Linux's file has no asynchronous interface.
impl AsyncController for Spidev {}

fn bufsiz() -> usize {
    let told = std::fs::read_to_string(BUFSIZ_FILE).ok();
    let told = told.and_then(|told| told.trim().parse().ok());
    told.filter(|&told| told > 0).unwrap_or(BUFSIZ)
}

/// Returns all mode bits as one value. Setting the bit order separately and the mode afterwards
/// would reset the order.
fn mode(settings: &Settings) -> SpiModeFlags {
    let mut mode = SpiModeFlags::empty();
    let number = mode_number(settings.mode);
    mode.set(SpiModeFlags::SPI_CPHA, number & 1 != 0);
    mode.set(SpiModeFlags::SPI_CPOL, number & 2 != 0);
    let lsb_first = settings.order == BitOrder::LsbFirst;
    mode.set(SpiModeFlags::SPI_LSB_FIRST, lsb_first);
    mode.set(SpiModeFlags::SPI_3WIRE, settings.wires == Wires::Three);
    match settings.select {
        Select::None => mode |= SpiModeFlags::SPI_NO_CS,
        Select::Line(_, Polarity::ActiveHigh) => mode |= SpiModeFlags::SPI_CS_HIGH,
        Select::Line(_, Polarity::ActiveLow) => {}
    }
    mode
}

/// Maps an error. A device whose driver was unbound returns `ESHUTDOWN`.
fn fault(error: &io::Error) -> Fault {
    match error.raw_os_error() {
        Some(ENODEV | ENXIO | ESHUTDOWN) => Fault::Gone,
        other => Fault::System(other.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use embedded_hal::spi::{MODE_1, MODE_2};

    use super::*;

    #[test]
    fn all_wire_settings_are_in_one_mode_value() {
        let settings = Settings {
            order: BitOrder::LsbFirst,
            wires: Wires::Three,
            select: Select::Line(0, Polarity::ActiveHigh),
            ..Settings::new(1, 0).select(Select::None).mode(MODE_2)
        };
        // linux/spi/spi.h: CPOL 2, CS_HIGH 4, LSB_FIRST 8, 3WIRE 0x10, NO_CS 0x40.
        assert_eq!(mode(&settings).bits(), 0x1e);
        let none = Settings {
            select: Select::None,
            ..Settings::new(1, 0).select(Select::None).mode(MODE_1)
        };
        assert_eq!(mode(&none).bits(), 0x41);
    }
}

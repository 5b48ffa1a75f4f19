//! Messages: transfers, one after the other, in one selection of the device.

use embedded_hal::spi::Operation;
use nostall_io::Nanos;

use crate::settings::{Settings, Wire, WordSize};

/// What a transfer moves, and where.
#[derive(Debug)]
pub enum Buffers<'a> {
    /// Sends; what comes in is dropped.
    Write(&'a [u8]),
    /// Receives, while [`Settings::fill`] is sent.
    Read(&'a mut [u8]),
    /// Both at once. The shorter of the two is made up: by [`Settings::fill`], and
    /// by dropping what comes in.
    Both {
        /// What is sent.
        write: &'a [u8],
        /// Where to what comes in goes.
        read: &'a mut [u8],
    },
    /// Sends it, and replaces it by what comes in.
    InPlace(&'a mut [u8]),
}

/// What a transfer wants besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Hertz, at most; the device's without it.
    pub clock: Option<u32>,
    /// Bits in a word; the device's without it.
    pub word: Option<WordSize>,
    /// Waited for afterwards, before anything else happens.
    pub delay: Nanos,
    /// The device is deselected afterwards for so long, and then selected anew. Not
    /// of the last transfer: a message always ends deselected.
    pub deselect: Option<Nanos>,
}

impl Options {
    pub(crate) fn wire(&self, settings: &Settings) -> Wire {
        Wire {
            mode: settings.mode,
            order: settings.order,
            wires: settings.wires,
            select: settings.select,
            clock: self.clock.unwrap_or(settings.clock),
            word: self.word.unwrap_or(settings.word),
        }
    }
}

/// A transfer over the caller's memory.
#[derive(Debug)]
pub struct Transfer<'a> {
    /// What it moves, and where.
    pub buffers: Buffers<'a>,
    /// What it wants besides.
    pub options: Options,
}

impl<'a> Transfer<'a> {
    const fn new(buffers: Buffers<'a>) -> Self {
        let options = Options {
            clock: None,
            word: None,
            delay: Nanos::ZERO,
            deselect: None,
        };
        Self { buffers, options }
    }

    /// Sends `bytes`; what comes in is dropped.
    pub const fn write(bytes: &'a [u8]) -> Self {
        Self::new(Buffers::Write(bytes))
    }

    /// Receives into `into`.
    pub const fn read(into: &'a mut [u8]) -> Self {
        Self::new(Buffers::Read(into))
    }

    /// Sends `write` and receives into `read` at once; as long as the longer is.
    pub const fn both(write: &'a [u8], read: &'a mut [u8]) -> Self {
        Self::new(Buffers::Both { write, read })
    }

    /// Sends `bytes`, and replaces them by what comes in.
    pub const fn in_place(bytes: &'a mut [u8]) -> Self {
        Self::new(Buffers::InPlace(bytes))
    }

    /// Moves nothing, and takes `span`.
    pub const fn pause(span: Nanos) -> Self {
        Self::write(&[]).delay(span)
    }

    /// Waits for `span` afterwards.
    pub const fn delay(mut self, span: Nanos) -> Self {
        self.options.delay = span;
        self
    }

    /// At `hertz` at most.
    pub const fn clock(mut self, hertz: u32) -> Self {
        self.options.clock = Some(hertz);
        self
    }

    /// In words of this size.
    pub const fn word(mut self, word: WordSize) -> Self {
        self.options.word = Some(word);
        self
    }

    /// Deselects the device afterwards for `span`.
    pub const fn deselect(mut self, span: Nanos) -> Self {
        self.options.deselect = Some(span);
        self
    }
}

/// A transfer of a message that is [submitted](crate::Device::submit): the bus has
/// memory of its own for it.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    write: &'a [u8],
    /// Bytes to be received.
    read: usize,
    options: Options,
}

impl<'a> Part<'a> {
    /// Sends `bytes`.
    pub fn write(bytes: &'a [u8]) -> Self {
        Self {
            write: bytes,
            read: 0,
            options: Options::default(),
        }
    }

    /// Receives `bytes` bytes.
    pub fn read(bytes: usize) -> Self {
        Self {
            read: bytes,
            ..Self::write(&[])
        }
    }

    /// Sends `bytes`, and receives as many at once.
    pub fn exchange(bytes: &'a [u8]) -> Self {
        Self {
            read: bytes.len(),
            ..Self::write(bytes)
        }
    }

    /// With these options.
    pub fn with(self, options: Options) -> Self {
        Self { options, ..self }
    }
}

/// What a transfer is, without its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Bytes to send.
    pub write: usize,
    /// Bytes to receive.
    pub read: usize,
    /// What it wants besides.
    pub options: Options,
}

impl Shape {
    /// Bytes on the wire.
    pub const fn len(&self) -> usize {
        if self.write > self.read {
            self.write
        } else {
            self.read
        }
    }

    /// Whether nothing is moved.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A message as it is looked at before it is run.
pub trait Outline {
    /// How many transfers.
    fn transfers(&self) -> usize;

    /// Transfer `index`, counted from 0; the default beyond the last.
    fn shape(&self, index: usize) -> Shape;

    /// What transfer `index` sends.
    fn sent(&self, index: usize) -> &[u8];

    /// Bytes on the wire, of all transfers.
    fn bytes(&self) -> usize {
        (0..self.transfers()).fold(0, |bytes, index| {
            bytes.saturating_add(self.shape(index).len())
        })
    }
}

/// A message that can be run.
pub trait Message: Outline {
    /// Transfer `index`, counted from 0.
    fn transfer(&mut self, index: usize) -> Option<Transfer<'_>>;
}

impl Outline for [Transfer<'_>] {
    fn transfers(&self) -> usize {
        self.len()
    }

    fn shape(&self, index: usize) -> Shape {
        self.get(index).map_or(Shape::default(), |transfer| {
            let (write, read) = match &transfer.buffers {
                Buffers::Write(bytes) => (bytes.len(), 0),
                Buffers::Read(into) => (0, into.len()),
                Buffers::Both { write, read } => (write.len(), read.len()),
                Buffers::InPlace(bytes) => (bytes.len(), bytes.len()),
            };
            Shape {
                write,
                read,
                options: transfer.options,
            }
        })
    }

    fn sent(&self, index: usize) -> &[u8] {
        match self.get(index).map(|transfer| &transfer.buffers) {
            Some(Buffers::Write(bytes) | Buffers::Both { write: bytes, .. }) => bytes,
            Some(Buffers::InPlace(bytes)) => bytes,
            Some(Buffers::Read(_)) | None => &[],
        }
    }
}

impl Message for [Transfer<'_>] {
    fn transfer(&mut self, index: usize) -> Option<Transfer<'_>> {
        let transfer = self.get_mut(index)?;
        let buffers = match &mut transfer.buffers {
            Buffers::Write(bytes) => Buffers::Write(bytes),
            Buffers::Read(into) => Buffers::Read(into),
            Buffers::Both { write, read } => Buffers::Both { write, read },
            Buffers::InPlace(bytes) => Buffers::InPlace(bytes),
        };
        Some(Transfer {
            buffers,
            options: transfer.options,
        })
    }
}

impl Outline for [Part<'_>] {
    fn transfers(&self) -> usize {
        self.len()
    }

    fn shape(&self, index: usize) -> Shape {
        self.get(index).map_or(Shape::default(), |part| Shape {
            write: part.write.len(),
            read: part.read,
            options: part.options,
        })
    }

    fn sent(&self, index: usize) -> &[u8] {
        self.get(index).map_or(&[], |part| part.write)
    }
}

/// embedded-hal's messages, as they are.
impl Outline for [Operation<'_, u8>] {
    fn transfers(&self) -> usize {
        self.len()
    }

    fn shape(&self, index: usize) -> Shape {
        let (write, read, delay) = match self.get(index) {
            Some(Operation::Write(bytes)) => (bytes.len(), 0, 0),
            Some(Operation::Read(into)) => (0, into.len(), 0),
            Some(Operation::Transfer(read, write)) => (write.len(), read.len(), 0),
            Some(Operation::TransferInPlace(bytes)) => (bytes.len(), bytes.len(), 0),
            Some(Operation::DelayNs(nanoseconds)) => (0, 0, *nanoseconds),
            None => (0, 0, 0),
        };
        let delay = Nanos(delay.into());
        Shape {
            write,
            read,
            options: Options {
                delay,
                ..Options::default()
            },
        }
    }

    fn sent(&self, index: usize) -> &[u8] {
        match self.get(index) {
            Some(Operation::Write(bytes) | Operation::Transfer(_, bytes)) => bytes,
            Some(Operation::TransferInPlace(bytes)) => bytes,
            Some(Operation::Read(_) | Operation::DelayNs(_)) | None => &[],
        }
    }
}

impl Message for [Operation<'_, u8>] {
    fn transfer(&mut self, index: usize) -> Option<Transfer<'_>> {
        Some(match self.get_mut(index)? {
            Operation::Write(bytes) => Transfer::write(bytes),
            Operation::Read(into) => Transfer::read(into),
            Operation::Transfer(read, write) => Transfer::both(write, read),
            Operation::TransferInPlace(bytes) => Transfer::in_place(bytes),
            Operation::DelayNs(span) => Transfer::pause(Nanos((*span).into())),
        })
    }
}

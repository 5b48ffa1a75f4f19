//! A place in the queue: memory for one message, and who waits for it.

use core::fmt;
use core::task::Waker;

use crate::error::Error;
use crate::settings::Settings;
use crate::transfer::{Message, Options, Outline, Shape, Transfer};

/// Transfers that a place has room for.
pub(crate) const TRANSFERS: usize = 8;

/// What [`Device::submit_then`](crate::Device::submit_then) calls when the message
/// is through.
///
/// It is called by whoever has the bus, so it must be short; it may submit, and must
/// not wait. A panic in it is caught where there is `std`, and counted.
pub type Callback = &'static (dyn Fn(Completed<'_>) + Sync);

/// Whom to wake.
#[derive(Clone)]
pub(crate) enum Wake<T> {
    /// A task that the platform blocked.
    Task(T),
    /// A future's.
    Waker(Waker),
}

impl<T> fmt::Debug for Wake<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Task(_) => "Task",
            Self::Waker(_) => "Waker",
        })
    }
}

/// What happens when a message is through.
pub(crate) enum Completion<T> {
    /// Whoever waits for it is woken.
    Wake(Wake<T>),
    /// Nobody has waited yet, but somebody will look.
    Kept,
    /// This is called, with the number.
    Call(Callback, usize),
}

impl<T> fmt::Debug for Completion<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wake(wake) => wake.fmt(f),
            Self::Kept => f.write_str("Kept"),
            Self::Call(_, number) => write!(f, "Call({number})"),
        }
    }
}

/// What a place holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A message, to be run by whoever has the bus.
    Message,
    /// A turn: the bus itself is handed over, and the waiter runs what he likes.
    Turn,
}

/// Which way a transfer in a place goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Way {
    #[default]
    Write,
    Read,
    Both,
}

/// A transfer over `len` bytes of the place's own, from `at`.
#[derive(Clone, Copy, Debug, Default)]
struct Stored {
    way: Way,
    at: usize,
    len: usize,
    options: Options,
}

impl Stored {
    fn of(shape: &Shape, at: usize) -> Self {
        Self {
            way: match (shape.write, shape.read) {
                (_, 0) => Way::Write,
                (0, _) => Way::Read,
                _ => Way::Both,
            },
            at,
            len: shape.len(),
            options: shape.options,
        }
    }
}

/// A message in memory of its own.
#[derive(Debug)]
pub(crate) struct Stowed<const BYTES: usize> {
    bytes: [u8; BYTES],
    transfers: [Stored; TRANSFERS],
    count: usize,
}

impl<const BYTES: usize> Stowed<BYTES> {
    pub(crate) const fn new() -> Self {
        const NONE: Stored = Stored {
            way: Way::Write,
            at: 0,
            len: 0,
            options: Options {
                clock: None,
                word: None,
                delay: nostall_io::Nanos::ZERO,
                deselect: None,
            },
        };
        Self {
            bytes: [0; BYTES],
            transfers: [NONE; TRANSFERS],
            count: 0,
        }
    }

    /// Whether `message` has room here.
    pub(crate) fn fits<M: Outline + ?Sized>(message: &M) -> Result<(), Error> {
        if message.transfers() > TRANSFERS {
            return Err(Error::TooManyToQueue { room: TRANSFERS });
        }
        if message.bytes() > BYTES {
            return Err(Error::TooLongToQueue { room: BYTES });
        }
        Ok(())
    }

    /// Takes a copy of `message`, which [`fits`](Self::fits).
    pub(crate) fn fill<M: Outline + ?Sized>(&mut self, message: &M, fill: u8) {
        let mut at = 0;
        self.count = message.transfers().min(TRANSFERS);
        for (index, stored) in self.transfers[..self.count].iter_mut().enumerate() {
            *stored = Stored::of(&message.shape(index), at);
            let sent = message.sent(index);
            if let Some(room) = self.bytes.get_mut(at..at + stored.len)
                && let Some((to, rest)) = room.split_at_mut_checked(sent.len())
            {
                to.copy_from_slice(sent);
                rest.fill(fill);
            }
            at += stored.len;
        }
    }

    /// What came in for transfer `index`; nothing if it received nothing.
    pub(crate) fn received(&self, index: usize) -> &[u8] {
        match self.transfers[..self.count].get(index) {
            Some(stored) if stored.way != Way::Write => self.range(stored),
            _ => &[],
        }
    }

    /// Copies what came in to where `message` wants it.
    pub(crate) fn give<M: Message + ?Sized>(&self, message: &mut M) {
        use crate::transfer::Buffers;
        for index in 0..self.count {
            let received = self.received(index);
            let into = message.transfer(index).map(|transfer| transfer.buffers);
            if let Some(
                Buffers::Read(into) | Buffers::Both { read: into, .. } | Buffers::InPlace(into),
            ) = into
            {
                let len = into.len().min(received.len());
                into[..len].copy_from_slice(&received[..len]);
            }
        }
    }

    fn range(&self, stored: &Stored) -> &[u8] {
        self.bytes
            .get(stored.at..stored.at + stored.len)
            .unwrap_or(&[])
    }
}

impl<const BYTES: usize> Outline for Stowed<BYTES> {
    fn transfers(&self) -> usize {
        self.count
    }

    fn shape(&self, index: usize) -> Shape {
        let Some(stored) = self.transfers[..self.count].get(index) else {
            return Shape::default();
        };
        let len = |is: bool| if is { stored.len } else { 0 };
        Shape {
            write: len(stored.way != Way::Read),
            read: len(stored.way != Way::Write),
            options: stored.options,
        }
    }

    fn sent(&self, index: usize) -> &[u8] {
        match self.transfers[..self.count].get(index) {
            Some(stored) if stored.way != Way::Read => self.range(stored),
            _ => &[],
        }
    }
}

impl<const BYTES: usize> Message for Stowed<BYTES> {
    fn transfer(&mut self, index: usize) -> Option<Transfer<'_>> {
        let stored = *self.transfers[..self.count].get(index)?;
        let bytes = self.bytes.get_mut(stored.at..stored.at + stored.len)?;
        let mut transfer = match stored.way {
            Way::Write => Transfer::write(bytes),
            Way::Read => Transfer::read(bytes),
            Way::Both => Transfer::in_place(bytes),
        };
        transfer.options = stored.options;
        Some(transfer)
    }
}

/// What came in, transfer by transfer.
pub trait Received {
    /// What transfer `index`, counted from 0, received; nothing if it received
    /// nothing.
    fn received(&self, index: usize) -> &[u8];
}

impl<const BYTES: usize> Received for Stowed<BYTES> {
    fn received(&self, index: usize) -> &[u8] {
        self.received(index)
    }
}

/// A message that is through, as a [`Callback`] sees it.
#[derive(Clone, Copy)]
pub struct Completed<'a> {
    /// The number it was submitted with.
    pub number: usize,
    /// How it ended.
    pub result: Result<(), Error>,
    pub(crate) received: &'a dyn Received,
}

impl Completed<'_> {
    /// What transfer `index`, counted from 0, received; nothing if it received
    /// nothing. Not to be relied on after an error.
    pub fn received(&self, index: usize) -> &[u8] {
        self.received.received(index)
    }
}

impl fmt::Debug for Completed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completed")
            .field("number", &self.number)
            .field("result", &self.result)
            .finish_non_exhaustive()
    }
}

/// What is in a place.
#[derive(Debug)]
pub(crate) struct Body<const BYTES: usize> {
    pub(crate) settings: Settings,
    pub(crate) content: Content,
    pub(crate) message: Stowed<BYTES>,
    pub(crate) result: Result<(), Error>,
}

impl<const BYTES: usize> Body<BYTES> {
    pub(crate) const fn new() -> Self {
        Self {
            settings: Settings::new(1, crate::settings::Select::None),
            content: Content::Turn,
            message: Stowed::new(),
            result: Ok(()),
        }
    }
}

//! Memory of the bus for submitted messages.

use core::fmt;

use nostall_io::Nanos;

use crate::error::Error;
use crate::settings::{Select, Settings};
use crate::sync::constant;
use crate::transfer::{Message, Options, Transfer};

/// Largest number of transfers of a stored message.
pub(crate) const TRANSFERS: usize = 8;

/// Callback of [`Device::submit_then`](crate::Device::submit_then), called after the message.
///
/// The owner of the bus calls it, so it must be short. It may submit, and must not wait. With
/// `std`, a panic in it is caught and counted.
pub type Callback = &'static (dyn Fn(Completed<'_>) + Sync);

/// A completed message.
#[derive(Debug)]
pub struct Completed<'a> {
    /// Number passed to [`Device::submit_then`](crate::Device::submit_then).
    pub number: usize,
    /// Result of the message.
    pub result: Result<(), Error>,
    message: &'a Body<[u8]>,
}

impl<'a> Completed<'a> {
    /// Returns the received bytes of transfer `index`, counted from 0; empty if there are none.
    pub fn received(&self, index: usize) -> &'a [u8] {
        self.message.received(index)
    }
}

/// A transfer of the memory from `at`. Its length is the larger one of its two numbers of bytes.
#[derive(Clone, Copy, Debug)]
struct Stored {
    at: u16,
    sends: u16,
    receives: u16,
    options: Options,
}

impl Stored {
    const NONE: Self = Self {
        at: 0,
        sends: 0,
        receives: 0,
        options: Options {
            clock: None,
            word: None,
            delay: Nanos::ZERO,
            cs_change: None,
        },
    };

    /// Returns the number of bytes on the wire.
    fn len(&self) -> usize {
        self.sends.max(self.receives).into()
    }
}

/// A message in its own memory, with everything needed to run it.
pub struct Body<T: ?Sized> {
    pub(crate) settings: Settings,
    pub(crate) result: Result<(), Error>,
    pub(crate) then: Option<(Callback, usize)>,
    transfers: [Stored; TRANSFERS],
    count: u8,
    bytes: T,
}

impl<const B: usize> Body<[u8; B]> {
    constant! {
        pub(crate) fn new() -> Self {
            Self {
                settings: Settings::new(1, 0).select(Select::None),
                result: Ok(()),
                then: None,
                transfers: [Stored::NONE; TRANSFERS],
                count: 0,
                bytes: [0; B],
            }
        }
    }
}

/// Checks whether a message of `bytes` bytes can be stored in `room` bytes.
pub(crate) fn fits<M: Message + ?Sized>(
    message: &M,
    bytes: usize,
    room: usize,
) -> Result<(), Error> {
    if message.transfers() > TRANSFERS {
        return Err(Error::TooManyToStore { room: TRANSFERS });
    }
    let room = room.min(u16::MAX.into());
    match bytes > room {
        true => Err(Error::TooLongToStore { room }),
        false => Ok(()),
    }
}

impl Body<[u8]> {
    /// Copies a message that [fits].
    pub(crate) fn fill<M: Message + ?Sized>(
        &mut self,
        settings: &Settings,
        message: &mut M,
        then: Option<(Callback, usize)>,
    ) {
        self.settings = *settings;
        self.result = Ok(());
        self.then = then;
        self.count = 0;
        let mut at = 0;
        for (index, stored) in self.transfers.iter_mut().enumerate() {
            let Some(transfer) = message.transfer(index) else {
                break;
            };
            let len = transfer.len();
            let Some(room) = self.bytes.get_mut(at..at + len) else {
                break;
            };
            let (sent, rest) = room.split_at_mut(transfer.sends());
            sent.copy_from_slice(transfer.sent());
            rest.fill(settings.fill);
            *stored = Stored {
                at: at as u16,
                sends: transfer.sends() as u16,
                receives: transfer.receives() as u16,
                options: Options {
                    delay: transfer.pause_after(),
                    ..transfer.options
                },
            };
            self.count += 1;
            at += len;
        }
    }

    /// Returns the number of bytes on the wire.
    pub(crate) fn len(&self) -> usize {
        let transfers = self.transfers.iter().take(self.count.into());
        transfers.map(Stored::len).sum()
    }

    /// Returns the received bytes of transfer `index`; empty if there are none.
    pub(crate) fn received(&self, index: usize) -> &[u8] {
        let stored = self.transfers[..self.count.into()].get(index);
        let received = stored.and_then(|stored| {
            let at = usize::from(stored.at);
            self.bytes.get(at..at + usize::from(stored.receives))
        });
        received.unwrap_or(&[])
    }

    /// Calls the message's callback.
    pub(crate) fn call(&self, (callback, number): (Callback, usize)) {
        callback(Completed {
            number,
            result: self.result,
            message: self,
        });
    }
}

impl Message for Body<[u8]> {
    fn transfers(&self) -> usize {
        self.count.into()
    }

    fn transfer(&mut self, index: usize) -> Option<Transfer<'_>> {
        let stored = *self.transfers[..self.count.into()].get(index)?;
        let at = usize::from(stored.at);
        let bytes = self.bytes.get_mut(at..at + stored.len())?;
        let mut transfer = match (stored.sends, stored.receives) {
            (_, 0) => Transfer::write(bytes),
            (0, _) => Transfer::read(bytes),
            _ => Transfer::in_place(bytes),
        };
        transfer.options = stored.options;
        Some(transfer)
    }
}

impl<T: ?Sized> fmt::Debug for Body<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("settings", &self.settings)
            .field("result", &self.result)
            .finish_non_exhaustive()
    }
}

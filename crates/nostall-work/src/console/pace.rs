//! How slow a port is to be, and the words for it.

use core::fmt;
use core::str::FromStr;

use nostall_io::Nanos;

/// How slow a port is to be, in the terms of the model's profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pace {
    /// What an access takes, at least.
    pub access: Nanos,
    /// Every how many accesses one takes longer; 0 for never.
    pub slow_every: u64,
    /// What that one takes, at least.
    pub slow_takes: Nanos,
    /// How fast the transmitter empties.
    pub speed: Speed,
}

/// How fast a transmitter empties, and into what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Speed {
    /// Everything at once.
    AtOnce,
    /// A line at the rate that is set, frame by frame.
    Baud,
    /// A management controller, whatever rate is set.
    Controller(Controller),
}

/// Software that moves what it finds in the FIFO into a buffer of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Controller {
    /// From the first byte in an empty FIFO until it begins.
    pub latency: Nanos,
    /// What it then takes to move each byte.
    pub per_byte: Nanos,
    /// Bytes in its buffer. While that is full, the FIFO empties only as it does.
    pub buffer: u64,
    /// How long the buffer takes to lose one byte.
    pub drain: Nanos,
}

impl Pace {
    /// A 16550A on a PC's bus: as in the model's profile `pc-16550a`.
    pub const PC: Self = Self {
        access: Nanos(1_700),
        slow_every: 0,
        slow_takes: Nanos::ZERO,
        speed: Speed::Baud,
    };
}

/// `1700/0/0/baud`, `1700/200/12800/controller/375000/21000/2170/336700`.
impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            access,
            slow_every,
            slow_takes,
            speed,
        } = self;
        write!(f, "{}/{slow_every}/{}/", access.0, slow_takes.0)?;
        match speed {
            Speed::AtOnce => f.write_str("at-once"),
            Speed::Baud => f.write_str("baud"),
            Speed::Controller(by) => write!(
                f,
                "controller/{}/{}/{}/{}",
                by.latency.0, by.per_byte.0, by.buffer, by.drain.0
            ),
        }
    }
}

impl FromStr for Pace {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        let mut parts = word.split('/');
        let mut part = || parts.next().ok_or(());
        let number = |part: &str| part.parse::<u64>().map_err(drop);
        let pace = Self {
            access: Nanos(number(part()?)?),
            slow_every: number(part()?)?,
            slow_takes: Nanos(number(part()?)?),
            speed: match part()? {
                "at-once" => Speed::AtOnce,
                "baud" => Speed::Baud,
                "controller" => Speed::Controller(Controller {
                    latency: Nanos(number(part()?)?),
                    per_byte: Nanos(number(part()?)?),
                    buffer: number(part()?)?.max(1),
                    drain: Nanos(number(part()?)?.max(1)),
                }),
                _ => return Err(()),
            },
        };
        parts.next().is_none().then_some(pace).ok_or(())
    }
}

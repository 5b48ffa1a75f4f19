//! Options of a drain.

use nostall_io::Nanos;

use crate::Level;
use crate::prefix::Prefix;

/// Per-sink options.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SinkOptions {
    /// Records of lesser importance are left out, unless they are urgent or a panic sends them.
    /// [`Drain::set_level`](crate::Drain::set_level) changes it.
    pub level: Level,
    /// Policy for a sink that is slower than the log.
    pub overflow: OverflowPolicy,
    /// A slice begins no offer after so many bytes, even if the sink is ready for more.
    pub slice: usize,
    /// A slice begins no offer after this time. Pre-emption is off meanwhile.
    pub hold: Nanos,
    /// Characters that are sent unescaped.
    pub charset: Charset,
    /// Time limit of an incomplete record, after which it counts as lost.
    pub pending: Nanos,
    /// Progress slot: the one of four words in the ring's memory that stores this sink's
    /// progress, for readers of a crashed machine's memory. Each sink has its own, or none.
    pub progress_slot: Option<u8>,
    /// Beginning of each line; `None` for the [time](crate::write_time).
    pub prefix: Option<Prefix>,
    /// Order of the records in a panic.
    pub panic_order: PanicOrder,
}

impl SinkOptions {
    /// Default options: all levels, oldest records dropped, slices of 1 KiB and 50 us, UTF-8,
    /// 10 ms for an incomplete record, no progress slot, lines that begin with the
    /// [time](crate::write_time), the panic's text first.
    pub const DEFAULT: Self = Self {
        level: Level::Debug,
        overflow: OverflowPolicy::DropOldest,
        slice: 1024,
        hold: Nanos::from_micros(50),
        charset: Charset::Utf8,
        pending: Nanos::from_millis(10),
        progress_slot: None,
        prefix: None,
        panic_order: PanicOrder::PanicFirst,
    };

    /// Sets the level.
    pub const fn level(self, level: Level) -> Self {
        Self { level, ..self }
    }

    /// Sets the policy for a sink that is slower than the log.
    pub const fn overflow(self, overflow: OverflowPolicy) -> Self {
        Self { overflow, ..self }
    }

    /// Sets the progress slot, 0 to 3.
    pub const fn progress_slot(self, slot: u8) -> Self {
        Self {
            progress_slot: Some(slot),
            ..self
        }
    }

    /// Sets the bytes of a slice; at least one chunk of 256 is offered.
    pub const fn slice(self, slice: usize) -> Self {
        Self { slice, ..self }
    }

    /// Sets the time of a slice; at least one chunk of 256 bytes is offered.
    pub const fn hold(self, hold: Nanos) -> Self {
        Self { hold, ..self }
    }
}

impl SinkOptions {
    /// Sets which characters the sink gets as they are.
    pub const fn charset(self, charset: Charset) -> Self {
        Self { charset, ..self }
    }

    /// Sets the beginning of each line.
    ///
    /// ```
    /// use nostall_console::{Level, SinkOptions, write_time};
    ///
    /// let options = SinkOptions::DEFAULT.prefix(|record, out| {
    ///     write_time(record, out)?;
    ///     let colour = if record.level <= Level::Error { "\x1b[31m" } else { "" };
    ///     write!(out, "{colour}{:?}\x1b[0m cpu{} ", record.level, record.cpu)
    /// });
    /// # let _ = options;
    /// let without = SinkOptions::DEFAULT.prefix(|_, _| Ok(()));
    /// # let _ = without;
    /// ```
    pub const fn prefix(self, prefix: Prefix) -> Self {
        Self {
            prefix: Some(prefix),
            ..self
        }
    }

    /// Sets the order of the records in a panic.
    pub const fn panic_order(self, panic_order: PanicOrder) -> Self {
        Self {
            panic_order,
            ..self
        }
    }
}

impl Default for SinkOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Order in which a panic sends the records that are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PanicOrder {
    /// The text of panics first, then that of emergencies, then the backlog.
    #[default]
    PanicFirst,
    /// In order of their sequences, for a sink that takes a whole backlog in no time.
    Sequence,
}

/// Policy for a sink that is slower than the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverflowPolicy {
    /// The oldest records are overwritten and counted. No producer waits.
    DropOldest,
    /// A producer in normal context waits for room, for this time at most:
    /// [`Drain::make_room`](crate::Drain::make_room).
    Wait(Nanos),
}

/// Characters that are sent unescaped. All others, and bytes that are not UTF-8, are sent as
/// `\xNN` for each byte.
///
/// So no text steers the terminal behind the sink or feigns a line on it, as long as the
/// terminal is of the kind that is named here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charset {
    /// For terminals and programs that read UTF-8. It is the default, because records and most
    /// current terminals use UTF-8, and an escape takes four times the line's time.
    ///
    /// Escapes control characters but the tab (C0, DEL and C1: U+0080 to U+009F), line and
    /// paragraph separators, and format characters: those that turn the direction of
    /// writing, and those that cannot be seen. Joiners (U+200C, U+200D) pass, as some
    /// languages need them.
    #[default]
    Utf8,
    /// For 8-bit terminals, for which any byte from 0x80 to 0x9F is a control character. Such
    /// bytes occur in the UTF-8 of harmless characters: a curly quote has two.
    ///
    /// Passes tab and printable ASCII alone.
    Ascii,
}

impl Charset {
    /// Returns whether this character is sent unescaped.
    pub const fn passes(self, c: char) -> bool {
        match (self, c) {
            (_, '\t' | ' '..='~') => true,
            (Self::Ascii, _) => false,
            (Self::Utf8, c) => !is_harmful(c),
        }
    }
}

/// Returns whether a non-ASCII character is in category Cc, Zl, Zp or Cf of Unicode 17. Joiners
/// are excluded. So are visible signs: U+0600 to U+0605, U+06DD, U+070F, U+0890, U+0891,
/// U+08E2, U+110BD, U+110CD, and the controls of hieroglyphs and musical beams, which arrange
/// their neighbours.
const fn is_harmful(c: char) -> bool {
    matches!(
        c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' // C0, DEL, C1
        | '\u{ad}' // soft hyphen
        | '\u{61c}' | '\u{200e}'..='\u{200f}' // marks of direction
        | '\u{180e}' | '\u{200b}' // no width
        | '\u{2028}'..='\u{202e}' // separators of lines and paragraphs; embeddings
        | '\u{2060}'..='\u{206f}' // invisible operators, isolates, deprecated
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' // byte order, annotations
        | '\u{e0000}'..='\u{e0fff}' // tags
    )
}

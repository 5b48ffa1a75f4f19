//! Options of a drain.

use nostall_io::Nanos;

use crate::Level;
use crate::prefix::Prefix;

/// Per-sink options.
#[derive(Clone, Copy, Debug)]
pub struct SinkOptions {
    pub(crate) level: Level,
    pub(crate) overflow: OverflowPolicy,
    pub(crate) slice: usize,
    pub(crate) hold: Nanos,
    pub(crate) charset: Charset,
    /// Time limit of an incomplete record, after which it counts as lost.
    pub(crate) pending: Nanos,
    pub(crate) progress_slot: Option<u8>,
    /// `None` writes the time.
    pub(crate) prefix: Option<Prefix>,
    pub(crate) panic_order: PanicOrder,
}

impl SinkOptions {
    /// Default options: all levels, oldest records dropped, slices of 1 KiB and 50 us, UTF-8, 10 ms
    /// for an incomplete record, no progress slot. Lines begin with the [time](crate::write_time),
    /// and a panic sends its text first.
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

    /// Sets the least important level that is sent. Less important records are skipped, unless they
    /// are urgent or a panic sends them. [`Drain::set_level`](crate::Drain::set_level) changes it.
    pub const fn level(self, level: Level) -> Self {
        Self { level, ..self }
    }

    /// Sets the policy for a sink that is slower than the log.
    pub const fn overflow(self, overflow: OverflowPolicy) -> Self {
        Self { overflow, ..self }
    }

    /// Sets the progress slot: the index (0 to 3) of a word in the ring's memory that stores this
    /// sink's progress. Readers of a crashed machine's memory use it. Each sink has its own, or none.
    pub const fn progress_slot(self, slot: u8) -> Self {
        let progress_slot = Some(slot);
        Self {
            progress_slot,
            ..self
        }
    }

    /// Sets the byte budget of a slice. After this many bytes no offer begins, even if the sink is
    /// ready. A slice makes at least one offer, of up to 256 bytes. While the clock's time is
    /// [unknown](Nanos::is_known), the budget is at most 256 bytes.
    pub const fn slice(self, slice: usize) -> Self {
        Self { slice, ..self }
    }

    /// Sets the time budget of a slice. After this time no offer begins. Pre-emption is off during a
    /// slice. A slice makes at least one offer, of up to 256 bytes.
    pub const fn hold(self, hold: Nanos) -> Self {
        Self { hold, ..self }
    }

    /// Sets the characters that are sent unescaped.
    pub const fn charset(self, charset: Charset) -> Self {
        Self { charset, ..self }
    }

    /// Sets the writer of the start of each line.
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

/// Order in which a panic sends the remaining records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PanicOrder {
    /// Text of panics first, then emergencies, then the backlog from its oldest record, until
    /// [`FlushLimits::total`](crate::FlushLimits::total).
    #[default]
    PanicFirst,
    /// Text of panics first, then emergencies, then this number of the backlog's newest records, in
    /// the order of the log. So a slow line soon shows what came before the panic.
    ///
    /// The older records count as lost to this sink, and a line tells their number. They stay in the
    /// ring. 0 sends no backlog.
    PanicThenNewest(usize),
    /// Order of their sequences, for a sink fast enough to take the whole backlog at once.
    Sequence,
}

/// Policy for a sink that is slower than the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverflowPolicy {
    /// The oldest records are overwritten and counted. No producer waits.
    DropOldest,
    /// A producer in normal context waits for room, up to this time:
    /// [`Drain::make_room`](crate::Drain::make_room).
    Wait(Nanos),
}

/// Set of characters that are sent unescaped. All others, and bytes that are not UTF-8, are sent as
/// `\xNN` for each byte.
///
/// So no text controls the terminal behind the sink or imitates another line, if the terminal is of
/// the selected kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charset {
    /// Terminals and programs that read UTF-8. This is the default: records and most current
    /// terminals use UTF-8, and an escape takes four times as long to send.
    ///
    /// Escaped are control characters except the tab (C0, DEL and C1: U+0080 to U+009F), line and
    /// paragraph separators, and format characters. Format characters change the direction of text
    /// or are invisible. Joiners (U+200C, U+200D) pass, because some languages need them.
    #[default]
    Utf8,
    /// 8-bit terminals, which treat each byte from 0x80 to 0x9F as a control character. Such bytes
    /// occur in the UTF-8 encoding of harmless characters; a curly quote has two.
    ///
    /// Only the tab and printable ASCII pass.
    Ascii,
}

impl Charset {
    /// Returns whether `c` is sent unescaped.
    pub const fn passes(self, c: char) -> bool {
        match (self, c) {
            (_, '\t' | ' '..='~') => true,
            (Self::Ascii, _) => false,
            (Self::Utf8, c) => !is_harmful(c),
        }
    }
}

/// Returns whether `c` is in category Cc, Zl, Zp or Cf of Unicode 17, except joiners and visible
/// signs. Also returns `true` for the property `Default_Ignorable_Code_Point`, and for the blank
/// Braille pattern.
///
/// The visible signs are U+0600 to U+0605, U+06DD, U+070F, U+0890, U+0891, U+08E2, U+110BD and
/// U+110CD, and the controls of hieroglyphs. They arrange their neighbours.
const fn is_harmful(c: char) -> bool {
    matches!(
        c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' // C0, DEL, C1
        | '\u{ad}' // soft hyphen
        | '\u{61c}' | '\u{200e}'..='\u{200f}' // marks of direction
        | '\u{34f}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' // fillers, inherent vowels
        | '\u{180b}'..='\u{180f}' | '\u{200b}' // selectors of variants, no width
        | '\u{2028}'..='\u{202e}' // separators of lines and paragraphs; embeddings
        | '\u{2060}'..='\u{206f}' // invisible operators, isolates, deprecated
        | '\u{2800}' | '\u{3164}' | '\u{ffa0}' // blanks
        | '\u{fe00}'..='\u{fe0f}' // selectors of variants
        | '\u{feff}' | '\u{fff0}'..='\u{fffb}' // byte order, unassigned, annotations
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' // shorthand, musical beams
        | '\u{e0000}'..='\u{e0fff}' // tags, selectors of variants
    )
}

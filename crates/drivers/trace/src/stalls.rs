//! Stalls and counters of nostall's drivers, as records.

use core::fmt::{self, Write};
use core::panic::Location;

use nostall_io::{Counter, Processor, Stall, StallHook};

use crate::recorder::Recorder;
use crate::site::Site;
use crate::ticks::Ticks;
use crate::wide::Wide;

/// The recorder is a stall hook. It records each stall with the driver's source line, and each
/// counter's sum since the program's start.
///
/// ```
/// use nostall_io::{StallHook, set_stall_hook};
/// # #[cfg(target_arch = "x86_64")] {
/// use nostall_trace::{Recorder, Tsc};
/// # struct OneCpu;
/// # impl nostall_io::Processor for OneCpu {
/// #     fn id(&self) -> usize { 0 }
/// #     fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T { critical() }
/// # }
///
/// static RECORDER: Recorder<'static, Tsc, OneCpu> = Recorder::new(Tsc, OneCpu);
/// static HOOK: &dyn StallHook = &RECORDER;
/// set_stall_hook(&HOOK);
/// # }
/// ```
impl<T: Ticks + Sync, P: Processor + Sync> StallHook for Recorder<'_, T, P> {
    fn now(&self) -> u64 {
        self.ticks().now()
    }

    fn stalled(&self, stall: &Stall) {
        let duration = self.ticks().now().saturating_sub(stall.begin);
        let mut place = Text::default();
        // A long text is truncated.
        _ = write!(place, "{}:{}", short(stall.place), stall.place.line());
        self.stall_at(stall.condition.name(), duration, place.as_str());
    }

    fn counted(&self, counter: Counter, by: u64) {
        let at = Counter::ALL.iter().position(|it| *it == counter);
        if let Some((site, sum)) = at.and_then(|at| COUNTERS.get(at)) {
            self.counter(site, sum.add(by) as i64);
        }
    }
}

/// Names and sums of the counters.
static COUNTERS: [(Site, Wide); Counter::ALL.len()] = {
    let mut counters = [const { (Site::new("", ""), Wide::new(0)) }; Counter::ALL.len()];
    let mut at = 0;
    while at < counters.len() {
        counters[at] = (Site::new(Counter::ALL[at].name(), "nostall"), Wide::new(0));
        at += 1;
    }
    counters
};

/// Returns the path of a driver's file, starting with its crate's directory.
fn short(place: &'static Location<'static>) -> &'static str {
    let file = place.file();
    let Some(source) = file.rfind("/src/") else {
        return file;
    };
    let folder = file[..source].rfind('/').map_or(0, |slash| slash + 1);
    &file[folder..]
}

/// Text of a place.
struct Text {
    bytes: [u8; 96],
    len: usize,
}

impl Default for Text {
    fn default() -> Self {
        Self {
            bytes: [0; 96],
            len: 0,
        }
    }
}

impl Text {
    fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..self.len).unwrap_or_default();
        core::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.len..).unwrap_or_default();
        let cut = text.floor_char_boundary(room.len());
        room[..cut].copy_from_slice(&text.as_bytes()[..cut]);
        self.len += cut;
        if cut < text.len() {
            Err(fmt::Error)
        } else {
            Ok(())
        }
    }
}

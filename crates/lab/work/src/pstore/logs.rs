//! The logs of a kernel that may crash at any time.

use nostall_io::Nanos;
use nostall_pstore::{DumpHeader, Layout, Ram, Zone, ZoneKind};

use super::region::{LINUX, logs};

/// A console log and room for one dmesg record, in persistent RAM.
pub struct Logs<'a> {
    console: Zone<'static, Ram<'a>>,
    dmesg: Zone<'static, Ram<'a>>,
}

impl<'a> Logs<'a> {
    /// Creates both, empty, in the first [`LOGS`](super::LOGS) bytes of a region, which no other
    /// code may use now. `None` if `memory` is too small.
    pub fn open(memory: Ram<'a>) -> Option<Self> {
        let (mut console, mut dmesg) = (None, None);
        for (place, memory) in Layout::new(&logs()).ok()?.split(memory) {
            let wanted = match place.kind {
                ZoneKind::Console => &mut console,
                ZoneKind::Dmesg => &mut dmesg,
                _ => continue,
            };
            let (mut zone, _) = Zone::attach(memory, place.kind, LINUX, None).ok()?;
            zone.erase();
            // Only the first record of a kind is used.
            wanted.get_or_insert(zone);
        }
        Some(Self {
            console: console?,
            dmesg: dmesg?,
        })
    }

    /// Appends printed text to the console log.
    pub fn print(&mut self, text: &[u8]) {
        self.console.append_text(text);
    }

    /// Stores the kernel's log in a panic.
    pub fn panic(&mut self, now: Nanos, log: &[u8]) {
        let words = DumpHeader {
            seconds: (now.0 / 1_000_000_000).cast_signed(),
            micros: (now.0 / 1_000 % 1_000_000) as u32,
            ..DumpHeader::PANIC
        };
        self.dmesg.write_dmesg(&words, log);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::super::recovered::{Recovered, TextKind};
    use super::super::{LOGS, REGION, TraceSummary, recover};
    use super::*;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn only_the_logged_text_is_recovered() {
        let mut region = vec![0x5a; (REGION.end - REGION.start) as usize];
        let mut logs = Logs::open(Ram::of(&mut region[..LOGS])).unwrap();
        for _ in 0..100 {
            logs.print(b"a line\tof text\n");
        }
        logs.panic(Nanos::from_millis(1_500), b"one\ntwo\n");

        let mut found = Vec::new();
        recover(&region[..], 4, |one| found.push(one));
        let (traces, texts) = found.split_at(5);
        for one in traces {
            assert!(
                matches!(one, Recovered::Trace { trace, .. } if *trace == TraceSummary::default())
            );
        }
        let [
            Recovered::Text {
                kind: TextKind::Dmesg,
                bytes: 22,
                text: dmesg,
                ..
            },
            Recovered::Text {
                kind: TextKind::Console,
                bytes: 1_500,
                text: console,
                ..
            },
        ] = texts
        else {
            panic!("{texts:?}");
        };
        assert!(region[LOGS..].iter().all(|&byte| byte == 0x5a), "traces");
        assert_eq!(dmesg, "Panic#1 Part1\none\ntwo\n");
        assert_eq!(console.len(), 200);
        assert!(console.ends_with("\na line?of text\n"));
    }
}

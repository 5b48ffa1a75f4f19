//! The logs of a kernel that may die at any moment.

use nostall_io::Nanos;
use nostall_pstore::{DmesgHeader, Kind, Ram, Zone};

use super::region::{LINUX, Traces, carve};

/// A console and a place for one last log, in persistent RAM.
pub struct LastWords<'a> {
    console: Zone<'static, Ram<'a>>,
    dmesg: Zone<'static, Ram<'a>>,
}

impl<'a> LastWords<'a> {
    /// In the region of a machine of so many CPUs; both are empty then. `None` for
    /// as many CPUs as [`measure`](super::measure) refuses.
    pub fn open(region: Ram<'a>, cpus: u16) -> Option<Self> {
        let (mut console, mut dmesg) = (None, None);
        for (place, memory) in carve(region, cpus, Traces::PerCpu)? {
            let wanted = match place.kind {
                Kind::Console => &mut console,
                Kind::Dmesg if place.index == 0 => &mut dmesg,
                _ => continue,
            };
            let (mut zone, _) = Zone::attach(memory, place.kind, LINUX, None).ok()?;
            zone.erase();
            *wanted = Some(zone);
        }
        Some(Self {
            console: console?,
            dmesg: dmesg?,
        })
    }

    /// What is printed.
    pub fn print(&mut self, text: &[u8]) {
        self.console.append_text(text);
    }

    /// The log, because the kernel dies.
    pub fn panic(&mut self, now: Nanos, log: &[u8]) {
        let header = DmesgHeader {
            seconds: (now.0 / 1_000_000_000).cast_signed(),
            micros: now.0 / 1_000 % 1_000_000,
            compressed: false,
        };
        let (line, len) = header.encode();
        self.dmesg.append_text(&line[..len]);
        self.dmesg.append_text(b"Panic#1 Part1\n");
        self.dmesg.append_text(log);
    }
}

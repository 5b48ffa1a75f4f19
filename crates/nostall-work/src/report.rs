//! What a guest reports: one JSON object a line.

use core::fmt::{self, Write};

use serde::{Deserialize, Serialize};

#[cfg(target_has_atomic = "64")]
use crate::console;
use crate::pci;
use crate::pstore::{Moved, Recovered};
use crate::spi;
use crate::uart::Sent;

/// A text of bounded length.
pub type Text = heapless::String<200>;

/// Values that were read, as many as one report holds.
pub type Values = heapless::Vec<u8, 32>;

/// What a guest has its firmware print last of all, where both have the same serial line:
/// what comes after it is the guest's. It does not end its line: OpenSBI makes two bytes of
/// an LF, others do not.
pub const FIRMWARE_DONE: &str = "nostall: from here on this line is the kernel's: ";

/// One report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Report {
    /// The guest is up.
    Ready {
        /// CPUs that run, and whose timers tick.
        cpus: u16,
        /// The rate of the counter that the clock reads, in hertz.
        clock_hz: u64,
        /// The rate of the first CPU's timer, in hertz; 0 if none is used.
        timer_hz: u64,
    },
    /// One piece of work of the list was a sending, and is done.
    Sent {
        /// Which, counted from 0 in the list.
        item: u16,
        /// What it came to.
        sent: Sent,
    },
    /// One piece of work of the list was a moving of bytes, and is done.
    Moved {
        /// Which, counted from 0 in the list.
        item: u16,
        /// What it came to.
        moved: Moved,
    },
    /// Something that is in persistent RAM.
    Recovered(Recovered),
    /// One piece of work of the list was about PCI, and tells this of it.
    Pci {
        /// Which, counted from 0 in the list.
        item: u16,
        /// What it tells.
        told: pci::Told,
    },
    /// One piece of work of the list was about SPI, and tells this of it.
    Spi {
        /// Which, counted from 0 in the list.
        item: u16,
        /// What it tells.
        told: spi::Told,
    },
    /// One piece of work of the list was a flood, and tells this of it.
    #[cfg(target_has_atomic = "64")]
    Console {
        /// Which, counted from 0 in the list.
        item: u16,
        /// What it tells.
        told: console::Told,
    },
    /// What an access script read, a piece of it.
    Read {
        /// Which read the first value is of, counted from 0 in the script.
        first: u32,
        /// The values, read after read.
        values: Values,
    },
    /// The guest panicked. It ends itself after this.
    Panic {
        /// The CPU, counted from 0.
        cpu: u16,
        /// What it said, cut where it is too long.
        message: Text,
    },
    /// A CPU met an exception. The guest ends itself after this.
    Exception {
        /// The CPU, counted from 0.
        cpu: u16,
        /// The exception's number.
        vector: u8,
        /// Its name, and what is to be known of it.
        name: Text,
        /// The error code; 0 where the exception has none.
        error: u64,
        /// The instruction.
        pc: u64,
        /// The stack pointer.
        sp: u64,
        /// The address that could not be accessed, where it was one.
        address: u64,
    },
    /// The whole list is done. The guest ends itself after this.
    Done,
}

impl Report {
    /// Longer than any report's line: two bytes for each of a text's, six if it
    /// is a control character.
    pub const LONGEST: usize = 6 * 200 + 300;

    /// The report as a line of JSON, LF included. Empty if `line` is shorter
    /// than [`LONGEST`](Self::LONGEST) and does not hold it.
    pub fn encode<'a>(&self, line: &'a mut [u8]) -> &'a [u8] {
        match serde_json_core::to_slice(self, line) {
            Ok(len) if len < line.len() => {
                line[len] = b'\n';
                &line[..=len]
            }
            _ => &[],
        }
    }

    /// A text of what `args` say, cut where it is too long.
    pub fn text(args: fmt::Arguments<'_>) -> Text {
        let mut text = Cut(Text::new());
        let _ = text.write_fmt(args);
        text.0
    }
}

/// Takes what fits and forgets the rest.
struct Cut(Text);

impl Write for Cut {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        for c in s.chars() {
            self.0.push(c).map_err(|_| fmt::Error)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::pstore::{Kind, Trace};
    use proptest::prelude::*;

    fn decode(line: &[u8]) -> Report {
        assert_eq!(line.iter().filter(|&&b| b == b'\n').count(), 1);
        serde_json::from_slice(line).unwrap()
    }

    proptest! {
        #[test]
        fn every_report_survives_its_line(
            what in 0..9,
            number: u64,
            message in "\\PC{0,300}|[\"\\\\\\x00-\\x1f]{0,300}",
        ) {
            let text = Report::text(format_args!("{message}"));
            prop_assert!(message.starts_with(text.as_str()));
            let small = number as u16;
            let report = match what {
                0 => Report::Ready { cpus: small, clock_hz: number, timer_hz: number },
                1 => Report::Sent {
                    item: small,
                    sent: Sent { written: number, timed_out: number % 2 == 0, ..Sent::default() },
                },
                2 => Report::Panic { cpu: small, message: text },
                3 => Report::Read {
                    first: number as u32,
                    values: message.bytes().take(number as usize % 33).collect(),
                },
                4 => Report::Exception {
                    cpu: small, vector: 14, name: text,
                    error: number, pc: number, sp: number, address: number,
                },
                5 => Report::Moved {
                    item: small,
                    moved: Moved { bytes: number, records: number, ns: number },
                },
                6 => Report::Recovered(Recovered::Trace {
                    cpu: (number % 2 == 0).then_some(small),
                    trace: Trace { records: number, first: number, last: number, checksum: number },
                }),
                7 => Report::Recovered(Recovered::Text {
                    kind: Kind::Console, bytes: number, checksum: number, text,
                }),
                _ => Report::Done,
            };
            let mut line = [0; Report::LONGEST];
            prop_assert_eq!(decode(report.encode(&mut line)), report);
        }
    }

    /// The longest that a function can come to.
    fn largest() -> pci::Found {
        let bar = pci::FoundBar {
            register: u16::MAX,
            kind: pci::Kind::Prefetchable,
            bits: u8::MAX,
            address: u64::MAX,
            size: u64::MAX,
        };
        pci::Found {
            segment: u32::MAX,
            bus: u8::MAX,
            devfn: u8::MAX,
            vendor: u16::MAX,
            device: u16::MAX,
            revision: u8::MAX,
            class: 0xff_ffff,
            header: 2,
            multi_function: false,
            subsystem: Some((u16::MAX, u16::MAX)),
            buses: Some((u8::MAX, u8::MAX, u8::MAX)),
            windows: [Some((u64::MAX, u64::MAX)); 3],
            interrupt: (u8::MAX, u8::MAX),
            bars: core::iter::repeat_n(bar, 7).collect(),
        }
    }

    #[test]
    fn whatever_there_is_to_tell_of_pci_fits_its_line() {
        let text = Report::text(format_args!("{:200}", "\u{1}"));
        let capability = pci::FoundCapability {
            register: u16::MAX,
            id: u16::MAX,
            word: u16::MAX,
        };
        let measured = pci::Measured {
            operations: u32::MAX,
            bus_accesses: u64::MAX,
            ns: u64::MAX,
            faults: u32::MAX,
            value: u32::MAX,
            buses: u32::MAX,
        };
        let method = pci::Method::Ports;
        for told in [
            pci::Told::Machine {
                environment: text.clone(),
                ecam_first: false,
                chosen: Some(method),
                why: text.clone(),
            },
            pci::Told::Window {
                segment: u32::MAX,
                buses: (u8::MAX, u8::MAX),
                start: u64::MAX,
                doubt: Some(text.clone()),
            },
            pci::Told::NoWindows(text.clone()),
            pci::Told::Function {
                method,
                found: largest(),
            },
            pci::Told::Capabilities(core::iter::repeat_n(capability, 16).collect()),
            pci::Told::Fault { method, what: text },
            pci::Told::Tree(pci::Tree {
                method,
                functions: u32::MAX,
                buses: u32::MAX,
                faults: u32::MAX,
                digest: u64::MAX,
            }),
            pci::Told::Compared { equal: false },
            pci::Told::Measured(Some(measured)),
            pci::Told::Measured(None),
        ] {
            let item = u16::MAX;
            let report = Report::Pci { item, told };
            let mut line = [0; Report::LONGEST];
            assert_eq!(decode(report.encode(&mut line)), report);
        }
    }

    #[test]
    fn whatever_there_is_to_tell_of_spi_fits_its_line() {
        let text = Report::text(format_args!("{:200}", "\u{1}"));
        let (large, digest) = (u64::MAX, [u8::MAX; 32]);
        let mut short = spi::ShortName::new();
        (0..12).for_each(|_| short.push('\u{ff}').unwrap());
        let measured = spi::Measured {
            strategy: spi::Strategy::Caller,
            received: u32::MAX,
            wrong: u32::MAX,
            overflows: u32::MAX,
            submitted: u32::MAX,
            sent: u32::MAX,
            messages: large,
            sync: large,
            sync_immediate: large,
            asynchronous: large,
            by_worker: large,
            errors: large,
            wakeups_meanwhile: large,
            wakeups: large,
            preparations: large,
            teardowns: large,
            pauses: u32::MAX,
            ns: large,
            worker_ns: large,
            switches: Some(large),
            cross_cpu: Some(large),
            interrupts: None,
        };
        for told in [
            spi::Told::FlashId([u8::MAX; 3]),
            spi::Told::Sector(spi::Sector {
                address: u32::MAX,
                before: digest,
                not_erased: u32::MAX,
                pattern: digest,
                after: digest,
                neighbours_kept: false,
                erase_ns: large,
                write_ns: large,
            }),
            spi::Told::Card {
                kind: spi::CardKind::Sdhc,
                bytes: large,
            },
            spi::Told::Volume {
                partition: Some(u8::MAX),
                fat: spi::Fat::Fat16,
                cluster: u32::MAX,
            },
            spi::Told::Entry {
                entry: u32::MAX,
                short,
                size: u32::MAX,
                directory: false,
            },
            spi::Told::Name(text.clone()),
            spi::Told::Read {
                entry: u32::MAX,
                sha256: digest,
            },
            spi::Told::Progress { bytes: large },
            spi::Told::CardDone {
                files: u32::MAX,
                directories: u32::MAX,
                bytes: large,
                ns: large,
                messages: large,
            },
            spi::Told::Can(measured),
            spi::Told::Fault(text),
        ] {
            let item = u16::MAX;
            let report = Report::Spi { item, told };
            let mut line = [0; Report::LONGEST];
            assert_eq!(decode(report.encode(&mut line)), report);
        }
    }

    #[test]
    fn whatever_there_is_to_tell_of_a_flood_fits_its_line() {
        let large = u64::MAX;
        for told in [
            console::Told::Flood {
                start: large,
                end: large,
                lost: large,
                overrun: u32::MAX,
                panic: Some(large),
            },
            console::Told::Cpu {
                cpu: u16::MAX,
                given_away: large,
                ticks: large,
                missed: large,
            },
            console::Told::Held(console::Held {
                cpu: u16::MAX,
                context: u8::MAX,
                from: large,
                owner_from: large,
                until: large,
            }),
            console::Told::Fired {
                cpu: u16::MAX,
                at: large,
                lasts: large,
                lockup: false,
                cascaded: false,
            },
            console::Told::Delays(core::iter::repeat_n(large, 24).collect()),
            console::Told::Arrived(core::iter::repeat_n(u32::MAX, 48).collect()),
        ] {
            let item = u16::MAX;
            let report = Report::Console { item, told };
            let mut line = [0; Report::LONGEST];
            assert_eq!(decode(report.encode(&mut line)), report);
        }
    }

    #[test]
    fn a_function_is_what_it_was_before_it_was_reported() {
        let found = largest();
        let function = found.function();
        let bars = nostall_pci::Bars::default();
        let again = pci::Found::new(&function, &found.windows(), &bars);
        let without_bars = pci::Found {
            bars: heapless::Vec::new(),
            ..found
        };
        assert_eq!(again, without_bars);
    }

    #[test]
    fn a_line_that_is_too_short_stays_empty() {
        let done = br#""done""#;
        assert!(Report::Done.encode(&mut [0; 6]).is_empty());
        assert_eq!(Report::Done.encode(&mut [0; 7])[..6], done[..]);
    }
}

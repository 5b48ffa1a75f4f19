//! Recording a sender on a slow serial port, and the trace of a crash.

use core::fmt;
use core::hash::Hash;
use core::ops::Range;
use core::str::FromStr;

use nostall_devices::uart::Profile;
use nostall_io::{Clock, Counting, Nanos, Processor, Registers};
use nostall_trace::layout::{Kind, LINE, LONGEST_NAME, Meta};
use nostall_trace::{Entered, Event, FunctionId, Image, Options, Recorder, Site, Ticks};
use nostall_uart::{Console, Strategy};
use serde::{Deserialize, Serialize};

use crate::checksum::Checksum;
use crate::report::{ReportText, text};
use crate::uart::{Before, Sent};

/// Memory for traces, relative to the start of RAM: 16 MiB directly behind pstore's
/// [region](crate::pstore::REGION). Without an input it is unused for the reasons given there. On
/// RISC-V with 128 MiB of RAM, an input starts inside it (checked when the memory is used).
pub const REGION: Range<u64> = 65 << 20..81 << 20;

/// Size of one job's memory in bytes.
const PART: u64 = 1 << 20;

/// Number of jobs that can have a trace.
pub const PARTS: u16 = ((REGION.end - REGION.start) / PART) as u16;

/// Returns the trace memory of the job with index `item` in the work list.
pub const fn part(item: u16) -> Range<u64> {
    let start = REGION.start + PART * (item % PARTS) as u64;
    start..start + PART
}

/// Memory of a crash's trace: the last part.
pub const CRASH: Range<u64> = part(PARTS - 1);

/// The port of the article "Improving the Kernel TTY throughput".
pub const PROFILE: Profile = Profile::HP_DL380_GEN9;

/// Sizes of the article's two writes in bytes.
pub const SIZES: [u32; 2] = [1, 2_500];

/// Job of the trace experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Sends `bytes` bytes with the strategy and records it: `send:byte-polled:1`.
    Send {
        /// Strategy of the driver.
        strategy: Strategy,
        /// Number of bytes.
        bytes: u32,
    },
    /// Records everything that follows, in the memory of a crash's trace: `record`.
    Record,
    /// Records as `record` does, sends a line, and panics: `crash`.
    Crash,
    /// Reports the crash trace that an earlier kernel left: `recover`.
    Recover,
}

impl Job {
    /// Returns the sending jobs: each size with each strategy.
    pub fn sendings() -> impl Iterator<Item = Self> {
        SIZES.into_iter().flat_map(|bytes| {
            Strategy::ALL
                .into_iter()
                .map(move |strategy| Self::Send { strategy, bytes })
        })
    }

    /// Returns all jobs.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::sendings().chain([Self::Record, Self::Crash, Self::Recover])
    }
}

impl crate::Job for Job {
    const NAME: &'static str = "trace";
}

impl fmt::Display for Job {
    /// Writes the job as a word of a work list.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send { strategy, bytes } => write!(f, "send:{strategy}:{bytes}"),
            Self::Record => f.write_str("record"),
            Self::Crash => f.write_str("crash"),
            Self::Recover => f.write_str("recover"),
        }
    }
}

impl FromStr for Job {
    type Err = ();

    fn from_str(words: &str) -> Result<Self, ()> {
        Ok(match words {
            "record" => Self::Record,
            "crash" => Self::Crash,
            "recover" => Self::Recover,
            _ => {
                let rest = words.strip_prefix("send:").ok_or(())?;
                let (strategy, bytes) = rest.split_once(':').ok_or(())?;
                let bytes = bytes.parse().map_err(drop)?;
                if !(1..=LONGEST).contains(&bytes) {
                    return Err(());
                }
                let strategy = strategy.parse()?;
                Self::Send { strategy, bytes }
            }
        })
    }
}

/// Maximum number of bytes that a job sends.
const LONGEST: u32 = SIZES[1];

/// Result of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobResult {
    /// Result of sending.
    Sent {
        /// The sender's report.
        sent: Sent,
        /// Number of functions whose calls are recorded; 0 in a kernel built without function
        /// tracing.
        functions: u32,
        /// Number of functions that could not be patched, so that their calls are missing.
        refused: u32,
    },
    /// A CPU's trace from a crash.
    Left {
        /// CPU number.
        cpu: u32,
        /// Number of records.
        records: u64,
        /// Checksum of the records.
        checksum: u64,
    },
    /// The last entries and exits of a CPU, in order.
    Calls {
        /// CPU number.
        cpu: u32,
        /// Index of the first call, from the oldest record.
        first: u64,
        /// Time of each call, and the call as a slot's [`Meta`] without its lap.
        calls: Calls,
    },
    /// Name of a scope in the calls.
    Name {
        /// Number of the scope in the calls.
        number: u32,
        /// The name.
        name: ReportText,
    },
}

/// Calls; one report's worth.
pub type Calls = heapless::Vec<(u64, u64), 16>;

/// Number of calls per CPU that are reported individually.
const LAST: usize = 128;

/// Returns the options for a job's trace.
pub const fn options(cpus: u16, ticks_per_second: u64, boot: u64) -> Options<'static> {
    Options {
        zones: cpus as u32,
        names: 4 << 10,
        stop_when_full: false,
        zones_of_threads: false,
        ticks_per_second,
        epoch: None,
        anchor: None,
        boot,
        build_id: &[],
        program: "nostall's reference kernel",
    }
}

/// Reads a crash's trace, and reports each CPU's part to `found`.
pub fn recover<I: Image>(image: I, mut found: impl FnMut(JobResult)) {
    let Ok(region) = nostall_trace::recover(image) else {
        return;
    };
    let mut names = heapless::Vec::<u32, 64>::new();
    for zone in region.zones() {
        let mut checksum = Checksum::default();
        let (mut records, mut calls) = (0, 0);
        let mut last = [(0, 0); LAST];
        for record in region.records(zone) {
            records += 1;
            record.hash(&mut checksum);
            let (kind, function) = match record.event {
                Event::Enter { function, .. } => (0, function),
                Event::Exit { function } => (1, function),
                _ => continue,
            };
            let (kinds, low) = match function {
                FunctionId::Address(address) => ([Kind::Enter, Kind::Exit], address),
                FunctionId::Name(number) => ([Kind::EnterName, Kind::ExitName], number.into()),
            };
            let meta = Meta::new(kinds[kind], low, record.depth.into());
            last[calls % LAST] = (record.time, meta.0);
            calls += 1;
        }
        let cpu = zone.zone;
        let checksum = checksum.0;
        found(JobResult::Left {
            cpu,
            records,
            checksum,
        });
        let mut first = calls.saturating_sub(LAST);
        while first < calls {
            let end = calls.min(first + Calls::new().capacity());
            let result: Calls = (first..end).map(|call| last[call % LAST]).collect();
            let metas = result.iter().map(|(_, meta)| Meta(*meta));
            for meta in metas.filter(|meta| meta.kind() == Some(Kind::EnterName)) {
                let number = meta.low() as u32;
                if !names.contains(&number) {
                    let _ = names.push(number); // more are told twice
                    let mut name = [0; LONGEST_NAME];
                    let name = region.name(number, &mut name).unwrap_or_default();
                    let name = text(format_args!("{name}"));
                    found(JobResult::Name { number, name });
                }
            }
            found(JobResult::Calls {
                cpu,
                first: first as u64,
                calls: result,
            });
            first = end;
        }
    }
}

/// A recorder of scopes.
pub trait Scopes {
    /// Records an entry.
    fn enter(&self, site: &'static Site, argument: Option<u64>) -> Entered;

    /// Records the exit of an entry.
    fn exit(&self, entered: Entered);
}

impl<T: Ticks, P: Processor> Scopes for Recorder<'_, T, P> {
    fn enter(&self, site: &'static Site, argument: Option<u64>) -> Entered {
        self.enter_site(site, argument)
    }

    fn exit(&self, entered: Entered) {
        Self::exit(self, entered);
    }
}

/// Sends `bytes` bytes of a repeating alphabet and waits for the last bit, while `recorder`
/// records. `granted` returns the CPU time that a second task on the same CPU has had so far.
pub fn send<R: Registers, C: Clock>(
    console: &mut Console<Counting<R>, C>,
    (strategy, bytes): (Strategy, u32),
    recorder: &impl Scopes,
    granted: impl Fn() -> Nanos,
) -> Sent {
    let mut text = [0; LONGEST as usize];
    for (byte, letter) in text.iter_mut().zip((b'a'..=b'z').cycle()) {
        *byte = letter;
    }
    let text = &text[..text.len().min(bytes as usize)];
    console.set_strategy(strategy);
    let entered = recorder.enter(site(strategy), Some(bytes.into()));
    let before = Before::of(console, granted());
    let mut sent = Sent::default();
    let write = recorder.enter(&WRITE, Some(bytes.into()));
    sent.write(console, text);
    recorder.exit(write);
    let flush = recorder.enter(&FLUSH, None);
    sent.flush(console);
    recorder.exit(flush);
    let sent = before.measured(console, granted, sent);
    recorder.exit(entered);
    sent
}

/// Scopes of the write, which holds its caller, and of the wait for the last bit. Only some callers
/// need the wait.
static WRITE: Site = Site::new("write", module_path!());
static FLUSH: Site = Site::new("flush", module_path!());

/// Returns the scope of sending with the strategy.
fn site(strategy: Strategy) -> &'static Site {
    static BYTE_POLLED: Site = Site::new("send_byte_polled", module_path!());
    static FIFO_POLLED: Site = Site::new("send_fifo_polled", module_path!());
    static FIFO_BURST: Site = Site::new("send_fifo_burst", module_path!());
    static FIFO_PACED: Site = Site::new("send_fifo_paced", module_path!());
    match strategy {
        Strategy::BytePolled => &BYTE_POLLED,
        Strategy::FifoPolled => &FIFO_POLLED,
        Strategy::FifoBurst => &FIFO_BURST,
        Strategy::FifoPaced => &FIFO_PACED,
    }
}

/// A 16550's registers with recorded accesses.
#[derive(Debug)]
pub struct Traced<'a, R, S> {
    port: R,
    recorder: &'a S,
}

impl<'a, R, S> Traced<'a, R, S> {
    /// Wraps `port` and records its accesses.
    pub const fn new(port: R, recorder: &'a S) -> Self {
        Self { port, recorder }
    }
}

macro_rules! sites {
    ($($name:literal)*) => {
        [$(Site::new($name, module_path!())),*]
    };
}

/// Offset of the transmit register.
const THR: usize = 0;

static READS: [Site; 8] = sites!(
    "read_rbr" "read_ier" "read_iir" "read_lcr" "read_mcr" "read_lsr" "read_msr" "read_scr"
);
static WRITES: [Site; 8] = sites!(
    "write_thr" "write_ier" "write_fcr" "write_lcr" "write_mcr" "write_lsr" "write_msr" "write_scr"
);
static BURST: Site = Site::new("burst_thr", module_path!());

impl<R: Registers, S: Scopes> Traced<'_, R, S> {
    // Inlined, so that in a kernel with function tracing the scope belongs to the caller.
    #[inline(always)]
    fn scope<U>(
        &self,
        site: &'static Site,
        argument: Option<u64>,
        access: impl FnOnce(&R) -> U,
    ) -> U {
        let entered = self.recorder.enter(site, argument);
        let result = access(&self.port);
        self.recorder.exit(entered);
        result
    }
}

impl<R: Registers, S: Scopes> Registers for Traced<'_, R, S> {
    fn read8(&self, offset: usize) -> u8 {
        self.scope(&READS[offset % 8], None, |port| port.read8(offset))
    }

    fn write8(&self, offset: usize, value: u8) {
        // One byte: a burst's argument is its number of bytes.
        let bytes = (offset == THR).then_some(1);
        self.scope(&WRITES[offset % 8], bytes, |port| {
            port.write8(offset, value)
        });
    }

    fn write_burst(&self, offset: usize, values: &[u8]) {
        self.scope(&BURST, Some(values.len() as u64), |port| {
            port.write_burst(offset, values);
        });
    }

    fn burst_instructions(&self, values: usize) -> usize {
        self.port.burst_instructions(values)
    }
}

const _: () = assert!(REGION.start.is_multiple_of(LINE as u64) && PARTS as usize > 8);

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::report::tests::result_survives;
    use core::cell::Cell;
    use nostall_trace::Region;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn every_result_survives_its_line() {
        result_survives(JobResult::Sent {
            sent: Sent::default(),
            functions: u32::MAX,
            refused: u32::MAX,
        });
        result_survives(JobResult::Left {
            cpu: u32::MAX,
            records: u64::MAX,
            checksum: u64::MAX,
        });
        result_survives(JobResult::Calls {
            cpu: u32::MAX,
            first: u64::MAX,
            calls: [(u64::MAX, u64::MAX); 16].into_iter().collect(),
        });
        result_survives(JobResult::Name {
            number: u32::MAX,
            name: text(format_args!("{:\x01>200}", "")),
        });
    }

    /// A clock that advances at each read.
    #[derive(Default)]
    struct Steps(Cell<u64>);

    impl Ticks for Steps {
        fn now(&self) -> u64 {
            self.0.set(self.0.get() + 1);
            self.0.get()
        }
    }

    struct OneCpu;

    impl Processor for OneCpu {
        fn id(&self) -> usize {
            0
        }
        fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
            critical()
        }
    }

    /// Returns the reports of `calls` nested calls; only `returned` of them return.
    fn results(calls: usize, returned: usize) -> Vec<JobResult> {
        static SITE: Site = Site::new("a scope", module_path!());
        let mut memory = vec![0; 1 << 16];
        let first = memory.as_ptr().align_offset(LINE);
        let memory = &mut memory[first..first + (1 << 15)];
        let recorder = Recorder::new(Steps::default(), OneCpu);
        let region = Region::format(memory, &options(1, 1, 1)).unwrap();
        recorder.start(region);
        for call in 0..calls {
            let entered = Scopes::enter(&recorder, &SITE, None);
            if call < returned {
                Scopes::exit(&recorder, entered);
            }
        }
        let mut result = Vec::new();
        recover(&memory[..], |one| result.push(one));
        result
    }

    #[test]
    fn the_last_calls_are_reported_with_their_names_and_all_are_counted() {
        let result = results(100, 99);
        assert!(matches!(
            result[0],
            JobResult::Left {
                cpu: 0,
                records: 199,
                ..
            }
        ));
        assert!(matches!(&result[1], JobResult::Name { name, .. } if name == "a scope"));
        let calls = result.iter().filter_map(|one| match one {
            JobResult::Calls { first, calls, .. } => Some((*first, calls)),
            _ => None,
        });
        let calls: Vec<_> = calls.collect();
        assert_eq!(calls[0].0, 199 - LAST as u64);
        let all: Vec<_> = calls.into_iter().flat_map(|(_, calls)| calls).collect();
        assert_eq!(all.len(), LAST);
        let (time, last) = all[LAST - 1];
        assert_eq!((*time, Meta(*last).kind()), (199, Some(Kind::EnterName)));
    }

    #[test]
    fn another_record_changes_the_checksum_and_no_region_reports_nothing() {
        assert_eq!(results(3, 3), results(3, 3));
        assert_ne!(results(3, 3)[0], results(3, 2)[0]);
        recover(&[0; 4096][..], |result| panic!("{result:?}"));
    }
}

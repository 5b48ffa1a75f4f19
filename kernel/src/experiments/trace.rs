//! The trace: sendings over a slow port, and the events before a crash.

use core::ops::Range;
use core::slice;

use nostall_io::{Clock, Counting, Registers};
use nostall_trace::{Entered, Image, Live, Region, Site};
use nostall_uart::{Console, ConsoleSettings, Model, Strategy};
use nostall_work::console::Throttle;
use nostall_work::trace::{
    CRASH, Job, JobResult, PROFILE, Scopes, Traced, options, part, recover, send,
};

use super::second_task::SecondTask;
use crate::arch::{self, MachineClock};
use crate::functions::{self, RECORDER};
use crate::{log, report};

/// Records scopes, but not the recorder's own functions.
struct Scoped;

impl Scopes for Scoped {
    // Inlined, so that its own call is not part of the scope.
    #[inline(always)]
    fn enter(&self, site: &'static Site, argument: Option<u64>) -> Entered {
        functions::unrecorded(|| RECORDER.enter_site(site, argument))
    }

    #[inline(always)]
    fn exit(&self, entered: Entered) {
        functions::unrecorded(|| RECORDER.exit(entered));
    }
}

/// Stalls and counts of the drivers, in a kernel that is built with them.
#[cfg(feature = "stall-hook")]
mod stalls {
    use nostall_io::{Counter, Stall, StallHook, set_stall_hook};

    use super::{RECORDER, functions};

    struct Stalls;

    impl StallHook for Stalls {
        fn now(&self) -> u64 {
            functions::unrecorded(|| RECORDER.now())
        }

        fn stalled(&self, stall: &Stall) {
            functions::unrecorded(|| RECORDER.stalled(stall));
        }

        fn counted(&self, counter: Counter, by: u64) {
            functions::unrecorded(|| RECORDER.counted(counter, by));
        }
    }

    static HOOK: &dyn StallHook = &Stalls;

    /// Records stalls and counts from now on.
    pub fn record() {
        set_stall_hook(&HOOK);
    }

    /// Returns whether the function at an address is part of the hook.
    pub fn contains(function: usize) -> bool {
        [
            <Stalls as StallHook>::now as *const () as usize,
            <Stalls as StallHook>::stalled as *const () as usize,
            <Stalls as StallHook>::counted as *const () as usize,
        ]
        .contains(&function)
    }
}

#[cfg(not(feature = "stall-hook"))]
mod stalls {
    pub const fn record() {}

    pub const fn contains(_function: usize) -> bool {
        false
    }
}

/// Stops the recording when the kernel crashes, so that the last records stay, also after a reset.
pub fn freeze() {
    let lines = functions::unrecorded(|| {
        RECORDER.freeze();
        // SAFETY: the region is mapped RAM.
        let clean = |live: Live<'_>| unsafe { arch::clean(live.start(), live.len() as usize) };
        RECORDER.dump().map_or(0, clean)
    });
    if lines > 0 {
        log::line(format_args!("trace: {lines} cache lines cleaned"));
    }
}

/// The machine whose calls are recorded.
pub struct TraceJobs<'a> {
    pub cpus: u16,
    pub clock: &'a MachineClock,
    pub second: &'a SecondTask<&'a MachineClock>,
}

impl TraceJobs<'_> {
    /// Runs one job of the list, number `item`.
    ///
    /// Not inlined, so that other jobs do not need its stack space.
    #[inline(never)]
    pub fn run(&self, job: Job, item: u16) {
        match job {
            Job::Send { strategy, bytes } => {
                let mut console = self.open();
                let (functions, refused) = self.start(part(item));
                let granted = || self.second.granted();
                let sent = send(&mut console, (strategy, bytes), &Scoped, granted);
                RECORDER.stop();
                functions::record(|_| false);
                let result = JobResult::Sent {
                    sent,
                    functions,
                    refused,
                };
                report::tell(item, result);
            }
            Job::Record => {
                self.start(CRASH);
            }
            Job::Crash => {
                let mut console = self.open();
                self.start(CRASH);
                // The panic comes inside of this scope.
                static CRASH_SITE: Site = Site::new("crash", module_path!());
                let _ = Scoped.enter(&CRASH_SITE, None);
                let granted = || self.second.granted();
                send(&mut console, (Strategy::FifoPolled, 32), &Scoped, granted);
                panic!("on purpose, while every call is recorded");
            }
            Job::Recover => {
                let (start, len) = memory(CRASH);
                // SAFETY: mapped RAM, into which this boot records nothing.
                let image = unsafe { slice::from_raw_parts(start.as_ptr(), len) };
                recover(image, |result| report::tell(item, result));
            }
        }
    }

    /// Starts a recording of all functions. Returns the number of recorded functions, and the
    /// number that could not be patched.
    fn start(&self, place: Range<u64>) -> (u32, u32) {
        let (start, len) = memory(place);
        let options = options(self.cpus, self.clock.hz(), self.clock.now().0);
        // SAFETY: mapped RAM without another user (`REGION`). The previous recording has ended.
        let region = unsafe { Region::format_at(start, len, &options) };
        match region {
            Ok(region) => RECORDER.start(region),
            Err(error) => panic!("{error}"),
        }
        stalls::record();
        if functions::sites().is_empty() {
            return (0, 0);
        }
        let patched = functions::record(|site| !stalls::contains(site));
        (patched.sites as u32, patched.refused as u32)
    }

    /// Opens the port with the article's speed.
    fn open(&self) -> Console<Counting<impl Registers>, &SecondTask<&MachineClock>> {
        let settings = ConsoleSettings {
            // Known, so nothing needs to be detected.
            model: Some(Model::Uart16550A),
            ..ConsoleSettings::from(arch::line_settings())
        };
        let frame = arch::line_settings().frame_time();
        let port = arch::serial_port();
        let port = Throttle::new(port, *self.clock, PROFILE, frame, &[]);
        let port = Counting::new(Traced::new(port, &Scoped));
        match Console::open(port, self.second, settings) {
            Ok(console) => console,
            Err(error) => panic!("serial port: {error}"),
        }
    }
}

fn memory(place: Range<u64>) -> (core::ptr::NonNull<u8>, usize) {
    match arch::persistent_ram(place) {
        Ok(memory) => memory,
        Err(why) => panic!("{why}"),
    }
}

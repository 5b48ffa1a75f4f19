//! The kernel that crashed: its identity, its load offset and the causes of the crash.
//!
//! ```
//! use nostall_postmortem::kernel::{CrashedKernel, Evidence};
//! use nostall_pstore::Trust;
//!
//! let log = "<5>[    0.000000] Linux version 6.1.192 (gcc) #1 SMP Fri Nov 20 23:26:33 UTC 2026\n\
//!            <0>[   62.800000] Kernel panic - not syncing: Fatal exception\n\
//!            <0>[   62.800001] Kernel Offset: 0x1e800000 from 0xffffffff81000000\n";
//! let mut kernel = CrashedKernel::default();
//! kernel.read_log(log, Trust::Verified);
//! assert_eq!(kernel.release().unwrap().text, "6.1.192");
//! assert_eq!(kernel.release().unwrap().evidence, Evidence::Log);
//! assert_eq!(kernel.offset.unwrap().value(), 0x1e80_0000);
//! assert_eq!(kernel.causes()[0].crash.panic.as_deref(), Some("Fatal exception"));
//! ```

mod crash;
mod line;
mod offset;
mod text;

use nostall_pstore::Trust;

use crate::vmcoreinfo::Vmcoreinfo;
pub use crash::{Crash, FRAMES, Parser, is_name, is_of_release};
pub use line::{Prefix, prefix};
pub use offset::KernelOffset;
pub use text::log_text;

/// The kernel that crashed, as far as its memory reveals it.
#[derive(Clone, Debug, Default)]
pub struct CrashedKernel {
    release: Option<Fact>,
    build: Option<Fact>,
    /// Build ID, in hexadecimal.
    pub build_id: Option<Fact>,
    /// Distance of the kernel above its linked address.
    pub offset: Option<KernelOffset>,
    /// Number of the boot of the logs that are added. Only logs of one boot share their reports.
    pub boot: u32,
    causes: Vec<Cause>,
}

/// A text that identifies the kernel, with the place where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// The text.
    pub text: String,
    /// Place where it was found.
    pub evidence: Evidence,
}

/// Place where a fact about the kernel was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The line `Linux version` of a log.
    Log,
    /// The line `CPU:` of a panic's report.
    Report,
    /// Linux's `VMCOREINFO`, a text in the kernel's memory.
    Vmcoreinfo,
    /// The header of a trace of nostall-trace.
    Trace,
}

/// A panic or oops, with the log that reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The panic or oops.
    pub crash: Crash,
    /// Trust level of the log.
    pub trust: Trust,
    /// Microseconds since 1970 at which the log was stored, if its record has them.
    pub time: Option<i64>,
    /// Number of the boot.
    pub boot: u32,
}

impl CrashedKernel {
    /// Returns the release, such as `6.1.0-13-amd64`.
    pub fn release(&self) -> Option<Fact> {
        self.fact(&self.release, |crash| crash.release.as_ref())
    }

    /// Returns the version of the build, such as `#1 SMP Fri Nov 20 23:26:33 UTC 2026`.
    pub fn build(&self) -> Option<Fact> {
        self.fact(&self.build, |crash| crash.build.as_ref())
    }

    /// Returns a fact of the log, or else of the last report that has it.
    fn fact(&self, log: &Option<Fact>, of: fn(&Crash) -> Option<&String>) -> Option<Fact> {
        let report = || {
            let text = self.causes.iter().rev().find_map(|cause| of(&cause.crash));
            text.map(|text| Fact {
                text: text.clone(),
                evidence: Evidence::Report,
            })
        };
        log.clone().or_else(report)
    }

    /// Returns the panics and oopses by their time since boot, each once.
    pub fn causes(&self) -> &[Cause] {
        &self.causes
    }

    /// Returns whether both kernels have the same release, and no different builds.
    pub fn is_of_release(&self, other: &Self) -> bool {
        let text = |fact: Option<Fact>| fact.map(|fact| fact.text);
        let release = text(self.release());
        // Reports have only a part of the build.
        let builds = self.build.as_ref().zip(other.build.as_ref());
        let are_same = builds.is_none_or(|(ours, theirs)| ours.text == theirs.text);
        release.is_some() && release == text(other.release()) && are_same
    }

    /// Returns the cause of the machine's end: the last panic, or else the last oops.
    pub fn cause(&self) -> Option<&Cause> {
        let panics = self.causes.iter();
        let panics = panics.filter(|cause| cause.crash.panic.is_some());
        let last = panics.max_by_key(|cause| (cause.time, cause.crash.uptime));
        last.or(self.causes.last())
    }

    /// Reads a whole log, whose lines start with their level and time.
    pub fn read_log(&mut self, log: &str, trust: Trust) {
        let mut parser = Parser::default();
        for line in log.lines() {
            let (prefix, text) = prefix(line);
            if !prefix.is_of_program {
                self.read_line(text);
                parser.line(text, prefix.time);
            }
        }
        self.offset = self.offset.or_else(|| KernelOffset::of_log(log.as_bytes()));
        self.add(parser.finish(), trust, None);
    }

    /// Reads the release and the build from a log's line `Linux version`. The last one of
    /// several such lines is used. Any other line has no effect.
    pub fn read_line(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("Linux version ")
            && let Some((release, rest)) = rest.split_once(' ')
            && let Some(release) = crash::release(release)
        {
            let fact = |text: &str| Fact {
                text: text.to_owned(),
                evidence: Evidence::Log,
            };
            self.release = Some(fact(release));
            let build = rest.find(" #").and_then(|at| crash::version(&rest[at..]));
            self.build = build.map(fact).or(self.build.take());
        }
    }

    /// Reads the facts of a VMCOREINFO that are not known yet.
    pub fn read_vmcoreinfo(&mut self, info: &Vmcoreinfo) {
        let fact = |text: &str| Fact {
            text: text.to_owned(),
            evidence: Evidence::Vmcoreinfo,
        };
        let release = crash::release(info.release()).map(fact);
        self.release = self.release.take().or(release);
        let build_id = info.build_id().map(fact);
        self.build_id = self.build_id.take().or(build_id);
        let offset = info.kernel_offset().map(KernelOffset::InVmcoreinfo);
        self.offset = self.offset.or(offset);
    }

    /// Adds the panics and oopses of a log. If two logs of a boot have the same report, the one with a panic
    /// stays, or else the one with the longer stack. `time` is that of [`Cause::time`].
    pub fn add(&mut self, crashes: Vec<Crash>, trust: Trust, time: Option<i64>) {
        let weight = |crash: &Crash| (crash.panic.is_some(), crash.stack.len());
        for crash in crashes {
            let boot = self.boot;
            let cause = Cause {
                crash,
                trust,
                time,
                boot,
            };
            let mut causes = self.causes.iter_mut();
            match causes.find(|known| known.boot == boot && known.crash.is_same(&cause.crash)) {
                Some(known) => {
                    known.time = known.time.or(time);
                    if weight(&known.crash) < weight(&cause.crash) {
                        let time = known.time;
                        *known = Cause { time, ..cause };
                    }
                }
                None => {
                    // The last one ended the machine.
                    self.causes.truncate(crash::MOST_CRASHES - 1);
                    self.causes.push(cause);
                }
            }
        }
        self.causes.sort_by_key(|cause| cause.crash.uptime);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_full_of_crashes_has_the_first_ones_and_the_last() {
        let mut kernel = CrashedKernel::default();
        for from in [0, 2000] {
            let log = (from..from + 2000).fold(String::new(), |log, number| {
                log + &format!("[{number:5}.000000] kernel BUG at {number}\n")
            });
            kernel.read_log(&log, Trust::Unchecked);
        }
        assert_eq!(kernel.causes().len(), 1000);
        assert_eq!(kernel.causes()[998].crash.uptime, Some(998_000_000_000));
        assert_eq!(kernel.causes()[999].crash.uptime, Some(3_999_000_000_000));
    }

    #[test]
    fn the_release_of_a_log_is_preferred_to_that_of_a_report() {
        let report = "[    1.000000] kernel BUG at x\n\
                      [    1.000001] CPU: 0 PID: 1 Comm: init Not tainted 6.1.191 #1 Debian\n";
        let mut kernel = CrashedKernel::default();
        kernel.read_log(report, Trust::Unverified);
        let release = kernel.release().unwrap();
        assert_eq!(
            (&*release.text, release.evidence),
            ("6.1.191", Evidence::Report)
        );
        assert_eq!(kernel.build().unwrap().text, "#1 Debian");
        assert_eq!(kernel.causes()[0].trust, Trust::Unverified);
        kernel.read_line("Linux version 6.1.192 (gcc)");
        let release = kernel.release().unwrap();
        assert_eq!(
            (&*release.text, release.evidence),
            ("6.1.192", Evidence::Log)
        );
        assert_eq!(kernel.build().unwrap().evidence, Evidence::Report);
    }
}

//! Linux's counters: messages, switches between tasks, its worker's time.

use std::fs;
use std::ops::{AddAssign, Sub};
use std::path::Path;
use std::time::Duration;

/// Linux's counters of a controller or of a device, since it was found
/// (`statistics` in sysfs).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub values: [u64; NAMES.len()],
}

/// Linux's own names.
pub const NAMES: [&str; 8] = [
    "messages",
    "transfers",
    "bytes",
    "errors",
    "timedout",
    "spi_sync",
    "spi_sync_immediate",
    "spi_async",
];

impl Counters {
    pub fn read(folder: &Path) -> Option<Self> {
        let mut values = [0; NAMES.len()];
        for (value, name) in values.iter_mut().zip(NAMES) {
            *value = fs::read_to_string(folder.join(name))
                .ok()?
                .trim()
                .parse()
                .ok()?;
        }
        Some(Self { values })
    }

    pub fn named(self) -> impl Iterator<Item = (&'static str, u64)> {
        NAMES.into_iter().zip(self.values)
    }

    /// Returns the share of the messages with a waiting caller that Linux ran in that caller.
    pub fn immediate(&self) -> Option<f64> {
        let [.., sync, immediate, _] = self.values;
        (sync > 0).then(|| immediate as f64 / sync as f64)
    }
}

impl Sub for Counters {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        let mut values = self.values;
        for (value, before) in values.iter_mut().zip(before.values) {
            *value = value.wrapping_sub(before);
        }
        Self { values }
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, more: Self) {
        for (value, more) in self.values.iter_mut().zip(more.values) {
            *value = value.wrapping_add(more);
        }
    }
}

/// How often a task stopped running, of itself or not.
fn switches(status: &str) -> Option<u64> {
    let of = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line[name.len()..].trim().parse::<u64>().ok()
    };
    Some(of("voluntary_ctxt_switches:")? + of("nonvoluntary_ctxt_switches:")?)
}

/// How often the calling thread stopped running.
pub fn own_switches() -> Option<u64> {
    switches(&fs::read_to_string("/proc/thread-self/status").ok()?)
}

/// The kernel's thread for a controller: it bears its name.
#[derive(Clone, Copy, Debug)]
pub struct Worker {
    pid: u32,
}

/// Counters of a thread so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Times that it was woken: each time it has stopped running again.
    pub wakeups: u64,
    /// CPU time that it had.
    pub time: Duration,
}

impl Worker {
    pub fn of(controller: &str) -> Option<Self> {
        let tasks = fs::read_dir("/proc").ok()?.flatten();
        let pids = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
        let is_it = |pid: &u32| {
            // A thread of the kernel's has no command line.
            let comm = fs::read_to_string(format!("/proc/{pid}/comm"));
            let line = fs::read(format!("/proc/{pid}/cmdline"));
            comm.is_ok_and(|comm| comm.trim() == controller)
                && line.is_ok_and(|line| line.is_empty())
        };
        let pid = { pids }.find(is_it)?;
        Some(Self { pid })
    }

    pub fn done(self) -> Option<Done> {
        let of = |file| fs::read_to_string(format!("/proc/{}/{file}", self.pid)).ok();
        Some(Done {
            wakeups: switches(&of("status")?)?,
            time: of("schedstat")
                .and_then(|text| nanoseconds(&text))
                .or_else(|| ticks(&of("stat")?))?,
        })
    }
}

impl Sub for Done {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            wakeups: self.wakeups.wrapping_sub(before.wakeups),
            time: self.time.saturating_sub(before.time),
        }
    }
}

impl AddAssign for Done {
    fn add_assign(&mut self, more: Self) {
        self.wakeups += more.wakeups;
        self.time += more.time;
    }
}

/// The first of three numbers (Documentation/scheduler/sched-stats.rst).
fn nanoseconds(schedstat: &str) -> Option<Duration> {
    let first = schedstat.split_whitespace().next()?;
    first.parse().ok().map(Duration::from_nanos)
}

/// Where the kernel keeps no better time: user and system time are the 14th and 15th
/// field (proc(5)), in hundredths of a second. The second field has brackets, and may
/// have anything between them.
fn ticks(stat: &str) -> Option<Duration> {
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis(10) * u32::try_from(user + system).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_the_number_of_stops_of_its_task() {
        let status = "Name:\tspi0\nvoluntary_ctxt_switches:\t15\n\
                      nonvoluntary_ctxt_switches:\t2\n";
        assert_eq!(switches(status), Some(17));
        assert_eq!(switches("Name:\tspi0\n"), None);
        assert!(own_switches().is_some());
    }

    #[test]
    fn a_workers_time_is_read_either_way() {
        assert_eq!(
            nanoseconds("12345678 9 10\n"),
            Some(Duration::from_nanos(12_345_678))
        );
        let stat = "126 (spi) 0) S 2 0 0 0 -1 2129984 0 0 0 0 3 31 0 0 -51 0 1 0 33 0";
        assert_eq!(ticks(stat), Some(Duration::from_millis(340)));
        for nonsense in ["", "1 (a", "1 (a) S", "1 (a) S 2 3 4 5 6 7 8 9 10 11 x y"] {
            assert_eq!(ticks(nonsense), None);
        }
        assert_eq!(nanoseconds(""), None);
    }

    #[test]
    fn a_worker_that_is_not_there_is_none() {
        assert!(Worker::of("no such controller").is_none());
    }

    #[test]
    fn counters_are_linuxs_own_files() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Counters::read(folder.path()), None);
        for (value, name) in NAMES.iter().enumerate() {
            fs::write(folder.path().join(name), format!("{value}\n")).unwrap();
        }
        let read = Counters::read(folder.path()).unwrap();
        assert_eq!(read.named().nth(5), Some(("spi_sync", 5)));
        assert_eq!(read.immediate(), Some(6.0 / 5.0));
        assert_eq!((read - read).immediate(), None);
        let mut twice = read;
        twice += read;
        assert_eq!(twice - read, read);
    }
}

//! Linux's counters: messages, switches between tasks, its worker's time.

use std::array;
use std::fs;
use std::path::Path;

use nostall_figures::metric::Metric;

/// Linux's counters of a controller or of a device, since it was found
/// (`statistics` in sysfs).
pub type Counters = [u64; COUNTERS.len()];

/// Counters of the kernel's thread for a controller: its wake-ups, and the nanoseconds of CPU time
/// that it had. After each wake-up it has stopped running again.
pub type Worked = [u64; 2];

/// Linux's own names, and those of the figures.
pub const COUNTERS: [(&str, Metric); 8] = [
    ("messages", Metric::new("linux_messages", "1")),
    ("transfers", Metric::new("linux_transfers", "1")),
    ("bytes", Metric::new("linux_bytes", "1")),
    ("errors", Metric::new("linux_errors", "1")),
    ("timedout", Metric::new("linux_timedout", "1")),
    ("spi_sync", Metric::new("linux_spi_sync", "1")),
    (
        "spi_sync_immediate",
        Metric::new("linux_spi_sync_immediate", "1"),
    ),
    ("spi_async", Metric::new("linux_spi_async", "1")),
];

/// Reads the counters in a folder of sysfs.
pub fn read(folder: &Path) -> Option<Counters> {
    let mut counters = [0; COUNTERS.len()];
    for (value, (name, _)) in counters.iter_mut().zip(COUNTERS) {
        let text = fs::read_to_string(folder.join(name)).ok()?;
        *value = text.trim().parse().ok()?;
    }
    Some(counters)
}

/// Returns the share of the messages with a waiting caller that Linux ran in that caller.
pub fn immediate([.., sync, immediate, _]: Counters) -> Option<f64> {
    (sync > 0).then(|| immediate as f64 / sync as f64)
}

/// Returns the increase of each counter.
pub fn increase<const N: usize>(before: [u64; N], after: [u64; N]) -> [u64; N] {
    array::from_fn(|i| after[i].saturating_sub(before[i]))
}

/// Returns `sums` and the increase of each counter, if all are known.
pub fn add_increase<const N: usize>(
    sums: Option<[u64; N]>,
    before: Option<[u64; N]>,
    after: Option<[u64; N]>,
) -> Option<[u64; N]> {
    let (sums, increase) = (sums?, increase(before?, after?));
    Some(array::from_fn(|i| sums[i].saturating_add(increase[i])))
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

    pub fn worked(self) -> Option<Worked> {
        let of = |file| fs::read_to_string(format!("/proc/{}/{file}", self.pid)).ok();
        let time = of("schedstat").and_then(|text| nanoseconds(&text));
        let time = time.or_else(|| ticks(&of("stat")?))?;
        Some([switches(&of("status")?)?, time])
    }
}

/// The first of three numbers (Documentation/scheduler/sched-stats.rst).
fn nanoseconds(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().next()?.parse().ok()
}

/// Where the kernel keeps no better time: user and system time are the 14th and 15th
/// field (proc(5)), in hundredths of a second. The second field has brackets, and may
/// have anything between them.
fn ticks(stat: &str) -> Option<u64> {
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) * 10_000_000)
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
        assert_eq!(nanoseconds("12345678 9 10\n"), Some(12_345_678));
        let stat = "126 (spi) 0) S 2 0 0 0 -1 2129984 0 0 0 0 3 31 0 0 -51 0 1 0 33 0";
        assert_eq!(ticks(stat), Some(340_000_000));
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
        assert_eq!(read(folder.path()), None);
        for (value, (name, _)) in COUNTERS.iter().enumerate() {
            fs::write(folder.path().join(name), format!("{value}\n")).unwrap();
        }
        let counters = read(folder.path()).unwrap();
        assert_eq!((COUNTERS[5].0, counters[5]), ("spi_sync", 5));
        assert_eq!(immediate(counters), Some(6.0 / 5.0));
        assert_eq!(immediate(increase(counters, counters)), None);
        let twice = add_increase(Some(counters), Some([0; 8]), Some(counters)).unwrap();
        assert_eq!(increase(counters, twice), counters);
    }
}

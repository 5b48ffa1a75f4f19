//! Memory for a long trace.

use std::fs;
use std::time::Instant;

use nostall_bench::Effort;
use nostall_tracefile::report::Table;

use crate::generated::Generated;
use crate::records::add;

/// Limit for the memory in MB: it must not grow with the records.
const MOST_MEGABYTES: u64 = 2_000;

pub fn tables(effort: Effort) {
    let records = if effort.is_test() {
        100_000
    } else {
        100_000_000
    };
    let start = Instant::now();
    let mut table = Table::default();
    add(&mut table, Generated::new().more(records));
    let seconds = start.elapsed().as_secs_f64();
    drop(table);
    println!("\nA table of {records} records: {seconds:.2} s");
    print_most();
}

/// Prints the peak memory of this process, and whether the limit is met.
pub fn print_most() {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let megabytes = kilobytes.and_then(|number| number.parse::<u64>().ok());
    if let Some(megabytes) = megabytes.map(|kilobytes| kilobytes / 1024) {
        let met = if megabytes < MOST_MEGABYTES {
            "met"
        } else {
            "NOT met"
        };
        println!("  most memory: {megabytes} MB (limit: < {MOST_MEGABYTES} MB, {met})");
    }
}

/// Resets the peak memory.
#[cfg(target_os = "linux")]
pub fn forget_most() {
    _ = fs::write("/proc/self/clear_refs", "5");
}

//! `nostall-lab run pstore`: the cost of recording, and the records that are left after a crash.

use crate::common::frozen;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::common::qemu;
use assert_cmd::cargo::cargo_bin;
use frozen::Machine;
use nostall_pstore::{Layout, RecordFormat, ZoneKind};
use nostall_vm::qemu::{Error, Guest, GuestRam, Limits};
use nostall_vm::{Ending, Machine as _, Work};
use nostall_work::Report;
use nostall_work::pstore::{
    Job, JobResult, REGION, Recovered, TraceSummary, Traces, ZoneStrategy, params, recover,
};
use tempfile::TempDir;

static KERNEL: &[u8] = include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL"));

/// 16,384 blocks of 512 bytes.
const BYTES: f64 = 8_388_608.0;
/// 45 records for each block.
const RECORDS: f64 = 737_280.0;
/// Records that the trace zones of three CPUs hold: 64 KiB less a header, divided by 24 bytes.
const KEPT: f64 = 3.0 * 2_730.0;

fn run(args: &[&str], dir: &Path) -> Output {
    Command::new(cargo_bin("nostall-lab"))
        .args(["run", "pstore"])
        .args(args)
        .current_dir(dir)
        .env("TMPDIR", dir)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Returns the output of a command that succeeds, and leaves only the expected files behind.
fn succeed(args: &[&str], on: &str) -> String {
    let dir = TempDir::new().unwrap();
    let args = [args, &["--json", "figures", "--capture", "."]].concat();
    let output = run(&args, dir.path());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    assert_eq!(stderr, "", "nothing but the answer");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    check_image(&fs::read(dir.path().join("pstore.bin")).unwrap());
    check_figures(&dir.path().join("figures"), on);
    decode(&dir.path().join("pstore.bin"), on == "qemu");
    let out = String::from_utf8(output.stdout).unwrap();
    for line in out.lines() {
        assert!(line.len() <= 80 && line == line.trim_end(), "{line}");
    }
    out
}

fn check_figures(file: &Path, on: &str) {
    let text = fs::read_to_string(file).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema"], 2);
    let mut figures = HashMap::new();
    for result in document["results"].as_array().unwrap() {
        assert_eq!(result["path"], "pstore");
        assert_eq!(result["on"], on);
        assert!(result["unit"].is_string() && result["n"].as_u64() >= Some(1));
        let key = |name: &str| result[name].as_str().unwrap().to_owned();
        let value = result["value"].as_f64().unwrap();
        let known = figures.insert((key("strategy"), key("metric")), value);
        assert_eq!(known, None, "one figure a name");
    }
    let figure = |strategy: &str, metric: &str| figures.get(&(strategy.into(), metric.into()));
    for strategy in [
        "untraced",
        "one-lock-for-all",
        "one-zone-locked",
        "per-cpu-clock",
        "per-cpu-counter",
        "per-cpu-counter-ecc",
    ] {
        assert_eq!(figure(strategy, "bytes"), Some(&BYTES));
        assert!(figure(strategy, "mb_per_s").unwrap() > &0.0);
        if strategy == "untraced" {
            assert_eq!(figure(strategy, "records"), Some(&0.0));
            assert_eq!(figure(strategy, "ns_per_record"), None);
        } else {
            assert_eq!(figure(strategy, "records"), Some(&RECORDS));
            assert!(figure(strategy, "ns_per_record").unwrap() > &0.0);
        }
    }
    assert_eq!(figure("per-cpu-clock", "records_recovered"), Some(&KEPT));
}

/// Checks that three stages left their records whole and in order.
fn check_image(image: &[u8]) {
    let layout = Layout::new(&params(4, Traces::PerCpu)).unwrap();
    let left = nostall_pstore::recover(image, &layout, None);
    let mut records = 0;
    for zone in left.zones_of(ZoneKind::Ftrace) {
        let cpu = zone.place().index;
        let traces: Vec<_> = zone.traces(RecordFormat::NATIVE).collect();
        assert!(traces.iter().all(|t| usize::from(t.record.cpu) == cpu));
        assert!(traces.is_sorted_by_key(|t| t.record.stamp));
        records += traces.len();
    }
    assert_eq!(records as f64, KEPT);
}

/// Decodes the region alone, without its parameters.
fn decode(region: &Path, died: bool) {
    let output = Command::new(cargo_bin("nostall"))
        .args(["postmortem", "--format", "json"])
        .arg(region)
        .output()
        .unwrap();
    let records = String::from_utf8(output.stdout).unwrap();
    let of = |kind| {
        let lines = records
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines
            .filter(|line| line["type"] == "record" && line["kind"] == kind)
            .count()
    };
    assert!(of("ftrace") > 0, "{records}");
    assert_eq!((of("dmesg"), of("console")), (died.into(), died.into()));
}

#[test]
fn records_of_a_dead_guest_are_read_by_the_host_and_by_the_next_boot() {
    if qemu("records_of_a_dead_guest").is_none() {
        return;
    }
    let out = succeed(&["--on", "qemu"], "qemu");
    assert!(out.starts_with("pstore on qemu "), "{out}");
    assert!(out.contains("dmesg    Panic#1 Part1\n"), "{out}");
    assert!(out.contains("Kernel panic: on purpose"), "{out}");
    assert!(out.contains("a second boot recovered are the same."));
}

#[test]
fn threads_of_the_host_record_too() {
    let out = succeed(&["--on", "model"], "host-threads");
    assert!(out.starts_with("pstore on threads of this host"), "{out}");
    assert!(out.contains("every record was written"), "{out}");
}

#[test]
fn options_of_others_and_wrong_values_are_refused_with_the_valid_ones() {
    let dir = TempDir::new().unwrap();
    for (args, says) in [
        (&["--bytes", "100"], "unexpected argument '--bytes'"),
        (
            &["--profile", "pc-16550a"],
            "unexpected argument '--profile'",
        ),
        (&["--cpus", "2"], "2 is not in 3..=8"),
        (&["--cpus", "9"], "9 is not in 3..=8"),
    ] {
        let output = run(args, dir.path());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(says), "{stderr}");
    }
    let output = run(&["--on", "model", "--cpus", "4"], dir.path());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("--cpus has no meaning with --on model"),
        "{stderr}"
    );
}

const LIMITS: Limits = Limits {
    start: Duration::from_secs(30),
    silence: Duration::from_secs(20),
    total: Duration::from_secs(60),
    serial_bytes: 0,
    report_bytes: 100_000,
    qemu_bytes: 1 << 20,
};

fn guest<'a>(work: &'a [Work], ram: Option<&'a GuestRam>) -> Guest<'a> {
    Guest {
        kernel: KERNEL,
        cpus: 4,
        work,
        repeat: 1,
        input: &[],
        ram,
        flash: None,
        qemu_args: &[],
    }
}

fn found(results: impl Iterator<Item = JobResult>) -> Vec<Recovered> {
    let found = results.filter_map(|result| match result {
        JobResult::Recovered(found) => Some(found),
        _ => None,
    });
    found.collect()
}

#[test]
fn in_new_ram_there_is_nothing() {
    let Some(qemu) = qemu("in_new_ram_there_is_nothing") else {
        return;
    };
    let ram = GuestRam::new(128).unwrap();
    let work = [Job::Recover.into()];
    let ran = qemu.run(
        &guest(&work, Some(&ram)),
        &LIMITS,
        Ending::Done,
        &mut |_| {},
    );
    let results = ran.unwrap().results().unwrap();
    let found = found(results.into_iter().map(|(_, result)| result));
    assert_eq!(found.len(), 4 + 1, "four CPUs and the merge: {found:?}");
    for found in found {
        let Recovered::Trace { trace, .. } = found else {
            panic!("{found:?}");
        };
        assert_eq!(trace, TraceSummary::default());
    }
}

/// Returns the number of records in each CPU's zone. At any moment, all of them are whole and in
/// order.
fn whole_records(image: &[u8]) -> Vec<usize> {
    let layout = Layout::new(&params(4, Traces::PerCpu)).unwrap();
    let left = nostall_pstore::recover(image, &layout, None);
    let zones = left.zones_of(ZoneKind::Ftrace).map(|zone| {
        let cpu = zone.place().index;
        let traces: Vec<_> = zone.traces(RecordFormat::NATIVE).collect();
        // The oldest record may be half overwritten.
        let whole = traces.iter().filter(|trace| !trace.suspect);
        for record in whole.clone().map(|trace| trace.record) {
            assert_eq!(usize::from(record.cpu), cpu);
            for address in [record.ip, record.parent] {
                assert!((0x10_0000..0x80_0000).contains(&address), "{record:x?}");
            }
        }
        assert!(whole.is_sorted_by_key(|trace| trace.record.stamp));
        traces.len()
    });
    zones.collect()
}

#[test]
fn a_guest_that_is_killed_while_it_records_leaves_whole_records() {
    if qemu("a_guest_that_is_killed_while_it_records").is_none() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let region = || {
        let mut region = vec![0; (REGION.end - REGION.start) as usize];
        let ram = fs::File::open(dir.path().join("ram")).unwrap();
        ram.read_exact_at(&mut region, REGION.start).unwrap();
        region
    };
    // The guest repeats the job. The zones are emptied between two runs.
    let guest = Machine::start(dir.path(), "repeat=60000 pstore:per-cpu-clock", b"");
    let (mut moments, mut last) = (0, region());
    guest.kill_when(|| {
        let now = region();
        let kept = whole_records(&now);
        moments += u32::from(now != last);
        last = now;
        moments >= 20 && kept[..3].iter().all(|&records| records > 0)
    });
    assert_eq!(region(), last, "a kill leaves what there was");

    let mut host = Vec::new();
    recover(&last[..], 4, |one| host.push(one));
    Machine::start(dir.path(), "repeat=1 pstore:recover", b"").wait();
    let reports = fs::read_to_string(dir.path().join("reports")).unwrap();
    let reports = reports.lines().map(serde_json::from_str);
    let reports: Vec<Report<JobResult>> = reports.map(Result::unwrap).collect();
    assert_eq!(reports.last(), Some(&Report::Done));
    let results = reports.into_iter().filter_map(|report| match report {
        Report::Result { result, .. } => Some(result),
        _ => None,
    });
    assert_eq!(found(results), host);
}

#[test]
fn a_machine_that_is_not_made_for_it_is_refused_by_the_guest() {
    let Some(qemu) = qemu("a_machine_that_is_not_made_for_it") else {
        return;
    };
    let work = [Job::Move(ZoneStrategy::PerCpuClock).into()];
    let lonely = Guest {
        cpus: 2,
        ..guest(&work, None)
    };
    let refused = |guest: &Guest<'_>| {
        let ended = qemu.run(guest, &LIMITS, Ending::Done, &mut |_| {});
        ended.unwrap_err().to_string()
    };
    assert!(refused(&lonely).contains("pstore runs on 3 to 8"));
    let args = ["-m", "32M"].map(OsString::from);
    let small = Guest {
        qemu_args: &args,
        ..guest(&work, None)
    };
    let error = refused(&small);
    assert!(error.contains("no RAM at"), "{error}");
    let input = vec![0; 72 << 20];
    let args = ["-m", "128M"].map(OsString::from);
    let overlapping = Guest {
        input: &input,
        qemu_args: &args,
        ..guest(&work, None)
    };
    let error = refused(&overlapping);
    assert!(error.contains("is in use: "), "{error}");
}

#[test]
fn a_guest_that_should_panic_and_does_not_is_reported() {
    let Some(qemu) = qemu("a_guest_that_should_panic") else {
        return;
    };
    let error = qemu.run(&guest(&[], None), &LIMITS, Ending::Panic, &mut |_| {});
    assert!(matches!(error, Err(Error::Unbroken)));
}

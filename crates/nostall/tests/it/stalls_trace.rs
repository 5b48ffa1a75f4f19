//! `nostall stalls` on traces that were recorded elsewhere. Live, it runs in the lab's guests.

use std::fs;
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use tempfile::TempDir;

/// Text of Linux's function graph: two writes of the log, and a read of configuration space.
const GRAPH: &str = "\
# tracer: function_graph
#
#     TIME        CPU  TASK/PID         DURATION                  FUNCTION CALLS
#      |          |     |    |           |   |                     |   |   |   |
    8.000000 |   1)  syslogd-93    |               |  console_unlock() {
    8.000010 |   1)  syslogd-93    | ! 100.000 us  |    univ8250_console_write();
    8.000120 |   1)  syslogd-93    | ! 120.000 us  |  } /* console_unlock */
    8.000500 |   0)    lspci-94    |   2.500 us    |  pci_conf1_read();
    8.001000 |   1)    <idle>-0    |               |  console_unlock() {
    8.001300 |   1)    <idle>-0    | ! 300.000 us  |  } /* console_unlock */
";

/// Text of tracefs after a boot with probes on the kernel's command line. The second return was
/// missed, as was the entry of the last one.
const PROBES: &str = "\
# tracer: nop
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
       swapper/0-1       [000] .....     1.000000: console_unlock: (console_unlock+0x0/0x1d0)
       swapper/0-1       [000] d....     1.000010: univ8250_console_write: (univ8250_console_write+0x0/0x20) bytes=40
       swapper/0-1       [000] d....     1.000090: univ8250_console_write_ret: (console_emit_next_record+0x1/0x2 <- univ8250_console_write)
       swapper/0-1       [000] .....     1.000100: console_unlock_ret: (vprintk_emit+0x1/0x2 <- console_unlock)
       swapper/0-1       [000] .....     1.000200: console_unlock: (console_unlock+0x0/0x1d0)
       swapper/0-1       [000] .....     1.000300: console_unlock: (console_unlock+0x0/0x1d0)
       swapper/0-1       [000] .....     1.000350: console_unlock_ret: (vprintk_emit+0x1/0x2 <- console_unlock)
       swapper/0-1       [000] .....     1.000400: pci_conf1_read_ret: (pci_read+0x1/0x2 <- pci_conf1_read)
";

fn nostall() -> Command {
    Command::new(cargo_bin("nostall"))
}

/// Runs the command on a trace, and returns its JSON.
fn report(trace: impl AsRef<[u8]>) -> Value {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("trace");
    fs::write(&file, trace).unwrap();
    let output = nostall()
        .args(["stalls", "--json"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn path<'a>(report: &'a Value, name: &str) -> &'a Value {
    let paths = report["paths"].as_array().unwrap();
    paths.iter().find(|path| path["path"] == name).unwrap()
}

#[test]
fn a_function_graph_gives_the_holds_of_each_path() {
    let report = report(GRAPH);
    let console = path(&report, "console");
    assert_eq!(console["count"], 2);
    assert_eq!(console["total_ns"], 420_000);
    assert_eq!(console["longest"]["ns"], 300_000);
    assert_eq!(console["longest"]["task"], "idle");
    assert_eq!(console["tasks"][1]["task"], "syslogd/93");
    assert_eq!(console["cpus"][0]["cpu"], 1);
    assert_eq!(path(&report, "console_8250")["total_ns"], 100_000);
    assert_eq!(path(&report, "pci_ports")["count"], 1);
    // A trace from elsewhere does not tell whether the path could be seen.
    assert_eq!(path(&report, "spi_message")["seen"], false);
    assert_eq!(report["cost"], Value::Null);
}

#[test]
fn a_recording_has_the_bytes_of_the_console() {
    let report = report(RECORDING);
    let driver = path(&report, "console_8250");
    assert_eq!(
        (&driver["count"], &driver["bytes"]),
        (&200.into(), &17_092.into())
    );
    assert_eq!(driver["cpus"].as_array().unwrap().len(), 1);
}

#[test]
fn a_call_without_its_return_or_entry_is_in_no_sum() {
    let report = report(PROBES);
    let console = path(&report, "console");
    assert_eq!(console["count"], 2);
    assert_eq!(console["total_ns"], 150_000);
    assert_eq!(path(&report, "console_8250")["bytes"], 40);
    assert_eq!(path(&report, "pci_ports")["count"], 0);
    assert_eq!(report["unpaired_calls"], 2);
}

#[test]
fn text_fits_80_columns_and_names_cannot_control_the_terminal() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("trace.txt");
    fs::write(&file, GRAPH.replace("syslogd", "a\u{1b}[31m")).unwrap();
    let to_send = folder.path().join("report");
    let output = nostall()
        .arg("stalls")
        .arg(&file)
        .arg("--report-file")
        .arg(&to_send)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("a\\x1b[31m/93"), "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let to_send = fs::read_to_string(to_send).unwrap();
    assert!(
        to_send.contains("task 93") && !to_send.contains("31m"),
        "{to_send}"
    );
}

#[test]
fn a_trace_of_other_functions_is_refused_with_a_way_to_a_better_one() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("trace.txt");
    fs::write(&file, " 0)   1.207 us    |  wake_up_process();\n").unwrap();
    let output = nostall().arg("stalls").arg(&file).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("--trace-cmd"), "{error}");
    let output = nostall().args(["stalls", "--trace-cmd"]).output().unwrap();
    let line = String::from_utf8(output.stdout).unwrap();
    assert!(line.starts_with("trace-cmd record") && line.contains("console_unlock"));
}

/// A recording of `linux/stalls`: 200 lines of the log in Debian's 6.1.
const RECORDING: &[u8] = include_bytes!("../fixtures/stalls/6.1.dat");

#[test]
fn a_damaged_recording_never_shows_more_calls_than_the_whole_one() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("stalls.dat");
    for number in 0..64 {
        let mut bytes = RECORDING.to_vec();
        // The pages of both CPUs begin at 45,056.
        let at = 45_056 + number * 569;
        match number % 2 {
            0 => bytes.truncate(at),
            _ => bytes[at..at + 8].fill(number as u8),
        }
        fs::write(&file, bytes).unwrap();
        let output = nostall()
            .args(["stalls", "--json"])
            .arg(&file)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!error.contains("panicked"), "{error}");
        let Ok(report) = serde_json::from_slice::<Value>(&output.stdout) else {
            continue;
        };
        for (name, calls) in [("console", 200), ("console_8250", 200), ("pci_ports", 258)] {
            assert!(
                path(&report, name)["count"].as_u64().unwrap() <= calls,
                "{at}"
            );
        }
    }
}

#[test]
fn options_that_measure_do_not_go_with_a_file() {
    for arguments in [
        &["stalls", "trace.dat", "--seconds", "5"][..],
        &["stalls", "trace.dat", "--record", "other.dat"],
        &["stalls", "--boot", "--plan"],
        &["stalls", "--max-overhead", "0"],
        &["stalls", "--seconds", "0"],
    ] {
        let output = nostall().args(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_measurement() {
    for (option, path) in [
        ("--record", "/nonexistent/x"),
        ("--perfetto", "/dev/null/x"),
        ("--report-file", "/"),
    ] {
        let output = nostall().args(["stalls", option, path]).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(error.starts_with(&format!("nostall: {path}: ")), "{error}");
    }
}

/// Returns the report of events of probes: microseconds, task, event.
fn probes(events: &[(u64, u32, &str)]) -> Value {
    let line = |(time, task, event): &(u64, u32, &str)| {
        format!("  task-{task}  [000] d....  0.{time:06}: {event}: (x+0x0/0x1)\n")
    };
    let lines: String = events.iter().map(line).collect();
    report(&("# tracer: nop\n#\n".to_owned() + &lines))
}

#[test]
fn no_quantile_is_above_the_longest() {
    let report = probes(&[(100, 1, "spi_sync"), (600, 1, "spi_sync_ret")]);
    let spi = path(&report, "spi_message");
    assert_eq!(
        (&spi["median_ns"], &spi["p99_ns"]),
        (&500_000.into(), &500_000.into())
    );
}

#[test]
fn an_initcall_has_the_prints_of_its_own_task() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("trace.txt");
    let trace = "# tracer: nop\n#\n\
        swapper/0-1 [000] d....  0.000100: initcall_start: func=first+0x0/0x10\n\
          kworker-9 [001] d....  0.000200: console_unlock: (x+0x0/0x1)\n\
          kworker-9 [001] d....  0.000300: console_unlock_ret: (x+0x0/0x1)\n";
    fs::write(&file, trace).unwrap();
    let output = nostall().arg("stalls").arg(&file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("100 us") && !text.contains("Initcalls"),
        "{text}"
    );
}

#[test]
fn times_of_any_length_are_summed() {
    let call = "8.000000 |   1)  task-93  | ! 18446744073709551.000 us |  console_unlock();\n";
    let report = report(&("# tracer: function_graph\n#\n".to_owned() + &call.repeat(3)));
    assert_eq!(path(&report, "console")["total_ns"], u64::MAX);
}

#[test]
fn a_call_without_its_entry_begins_the_time_of_shares() {
    let exit = "8.000500 |   1)  task-93  | ! 400.000 us  |  } /* console_unlock */\n";
    let report = report(&("# tracer: function_graph\n#\n".to_owned() + exit));
    assert_eq!(path(&report, "console")["share_of_a_cpu"], 1.0);
    assert_eq!(report["elapsed_ns"], 400_000);
}

#[test]
fn a_pipe_is_written_and_stays() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("trace.txt");
    fs::write(&file, GRAPH).unwrap();
    let pipe = folder.path().join("pipe");
    std::os::unix::fs::symlink("/proc/self/fd/1", &pipe).unwrap();
    let output = nostall()
        .arg("stalls")
        .arg(&file)
        .arg("--report-file")
        .arg(&pipe)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(pipe.is_symlink());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("in task 93"), "{text}");
    // This machine is not the one of the trace.
    assert!(!text.contains("Linux"), "{text}");
    assert!(text.contains("Shares are of the 1.30 ms"), "{text}");
}

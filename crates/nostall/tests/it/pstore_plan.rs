//! `nostall pstore plan` as its user sees it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;
use nostall_pstore::{Layout, Params, ZoneKind};
use serde_json::Value;

fn plan(args: &str) -> Output {
    let mut command = Command::new(cargo_bin("nostall"));
    command
        .args(["pstore", "plan"])
        .args(args.split_whitespace());
    command.stdin(Stdio::null()).output().unwrap()
}

fn planned(args: &str) -> String {
    let output = plan(args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args}: {error}");
    assert_eq!(error, "", "{args}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(args: &str) -> Value {
    serde_json::from_str(&planned(&format!("{args} --json"))).unwrap()
}

/// Returns the one line on stderr of a command that failed.
fn refused(args: &str) -> String {
    let output = plan(args);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{args}: {error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(output.stdout.is_empty());
    error
}

fn number(text: &str) -> usize {
    match text.strip_prefix("0x") {
        Some(digits) => usize::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

/// Returns the value of `key` in words of the form `key=value`.
fn value<'a>(words: &'a str, key: &str) -> &'a str {
    let mut words = words.split_whitespace();
    let value = words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("{key} is missing"))
}

/// Returns the layout that Linux would derive from a command line.
fn understood(line: &str, cpus: usize) -> Layout {
    let of = |name: &str| number(value(line, &format!("ramoops.{name}")));
    Layout::new(&Params {
        record_size: of("record_size"),
        console_size: of("console_size"),
        ftrace_size: of("ftrace_size"),
        pmsg_size: of("pmsg_size"),
        ecc: Params::command_line_ecc(of("ecc")),
        ..Params::command_line(of("mem_size"), cpus)
    })
    .unwrap()
}

/// Options for regions of every kind, with the number of CPUs.
const REGIONS: [(&str, usize); 7] = [
    ("--size 1M --cpus 4", 4),
    ("--size 1M --cpus 4 --address 0x8f000000 --ecc 1", 4),
    ("--size 1000000 --cpus 3 --address 0x1_0000_0000", 3),
    (
        "--size 2M --cpus 64 --console-size 100000 --ecc 5 --address 4G",
        64,
    ),
    ("--size 64K --cpus 64", 64),
    ("--size 256K --cpus 1 --record-size 0 --pmsg-size 0", 1),
    ("--size 128K --cpus 1 --flags 0 --ftrace-size 32K", 1),
];

#[test]
fn the_command_line_gives_the_layout_that_was_planned() {
    for (args, cpus) in REGIONS {
        let args = &args.replace('_', "");
        let plan = json(args);
        let line = plan["command_line"].as_str().unwrap();
        let layout = understood(line, cpus);
        for kind in [
            ZoneKind::Dmesg,
            ZoneKind::Console,
            ZoneKind::Ftrace,
            ZoneKind::Pmsg,
        ] {
            let zones: Vec<_> = layout.zones_of(kind).collect();
            let mut rows = plan["zones"].as_array().unwrap().iter();
            let Some(row) = rows.find(|row| row["kind"] == kind.name()) else {
                assert!(zones.is_empty(), "{args}: {kind}");
                continue;
            };
            let of = |name: &str| row[name].as_u64().unwrap() as usize;
            assert_eq!(zones.len(), of("count"), "{args}");
            for zone in zones {
                assert_eq!(
                    zone.offset,
                    of("offset") + zone.index * of("size"),
                    "{args}"
                );
                assert_eq!(zone.division.zone(), of("size"), "{args}");
                assert_eq!(zone.division.data(), of("data_bytes"), "{args}");
                let parts = 12 + of("data_bytes") + of("ecc_bytes");
                assert_eq!(parts, of("size"), "{args}");
            }
        }
        // The text output has the same command line, on one line.
        assert!(
            planned(args).lines().any(|printed| printed == line),
            "{args}"
        );
    }
}

#[test]
fn a_suggestion_is_named_and_every_zone_of_it_is_a_power_of_two() {
    let plan = json("--size 1M --cpus 4");
    assert_eq!(plan["schema"], 1);
    let names = ["record_size", "console_size", "ftrace_size", "pmsg_size"];
    assert_eq!(plan["suggested"], serde_json::json!(names));
    assert_eq!(plan["notes"], serde_json::json!([]));
    for row in plan["zones"].as_array().unwrap() {
        assert!(row["size"].as_u64().unwrap().is_power_of_two(), "{row}");
    }
    let plan = json("--size 1M --cpus 4 --record-size 32K --ftrace-size 512K");
    assert_eq!(
        plan["suggested"],
        serde_json::json!(["console_size", "pmsg_size"])
    );
    assert_eq!(plan["ftrace_size"], 512 << 10);
}

#[test]
fn the_history_of_each_zone_is_reported() {
    let text = planned("--size 1M --cpus 4");
    for part in [
        "dmesg 0-6 ",
        "109,206 deflated",
        "3,744 lines",
        "2,730 calls",
        "the last 2.73 ms",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn any_number_of_cpus_fits_a_screen() {
    let text = planned("--size 64M --cpus 4096 --ecc 1 --address 0x100000000");
    assert!(text.contains("ftrace 0-4095 "), "{text}");
    assert!(text.lines().count() < 30, "{text}");
    let wide = |line: &&str| line.chars().count() > 80 && !line.contains("ramoops.");
    let notes = |line: &&str| !line.starts_with("  ");
    let wide: Vec<_> = text.lines().filter(wide).filter(notes).collect();
    assert!(wide.is_empty(), "{wide:?}");
}

#[test]
fn rounding_by_linux_is_reported() {
    for (args, note) in [
        (
            "--console-size 100000",
            "console_size: 100000 is not a power of two, Linux takes 65536",
        ),
        (
            "--address 0x8f000100",
            "--address 0x8f000100 is not a multiple of 4096",
        ),
        ("--flags 0", "all CPUs share one trace zone"),
        (
            "--ecc 1",
            "with ECC, Linux's own view of the trace is garbled",
        ),
    ] {
        let text = planned(&format!("--size 1M --cpus 4 {args}"));
        assert!(text.contains(note), "{args}: {text}");
    }
    assert!(planned("--size 1000001 --cpus 1").contains("--size 0xf4241 is not a multiple"));
    assert!(planned("--size 64K --cpus 64").contains("no trace zones"));
}

#[test]
fn flags_that_no_command_line_can_say_need_a_device_tree() {
    let args = "--size 1M --cpus 4 --flags 0 --address 0x8f000000";
    assert_eq!(json(args)["command_line"], Value::Null);
    assert!(planned(args).contains("use a device tree"));
    assert!(planned(&format!("{args} --device-tree")).contains("flags = <0>;"));
}

#[test]
fn settings_that_linux_refuses_are_refused_in_one_line() {
    for (args, part) in [
        ("--size 0 --cpus 1", "must not be 0"),
        ("--size 2G --cpus 1", "smaller than 2 GiB"),
        (
            "--size 64K --cpus 1 --console-size 64K --pmsg-size 4K",
            "no room",
        ),
        ("--size 1M --cpus 1 --ecc 128", "at most 127"),
        ("--size 1M --cpus 0 --ftrace-size 64K", "no CPUs"),
        (
            "--size 1M --cpus 99999 --ftrace-size 64K",
            "no room for data",
        ),
        (
            "--size 1M --cpus 1 --address 0xffffffffffffffff",
            "beyond the end",
        ),
    ] {
        let error = refused(args);
        assert!(error.contains(part), "{args}: {error}");
    }
}

#[test]
fn no_numbers_make_it_fail_otherwise() {
    const NUMBERS: [&str; 8] = [
        "0",
        "1",
        "13",
        "4096",
        "0x7fffffff",
        "2G",
        "1M",
        "0xffffffffffffffff",
    ];
    for size in NUMBERS {
        for cpus in NUMBERS {
            for rest in ["", "--ecc 16 --record-size 1", "--ftrace-size 1M --ecc 127"] {
                let args = format!("--size {size} --cpus {cpus} {rest}");
                let output = plan(&args);
                let code = output.status.code();
                let error = String::from_utf8_lossy(&output.stderr);
                assert!(matches!(code, Some(0 | 1)), "{args}: {error}");
                assert!(error.lines().count() < 2, "{args}: {error}");
            }
        }
    }
}

#[test]
fn a_great_many_zones_are_not_counted_one_by_one() {
    let plan = json("--size 0x7fffffff --cpus 1 --record-size 16 --ftrace-size 0");
    assert!(plan["zones"][0]["count"].as_u64() > Some(10_000_000));
}

/// Returns the words between `name = <` and `>`.
fn cells<'a>(node: &'a str, name: &str) -> Vec<&'a str> {
    let start = node.find(&format!("\t{name} = <")).unwrap();
    let (_, rest) = node[start..].split_once('<').unwrap();
    let (cells, _) = rest.split_once('>').unwrap();
    cells.split_whitespace().collect()
}

#[test]
fn the_device_tree_node_says_the_same_and_compiles() {
    let dtc = Command::new("dtc").arg("--version").output().is_ok();
    if !dtc {
        assert!(
            std::env::var_os("NOSTALL_REQUIRE_TOOLS").is_none(),
            "there is no dtc: run scripts/setup tools"
        );
        // The test harness captures the output of std's macros, so they are not used here.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED the device tree compiler: there is no dtc: run scripts/setup tools"
        );
    }
    for args in [
        "--size 1M --cpus 4 --address 0x8f000000",
        "--size 2M --cpus 64 --address 0x18f000000 --ecc 1 --console-size 100000",
        "--size 2M --cpus 1 --address 0 --flags 0",
    ] {
        let plan = json(args);
        let node = planned(&format!("{args} --device-tree"));
        assert_eq!(plan["device_tree"], node);
        for (cell, key) in [
            ("record-size", "record_size"),
            ("console-size", "console_size"),
            ("ftrace-size", "ftrace_size"),
            ("pmsg-size", "pmsg_size"),
            ("ecc-size", "ecc"),
            ("flags", "flags"),
        ] {
            let [cell] = cells(&node, cell)[..] else {
                panic!("{node}")
            };
            assert_eq!(Some(number(cell) as u64), plan[key].as_u64(), "{key}");
        }
        let reg: Vec<_> = cells(&node, "reg").into_iter().map(number).collect();
        assert_eq!(
            Some((reg[0] << 32 | reg[1]) as u64),
            plan["address"].as_u64()
        );
        assert_eq!(Some(reg[3] as u64), plan["size"].as_u64());
        if dtc {
            compile(&node);
        }
    }
}

#[test]
fn the_traces_come_last_unless_linux_is_older_than_6_2() {
    for (version, kinds) in [
        ("6.1.192", ["dmesg", "console", "ftrace", "pmsg"]),
        ("6.2", ["dmesg", "console", "pmsg", "ftrace"]),
        ("6.12.117", ["dmesg", "console", "pmsg", "ftrace"]),
    ] {
        let plan = json(&format!("--size 1M --cpus 4 --linux-version {version}"));
        let zones = plan["zones"].as_array().unwrap().iter();
        assert!(
            zones.clone().map(|zone| &zone["kind"]).eq(&kinds),
            "{version}: {plan}"
        );
        assert!(zones.is_sorted_by_key(|zone| zone["offset"].as_u64()));
    }
    let current = json("--size 1M --cpus 4");
    assert_eq!(current, json("--size 1M --cpus 4 --linux-version 6.2"));
}

/// Compiles the node as part of a board's tree. A warning is a failure.
fn compile(node: &str) {
    const BOARD: &str = "/dts-v1/;\n/ { #address-cells = <2>; #size-cells = <2>; };\n";
    let mut dtc = Command::new("dtc")
        .args(["-I", "dts", "-O", "dts", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = dtc.stdin.take().unwrap();
    stdin.write_all([BOARD, node].concat().as_bytes()).unwrap();
    drop(stdin);
    let output = dtc.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}\n{node}");
}

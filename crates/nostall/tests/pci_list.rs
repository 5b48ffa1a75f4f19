//! `nostall pci list` as its user sees it: compared with lspci, and on files that are no list of
//! devices.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;
use flate2::read::GzDecoder;
use serde_json::Value;

const MACHINES: [&str; 3] = ["nested", "pc", "roots"];

fn fixture(machine: &str, file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nostall-pci/tests/fixtures");
    let bytes = fs::read(path.join(machine).join(file)).unwrap();
    let mut text = String::new();
    match file.strip_suffix(".gz") {
        Some(_) => GzDecoder::new(&*bytes).read_to_string(&mut text).unwrap(),
        None => (&*bytes).read_to_string(&mut text).unwrap(),
    };
    text
}

/// A machine's dump as a file, and a copy of its sysfs.
struct Machine {
    folder: tempfile::TempDir,
    dump: PathBuf,
}

impl Machine {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dump = folder.path().join("lspci.txt");
        fs::write(&dump, text).unwrap();
        Self { folder, dump }
    }

    fn of(machine: &str) -> Self {
        Self::new(&fixture(machine, "lspci-xxxx.txt.gz"))
    }

    fn dump(&self, args: &[&str]) -> Output {
        let dump = ["--dump", self.dump.to_str().unwrap()];
        list(&[&dump, args].concat())
    }

    /// Returns a copy of the sysfs that the dump was made of.
    fn sysfs(&self, machine: &str) -> PathBuf {
        let root = self.folder.path().join("sysfs");
        let text = fs::read_to_string(&self.dump).unwrap();
        for function in text.split_terminator("\n\n") {
            let (name, lines) = function.split_once('\n').unwrap();
            let folder = root.join(format!("0000:{}", &name[..7]));
            fs::create_dir_all(&folder).unwrap();
            let digits = lines.lines().flat_map(|line| line.split(' ').skip(1));
            let bytes = digits.map(|digits| u8::from_str_radix(digits, 16).unwrap());
            fs::write(folder.join("config"), bytes.collect::<Vec<_>>()).unwrap();
        }
        let resources = fixture(machine, "resource.txt.gz");
        for one in resources.split_terminator("\n\n") {
            let (name, lines) = one.split_once('\n').unwrap();
            fs::write(root.join(name).join("resource"), lines).unwrap();
        }
        root
    }
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(cargo_bin("nostall"));
    command.args(["pci", "list"]).args(args);
    command.stdin(Stdio::null());
    command
}

fn list(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

/// Returns the output of a command that printed nothing on stderr.
fn stdout(output: Output) -> String {
    let (text, beside) = both(output);
    assert_eq!(beside, "");
    text
}

fn both(output: Output) -> (String, String) {
    let beside = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{beside}");
    (String::from_utf8(output.stdout).unwrap(), beside)
}

/// Returns the one line on stderr of a command that failed.
fn error(output: Output) -> String {
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(output.stdout.is_empty());
    error
}

/// Returns the output of lspci. Without lspci it prints that the test is skipped.
fn lspci(test: &str, args: &[&str]) -> Option<String> {
    match Command::new("lspci").args(args).output() {
        Ok(output) if output.status.success() => Some(String::from_utf8(output.stdout).unwrap()),
        outcome => {
            let why = match outcome {
                Ok(output) => String::from_utf8_lossy(&output.stderr)
                    .trim_end()
                    .to_owned(),
                Err(error) => error.to_string(),
            };
            // The test harness captures the output of std's macros, so they are not used here.
            let stderr = &mut std::io::stderr();
            let _ = writeln!(stderr, "SKIPPED {test}: lspci (package pciutils): {why}");
            None
        }
    }
}

/// Returns address, class, vendor and device, and revision, which no list of names changes.
fn numbers(line: &str) -> (&str, &str, &str, &str) {
    let (address, rest) = line.split_once(' ').unwrap();
    let (what, revision) = rest.split_once(" (rev ").unwrap_or((rest, ""));
    let (class, ids) = (what.find("]: ").unwrap(), what.rfind('[').unwrap());
    (address, &what[class - 4..class], &what[ids..], revision)
}

#[test]
fn a_dump_is_listed_with_the_numbers_that_lspci_printed() {
    for machine in MACHINES {
        let text = stdout(Machine::of(machine).dump(&[]));
        let truth = fixture(machine, "lspci-nn.txt");
        assert!(text.lines().map(numbers).eq(truth.lines().map(numbers)));
    }
}

#[test]
fn a_dump_is_listed_as_this_systems_lspci_does() {
    let test = "a_dump_is_listed_as_this_systems_lspci_does";
    for machine in MACHINES {
        let files = Machine::of(machine);
        let file = files.dump.to_str().unwrap();
        let Some(truth) = lspci(test, &["-nn", "-F", file]) else {
            return;
        };
        same(&stdout(files.dump(&[])), &truth);
        let root = files.sysfs(machine);
        same(&stdout(list(&["--sysfs", root.to_str().unwrap()])), &truth);
        // Includes the programming interface.
        let truth = lspci(test, &["-vnn", "-F", file]).unwrap();
        let text = stdout(files.dump(&["-v"]));
        let heads = |text: &str| -> String {
            let heads = text.split("\n\n").filter_map(|one| one.lines().next());
            heads.map(|line| format!("{line}\n")).collect()
        };
        same(&heads(&text), &heads(&truth));
    }
}

/// Compares line by line, with names if both have the same list.
fn same(ours: &str, theirs: &str) {
    if Path::new("/usr/share/misc/pci.ids").exists() {
        assert_eq!(ours, theirs);
    } else {
        assert!(ours.lines().map(numbers).eq(theirs.lines().map(numbers)));
    }
}

#[test]
fn this_hosts_devices_are_those_that_lspci_lists() {
    let test = "this_hosts_devices_are_those_that_lspci_lists";
    let devices = fs::read_dir("/sys/bus/pci/devices");
    if devices.is_ok_and(|mut devices| devices.next().is_some()) {
        if let Some(truth) = lspci(test, &["-nn"]) {
            same(&both(list(&[])).0, &truth);
        }
    } else {
        assert!(error(list(&[])).contains("no PCI"));
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: this host has no PCI");
    }
}

/// Compares the connections with those of `lspci -t`: each device is below the same bridges.
#[test]
fn the_tree_connects_what_lspcis_tree_connects() {
    for machine in MACHINES {
        let files = Machine::of(machine);
        let tree = stdout(files.dump(&["--tree"]));
        let ours: Vec<_> = tree
            .lines()
            .map(|line| (depth(line), place(line)))
            .collect();
        assert_eq!(ours, linearised(&fixture(machine, "lspci-t.txt")), "{tree}");
    }
}

/// Returns the number of bridges above a line's device. A root is no device.
fn depth(line: &str) -> usize {
    line.find(['+', '\\']).map_or(0, |at| at / 2 + 1)
}

/// Returns device and function of `00:02.0`, or a root's bus.
fn place(line: &str) -> String {
    let line = line.trim_start_matches(['+', '\\', '-', '|', ' ']);
    let word = line.split(' ').next().unwrap();
    match word.split_once(':') {
        Some((_, place)) if place.contains('.') => place.into(),
        _ => word.into(),
    }
}

/// Returns depth and place of each device in lspci's tree. lspci draws a bridge and the first
/// device behind it on one line: `+-02.0-[01-04]----00.0-[02-04]--+-00.0`.
fn linearised(drawing: &str) -> Vec<(usize, String)> {
    let mut devices: Vec<(usize, String)> = Vec::new();
    // For each depth, the column at which the devices of the previous line begin.
    let mut columns: Vec<usize> = Vec::new();
    for line in drawing.lines() {
        let mut at = 0;
        while let Some(start) = line[at..].find(|c: char| c.is_ascii_hexdigit() || c == '[') {
            let start = at + start;
            let rest = &line[start..];
            let word = rest.trim_start_matches('[');
            let end = word.find([']', '-', ' ']).unwrap_or(word.len());
            let name = &word[..end];
            at = start + (rest.len() - word.len()) + end;
            if rest.starts_with('[') {
                at = start + rest.find(']').unwrap();
                if name.contains(':') {
                    devices.push((0, name.into()));
                    columns = vec![start];
                }
                continue;
            }
            while columns.last().is_some_and(|column| *column >= start) && columns.len() > 1 {
                columns.pop();
            }
            columns.push(start);
            devices.push((columns.len() - 1, name.into()));
        }
    }
    devices
}

fn json(output: Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap()
}

#[test]
fn json_has_all_that_is_known() {
    let files = Machine::of("nested");
    let root = files.sysfs("nested");
    let document = json(list(&["--json", "--sysfs", root.to_str().unwrap()]));
    assert_eq!(document["schema"], 1);
    assert_eq!(document["source"]["kind"], "sysfs");
    let devices = document["devices"].as_array().unwrap();
    let by_address: BTreeMap<_, _> = devices
        .iter()
        .map(|device| (device["address"].as_str().unwrap(), device))
        .collect();
    assert_eq!(by_address.len(), 24);

    let net = by_address["0000:00:05.0"];
    assert_eq!(net["vendor"], "1af4");
    assert_eq!(net["device"], "1000");
    assert_eq!(net["class"], "020000");
    assert_eq!(net["class_name"], "Ethernet controller");
    assert_eq!(net["revision"], "00");
    assert_eq!(net["header"], "endpoint");
    assert_eq!(net["multi_function"], true);
    assert_eq!(net["interrupt"]["pin"], "A");
    assert_eq!(net["subsystem"]["vendor"], "1af4");
    assert_eq!(net["buses"], Value::Null);
    let bar = |register: &str, kind: &str, bits: u8, address: &str, size: u64| {
        serde_json::json!({
            "register": register, "kind": kind, "bits": bits, "address": address, "size": size
        })
    };
    let bars = Value::Array(vec![
        bar("0x10", "io", 32, "0xf1c0", 32),
        bar("0x14", "memory", 32, "0xfeb57000", 4096),
        bar("0x20", "prefetchable", 64, "0xfda00000", 16384),
        bar("0x30", "rom", 32, "0xfeb00000", 262_144),
    ]);
    assert_eq!(net["bars"], bars);

    let bridge = by_address["0000:00:02.0"];
    assert_eq!(bridge["header"], "bridge");
    let buses = serde_json::json!({"primary": "00", "secondary": "01", "subordinate": "04"});
    assert_eq!(bridge["buses"], buses);
    assert_eq!(bridge["subsystem"]["vendor"], "1b36");
    assert_eq!(bridge["port"], "root-port");
    assert_eq!(bridge["windows"][0]["kind"], "io");
    assert_eq!(bridge["windows"][1]["first"], "0xfe400000");
    let capability = |id: &str, name: &str, register: &str, version: Option<u8>| {
        serde_json::json!({
            "id": id, "extended": version.is_some(), "name": name, "register": register,
            "version": version
        })
    };
    let capabilities = Value::Array(vec![
        capability("0010", "pcie", "0x54", None),
        capability("0011", "msi-x", "0x48", None),
        capability("000d", "bridge-subsystem", "0x40", None),
        capability("0001", "aer", "0x100", Some(2)),
        capability("000d", "acs", "0x148", Some(1)),
    ]);
    assert_eq!(bridge["capabilities"], capabilities);

    // A dump gives the same document, except for sizes.
    let mut document = document;
    for device in document["devices"].as_array_mut().unwrap() {
        assert_eq!(device["problems"], Value::Array(vec![]));
        for bar in device["bars"].as_array_mut().unwrap() {
            assert!(bar["size"].is_number());
            bar["size"] = Value::Null;
        }
    }
    let dumped = json(files.dump(&["--json"]));
    assert_eq!(dumped["source"]["kind"], "dump");
    assert_eq!(dumped["devices"], document["devices"]);
}

#[test]
fn verbose_prints_the_registers() {
    let files = Machine::of("nested");
    let root = files.sysfs("nested");
    let text = stdout(list(&["-v", "--sysfs", root.to_str().unwrap()]));
    let one = |address: &str| {
        text.split("\n\n")
            .find(|it| it.starts_with(address))
            .unwrap()
    };
    let bridge = one("00:02.0");
    for line in [
        "\tInterrupt: pin A, line 11",
        "\tBAR 0: memory at 0xfeb54000, 32-bit, 4 KiB",
        "\tBuses: 00 to 01-04",
        "\tWindow: I/O 0xe000-0xefff, 4 KiB",
        "\tWindow: prefetchable memory 0xfd400000-0xfd7fffff, 4 MiB",
        "\tCapability 0x54: pcie, root port",
        "\tCapability 0x100: aer (extended, version 2)",
    ] {
        assert!(bridge.lines().any(|it| it == line), "{line}: {bridge}");
    }
    let net = one("00:05.0");
    for line in [
        "\tBAR 0: I/O at 0xf1c0, 32 B",
        "\tBAR 4: prefetchable memory at 0xfda00000, 64-bit, 16 KiB",
        "\tROM: at 0xfeb00000, 256 KiB",
    ] {
        assert!(net.lines().any(|it| it == line), "{line}: {net}");
    }
    // A dump has no sizes, and none are invented.
    let text = stdout(files.dump(&["-v"]));
    assert!(text.contains("\tBAR 0: I/O at 0xf1c0\n"), "{text}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_dump_without_an_end_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    for (path, part) in [
        ("/dev/zero", "/dev/zero: more than 64 MiB"),
        (fifo.to_str().unwrap(), "no program writes to it"),
    ] {
        let mut command = Command::new("timeout");
        command.arg("120").arg(cargo_bin("nostall"));
        let output = command.args(["pci", "list", "--dump", path]).output();
        let said = error(output.unwrap());
        assert!(said.contains(part), "{path}: {said}");
    }
}

#[test]
fn standard_input_is_read_as_a_dump() {
    let text = fixture("pc", "lspci-xxxx.txt.gz");
    let mut command = command(&["--dump", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    let text = stdout(child.wait_with_output().unwrap());
    assert_eq!(text, stdout(Machine::of("pc").dump(&[])));
}

/// The first four lines of a type 0 header with a list of capabilities.
const DEVICE: &str = "\
00: 34 12 78 56 07 00 10 00 02 00 00 ff 00 00 00 00
10: 00 00 00 fe 00 00 00 00 00 00 00 00 00 00 00 00
20: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
30: 00 00 00 00 40 00 00 00 00 00 00 00 00 00 00 00
";

const BRIDGE: &str = "\
00: 36 1b 0c 00 07 00 00 00 00 00 04 06 00 00 01 00
10: 00 00 00 00 00 00 00 00 02 02 01 00 f0 00 00 00
20: f0 ff 00 00 f1 ff 01 00 00 00 00 00 00 00 00 00
30: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
";

#[test]
fn faults_of_a_device_are_printed_beside_it() {
    let looping = "40: 09 48 00 00 00 00 00 00 05 40 00 00 00 00 00 00\n";
    let text = format!(
        "00:01.0 loops\n{DEVICE}{looping}\n02:00.0 short\n{DEVICE}\n02:01.0 bridge\n{BRIDGE}\n"
    );
    let files = Machine::new(&text);
    let text = stdout(files.dump(&["-v"]));
    let problems = text.lines().filter(|line| line.contains("Problem: "));
    let expected = [
        "\tProblem: capabilities: the list of capabilities loops to 0x40",
        "\tProblem: capabilities: register 0x40 is not in this record",
        "\tProblem: bridge: impossible bus numbers",
    ];
    assert!(problems.eq(expected), "{text}");
    let document = json(files.dump(&["--json"]));
    let problem = &document["devices"][0]["problems"][0];
    assert_eq!(
        problem,
        "capabilities: the list of capabilities loops to 0x40"
    );
    let loops = document["devices"][0]["capabilities"].as_array().unwrap();
    assert_eq!(loops.len(), 2);

    let tree = stdout(files.dump(&["--tree"]));
    let last = tree.lines().last().unwrap();
    assert!(last.starts_with("\\- 02:01.0 "), "{tree}");
    assert!(
        last.ends_with("-> 02-01 (bridge: impossible bus numbers)"),
        "{tree}"
    );
    assert_eq!(tree.lines().count(), 5, "{tree}");
}

/// The scan corrects the port's type, which would hide the functions below.
#[test]
fn a_switch_port_that_misreports_its_type_is_shown_as_what_it_is_and_the_claim_is_said() {
    let port = |buses: &str, kind: u8| {
        let bridge = BRIDGE
            .replace("0c 00 07 00 00 00", "0c 00 07 00 10 00")
            .replace("02 02 01 00 f0", buses)
            .replace("30: 00 00 00 00 00", "30: 00 00 00 00 40");
        format!("{bridge}40: 10 00 {kind:x}2 00 00 00 00 00 00 00 00 00 00 00 00 00\n")
    };
    let [root, up, down] = [
        port("00 01 03 00 f0", 4),
        port("01 02 03 00 f0", 6),
        port("02 03 03 00 f0", 6),
    ];
    let files = Machine::new(&format!(
        "00:01.0 root\n{root}\n01:00.0 up\n{up}\n02:00.0 down\n{down}\n"
    ));
    let claim = "says that it is a downstream port, which cannot be below a downstream or root \
                 port: taken for an upstream port";
    let document = json(files.dump(&["--json"]));
    let ports = [0, 1, 2].map(|n| document["devices"][n]["port"].clone());
    assert_eq!(ports, ["root-port", "upstream-port", "downstream-port"]);
    let problems = [0, 1, 2].map(|n| document["devices"][n]["problems"].clone());
    let none = serde_json::json!([]);
    let expected = [&none, &serde_json::json!([format!("port: {claim}")]), &none];
    assert_eq!(problems.each_ref(), expected);
    let text = stdout(files.dump(&["-v"]));
    assert!(
        text.contains("\tCapability 0x40: pcie, upstream port\n"),
        "{text}"
    );
    assert!(
        text.contains(&format!("\tProblem: port: {claim}\n")),
        "{text}"
    );
    for args in [&[][..], &["--tree"]] {
        let (_, beside) = both(files.dump(args));
        assert!(
            beside.contains(&format!("0000:01:00.0: {claim}\n")),
            "{beside}"
        );
    }
}

#[test]
fn bridges_that_lead_to_one_another_end() {
    let numbered = |primary, secondary, subordinate| {
        let numbers = format!("{primary:02x} {secondary:02x} {subordinate:02x} 00 f0");
        BRIDGE.replace("02 02 01 00 f0", &numbers)
    };
    let (a, b, c) = (numbered(1, 2, 2), numbered(2, 1, 255), numbered(0, 1, 255));
    let text = format!("01:00.0 a\n{a}\n02:00.0 b\n{b}\n00:01.0 c\n{c}\n00:02.0 again\n{c}\n");
    let tree = stdout(Machine::new(&text).dump(&["--tree"]));
    for address in ["00:01.0", "00:02.0", "01:00.0", "02:00.0"] {
        assert_eq!(tree.matches(&format!("- {address} ")).count(), 1, "{tree}");
    }
}

#[test]
fn omitted_functions_are_reported() {
    // All registers read as all ones, as a graphics processor's without power.
    let numbers = |line: &str| format!("{}{}\n", &line[..3], [" ff"; 16].concat());
    let absent: String = DEVICE.lines().map(numbers).collect();
    // The vendor's number of a function that has just been reset.
    let reset = absent.replacen("ff ff", "01 00", 1);
    let text = format!(
        "00:01.0 a\n{DEVICE}\n00:02.0 gone\n{absent}\n00:03.0 cut\n00: 86 80 1\n\n00:04.0 none\n\n\
         00:05.0 reset\n{reset}\n"
    );
    let (text, beside) = both(Machine::new(&text).dump(&[]));
    assert_eq!(text.lines().count(), 1);
    for line in [
        "before that counts: 1",
        "they have no registers here (lspci -xxxx prints them): 1",
        "0000:00:02.0 is left out: it does not answer",
        "0000:00:03.0 is left out: register 0x2 is not in this record",
        "0000:00:05.0 is left out: not ready yet after a reset; ask again",
    ] {
        assert!(beside.contains(line), "{line}: {beside}");
    }
    let none = Machine::new("00:03.0 cut\n00: 86 80\n");
    let output = none.dump(&[]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no function here can be read"), "{said}");
}

#[test]
fn segments_are_shown_where_there_are_several() {
    let text = format!("00:01.0 a\n{DEVICE}\n0001:00:01.0 b\n{DEVICE}\n");
    let files = Machine::new(&text);
    let text = stdout(files.dump(&[]));
    let starts: Vec<_> = text.lines().map(|line| &line[..12]).collect();
    assert_eq!(starts, ["0000:00:01.0", "0001:00:01.0"]);
    let tree = stdout(files.dump(&["--tree"]));
    let roots: Vec<_> = tree.lines().filter(|line| depth(line) == 0).collect();
    assert_eq!(roots, ["0000:00", "0001:00"]);
}

/// Two segments: a laptop's boot disk is behind Intel's Volume Management Device, whose segments
/// Linux numbers from 0x10000 on.
#[test]
fn functions_in_segments_above_16_bits_are_listed_as_lspci_lists_them() {
    let test = "functions_in_segments_above_16_bits_are_listed_as_lspci_lists_them";
    let disk = DEVICE.replace("00 00 ff 00 00", "02 08 01 00 00");
    let bridge = BRIDGE.replace("02 02 01 00 f0", "e0 e1 e1 00 f0");
    let files = Machine::new(&format!(
        "0000:00:01.0 a\n{DEVICE}\n10000:e0:06.0 port\n{bridge}\n10000:e1:00.0 disk\n{disk}\n\
         ffffffff:00:00.0 last\n{disk}\n"
    ));
    let text = stdout(files.dump(&[]));
    let addresses: Vec<_> = text
        .lines()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    let expected = [
        "0000:00:01.0",
        "10000:e0:06.0",
        "10000:e1:00.0",
        "ffffffff:00:00.0",
    ];
    assert_eq!(addresses, expected);
    let document = json(files.dump(&["--json"]));
    assert_eq!(document["devices"][2]["address"], "10000:e1:00.0");
    assert_eq!(document["devices"][2]["class"], "010802");
    let tree = stdout(files.dump(&["--tree"]));
    assert!(tree.contains("10000:e0\n\\- e0:06.0 "), "{tree}");
    assert!(tree.contains("\n  \\- e1:00.0 "), "{tree}");
    // The same from a copy of sysfs.
    let root = files.folder.path().join("sysfs");
    for (address, lines) in [
        ("10000:e1:00.0", &disk),
        ("0000:00:01.0", &DEVICE.to_owned()),
    ] {
        let digits = lines.lines().flat_map(|line| line.split(' ').skip(1));
        let bytes = digits.map(|digits| u8::from_str_radix(digits, 16).unwrap());
        fs::create_dir_all(root.join(address)).unwrap();
        fs::write(root.join(address).join("config"), bytes.collect::<Vec<_>>()).unwrap();
    }
    let text = stdout(list(&["--sysfs", root.to_str().unwrap()]));
    assert!(text.contains("\n10000:e1:00.0 Non-Volatile"), "{text}");
    // lspci of pciutils 3.9 reads segments of five digits in a dump.
    let files = Machine::new(
        &fs::read_to_string(&files.dump)
            .unwrap()
            .replace("ffffffff", "fffff"),
    );
    if let Some(truth) = lspci(test, &["-nn", "-F", files.dump.to_str().unwrap()]) {
        same(&stdout(files.dump(&[])), &truth);
    }
}

/// Vendor and device of a virtual function read all ones (PCI Express Base, 9.3.4.1.1).
#[test]
fn virtual_functions_are_listed_by_the_numbers_of_their_line_or_else_as_lspci_lists_them() {
    let test =
        "virtual_functions_are_listed_by_the_numbers_of_their_line_or_else_as_lspci_lists_them";
    let registers = DEVICE
        .replace("34 12 78 56", "ff ff ff ff")
        .replace("02 00 00 ff", "01 00 00 02");
    let names = [
        "Ethernet controller [0200]: Intel Corporation 82576 Virtual Function [8086:10ca] (rev 01)",
        "0200: 8086:10ca (rev 01)",
        "\"0200\" \"8086\" \"10ca\" -r01 \"\" \"\"",
        "Ethernet controller: Intel Corporation 82576 Virtual Function (rev 01)",
    ];
    for (n, name) in names.into_iter().enumerate() {
        let files = Machine::new(&format!("02:10.0 {name}\n{registers}\n"));
        let text = stdout(files.dump(&[]));
        let ids = if n < 2 { "[8086:10ca]" } else { "[ffff:ffff]" };
        assert_eq!(
            numbers(text.trim_end()),
            ("02:10.0", "0200", ids, "01)"),
            "{name}"
        );
        let document = json(files.dump(&["--json"]));
        assert_eq!(document["devices"][0]["class"], "020000");
        let Some(truth) = lspci(test, &["-nn", "-F", files.dump.to_str().unwrap()]) else {
            continue;
        };
        let truth = truth.replace("ffff:ffff", &ids[1..10]);
        assert_eq!(numbers(truth.trim_end()), numbers(text.trim_end()));
    }
}

/// The physical function's capability gives the IDs of all of its virtual functions, and their
/// addresses (PCI Express Base, 9.3.3).
#[test]
fn virtual_functions_have_the_numbers_that_their_physical_function_gives() {
    let sriov = "\
40: 10 00 02 00 00 00 00 00 00 00 00 00 00 00 00 00
100: 10 00 01 00 00 00 00 00 01 00 00 00 08 00 08 00
110: 03 00 00 00 80 00 02 00 00 00 ca 10 00 00 00 00
";
    let registers = DEVICE.replace("34 12 78 56", "ff ff ff ff");
    let mut text = format!("01:00.0 physical\n{DEVICE}{sriov}\n");
    // Three functions: the first is 0x80 after the physical function, and every second number is
    // used.
    for address in ["01:10.0", "01:10.2", "01:10.4", "01:10.1", "01:10.6"] {
        text += &format!("{address} virtual\n{registers}\n");
    }
    let listed = both(Machine::new(&text).dump(&[])).0;
    let ids: Vec<_> = listed.lines().map(|line| numbers(line).2).collect();
    let (own, none) = ("[1234:10ca]", "[ffff:ffff]");
    assert_eq!(ids, ["[1234:5678]", own, none, own, own, none]);
}

#[test]
fn other_files_than_lists_of_devices_are_refused_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "hello\n").unwrap();
    let file = file.to_str().unwrap();
    let missing = format!("{path}/missing");
    for (args, hint) in [
        (["--dump", path], "use --sysfs"),
        (["--dump", file], "not a dump of lspci's"),
        (["--dump", &missing], "No such file"),
        (["--sysfs", file], "use --dump"),
        (["--sysfs", path], "no PCI devices here"),
        (["--sysfs", &missing], "No such file"),
    ] {
        let said = error(list(&args));
        assert!(said.starts_with("nostall: "), "{said}");
        assert!(said.contains(hint), "{said}");
        assert!(said.contains(args[1]), "{said}");
    }
    let named = Machine::new("00:01.0 Host bridge: A vendor's\n");
    assert!(error(named.dump(&[])).contains("use lspci -xxxx"));
    for args in [
        &["--tree", "--json"][..],
        &["--tree", "-v"],
        &["--sysfs", "a", "--dump", "b"],
    ] {
        assert_eq!(list(args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn a_reader_that_closes_the_pipe_is_no_error() {
    let files = Machine::of("nested");
    let mut command = command(&["-v", "--dump", files.dump.to_str().unwrap()]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(output.stderr.is_empty());
}

#[test]
fn a_pipe_gets_no_colours() {
    let text = stdout(Machine::of("nested").dump(&["--tree"]));
    assert!(!text.contains('\x1b'));
}

//! Linux's log in the memory of crashed guests, compared with Linux's own records.
//!
//! `linux/memory-images` boots the guests. Their init reads all records from `/dev/kmsg` before the
//! crash, so these are compared one by one. The records of the crash are compared with the console.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::linux::{linux_with_traces, run_script};

/// A record of Linux's log.
#[derive(Clone, Debug, PartialEq)]
struct Record {
    sequence: u64,
    /// Time since boot in microseconds: `/dev/kmsg` and consoles have no nanoseconds.
    micros: u64,
    facility: u64,
    level: u64,
    subsystem: Option<String>,
    device: Option<String>,
    text: Vec<u8>,
}

/// The files of a guest.
struct Guest {
    folder: TempDir,
    name: &'static str,
}

impl Guest {
    fn file(&self, extension: &str) -> PathBuf {
        let name = format!("{}.{extension}", self.name);
        self.folder.path().join(name)
    }

    /// Returns the records that the guest read from `/dev/kmsg`.
    fn truth(&self) -> Vec<Record> {
        kmsg(&fs::read(self.file("truth")).unwrap())
    }

    fn console(&self) -> String {
        let text = fs::read(self.file("serial")).unwrap();
        String::from_utf8_lossy(&text).replace('\r', "")
    }

    /// Returns the lines `cause` and `kernel_message` that the command prints for a file of the guest.
    fn decoded(&self, extension: &str) -> Vec<Value> {
        let output = Command::new(cargo_bin("nostall"))
            .args(["postmortem", "--format", "json"])
            .arg(self.file(extension))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", self.name);
        let lines = String::from_utf8(output.stdout).unwrap();
        let lines = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        lines
            .filter(|line: &Value| line["type"] == "cause" || line["type"] == "kernel_message")
            .collect()
    }
}

/// Boots the guest of this name to its end, or skips the test as [`run_script`].
fn guest(test: &str, name: &'static str) -> Option<Guest> {
    let folder = run_script(test, "memory-images", &[name.as_ref()])?;
    Some(Guest { folder, name })
}

/// Parses `PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;TEXT`, with a line ` KEY=VALUE` for each field. In
/// texts and values, Linux escapes each byte that does not print, and the backslash.
fn kmsg(bytes: &[u8]) -> Vec<Record> {
    let text = str::from_utf8(bytes).expect("/dev/kmsg returns ASCII");
    let mut records: Vec<Record> = Vec::new();
    for line in text.lines() {
        if let Some(field) = line.strip_prefix(' ') {
            let record = records.last_mut().expect("a field follows its record");
            match field.split_once('=') {
                Some(("SUBSYSTEM", value)) => record.subsystem = Some(value.to_owned()),
                Some(("DEVICE", value)) => record.device = Some(value.to_owned()),
                _ => panic!("{field}: no known field"),
            }
        } else if line.starts_with(|first: char| first.is_ascii_digit()) {
            let (prefix, text) = line.split_once(';').unwrap();
            let mut numbers = prefix.split(',').map_while(|number| number.parse().ok());
            let mut number = || -> u64 { numbers.next().unwrap() };
            let (priority, sequence, micros) = (number(), number(), number());
            records.push(Record {
                sequence,
                micros,
                facility: priority >> 3,
                level: priority & 7,
                subsystem: None,
                device: None,
                text: unescaped(text),
            });
        }
    }
    records
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at(2);
        bytes.push(u8::from_str_radix(digits, 16).unwrap());
        bytes.extend(rest.bytes());
    }
    bytes
}

/// Returns the record in a line `kernel_message`, or `None` if a number is missing.
fn record(line: &Value) -> Option<Record> {
    let word = |name: &str| line[name].as_str().map(str::to_owned);
    let text = match line["data_hex"].as_str() {
        Some(digits) => unhexed(digits)?,
        None => line["text"].as_str()?.as_bytes().to_vec(),
    };
    Some(Record {
        sequence: line["sequence"].as_u64()?,
        micros: line["time_ns"].as_u64()? / 1000,
        facility: line["facility"].as_u64()?,
        level: line["level"].as_u64()?,
        subsystem: word("subsystem"),
        device: word("device"),
        text,
    })
}

fn unhexed(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}

/// Compares decoded records with those that `/dev/kmsg` returned, and the later ones with the end of
/// the console's text.
fn compare(decoded: &[Record], truth: &[Record], console: &str) -> Result<(), String> {
    for (ours, theirs) in decoded.iter().zip(truth) {
        if ours != theirs {
            return Err(format!("{ours:?} is not Linux's {theirs:?}"));
        }
    }
    let count = decoded.len();
    if truth.is_empty() || count <= truth.len() {
        return Err(format!("{count} records: those of the crash are missing"));
    }
    for pair in decoded.windows(2) {
        if pair[0].sequence + 1 != pair[1].sequence {
            return Err(format!("nothing between {:?} and {:?}", pair[0], pair[1]));
        }
    }
    // With the newest of the others, so that nothing lies between.
    let end: String = decoded[truth.len() - 1..].iter().map(printed).collect();
    if !console.ends_with(&end) {
        return Err(format!("the console does not end with\n{end}"));
    }
    Ok(())
}

/// Returns a record as a console prints it: the time stands before each line.
fn printed(record: &Record) -> String {
    let (seconds, micros) = (record.micros / 1_000_000, record.micros % 1_000_000);
    let text = String::from_utf8_lossy(&record.text);
    let lines = text.split('\n');
    lines
        .map(|line| format!("[{seconds:5}.{micros:06}] {line}\n"))
        .collect()
}

/// Boots a guest that crashes, and compares the log in its memory.
fn is_decoded_whole(test: &str, name: &'static str) {
    let Some(guest) = guest(test, name) else {
        return;
    };
    let decoded: Vec<_> = guest.decoded("ram").iter().filter_map(record).collect();
    let truth = guest.truth();
    assert!(truth.len() > 100, "{name}: {} records", truth.len());
    compare(&decoded, &truth, &guest.console()).unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// The ring lies above 4 GiB, so its address is not its offset in the file.
#[test]
fn each_record_of_a_pc_with_split_memory_is_decoded() {
    let test = "each_record_of_a_pc_with_split_memory_is_decoded";
    is_decoded_whole(test, "q35-4g");
}

/// The memory starts at physical 1 GiB, and the file does not have that number.
#[test]
fn each_record_of_an_arm64_board_is_decoded() {
    let test = "each_record_of_an_arm64_board_is_decoded";
    is_decoded_whole(test, "virt");
}

/// An NMI stopped Linux inside printk. Its console ends at the unfinished record, and the panic is
/// only in memory.
#[test]
fn a_panic_that_no_console_printed_is_decoded() {
    let test = "a_panic_that_no_console_printed_is_decoded";
    let Some(guest) = guest(test, "nmi") else {
        return;
    };
    let panic = "Kernel panic - not syncing: NMI: Not continuing";
    assert!(!guest.console().contains(panic), "{}", guest.console());
    let lines = guest.decoded("ram");
    let (cause, lines) = lines.split_first().unwrap();
    assert_eq!(cause["panic"], "NMI: Not continuing");
    assert_eq!(cause["task"], "init");
    // Its text is already there, as in a record that a caller continues.
    let open = lines.iter().position(|line| line["state"] == "reopened");
    let open = open.expect("the record that was being written");
    let panics = lines.iter().position(|line| line["text"] == panic);
    let panics = panics.expect("the panic is in the log");
    assert!(open < panics, "{open} {panics}");
    let states = lines.iter().filter(|line| line["state"] != "complete");
    assert_eq!(states.count(), 1);
    // The console's own place in the log is where its text ends.
    let by = |line: &Value| line["printed"] == serde_json::json!(["ttyS0"]);
    let next = lines.iter().position(|line| !by(line)).unwrap();
    assert!(next <= open, "{next} {open}");
    assert!(
        lines[next..]
            .iter()
            .all(|line| line["printed"] == serde_json::json!([]))
    );
    let last = printed(&record(&lines[next - 1]).unwrap());
    let first = printed(&record(&lines[next]).unwrap());
    assert!(guest.console().contains(&last) && !guest.console().contains(&first));
}

/// The kernels of `make linux-peer` have no kexec, so no VMCOREINFO.
#[test]
fn the_log_of_a_kernel_without_vmcoreinfo_is_decoded() {
    let test = "the_log_of_a_kernel_without_vmcoreinfo_is_decoded";
    let Some(linux) = linux_with_traces(test) else {
        return;
    };
    let (folder, name) = (tempfile::tempdir().unwrap(), "kernel");
    let guest = Guest { folder, name };
    let ram = guest.file("ram");
    let ram = format!(
        "memory-backend-file,id=ram,size=256M,share=on,mem-path={}",
        ram.display()
    );
    // Without a root file system it panics, and the restart ends QEMU.
    let status = Command::new("qemu-system-x86_64")
        .args(["-machine", "q35,memory-backend=ram", "-object", &ram])
        .args(["-m", "256M", "-smp", "2", "-accel", "tcg", "-nodefaults"])
        .args(["-no-reboot", "-display", "none", "-kernel"])
        .arg(linux.file("vmlinuz"))
        .args([
            "-append",
            "console=ttyS0 ignore_loglevel panic=-1 no_timer_check",
        ])
        .args([
            "-serial",
            &format!("file:{}", guest.file("serial").display()),
        ])
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let log: Vec<_> = guest.decoded("ram").iter().filter_map(record).collect();
    assert!(log.len() > 100, "{} records", log.len());
    let text: String = log.iter().map(printed).collect();
    // The console also has the firmware's text, and what Linux prints after the log's end.
    let console = guest.console();
    assert!(console.contains(&text), "{console}\nis not\n{text}");
}

/// A log in the form of `/dev/kmsg`.
const KMSG: &[u8] = b"6,7,1000001,-;first\n\
    12,8,1000002,c;two\\x0alines \\x5c \\xff\n SUBSYSTEM=acpi\n DEVICE=+acpi:PNP0A08:00\n\
    14,9,1000003,-;\nend\n";

fn example() -> (Vec<Record>, Vec<Record>, String) {
    let truth = kmsg(KMSG);
    let panic = |sequence, text: &str| Record {
        sequence,
        micros: 2_000_000,
        facility: 0,
        level: 0,
        subsystem: None,
        device: None,
        text: text.as_bytes().to_vec(),
    };
    let decoded = [&truth[..], &[panic(10, "Oops\nat 0"), panic(11, "end")]].concat();
    let console = "[    1.000003] \n[    2.000000] Oops\n[    2.000000] at 0\n[    2.000000] end\n";
    (decoded, truth, console.to_owned())
}

#[test]
fn kmsg_is_parsed() {
    let records = kmsg(KMSG);
    assert_eq!(records.len(), 3);
    let second = &records[1];
    assert_eq!((second.facility, second.level), (1, 4));
    assert_eq!((second.sequence, second.micros), (8, 1_000_002));
    assert_eq!(second.text, b"two\nlines \\ \xff");
    assert_eq!(second.subsystem.as_deref(), Some("acpi"));
    assert_eq!(second.device.as_deref(), Some("+acpi:PNP0A08:00"));
    assert_eq!(records[2].text, b"");
}

#[test]
fn a_json_line_is_a_record() {
    let line = r#"{"type":"kernel_message","sequence":8,"time_ns":1000002999,"facility":1,
        "level":4,"text":"two?","data_hex":"74776fff","subsystem":"acpi"}"#;
    let line = serde_json::from_str(line).unwrap();
    let record = record(&line).unwrap();
    assert_eq!((record.sequence, record.micros), (8, 1_000_002));
    assert_eq!(record.text, b"two\xff");
    assert_eq!(record.subsystem.as_deref(), Some("acpi"));
}

#[test]
fn the_comparison_accepts_only_the_whole_log() {
    let (decoded, truth, console) = example();
    compare(&decoded, &truth, &console).unwrap();
    // Without any one of its records.
    for missing in 0..decoded.len() {
        let mut fewer = decoded.clone();
        fewer.remove(missing);
        assert!(compare(&fewer, &truth, &console).is_err(), "{missing}");
    }
    // With a change of any field.
    let changes: [fn(&mut Record); 7] = [
        |record| record.sequence += 1,
        |record| record.micros += 1,
        |record| record.facility += 1,
        |record| record.level ^= 1,
        |record| record.subsystem = Some("pci".to_owned()),
        |record| record.device = Some("c4:64".to_owned()),
        |record| record.text.push(b'.'),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut changed = decoded.clone();
        change(&mut changed[1]);
        assert!(compare(&changed, &truth, &console).is_err(), "{number}");
    }
    // With a change of the crash's records that the console has.
    for change in [changes[0], changes[1], changes[6]] {
        let mut changed = decoded.clone();
        change(changed.last_mut().unwrap());
        assert!(compare(&changed, &truth, &console).is_err());
    }
    assert!(compare(&decoded, &truth, "").is_err());
    assert!(compare(&truth, &truth, &console).is_err());
    let more = console.replace(
        "[    2.000000] Oops",
        "[    2.000000] more\n[    2.000000] Oops",
    );
    assert!(compare(&decoded, &truth, &more).is_err());
}

//! `nostall postmortem` as its user sees it: on the recordings of real Linux, and on files that
//! are no recording.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

const FIXTURES: [&str; 8] = [
    "plain",
    "ecc16",
    "zstd",
    "lz4",
    "nocompress",
    "armv7",
    "armv7-ecc",
    "wrap",
];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../drivers/pstore/tests/fixtures")
}

fn image(name: &str) -> PathBuf {
    fixtures().join(name).join("image.bin")
}

fn decode(image: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(cargo_bin("nostall"));
    command.args(["postmortem", "-v"]).arg(image).args(args);
    command.stdin(Stdio::null()).output().unwrap()
}

fn stdout(output: &Output) -> &[u8] {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    &output.stdout
}

/// Returns the one line on stderr of a command that found no records: no region, a damaged one,
/// or nothing to read.
fn error(image: &Path, args: &[&str]) -> String {
    let output = decode(image, args);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(matches!(output.status.code(), Some(1 | 4 | 5)), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(output.stdout.is_empty());
    error
}

/// Returns the kernel's parameters in params.txt, as options.
fn options(name: &str) -> Vec<String> {
    let params = fs::read_to_string(fixtures().join(name).join("params.txt")).unwrap();
    let words = params
        .split_whitespace()
        .map(|word| word.split_once('=').unwrap());
    let options = words.filter_map(|(key, value)| {
        let option = match key {
            "mem_size" => "size",
            "smp" => "cpus",
            "arch" | "flags" => key,
            "pstore.compress" => "compression",
            _ => key.strip_prefix("ramoops.")?,
        };
        Some([format!("--{}", option.replace('_', "-")), value.to_owned()])
    });
    options.flatten().collect()
}

fn linux_files(name: &str) -> BTreeMap<String, Vec<u8>> {
    files(&fixtures().join(name).join("pstore"))
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(|file| {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        (name, fs::read(file.path()).unwrap())
    });
    files.collect()
}

/// Returns the options for a symbol table of the functions that Linux could name.
fn symbols(name: &str) -> Vec<String> {
    if name != "armv7" {
        return vec![];
    }
    let table = fixtures().join("System.map-armv7.gz");
    vec!["--symbols".into(), table.to_str().unwrap().into()]
}

#[test]
fn every_recording_gives_linuxs_files_with_its_parameters_given_and_with_none() {
    for name in FIXTURES {
        for options in [options(name), vec![]] {
            let folder = tempfile::tempdir().unwrap();
            let out = folder.path().join("a/new/folder");
            let mut args = [options, symbols(name)].concat();
            args.extend(["--format", "linux", "--out", out.to_str().unwrap()].map(String::from));
            let args: Vec<_> = args.iter().map(String::as_str).collect();
            assert!(stdout(&decode(&image(name), &args)).is_empty());
            let (ours, linux) = (files(&out), linux_files(name));
            assert_eq!(
                ours.keys().collect::<Vec<_>>(),
                linux.keys().collect::<Vec<_>>()
            );
            for (file, bytes) in ours {
                assert!(bytes == linux[&file], "{name} {args:?}: {file}");
            }
        }
    }
}

#[test]
fn without_a_folder_linuxs_files_follow_one_another_as_tail_prints_them() {
    let output = decode(&image("nocompress"), &["--format", "linux"]);
    let linux = linux_files("nocompress");
    let mut expected = vec![];
    for kind in ["dmesg", "console", "pmsg", "ftrace"] {
        let (name, between) = (
            format!("{kind}-ramoops-0"),
            if kind == "dmesg" { "" } else { "\n" },
        );
        expected.extend(format!("{between}==> {name} <==\n").bytes());
        expected.extend(&linux[&name]);
    }
    assert!(stdout(&output) == expected);
}

#[test]
fn detection_says_how_it_knows_and_what_would_say_the_same() {
    let found = decode(&image("ecc16"), &[]);
    let why = String::from_utf8(found.stderr.clone()).unwrap();
    assert!(why.contains("6.1.192"), "{why}");
    let (_, by_hand) = why.split_once("the same by hand: ").unwrap();
    let by_hand: Vec<_> = by_hand.lines().next().unwrap().split(' ').collect();
    let given = decode(&image("ecc16"), &by_hand);
    assert!(stdout(&found) == stdout(&given));
}

#[test]
fn without_cpus_the_trace_zones_are_counted() {
    let mut args = options("wrap");
    let at = args.iter().position(|arg| arg == "--cpus").unwrap();
    args.drain(at..at + 2);
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let output = decode(&image("wrap"), &args);
    assert!(stdout(&output) == stdout(&decode(&image("wrap"), &[])));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--cpus 3"));
}

#[test]
fn text_has_a_summary_contents_and_marks_and_no_escapes_in_a_pipe() {
    let output = decode(&image("ecc16"), &[]);
    let text = String::from_utf8(stdout(&output).to_vec()).unwrap();
    for word in [
        "dmesg 0: 20",
        "by deflate; ECC: no errors",
        "Panic#1 Part1",
        "console 0: ",
        "ftrace 0: ",
        "pmsg 0: ",
        "(suspect)",
        "(unverified)",
        " <- 0x",
    ] {
        assert!(text.contains(word), "{word}");
    }
    assert!(!text.contains('\x1b'));
}

#[test]
fn cpus_can_be_shown_side_by_side_and_the_writer_be_named() {
    let trace = |args: &[&str]| -> Vec<String> {
        let output = decode(&image("wrap"), args);
        let text = String::from_utf8_lossy(stdout(&output));
        let lines = text.lines().filter(|line| line.contains(" CPU "));
        lines.map(str::to_owned).collect()
    };
    let cpu = |line: &str| line.split_whitespace().nth(2).unwrap().to_owned();
    let of = |lines: &[String], wanted: &str| -> Vec<String> {
        lines
            .iter()
            .filter(|line| cpu(line) == wanted)
            .cloned()
            .collect()
    };
    let merged = trace(&[]);
    let side_by_side = trace(&["--per-cpu"]);
    assert!(!merged.is_sorted_by_key(|line| cpu(line)));
    assert!(side_by_side.is_sorted_by_key(|line| cpu(line)));
    for wanted in ["0", "1", "2"] {
        assert_eq!(of(&merged, wanted), of(&side_by_side, wanted));
    }
    assert!(error(&image("wrap"), &["--per-cpu", "--format", "linux"]).contains("--per-cpu"));

    // Three full rings: the oldest record of each is suspect. Where Linux wrote, the newest is
    // as well.
    let suspect = |lines: &[String]| {
        lines
            .iter()
            .filter(|line| line.contains("(suspect)"))
            .count()
    };
    assert_eq!(suspect(&merged), 6);
    assert_eq!(suspect(&trace(&["--writer", "nostall"])), 3);
}

#[test]
fn names_come_with_the_offset_that_the_log_says() {
    let table = fixtures().join("System.map.gz");
    let table = table.to_str().unwrap();
    let output = decode(&image("plain"), &["--symbols", table]);
    let text = String::from_utf8_lossy(stdout(&output)).into_owned();
    assert!(text.contains("buffer_size_add <- persistent_ram_write+0x38/0xf0"));
    // Without a log, the trace gives the offset.
    let output = decode(&image("wrap"), &["--symbols", table]);
    let text = String::from_utf8_lossy(stdout(&output)).into_owned();
    assert!(text.contains("update_rq_clock <- load_balance+0x4e2/0xc50"));
    // The user may also give it.
    let args = ["--symbols", table, "--kaslr-offset", "0x7000000000"];
    let text = decode(&image("plain"), &args);
    assert!(!String::from_utf8_lossy(stdout(&text)).contains("persistent_ram_write+"));
}

#[test]
fn json_is_one_object_a_line_with_the_words_of_the_help() {
    for name in FIXTURES {
        let output = decode(&image(name), &["--format", "json"]);
        let text = String::from_utf8(stdout(&output).to_vec()).unwrap();
        let linux = linux_files(name);
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let of = |kind: &str| -> Vec<&Value> {
            lines.iter().filter(|line| line["type"] == kind).collect()
        };
        assert_eq!(of("record").len(), linux.len());
        let calls = of("call");
        for record in of("record") {
            assert_eq!(record["schema"], 2);
            let file = &linux[record["name"].as_str().unwrap()];
            match record["kind"].as_str().unwrap() {
                "ftrace" => {
                    assert_eq!(record["calls"], calls.len());
                    assert!(calls[0]["suspect"].as_bool().unwrap());
                    assert!(calls.iter().all(|call| call["ip"].is_string()));
                    if record["ecc"].is_null() {
                        let lines = file.split(|&byte| byte == b'\n').count() - 1;
                        assert_eq!(calls.len(), lines, "{name}");
                    }
                }
                kind => {
                    let text = record["text"].as_str().unwrap();
                    assert!(file.starts_with(text.as_bytes()), "{name} {kind}");
                    assert_eq!(record["unverified"], Value::Array(vec![]));
                    assert_eq!(record["compression"].is_string(), kind == "dmesg");
                }
            }
        }
    }
}

#[test]
fn files_are_not_overwritten_unless_by_force() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let kept = folder.path().join("pmsg-ramoops-0");
    fs::write(&kept, "precious").unwrap();
    let args = ["--out", out, "--size", "256K"];
    let refused = decode(&image("plain"), &args);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8(refused.stderr).unwrap();
    let said = said.lines().last().unwrap();
    assert!(
        said.contains("pmsg-ramoops-0") && said.contains("--force"),
        "{said}"
    );
    assert_eq!(files(folder.path()).len(), 1);
    let forced = decode(&image("plain"), &[&args[..], &["--force"]].concat());
    let summaries = String::from_utf8_lossy(stdout(&forced)).into_owned();
    // The cause, and a line for each file.
    assert_eq!(summaries.lines().count(), 5, "{summaries}");
    assert_eq!(
        fs::read(&kept).unwrap(),
        linux_files("plain")["pmsg-ramoops-0"]
    );
    decode(&image("plain"), &["--format", "json", "--out", out]);
    assert!(folder.path().join("dmesg-ramoops-0.json").exists());
}

#[test]
fn a_file_that_is_no_recording_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut random = 1u64;
    let noise = (0..300_000).map(|_| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) as u8
    });
    fs::write(path("noise"), noise.collect::<Vec<_>>()).unwrap();
    fs::write(path("ones"), vec![0xff; 300_000]).unwrap();
    fs::write(path("zeros"), vec![0; 300_000]).unwrap();
    fs::write(path("short"), b"DBGC").unwrap();
    fs::write(path("empty"), b"").unwrap();
    for args in [
        &[][..],
        &["--cpus", "2"],
        &["--ecc", "1", "--cpus", "4096"],
        &["--ecc", "200"],
        &["--flags", "0", "--size", "8G"],
        &["--offset", "1G"],
    ] {
        for name in ["noise", "ones", "zeros", "short", "empty", "missing"] {
            error(&path(name), args);
        }
    }
    assert!(error(&path("missing"), &[]).contains("No such file"));
    assert!(error(&path("ones"), &["--cpus", "1"]).contains("no signature"));
    assert!(error(&image("plain"), &["--symbols", "/nowhere"]).contains("/nowhere"));
    // Big endian for a little-endian image.
    let mut options = options("plain");
    options.extend(["--order", "big"].map(String::from));
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    assert!(error(&image("plain"), &options).contains("other byte order"));
}

#[test]
fn of_a_truncated_image_there_is_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("half");
    let whole = fs::read(image("nocompress")).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let options = options("nocompress");
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    let args = [&options[..], &["--format", "linux"]].concat();
    let output = decode(&path, &args);
    let text = stdout(&output);
    assert!(text.starts_with(b"==> dmesg-ramoops-0 <==\nPanic#1 Part1"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("only 131072 of the 262144 bytes"), "{said}");
    assert!(
        said.contains("pmsg zone 0 at 0x3dffa cannot be read"),
        "{said}"
    );
    assert!(decode(&path, &[]).status.success());
}

#[test]
fn a_region_in_the_middle_of_a_dump_is_found_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump");
    let mut dump = vec![0; 0x12_3000];
    dump.extend(fs::read(image("lz4")).unwrap());
    dump.resize(dump.len() + 0x10_0000, 0);
    fs::write(&path, dump).unwrap();
    let expected = decode(&image("lz4"), &["--format", "linux"]);
    let options = options("lz4");
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    for args in [&[][..], &[&options[..], &["--offset", "0x123000"]].concat()] {
        let found = decode(&path, &[args, &["--format", "linux"]].concat());
        assert!(stdout(&found) == stdout(&expected));
    }
}

#[test]
fn a_hole_at_the_end_of_a_file_is_memory_too() {
    // Nothing was written behind the last record, so a file system may leave that out.
    let bytes = fs::read(image("plain")).unwrap();
    let data = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sparse");
    let file = fs::File::create(&path).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    (&file).write_all(&bytes[..data]).unwrap();
    let output = decode(&path, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--size 0x40000 "), "{said}");
}

/// Reads a dump of a guest's memory from QEMU's own command.
#[test]
fn qemus_dump_of_a_guests_memory_is_read() {
    let is_here = Command::new("qemu-system-x86_64").arg("--version").output();
    if let Err(error) = is_here {
        assert!(
            std::env::var_os("NOSTALL_REQUIRE_QEMU").is_none(),
            "{error}"
        );
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED qemus_dump_of_a_guests_memory_is_read: qemu-system-x86_64: {error}"
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (ram, dump) = (folder.path().join("ram"), folder.path().join("dump"));
    let file = fs::File::create(&ram).unwrap();
    file.set_len(32 << 20).unwrap();
    file.write_all_at(&fs::read(image("ecc16")).unwrap(), 16 << 20)
        .unwrap();
    let backend = format!(
        "memory-backend-file,id=ram,share=on,size=32M,mem-path={}",
        ram.display()
    );
    // The machine never starts to run.
    let mut qemu = Command::new("timeout");
    qemu.args([
        "60",
        "qemu-system-x86_64",
        "-S",
        "-accel",
        "tcg",
        "-m",
        "32M",
    ])
    .args(["-M", "q35,memory-backend=ram", "-object", &backend])
    .args([
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-monitor",
        "stdio",
    ])
    .stdin(Stdio::piped())
    .stdout(Stdio::piped());
    let mut qemu = qemu.spawn().unwrap();
    let compressed = folder.path().join("compressed");
    let commands = format!(
        "dump-guest-memory {}\ndump-guest-memory -z {}\nquit\n",
        dump.display(),
        compressed.display()
    );
    qemu.stdin
        .take()
        .unwrap()
        .write_all(commands.as_bytes())
        .unwrap();
    let said = qemu.wait_with_output().unwrap();
    assert!(
        said.status.success(),
        "{}",
        String::from_utf8_lossy(&said.stdout)
    );

    let expected = decode(&image("ecc16"), &["--format", "linux"]);
    for dump in [dump, compressed] {
        let found = decode(&dump, &["--format", "linux"]);
        assert!(stdout(&found) == stdout(&expected));
        let said = String::from_utf8(found.stderr).unwrap();
        assert!(
            said.contains("--offset 0x1000000 --size 0x40000 "),
            "{said}"
        );
    }
}

#[test]
fn in_an_elf_core_offsets_are_physical_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vmcore");
    let region = fs::read(image("plain")).unwrap();
    // Elf64_Ehdr of a core for x86-64 with one Elf64_Phdr behind it: PT_LOAD.
    let mut core = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let half = |core: &mut Vec<u8>, word: u16| core.extend(word.to_le_bytes());
    let word = |core: &mut Vec<u8>, word: u32| core.extend(word.to_le_bytes());
    let long = |core: &mut Vec<u8>, word: u64| core.extend(word.to_le_bytes());
    half(&mut core, 4);
    half(&mut core, 62);
    word(&mut core, 1);
    for value in [0, 64, 0] {
        long(&mut core, value);
    }
    word(&mut core, 0);
    for value in [64, 56, 1, 0, 0, 0] {
        half(&mut core, value);
    }
    let (at, before) = (0x1c00_0000, 0x3000);
    let len = before + region.len() as u64;
    word(&mut core, 1);
    word(&mut core, 7);
    for value in [120, 0, at - before, len, len, 0] {
        long(&mut core, value);
    }
    core.resize(core.len() + before as usize, 0);
    core.extend(&region);
    fs::write(&path, core).unwrap();

    let records = |output: &Output| -> Vec<String> {
        let text = String::from_utf8(stdout(output).to_vec()).unwrap();
        let is_of_one = |line: &&str| {
            let kinds = ["\"cause\"", "\"region\"", "\"end\""];
            kinds.iter().any(|kind| line.contains(kind))
        };
        let lines = text.lines().filter(|line| !is_of_one(line));
        lines.map(str::to_owned).collect()
    };
    let expected = records(&decode(&image("plain"), &["--format", "json"]));
    let found = decode(&path, &["--format", "json"]);
    assert!(expected.len() > 4 && records(&found) == expected);
    let said = String::from_utf8(found.stderr).unwrap();
    assert!(said.contains("--offset 0x1c000000"), "{said}");
    let options = options("plain");
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    let given = [&options[..], &["--format", "json", "--offset", "448M"]].concat();
    assert!(records(&decode(&path, &given)) == expected);
    assert!(error(&path, &["--offset", "1M"]).contains("0x1bffd000"));
}

#[test]
fn a_reader_that_closes_the_pipe_ends_the_command_without_a_message() {
    let mut command = Command::new(cargo_bin("nostall"));
    command.args(["postmortem"]).arg(image("plain"));
    // Closed before the command writes.
    let (_, closed) = std::io::pipe().unwrap();
    let output = command.stdout(closed).output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 13));
    assert!(output.stderr.is_empty());
}

#[test]
fn the_help_has_examples_and_the_json_words() {
    let output = Command::new(cargo_bin("nostall"))
        .args(["postmortem", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    for word in [
        "Examples:",
        "--record-size",
        "stored_bytes",
        "unverified",
        "Exit status:",
        "suspect",
        "0x",
        "LiME",
    ] {
        assert!(help.contains(word), "{word}: {help}");
    }
}

#[test]
fn the_help_fills_a_terminal_of_80_columns_and_leaves_its_examples_whole() {
    let help = Command::new(cargo_bin("nostall"))
        .args(["postmortem", "--help"])
        .env("COLUMNS", "80")
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.lines().all(|line| line.len() <= 80), "{help}");
    let (_, after) = help.split_once("Examples:\n").unwrap();
    let (examples, paragraphs) = after.split_once("\n\n").unwrap();
    assert!(
        examples.lines().all(|line| line.starts_with("  ")),
        "{examples}"
    );
    // Lists are broken by hand.
    let is_list = |paragraph: &&str| paragraph.contains("\n  ");
    for paragraph in paragraphs.split("\n\n").filter(|one| !is_list(one)) {
        let lines: Vec<_> = paragraph.lines().collect();
        let (_, full) = lines.split_last().unwrap();
        assert!(full.iter().all(|line| line.len() > 60), "{paragraph}");
    }
}

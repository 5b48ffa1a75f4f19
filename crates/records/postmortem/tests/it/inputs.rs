//! `nostall postmortem` on files that are large, have no end, or are no recording. Its time and
//! memory are bounded, and it reports no region where there is none.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;

fn image(name: &str) -> PathBuf {
    let fixtures =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../drivers/pstore/tests/fixtures");
    fixtures.join(name).join("image.bin")
}

fn start(image: &Path, args: &[&str]) -> Child {
    let mut command = Command::new(cargo_bin("nostall-postmortem"));
    command.arg(image).args(args).arg("--verbose");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

fn decode(image: &Path, args: &[&str]) -> Output {
    start(image, args).wait_with_output().unwrap()
}

/// Returns the peak memory of a process in bytes.
fn peak(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: u64 = line
        .unwrap()
        .trim()
        .strip_suffix(" kB")
        .unwrap()
        .parse()
        .unwrap();
    kib << 10
}

/// Decodes an image whose records do not fit into a pipe. Returns them with the peak memory of
/// the search.
fn decode_with_peak(image: &Path) -> (Vec<u8>, u64) {
    let mut child = start(image, &[]);
    let mut out = child.stdout.take().unwrap();
    let mut records = vec![0];
    out.read_exact(&mut records).unwrap();
    // The search and the decoding are done, and the command waits for the pipe.
    let peak = peak(&child);
    out.read_to_end(&mut records).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    (records, peak)
}

#[test]
fn memory_follows_the_data_of_a_sparse_dump_of_32_gib_and_not_its_holes() {
    const LEN: u64 = 32 << 30;
    const PARTS: u64 = 2_138;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sparse");
    let file = File::create(&path).unwrap();
    file.set_len(LEN).unwrap();
    let part: Vec<u8> = (0..4096u32).map(|i| (i * 7 % 251) as u8).collect();
    for at in (0..PARTS).map(|nth| LEN / PARTS * nth / 4096 * 4096) {
        file.write_all_at(&part, at).unwrap();
    }
    let region = fs::read(image("ecc16")).unwrap();
    file.write_all_at(&region, LEN - (1 << 20)).unwrap();

    let (records, peak) = decode_with_peak(&path);
    let (expected, _) = decode_with_peak(&image("ecc16"));
    assert!(records == expected);
    assert!(peak < 200 << 20, "{peak} bytes");
}

/// Writes a LiME dump with ranges of 4 KiB.
fn write_lime(memory: &[u8], path: &Path) {
    let mut file = BufWriter::new(File::create(path).unwrap());
    for (nth, bytes) in memory.chunks(4096).enumerate() {
        let first = nth as u64 * 4096;
        let last = first + bytes.len() as u64 - 1;
        let addresses = [first.to_le_bytes(), last.to_le_bytes(), [0; 8]];
        file.write_all(b"EMiL\x01\0\0\0").unwrap();
        file.write_all(addresses.as_flattened()).unwrap();
        file.write_all(bytes).unwrap();
    }
    file.flush().unwrap();
}

#[test]
fn a_region_of_129_mib_in_ranges_of_4_kib_is_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lime");
    let text = b"[    1.000000] text\n";
    let header = [&b"DBGC"[..], &[20, 0, 0, 0], &[20, 0, 0, 0], text].concat();
    let mut memory = vec![0; 129 << 20];
    // The console, and a large zone of user-space messages.
    for at in [0, 1 << 20] {
        memory[at..at + header.len()].copy_from_slice(&header);
    }
    write_lime(&memory, &path);
    for args in [
        &[][..],
        &[
            "--record-size",
            "0",
            "--console-size",
            "1M",
            "--ftrace-size",
            "0",
            "--pmsg-size",
            "128M",
        ],
    ] {
        let decoded = decode(&path, args);
        let said = String::from_utf8_lossy(&decoded.stderr).into_owned();
        assert_eq!(decoded.status.code(), Some(0), "{said}");
        let printed = String::from_utf8(decoded.stdout).unwrap();
        assert_eq!(printed.matches("] text\n").count(), 2, "{said}");
    }
}

/// Returns the stderr lines of a command that could not read the image, or found no region.
fn error(output: &Output) -> String {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(matches!(output.status.code(), Some(1 | 5)), "{said}");
    assert!(output.stdout.is_empty());
    said
}

#[test]
fn texts_in_zeros_are_no_region_and_the_option_all_lists_them_with_reasons() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("zeros");
    let mut zeros = vec![0; 1 << 20];
    for at in [0x1000, 0x3000] {
        zeros[at..at + 4].copy_from_slice(b"CCCC");
    }
    fs::write(&path, zeros).unwrap();
    let said = error(&decode(&path, &[]));
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("no ramoops region"), "{said}");
    assert!(said.contains("--all lists"), "{said}");
    let said = error(&decode(&path, &["--all"]));
    for word in ["--offset 0x1000", "bits of evidence", "no ramoops region"] {
        assert!(said.contains(word), "{said}");
    }
    // An offset from the user is evidence, too.
    let named = decode(&path, &["--offset", "0x1000", "--size", "16K"]);
    // There is a region, and it is empty.
    assert_eq!(named.status.code(), Some(3));
    let said = String::from_utf8(named.stderr).unwrap();
    assert!(said.contains("bits of evidence"), "{said}");
}

#[test]
fn a_bad_size_word_of_the_console_is_reported_and_hides_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad");
    let mut bytes = fs::read(image("plain")).unwrap();
    // The size word of the console's zone of 0x8000 bytes.
    let size = 0x2_dffa + 8;
    bytes[size..size + 4].copy_from_slice(&(0x8000u32 - 12 + 1).to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let bad = decode(&path, &[]);
    assert!(bad.status.success());
    let calls = |output: &[u8]| {
        let lines = String::from_utf8_lossy(output).into_owned();
        let calls = lines.lines().filter(|line| line.contains(" <- 0xffff"));
        calls.map(str::to_owned).collect::<Vec<_>>()
    };
    let expected = calls(&decode(&image("plain"), &[]).stdout);
    assert!(expected.len() > 1_000);
    assert!(calls(&bad.stdout) == expected);
    let said = String::from_utf8(bad.stderr).unwrap();
    assert!(said.contains("sizes that cannot be"), "{said}");
    assert!(
        said.contains("console zone 0 at 0x2dffa cannot be read"),
        "{said}"
    );
}

#[test]
fn a_damaged_start_of_a_trace_ring_is_reported_and_its_records_are_marked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad");
    let mut bytes = fs::read(image("plain")).unwrap();
    // The start word of the first trace zone.
    bytes[0x3_5ffa + 4] ^= 8;
    fs::write(&path, bytes).unwrap();
    let bad = decode(&path, &[]);
    let marked = String::from_utf8_lossy(&bad.stdout).into_owned();
    let marked = marked.lines().filter(|line| line.contains("(unverified)"));
    assert_eq!(marked.count(), (0x4000 - 12) / 24);
    let said = String::from_utf8(bad.stderr).unwrap();
    assert!(
        said.contains("ftrace zone 0 at 0x35ffa: its records seem"),
        "{said}"
    );
}

/// Runs `script` in a shell, with the command as `$0` and a FIFO as `$1`. An endless wait
/// results in status 124.
fn in_shell(script: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    let made = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let mut command = Command::new("timeout");
    command.args(["120", "sh", "-c", script]);
    command.arg(cargo_bin("nostall-postmortem")).arg(&path);
    command.output().unwrap()
}

#[test]
fn a_pipe_to_which_no_program_writes_is_given_up_by_every_way_to_read_it() {
    let given_up = |script: &str| {
        let said = error(&in_shell(script));
        assert!(said.contains("no program writes to it"), "{script}: {said}");
    };
    std::thread::scope(|scope| {
        for script in [
            "$0 $1",
            "$0 --swap 4 $1",
            // Opened for reading and writing, the FIFO has no end.
            "$0 - <> $1",
            "$0 --swap 4 - <> $1",
        ] {
            scope.spawn(move || given_up(script));
        }
    });
}

#[test]
fn a_device_without_an_end_is_given_up_in_bounded_memory_by_every_way_to_read_it() {
    for how in ["/dev/zero", "--swap 4 /dev/zero", "- < /dev/zero"] {
        // The limit is less than 1 GiB of address space.
        let script = format!("ulimit -v 900000; $0 {how}");
        let said = error(&in_shell(&script));
        assert!(
            said.contains("more than 256 MiB, or without an end"),
            "{said}"
        );
    }
}

#[test]
fn an_invalid_symbol_file_gets_advice_about_symbols_and_not_about_images() {
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("dump");
    fs::write(&dump, b"KDUMP   ").unwrap();
    let said = |symbols: &str| error(&decode(&image("plain"), &["--symbols", symbols]));
    let endless = said("/dev/zero");
    let advice = "too large for the symbols of a kernel; use its System.map";
    assert!(endless.contains(advice), "{endless}");
    let dump = said(dump.to_str().unwrap());
    assert!(
        dump.contains("no symbol table; give the System.map"),
        "{dump}"
    );
}

#[test]
fn a_pipe_is_read_to_its_end() {
    let mut command = Command::new(cargo_bin("nostall-postmortem"));
    command.arg("/dev/stdin");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for part in fs::read(image("plain")).unwrap().chunks(10_000) {
        stdin.write_all(part).unwrap();
    }
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(output.stdout == decode(&image("plain"), &[]).stdout);
}

#[test]
fn bytes_of_a_lime_dump_that_belong_to_no_range_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lime");
    write_lime(&fs::read(image("plain")).unwrap(), &path);
    let mut file = File::options().append(true).open(&path).unwrap();
    file.write_all(b"garbage").unwrap();
    let output = decode(&path, &["--format", "json"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("7 bytes at the end"), "{said}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let end = printed.lines().last().unwrap();
    assert!(end.contains("7 bytes at the end"), "{end}");
}

#[test]
fn memory_up_to_the_end_of_the_address_space_is_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lime");
    let region = fs::read(image("plain")).unwrap();
    let range = |first: u64, memory: &[u8]| {
        let last = first + (memory.len() as u64 - 1);
        let addresses = [first.to_le_bytes(), last.to_le_bytes(), [0; 8]];
        [b"EMiL\x01\0\0\0", addresses.as_flattened(), memory].concat()
    };
    let records = |lime: &[u8], args: &[&str]| {
        fs::write(&path, lime).unwrap();
        let output = decode(&path, args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}");
        output.stdout
    };
    let start = 0u64.wrapping_sub(region.len() as u64);
    let expected = records(&range(0, &region), &[]);
    let at_the_end = range(start, &region);
    assert!(records(&at_the_end, &[]) == expected);
    let by_hand = ["--offset", &format!("{start:#x}"), "--ftrace-size", "32K"];
    let sizes = [
        "--record-size",
        "32K",
        "--console-size",
        "32K",
        "--pmsg-size",
        "8K",
    ];
    assert!(records(&at_the_end, &[&by_hand[..], &sizes].concat()) == expected);
    // A signature of a ring buffer in the last bytes.
    let last = range(u64::MAX - 10, &[&[7; 7], &b"\xed\xfe\xad\x0b"[..]].concat());
    assert!(records(&[range(0, &region), last].concat(), &[]) == expected);
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_an_error_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    // A region, and far behind it a log ring that is read later.
    fs::copy(image("plain"), &path).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    for args in [&["--format", "json"][..], &[]] {
        fs::copy(image("plain"), &path).unwrap();
        let mut child = start(&path, args);
        let mut out = child.stdout.take().unwrap();
        let mut printed = vec![0];
        out.read_exact(&mut printed).unwrap();
        // The command waits for the pipe.
        file.set_len(0).unwrap();
        out.read_to_end(&mut printed).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("truncated"), "{said}");
        if let Some(end) = String::from_utf8(printed).unwrap().lines().last()
            && !args.is_empty()
        {
            assert!(
                end.contains("\"status\":\"error\"") && end.contains("truncated"),
                "{end}"
            );
        }
    }
}

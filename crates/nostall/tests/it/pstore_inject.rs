//! `nostall pstore inject` as its user sees it: the texts that it writes are read back.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;
use nostall_postmortem::{Content, Decoded, Geometry, Packing, Unpack};
use nostall_pstore::{ByteOrder, Layout, Params, RecordFormat, Writer, ZoneOrder};
use tempfile::TempDir;

const BOOT_LOG: &[u8] = include_bytes!("../../../lab/nostall-lab/fixtures/console/linux-boot.log");

/// Options that give each zone a different size, for a current kernel.
const SIZES: &str = "--size 256K --record-size 32K --console-size 16K --ftrace-size 8K \
    --pmsg-size 4K --cpus 2 --linux-version 6.12.0";

fn params(ecc: usize) -> Params {
    Params {
        record_size: 32 << 10,
        console_size: 16 << 10,
        ftrace_size: 8 << 10,
        pmsg_size: 4 << 10,
        ecc,
        ..Params::command_line(256 << 10, 2)
    }
}

/// A folder in which the command runs.
struct Bench(TempDir);

impl Bench {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        fs::write(self.path(name), bytes).unwrap();
        self
    }

    fn nostall(&self, args: &str) -> Output {
        let mut command = Command::new(cargo_bin("nostall"));
        command.args(args.split_whitespace());
        let command = command.current_dir(self.0.path()).stdin(Stdio::null());
        command.output().unwrap()
    }

    /// Runs the command and returns its stderr, which is empty if everything fits.
    fn inject(&self, args: &str) -> String {
        let output = self.nostall(&format!("pstore inject {args}"));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{args}: {error}");
        error
    }

    /// Runs a script with the command as `$0`, in less than 1 GiB of address space. A wait
    /// without a bound ends in status 124.
    fn in_shell(&self, script: &str) -> Output {
        let mut command = Command::new("timeout");
        command.args(["120", "sh", "-c", &format!("ulimit -v 900000; {script}")]);
        let command = command.arg(cargo_bin("nostall")).stdin(Stdio::null());
        command.current_dir(self.0.path()).output().unwrap()
    }

    /// The one line on stderr of a command that failed and wrote nothing.
    fn refused(&self, args: &str) -> String {
        let output = self.nostall(&format!("pstore inject --out refused {args}"));
        self.line(args, output)
    }

    fn line(&self, args: &str, output: Output) -> String {
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args}: {error}");
        assert_eq!(error.lines().count(), 1, "{args}: {error}");
        assert!(output.stdout.is_empty());
        assert!(!self.path("refused").exists(), "{args}");
        error
    }

    fn decode(
        &self,
        name: &str,
        params: &Params,
        record_format: RecordFormat,
    ) -> Vec<Content<'static>> {
        let bytes = fs::read(self.path(name)).unwrap();
        decode(&bytes, params, record_format)
    }
}

/// Returns the records. Their memory is leaked.
fn decode(region: &[u8], params: &Params, record_format: RecordFormat) -> Vec<Content<'static>> {
    let layout = Layout::new(params).unwrap();
    let geometry = Box::leak(Box::new(Geometry::of(
        &layout,
        ByteOrder::NATIVE,
        record_format,
    )));
    let region = Box::leak(region.to_vec().into_boxed_slice());
    let decoded = Decoded::new(region, geometry, Writer::DataFirst, Unpack::ByTrying);
    let records = Box::leak(Box::new(decoded)).records();
    records.map(|record| record.content).collect()
}

/// Returns the text of the only dmesg record.
fn dmesg<'a>(contents: &'a [Content<'_>]) -> &'a [u8] {
    let [Content::Dmesg(dmesg), ..] = contents else {
        panic!("{contents:?}")
    };
    &dmesg.text.bytes
}

#[test]
fn injected_records_are_decoded_again() {
    let bench = Bench::new();
    let pmsg: Vec<u8> = (0..=255).cycle().take(2_000).collect();
    bench.file("dmesg", &BOOT_LOG[..20_000]);
    bench.file("oops", b"Oops#2 Part1\nlast words\n");
    bench.file("console", &BOOT_LOG[..9_000]);
    bench.file("pmsg", &pmsg);
    bench.file(
        "trace",
        "CPU:0 ts:1 ffffffff81000010  ffffffff81a00000  f <- g+0x10/0x20\n\
         CPU:1 ts:2 ffffffff81000020  ffffffff81a00001\n\n\
         CPU:0 ts:3 ffffffff81000030  ffffffff81a00002\n",
    );
    for ecc in [0, 5, 16, 32] {
        for compress in ["none", "deflate", "lz4", "zstd"] {
            let said = bench.inject(&format!(
                "--out image --force {SIZES} --ecc {ecc} --compression {compress} --dmesg dmesg \
                 --dmesg oops --time 1700000000.000042 --console console --pmsg pmsg \
                 --ftrace trace"
            ));
            assert!(!said.contains("only the last"), "{said}");
            let contents = bench.decode("image", &params(ecc), RecordFormat::Bits64);
            let [
                Content::Dmesg(dmesg),
                Content::Dmesg(oops),
                Content::Console(console),
                Content::Ftrace(traces),
                Content::Pmsg(words),
            ] = &contents[..]
            else {
                panic!("{ecc} {compress}: {contents:?}")
            };
            let body = dmesg.text.bytes.strip_prefix(b"Panic#1 Part1\n");
            assert!(body == Some(&BOOT_LOG[..20_000]), "{ecc} {compress}");
            assert_eq!(oops.text.bytes, b"Oops#2 Part1\nlast words\n");
            let header = dmesg.header.unwrap();
            assert_eq!((header.seconds, header.micros), (1_700_000_000, 42));
            let packing = match &dmesg.packing {
                Packing::Unpacked(method) => method.to_string(),
                _ => "none".to_owned(),
            };
            assert_eq!(packing, compress);
            assert!(console.bytes == BOOT_LOG[..9_000] && words.bytes == pmsg);
            let traces: Vec<_> = traces.iter().map(|trace| trace.record).collect();
            let parts = traces
                .iter()
                .map(|r| (r.cpu, r.stamp, r.ip & 0xff, r.parent & 0xff));
            assert!(parts.eq([(0, 1, 0x10, 0), (1, 2, 0x20, 1), (0, 3, 0x30, 2)]));
        }
    }
}

#[test]
fn zones_lie_in_the_order_of_the_linux_that_is_to_read_them_and_an_image_keeps_its_own() {
    let bench = Bench::new();
    bench
        .file("one", "one\n")
        .file("two", "two\n")
        .file("trace", "CPU:1 ts:2 ffffffff81000020  ffffffff81a00001\n");
    let unversioned = SIZES.strip_suffix(" --linux-version 6.12.0").unwrap();
    for (version, zone_order) in [
        ("6.1.192", ZoneOrder::Linux4_0),
        ("6.2.0", ZoneOrder::Linux6_2),
    ] {
        bench.inject(&format!(
            "--out first --force {unversioned} --linux-version {version} --pmsg one --ftrace trace"
        ));
        bench.inject(&format!(
            "--out second --force --into first {unversioned} --pmsg two"
        ));
        let params = Params {
            zone_order,
            ..params(0)
        };
        let contents = bench.decode("second", &params, RecordFormat::Bits64);
        let [Content::Ftrace(traces), Content::Pmsg(words)] = &contents[..] else {
            panic!("{version}: {contents:?}")
        };
        assert_eq!(words.bytes, b"one\ntwo\n", "{version}");
        assert_eq!(traces.len(), 1, "{version}");
        // Found without any option, and by the options that were printed for it.
        for options in [
            "".to_owned(),
            format!("{unversioned} --linux-version {version}"),
        ] {
            let output = bench.nostall(&format!("postmortem second {options}"));
            let read = String::from_utf8(output.stdout).unwrap();
            assert!(read.contains("one\ntwo\n"), "{version} {options}: {read}");
        }
    }
}

#[test]
fn the_command_that_it_prints_reads_it() {
    let bench = Bench::new();
    bench.file("log", "a line\n");
    let args = format!("pstore inject --out image --offset 5000 {SIZES} --ecc 7 --dmesg log");
    let output = bench.nostall(&args);
    let said = String::from_utf8(output.stdout).unwrap();
    let command = said.lines().last().unwrap().trim();
    let command = command.strip_prefix("nostall ").unwrap();
    let output = bench.nostall(command);
    let read = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(read.contains("Panic#1 Part1\na line\n"), "{read}");
}

#[test]
fn traces_that_linux_shows_come_back_the_same_in_every_record_format() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../drivers/pstore/tests/fixtures");
    for (name, arch, cpus) in [("plain", "64", 2), ("armv7", "arm32", 4)] {
        let shown =
            fs::read_to_string(fixtures.join(name).join("pstore/ftrace-ramoops-0")).unwrap();
        let addresses = |text: &str| -> Vec<String> {
            let lines = text.lines().map(|line| line.split_whitespace().take(4));
            lines
                .map(|words| words.collect::<Vec<_>>().join(" "))
                .collect()
        };
        let bench = Bench::new();
        bench.file("trace", &shown);
        let sizes = format!("--size 128K --ftrace-size 64K --cpus {cpus} --arch {arch}");
        bench.inject(&format!(
            "--out image {sizes} --ftrace trace --linux-version 6.1.0"
        ));
        let output = bench.nostall(&format!(
            "postmortem image {sizes} --format linux --out files"
        ));
        assert!(output.status.success());
        let read = fs::read_to_string(bench.path("files/ftrace-ramoops-0")).unwrap();
        assert_eq!(addresses(&read), addresses(&shown), "{name}");
    }
}

#[test]
fn a_text_too_large_loses_its_start_and_that_is_said() {
    let bench = Bench::new();
    bench.file("log", BOOT_LOG.repeat(20));
    for ecc in [0, 16] {
        let mut kept = Vec::new();
        for compress in ["none", "deflate", "lz4", "zstd"] {
            let said = bench.inject(&format!(
                "--out image --force {SIZES} --ecc {ecc} --compression {compress} --dmesg log \
                 --console log --pmsg log"
            ));
            for zone in ["dmesg 0", "console 0", "pmsg 0"] {
                assert!(said.contains(&format!("{zone}: only the last")), "{said}");
            }
            let contents = bench.decode("image", &params(ecc), RecordFormat::Bits64);
            let [
                Content::Dmesg(_),
                Content::Console(console),
                Content::Pmsg(pmsg),
            ] = &contents[..]
            else {
                panic!("{contents:?}")
            };
            let text = dmesg(&contents).strip_prefix(b"Panic#1 Part1\n").unwrap();
            let all = BOOT_LOG.repeat(20);
            assert!(all.ends_with(text), "{compress}");
            assert!(all[..all.len() - text.len()].ends_with(b"\n"), "{compress}");
            assert!(all.ends_with(&console.bytes) && all.ends_with(&pmsg.bytes));
            kept.push(text.len());
        }
        // Nearly full: no line of that log is longer than 1000 bytes.
        let data = params_data(ecc);
        assert!((data - 1000..data).contains(&kept[0]), "{kept:?} of {data}");
        // A body that Linux could not unpack is not written.
        assert!(kept[1] > 3 * data / 2 && kept[1] <= nostall_pstore::longest_deflated(data));
    }
}

/// Returns the data size of a dmesg zone in bytes.
fn params_data(ecc: usize) -> usize {
    let layout = Layout::new(&params(ecc)).unwrap();
    layout.zones().next().unwrap().division.data()
}

#[test]
fn an_image_is_continued_and_its_original_is_not_touched() {
    let bench = Bench::new();
    bench.file("one", "one\n").file("two", "two\n");
    bench.inject(&format!(
        "--out first --offset 4K {SIZES} --ecc 16 --dmesg one --console one"
    ));
    let mut first = fs::read(bench.path("first")).unwrap();
    first.extend(b"behind it");
    first[..4].copy_from_slice(b"befo");
    bench.file("first", &first);
    bench.inject(&format!(
        "--out second --into first --offset 4K {SIZES} --ecc 16 --compression deflate --dmesg two \
         --console two"
    ));
    assert!(fs::read(bench.path("first")).unwrap() == first);
    let second = fs::read(bench.path("second")).unwrap();
    assert!(second.starts_with(b"befo") && second.ends_with(b"behind it"));
    let contents = decode(&second[4096..], &params(16), RecordFormat::Bits64);
    let [
        Content::Dmesg(one),
        Content::Dmesg(two),
        Content::Console(console),
    ] = &contents[..]
    else {
        panic!("{contents:?}")
    };
    assert_eq!(one.text.bytes, b"Panic#1 Part1\none\n");
    assert_eq!(two.text.bytes, b"Panic#1 Part1\ntwo\n");
    assert_eq!(console.bytes, b"one\ntwo\n");
}

#[test]
fn nothing_is_overwritten_unless_asked_for() {
    let bench = Bench::new();
    bench.file("image", "precious").file("log", "x\n");
    let output = bench.nostall("pstore inject --out image --size 64K");
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("--force"), "{error}");
    assert_eq!(fs::read(bench.path("image")).unwrap(), b"precious");

    bench.inject("--out image --size 64K --force");
    let image = fs::read(bench.path("image")).unwrap();
    assert_eq!(image.len(), 64 << 10);
    let output = bench.nostall("pstore inject --out ./image --into image --force --dmesg log");
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("give --out another name"), "{error}");
    assert!(fs::read(bench.path("image")).unwrap() == image);
}

#[test]
fn impossible_requests_are_refused_in_one_line() {
    let bench = Bench::new();
    bench
        .file("log", "x\n")
        .file("nonsense", "CPU:0 ts:1 zz 1\n");
    bench
        .file("far", "\nCPU:3 ts:1 1 1\n")
        .file("large", "CPU:0 ts:1 100000000 1\n");
    bench
        .file("long", "x".repeat(100_000))
        .file("other", [7; 70_000]);
    bench.inject("--out image --size 64K --ftrace-size 8K --linux-version 6.1.90");
    for (args, part) in [
        ("--size 0", "must not be 0"),
        ("--size 2G", "smaller than 2 GiB"),
        ("--size 64K --console-size 128K", "no room"),
        ("--size 64K --dmesg missing", "missing: No such file"),
        ("--size 64K --dmesg .", "directory"),
        ("--size 64K --pmsg-size 0 --pmsg log", "give --pmsg-size"),
        (
            "--size 16K --dmesg log --dmesg log",
            "no dmesg zone is left for log",
        ),
        (
            "--size 256 --record-size 32 --console-size 0 --ftrace-size 0 --pmsg-size 0 --dmesg log",
            "make --record-size larger",
        ),
        ("--size 64K --ftrace nonsense", "line 1 is not like CPU:0"),
        ("--size 64K --ftrace long", "line 1 is not like CPU:0"),
        (
            "--size 64K --ftrace far",
            "line 2: CPU 3 has no zone: give --cpus",
        ),
        (
            "--size 64K --ftrace large --arch 32",
            "too large for --arch 32",
        ),
        (
            "--size 64K --ftrace far --arch thumb32 --cpus 4",
            "too large for --arch thumb32",
        ),
        ("--into missing", "missing: No such file"),
        ("--into other --console log", "there is no console zone 0"),
        (
            "--into image --offset 60K --size 64K",
            "the image has only 4096",
        ),
        ("--into image --offset 1M", "must not be 0"),
        (
            "--into image --ftrace-size 8K --ftrace far --linux-version 6.1.0",
            "give --linux-version 6.1.90",
        ),
    ] {
        let error = bench.refused(args);
        assert!(error.contains(part), "{args}: {error}");
    }
}

#[test]
fn a_far_offset_costs_no_room() {
    let bench = Bench::new();
    bench.file("log", "x\n");
    bench.inject("--out image --offset 96M --size 64K --dmesg log");
    let mut image = fs::read(bench.path("image")).unwrap();
    assert_eq!(image.len(), (96 << 20) + (64 << 10));
    let region = image.split_off(96 << 20);
    let contents = decode(
        &region,
        &Params::command_line(64 << 10, 1),
        RecordFormat::Bits64,
    );
    assert_eq!(dmesg(&contents), b"Panic#1 Part1\nx\n");
}

#[test]
#[cfg(target_os = "linux")]
fn a_file_without_an_end_is_refused_by_every_option_that_reads_one() {
    let bench = Bench::new();
    let fifo = bench.path("fifo");
    assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
    let inject = "$0 pstore inject --out refused --linux-version 6.1.0";
    let ftrace = format!("yes CPU:0 ts:1 1 1 | {inject} --size 64K --ftrace /dev/stdin");
    std::thread::scope(|scope| {
        for (args, part) in [
            (
                "--size 64K --dmesg /dev/zero",
                "/dev/zero: more than 256 MiB, or without an end",
            ),
            (
                "--size 64K --console /dev/zero",
                "/dev/zero: more than 256 MiB, or without an end",
            ),
            (
                "--size 64K --pmsg /dev/zero",
                "/dev/zero: more than 256 MiB, or without an end",
            ),
            ("--into /dev/zero", "/dev/zero: not a file"),
            ("--into fifo", "fifo: not a file"),
            ("--size 64K --dmesg fifo", "no program writes to it"),
        ] {
            let bench = &bench;
            scope.spawn(move || {
                let error = bench.line(args, bench.in_shell(&format!("{inject} {args}")));
                assert!(error.contains(part), "{args}: {error}");
            });
        }
        let error = bench.line(&ftrace, bench.in_shell(&ftrace));
        let part = "/dev/stdin: more than 256 MiB, or without an end";
        assert!(error.contains(part), "{ftrace}: {error}");
    });
}

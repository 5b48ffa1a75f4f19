//! Files of trace-cmd.

use std::io::{Cursor, Read};

use nostall_tracefile::graph::{self, Step};
use nostall_tracefile::model::{Event, EventKind, ReadError, Source, TimeUnit};
use nostall_tracefile::read::{is_dat, open_dat, open_text};

const VERSION_6: &[u8] = include_bytes!("../fixtures/dat/sched-v6.dat.gz");
const VERSION_7: &[u8] = include_bytes!("../fixtures/dat/sched-v7.dat.gz");
const REPORT: &[u8] = include_bytes!("../fixtures/dat/sched.report.gz");

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(bytes);
    decoder.read_to_end(&mut unpacked).unwrap();
    unpacked
}

/// Returns a file's events as lines of text, and the notes; `Err` if the header cannot be read.
fn read(bytes: &[u8]) -> Result<(Vec<String>, Vec<String>), String> {
    let mut source = open_dat(Cursor::new(bytes)).map_err(|error| error.to_string())?;
    let mut lines = Vec::new();
    while let Some(event) = source.next_event().unwrap() {
        lines.push(line(&source, &event));
    }
    assert!(source.progress().done <= source.progress().total);
    Ok((lines, source.notes().to_vec()))
}

fn line(source: &impl Source, event: &Event) -> String {
    let text = |name| source.catalog().text(name);
    let task = source.catalog().task_name(event.task);
    let kind = match event.kind {
        EventKind::Mark { text: mark } => text(mark).to_owned(),
        EventKind::Call { function, caller } => {
            format!("{} from {}", text(function), caller.map_or("", text))
        }
        EventKind::Lost { records } => format!("lost {records}"),
        ref other => format!("{other:?}"),
    };
    format!(
        "{} {} {}-{} {kind}",
        event.time, event.cpu, task.name, task.id
    )
}

/// Returns the lines of `trace-cmd report -t` in the form of `line`: time, CPU, task; and the
/// event.
fn report() -> Vec<(String, String, String)> {
    let text = String::from_utf8(unpacked(REPORT)).unwrap();
    // A text may have several lines.
    let text = text.replace("\n gid", " gid");
    let lines = text.lines().filter(|line| line.contains("] "));
    lines
        .map(|line| {
            let (head, event) = line.split_once(": ").unwrap();
            let (task, rest) = head.split_once(" [").unwrap();
            let (cpu, time) = rest.split_once("] ").unwrap();
            let time = time.trim().replace('.', "");
            let cpu: u32 = cpu.parse().unwrap();
            let (name, text) = event.split_once(':').unwrap();
            let start = format!("{time} {cpu} {}", task.trim());
            (start, name.trim().to_owned(), text.trim().to_owned())
        })
        .collect()
}

#[test]
fn a_recording_of_trace_cmd_yields_the_events_of_its_report_in_versions_6_and_7() {
    let expected = report();
    assert_eq!(expected.len(), 757);
    for file in [VERSION_6, VERSION_7] {
        let file = unpacked(file);
        assert!(is_dat(&file));
        let (lines, notes) = read(&file).unwrap();
        assert_eq!(notes, [""; 0]);
        assert_eq!(lines.len(), expected.len());
        for (line, (start, name, text)) in lines.iter().zip(&expected) {
            let event = line.strip_prefix(start.as_str());
            let event = event.unwrap_or_else(|| panic!("{line:?} instead of {start:?}"));
            let event = event.trim().replace("\n gid", " gid");
            match name.as_str() {
                "bprint" => assert_eq!(event, *text),
                name => assert!(event.starts_with(&format!("{name}: ")), "{event}"),
            }
        }
    }
}

#[test]
fn a_file_cut_at_any_place_is_read_to_its_end() {
    // Version 7 has its list of buffers at the end.
    for (file, least) in [(VERSION_6, 20), (VERSION_7, 0)] {
        let file = unpacked(file);
        let (whole, _) = read(&file).unwrap();
        let mut partial = 0;
        for end in (0..file.len()).step_by(509) {
            let Ok((lines, notes)) = read(&file[..end]) else {
                continue;
            };
            let kept: Vec<_> = lines
                .iter()
                .filter(|line| !line.contains("lost "))
                .collect();
            if lines.len() < whole.len() {
                partial += 1;
                assert!(notes.iter().any(|note| note.contains("CPU")), "{notes:?}");
            }
            assert!(kept.iter().all(|line| whole.contains(line)), "cut at {end}");
        }
        assert!(partial >= least, "{partial}");
    }
}

#[test]
fn a_damaged_byte_loses_at_most_its_page() {
    let file = unpacked(VERSION_6);
    let (whole, _) = read(&file).unwrap();
    let pages = file.len() / 4096 - 2;
    for page in 2..pages {
        let mut damaged = file.clone();
        // The first record's length, and then the commit word.
        damaged[page * 4096 + 16..][..4].copy_from_slice(&[0xe0, 0xff, 0xff, 0xff]);
        let (lines, _) = read(&damaged).unwrap();
        assert!(lines.len() + 150 > whole.len());
        damaged[page * 4096 + 8..][..4].copy_from_slice(&[0xff, 0xff, 0xff, 0x0f]);
        let (lines, notes) = read(&damaged).unwrap();
        assert!(lines.len() + 150 > whole.len());
        if lines.len() != whole.len() {
            assert!(lines.iter().any(|line| line.ends_with("lost 0")));
            assert!(notes[0].starts_with("1 damaged places"), "{notes:?}");
        }
    }
}

/// Rounds a duration to the digits that Linux prints.
fn printed(duration: u64) -> u64 {
    let step = match (duration / 1_000).max(1).ilog10() {
        ..4 => 1,
        4 => 10,
        5 => 100,
        _ => 1_000,
    };
    duration / step * step
}

/// Returns the steps of a source's graph, with times in microseconds as Linux prints them.
fn steps(source: &mut impl Source) -> Vec<String> {
    let us = |time: u64| (time + 500) / 1_000;
    let mut steps = Vec::new();
    graph::walk(source, |catalog, step| {
        let text = |name| catalog.text(name);
        let task = |task| catalog.task_name(task).id;
        steps.push(match step {
            Step::Enter(_) => return Ok(()),
            Step::Leave(slice) => format!(
                "{:?} {} {} {:?} {:?} {}",
                slice.start.map(us),
                slice.cpu,
                task(slice.task),
                // Linux prints no name for an exit without an entry.
                slice.start.and(slice.function).map(text),
                slice.duration.map(printed),
                slice.depth
            ),
            Step::Event(event) => {
                let mark = match event.kind {
                    EventKind::Mark { text: mark } => text(mark).to_owned(),
                    EventKind::Call { function, caller } => {
                        format!("{} from {}", text(function), caller.map_or("", text))
                    }
                    ref other => panic!("{other:?}"),
                };
                let (time, task) = (us(event.time), task(event.task));
                format!("{time} {} {task} {mark}", event.cpu)
            }
        });
        Ok::<_, ReadError>(())
    })
    .unwrap();
    steps
}

#[test]
fn pages_of_linux_in_a_file_yield_the_events_that_linux_shows() {
    let cases: [(&[u8], &[u8], usize); 2] = [
        (
            include_bytes!("../fixtures/dat/events-gaps-2cpu.dat.gz"),
            include_bytes!("../fixtures/text/events-gaps-2cpu.trace.gz"),
            3_018,
        ),
        (
            include_bytes!("../fixtures/dat/graph-2cpu.dat.gz"),
            include_bytes!("../fixtures/text/graph-2cpu.trace.gz"),
            4_000,
        ),
    ];
    for (file, text, least) in cases {
        let mut file = open_dat(Cursor::new(unpacked(file))).unwrap();
        let text = unpacked(text);
        let mut text = open_text(&text[..], 0);
        let (mut read, mut expected) = (steps(&mut file), steps(&mut text));
        // Events of two CPUs in the same microsecond may have another order.
        read.sort();
        expected.sort();
        assert!(expected.len() >= least, "{}", expected.len());
        assert_eq!(read.len(), expected.len());
        for (read, expected) in read.iter().zip(&expected) {
            assert_eq!(read, expected);
        }
        assert_eq!(file.notes(), [""; 0]);
    }
}

/// Builds small files.
#[derive(Default)]
struct File {
    bytes: Vec<u8>,
    is_big: bool,
}

impl File {
    /// Starts a file.
    fn new(version: &str, is_big: bool, long: u8, page_size: u32) -> Self {
        let mut file = Self {
            bytes: b"\x17\x08\x44tracing".to_vec(),
            is_big,
        };
        file.add(version.as_bytes()).add(&[0, is_big.into(), long]);
        file.u32(page_size);
        file
    }

    fn add(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend(bytes);
        self
    }

    fn number(&mut self, number: u64, len: usize) -> &mut Self {
        let bytes = number.to_be_bytes();
        self.bytes.extend(&bytes[8 - len..]);
        if !self.is_big {
            let start = self.bytes.len() - len;
            self.bytes[start..].reverse();
        }
        self
    }

    fn u16(&mut self, number: u16) -> &mut Self {
        self.number(number.into(), 2)
    }

    fn u32(&mut self, number: u32) -> &mut Self {
        self.number(number.into(), 4)
    }

    fn u64(&mut self, number: u64) -> &mut Self {
        self.number(number, 8)
    }

    fn text(&mut self, text: &str, len: usize) -> &mut Self {
        self.number(text.len() as u64, len).add(text.as_bytes())
    }

    fn option(&mut self, number: u16, data: &[u8]) -> &mut Self {
        self.u16(number).u32(data.len() as u32).add(data)
    }

    fn header_info(&mut self) -> &mut Self {
        self.add(b"header_page\0").text("", 8);
        self.add(b"header_event\0").text("", 8)
    }

    fn formats(&mut self) -> &mut Self {
        self.u32(1).text(PRINT, 8)
    }

    /// Adds the header of version 6 up to the number of CPUs.
    fn version_6(&mut self, cpus: u32) -> &mut Self {
        self.header_info().formats();
        // Systems, symbols, printk formats, and tasks.
        self.u32(0).text("", 4).text("", 4).text("7 some task\n", 8);
        self.u32(cpus)
    }

    /// Adds a page with one record.
    fn page(&mut self, commit_bytes: usize, page_size: usize, time: u64, text: &str) -> &mut Self {
        let start = self.bytes.len();
        let words = (8 + commit_bytes + text.len() + 1).div_ceil(4);
        self.u64(time).number(words as u64 * 4 + 4, commit_bytes);
        let head = match self.is_big {
            true => (words as u32) << 27,
            false => words as u32,
        };
        self.u32(head).u16(5).u16(0).u32(7);
        self.number(0, commit_bytes).add(text.as_bytes());
        self.bytes.resize(start + page_size, 0);
        self
    }

    fn place(&self) -> u64 {
        self.bytes.len() as u64
    }
}

const PRINT: &str = "name: print
ID: 5
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;

print fmt: \"%s\", REC->buf
";

#[test]
fn a_big_endian_file_of_a_32_bit_machine_is_read() {
    let mut file = File::new("6", true, 4, 256);
    file.version_6(2).add(b"flyrecord\0");
    let start = file.place() + 32;
    file.u64(start).u64(256).u64(start + 256).u64(256);
    let (events, notes) = {
        let print = PRINT.replace("offset:16", "offset:12");
        let bytes = std::mem::take(&mut file.bytes);
        let text = bytes
            .windows(PRINT.len())
            .position(|it| it == PRINT.as_bytes());
        file.bytes = bytes;
        file.bytes[text.unwrap()..][..PRINT.len()].copy_from_slice(print.as_bytes());
        file.page(4, 256, 9_000, "later")
            .page(4, 256, 8_000, "first");
        read(&file.bytes).unwrap()
    };
    assert_eq!(
        events,
        ["8000 1 some task-7 first", "9000 0 some task-7 later"]
    );
    assert_eq!(notes, [""; 0]);
}

#[test]
fn options_of_version_6_correct_times_name_the_clock_and_add_instances() {
    let mut file = File::new("6", false, 8, 256);
    file.version_6(1).add(b"options  \0").option(12, &[]);
    file.option(2, b"CPU: 0\n").option(7, b"-1000\0");
    file.option(1, b"0x2\0").option(4, b"local [counter]\0");
    // Two nanoseconds per tick; and an instance, whose table follows the file's.
    let table = file.place() + 6 + 16 + 6 + 13 + 2 + 10 + 16;
    file.option(14, &[8, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    file.option(3, &[&table.to_le_bytes()[..], b"inst\0"].concat());
    file.u16(0).add(b"flyrecord\0").u64(table + 26).u64(256);
    assert_eq!(file.place(), table);
    file.add(b"flyrecord\0").u64(table + 26 + 256).u64(256);
    file.page(8, 256, 10_000, "top")
        .page(8, 256, 9_000, "in the instance");
    let (events, notes) = read(&file.bytes).unwrap();
    assert_eq!(
        events,
        [
            "19000 0 some task-7 in the instance",
            "21000 0 some task-7 top"
        ]
    );
    assert_eq!(
        notes,
        [
            "the trace instances are merged: inst",
            "times are the virtual machine's own, not its host's"
        ]
    );
    let source = open_dat(Cursor::new(file.bytes)).unwrap();
    assert_eq!(source.unit(), TimeUnit::Nanoseconds);
}

#[test]
fn the_text_in_a_file_of_the_latency_tracers_is_read() {
    let mut file = File::new("6", false, 8, 4096);
    file.version_6(1).add(b"latency  \0");
    file.add(b"# tracer: irqsoff\n sh-7 0d..1. 5us : f <-g\n");
    let (events, notes) = read(&file.bytes).unwrap();
    assert_eq!(events, ["5000 0 sh-7 f from g"]);
    assert_eq!(notes, [""; 0]);
}

/// Returns a version 7 file, whose sections are packed with `pack`.
fn version_7(compression: &str, pack: fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let is_packed = compression != "none";
    let mut file = File::new("7", false, 8, 256);
    file.add(compression.as_bytes()).add(b"\x001\0");
    let options_at = file.bytes.len();
    file.u64(0);
    let mut places = Vec::new();
    let section = |file: &mut File, id: u16, data: &[u8]| {
        let place = file.place();
        file.u16(id).u16(is_packed.into()).u32(0);
        if is_packed {
            let packed = pack(data);
            file.u64(packed.len() as u64 + 8);
            file.u32(packed.len() as u32)
                .u32(data.len() as u32)
                .add(&packed);
        } else {
            file.u64(data.len() as u64).add(data);
        }
        place
    };
    let part = |build: fn(&mut File)| {
        let mut part = File::default();
        build(&mut part);
        part.bytes
    };
    let header = part(|part| _ = part.header_info());
    let formats = part(|part| _ = part.formats());
    let tasks = part(|part| _ = part.text("7 some task\n", 8));
    for (id, data) in [(16, header), (17, formats), (21, tasks)] {
        places.push((id, section(&mut file, id, &data)));
    }
    let buffer_at = file.place();
    file.u16(3).u16(is_packed.into()).u32(0).u64(0);
    let data_at = file.place();
    let pages = part(|part| {
        part.page(8, 256, 1_000, "one").page(8, 256, 2_000, "two");
    });
    let mut data_len = pages.len() as u64;
    if is_packed {
        file.u32(2);
        for chunk in pages.chunks(256) {
            let packed = pack(chunk);
            file.u32(packed.len() as u32).u32(256).add(&packed);
        }
        // The length excludes the number of chunks, as in trace-cmd.
        data_len = file.place() - data_at - 4;
    } else {
        file.add(&pages);
    }
    let mut second = File::default();
    let mut buffer = File::default();
    buffer.u64(buffer_at).add(b"\0local\0").u32(256).u32(1);
    buffer.u32(3).u64(data_at).u64(data_len);
    second.option(3, &buffer.bytes).option(0, &[0; 8]);
    let second_at = section(&mut file, 0, &second.bytes);
    let mut first = File::default();
    for (id, place) in places {
        first.option(id, &place.to_le_bytes());
    }
    first.option(0, &second_at.to_le_bytes());
    let first_at = section(&mut file, 0, &first.bytes);
    file.bytes[options_at..][..8].copy_from_slice(&first_at.to_le_bytes());
    file.bytes
}

#[test]
fn version_7_is_read_plain_and_packed_with_zlib_and_other_packers_are_refused() {
    let zlib = |bytes: &[u8]| {
        let mut packed = Vec::new();
        let level = flate2::Compression::default();
        let mut encoder = flate2::read::ZlibEncoder::new(bytes, level);
        encoder.read_to_end(&mut packed).unwrap();
        packed
    };
    let expected = ["1000 3 some task-7 one", "2000 3 some task-7 two"];
    for (compression, pack) in [
        ("none", (|bytes| bytes.to_vec()) as fn(&[u8]) -> Vec<u8>),
        ("zlib", zlib),
    ] {
        let (events, notes) = read(&version_7(compression, pack)).unwrap();
        assert_eq!(events, expected, "{compression}");
        assert_eq!(notes, [""; 0]);
    }
    let error = read(&version_7("lzma", zlib)).unwrap_err();
    assert!(error.contains("nostall reads zstd and zlib"), "{error}");
}

#[test]
fn a_damaged_chunk_ends_its_cpu_and_is_noted() {
    let file = version_7("zlib", |bytes| {
        let mut packed = Vec::new();
        let mut encoder = flate2::read::ZlibEncoder::new(bytes, flate2::Compression::default());
        encoder.read_to_end(&mut packed).unwrap();
        if bytes.windows(3).any(|it| it == b"two") {
            packed[5] ^= 0xff;
        }
        packed
    });
    let (events, notes) = read(&file).unwrap();
    assert_eq!(events[0], "1000 3 some task-7 one");
    assert_eq!(events[1..], ["1000 3 -0 lost 0"]);
    assert_eq!(
        notes,
        ["the rest of CPU 3 cannot be read: a compressed part cannot be unpacked"]
    );
}

#[test]
fn impossible_sizes_and_counts_are_errors_and_take_no_memory() {
    let mut sizes = File::new("6", false, 8, 4096);
    sizes.add(b"header_page\0").u64(u64::MAX);
    let mut cpus = File::new("6", false, 8, 4096);
    cpus.version_6(u32::MAX).add(b"flyrecord\0");
    let mut page = File::new("6", false, 8, u32::MAX);
    page.version_6(1).add(b"flyrecord\0").u64(0).u64(u64::MAX);
    let mut formats = File::new("6", false, 8, 4096);
    formats.header_info().u32(u32::MAX);
    let mut name = File::new("7", false, 8, 4096);
    name.add(&[b'z'; 1 << 20]);
    let mut chain = File::new("7", false, 8, 4096);
    chain.add(b"none\0\0");
    let place = chain.place() + 8;
    // Options that refer to themselves.
    chain.u64(place).u16(0).u16(0).u32(0).u64(14);
    chain.option(0, &place.to_le_bytes());
    for (file, expected) in [
        (sizes, "too many to be true"),
        (cpus, "CPUs are too many"),
        (page, "pages of 4294967295 bytes"),
        (formats, "ends too early"),
        (name, "has no end"),
        (File::new("8", false, 8, 4096), "reads 6 and 7"),
        (File::default(), "ends too early"),
    ] {
        let error = read(&file.bytes).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let (events, notes) = read(&chain.bytes).unwrap();
    assert!(events.is_empty());
    assert_eq!(notes, ["the file has no event formats: events are numbers"]);
}

#[test]
fn cpus_that_share_bytes_or_have_impossible_numbers_are_skipped() {
    let mut file = File::new("6", false, 8, 256);
    file.version_6(4).add(b"flyrecord\0");
    let start = file.place() + 64;
    for at in [start, start + 255, start, start + 256] {
        file.u64(at).u64(256);
    }
    file.page(8, 256, 1_000, "one").page(8, 256, 2_000, "two");
    let (events, notes) = read(&file.bytes).unwrap();
    assert_eq!(events, ["1000 0 some task-7 one", "2000 3 some task-7 two"]);
    let skipped = |cpu| format!("CPU {cpu} was skipped: its records are another CPU's, too");
    assert_eq!(notes, [skipped(1), skipped(2)]);

    let mut file = version_7("none", |bytes| bytes.to_vec());
    let table = file.windows(7).position(|it| it == b"\0local\0").unwrap() + 7 + 8;
    assert_eq!(file[table], 3);
    file[table + 2] = 1;
    let (events, notes) = read(&file).unwrap();
    assert_eq!(events, [""; 0]);
    assert_eq!(notes, ["CPU 65539 was skipped: its number is too high"]);
}

#[test]
fn arbitrary_changes_of_a_file_never_panic_and_yield_no_more_events_than_its_bytes_can_hold() {
    let small = version_7("none", |bytes| bytes.to_vec());
    let mut number = 1_u64;
    let mut random = |end: usize| {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        (number % end as u64) as usize
    };
    let mut read_whole = 0;
    for file in [unpacked(VERSION_6), unpacked(VERSION_7), small] {
        for _ in 0..300 {
            let mut changed = file.clone();
            for _ in 0..=random(4) {
                let at = random(changed.len());
                let bytes: [u8; 4] = match random(3) {
                    0 => [0; 4],
                    1 => [0xff; 4],
                    _ => (random(1 << 32) as u32).to_le_bytes(),
                };
                let len = (1 + random(4)).min(changed.len() - at);
                changed[at..at + len].copy_from_slice(&bytes[..len]);
            }
            if let Ok((events, notes)) = read(&changed) {
                read_whole += 1;
                assert!(events.len() <= 16 * changed.len());
                assert!(notes.len() < 40);
            }
        }
    }
    assert!(read_whole > 300, "{read_whole}");
}

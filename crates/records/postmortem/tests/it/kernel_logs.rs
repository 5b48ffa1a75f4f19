//! printk's ring in recorded images of Linux, in every kind of dump, and in made ones.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::kernel_log::{Counts, KernelMessage, LostText, MessageState};
use nostall_postmortem::memory::Memory;
use proptest::prelude::*;
use tempfile::{NamedTempFile, TempDir};

use crate::kdump_writer::{Kdump, Packing, flatten};
use crate::made_names::{AddressForm, MadeConsole, link, made_names};
use crate::made_printk::{MadeLog, MadeState, NAMES_AT, PAGE};

/// Sequence, time, facility, level and text of a record.
pub type Line = (u64, u64, u8, u8, Vec<u8>);

/// A recorded image: its pages by physical address, and Linux's records.
pub struct Recorded {
    pub name: &'static str,
    /// Start and size of the machine's RAM.
    ram: (u64, u64),
    pub pages: Vec<(u64, Vec<u8>)>,
    pub truth: Vec<Line>,
}

impl Recorded {
    pub fn load(name: &'static str, start: u64, mib: u64) -> Self {
        let lime = unpack(&format!("{name}.lime.gz"));
        let mut pages = Vec::new();
        let mut rest = &lime[..];
        while let Some((header, body)) = rest.split_first_chunk::<32>() {
            let word = |at: usize| u64::from_le_bytes(*header[at..].first_chunk().unwrap());
            let (first, last) = (word(8), word(16));
            let (range, after) = body.split_at((last - first + 1) as usize);
            let here = range.chunks(PAGE).enumerate();
            pages.extend(here.map(|(nth, page)| (first + (nth * PAGE) as u64, page.to_vec())));
            rest = after;
        }
        let truth = String::from_utf8(unpack(&format!("{name}.truth.gz"))).unwrap();
        let truth = truth.lines().map(|line| {
            let parts: Vec<_> = line.split(' ').collect();
            let [sequence, time, facility, level, text] = parts[..] else {
                panic!("{line}");
            };
            let text = text
                .as_bytes()
                .chunks(2)
                .map(|digits| u8::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap());
            let number = |text: &str| text.parse::<u64>().unwrap();
            (
                number(sequence),
                number(time),
                number(facility) as u8,
                number(level) as u8,
                text.collect(),
            )
        });
        Self {
            name,
            ram: (start, mib << 20),
            truth: truth.collect(),
            pages,
        }
    }

    pub fn all() -> [Self; 3] {
        [
            Self::load("6.1", 0, 256),
            Self::load("6.1-arm64", 0x4000_0000, 256),
            Self::load("6.12-wrapped", 0, 384),
        ]
    }

    /// Returns the RAM as a raw file with holes.
    pub fn raw(&self) -> NamedTempFile {
        let mut file = NamedTempFile::new().unwrap();
        file.as_file().set_len(self.ram.1).unwrap();
        for (at, page) in &self.pages {
            file.seek(SeekFrom::Start(at - self.ram.0)).unwrap();
            file.write_all(page).unwrap();
        }
        file
    }

    /// Returns the bytes at an address.
    fn bytes(&mut self, at: u64, len: usize) -> &mut [u8] {
        let holds = |page: &&mut (u64, Vec<u8>)| at - page.0.min(at) < PAGE as u64 && page.0 <= at;
        let (start, page) = self.pages.iter_mut().find(holds).unwrap();
        &mut page[(at - *start) as usize..][..len]
    }
}

/// Unpacks a recorded file.
pub fn unpack(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/printk-ring");
    let packed = fs::read(path.join(name)).unwrap();
    // The header has no name.
    miniz_oxide::inflate::decompress_to_vec(&packed[10..packed.len() - 8]).unwrap()
}

/// Returns a LiME dump of pages.
pub fn lime(pages: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let ranges = pages.iter().flat_map(|(start, page)| {
        let mut header = [0; 32];
        header[..8].copy_from_slice(b"EMiL\x01\0\0\0");
        header[8..16].copy_from_slice(&start.to_le_bytes());
        header[16..24].copy_from_slice(&(start + page.len() as u64 - 1).to_le_bytes());
        [&header[..], page].concat()
    });
    ranges.collect()
}

/// Returns an ELF core of pages, for the processor with this number.
fn elf(pages: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend(4_u16.to_le_bytes()); // a core file
    file.extend(62_u16.to_le_bytes());
    file.extend(1_u32.to_le_bytes());
    file.extend([0, 64, 0].map(u64::to_le_bytes).concat());
    file.extend(0_u32.to_le_bytes());
    file.extend(
        [64, 56, pages.len() as u16, 0, 0, 0]
            .map(u16::to_le_bytes)
            .concat(),
    );
    let start = file.len() + 56 * pages.len();
    for (nth, (physical, page)) in pages.iter().enumerate() {
        let len = page.len() as u64;
        file.extend([1_u32, 7].map(u32::to_le_bytes).concat());
        let at = (start + nth * PAGE) as u64;
        file.extend(
            [at, 0, *physical, len, len, 0]
                .map(u64::to_le_bytes)
                .concat(),
        );
    }
    pages.iter().for_each(|(_, page)| file.extend(page));
    file
}

/// Returns a dump by AVML of pages.
fn avml(pages: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let blocks = pages.iter().flat_map(|(start, page)| {
        let source = std::io::Cursor::new(page.clone());
        let mut dump =
            avml::image::Image::from_streams(avml::Format::AvmlCompressed, source, Vec::new());
        dump.copy_block(*start..start + page.len() as u64).unwrap();
        dump.dst
    });
    blocks.collect()
}

pub fn line(message: &KernelMessage) -> Line {
    let KernelMessage {
        sequence,
        time_ns,
        facility,
        level,
        text,
        ..
    } = message.clone();
    (sequence, time_ns, facility, level, text)
}

/// Returns the complete records of the only log, and its numbers.
pub fn read(memory: &Memory) -> (Vec<Line>, Counts, String) {
    let discovery = Discovery::new(memory);
    let logs = discovery.kernel_logs(&[]);
    assert_eq!(logs.len(), 1);
    let messages = logs[0]
        .messages()
        .filter(is_whole)
        .map(|message| line(&message));
    let layout = logs[0].ram_layout().to_string();
    (messages.collect(), logs[0].counts, layout)
}

pub fn is_whole(message: &KernelMessage) -> bool {
    matches!(
        message.state,
        MessageState::Complete | MessageState::Reopened
    )
}

/// Returns the pages in every kind of dump: in five containers, a kdump file with each compression,
/// flattened and in two parts.
fn dumps(recorded: &Recorded, folder: &Path) -> Vec<(String, Memory)> {
    let pages = &recorded.pages;
    let raw = recorded.raw();
    let open = |bytes| Memory::from_bytes(bytes).unwrap();
    let mut dumps = vec![
        ("raw".to_owned(), Memory::open(raw.path()).unwrap()),
        ("LiME".to_owned(), open(lime(pages))),
        ("ELF core".to_owned(), open(elf(pages))),
        ("AVML".to_owned(), open(avml(pages))),
    ];
    let kdump = |packing| {
        let mut dump = Kdump::new(PAGE);
        for (at, page) in pages {
            dump.insert(at / PAGE as u64, page, packing);
        }
        dump
    };
    for packing in Packing::ALL {
        let dump = kdump(packing).write();
        dumps.push((format!("kdump, {packing:?}"), open(dump)));
    }
    let dump = kdump(Packing::Zlib).write();
    let blocks = (0..dump.len()).step_by(100_000);
    let blocks = blocks.map(|start| start..dump.len().min(start + 100_000));
    dumps.push(("flattened kdump".to_owned(), open(flatten(&dump, blocks))));
    let mut part = kdump(Packing::Lzo);
    let middle = pages[pages.len() / 2].0 / PAGE as u64;
    let parts = [0..middle, middle..part.max_frames].map(|frames| {
        part.split = Some(frames.clone());
        let path = folder.join(format!("part-{}", frames.start));
        fs::write(&path, part.write()).unwrap();
        path
    });
    dumps.push((
        "split kdump".to_owned(),
        Memory::open_split(&parts).unwrap(),
    ));
    dumps
}

#[test]
fn every_record_of_every_recording_is_read_from_every_kind_of_dump() {
    for recorded in Recorded::all() {
        let folder = TempDir::new().unwrap();
        for (kind, memory) in dumps(&recorded, folder.path()) {
            let (lines, counts, layout) = read(&memory);
            assert!(lines == recorded.truth, "{}, {kind}", recorded.name);
            let counts = Counts {
                records: 0,
                first: None,
                last: None,
                ..counts
            };
            assert_eq!(counts, Counts::default(), "{}, {kind}", recorded.name);
            let place = match (&*kind, recorded.ram.0) {
                ("raw", 0) => "offsets in the file are physical addresses, without",
                ("raw", _) => "the file starts with physical address 0x40000000, without",
                _ => "the dump has physical addresses",
            };
            assert!(layout.starts_with(place), "{layout}");
        }
    }
}

/// Returns the sequences of the records that are not shown without a page, and of all without those
/// of the header and the VMCOREINFO.
fn lost_without(recorded: &Recorded, page: usize) -> BTreeSet<u64> {
    let mut pages = recorded.pages.clone();
    pages.remove(page);
    let memory = Memory::from_bytes(lime(&pages)).unwrap();
    let logs = Discovery::new(&memory).kernel_logs(&[]);
    let shown = logs.iter().flat_map(|log| log.messages().filter(is_whole));
    let shown: BTreeSet<_> = shown.map(|message| message.sequence).collect();
    let all = recorded.truth.iter().map(|line| line.0);
    all.filter(|sequence| !shown.contains(sequence)).collect()
}

#[test]
fn with_half_of_the_pages_the_records_whose_pages_are_there_are_read_from_every_kind_of_dump() {
    for recorded in Recorded::all() {
        let pages = 0..recorded.pages.len();
        let lost: Vec<_> = pages
            .clone()
            .map(|page| lost_without(&recorded, page))
            .collect();
        let is_needed = |page: usize| {
            let text = &recorded.pages[page].1;
            let has_info = text.windows(10).any(|word| word == b"OSRELEASE=");
            has_info || lost[page].len() == recorded.truth.len()
        };
        let may_go: Vec<_> = pages.clone().filter(|page| !is_needed(*page)).collect();
        assert!(may_go.len() + 4 > recorded.pages.len(), "{}", recorded.name);
        for half in [0, 1] {
            let goes = |page: &usize| may_go.iter().skip(half).step_by(2).any(|it| it == page);
            let gone: BTreeSet<_> = pages
                .clone()
                .filter(goes)
                .flat_map(|page| &lost[page])
                .collect();
            let wanted = recorded.truth.iter().filter(|line| !gone.contains(&line.0));
            let wanted: Vec<_> = wanted.cloned().collect();
            assert!(!wanted.is_empty(), "{}", recorded.name);
            let rest = Recorded {
                pages: pages
                    .clone()
                    .filter(|page| !goes(page))
                    .map(|page| recorded.pages[page].clone())
                    .collect(),
                truth: Vec::new(),
                ..recorded
            };
            let folder = TempDir::new().unwrap();
            for (kind, memory) in dumps(&rest, folder.path()) {
                let (mut lines, ..) = read(&memory);
                // A raw file has zeros in the place of a page, which may be a part of a record.
                if kind == "raw" {
                    lines.retain(|line| !gone.contains(&line.0));
                }
                let name = recorded.name;
                assert!(lines == wanted, "{name}, {kind}: {} records", lines.len());
            }
        }
    }
}

pub fn command(image: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(cargo_bin("nostall-postmortem"));
    command.arg(image).args(args).output().unwrap()
}

#[test]
fn the_command_prints_the_log_as_text_as_raw_dmesg_and_as_json() {
    let recorded = Recorded::load("6.12-wrapped", 0, 384);
    let image = recorded.raw();
    let output = command(image.path(), &[]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let (cause, rest) = text.split_once('\n').unwrap();
    assert_eq!(
        cause,
        "==> panic: sysrq triggered crash, CPU 1, task init, 1.9 s after boot, Linux \
         6.12.117+deb12-cloud-amd64"
    );
    let (heading, body) = rest.split_once('\n').unwrap();
    assert_eq!(
        heading,
        "==> kernel log 0: printk's ring at 0x765c060, 2936 records, 6452 to 9387 of Linux \
         6.12.117+deb12-cloud-amd64; unchecked: no error correction"
    );
    assert!(body.contains("\n[    1.922990] ---[ end Kernel panic - not syncing: sysrq"));
    // The records of the program have escapes, which no terminal may see.
    assert!(!text.contains('\x1b'), "an escape");
    let output = command(image.path(), &["--format", "linux"]);
    let printed = output.stdout;
    let mut raw = b"==> dmesg.txt <==\n".to_vec();
    for (_, time, facility, level, text) in &recorded.truth {
        for line in text.split(|byte| *byte == b'\n') {
            let micros = time / 1000;
            let (priority, seconds) = (facility << 3 | level, micros / 1_000_000);
            let prefix = format!("<{priority}>[{seconds:5}.{:06}] ", micros % 1_000_000);
            raw.extend_from_slice(prefix.as_bytes());
            raw.extend_from_slice(line);
            raw.push(b'\n');
        }
    }
    assert!(printed == raw);
    let output = command(image.path(), &["--format", "json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let lines: Vec<_> = lines.collect();
    let cause = &lines[0];
    assert_eq!(cause["type"], "cause");
    assert_eq!(cause["panic"], "sysrq triggered crash");
    assert_eq!((&cause["cpu"], &cause["task"]), (&1.into(), &"init".into()));
    let log = &lines[1];
    assert_eq!(log["type"], "kernel_log");
    assert_eq!(log["address"], "0x765c060");
    assert_eq!(log["kernel_offset"], "0x36800000");
    assert_eq!(log["build_id"], "7f76f39faf07f34cfa9fadd801e131bfa8cb6dc3");
    assert_eq!(
        (&log["first_sequence"], &log["last_sequence"]),
        (&6452.into(), &9387.into())
    );
    let messages: Vec<_> = lines
        .iter()
        .filter(|line| line["type"] == "kernel_message")
        .collect();
    assert_eq!(messages.len(), recorded.truth.len());
    for (message, (sequence, time, facility, level, text)) in messages.iter().zip(&recorded.truth) {
        assert_eq!(message["sequence"], *sequence);
        assert_eq!(message["time_ns"], *time);
        assert_eq!(
            (&message["facility"], &message["level"]),
            (&(*facility).into(), &(*level).into())
        );
        assert_eq!(message["log"], "0x765c060");
        match str::from_utf8(text) {
            Ok(text) => assert_eq!(message["text"], text),
            Err(_) => {
                let hex: String = text.iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!(message["data_hex"], hex);
            }
        }
    }
    assert_eq!(lines.last().unwrap()["records"], recorded.truth.len());
}

#[test]
fn a_kernel_that_was_stopped_inside_printk_has_reopened_and_lost_records() {
    let reopened = Memory::from_bytes(unpack("6.1-reopened.lime.gz")).unwrap();
    let discovery = Discovery::new(&reopened);
    let log = &discovery.kernel_logs(&[])[0];
    assert_eq!(
        (log.counts.records, log.counts.lost, log.counts.foreign),
        (1526, 0, 0)
    );
    let messages = log
        .messages()
        .filter(|it| it.state == MessageState::Reopened);
    let open: Vec<_> = messages.map(|it| (it.sequence, it.text)).collect();
    assert_eq!(open, [(2554, b"crash(c) ".to_vec())]);

    // Its newest record was reserved, and another CPU logged until the ring of texts was full.
    let full = Memory::from_bytes(unpack("6.1-full.lime.gz")).unwrap();
    let discovery = Discovery::new(&full);
    let log = &discovery.kernel_logs(&[])[0];
    assert_eq!(
        (log.counts.records, log.counts.lost, log.counts.foreign),
        (1540, 2555, 0)
    );
    let messages = log
        .messages()
        .filter(|it| it.state != MessageState::Complete);
    let mut states = messages.map(|it| (it.sequence, it.state));
    assert_eq!(states.next(), Some((2169, MessageState::Reopened)));
    let no_room = MessageState::Lost(LostText::NoRoom);
    assert!(states.all(|(sequence, state)| sequence > 2169 && state == no_room));
}

#[test]
fn a_folder_gets_the_log_as_a_file() {
    let image = Recorded::load("6.1", 0, 256).raw();
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let output = command(
        image.path(),
        &["--format", "linux", "--out", out.to_str().unwrap()],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = fs::read_to_string(out.join("dmesg.txt")).unwrap();
    assert!(text.starts_with("<5>[    0.000000] Linux version 6.1.0-56-cloud-amd64 "));
    assert!(text.contains("<0>[") && text.contains("] Kernel panic - not syncing: VFS"));
}

#[test]
fn the_text_of_a_log_is_shown_with_the_cause_of_its_dump() {
    let image = Recorded::load("6.1", 0, 256).raw();
    let folder = TempDir::new().unwrap();
    let run = |image: &Path, args: &[&str]| {
        let output = command(image, args);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let write = |image: &Path, out: &str| {
        let out = folder.path().join(out);
        run(
            image,
            &["--format", "linux", "--out", out.to_str().unwrap()],
        );
        out.join("dmesg.txt")
    };
    let raw = write(image.path(), "first");
    // Kdump's tools write no levels.
    let text = fs::read_to_string(&raw).unwrap();
    let lines = text.lines().map(|line| line.split_once('>').unwrap().1);
    let plain = lines.fold(String::new(), |text, line| text + line + "\n");
    let path = folder.path().join("dmesg.202611202332");
    fs::write(&path, &plain).unwrap();
    let dump = run(image.path(), &[]);
    let (cause, _) = dump.split_once('\n').unwrap();
    for (path, text) in [(&raw, &text), (&path, &plain)] {
        let count = text.lines().count();
        let shown = run(path, &[]);
        let about = format!("no dump, but the text of a kernel's log, {count} lines");
        let heading = format!("{cause}\n==> log text: {about}; unchecked: no error correction\n");
        assert_eq!(shown, format!("{heading}{text}\n"));
        let json = run(path, &["--format", "json"]);
        let lines = json.lines().map(|line| serde_json::from_str(line).unwrap());
        let [cause, log, end]: [serde_json::Value; 3] =
            lines.collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(cause["class"], "no-root");
        assert_eq!(
            (&log["type"], &log["text"]),
            (&"log_text".into(), &text[..].into())
        );
        assert_eq!(end["status"], "records");
        assert_eq!(
            fs::read_to_string(write(path, &format!("{count}{}", text.len()))).unwrap(),
            *text
        );
    }
    // A record of a program has no cause.
    fs::write(
        &path,
        "<12>[    1.000000] Kernel panic - not syncing: \x1b\n==> x",
    )
    .unwrap();
    let about = "no dump, but the text of a kernel's log, 2 lines; unchecked: no error correction";
    let text = "<12>[    1.000000] Kernel panic - not syncing: \\x1b\n\\x3d=> x\n\n";
    assert_eq!(run(&path, &[]), format!("==> log text: {about}\n{text}"));
}

#[test]
fn newest_records_without_their_text_may_have_a_panic() {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("image");
    for (newest, wanted) in [(MadeState::NoRoom, true), (MadeState::Finalized, false)] {
        let mut log = five();
        log.add(b"no room for it", MadeState::NoRoom);
        log.add(b"the newest", newest);
        fs::write(&image, log.lime()).unwrap();
        let text = String::from_utf8(command(&image, &[]).stdout).unwrap();
        let note = "\n==> the newest records have lost their text: a panic may be among them\n";
        assert_eq!(text.contains(note), wanted, "{text}");
    }
}

#[test]
fn vmcoreinfo_is_found_at_any_address() {
    for distance in [1, 13, 4095] {
        let mut recorded = Recorded::load("6.1", 0, 256);
        let text = recorded.pages.iter().find_map(|(start, page)| {
            let at = page.windows(10).position(|bytes| bytes == b"OSRELEASE=")?;
            Some((*start + at as u64, page[at..].to_vec()))
        });
        let text = text.unwrap().1;
        let end = text.iter().position(|byte| *byte == 0).unwrap();
        for (_, page) in &mut recorded.pages {
            for at in 0..PAGE - 10 {
                if page[at..].starts_with(b"OSRELEASE=") {
                    page[at] = b'o';
                }
            }
        }
        let mut pages = vec![0; 2 * PAGE + 4096];
        pages[distance..][..end].copy_from_slice(&text[..end]);
        recorded.pages.extend(
            pages
                .chunks(PAGE)
                .enumerate()
                .map(|(nth, page)| (0xf00_0000 + (nth * PAGE) as u64, page.to_vec())),
        );
        let (lines, ..) = read(&Memory::open(recorded.raw().path()).unwrap());
        assert!(lines == recorded.truth, "{distance}");
    }
}

#[test]
fn pages_that_are_missing_cost_only_their_records() {
    let recorded = Recorded::load("6.1", 0, 256);
    let (whole, mut shown) = (recorded.truth.len(), 0);
    for nth in 0..recorded.pages.len() {
        let mut pages = recorded.pages.clone();
        pages.remove(nth);
        let memory = Memory::from_bytes(lime(&pages)).unwrap();
        let discovery = Discovery::new(&memory);
        for log in discovery.kernel_logs(&[]) {
            let messages: Vec<_> = log.messages().collect();
            let lines: Vec<_> = messages
                .iter()
                .filter(|it| is_whole(it))
                .map(line)
                .collect();
            shown += lines.len();
            assert!(lines.iter().all(|line| recorded.truth.contains(line)));
            let lost = messages.len() - lines.len() + log.counts.missing as usize;
            assert_eq!(
                lines.len() + lost,
                whole,
                "without {:#x}",
                recorded.pages[nth].0
            );
        }
    }
    // A page has few of the records. One has the ring's header.
    assert!(
        shown > (recorded.pages.len() - 3) * whole * 8 / 10,
        "{shown}"
    );
}

#[test]
fn a_header_that_is_damaged_or_of_another_kernel_leads_nowhere() {
    let mut recorded = Recorded::load("6.1", 0, 256);
    let at = 0x6e6_22e0;
    recorded.bytes(at, 4)[0] = 63; // the number of descriptors
    let image = recorded.raw();
    let memory = Memory::open(image.path()).unwrap();
    assert!(Discovery::new(&memory).kernel_logs(&[]).is_empty());
    let output = command(image.path(), &[]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
}

#[test]
fn a_record_in_every_state_is_shown_as_it_is() {
    let mut log = MadeLog::new(4, 7);
    log.add(b"first", MadeState::Finalized);
    log.add(b"", MadeState::Empty);
    log.add(b"no room for it", MadeState::NoRoom);
    log.add(b"is open again", MadeState::Reopened);
    log.add(b"", MadeState::Reserved);
    log.add(b"the last one", MadeState::Committed);
    let (memory, _) = log.dump();
    let discovery = Discovery::new(&memory);
    let logs = discovery.kernel_logs(&[]);
    let messages: Vec<_> = logs[0].messages().collect();
    let states: Vec<_> = messages
        .iter()
        .map(|it| (it.sequence, &it.text[..], it.state))
        .collect();
    assert_eq!(
        states,
        [
            (0, &b"first"[..], MessageState::Complete),
            (1, b"", MessageState::Complete),
            (2, b"", MessageState::Lost(LostText::NoRoom)),
            (3, b"is open again", MessageState::Reopened),
            (4, b"", MessageState::Unfinished),
            (5, b"the last one", MessageState::Complete),
        ]
    );
    assert_eq!(messages[0].caller.to_string(), "T7");
    assert_eq!(messages[1].caller.to_string(), "C3");
    assert_eq!(messages[0].subsystem.as_deref(), Some("pci"));
    assert_eq!(messages[0].device.as_deref(), Some("+pci:0000:00:01.0"));
}

#[test]
fn a_text_that_was_overtaken_is_lost_and_so_is_one_that_claims_too_much() {
    let mut log = MadeLog::new(3, 8);
    log.add(b"overtaken", MadeState::Finalized);
    log.add(b"too long", MadeState::Finalized);
    log.add(b"sound", MadeState::Finalized);
    log.overwrite_block(0);
    log.claim(1, 100);
    let (memory, _) = log.dump();
    let discovery = Discovery::new(&memory);
    let logs = discovery.kernel_logs(&[]);
    let states: Vec<_> = logs[0].messages().map(|it| it.state).collect();
    assert_eq!(
        states,
        [
            MessageState::Lost(LostText::Overwritten),
            MessageState::Lost(LostText::Inconsistent),
            MessageState::Complete,
        ]
    );
    assert_eq!(logs[0].counts.lost, 2);
}

#[test]
fn texts_that_overlap_are_lost_but_for_as_many_bytes_as_the_ring_has() {
    let mut log = MadeLog::new(4, 6);
    // Their blocks have more bytes than the ring.
    (0..4).for_each(|_| log.add(b"a text of 20 bytes..", MadeState::Finalized));
    log.overlap();
    let (memory, _) = log.dump();
    let discovery = Discovery::new(&memory);
    let logs = discovery.kernel_logs(&[]);
    let whole = logs.iter().flat_map(|log| log.messages()).filter(is_whole);
    assert_eq!(whole.count(), 1);
}

#[test]
fn a_damaged_position_is_no_empty_text() {
    for (begin, next, state) in [
        (3, 3, MessageState::Complete),
        (1, 1, MessageState::Lost(LostText::NoRoom)),
        (3, 1, MessageState::Lost(LostText::Inconsistent)),
        (5, 5, MessageState::Lost(LostText::Inconsistent)),
        (1, 3, MessageState::Lost(LostText::Inconsistent)),
    ] {
        let mut log = MadeLog::new(3, 8);
        log.add(b"", MadeState::Empty);
        log.add(b"sound", MadeState::Finalized);
        log.set_block(0, begin, next);
        let (memory, _) = log.dump();
        let discovery = Discovery::new(&memory);
        let logs = discovery.kernel_logs(&[]);
        assert_eq!(logs[0].messages().next().unwrap().state, state);
    }
}

#[test]
fn a_text_that_only_resembles_vmcoreinfo_leads_nowhere_and_hides_nothing() {
    let recorded = Recorded::load("6.1", 0, 256);
    for forged in [
        &b"OSRELEASE="[..],
        b"OSRELEASE=6.1\n",
        b"OSRELEASE=6.1\nSYMBOL(prb)=ffffffff81000000\n",
        b"OSRELEASE=6.1; verified ==> kernel log 1\nSYMBOL(prb)=0\n",
    ] {
        let mut pages = recorded.pages.clone();
        let bytes: Vec<u8> = forged.iter().copied().cycle().take(4 * PAGE).collect();
        pages.extend(
            bytes
                .chunks(PAGE)
                .enumerate()
                .map(|(nth, page)| (0xf00_0000 + (nth * PAGE) as u64, page.to_vec())),
        );
        let (lines, ..) = read(&Memory::from_bytes(lime(&pages)).unwrap());
        assert!(lines == recorded.truth);
    }
}

fn state() -> impl Strategy<Value = MadeState> {
    prop_oneof![
        6 => Just(MadeState::Finalized),
        1 => Just(MadeState::Empty),
        1 => Just(MadeState::NoRoom),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_made_ring_is_read_as_it_was_written(
        count_bits in 1_u32..6,
        size_bits in 6_u32..10,
        texts in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..40), state()), 1..150),
    ) {
        let mut log = MadeLog::new(count_bits, size_bits);
        for (text, state) in &texts {
            log.add(text, *state);
        }
        let (memory, wanted) = log.dump();
        let discovery = Discovery::new(&memory);
        let logs = discovery.kernel_logs(&[]);
        let read: Vec<_> = logs.iter().flat_map(|log| log.messages()).filter(is_whole).collect();
        let read: Vec<_> = read.iter().map(|message| (message.sequence, message.text.clone())).collect();
        prop_assert_eq!(read, wanted);
    }

    #[test]
    fn no_number_in_vmcoreinfo_makes_the_reader_panic(
        key in any::<prop::sample::Index>(),
        value in prop_oneof![Just(u64::MAX), Just(1 << 63), Just(0), any::<u64>(), 0_u64..10_000],
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0_u32..8), 0..40),
    ) {
        let mut log = MadeLog::new(4, 8);
        (0..20).for_each(|nth| log.add(format!("record {nth}").as_bytes(), MadeState::Finalized));
        log.set(key.index(log.keys()), value);
        let mut bytes = log.lime();
        for (at, bit) in flips {
            let at = 32 + at.index(bytes.len() - 32);
            bytes[at] ^= 1 << bit;
        }
        for memory in [Memory::from_bytes(bytes.clone()), open_raw(bytes)] {
            let Ok(memory) = memory else { continue };
            let discovery = Discovery::new(&memory);
            for log in discovery.kernel_logs(&[]) {
                prop_assert!(log.messages().count() <= 1 << 22);
            }
        }
    }
}

/// Opens the bytes as raw memory.
fn open_raw(bytes: Vec<u8>) -> Result<Memory, nostall_postmortem::memory::Error> {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    Memory::open_raw(file.path())
}

#[test]
fn ram_above_4_gib_is_found_behind_the_rest_of_a_pcs_ram() {
    for low in [2_u64 << 30, 3 << 30, (3 << 30) + (256 << 20)] {
        for (tables_are_high, size) in [(true, 4_u64 << 30), (false, 4 << 30), (true, 5 << 30)] {
            let mut log = MadeLog::new(4, 8);
            log.add(b"above", MadeState::Finalized);
            let (path, wanted) = raw_pc(&log, low, size, tables_are_high);
            let memory = Memory::open(&path).unwrap();
            let discovery = Discovery::new(&memory);
            let logs = discovery.kernel_logs(&[]);
            assert_eq!(logs.len(), 1, "{low:#x} {tables_are_high}");
            assert_eq!(
                logs[0].ram_layout().to_string(),
                format!("RAM from 0x100000000 up starts at {low:#x} of the file")
            );
            let texts: Vec<_> = logs[0].messages().map(|it| it.text).collect();
            assert_eq!(texts, wanted);
        }
    }
}

#[test]
fn ram_is_found_among_many_pointers_if_its_page_tables_are_lost_or_overwritten() {
    const IMAGE: u64 = 0xffff_ffff_8000_0000;
    for (ram, has_tables) in [(0_u64, false), (0, true), (1 << 30, false), (1 << 30, true)] {
        let mut log = five();
        let phys_base = 2;
        log.set(phys_base, ram);
        let mut bytes = vec![0; 4 << 20];
        let mut put = |at: u64, object: &[u8]| {
            bytes[at as usize..][..object.len()].copy_from_slice(object);
        };
        let root = 0x10_0000;
        for (at, object) in log.place((IMAGE, 0), (IMAGE + 0x21_0000, 0x21_0000), root) {
            put(at, &object);
        }
        for page in 1..200 {
            put(page << 12, &(IMAGE + 0x20_0000 + page).to_le_bytes());
        }
        // The tables map themselves, and not the ring.
        let entries = [
            (root + 511 * 8, (ram + root + 0x1000) | 0x63),
            (root + 0x1000 + 510 * 8, (ram + root + 0x2000) | 0x63),
            (root + 0x2000, ram | 0x1e3),
        ];
        for (at, entry) in entries.into_iter().filter(|_| has_tables) {
            put(at, &entry.to_le_bytes());
        }
        let memory = open_raw(bytes).unwrap();
        let logs = Discovery::new(&memory).kernel_logs(&[]);
        assert_eq!(logs.len(), 1, "{ram:#x} {has_tables}");
        let texts: Vec<_> = logs[0].messages().map(|it| it.text).collect();
        assert_eq!(texts, [&b"zero"[..], b"one", b"two", b"three", b"four"]);
    }
}

/// Writes the RAM of a PC whose ring lies above 4 GiB.
fn raw_pc(
    log: &MadeLog,
    low: u64,
    size: u64,
    tables_are_high: bool,
) -> (tempfile::TempPath, Vec<Vec<u8>>) {
    const HIGH: u64 = 1 << 32;
    const DIRECT: u64 = 0xffff_8880_0000_0000;
    let top = HIGH + size - low;
    let (file, path) = NamedTempFile::new().unwrap().into_parts();
    file.set_len(size).unwrap();
    let place = |physical: u64| match physical < HIGH {
        true => physical,
        false => physical - HIGH + low,
    };
    let put = |physical: u64, bytes: &[u8]| {
        let mut file: &File = &file;
        file.seek(SeekFrom::Start(place(physical))).unwrap();
        file.write_all(bytes).unwrap();
    };
    let entry = |table: u64, index: u64, value: u64| put(table + index * 8, &value.to_le_bytes());
    let (root, image_gib, image, direct) = (0x10_0000, 0x10_1000, 0x10_2000, 0x10_3000);
    entry(root, 511, image_gib | 0x63);
    entry(image_gib, 510, image | 0x63);
    (0..8).for_each(|nth| entry(image, nth, (nth << 21) | 0x1e3));
    entry(root, 273, direct | 0x63);
    for gib in (0..low >> 30).chain(4..top.div_ceil(1 << 30)) {
        let start = gib << 30;
        if gib < 4 && start + (1 << 30) <= low {
            entry(direct, gib, start | 0x1e3);
            continue;
        }
        let table = match tables_are_high {
            true => top - (gib << 12),
            false => 0x10_4000 + (gib << 12),
        };
        entry(direct, gib, table | 0x63);
        let large = (0..512).filter(|nth| start + ((nth + 1) << 21) <= top);
        large.for_each(|nth| entry(table, nth, (start + (nth << 21)) | 0x1e3));
    }
    let ring = HIGH + (32 << 20);
    for (physical, bytes) in log.place((0xffff_ffff_8000_0000, 0), (DIRECT + ring, ring), root) {
        put(physical, &bytes);
    }
    (
        path,
        log.wanted().into_iter().map(|(_, text)| text).collect(),
    )
}

/// A log of five records.
fn five() -> MadeLog {
    let mut log = MadeLog::new(4, 8);
    for text in [&b"zero"[..], b"one", b"two", b"three", b"four"] {
        log.add(text, MadeState::Finalized);
    }
    log
}

#[test]
fn consoles_and_their_progress_are_read_in_every_form() {
    let consoles: [MadeConsole; 3] = [
        ("ttyS", 0, 4, 3),
        ("nbcon", 1, 0x104, 5),
        ("plain", -1, 4, 0),
    ];
    for form in [AddressForm::Below, AddressForm::Above, AddressForm::Itself] {
        for is_list in [true, false] {
            let mut log = five();
            log.add_names(made_names(&consoles, form, is_list, NAMES_AT));
            let (memory, _) = log.dump();
            let discovery = Discovery::new(&memory);
            let logs = discovery.kernel_logs(&[]);
            let progress = logs[0].consoles().unwrap();
            let progress: Vec<_> = progress
                .iter()
                .map(|it| (&*it.name, it.next_sequence))
                .collect();
            let wanted = [("ttyS0", 3), ("nbcon1", 5), ("plain", 0)];
            assert_eq!(progress, wanted, "{form:?} {is_list}");
            let symbols = logs[0].symbols().unwrap();
            assert_eq!(symbols.lookup(NAMES_AT & !0xfffff).unwrap().name, "_stext");
        }
    }
}

#[test]
fn text_shows_where_each_console_stopped_and_json_the_consoles_of_each_record() {
    let dir = TempDir::new().unwrap();
    let mut log = five();
    let consoles = [("ttyS", 0, 4, 3), ("tty", 0, 4, 5), ("netcon", 0, 4, 3)];
    log.add_names(made_names(&consoles, AddressForm::Below, true, NAMES_AT));
    let image = dir.path().join("image");
    fs::write(&image, log.lime()).unwrap();
    let text = String::from_utf8(command(&image, &[]).stdout).unwrap();
    let lines: Vec<_> = text
        .lines()
        .map(|line| &line[line.len().min(15)..])
        .collect();
    let wanted = [
        "zero",
        "one",
        "two",
        "here by netcon0",
        "here by ttyS0",
        "three",
        "four",
    ];
    assert_eq!(lines[1..8], wanted, "{text}");
    let output = command(&image, &["--format", "json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let lines: Vec<_> = lines.collect();
    let wanted = serde_json::json!({ "netcon0": 3, "tty0": 5, "ttyS0": 3 });
    assert_eq!(lines[0]["consoles"], wanted);
    let printed = lines.iter().filter(|line| line["type"] == "kernel_message");
    let printed: Vec<_> = printed.map(|line| line["printed"].clone()).collect();
    assert_eq!(printed[2], serde_json::json!(["ttyS0", "tty0", "netcon0"]));
    assert_eq!(printed[3], serde_json::json!(["tty0"]));
}

#[test]
fn consoles_that_cannot_be_right_are_unknown() {
    let consoles = |log: MadeLog| {
        let (memory, _) = log.dump();
        let discovery = Discovery::new(&memory);
        let logs = discovery.kernel_logs(&[]);
        assert_eq!(logs[0].counts.records, 5);
        logs[0].consoles()
    };
    assert_eq!(consoles(five()), None);
    let names = |consoles: &[MadeConsole]| made_names(consoles, AddressForm::Below, true, NAMES_AT);
    let with = |names| {
        let mut log = five();
        log.add_names(names);
        consoles(log)
    };
    assert_eq!(with(names(&[])), None);
    // Beyond the last record, and with a name that is none.
    assert_eq!(with(names(&[("ttyS", 0, 4, 6)])), None);
    assert_eq!(with(names(&[("tty\x1b", 0, 4, 2)])), None);
    // A list without an end.
    let (mut bytes, lines) = names(&[("ttyS", 0, 4, 2), ("tty", 0, 4, 2)]);
    let first = bytes[link(0)..][..8].to_vec();
    bytes[link(1)..][..8].copy_from_slice(&first);
    assert_eq!(with((bytes, lines)), None);
    // Other names than those of this kernel.
    let (bytes, mut lines) = names(&[("ttyS", 0, 4, 2)]);
    lines[0].1 += 0x10;
    assert_eq!(with((bytes, lines)), None);
    // Any bit of the tables.
    let (bytes, lines) = names(&[("ttyS", 0, 4, 2), ("tty", 0, 4, 5)]);
    for at in (0..bytes.len()).filter(|at| bytes[*at] != 0) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1 << (at % 8);
        with((bytes, lines.clone()));
    }
}

#[test]
fn a_panic_that_a_program_wrote_is_no_cause() {
    // The made records are of facility 1, as Linux enforces for programs.
    let dir = TempDir::new().unwrap();
    let mut log = five();
    log.add(
        b"Kernel panic - not syncing: said by a program",
        MadeState::Finalized,
    );
    let image = dir.path().join("image");
    fs::write(&image, log.lime()).unwrap();
    let text = String::from_utf8(command(&image, &[]).stdout).unwrap();
    assert!(text.starts_with("==> kernel log 0: "), "{text}");
}

#[test]
fn an_image_without_a_log_says_what_is_seen_instead() {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("image");
    let mut memory = vec![0; 3 << 20];
    let banner = b"Linux version 2.6.32-5-amd64 (Debian) (gcc) #1 SMP Mon 2010\n\0";
    memory[0x10_0040..][..banner.len()].copy_from_slice(banner);
    fs::write(&image, &memory).unwrap();
    let said = |wanted: &str| {
        let output = command(&image, &[]);
        assert_eq!(output.status.code(), Some(5));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(wanted), "{said}");
    };
    said(
        "no trace in 3 MiB of memory (raw); the text `Linux version 2.6.32-5-amd64 (Debian) (gcc) #1 SMP Mon 2010` is at 0x100040; if",
    );
    let info = b"OSRELEASE=5.4.0-made\nSYMBOL(log_buf)=ffffffff81000000\n\0";
    memory[..info.len()].copy_from_slice(info);
    fs::write(&image, &memory).unwrap();
    said("Linux 5.4.0-made is described by VMCOREINFO at 0x0, but its log cannot be read; if");
}

#[test]
fn a_panic_that_a_program_wrote_into_ramoops_is_no_cause() {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("image");
    let fixture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../drivers/pstore/tests/fixtures/nocompress/image.bin"
    );
    let mut region = fs::read(fixture).unwrap();
    let cause = |region: &[u8]| {
        fs::write(&image, region).unwrap();
        let text = String::from_utf8(command(&image, &[]).stdout).unwrap();
        text.lines().next().unwrap().to_owned()
    };
    assert!(cause(&region).starts_with("==> panic: sysrq triggered crash"));
    // The kernel's panics become other texts, and one of the program's lines a panic.
    let mut replace = |old: &[u8], new: &[u8]| {
        assert_eq!(old.len(), new.len());
        while let Some(at) = region.windows(old.len()).position(|place| place == old) {
            region[at..][..new.len()].copy_from_slice(new);
        }
    };
    replace(b"Kernel panic - not", b"Kernel pan1c - not");
    // With the program's facility, as in the dmesg record alone.
    replace(
        b"<12>[    1.264557] kmsg line 48 hello persistent world",
        b"<12>[    1.264557] Kernel panic - not syncing: by echo",
    );
    let cause = cause(&region);
    assert!(cause.starts_with("==> dmesg 0: "), "{cause}");
}

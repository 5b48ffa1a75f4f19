//! Files of trace-cmd.

use std::io::{Cursor, Read};

use nostall_trace::model::{Event, EventKind, Source};
use nostall_trace::read::{is_dat, open_dat};

const VERSION_6: &[u8] = include_bytes!("fixtures/dat/sched-v6.dat.gz");
const VERSION_7: &[u8] = include_bytes!("fixtures/dat/sched-v7.dat.gz");
const REPORT: &[u8] = include_bytes!("fixtures/dat/sched.report.gz");

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(bytes);
    decoder.read_to_end(&mut unpacked).unwrap();
    unpacked
}

/// Events of a file as lines of text, and the notes. `Err`: the header cannot be read.
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

/// Lines of `trace-cmd report -t` in the form of `line`: time, CPU, task; and the event.
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
fn a_recording_of_trace_cmd_gives_the_events_of_its_report_in_versions_6_and_7() {
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
fn a_file_cut_at_any_place_is_read_as_far_as_it_goes() {
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
fn a_damaged_byte_costs_no_more_than_its_page() {
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

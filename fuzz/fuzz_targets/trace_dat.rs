//! Opens arbitrary trace.dat files, and writes those that can be read. The written file has the
//! same calls.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use nostall_tracefile::export::dat;
use nostall_tracefile::graph::{self, Step};
use nostall_tracefile::model::{ReadError, Source};
use nostall_tracefile::read::{is_dat, open_dat};

/// Returns the durations of the calls with an end, in ascending order.
fn calls(source: &mut impl Source) -> Vec<u64> {
    let mut calls = Vec::new();
    graph::walk(source, |catalog, step| {
        if let Step::Leave(slice) = step
            && let (Some(_), Some(duration)) = (slice.end, slice.duration)
        {
            if let Some(name) = slice.function {
                assert!(!catalog.text(name).is_empty());
            }
            calls.push(duration);
        }
        Ok::<_, ReadError>(())
    })
    .unwrap();
    calls.sort_unstable();
    calls
}

fuzz_target!(|input: &[u8]| {
    // Without a magic, the input follows the first bytes of a version 6 file.
    let file = if is_dat(input) {
        input.to_vec()
    } else {
        [b"\x17\x08\x44tracing6\0\0\x08\0\x10\0\0", input].concat()
    };
    let Ok(mut source) = open_dat(Cursor::new(&file)) else {
        return;
    };
    let expected = calls(&mut source);
    let progress = source.progress();
    assert!(progress.done <= progress.total);
    assert!(source.notes().len() < 40);

    let mut source = open_dat(Cursor::new(&file)).unwrap();
    let mut written = Vec::new();
    if dat::write(&mut source, &mut written).is_ok() {
        let mut source = open_dat(Cursor::new(written)).unwrap();
        assert_eq!(calls(&mut source), expected);
    }
});

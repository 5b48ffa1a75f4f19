//! Formats arbitrary records with arbitrary event and print formats: no panic, and a text of
//! bounded length.
//!
//! The input is a byte for the machine, a format file, a zero, a print format, a zero, and a
//! record's payload. Seeds are thus made from files of tracefs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nostall_tracefile::linux::{Formats, Order, fields};

fuzz_target!(|input: &[u8]| {
    let Some((machine, rest)) = input.split_first() else {
        return;
    };
    let (is_big, is_short) = (machine & 1 != 0, machine & 2 != 0);
    let mut parts = rest.splitn(3, |byte| *byte == 0);
    let mut part = || parts.next().unwrap_or_default();
    let (file, print, payload) = (part(), part(), part());
    let (file, print) = (String::from_utf8_lossy(file), String::from_utf8_lossy(print));
    let order = if is_big { Order::Big } else { Order::Little };
    let mut formats = Formats::new(order, if is_short { 4 } else { 8 });
    formats.add(&file);
    formats.add(&format!(
        "name: made\nID: 77\nformat:\n\
         \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
         \tfield:__data_loc u16[] list;\toffset:24;\tsize:4;\tsigned:0;\n\
         \tfield:__rel_loc char[] rel;\toffset:28;\tsize:4;\tsigned:0;\n\
         \tfield:long a;\toffset:32;\tsize:8;\tsigned:1;\n\
         \tfield:u32 b;\toffset:40;\tsize:4;\tsigned:0;\n\nprint fmt: {print}\n"
    ));
    for event in formats.iter() {
        if let Ok(text) = formats.text(event, payload, &()) {
            assert!(text.len() <= 8192);
        }
        let shown = fields(event, payload, order);
        assert!(shown.len() <= event.fields.iter().map(|field| field.name.len() + 3 * payload.len() + 64).sum());
    }
});

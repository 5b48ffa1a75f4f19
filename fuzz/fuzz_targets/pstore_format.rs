//! Layouts, parity codes and dmesg headers. Zones are adjacent and inside the region, and codewords
//! are corrected to the nearest one. A parsed first line of a dmesg record formats to itself.

#![no_main]

use std::sync::LazyLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nostall_pstore::{
    BLOCK, Code, DMESG_HEADER, DmesgHeader, Layout, MAX_PARITY, Params, RecordFormat, ZoneOrder,
    ZoneState, recover,
};

#[derive(Arbitrary, Debug)]
enum Input {
    Layout(AnyParams),
    Recover(AnyParams, Vec<u8>),
    Codeword {
        parity: u8,
        data: Vec<u8>,
        errors: Vec<(u8, u8)>,
    },
    Noise {
        parity: u8,
        data: Vec<u8>,
        bytes: Vec<u8>,
    },
    DmesgHeader(Vec<u8>),
    AnyDmesgHeader(i64, u64, bool),
}

#[derive(Arbitrary, Debug)]
struct AnyParams {
    mem_size: usize,
    record_size: usize,
    console_size: usize,
    ftrace_size: usize,
    pmsg_size: usize,
    ecc: u8,
    cpus: u16,
    flags: u32,
    pmsg_first: bool,
}

/// The codes with 1, 2, ... parity bytes.
static CODES: LazyLock<Vec<Code>> =
    LazyLock::new(|| (1..=MAX_PARITY).filter_map(Code::new).collect());

fuzz_target!(|input: Input| match input {
    Input::Layout(params) => drop(layout(&params.all())),
    Input::Recover(params, memory) => recovered(&params.small(), &memory),
    Input::Codeword {
        parity,
        data,
        errors,
    } => few_errors_are_mended(code(parity), data, &errors),
    Input::Noise {
        parity,
        data,
        bytes,
    } => noise(code(parity), data, bytes),
    Input::DmesgHeader(text) => dmesg_header(&text),
    Input::AnyDmesgHeader(seconds, micros, compressed) => {
        let micros = micros % 1_000_000;
        says_it_again(DmesgHeader {
            seconds,
            micros,
            compressed,
        });
    }
});

impl AnyParams {
    fn all(&self) -> Params {
        Params {
            mem_size: self.mem_size,
            record_size: self.record_size,
            console_size: self.console_size,
            ftrace_size: self.ftrace_size,
            pmsg_size: self.pmsg_size,
            ecc: self.ecc.into(),
            cpus: self.cpus.into(),
            flags: self.flags,
            zone_order: ZoneOrder::ALL[usize::from(self.pmsg_first)],
        }
    }

    fn small(&self) -> Params {
        Params {
            mem_size: self.mem_size % 0x1_0000,
            record_size: self.record_size % 0x4000,
            console_size: self.console_size % 0x4000,
            ftrace_size: self.ftrace_size % 0x4000,
            pmsg_size: self.pmsg_size % 0x4000,
            ..self.all()
        }
    }
}

/// Checks that zones are adjacent and inside the region. At most 10,000 are checked, because there
/// may be many more.
fn layout(params: &Params) -> Option<Layout> {
    let layout = Layout::new(params).ok()?;
    let mut end = 0;
    for place in layout.zones().take(10_000) {
        assert_eq!((place.offset, place.offset % 2), (end, 0));
        assert_eq!(place.division.parity(), params.ecc);
        end += place.division.zone();
        assert!(end <= params.mem_size);
    }
    assert!(end > 0);
    // Parameters that were accepted are accepted again, with the same division.
    let again = Layout::new(layout.params()).unwrap();
    assert!(again.zones().take(10_000).eq(layout.zones().take(10_000)));
    Some(layout)
}

fn recovered(params: &Params, memory: &[u8]) {
    let Some(layout) = layout(params) else {
        return;
    };
    let code = params.ecc.checked_sub(1).map(|at| &CODES[at]);
    let recovered = recover(memory, &layout, code);
    for mut zone in recovered.zones() {
        let end = zone.place().offset + zone.place().division.zone();
        assert!(zone.state() != ZoneState::Valid || end <= memory.len());
        assert_eq!(zone.ecc().is_some(), code.is_some());
    }
    for record_format in RecordFormat::ALL {
        if let Some(traces) = recovered.traces::<4>(record_format) {
            assert!(traces.count() * record_format.len() <= memory.len());
        }
    }
}

fn code(parity: u8) -> &'static Code {
    &CODES[usize::from(parity) % CODES.len()]
}

fn few_errors_are_mended(code: &Code, mut data: Vec<u8>, errors: &[(u8, u8)]) {
    data.truncate(BLOCK);
    let mut word = data.clone();
    word.resize(data.len() + code.parity(), 0);
    code.encode(&data, &mut word[data.len()..]);
    let right = word.clone();
    for (at, change) in &errors[..errors.len().min(code.parity() / 2)] {
        let at = usize::from(*at) % word.len();
        word[at] ^= change;
    }
    let wrong = different(&word, &right);
    let (data, parity) = word.split_at_mut(data.len());
    assert_eq!(code.correct(data, parity), Ok(wrong));
    assert_eq!(word, right);
}

fn noise(code: &Code, mut data: Vec<u8>, mut parity: Vec<u8>) {
    data.truncate(BLOCK);
    parity.resize(code.parity(), 0);
    let before = [&data[..], &parity].concat();
    for (like_linux, most) in [(false, code.parity() / 2), (true, code.parity())] {
        let (mut data, mut parity) = (data.clone(), parity.clone());
        let result = match like_linux {
            true => code.correct_like_linux(&mut data, &mut parity),
            false => code.correct(&mut data, &mut parity),
        };
        let changed = different(&before, &[&data[..], &parity].concat());
        match result {
            Ok(errors) => {
                assert!(errors <= most);
                assert_eq!(changed, errors);
                assert!(code.check(&data, &parity));
            }
            Err(_) => assert_eq!(changed, 0),
        }
    }
}

fn different(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).filter(|(a, b)| a != b).count()
}

fn dmesg_header(text: &[u8]) {
    let Some((header, len)) = DmesgHeader::decode(text) else {
        return;
    };
    assert!(len <= text.len());
    // White space before a plain text belongs to the header, and a zero byte ends the text.
    assert!(header.compressed || !matches!(text.get(len), Some(9..=13 | 32 | 160)));
    assert!(!text[..len].contains(&0));
    if header.micros < 1_000_000 {
        says_it_again(header);
    }
}

fn says_it_again(header: DmesgHeader) {
    let (line, len) = header.encode();
    assert!(len <= DMESG_HEADER);
    assert_eq!(DmesgHeader::decode(&line[..len]), Some((header, len)));
}

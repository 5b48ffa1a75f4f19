//! Writes a zone in several boots: its contents are restored in order and complete, whatever it
//! held before. If as many bytes flip as the code corrects, every wrong byte is marked.

#![no_main]

use std::sync::LazyLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nostall_postmortem::decompress::{Compression, decompress};
use nostall_pstore::{
    BLOCK, Code, Division, DumpHeader, HEADER, ZoneKind, LinuxVersion, MAX_PARITY, Matches, Memory,
    Place, CorrectionPolicy, Ram, Reader, Trust, Uncached, Writer, Zone, longest_deflated,
};

const LINUX: LinuxVersion = LinuxVersion::new(6, 1, 192);

#[derive(Arbitrary, Debug)]
struct Input {
    size: u16,
    parity: u8,
    kind: u8,
    uncached: bool,
    before: Vec<u8>,
    lives: Vec<Vec<Event>>,
    /// Positions of flipped bytes, and the flips.
    flips: Vec<(u16, u8)>,
}

#[derive(Arbitrary, Debug)]
enum Event {
    Append(Vec<u8>),
    AppendText(Vec<u8>),
    AppendMany { byte: u8, count: u16 },
    Erase,
    Dmesg(Vec<u8>),
    DmesgDeflated { log: Vec<u8>, times: u8, room: u16 },
}

/// The codes by their number of parity bytes. `None` has no parity.
static CODES: LazyLock<Vec<Option<Code>>> =
    LazyLock::new(|| (0..=MAX_PARITY).map(Code::new).collect());

fuzz_target!(|input: Input| {
    let mut memory = input.before.clone();
    memory.resize(usize::from(input.size) % 5_000, 0);
    let kinds = [ZoneKind::Dmesg, ZoneKind::Console, ZoneKind::Ftrace, ZoneKind::Pmsg];
    let kind = kinds[usize::from(input.kind) % kinds.len()];
    let code = CODES[usize::from(input.parity) % CODES.len()].as_ref();

    let Ok((mut zone, _)) = Zone::attach(Ram::of(&mut memory), kind, LINUX, code) else {
        return;
    };
    // Earlier contents are arbitrary, so only their length is checked.
    let division = zone.division();
    assert!(zone.len() <= division.data());
    zone.erase();

    let place = Place {
        kind,
        index: 0,
        offset: 0,
        division,
    };
    let careful = Reader {
        writer: Writer::DataFirst,
        ..Reader::careful(code)
    };
    let mut model = Vec::new();
    for events in &input.lives {
        let ram = Ram::of(&mut memory);
        if input.uncached {
            live(Uncached::new(ram), place, code, events, &mut model);
        } else {
            live(ram, place, code, events, &mut model);
        }
        for policy in [CorrectionPolicy::Careful, CorrectionPolicy::Faithful] {
            comes_back(&memory, Reader { policy, ..careful }, place, &model);
        }
    }
    flip(&mut memory, division, &input.flips);
    is_mended_or_marked(&memory, careful, place, &model);

    let is_certain = careful.open(&memory[..], place).header_trust() != Trust::Unverified;
    let (mut zone, _) = Zone::attach(Ram::of(&mut memory), kind, LINUX, code).unwrap();
    zone.append(b"!");
    if is_certain {
        model.push(b'!');
        model.drain(..model.len().saturating_sub(division.data()));
        is_mended_or_marked(&memory, careful, place, &model);
    }
    let mut old = careful.open(&memory[..], place);
    let mut last = [0];
    assert!(old.read(old.len() - 1, &mut last).is_some());
    assert_eq!(&last, b"!");
});

fn live(
    memory: impl Memory,
    place: Place,
    code: Option<&Code>,
    events: &[Event],
    model: &mut Vec<u8>,
) {
    let (mut zone, _) = Zone::attach(memory, place.kind, LINUX, code).unwrap();
    assert_eq!(zone.len(), model.len());
    for event in events {
        match event {
            Event::Append(bytes) => {
                zone.append(bytes);
                model.extend(bytes);
            }
            Event::AppendText(bytes) => {
                zone.append_text(bytes);
                model.extend(bytes);
            }
            Event::AppendMany { byte, count } => {
                let bytes = vec![*byte; (*count).into()];
                zone.append(&bytes);
                model.extend(bytes);
            }
            Event::Erase => {
                zone.erase();
                model.clear();
            }
            Event::Dmesg(log) => {
                zone.write_dmesg(&DumpHeader::PANIC, log);
                *model = plain(log, zone.len());
            }
            Event::DmesgDeflated { log, times, room } => {
                let log = log.repeat((*times).into());
                let mut room = vec![0; (*room).into()];
                let mut matches = Matches::new();
                zone.write_dmesg_deflated(&DumpHeader::PANIC, &log, &mut matches, &mut room);
                *model = deflated(&zone, &log).unwrap_or_else(|| plain(&log, zone.len()));
            }
        }
        model.drain(..model.len().saturating_sub(place.division.data()));
        assert_eq!(zone.len(), model.len(), "{event:?}");
    }
}

/// Returns a plain record of `len` bytes: as much of the end of `log` as fits.
fn plain(log: &[u8], len: usize) -> Vec<u8> {
    const START: &[u8] = b"====0.000000-D\nPanic#1 Part1\n";
    let end = len.saturating_sub(START.len()).min(log.len());
    [START, &log[log.len() - end..]].concat()
}

/// Returns the deflated record in a zone, if there is one: it is the end of `log`, and not
/// larger than Linux's buffer.
fn deflated(zone: &Zone<'_, impl Memory>, log: &[u8]) -> Option<Vec<u8>> {
    let mut record = vec![0; zone.len()];
    zone.memory().load(HEADER, &mut record);
    let body = record.strip_prefix(b"====0.000000-C\n")?;
    let text = decompress(
        Compression::Deflate,
        body,
        longest_deflated(zone.division().data()),
    );
    let text = text.unwrap();
    assert!(log.ends_with(text.strip_prefix(b"Panic#1 Part1\n").unwrap()));
    Some(record)
}

fn comes_back(memory: &[u8], reader: Reader<'_>, place: Place, model: &[u8]) {
    let mut old = reader.open(memory, place);
    let mut read = vec![0; old.len()];
    let trust = old.read(0, &mut read);
    assert_eq!(read, model);
    assert!(trust <= Some(Trust::Unchecked), "{trust:?}");
    assert!(old.header_trust() <= Trust::Unchecked);
}

/// Flips bytes, in each codeword no more than the code corrects.
fn flip(memory: &mut [u8], division: Division, flips: &[(u16, u8)]) {
    let mut left = vec![division.parity() / 2; division.blocks() + 1];
    for (at, change) in flips {
        let at = usize::from(*at) % memory.len();
        if let Some(left @ 1..) = codeword(division, at).map(|which| &mut left[which]) {
            *left -= 1;
            memory[at] ^= change;
        }
    }
}

/// Returns the block of a byte. The header comes last, and other bytes give `None`.
fn codeword(division: Division, at: usize) -> Option<usize> {
    let header = division.blocks();
    match at.checked_sub(HEADER) {
        None => Some(header),
        Some(at) if at < division.data() => Some(at / BLOCK),
        _ if at >= division.header_parity() => Some(header),
        Some(at) => {
            let which = (at - division.data()) / division.parity();
            (which < division.blocks()).then_some(which)
        }
    }
}

fn is_mended_or_marked(memory: &[u8], reader: Reader<'_>, place: Place, model: &[u8]) {
    let mut old = reader.open(memory, place);
    if old.header_trust() == Trust::Unverified {
        return;
    }
    assert_eq!(old.len(), model.len());
    let mut at = 0;
    while let Some((bytes, trust)) = old.chunk(at) {
        let is_right = model[at..].starts_with(bytes);
        assert!(is_right || trust == Trust::Unverified, "{at} {trust:?}");
        at += bytes.len();
    }
}

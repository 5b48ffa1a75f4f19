//! Incremental error correction: its parity equals that of encoding the memory. Bit flips during
//! writes damage no other byte.

use crate::common::{Fixture, open};
use nostall_pstore::{
    Code, Division, HEADER, LinuxVersion, Load, Memory, OwnCounter, Ram, RecordFormat, Recorder,
    Trust, Zone, ZoneKind,
};
use proptest::prelude::*;

fn code(parity: usize) -> Box<Code> {
    Box::new(Code::new(parity).unwrap())
}

/// Returns whether the header and the first `blocks` blocks agree with their parity.
fn all_agree(image: &[u8], code: &Code, blocks: usize) -> bool {
    let division = Division::new(image.len(), code.parity()).unwrap();
    let header = code.check(&image[..HEADER], &image[division.header_parity()..]);
    header
        && (0..blocks).all(|block| {
            let at = HEADER + block * 128;
            let data = &image[at..at + division.block_len(block)];
            code.check(data, &image[division.block_parity(block)..])
        })
}

/// Returns the memory of zone `kind` of `fixture`, and memory into which nostall wrote the same
/// text. nostall wrote it line by line into zeros.
fn rewritten(fixture: &Fixture, kind: ZoneKind, text: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let place = fixture.layout.zones_of(kind).next().unwrap();
    let linux = &fixture.image[place.offset..][..place.division.zone()];
    let code = (place.division.parity() > 0).then(|| code(place.division.parity()));
    let mut ours = vec![0; linux.len()];
    let memory = Ram::of(&mut ours);
    let (mut zone, _) = Zone::attach(memory, kind, LinuxVersion(0), code.as_deref()).unwrap();
    // The ring has wrapped. The text fills it from its beginning, and continues to its start
    // position.
    let start = u32::from_le_bytes(*linux[4..].first_chunk().unwrap()) as usize;
    let text = match text.len() == zone.division().data() {
        true => [
            &text[text.len() - start..],
            &text[..text.len() - start],
            &text[text.len() - start..],
        ]
        .concat(),
        false => text.to_vec(),
    };
    text.split_inclusive(|&byte| byte == b'\n')
        .for_each(|line| zone.append_text(line));
    (linux.to_vec(), ours)
}

#[test]
fn a_written_zone_equals_linuxs_bit_for_bit() {
    for name in ["plain", "ecc16"] {
        let fixture = Fixture::load(name);
        for kind in [ZoneKind::Console, ZoneKind::Pmsg] {
            let text = &fixture.files[&format!("{kind}-ramoops-0")];
            let notice = b"\nECC: No errors detected\n";
            let text = text.strip_suffix(notice).unwrap_or(text);
            let (linux, ours) = rewritten(&fixture, kind, text);
            let same = linux.iter().zip(&ours).position(|(a, b)| a != b);
            assert_eq!(same, None, "{name}, {kind}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn parity_equals_that_of_the_memory(
        parity in prop_oneof![1usize..=16, Just(20)],
        size in 500usize..1_500,
        garbage: u8,
        texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..40),
        whole: bool,
    ) {
        let code = code(parity);
        let mut image = vec![garbage; size];
        let mut written = Vec::new();
        for text in &texts {
            // At intervals, a new kernel opens the zone.
            let memory = Ram::of(&mut image);
            let (mut zone, _) = Zone::attach(memory, ZoneKind::Pmsg, LinuxVersion(0), Some(&code)).unwrap();
            for piece in text.chunks(50) {
                if whole { zone.append(piece) } else { zone.append_text(piece) }
            }
            written.extend(text);
            let blocks = zone.len().div_ceil(128);
            prop_assert!(all_agree(&image, &code, blocks));
        }
        let mut zone = open(&image, ZoneKind::Pmsg, Some(&code));
        let mut read = vec![0; zone.len()];
        zone.read(0, &mut read);
        prop_assert_eq!(&read, &written[written.len() - read.len()..]);
    }

    #[test]
    fn one_bit_flip_at_any_time_damages_nothing(
        parity in prop::sample::select(vec![2usize, 4, 8, 16, 20]),
        size in 700usize..1_200,
        when in 1usize..60,
        at in any::<prop::sample::Index>(),
        mask in 1u8..,
        more in 0usize..30,
    ) {
        let code = code(parity);
        let mut image = vec![0; size];
        let start = image.as_mut_ptr();
        let flipped = {
            // The flip comes from outside, so both views share one pointer.
            //
            // SAFETY: `image` outlives both, and they are not used at the same time.
            let memory = unsafe { Ram::new(std::ptr::NonNull::new(start).unwrap(), size) };
            let (zone, _) = Zone::attach(memory, ZoneKind::Ftrace, LinuxVersion(0), Some(&code)).unwrap();
            let mut recorder = Recorder::with_record_format(zone, 0, OwnCounter::new(), RecordFormat::Bits64);
            let mut record = |n: u64| recorder.record(n, !n);
            (0..when as u64).for_each(&mut record);
            let at = HEADER + at.index(size - HEADER);
            // SAFETY: within `image`, and not in use at this moment.
            unsafe { *start.add(at) ^= mask };
            (when as u64..(when + more) as u64).for_each(&mut record);
            at
        };
        let division = Division::new(size, parity).unwrap();
        let slot = |trace_at: usize| {
            let first = HEADER + trace_at;
            (first..first + 24).contains(&flipped)
        };
        let zone = open(&image, ZoneKind::Ftrace, Some(&code));
        let (len, oldest) = (zone.len(), if zone.is_full() { zone.header().start as usize } else { 0 });
        prop_assert_ne!(zone.header_trust(), Trust::Unverified);
        for (i, trace) in zone.traces(RecordFormat::Bits64).enumerate() {
            let at = (oldest + len % 24 + 24 * i) % division.data();
            let wrong = trace.record.parent != !trace.record.ip;
            // The flipped byte itself may be wrong if it was at the write position, or if its
            // correction was uncertain when it was found.
            let excused = trace.suspect || slot(at) && (trace.trust == Trust::Unverified || parity < 16)
                || at + 24 > division.data();
            prop_assert!(!wrong || excused, "{at} {flipped}: {trace:x?}");
        }
    }

    #[test]
    fn half_as_many_flips_as_parity_bytes_are_corrected_and_more_are_reported(
        parity in prop::sample::select(vec![2usize, 8, 16, 32]),
        flips in prop::collection::vec((0usize..128, 1u8..), 1..40),
        block in 1usize..4,
    ) {
        let code = code(parity);
        let size = HEADER + 6 * (128 + parity) + parity;
        let mut image = vec![0; size];
        let text: Vec<u8> = (0..5 * 128).map(|i| (i % 251) as u8).collect();
        let (mut zone, _) =
            Zone::attach(Ram::of(&mut image), ZoneKind::Dmesg, LinuxVersion(0), Some(&code)).unwrap();
        zone.append(&text);
        let before = image.clone();
        for (at, mask) in flips {
            image[HEADER + block * 128 + at] ^= mask;
        }
        let wrong = image.iter().zip(&before).filter(|(a, b)| a != b).count();
        let mut zone = open(&image, ZoneKind::Dmesg, Some(&code));
        let mut read = vec![0; zone.len()];
        let trust = zone.read(0, &mut read).unwrap();
        if wrong <= parity / 2 {
            prop_assert_eq!(&read, &text);
            let expected = if wrong == 0 { Trust::Verified } else { Trust::Corrected(wrong) };
            prop_assert_eq!(trust, expected);
        } else if parity >= 16 {
            prop_assert_eq!(trust, Trust::Unverified);
            prop_assert_eq!(zone.ecc().unwrap().bad_blocks, 1);
        }
        let mut untouched = vec![0; size];
        image[..].load(0, &mut untouched);
        prop_assert_eq!(&untouched, &image);
    }
}

/// Appends `text` as a kernel that attaches to the zone in `image`, in pieces. Each piece is
/// followed by `look` at the memory, with the number of bytes appended so far.
fn append_as_the_next_kernel(
    image: &mut [u8],
    code: &Code,
    text: &[u8],
    piece: usize,
    mut look: impl FnMut(&[u8], usize),
) {
    let mut appended = 0;
    let memory = Shared(std::cell::RefCell::new(image));
    let (mut zone, _) = Zone::attach(&memory, ZoneKind::Pmsg, LinuxVersion(0), Some(code)).unwrap();
    for now in text.chunks(piece) {
        zone.append_text(now);
        appended += now.len();
        look(&memory.0.borrow(), appended);
    }
}

/// Memory that can be read beside its zone.
struct Shared<'a>(std::cell::RefCell<&'a mut [u8]>);

impl Load for Shared<'_> {
    fn len(&self) -> usize {
        self.0.borrow().len()
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        Load::load(&**self.0.borrow(), at, into);
    }
}

impl Memory for Shared<'_> {
    fn store(&self, at: usize, bytes: &[u8]) {
        self.0.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// Returns the contents of the zone in `image`, each byte with its trust level.
fn contents(image: &[u8], code: &Code) -> Vec<(u8, Trust)> {
    let mut zone = open(image, ZoneKind::Pmsg, Some(code));
    let mut all = Vec::new();
    while let Some((bytes, trust)) = zone.chunk(all.len()) {
        let bytes: Vec<_> = bytes.iter().map(|&byte| (byte, trust)).collect();
        all.extend(bytes);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_byte_that_failed_error_correction_stays_unverified_under_later_kernels(
        parity in prop_oneof![1usize..=16, Just(20)],
        size in 300usize..1_200,
        first in prop::collection::vec(any::<u8>(), 1..1_500),
        later in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..200), 1..4),
        piece in 1usize..200,
        at in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..20),
    ) {
        let code = code(parity);
        let mut image = vec![0; size];
        let (mut zone, _) =
            Zone::attach(Ram::of(&mut image), ZoneKind::Pmsg, LinuxVersion(0), Some(&code)).unwrap();
        zone.append_text(&first);
        let (len, data) = (zone.len(), zone.division().data());
        // So many flips in one block are always detected. They may be corrected to another text.
        let block = at.index(len) / 128;
        let bytes = zone.division().block_len(block);
        for (at, mask) in flips.iter().take(parity) {
            image[HEADER + block * 128 + at.index(bytes)] ^= mask;
        }
        let mut written = first.clone();
        for text in &later {
            append_as_the_next_kernel(&mut image, &code, text, piece, |image, appended| {
                let read = contents(image, &code);
                let all = [&written[..], &text[..appended]].concat();
                let right = &all[all.len() - read.len()..];
                for (at, (&right, &(byte, trust))) in right.iter().zip(&read).enumerate() {
                    assert!(byte == right || trust > Trust::Unchecked, "{at}: {byte} is {trust:?}");
                }
            });
            written.extend(text);
        }
        // Blocks that consist of new bytes are right again.
        let text = vec![b'.'; 2 * data];
        append_as_the_next_kernel(&mut image, &code, &text, piece, |_, _| {});
        let read = contents(&image, &code);
        prop_assert_eq!(read, vec![(b'.', Trust::Verified); data]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn old_contents_of_a_zone_whose_header_was_uncertain_stay_unverified(
        parity in prop_oneof![1usize..=16, Just(20)],
        size in 300usize..1_200,
        stale in prop::collection::vec(any::<u8>(), 0..1_500),
        old in prop::collection::vec(any::<u8>(), 1..1_500),
        text in prop::collection::vec(any::<u8>(), 1..200),
        flips in prop::collection::vec((4usize..HEADER, 1u8..), 1..9),
    ) {
        let code = code(parity);
        let mut image = vec![0; size];
        let (mut zone, _) =
            Zone::attach(Ram::of(&mut image), ZoneKind::Pmsg, LinuxVersion(0), Some(&code)).unwrap();
        zone.append_text(&stale);
        zone.erase();
        zone.append_text(&old);
        for (at, mask) in flips.iter().take(parity) {
            image[*at] ^= mask;
        }
        let before = contents(&image, &code);
        let is_uncertain = before.iter().all(|(_, trust)| *trust == Trust::Unverified);
        append_as_the_next_kernel(&mut image, &code, &text, 50, |image, appended| {
            let read = contents(image, &code);
            let old = read.len().saturating_sub(appended);
            let bad = read[..old].iter().position(|(_, trust)| *trust < Trust::Unverified);
            assert!(bad.is_none() || !is_uncertain, "byte {bad:?} of {old}");
        });
    }
}

#[test]
fn a_byte_that_flipped_in_the_last_block_stays_unverified_behind_the_next_kernels_first_byte() {
    for parity in [1, 2, 4, 8] {
        let code = code(parity);
        let mut image = vec![0; 1000];
        let (mut zone, _) = Zone::attach(
            Ram::of(&mut image),
            ZoneKind::Pmsg,
            LinuxVersion(0),
            Some(&code),
        )
        .unwrap();
        zone.append_text(&[b'a'; 200]);
        image[HEADER + 150] ^= 0x40;
        append_as_the_next_kernel(&mut image, &code, b"!", 1, |image, _| {
            let read = contents(image, &code);
            assert_eq!(read[127], (b'a', Trust::Verified), "{parity}");
            assert_eq!(read[150], (b'!', Trust::Unverified), "{parity}");
            assert_eq!(read[200], (b'!', Trust::Unverified), "{parity}");
        });
    }
}

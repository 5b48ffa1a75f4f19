//! The bytes that a terminal receives for any text.

use std::ops::RangeInclusive;

use crate::common::{At, Line, META, P, Virtual, of};
use nostall_console::{
    Charset, Drain, FlushLimits, Meta, Priority, Ring, SinkOptions, Slot, flush,
};
use proptest::prelude::*;

/// Returns the output for `text`, without time and line feed.
fn sent(text: &[u8], mode: Charset) -> Vec<u8> {
    let ring = Ring::<[Slot; 16]>::new();
    let drain = Drain::new(&ring, Line::new(999), SinkOptions::DEFAULT.charset(mode));
    ring.log(&META, text);
    let _ = drain.drain_bounded(0, Priority::Normal, &At(0));
    let sent = drain.sink().taken.lock().unwrap().clone();
    let text = sent.strip_prefix(P.as_bytes()).unwrap();
    text.strip_suffix(b"\n").unwrap().to_vec()
}

fn escapes(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect()
}

fn all_chars() -> impl Iterator<Item = char> {
    let step = if cfg!(miri) { 4_099 } else { 1 };
    (0..=u32::from(char::MAX))
        .step_by(step)
        .filter_map(char::from_u32)
}

#[test]
fn on_a_utf8_terminal_no_character_is_a_control_ends_a_line_or_changes_its_direction() {
    let mut escaped = Vec::new();
    for c in all_chars().filter(|&c| c != '\n') {
        let mut utf8 = [0; 4];
        let utf8 = c.encode_utf8(&mut utf8).as_bytes();
        let sent = sent(utf8, Charset::Utf8);
        if sent == utf8 {
            assert!(!c.is_control() || c == '\t', "{c:?}");
            assert!(Charset::Utf8.passes(c));
        } else {
            assert_eq!(sent, escapes(utf8).as_bytes(), "{c:?}");
            assert!(!Charset::Utf8.passes(c));
            escaped.push(c);
        }
    }
    // Unicode's Bidi_Control characters, and the separators of lines and paragraphs.
    let must = "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}\u{2028}\u{2029}\u{85}\u{9b}\u{feff}\u{200b}\u{e0041}\r\x1b\x7f";
    for c in must.chars().filter(|_| !cfg!(miri)) {
        assert!(escaped.contains(&c), "{c:?}");
    }
    for c in "\u{200c}\u{200d}\u{e4}\u{65b}\u{201c}\u{4e2d}\u{1f600}~\t".chars() {
        assert!(!escaped.contains(&c), "{c:?}");
    }
}

/// Category Cf of Unicode 17, in DerivedGeneralCategory.txt.
const FORMAT: [RangeInclusive<char>; 21] = [
    '\u{ad}'..='\u{ad}',
    '\u{600}'..='\u{605}',
    '\u{61c}'..='\u{61c}',
    '\u{6dd}'..='\u{6dd}',
    '\u{70f}'..='\u{70f}',
    '\u{890}'..='\u{891}',
    '\u{8e2}'..='\u{8e2}',
    '\u{180e}'..='\u{180e}',
    '\u{200b}'..='\u{200f}',
    '\u{202a}'..='\u{202e}',
    '\u{2060}'..='\u{2064}',
    '\u{2066}'..='\u{206f}',
    '\u{feff}'..='\u{feff}',
    '\u{fff9}'..='\u{fffb}',
    '\u{110bd}'..='\u{110bd}',
    '\u{110cd}'..='\u{110cd}',
    '\u{13430}'..='\u{1343f}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0001}'..='\u{e0001}',
    '\u{e0020}'..='\u{e007f}',
];

#[test]
fn on_a_utf8_terminal_no_format_character_passes_except_joiners_and_visible_ones() {
    let passes = |c: &char| Charset::Utf8.passes(*c);
    let passed: String = FORMAT.into_iter().flatten().filter(passes).collect();
    // Joiners, and signs that are visible.
    let mut visible = String::from("\u{600}\u{601}\u{602}\u{603}\u{604}\u{605}\u{6dd}\u{70f}");
    visible.push_str("\u{890}\u{891}\u{8e2}\u{200c}\u{200d}\u{110bd}\u{110cd}");
    visible.extend('\u{13430}'..='\u{1343f}');
    assert_eq!(passed, visible);
}

/// The property `Default_Ignorable_Code_Point` of Unicode 17 (`DerivedCoreProperties.txt`).
const IGNORABLE: [RangeInclusive<char>; 17] = [
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{61c}'..='\u{61c}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    '\u{200b}'..='\u{200f}',
    '\u{202a}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{3164}'..='\u{3164}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{fff8}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e0fff}',
];

#[test]
fn on_a_utf8_terminal_no_invisible_character_passes_except_joiners() {
    let all = IGNORABLE.into_iter().flatten().chain(['\u{2800}']);
    let passed: String = all.filter(|&c| Charset::Utf8.passes(c)).collect();
    assert_eq!(passed, "\u{200c}\u{200d}");
}

#[test]
fn on_an_8_bit_terminal_no_byte_is_a_control() {
    for c in all_chars().filter(|&c| c != '\n') {
        let mut utf8 = [0; 4];
        let utf8 = c.encode_utf8(&mut utf8).as_bytes();
        let sent = sent(utf8, Charset::Ascii);
        let passes = matches!(c, ' '..='~' | '\t');
        let wanted = if passes {
            utf8.to_vec()
        } else {
            escapes(utf8).into_bytes()
        };
        assert_eq!(sent, wanted, "{c:?}");
    }
}

/// Returns whether `sent` has nothing that a terminal of this kind would execute.
fn is_harmless(sent: &[u8], mode: Charset) -> bool {
    let passes = |c: char| c == '\n' || mode.passes(c);
    match mode {
        Charset::Utf8 => str::from_utf8(sent).is_ok_and(|text| text.chars().all(passes)),
        Charset::Ascii => sent
            .iter()
            .all(|&byte| passes(char::from(byte)) && byte < 0x80),
    }
}

proptest! {
    /// Interrupts records, offers and lines at any point with an emergency and a panic.
    #[test]
    #[cfg_attr(miri, ignore = "many texts")]
    fn any_logged_and_interrupted_text_is_harmless_as_a_whole(
        texts in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..200),
                "\\PC{0,80}".prop_map(String::into_bytes),
                proptest::collection::vec(any::<char>(), 0..80)
                    .prop_map(|chars| chars.into_iter().collect::<String>().into_bytes()),
            ],
            1..4,
        ),
        target in "[\u{202e}\u{65b}a\u{2028}]{0,12}",
        load in 1..40_usize,
        offers in 0..40_u64,
    ) {
        for mode in [Charset::Utf8, Charset::Ascii] {
            let ring = Ring::<[Slot; 256]>::new();
            let options = SinkOptions::DEFAULT.charset(mode).slice(1);
            let drain = Drain::new(&ring, Line::new(load), options);
            for text in &texts {
                ring.log(&Meta { target: &target, ..META }, text);
            }
            for _ in 0..offers {
                let _ = drain.drain_bounded(0, Priority::Normal, &At(0));
            }
            ring.log(&of(Priority::Emergency), &texts[0]);
            for _ in 0..offers / 2 {
                let _ = drain.drain_bounded(0, Priority::Emergency, &At(0));
            }
            ring.log(&of(Priority::Panic), &texts[0]);
            flush(&[&drain], 0, &Virtual::default(), FlushLimits::DEFAULT);
            let sent = drain.sink().taken.lock().unwrap().clone();
            let joined = match mode {
                // A character may be split between two offers. Its line is whole after it is
                // joined.
                Charset::Utf8 => {
                    let text = String::from_utf8_lossy(&sent);
                    let cut = text.contains("{cut ");
                    prop_assert!(cut || is_harmless(&sent, mode), "{:?}", text);
                    text.chars().all(|c| matches!(c, '\n') || mode.passes(c))
                }
                Charset::Ascii => is_harmless(&sent, mode),
            };
            prop_assert!(joined, "{:?}", sent.escape_ascii().to_string());
        }
    }
}

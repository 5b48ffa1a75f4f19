//! Search in text, without vector instructions.

const WORD: usize = size_of::<usize>();
const PAIR: usize = 2 * WORD;

/// Returns a word that repeats this byte.
#[doc(hidden)] // For the other crates of nostall.
pub const fn word_of(byte: u8) -> usize {
    usize::from_ne_bytes([byte; WORD])
}

/// Returns whether `marks` sets the highest bit of no byte of the words of `text`; `false` if it is
/// shorter than a word.
///
/// Checks two words at a time, because kernels are built without vector instructions. The last words
/// may be checked twice, at other places.
#[doc(hidden)]
#[inline]
pub fn is_free_of(text: &[u8], marks: impl Fn(usize) -> usize) -> bool {
    let of = |word: &[u8; WORD]| marks(usize::from_le_bytes(*word));
    let is_free = |pair: &[u8; PAIR]| {
        let words = pair.as_chunks().0;
        (of(&words[0]) | of(&words[1])) & word_of(0x80) == 0
    };
    match (text.first_chunk(), text.last_chunk(), text.last_chunk()) {
        (_, _, Some(last)) => is_free(last) && text.as_chunks().0.iter().all(is_free),
        (Some(first), Some(last), None) => (of(first) | of(last)) & word_of(0x80) == 0,
        _ => false,
    }
}

/// Marks every line feed of a word, and maybe other control characters.
#[inline]
fn line_feeds_of(word: usize) -> usize {
    word.wrapping_sub(word_of(b'\n' + 1)) & !word
}

/// Returns the position of the first line feed.
#[doc(hidden)]
#[inline]
pub fn line_feed_in(text: &[u8]) -> Option<usize> {
    // Among the zero bytes, the lowest one is marked correctly.
    let zeros = |word: usize| {
        let bits = word ^ word_of(b'\n');
        bits.wrapping_sub(word_of(1)) & !bits & word_of(0x80)
    };
    let is_free = |pair: &[u8; PAIR]| is_free_of(pair, line_feeds_of);
    let pairs = text.as_chunks().0;
    let free = pairs.iter().position(|pair| !is_free(pair));
    if free.is_none()
        && is_free_of(
            text.last_chunk::<PAIR>().map_or(text, |last| last),
            line_feeds_of,
        )
    {
        return None;
    }
    let start = free.unwrap_or(pairs.len()) * PAIR;
    let (words, rest) = text[start..].as_chunks();
    for (at, word) in words.iter().enumerate() {
        let zeros = zeros(usize::from_le_bytes(*word));
        if zeros != 0 {
            return Some(start + at * WORD + zeros.trailing_zeros() as usize / 8);
        }
    }
    let at = rest.iter().position(|&byte| byte == b'\n')?;
    Some(start + words.len() * WORD + at)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn printable_text_has_no_marks_of_line_feeds() {
        for byte in b' '..=255 {
            assert!(is_free_of(&[byte; PAIR], line_feeds_of), "{byte}");
        }
    }

    #[test]
    fn each_marked_byte_of_a_text_is_noticed() {
        for len in 0..40 {
            let mut text = std::vec![0x7f; len];
            assert_eq!(is_free_of(&text, |word| word), len >= WORD);
            for at in 0..len {
                text[at] = 0x80;
                assert!(!is_free_of(&text, |word| word));
                text[at] = 0x7f;
            }
            text.fill(0x80);
            assert!(!is_free_of(&text, |word| word));
        }
    }

    proptest! {
        #[test]
        fn the_first_line_feed_is_found_at_every_place(
            text in prop::collection::vec(prop_oneof![8..14u8, any::<u8>()], 0..40),
        ) {
            let expected = text.iter().position(|&byte| byte == b'\n');
            prop_assert_eq!(line_feed_in(&text), expected);
        }
    }
}

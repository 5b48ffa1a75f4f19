//! Search in text, without vector instructions.

const WORD: usize = size_of::<usize>();

/// Returns the position of the first line feed.
///
/// Checks one word at a time, because kernels are built without vector instructions. With these, a
/// search of single bytes would be fast.
#[doc(hidden)] // For the other crates of nostall.
#[inline]
pub fn line_feed_in(text: &[u8]) -> Option<usize> {
    const fn all(byte: u8) -> usize {
        usize::from_ne_bytes([byte; WORD])
    }
    let (words, rest) = text.as_chunks();
    for (at, word) in words.iter().enumerate() {
        let bits = usize::from_le_bytes(*word) ^ all(b'\n');
        // Among the zero bytes, the lowest one is marked correctly.
        let zeros = bits.wrapping_sub(all(1)) & !bits & all(0x80);
        if zeros != 0 {
            return Some(at * WORD + zeros.trailing_zeros() as usize / 8);
        }
    }
    let at = rest.iter().position(|&byte| byte == b'\n')?;
    Some(words.len() * WORD + at)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

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

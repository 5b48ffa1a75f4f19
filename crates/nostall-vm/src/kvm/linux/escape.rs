//! The key sequence that leaves a run: Ctrl-A and x, as in QEMU.

/// Ctrl-A.
const PREFIX: u8 = 1;

/// State after the bytes typed so far.
#[derive(Debug, Default)]
pub struct Escape {
    prefixed: bool,
}

/// Action for the typed bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Typed {
    /// Pass these bytes on to the guest.
    Bytes(Vec<u8>),
    /// The user leaves.
    Leave,
}

impl Escape {
    /// Handles newly typed bytes. Typing Ctrl-A twice sends it once to the guest.
    pub fn typed(&mut self, bytes: &[u8]) -> Typed {
        let mut on = Vec::with_capacity(bytes.len() + 1);
        for &byte in bytes {
            match (self.prefixed, byte) {
                (true, b'x' | b'X') => return Typed::Leave,
                (true, PREFIX) => on.push(PREFIX),
                (true, other) => on.extend([PREFIX, other]),
                (false, PREFIX) => {
                    self.prefixed = true;
                    continue;
                }
                (false, other) => on.push(other),
            }
            self.prefixed = false;
        }
        Typed::Bytes(on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_except_the_escape_are_passed_on_for_any_split_of_the_input() {
        let typed = b"ls\r\x01\x01a\x01b";
        for cut in 0..=typed.len() {
            let mut escape = Escape::default();
            let mut on = Vec::new();
            for part in [&typed[..cut], &typed[cut..]] {
                match escape.typed(part) {
                    Typed::Bytes(bytes) => on.extend(bytes),
                    Typed::Leave => panic!("left at {cut}"),
                }
            }
            assert_eq!(on, b"ls\r\x01a\x01b", "{cut}");
        }
    }

    #[test]
    fn control_a_and_x_leaves() {
        let mut escape = Escape::default();
        assert_eq!(escape.typed(b"\x01"), Typed::Bytes(vec![]));
        assert_eq!(escape.typed(b"x"), Typed::Leave);
        let mut escape = Escape::default();
        assert_eq!(escape.typed(b"\x01\x01x"), Typed::Bytes(vec![1, b'x']));
    }
}

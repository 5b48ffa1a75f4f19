//! Files that are the text of a kernel's log, not its memory.

use std::borrow::Cow;

use super::line::starts_with_time;
use crate::decompress::starts_with_reason;
use crate::memory::{DumpFormat, Memory};

/// Number of bytes of the largest text. Linux's largest ring has 32 MiB.
const MOST: usize = 64 << 20;

/// Returns the bytes of an image that is the text of a log; `None` for memory. A text is a file of
/// Linux's `/sys/fs/pstore`, or has the lines that `dmesg` and kdump's tools write.
pub fn log_text(image: &Memory) -> Option<Cow<'_, [u8]>> {
    if image.format() != DumpFormat::RAW {
        return None;
    }
    let len = usize::try_from(image.segments().first()?.len).ok()?;
    let bytes = image.read(0, len).filter(|_| len <= MOST)?;
    // Memory that begins with a text goes on with other bytes.
    let is_text = starts_with_time(&bytes) && !bytes.contains(&0);
    (is_text || starts_with_reason(&bytes)).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_log_is_recognised_and_no_other_text_or_memory() {
        let is_log = |text: &[u8]| {
            let image = Memory::from_bytes(text.to_vec()).unwrap();
            log_text(&image).is_some_and(|found| *found == *text)
        };
        for text in [
            "Panic#1 Part1\n<6>[    0.000000] x\n",
            "<6>[    0.000000] Linux version 6.1\n",
            "<12>[    0.000000] x",
            "[    0.000000] Linux version 6.1\n",
            "[123456.000000] x\n",
            "[    1.000000][    T1] x\n",
        ] {
            assert!(is_log(text.as_bytes()), "{text}");
            let memory = [text.as_bytes(), &[0; 100]].concat();
            assert_eq!(is_log(&memory), text.starts_with('P'), "{text}");
        }
        for text in [
            "text\n[    0.000000] x\n",
            "\n[    0.000000] x\n",
            "[    1.000] X.Org X Server\n",
            "[1.000000] x\n",
            "[00000001.00000] x\n",
            "[   1 .000000] x\n",
            "[     .000000] x\n",
            "[  123456.000000] x\n",
            "[    1.000000]x\n",
            "[    1.000000",
            "<6> [    0.000000] x\n",
            "<>[    0.000000] x\n",
            "<x>[    0.000000] x\n",
            "<1234>[    0.000000] x\n",
            "[Sun Nov 29 01:23:54 2026] x\n",
        ] {
            assert!(!is_log(text.as_bytes()), "{text}");
        }
    }
}

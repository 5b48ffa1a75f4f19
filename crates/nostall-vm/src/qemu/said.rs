//! QEMU's own output, beside the guest's.

use std::io;

use crate::process::MemoryFile;

/// Bytes of QEMU's own words that are read for the last line.
pub(super) const LAST_WORDS: u64 = 64 << 10;

/// Whether QEMU has said nothing but warnings, of which some machines have one each time.
pub(super) fn only_warned(said: &MemoryFile) -> io::Result<bool> {
    let said = said.read_last(LAST_WORDS)?;
    let said = String::from_utf8_lossy(&said);
    let mut lines = said.lines().filter(|line| !line.trim().is_empty());
    Ok(lines.all(|line| line.contains(": warning: ")))
}

/// The last line that is not empty.
pub(super) fn last_words(said: &MemoryFile) -> io::Result<String> {
    let said = said.read_last(LAST_WORDS)?;
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    Ok(last.unwrap_or("it said nothing").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_not_what_qemu_ended_with() {
        let only_warned = |said: &str| {
            let said = MemoryFile::new(said.as_bytes()).unwrap();
            only_warned(&said).unwrap()
        };
        let warning = "qemu-system-riscv64: warning: nic cadence_gem.0 has no peer\n";
        assert!(only_warned(""));
        assert!(only_warned(warning));
        assert!(!only_warned(&format!("{warning}usage: qemu\n")));
    }

    #[test]
    fn the_last_words_are_the_last_of_a_long_speech() {
        let mut said = vec![b'x'; 2 * LAST_WORDS as usize];
        said.extend(b"\nthe reason\n\n");
        let said = MemoryFile::new(&said).unwrap();
        assert_eq!(last_words(&said).unwrap(), "the reason");
    }
}

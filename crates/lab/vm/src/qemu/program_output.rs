//! QEMU's own output, as opposed to the guest's.

use std::io;

use crate::process::MemoryFile;

/// Number of bytes at the end of QEMU's output that are searched for its last line.
pub(super) const LAST_WORDS: u64 = 64 << 10;

/// Returns whether QEMU printed only warnings. Some boards print one in every run.
pub(super) fn only_warned(said: &MemoryFile) -> io::Result<bool> {
    let said = said.read_last(LAST_WORDS)?;
    let said = String::from_utf8_lossy(&said);
    let mut lines = said.lines().filter(|line| !line.trim().is_empty());
    Ok(lines.all(|line| line.contains(": warning: ")))
}

/// Returns the last non-empty line.
pub(super) fn last_words(said: &MemoryFile) -> io::Result<String> {
    let said = said.read_last(LAST_WORDS)?;
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    Ok(last.unwrap_or("without any output").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_not_reported_as_the_reason_of_qemus_end() {
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
    fn the_last_line_is_found_in_long_output() {
        let mut said = vec![b'x'; 2 * LAST_WORDS as usize];
        said.extend(b"\nthe reason\n\n");
        let said = MemoryFile::new(&said).unwrap();
        assert_eq!(last_words(&said).unwrap(), "the reason");
    }
}

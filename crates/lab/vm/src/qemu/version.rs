//! The version of an installed QEMU.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::program_output::{LAST_WORDS, last_words};
use crate::Error;
use crate::guest::{LOOK, QEMU_BYTES};
use crate::process::{MemoryFile, spawn};

/// Time limit for QEMU to report its version.
pub(super) const LIMIT: Duration = Duration::from_secs(10);

/// Returns the version that `program` reports within `limit`.
pub(super) fn version(program: &'static str, limit: Duration) -> Result<String, Error> {
    let said = MemoryFile::new(&[])?;
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(said.to_stdio()?)
        .stderr(said.to_stdio()?);
    let start = Instant::now();
    let qemu = spawn::<MemoryFile>(command, &[])?;
    let status = loop {
        if let Some(status) = qemu.ended()? {
            break status;
        }
        if said.len()? > QEMU_BYTES {
            return Err(Error::QemuFlood(QEMU_BYTES));
        }
        if start.elapsed() > limit {
            return Err(Error::NoVersion(program, limit));
        }
        sleep(LOOK);
    };
    if !status.success() {
        let said = last_words(&said)?;
        return Err(Error::Qemu { status, said });
    }
    // For example "QEMU emulator version 7.2.22 (Debian ...)", possibly after a warning.
    let said = said.read_last(LAST_WORDS)?;
    let said = String::from_utf8_lossy(&said);
    let mut words = said.split_whitespace();
    words.find(|&word| word == "version");
    Ok(words.next().unwrap_or("?").to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_program_that_does_not_report_its_version_is_ended_in_time() {
        let dir = std::env::temp_dir().join(format!("nostall-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let program = dir.join("qemu");
        // Written by a child. A file that this process writes is also open in each child that
        // another test starts, until its `exec`. It cannot be run meanwhile (`ETXTBSY`).
        let script = r#"printf '#!/bin/sh\nexec sleep 600\n' >"$0" && chmod +x "$0""#;
        let mut shell = Command::new("sh");
        let written = shell.args(["-c", script]).arg(&program).status();
        assert!(written.unwrap().success());
        let program = program.to_str().unwrap().to_owned().leak();
        let error = version(program, Duration::from_millis(50)).unwrap_err();
        fs::remove_dir_all(&dir).unwrap();
        assert!(matches!(error, Error::NoVersion(..)), "{error}");
    }
}

//! Lines of any input, in bounded memory.

use std::io::{self, BufRead};

/// Length limit for a line in bytes. The rest of a longer line is dropped.
const LONGEST: usize = 16 << 10;

/// Reader of lines.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: R,
    line: Vec<u8>,
    done: u64,
}

/// End of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The line is complete.
    Whole,
    /// The end of the line is missing.
    Cut,
    /// No line remains.
    Input,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            line: Vec::new(),
            done: 0,
        }
    }

    /// Reads the next line.
    pub(super) fn advance(&mut self) -> io::Result<End> {
        self.line.clear();
        let mut whole = true;
        let mut any = false;
        loop {
            let bytes = match self.input.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if bytes.is_empty() {
                return Ok(if any { End::Cut } else { End::Input });
            }
            any = true;
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            let kept = piece.len().min(LONGEST - self.line.len());
            whole &= kept == piece.len();
            self.line.extend_from_slice(&piece[..kept]);
            let used = end.map_or(bytes.len(), |end| end + 1);
            self.input.consume(used);
            self.done += used as u64;
            if end.is_some() {
                return Ok(if whole { End::Whole } else { End::Cut });
            }
        }
    }

    /// Takes the last line that was read.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.line)
    }

    /// Returns a line's memory for reuse.
    pub(super) fn put_back(&mut self, line: Vec<u8>) {
        self.line = line;
    }

    /// Returns the number of bytes that were read.
    pub(super) fn done(&self) -> u64 {
        self.done
    }
}

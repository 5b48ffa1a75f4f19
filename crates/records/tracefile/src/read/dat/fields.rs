//! Numbers and texts of a trace.dat file's header.

use std::io::Read;

use crate::linux::Order;
use crate::model::ReadError;

/// Length limit for a text or section in bytes.
pub(super) const LONGEST: u64 = 128 << 20;

/// Length limit for a name in bytes.
const LONGEST_NAME: usize = 4096;

/// Sequential reader of numbers and texts.
#[derive(Debug)]
pub(super) struct Fields<R> {
    input: R,
    order: Order,
    done: u64,
}

impl<R: Read> Fields<R> {
    pub(super) fn new(input: R, order: Order) -> Self {
        Self {
            input,
            order,
            done: 0,
        }
    }

    pub(super) fn set_order(&mut self, order: Order) {
        self.order = order;
    }

    /// Returns the number of bytes read.
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    pub(super) fn byte(&mut self) -> Result<u8, ReadError> {
        Ok(self.number(1)? as u8)
    }

    pub(super) fn u16(&mut self) -> Result<u16, ReadError> {
        Ok(self.number(2)? as u16)
    }

    pub(super) fn u32(&mut self) -> Result<u32, ReadError> {
        Ok(self.number(4)? as u32)
    }

    pub(super) fn u64(&mut self) -> Result<u64, ReadError> {
        self.number(8)
    }

    fn number(&mut self, len: usize) -> Result<u64, ReadError> {
        let mut bytes = [0; 8];
        self.input
            .read_exact(&mut bytes[..len])
            .map_err(|error| self.failed(error))?;
        self.done += len as u64;
        Ok(self.order.number(&bytes[..len]))
    }

    /// Reads `len` bytes. Memory grows only as bytes are read.
    pub(super) fn bytes(&mut self, len: u64) -> Result<Vec<u8>, ReadError> {
        if len > LONGEST {
            let at = self.done;
            return Err(ReadError::new(format!(
                "the part at byte {at} has {len} bytes, too many to be true"
            )));
        }
        let mut bytes = Vec::new();
        self.input
            .by_ref()
            .take(len)
            .read_to_end(&mut bytes)
            .map_err(|error| self.failed(error))?;
        self.done += bytes.len() as u64;
        if (bytes.len() as u64) < len {
            return Err(self.failed(std::io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(bytes)
    }

    /// Reads a text of `len` bytes.
    pub(super) fn text(&mut self, len: u64) -> Result<String, ReadError> {
        Ok(lossy(self.bytes(len)?))
    }

    /// Reads a name and the NUL after it.
    pub(super) fn name(&mut self) -> Result<String, ReadError> {
        let mut name = Vec::new();
        loop {
            match self.byte()? {
                0 => return Ok(lossy(name)),
                byte if name.len() < LONGEST_NAME => name.push(byte),
                _ => {
                    let at = self.done;
                    return Err(ReadError::new(format!(
                        "the name before byte {at} has no end"
                    )));
                }
            }
        }
    }

    /// Reads the expected word at the start of a part of the file.
    pub(super) fn expect(&mut self, word: &str) -> Result<(), ReadError> {
        let at = self.done;
        if self.bytes(word.len() as u64)? == word.as_bytes() {
            return Ok(());
        }
        let word = word.trim_end_matches('\0');
        Err(ReadError::new(format!("no `{word}` at byte {at}")))
    }

    fn failed(&self, error: std::io::Error) -> ReadError {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => ReadError::new(format!(
                "the file's header ends too early, after byte {}",
                self.done
            )),
            _ => ReadError::new(error),
        }
    }
}

/// Returns the text up to the first NUL.
pub(super) fn lossy(mut bytes: Vec<u8>) -> String {
    if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
        bytes.truncate(end);
    }
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into())
}

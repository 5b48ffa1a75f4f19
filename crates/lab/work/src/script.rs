//! Scripts of register accesses, to compare two ports.
//!
//! Each line is one access. All numbers are hexadecimal, and `#` starts a comment:
//!
//! ```text
//! w 3 83      # write 0x83 to the register at offset 3
//! r 5         # read the one at offset 5
//! r 6 f0      # read, and compare only these bits
//! p 3e8       # pause for 1,000 microseconds
//! ```

use core::fmt;
use core::str::FromStr;

use nostall_io::{Clock, Nanos, Registers};
use serde::{Deserialize, Serialize};

/// Runs the access script in the guest's input on the serial port: `uart-script`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job;

impl crate::Job for Job {
    const NAME: &'static str = "uart-script";
}

impl fmt::Display for Job {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

impl FromStr for Job {
    type Err = ();

    fn from_str(words: &str) -> Result<Self, ()> {
        words.is_empty().then_some(Self).ok_or(())
    }
}

/// Read values; one report's worth.
pub type Values = heapless::Vec<u8, 32>;

/// Some of the values that a script read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobResult {
    /// Index of the first value among the script's reads, from 0.
    pub first: u32,
    /// Values of consecutive reads.
    pub values: Values,
}

/// One step of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write a register.
    Write {
        /// Register offset, 0 to 7.
        offset: usize,
        /// Value to write.
        value: u8,
    },
    /// Read a register.
    Read {
        /// Register offset, 0 to 7.
        offset: usize,
        /// Bits to compare.
        mask: u8,
    },
    /// Wait.
    Pause(Nanos),
}

/// An invalid line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Line number, from 1.
    pub number: usize,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number;
        write!(
            f,
            "script, line {number}: not `w OFFSET VALUE`, `r OFFSET [MASK]` or `p MICROSECONDS` \
             (hexadecimal, offsets 0 to 7)"
        )
    }
}

impl core::error::Error for BadLine {}

/// Parses the steps of a script, each with its line number from 1.
pub fn steps(script: &[u8]) -> impl Iterator<Item = Result<(usize, Step), BadLine>> {
    script
        .split(|&byte| byte == b'\n')
        .zip(1..)
        .filter_map(|(line, number)| match parse(line) {
            Ok(step) => step.map(|step| Ok((number, step))),
            Err(()) => Some(Err(BadLine { number })),
        })
}

/// Runs a script, and passes each value read to `read`.
///
/// # Errors
///
/// [`BadLine`] for the first invalid line; then no access is made.
pub fn run(
    script: &[u8],
    registers: &impl Registers,
    clock: &impl Clock,
    mut read: impl FnMut(u8),
) -> Result<(), BadLine> {
    steps(script).try_for_each(|step| step.map(drop))?;
    for (_, step) in steps(script).flatten() {
        match step {
            Step::Write { offset, value } => registers.write8(offset, value),
            Step::Read { offset, .. } => read(registers.read8(offset)),
            Step::Pause(time) => clock.wait_until(clock.now() + time),
        }
    }
    Ok(())
}

/// Parses a line; `None` if it has no step.
fn parse(line: &[u8]) -> Result<Option<Step>, ()> {
    let said = line.split(|&byte| byte == b'#').next().unwrap_or(line);
    let said = core::str::from_utf8(said).map_err(drop)?;
    let mut words = said.split_ascii_whitespace();
    let Some(verb) = words.next() else {
        return Ok(None);
    };
    let step = match (verb, words.next(), words.next(), words.next()) {
        ("w", Some(offset), Some(value), None) => Step::Write {
            offset: register(offset)?,
            value: byte(value)?,
        },
        ("r", Some(offset), mask, None) => Step::Read {
            offset: register(offset)?,
            mask: mask.map_or(Ok(!0), byte)?,
        },
        ("p", Some(micros), None, None) => {
            let micros = u32::from_str_radix(micros, 16).map_err(drop)?;
            Step::Pause(Nanos::from_micros(micros.into()))
        }
        _ => return Err(()),
    };
    Ok(Some(step))
}

fn register(word: &str) -> Result<usize, ()> {
    Some(byte(word)?.into()).filter(|&at| at < 8).ok_or(())
}

fn byte(word: &str) -> Result<u8, ()> {
    u8::from_str_radix(word, 16).map_err(drop)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;
    use std::vec::Vec;

    #[test]
    fn each_step_has_its_line_number() {
        let script = b"# a comment\n\nw 3 83 # DLAB\r\nr 5\nr 6 f0\np 3e8";
        let steps: Result<Vec<_>, _> = steps(script).collect();
        let write = Step::Write {
            offset: 3,
            value: 0x83,
        };
        let read = |offset, mask| Step::Read { offset, mask };
        assert_eq!(
            steps.unwrap(),
            [
                (3, write),
                (4, read(5, 0xff)),
                (5, read(6, 0xf0)),
                (6, Step::Pause(Nanos::from_micros(1_000))),
            ]
        );
    }

    #[test]
    fn an_invalid_line_is_named() {
        for line in [
            "w 3",
            "w 3 100",
            "w 8 0",
            "w 3 0 0",
            "r",
            "r x",
            "r 5 ff 1",
            "x 5",
            "p",
            "p 100000000",
            "\u{e9}",
        ] {
            let script = std::format!("r 5\n{line}\nr 5\n");
            let error = steps(script.as_bytes()).find_map(Result::err);
            assert_eq!(error, Some(BadLine { number: 2 }), "{line}");
            assert!(error.unwrap().to_string().starts_with("script, line 2: "));
        }
    }

    #[test]
    fn every_result_of_a_script_fits_its_line() {
        crate::report::tests::result_survives(JobResult {
            first: u32::MAX,
            values: [u8::MAX; 32].into_iter().collect(),
        });
    }

    proptest! {
        #[test]
        fn no_script_makes_the_parser_panic(script: Vec<u8>) {
            for step in steps(&script) {
                let _ = step;
            }
        }
    }
}

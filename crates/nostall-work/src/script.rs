//! Accesses to a port's registers, written down, to be made on one port and on
//! another.
//!
//! One access a line, all numbers hexadecimal, `#` before a comment:
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

/// Runs the access script that is the guest's input, on the serial port: `uart-script`.
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

/// Values that were read, as many as one report holds.
pub type Values = heapless::Vec<u8, 32>;

/// A piece of all that a script read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Number of the read that the first value is of, counted from 0 in the script.
    pub first: u32,
    /// The values, read after read.
    pub values: Values,
}

/// Step of a script, one line of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write a register.
    Write {
        /// Which, 0 to 7.
        offset: usize,
        /// The value.
        value: u8,
    },
    /// Read a register.
    Read {
        /// Which, 0 to 7.
        offset: usize,
        /// The bits that count.
        mask: u8,
    },
    /// Let time pass.
    Pause(Nanos),
}

/// A line that is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, counted from 1.
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

/// The steps of a script, each with its line's number, counted from 1.
pub fn steps(script: &[u8]) -> impl Iterator<Item = Result<(usize, Step), BadLine>> {
    script
        .split(|&byte| byte == b'\n')
        .zip(1..)
        .filter_map(|(line, number)| match parse(line) {
            Ok(step) => step.map(|step| Ok((number, step))),
            Err(()) => Some(Err(BadLine { number })),
        })
}

/// Makes the accesses, and passes each value that was read to `read`.
///
/// # Errors
///
/// [`BadLine`], the first one; no access is made then.
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

/// `None` of a line that says nothing.
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
    fn steps_know_their_lines() {
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
    fn a_line_that_is_wrong_is_named() {
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
        crate::report::tests::result_survives(Told {
            first: u32::MAX,
            values: [u8::MAX; 32].into_iter().collect(),
        });
    }

    proptest! {
        #[test]
        fn no_script_is_too_strange(script: Vec<u8>) {
            for step in steps(&script) {
                let _ = step;
            }
        }
    }
}

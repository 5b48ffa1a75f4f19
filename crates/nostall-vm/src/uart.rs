//! Sending a text over a serial port, in several ways, one after the other.

use nostall_work::uart::{Job, Sent};

use crate::Error;
use crate::exits::Exits;
use crate::guest::{Guest, Limits, Ran, Work};

/// What is to be sent, and how.
#[derive(Clone, Copy, Debug)]
pub struct Experiment<'a> {
    /// The ways to send it, in this order.
    pub jobs: &'a [Job],
    /// How often to go through all of them. Alternating like this, a change in
    /// the machine's speed meets all ways alike.
    pub repeat: u16,
    /// What to send each time.
    pub text: &'a [u8],
}

impl Experiment<'_> {
    /// Every sending of the experiment, in order.
    pub fn sendings(&self) -> impl Iterator<Item = Job> {
        (0..self.repeat).flat_map(|_| self.jobs.iter().copied())
    }

    /// What arrives of one sending if nothing is lost: the text, with a CR before
    /// each LF.
    pub fn on_the_line(&self) -> Vec<u8> {
        let mut line = Vec::with_capacity(self.text.len() + self.text.len() / 32);
        for &byte in self.text {
            if byte == b'\n' {
                line.push(b'\r');
            }
            line.push(byte);
        }
        line
    }

    /// The work of a guest, once through.
    pub(crate) fn work(&self) -> Vec<Work> {
        self.jobs.iter().copied().map(Work::from).collect()
    }

    /// `guest`, with this work.
    pub(crate) fn guest<'g>(&'g self, work: &'g [Work], guest: &Guest<'g>) -> Guest<'g> {
        Guest {
            work,
            repeat: self.repeat,
            input: self.text,
            ..*guest
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        let sendings = self.sendings().count() as u64;
        Limits::of(sendings, sendings * self.on_the_line().len() as u64)
    }

    /// What came of it in a guest. The serial line's bytes are taken out of `ran`.
    pub(crate) fn outcome(&self, ran: &mut Ran) -> Result<Outcome, Error> {
        let mut sent = Vec::new();
        let mut exits = Vec::new();
        for (item, result, before) in ran.told_with_exits::<Sent>()? {
            if sent.len() % self.jobs.len().max(1) != item {
                return Err(Error::NotAReport(format!("item {item} out of turn")));
            }
            sent.push((self.jobs[item], result));
            exits.extend(before);
        }
        if sent.len() != self.sendings().count() {
            return Err(Error::Undone);
        }
        let serial = std::mem::take(&mut ran.serial);
        let arrived = cut(&serial, self.on_the_line().len(), sent.len());
        Ok(Outcome {
            sent,
            arrived,
            exits,
        })
    }
}

/// `len` bytes of a repeating alphabet, as the seed article's test program sends.
pub fn alphabet(len: usize) -> Vec<u8> {
    (b'a'..=b'z').cycle().take(len).collect()
}

/// What came of it: of each sending, in order.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the sender says of each.
    pub sent: Vec<(Job, Sent)>,
    /// What arrived of each at the line's other end.
    pub arrived: Vec<Vec<u8>>,
    /// The VM exits of each; empty if the machine cannot count them.
    pub exits: Vec<Exits>,
}

/// Cuts what arrived of several sendings, each of which should be `len` bytes.
/// The cuts are where they belong if all was whole so far; after the first loss
/// they cannot be known. What is too much is left with the last.
pub(crate) fn cut(mut arrived: &[u8], len: usize, sendings: usize) -> Vec<Vec<u8>> {
    let mut pieces = Vec::with_capacity(sendings);
    for n in 1..=sendings {
        let this = if n == sendings {
            arrived.len()
        } else {
            len.min(arrived.len())
        };
        let (piece, rest) = arrived.split_at(this);
        pieces.push(piece.to_vec());
        arrived = rest;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_too_much_is_at_the_end() {
        assert_eq!(cut(b"ababab", 2, 3), [b"ab", b"ab", b"ab"]);
        assert_eq!(cut(b"aba", 2, 3), [&b"ab"[..], b"a", b""]);
        assert_eq!(cut(b"abab!", 2, 2), [&b"ab"[..], b"ab!"]);
        assert!(cut(b"ab", 2, 0).is_empty());
    }
}

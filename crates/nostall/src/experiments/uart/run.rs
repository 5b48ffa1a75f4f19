//! Sending a text over a serial port, in several ways, one after the other.

use nostall_work::uart::{Job, Sent};

use nostall_vm::{Ending, Error, Exits, Guest, Limits, Machine, Ran, Work};

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

    /// What came of it in a guest. The serial line's bytes are taken out of `ran`.
    fn outcome(&self, ran: &mut Ran) -> Result<Outcome, Error> {
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

/// Runs the experiment on `machine` in `guest`, whose work and input are then those of the
/// experiment.
///
/// # Errors
///
/// As [`Machine::run`].
pub fn run(
    machine: &dyn Machine,
    guest: &Guest<'_>,
    experiment: &Experiment<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<(Outcome, Ran), Error> {
    let work: Vec<_> = experiment.jobs.iter().copied().map(Work::from).collect();
    let guest = Guest {
        work: &work,
        repeat: experiment.repeat,
        input: experiment.text,
        ..*guest
    };
    let sendings = experiment.sendings().count() as u64;
    let bytes = experiment.on_the_line().len() as u64;
    let mut limits = Limits::of(sendings, sendings * bytes);
    // A KVM that interprets takes some 100 us a byte where it sends byte by byte.
    limits.total *= 10;
    let mut ran = machine.run(&guest, &limits, Ending::Done, progress)?;
    Ok((experiment.outcome(&mut ran)?, ran))
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
fn cut(mut arrived: &[u8], len: usize, sendings: usize) -> Vec<Vec<u8>> {
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

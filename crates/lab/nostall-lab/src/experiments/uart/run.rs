//! Sending a text over a serial port with several strategies, one after the other.

use nostall_vm::{Ending, Error, Exits, Guest, GuestRun, Limits, Machine};
use nostall_work::uart::{Job, Sent};

use crate::experiments::runner::{one_each, run_jobs};

/// The text to send, and its jobs.
#[derive(Clone, Copy, Debug)]
pub struct UartPlan<'a> {
    /// The jobs, in order.
    pub jobs: &'a [Job],
    /// Number of rounds through all jobs. The jobs alternate, so that a change in the
    /// machine's speed affects all of them alike.
    pub repeat: u16,
    /// The text of each sending.
    pub text: &'a [u8],
}

/// One sending of the text.
#[derive(Clone, Debug)]
pub struct Sending {
    /// The job that sent it.
    pub job: Job,
    /// The sender's report.
    pub sent: Sent,
    /// Its VM exits, if the machine counts them.
    pub exits: Option<Exits>,
    /// Bytes that arrived at the other end of the line.
    pub arrived: Vec<u8>,
}

impl UartPlan<'_> {
    /// The job of every sending, in order.
    pub fn sendings(&self) -> impl Iterator<Item = Job> {
        (0..self.repeat).flat_map(|_| self.jobs.iter().copied())
    }

    /// Returns the bytes that arrive of one sending if none is lost: the text, with a CR
    /// before each LF.
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

    /// Folds a guest's reports into sendings. Takes the bytes of the serial line out of `ran`.
    fn sendings_of(&self, ran: &mut GuestRun) -> Result<Vec<Sending>, Error> {
        let results = ran.results_with_exits::<Sent>()?;
        if results.len() != self.sendings().count() {
            return Err(Error::Undone);
        }
        let results = results.into_iter();
        let results = results.map(|(item, sent, exits)| (item, (sent, exits)));
        let jobs = (0..self.repeat).flat_map(|_| self.jobs.iter().copied().enumerate());
        let sent = one_each(jobs, results)?;
        let serial = std::mem::take(&mut ran.serial);
        let arrived = cut(&serial, self.on_the_line().len(), sent.len());
        let sendings = sent.into_iter().zip(arrived);
        let sendings = sendings.map(|((job, (sent, exits)), arrived)| Sending {
            job,
            sent,
            exits,
            arrived,
        });
        Ok(sendings.collect())
    }
}

/// Runs `plan` on `machine` in `guest`. The plan replaces the guest's work and input.
///
/// # Errors
///
/// Returns the errors of [`Machine::run`].
pub fn run(
    machine: &dyn Machine,
    guest: &Guest<'_>,
    plan: &UartPlan<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<(Vec<Sending>, GuestRun), Error> {
    let guest = Guest {
        input: plan.text,
        ..*guest
    };
    let sendings = plan.sendings().count() as u64;
    let bytes = plan.on_the_line().len() as u64;
    let mut limits = Limits::of(sendings, sendings * bytes);
    // A KVM that interprets takes some 100 us a byte where it sends byte by byte.
    limits.total *= 10;
    let jobs = (plan.jobs, plan.repeat);
    let mut ran = run_jobs(machine, &guest, jobs, &limits, Ending::Done, progress)?;
    Ok((plan.sendings_of(&mut ran)?, ran))
}

/// Returns `len` bytes of a repeating alphabet, as the test program of Linux's fix sends
/// (Costa, 2022).
pub fn alphabet(len: usize) -> Vec<u8> {
    (b'a'..=b'z').cycle().take(len).collect()
}

/// Cuts the bytes of several sendings, each of which should have `len` bytes. The cuts are
/// right up to the first loss, and unknown after it. Surplus bytes stay with the last sending.
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
    fn missing_and_extra_bytes_are_at_the_end() {
        assert_eq!(cut(b"ababab", 2, 3), [b"ab", b"ab", b"ab"]);
        assert_eq!(cut(b"aba", 2, 3), [&b"ab"[..], b"a", b""]);
        assert_eq!(cut(b"abab!", 2, 2), [&b"ab"[..], b"ab!"]);
        assert!(cut(b"ab", 2, 0).is_empty());
    }
}

//! Sending a text over a serial port, in several ways, one after the other.

use nostall_work::uart::{Job, Sent};

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
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the sender says of each sending, in order.
    pub sent: Vec<(Job, Sent)>,
    /// All that arrived at the line's other end, of all sendings.
    pub arrived: Vec<u8>,
}

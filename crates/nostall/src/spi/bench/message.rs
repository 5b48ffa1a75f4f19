//! Sent messages, and the check of the received ones.

use std::fmt::Write;

/// Bytes that the user allows to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// These bytes, and zeros after them.
    Bytes(Vec<u8>),
    /// Anything, for it comes back: MOSI is wired to MISO.
    Loopback,
}

impl Payload {
    /// Messages are not shorter than this.
    pub fn least(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Loopback => 1,
        }
    }
}

/// Messages of one length, one after the other, and the received bytes.
#[derive(Clone, Debug)]
pub struct Message {
    pub sent: Vec<u8>,
    pub received: Vec<u8>,
    loopback: bool,
    number: u8,
}

impl Message {
    /// Creates a message of `bytes` bytes. Each `sender` has other bytes, as far as a byte can
    /// differ.
    pub fn new(what: &Payload, bytes: usize, sender: usize) -> Self {
        let sent = match what {
            Payload::Bytes(given) => {
                let mut sent = given.clone();
                sent.resize(bytes, 0);
                sent
            }
            // Neighbours differ, and none is like those of another length.
            Payload::Loopback => (0..bytes)
                .map(|i| (i * 167 + (i >> 8) * 13 + sender * 59 + bytes) as u8)
                .collect(),
        };
        Self {
            received: vec![0; bytes],
            sent,
            loopback: *what == Payload::Loopback,
            number: 0,
        }
    }

    /// Makes it differ from the last one, if it is to come back.
    pub fn next(&mut self) {
        if self.loopback {
            self.number = self.number.wrapping_add(1);
            if let Some(first) = self.sent.first_mut() {
                *first = self.number;
            }
        }
    }

    /// Whether a looped-back message came back changed.
    pub fn is_changed(&self) -> bool {
        self.loopback && self.sent != self.received
    }
}

/// Bytes as `9f 00 00`; of many, the first.
pub fn hex(bytes: &[u8]) -> String {
    const SHOWN: usize = 16;
    let mut text = String::new();
    for (i, byte) in bytes.iter().take(SHOWN).enumerate() {
        let space = if i == 0 { "" } else { " " };
        let _ = write!(text, "{space}{byte:02x}");
    }
    if bytes.len() > SHOWN {
        text += " ...";
    }
    text
}

/// Bytes that were given as an argument.
#[derive(Clone, Debug)]
pub struct Bytes(pub Vec<u8>);

/// For the command line.
pub fn bytes_of(text: &str) -> Result<Bytes, String> {
    bytes(text).map(Bytes)
}

/// `9f000000`, `9f 00 00 00`.
fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = text.bytes().filter(|c| *c != b' ').collect();
    let byte = |pair: &[u8]| {
        let digit = |c: u8| char::from(c).to_digit(16).map(|digit| digit as u8);
        match *pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        }
    };
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    bytes
        .filter(|bytes| !bytes.is_empty())
        .ok_or_else(|| "not bytes in hexadecimal, two digits each: 9f000000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_two_digits_each() {
        assert_eq!(bytes("9f"), Ok(vec![0x9f]));
        assert_eq!(bytes("9F 00 a5"), Ok(vec![0x9f, 0, 0xa5]));
        for wrong in ["", " ", "9", "9f0", "0x9f", "9g", "ä", "+1"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
        assert_eq!(hex(&[0x9f, 0]), "9f 00");
        assert!(hex(&[0; 17]).ends_with("00 ..."));
    }

    #[test]
    fn zeros_follow_what_was_given() {
        let message = Message::new(&Payload::Bytes(vec![0x9f]), 4, 1);
        assert_eq!(message.sent, [0x9f, 0, 0, 0]);
        assert!(!message.is_changed());
    }

    #[test]
    fn bytes_other_than_the_sent_ones_are_noticed() {
        let mut message = Message::new(&Payload::Loopback, 64, 0);
        for _ in 0..300 {
            let last = message.sent.clone();
            message.next();
            // The bytes received last time are not accepted.
            assert_ne!(message.sent, last);
            message.received = last;
            assert!(message.is_changed());
            message.received = message.sent.clone();
            assert!(!message.is_changed());
            message.received[63] ^= 1;
            assert!(message.is_changed());
        }
        let others = Message::new(&Payload::Loopback, 64, 1);
        assert_ne!(others.sent[1..], message.sent[1..]);
    }
}

//! Sent messages, and the check of the received ones.

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
        let mut sent = match what {
            Payload::Bytes(given) => given.clone(),
            // Neighbours differ, and none is like those of another length.
            Payload::Loopback => (0..bytes)
                .map(|i| (i * 167 + (i >> 8) * 13 + sender * 59 + bytes) as u8)
                .collect(),
        };
        sent.resize(bytes, 0);
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
    let shown = bytes.iter().take(SHOWN).map(|byte| format!("{byte:02x}"));
    let more = (bytes.len() > SHOWN).then(|| "...".to_owned());
    shown.chain(more).collect::<Vec<_>>().join(" ")
}

/// For the command line.
pub fn payload(text: &str) -> Result<Payload, String> {
    bytes(text).map(Payload::Bytes)
}

/// `9f000000`, `9f 00 00 00`.
fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let digits = text.replace(' ', "");
    let is_hex = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    let bytes = is_hex.then(|| (0..digits.len()).step_by(2).map(byte).collect());
    let wrong = "not bytes in hexadecimal, two digits each: 9f000000";
    bytes.flatten().ok_or_else(|| wrong.to_owned())
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

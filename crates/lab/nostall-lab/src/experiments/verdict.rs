//! Verdicts: whether the figures and the bytes are as they should be.

/// Where the bytes of one sending first differ from those expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// A byte is another one.
    At {
        offset: usize,
        expected: u8,
        got: u8,
    },
    /// There are no more.
    EndsAt { offset: usize, of: usize },
    /// There are more.
    TooMany { extra: usize },
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::At {
                offset,
                expected,
                got,
            } => write!(
                f,
                "byte {offset} is {got:#04x} where {expected:#04x} was sent"
            ),
            Self::EndsAt { offset, of } => write!(f, "only {offset} of {of} bytes arrived"),
            Self::TooMany { extra } => write!(f, "{extra} bytes too many arrived"),
        }
    }
}

/// The first difference, if there is one.
pub fn compare(expected: &[u8], arrived: &[u8]) -> Option<Difference> {
    let pairs = expected.iter().zip(arrived);
    let differs = pairs.clone().position(|(expected, got)| expected != got);
    match differs {
        Some(offset) => Some(Difference::At {
            offset,
            expected: expected[offset],
            got: arrived[offset],
        }),
        None if arrived.len() < expected.len() => Some(Difference::EndsAt {
            offset: arrived.len(),
            of: expected.len(),
        }),
        None if arrived.len() > expected.len() => Some(Difference::TooMany {
            extra: arrived.len() - expected.len(),
        }),
        None => None,
    }
}

/// The end of a text: `success`, or each of `faults` below `heading`.
pub fn closing(heading: &str, faults: &[String], success: impl FnOnce() -> String) -> String {
    match faults {
        [] => success(),
        faults => format!("{heading}:\n  {}", faults.join("\n  ")),
    }
}

/// Puts together the values that have the same key. Keys are in the order of their first value.
pub fn group<K: PartialEq, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_found() {
        assert_eq!(compare(b"abc", b"abc"), None);
        assert_eq!(
            compare(b"abc", b"aXY"),
            Some(Difference::At {
                offset: 1,
                expected: b'b',
                got: b'X'
            })
        );
        assert_eq!(
            compare(b"abc", b"ab"),
            Some(Difference::EndsAt { offset: 2, of: 3 })
        );
        assert_eq!(
            compare(b"abc", b"abcd"),
            Some(Difference::TooMany { extra: 1 })
        );
    }
}

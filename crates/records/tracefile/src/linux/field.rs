//! Fields of an event.

use super::order::Order;

/// A field of an event's payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Type as in the format file, with the brackets of an array: `char[16]`.
    pub kind: String,
    /// Offset in the payload.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// Whether the number, or each element of an array, is signed.
    pub signed: bool,
}

impl Field {
    /// Returns the field's bytes; `None` if the payload is too short.
    pub fn bytes<'a>(&self, payload: &'a [u8]) -> Option<&'a [u8]> {
        payload.get(self.offset..self.offset.checked_add(self.size)?)
    }

    /// Returns the field's number as unsigned.
    pub fn number(&self, payload: &[u8], order: Order) -> Option<u64> {
        Some(order.number(self.bytes(payload)?))
    }

    /// Returns whether the payload contains the array in this place.
    pub fn is_array(&self) -> bool {
        self.kind.contains('[') && !self.is_dynamic()
    }

    /// Returns whether the number is the location of an array in the payload.
    pub fn is_dynamic(&self) -> bool {
        self.kind.contains("__data_loc") || self.kind.contains("__rel_loc")
    }

    /// Returns the offset and length of a dynamic array in the payload.
    pub fn location(&self, payload: &[u8], order: Order) -> Option<(usize, usize)> {
        let word = self.number(payload, order)? as usize;
        let base = if self.kind.contains("__rel_loc") {
            self.offset + self.size
        } else {
            0
        };
        Some((base + (word & 0xffff), word >> 16 & 0xffff))
    }

    /// Parses a line of a format file.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut parts = line.trim().split(';').map(str::trim);
        let declaration = parts.next()?.strip_prefix("field:")?;
        let mut number = |name: &str| -> Option<usize> {
            let digits = parts.next()?.strip_prefix(name)?;
            digits.strip_prefix(':')?.parse().ok()
        };
        let (offset, size) = (number("offset")?, number("size")?);
        // Kernels before 2.6.32 do not state the sign.
        let signed = number("signed").is_some_and(|signed| signed != 0);
        let (declared, array) = match declaration.split_once('[') {
            // `__data_loc char[] name` has its brackets before the name.
            Some((before, after)) if after.contains(' ') => {
                let (inner, name) = after.split_once(']')?;
                let kind = format!("{before}[{inner}]");
                return Some(Self {
                    name: name.trim().to_owned(),
                    kind,
                    offset,
                    size,
                    signed,
                });
            }
            Some((declared, after)) => (declared.trim_end(), Some(after)),
            None => (declaration, None),
        };
        let is_name = |c: char| c == '_' || c.is_ascii_alphanumeric();
        let name = declared.rsplit(|c| !is_name(c)).next()?;
        let kind = declared
            .strip_suffix(name)
            .filter(|kind| !kind.is_empty())?;
        let kind = kind.trim_end();
        Some(Self {
            name: name.to_owned(),
            kind: match array {
                Some(array) => format!("{kind}[{array}"),
                None => kind.to_owned(),
            },
            offset,
            size,
            signed,
        })
    }
}

/// Returns a C string's bytes.
pub(super) fn until_nul(bytes: &[u8]) -> &[u8] {
    let len = bytes.iter().position(|byte| *byte == 0);
    &bytes[..len.unwrap_or(bytes.len())]
}

//! Names in formats that are lines of text.

use std::borrow::Cow;

/// Replaces control characters, such as line ends.
pub fn plain(name: &str) -> Cow<'_, str> {
    if !name.contains(char::is_control) {
        return Cow::Borrowed(name);
    }
    let escape = |char: char| match char.is_control() {
        true => char.escape_default().to_string(),
        false => char.into(),
    };
    Cow::Owned(name.chars().map(escape).collect())
}

//! Escapes for the text of a crashed machine, so that it cannot control a terminal.

use std::borrow::Cow;
use std::fmt::Write;

use nostall_console::Charset;

/// Returns the text with escapes for all characters that the console's drain escapes for a UTF-8
/// terminal (`\x1b`, `\u{9b}`, `\u{202e}`), and for invalid UTF-8 (`\x9b`). Line feeds are kept.
pub fn escape(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.contains(is_harmful)
    {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            let _ = match u32::from(c) {
                _ if !is_harmful(c) => safe.write_char(c),
                code @ 0..0x80 => write!(safe, "\\x{code:02x}"),
                code => write!(safe, "\\u{{{code:x}}}"),
            };
        }
        for byte in chunk.invalid() {
            let _ = write!(safe, "\\x{byte:02x}");
        }
    }
    Cow::Owned(safe)
}

/// Escapes a name of any content for use within a line.
pub fn escape_name(name: &str) -> String {
    escape(name.as_bytes()).replace('\n', "\\x0a")
}

/// Returns a JSON document and a line feed, without characters that control a terminal.
///
/// # Errors
///
/// If a part of the document cannot be expressed in JSON.
pub fn json_document(document: &impl serde::Serialize) -> serde_json::Result<String> {
    let json = serde_json::to_string_pretty(document)? + "\n";
    Ok(escape_json(&json).into_owned())
}

/// Escapes JSON text, whose harmful characters are all in strings.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    if !json.contains(is_harmful) {
        return Cow::Borrowed(json);
    }
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        if is_harmful(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

fn is_harmful(c: char) -> bool {
    c != '\n' && !Charset::Utf8.passes(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_reaches_a_terminal() {
        assert_eq!(escape(b"a\tb\n"), "a\tb\n");
        assert_eq!(escape(b"\x1b[2J\r\0\x7f"), "\\x1b[2J\\x0d\\x00\\x7f");
        assert_eq!(escape("ä\u{9b}1m".as_bytes()), "ä\\u{9b}1m");
        assert_eq!(escape(b"\x9b1m"), "\\x9b1m");
        assert_eq!(escape(b"\xff\xc3\xa4\xc3"), "\\xffä\\xc3");
        assert_eq!(escape_name("a\nb\x1b"), "a\\x0ab\\x1b");
        assert_eq!(escape("\u{202e}".as_bytes()), "\\u{202e}");
        for mark in [
            "\u{200f}",
            "\u{61c}",
            "\u{2028}",
            "\u{2067}",
            "\u{feff}",
            "\u{e0041}",
        ] {
            assert!(escape(mark.as_bytes()).is_ascii(), "{mark:?}");
            assert!(escape_json(mark).is_ascii(), "{mark:?}");
        }
        let json = escape_json("{\"\u{9b}\":\"\u{7f}ä\"}");
        assert_eq!(json, "{\"\\u009b\":\"\\u007fä\"}");
        assert_eq!(escape("\u{2028}\u{61c}".as_bytes()), "\\u{2028}\\u{61c}");
        let tag = escape_json("\"\u{e0041}\"");
        assert_eq!(tag, "\"\\udb40\\udc41\"");
        let read: String = serde_json::from_str(&tag).unwrap();
        assert_eq!(read, "\u{e0041}");
    }
}

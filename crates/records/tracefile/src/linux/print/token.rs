//! Tokens of a print format's expressions.

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Word(String),
    /// Value, and whether its suffix or size makes it unsigned and long.
    Number {
        value: u64,
        unsigned: bool,
        long: bool,
    },
    Text(Vec<u8>),
    Sign(&'static str),
}

/// Operators and brackets, the longest first.
const SIGNS: [&str; 34] = [
    "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "(", ")", "[", "]", "{", "}", ",", "+",
    "-", "*", "/", "%", "&", "|", "^", "~", "!", "<", ">", "?", ":", ".", ";", "=", "#",
];

/// Splits a print format into tokens; `None` if a character is invalid.
pub(super) fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, len) = if first.is_ascii_digit() {
            number(rest)?
        } else if first == '_' || first.is_ascii_alphabetic() {
            let is_word = |c: char| c == '_' || c.is_ascii_alphanumeric();
            let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            (Token::Word(rest[..len].to_owned()), len)
        } else if first == '"' || first == '\'' {
            quoted(rest, first)?
        } else {
            let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign))?;
            (Token::Sign(sign), sign.len())
        };
        tokens.push(token);
        rest = rest[len..].trim_start();
    }
    Some(tokens)
}

fn number(text: &str) -> Option<(Token, usize)> {
    let (digits, radix, skip) = match text.get(..2) {
        Some("0x" | "0X") => (&text[2..], 16, 2),
        _ if text.starts_with('0') => (text, 8, 0),
        _ => (text, 10, 0),
    };
    let len = digits
        .find(|c: char| !c.is_digit(radix))
        .unwrap_or(digits.len());
    let value = u64::from_str_radix(&digits[..len], radix).ok()?;
    let rest = &digits[len..];
    let is_suffix = |c: char| matches!(c, 'u' | 'U' | 'l' | 'L');
    let suffix = rest.find(|c| !is_suffix(c)).unwrap_or(rest.len());
    let has = |letter: char| rest[..suffix].to_ascii_lowercase().contains(letter);
    let long = has('l') || value > u32::MAX.into() || (radix == 10 && value > i32::MAX as u64);
    let most = if long {
        i64::MAX as u64
    } else {
        i32::MAX as u64
    };
    let unsigned = has('u') || value > most;
    let token = Token::Number {
        value,
        unsigned,
        long,
    };
    Some((token, skip + len + suffix))
}

/// Parses a string, or a character as a number.
fn quoted(text: &str, quote: char) -> Option<(Token, usize)> {
    let bytes = text.as_bytes();
    let mut value = Vec::new();
    let mut at = 1;
    loop {
        let byte = *bytes.get(at)?;
        at += 1;
        match byte {
            b'\\' => {
                let escape = *bytes.get(at)?;
                at += 1;
                value.push(match escape {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'0' => 0,
                    b'x' => {
                        let digits = text.get(at..at + 2)?;
                        at += 2;
                        u8::from_str_radix(digits, 16).ok()?
                    }
                    other => other,
                });
            }
            _ if byte == quote as u8 => break,
            _ => value.push(byte),
        }
    }
    if quote == '"' {
        return Some((Token::Text(value), at));
    }
    let value = u64::from(*value.first()?);
    let token = Token::Number {
        value,
        unsigned: false,
        long: false,
    };
    Some((token, at))
}

//! Sizes and addresses in options.

/// Parses a number: decimal, or hexadecimal after `0x`, with K, M or G as powers of 1024.
///
/// # Errors
///
/// If the text is not such a number, or the number is too large.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("not a number such as 4096, 0x1000, 4K or 1M: {text}");
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let hex = digits.strip_prefix("0x").or(digits.strip_prefix("0X"));
    let (digits, radix) = hex.map_or((digits, 10), |hex| (hex, 16));
    if !digits.starts_with(|first: char| first.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let number = u64::from_str_radix(digits, radix).map_err(|_| wrong())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("too large: {text}"))
}

/// Parses a size in memory.
///
/// # Errors
///
/// Returns the errors of [`parse`].
pub fn size(text: &str) -> Result<usize, String> {
    let number = parse(text)?;
    number.try_into().map_err(|_| format!("too large: {text}"))
}

/// Parses a number of 32 bits.
///
/// # Errors
///
/// Returns the errors of [`parse`].
pub fn flags(text: &str) -> Result<u32, String> {
    let number = parse(text)?;
    number.try_into().map_err(|_| format!("too large: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_decimal_or_hexadecimal_with_suffixes() {
        for (text, number) in [
            ("0", 0),
            ("4096", 4096),
            ("0x40000", 0x4_0000),
            ("32K", 32 << 10),
            ("0x10k", 16 << 10),
            ("2G", 2 << 30),
        ] {
            assert_eq!(parse(text), Ok(number));
        }
        for text in [
            "",
            "K",
            "0x",
            "-1",
            "+1",
            "1T",
            "1.5M",
            "ten",
            "0x+1",
            "99999999999G",
            "ä",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

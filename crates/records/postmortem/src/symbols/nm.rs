//! Text tables: one symbol per line, as `address type name`, and `[module]` for a module's symbol.

use super::Error;
use super::table::{MAX_SYMBOLS, Raw, Table};

/// Parses a table; lines in another form are skipped.
pub(super) fn table(text: &[u8]) -> Result<Table, Error> {
    let lines = text.split(|byte| *byte == b'\n');
    let raws: Vec<_> = lines.filter_map(raw).take(MAX_SYMBOLS + 1).collect();
    if raws.len() > MAX_SYMBOLS {
        return Err(Error::TooLarge);
    }
    if raws.len() > 1 && raws.iter().all(|raw| raw.address == 0) {
        return Err(Error::Hidden);
    }
    Table::new(raws, Vec::new())
}

fn raw(line: &[u8]) -> Option<Raw<'_>> {
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let address = words.next()?;
    let &[kind] = words.next()?.as_bytes() else {
        return None;
    };
    let name = words.next()?;
    let module = words
        .next()
        .and_then(|word| word.strip_prefix('[')?.strip_suffix(']'));
    // `from_str_radix` would accept a sign.
    let address = address
        .bytes()
        .all(|digit| digit.is_ascii_hexdigit())
        .then_some(address)?;
    Some(Raw {
        address: u64::from_str_radix(address, 16).ok()?,
        kind,
        name,
        module,
    })
}

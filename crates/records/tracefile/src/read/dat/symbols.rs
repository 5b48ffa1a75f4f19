//! Names of a kernel's functions, from its `kallsyms`.

use crate::linux::{Names, Place};

/// Size limit for a function. There is a gap between the kernel and its modules.
const LONGEST: u64 = 16 << 20;

/// Symbols, sorted by address.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    text: String,
    symbols: Vec<Symbol>,
}

#[derive(Clone, Copy, Debug)]
struct Symbol {
    address: u64,
    /// Range of the line in the text.
    start: u32,
    end: u32,
    is_weak: bool,
}

impl Symbols {
    /// Parses lines with an address, a letter, a name and optionally a module.
    pub(super) fn new(text: String) -> Self {
        let mut symbols = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let mut words = line.split_ascii_whitespace();
            let address = words.next().map(|word| u64::from_str_radix(word, 16));
            if let (Some(Ok(address)), Some(letter), Some(_)) =
                (address, words.next(), words.next())
                // Without privileges, all addresses read as 0.
                && address != 0
                && let (Ok(start), Ok(end)) = (start.try_into(), (start + line.len()).try_into())
            {
                symbols.push(Symbol {
                    address,
                    start,
                    end,
                    is_weak: letter.eq_ignore_ascii_case("w"),
                });
            }
            start += line.len();
        }
        // An address with several names gets the first that is not weak.
        symbols.sort_by_key(|symbol| (symbol.address, symbol.is_weak));
        symbols.dedup_by_key(|symbol| symbol.address);
        Self { text, symbols }
    }
}

impl Names for Symbols {
    fn place(&self, address: u64) -> Option<Place<'_>> {
        let next = self
            .symbols
            .partition_point(|symbol| symbol.address <= address);
        let symbol = self.symbols.get(next.checked_sub(1)?)?;
        let line = &self.text[symbol.start as usize..symbol.end as usize];
        // Address and letter precede the name, and a tab precedes the module.
        let mut words = line.trim_end().splitn(3, ' ').skip(2);
        let name = words.next()?;
        let (name, module) = match name.split_once('\t') {
            Some((name, module)) => (name, Some(module.trim_matches(['[', ']']))),
            None => (name, None),
        };
        let offset = address - symbol.address;
        if offset >= LONGEST {
            return None;
        }
        let end = self.symbols.get(next).map(|symbol| symbol.address);
        let size = end.map_or(0, |end| end - symbol.address);
        Some(Place {
            name,
            module,
            offset,
            size,
        })
    }
}

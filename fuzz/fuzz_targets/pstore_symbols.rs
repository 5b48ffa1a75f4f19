//! Reads arbitrary symbol tables (text, gzip or ELF), and a log that may contain the kernel's
//! offset. Symbols are adjacent, and a solved offset has the documented evidence.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nostall_postmortem::symbols::{Symbols, kernel_offset};

/// Maximum number of addresses: each is tried with 512 offsets.
const MOST: usize = 128;

fuzz_target!(|file: &[u8]| {
    if let Some(offset) = kernel_offset(file) {
        let line = format!("Kernel Offset: {offset:#x} from 0xffffffff81000000\n");
        assert_eq!(kernel_offset(line.as_bytes()), Some(offset));
    }
    let Ok(symbols) = Symbols::parse(file) else {
        return;
    };
    assert!(!symbols.is_empty());
    let addresses: Vec<u64> = addresses(file).take(MOST).collect();
    for &address in &addresses {
        lies_beside_its_neighbours(&symbols, address);
    }
    an_offset_is_well_founded(&symbols, &addresses);
});

/// Returns possible addresses in a text or an ELF file.
fn addresses(file: &[u8]) -> impl Iterator<Item = u64> {
    let words = str::from_utf8(file)
        .into_iter()
        .flat_map(str::split_ascii_whitespace);
    let hex = words.filter_map(|word| u64::from_str_radix(word, 16).ok());
    let binary = file
        .as_chunks()
        .0
        .iter()
        .map(|bytes| u64::from_le_bytes(*bytes));
    hex.chain(binary)
}

fn lies_beside_its_neighbours(symbols: &Symbols, address: u64) {
    let Some(symbol) = symbols.lookup(address) else {
        return;
    };
    assert!(symbol.offset < symbol.size);
    let start = address - symbol.offset;
    let first = symbols.lookup(start).unwrap();
    assert_eq!(
        (first.name, first.module, first.offset),
        (symbol.name, symbol.module, 0)
    );
    // The next symbol, or the end of the table.
    let next = start
        .checked_add(symbol.size)
        .and_then(|end| symbols.lookup(end));
    assert!(
        next.is_none_or(|next| next.offset == 0),
        "{symbol:?} {next:?}"
    );
    if let Some(before) = start
        .checked_sub(1)
        .and_then(|before| symbols.lookup(before))
    {
        assert_eq!(before.offset + 1, before.size);
    }
    let moved = symbols.clone().with_offset(0x1e80_0000);
    assert_eq!(
        moved.lookup(address.wrapping_add(0x1e80_0000)),
        Some(symbol)
    );
}

fn an_offset_is_well_founded(symbols: &Symbols, addresses: &[u64]) {
    let Some(solved) = symbols.solve_offset(addresses.iter().copied()) else {
        return;
    };
    assert!(solved.offset < 1 << 30 && solved.offset % (2 << 20) == 0);
    assert!(solved.score >= 8.max(2 * solved.runner_up));
    assert!(solved.score <= solved.addresses && solved.addresses <= addresses.len());
    // At least `score` addresses are first bytes of functions, or the ones after an `endbr64`.
    let moved = symbols.clone().with_offset(solved.offset);
    let mut starts = addresses.to_vec();
    starts.sort();
    starts.dedup();
    let into = |by| {
        let starts = starts.iter().filter_map(|address| address.checked_sub(by));
        let symbols = starts.filter_map(|start| moved.lookup(start));
        symbols.filter(|symbol| symbol.offset == 0).count()
    };
    assert!(into(0).max(into(4)) >= solved.score, "{solved:?}");
}

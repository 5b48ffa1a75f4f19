//! Names for the addresses in a trace.

use std::fmt;
use std::path::Path;

use super::escape::escape_name;
use crate::kernel::KernelOffset;
use crate::symbols::Symbols;
use crate::{Content, Decoded, Dmesg};
use anyhow::{Result, anyhow};

/// Symbols, if there are any.
pub struct Names(Option<Symbols>);

impl Names {
    /// Creates an empty table: only addresses are shown.
    pub fn none() -> Self {
        Self(None)
    }

    /// Returns the function that contains an address.
    pub fn function(&self, address: u64) -> Option<String> {
        let symbol = self.0.as_ref()?.lookup(address)?;
        Some(match symbol.module {
            Some(module) => format!("{} [{module}]", symbol.name),
            None => symbol.name.to_owned(),
        })
    }

    /// Returns the function, with the address's offset in it and its size.
    pub fn place(&self, address: u64) -> Option<String> {
        Some(self.0.as_ref()?.lookup(address)?.to_string())
    }

    /// Returns the symbol table.
    pub fn symbols(&self) -> Option<&Symbols> {
        self.0.as_ref()
    }
}

/// Loads the symbol file of the option `--symbols`.
///
/// # Errors
///
/// If the file cannot be read or has no symbols. The error starts with the option's name.
pub fn load(file: &Path) -> Result<Symbols> {
    let name = escape_name(&file.to_string_lossy());
    Symbols::load(file).map_err(|error| anyhow!("--symbols {name}: {error}"))
}

/// Moves the symbols to the kernel's load address: with the given offset, the one in its log, or
/// the one that fits its trace. Passes a line about the offset to `note`.
pub fn moved(
    symbols: Symbols,
    given: Option<u64>,
    decoded: &Decoded<'_>,
    note: impl Fn(fmt::Arguments<'_>),
) -> Names {
    let offset = given
        .map(KernelOffset::Given)
        .or_else(|| in_log(decoded))
        .or_else(|| solved(&symbols, decoded, note));
    let offset = offset.map_or(0, KernelOffset::value);
    Names(Some(symbols.with_offset(offset)))
}

/// Returns the offset in the kernel's log, if that line is verified.
fn in_log(decoded: &Decoded<'_>) -> Option<KernelOffset> {
    decoded.records().find_map(|record| match record.content {
        Content::Dmesg(Dmesg { text, .. }) | Content::Console(text) => {
            KernelOffset::of_verified(&text.bytes, &text.unverified)
        }
        _ => None,
    })
}

fn solved(
    symbols: &Symbols,
    decoded: &Decoded<'_>,
    note: impl Fn(fmt::Arguments<'_>),
) -> Option<KernelOffset> {
    let calls = decoded.records().find_map(|record| match record.content {
        Content::Ftrace(calls) => Some(calls),
        _ => None,
    })?;
    let mut addresses = calls.iter().map(|trace| trace.record.ip).peekable();
    // 32-bit kernels do not have this kind of KASLR.
    if addresses.peek().is_none_or(|&ip| ip <= u32::MAX.into()) {
        return None;
    }
    let Some(solved) = symbols.solve_offset(addresses) else {
        note(format_args!(
            "no kernel offset fits the trace: the names may be wrong; --kaslr-offset sets it"
        ));
        return None;
    };
    let offset = KernelOffset::Solved(solved);
    note(format_args!("{offset}"));
    Some(offset)
}

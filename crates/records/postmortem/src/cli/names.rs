//! Names for the addresses in a trace.

use std::fmt;
use std::path::Path;

use super::escape::escape_name;
use crate::symbols::{Symbols, kernel_offset};
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
        .or_else(|| said(decoded))
        .or_else(|| fits(&symbols, decoded, note));
    Names(Some(symbols.with_offset(offset.unwrap_or(0))))
}

/// Returns the offset in the kernel's log, if that line is verified.
fn said(decoded: &Decoded<'_>) -> Option<u64> {
    decoded.records().find_map(|record| match record.content {
        Content::Dmesg(Dmesg { text, .. }) | Content::Console(text) => {
            let mut bytes = text.bytes;
            for range in text.unverified {
                bytes[range].fill(0);
            }
            kernel_offset(&bytes)
        }
        _ => None,
    })
}

fn fits(
    symbols: &Symbols,
    decoded: &Decoded<'_>,
    note: impl Fn(fmt::Arguments<'_>),
) -> Option<u64> {
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
    note(format_args!(
        "kernel offset {:#x}: puts {} of {} traced addresses on functions, the next best {}",
        solved.offset, solved.score, solved.addresses, solved.runner_up
    ));
    Some(solved.offset)
}

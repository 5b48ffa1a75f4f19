//! Names for the addresses in a trace.

use std::path::Path;

use anyhow::{Result, anyhow};
use nostall_pstore::symbols::{Symbols, kernel_offset};
use nostall_pstore::{Content, Decoded};

use crate::output::note;

/// Symbols, if there are any.
pub struct Names(Option<Symbols>);

impl Names {
    /// Addresses only.
    pub fn none() -> Self {
        Self(None)
    }

    /// The function that an address is in.
    pub fn function(&self, address: u64) -> Option<String> {
        let symbol = self.0.as_ref()?.lookup(address)?;
        Some(match symbol.module {
            Some(module) => format!("{} [{module}]", symbol.name),
            None => symbol.name.to_owned(),
        })
    }

    /// The same, with how far into it and how long it is.
    pub fn place(&self, address: u64) -> Option<String> {
        Some(self.0.as_ref()?.lookup(address)?.to_string())
    }

    /// The table.
    pub fn symbols(&self) -> Option<&Symbols> {
        self.0.as_ref()
    }
}

/// The symbols in a file.
pub fn load(file: &Path) -> Result<Symbols> {
    Symbols::load(file).map_err(|error| anyhow!("{}: {error}", file.display()))
}

/// The symbols where the kernel ran: by what is given, what its log says, or what its
/// trace fits.
pub fn moved(symbols: Symbols, given: Option<u64>, decoded: &Decoded) -> Names {
    let offset = given
        .or_else(|| said(decoded))
        .or_else(|| fits(&symbols, decoded));
    Names(Some(symbols.with_offset(offset.unwrap_or(0))))
}

/// What the kernel said in its last words.
fn said(decoded: &Decoded) -> Option<u64> {
    let mut texts = decoded
        .records
        .iter()
        .filter_map(|record| match &record.content {
            Content::Dmesg(dmesg) => Some(&dmesg.text),
            Content::Console(text) => Some(text),
            _ => None,
        });
    texts.find_map(|text| kernel_offset(&text.bytes))
}

fn fits(symbols: &Symbols, decoded: &Decoded) -> Option<u64> {
    let traces = decoded
        .records
        .iter()
        .find_map(|record| match &record.content {
            Content::Ftrace(traces) => Some(traces),
            _ => None,
        });
    let mut addresses = traces?.iter().map(|trace| trace.record.ip).peekable();
    // 32-bit kernels are not moved so.
    if addresses.peek().is_none_or(|&ip| ip <= u32::MAX.into()) {
        return None;
    }
    let Some(solved) = symbols.solve_offset(addresses) else {
        note(format_args!(
            "no kernel offset fits the trace: the names may be wrong; --kernel-offset sets it"
        ));
        return None;
    };
    note(format_args!(
        "kernel offset {:#x}: puts {} of {} traced addresses on functions, the next best {}",
        solved.offset, solved.score, solved.addresses, solved.runner_up
    ));
    Some(solved.offset)
}

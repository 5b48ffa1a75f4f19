//! Short names of a kernel's functions.

use nostall_postmortem::symbols::Symbols;
use rustc_demangle::demangle;

/// Returns a lookup of function names by address, in the symbols of the ELF file `kernel`.
pub fn symbols(kernel: &[u8]) -> impl Fn(u64) -> Option<String> + use<> {
    let symbols = Symbols::parse(kernel).ok();
    move |address| {
        let symbol = symbols.as_ref()?.lookup(address)?;
        Some(short(&format!("{:#}", demangle(symbol.name))))
    }
}

/// Returns a function's name with its type or module, without generic arguments and the rest of the
/// path.
fn short(name: &str) -> String {
    let name = match impl_of(name) {
        Some((of, rest)) => format!("{}::{}", path(of), path(rest)),
        None => path(name),
    };
    let parts: Vec<_> = name.split("::").collect();
    let closures = parts.iter().rev().take_while(|part| part.starts_with('{'));
    let kept = 2 + closures.count();
    parts[parts.len().saturating_sub(kept)..].join("::")
}

/// Splits `<TYPE as TRAIT>::REST` and `<TYPE>::REST`.
fn impl_of(name: &str) -> Option<(&str, &str)> {
    let inner = name.strip_prefix('<')?;
    let mut depth = 0;
    for (at, c) in inner.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if inner[..at].ends_with('-') => {} // an arrow
            '>' if depth == 0 => {
                let of = inner[..at].trim_start_matches(['&', '*']);
                let of = of.trim_start_matches("mut ");
                return Some((of, inner[at + 1..].trim_start_matches("::")));
            }
            '>' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Returns a path up to a ` as `, without the text in angle brackets.
fn path(name: &str) -> String {
    let mut path = String::new();
    let mut depth = 0;
    for (at, c) in name.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if !name[..at].ends_with('-') => depth -= 1,
            ' ' if depth == 0 && name[at..].starts_with(" as ") => break,
            _ if depth == 0 => path.push(c),
            _ => {}
        }
    }
    // `path::<generic>::method` leaves an empty part.
    let parts = path.split("::").filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_type_or_module_and_its_closures() {
        for (long, expected) in [
            ("rust_trap", "rust_trap"),
            ("nostall_kernel::report::write::<()>", "report::write"),
            (
                "<nostall_uart::console::entry::Entered<&a::Throttle<b::Port>>>::keep_polling::<c>",
                "Entered::keep_polling",
            ),
            (
                "<nostall_work::console::throttle::Throttle<a::Port, b::Tsc> as nostall_io::registers::Registers>::read8",
                "Throttle::read8",
            ),
            ("<&u8 as core::fmt::Debug>::fmt", "u8::fmt"),
            (
                "nostall_kernel::experiments::kind::<a::Job, b::{closure#0}>::{closure#1}",
                "experiments::kind::{closure#1}",
            ),
            (
                "<dyn core::ops::function::Fn() -> u8>::call",
                "Fn() -> u8::call",
            ),
        ] {
            assert_eq!(short(long), expected, "{long}");
        }
    }
}

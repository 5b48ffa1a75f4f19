//! Selection of the functions and CPUs of a report.

use crate::model::{Catalog, Name};

/// Functions and CPUs of a report. The default selects all.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    patterns: Vec<String>,
    cpus: Vec<u32>,
    /// Cached results by name number.
    known: Vec<Option<bool>>,
}

impl Selection {
    /// Selects functions that match one of `patterns`, on `cpus`. An empty list selects all.
    ///
    /// A `*` in a pattern stands for any text.
    pub fn new(patterns: Vec<String>, cpus: Vec<u32>) -> Self {
        Self {
            patterns,
            cpus,
            known: Vec::new(),
        }
    }

    /// Returns whether functions are selected with patterns.
    pub fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Returns whether the CPU is selected.
    pub fn cpu(&self, cpu: u32) -> bool {
        self.cpus.is_empty() || self.cpus.contains(&cpu)
    }

    /// Returns whether the function is selected.
    #[inline]
    pub fn function(&mut self, name: Name, catalog: &Catalog) -> bool {
        self.patterns.is_empty() || self.matches(name, catalog)
    }

    fn matches(&mut self, name: Name, catalog: &Catalog) -> bool {
        let at = name.0 as usize;
        if at >= catalog.names() {
            return false;
        }
        if at >= self.known.len() {
            self.known.resize(catalog.names(), None);
        }
        let patterns = &self.patterns;
        *self.known[at].get_or_insert_with(|| {
            let text = catalog.text(name);
            patterns.iter().any(|pattern| is_match(pattern, text))
        })
    }
}

/// Returns whether `text` matches `pattern`.
fn is_match(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(start) else {
        return false;
    };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    text.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, expected) in [
            ("io_serial_in", "io_serial_in", true),
            ("io_serial", "io_serial_in", false),
            ("io_*", "io_serial_in", true),
            ("*_in", "io_serial_in", true),
            ("*serial*", "io_serial_in", true),
            ("i*s*n", "io_serial_in", true),
            ("i*x*n", "io_serial_in", false),
            ("*", "", true),
            ("a*a", "a", false),
            ("ä*ß*", "äöß", true),
        ] {
            assert_eq!(is_match(pattern, text), expected, "{pattern} {text}");
        }
    }
}

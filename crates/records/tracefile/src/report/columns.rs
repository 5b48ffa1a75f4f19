//! A table whose last column has any length.

use std::io::{self, Write};

use super::Look;

/// Rows of right-aligned columns, followed by a name.
pub struct Columns<'a> {
    look: &'a Look,
    heads: &'a [&'a str],
    rows: Vec<(Vec<String>, String)>,
}

impl<'a> Columns<'a> {
    /// Creates a table; the last of `heads` is that of the names.
    pub fn new(look: &'a Look, heads: &'a [&'a str]) -> Self {
        Self {
            look,
            heads,
            rows: Vec::new(),
        }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>, name: &str) {
        self.rows
            .push((cells.into_iter().collect(), name.to_owned()));
    }

    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let (last, heads) = self.heads.split_last().unwrap_or((&"", &[]));
        let widths = heads.iter().enumerate().map(|(at, head)| {
            let cells = self.rows.iter().filter_map(|(cells, _)| cells.get(at));
            cells
                .map(String::len)
                .chain([head.len()])
                .max()
                .unwrap_or(0)
        });
        let widths: Vec<_> = widths.collect();
        let used = widths.iter().map(|width| width + 2).sum();
        let line = |cells: &[&str]| {
            let cells = cells.iter().zip(&widths);
            cells
                .map(|(cell, width)| format!("{cell:>width$}  "))
                .collect::<String>()
        };
        let head = line(heads) + last;
        writeln!(out, "{}", self.look.heading(&head))?;
        for (cells, name) in &self.rows {
            let cells: Vec<_> = cells.iter().map(String::as_str).collect();
            writeln!(out, "{}{}", line(&cells), self.look.name(name, used))?;
        }
        Ok(())
    }
}

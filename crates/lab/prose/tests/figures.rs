//! Figures that occur in several documents.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Returns the rows of every table with the columns `ports` and `mmio-readonly`, without the
/// names of their rows.
fn exits(document: &str) -> Vec<Vec<String>> {
    let tables = document.split("\n\n");
    let tables = tables.filter(|table| {
        let head = table.lines().next().unwrap_or_default();
        head.starts_with('|') && head.contains("`ports`") && head.contains("`mmio-readonly`")
    });
    let rows = tables.flat_map(|table| table.lines().skip(2));
    rows.map(|row| {
        let cells = row.trim_matches('|').split('|').skip(1);
        cells.map(|cell| cell.trim().to_owned()).collect()
    })
    .collect()
}

#[test]
fn the_same_exits_a_byte_are_in_every_document() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let chapters = fs::read_dir(root.join("docs/src")).unwrap();
    let paths = chapters.map(|entry| entry.unwrap().path());
    // Whole writes have the same ports' column in every document.
    let mut known = HashMap::<String, (Vec<String>, String)>::new();
    let mut tables = 0;
    for path in paths.filter(|path| path.extension().is_some_and(|kind| kind == "md")) {
        let rows = exits(&fs::read_to_string(&path).unwrap());
        tables += usize::from(!rows.is_empty());
        let name = path.file_name().unwrap().to_str().unwrap();
        for row in rows {
            let (other, first) = known
                .entry(row[0].clone())
                .or_insert_with(|| (row.clone(), name.to_owned()));
            assert_eq!(*other, row, "{first} and {name}");
        }
    }
    assert!(tables >= 2, "{tables}");
    // The README of the machines rounds as the tables do.
    let readme = fs::read_to_string(root.join("crates/lab/vm/README.md")).unwrap();
    let (_, row) = &known.iter().find(|(ports, _)| *ports == "1.0626").unwrap();
    assert!(readme.contains(row.0.last().unwrap()), "{row:?}");
}

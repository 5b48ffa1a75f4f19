//! The threat model's claims and their tests.

mod common;

use std::fs;
use std::path::Path;

use common::{packages, root};

/// Returns the text of all Rust files below `folder`.
fn sources(folder: &Path) -> String {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .map(|path| match path.extension() {
            _ if path.is_dir() => sources(&path),
            Some(kind) if kind == "rs" => {
                String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
            }
            _ => String::new(),
        })
        .collect()
}

#[test]
fn every_claim_of_the_threat_model_names_tests_of_its_crate() {
    let document = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let rows = document.lines().filter(|line| line.starts_with("| "));
    let rows = rows.filter(|row| !row.contains("---") && !row.starts_with("| claim "));
    let packages = packages();
    let mut claims = 0;
    for row in rows {
        let names = row.split('`').skip(1).step_by(2).collect::<Vec<_>>();
        let [krate, tests @ ..] = &names[..] else {
            panic!("no test: {row}");
        };
        assert!(!tests.is_empty(), "no test: {row}");
        let short = |name: &str| name.trim_start_matches("nostall-").to_owned();
        let package = packages
            .iter()
            .find(|one| short(one.name()) == short(krate));
        let package = package.unwrap_or_else(|| panic!("there is no crate {krate}"));
        let code = sources(&package.folder);
        for test in tests {
            assert!(code.contains(&format!("fn {test}(")), "{krate}: {test}");
        }
        claims += 1;
    }
    assert!(claims > 20, "{claims}");
    for part in ["guest", "image", "device", "log text"] {
        let heads = document.lines().filter(|line| line.starts_with("### "));
        assert_eq!(
            heads.filter(|head| head.contains(part)).count(),
            1,
            "{part}"
        );
    }
}

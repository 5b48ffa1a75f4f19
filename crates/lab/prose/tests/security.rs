//! The threat model's claims and their tests.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Returns the folder of the crate with this name.
fn folder(krate: &str) -> PathBuf {
    let short = krate.trim_start_matches("nostall-");
    let groups = ["", "drivers", "records", "lab"].map(|group| root().join("crates").join(group));
    let mut folders = groups
        .iter()
        .flat_map(|group| [group.join(short), group.join(krate)]);
    let found = folders.find(|folder| folder.join("Cargo.toml").exists());
    found.unwrap_or_else(|| panic!("{krate} has no folder"))
}

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
    let mut claims = 0;
    for row in rows {
        let names = row.split('`').skip(1).step_by(2).collect::<Vec<_>>();
        let [krate, tests @ ..] = &names[..] else {
            panic!("no test: {row}");
        };
        assert!(!tests.is_empty(), "no test: {row}");
        let code = sources(&folder(krate));
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

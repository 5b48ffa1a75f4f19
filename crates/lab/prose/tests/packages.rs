//! Manifests and licences of the crates that are published.

mod common;

use std::fs;
use std::path::Path;

use common::{Package, packages, root};
use serde_json::Value;

/// Returns the dependencies of a crate on crates of this workspace.
fn siblings(package: &Package) -> impl Iterator<Item = &Value> {
    let dependencies = package.metadata["dependencies"].as_array().unwrap();
    dependencies
        .iter()
        .filter(|found| found["path"].is_string())
}

fn published() -> Vec<Package> {
    // An empty list stands for `publish = false`.
    let mut packages = packages();
    packages.retain(|package| package.metadata["publish"].is_null());
    assert!(packages.len() > 10, "{}", packages.len());
    packages
}

/// Fails with one line for each fault of a published crate.
fn each(faults: impl Fn(&Package) -> Vec<String>) {
    let packages = published();
    let lines = packages.iter().flat_map(|package| {
        let faults = faults(package).into_iter();
        faults.map(|fault| format!("{}: {fault}", package.name()))
    });
    let lines = lines.collect::<Vec<_>>();
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

#[test]
fn every_published_crate_has_the_metadata_that_the_registry_shows() {
    let workspace = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let line = workspace
        .lines()
        .find_map(|l| l.strip_prefix("repository = "));
    // No address before there is a repository.
    let repository = line.map_or(Value::Null, |line| Value::from(line.trim_matches('"')));
    each(|package| {
        let name = package.name();
        let metadata = &package.metadata;
        let list = |key: &str| metadata[key].as_array().map_or(0, Vec::len);
        let docs_rs = &metadata["metadata"]["docs"]["rs"];
        let library = package.folder.join("src/lib.rs");
        let library = fs::read_to_string(library).unwrap_or_default();
        let page = Value::from(format!("https://docs.rs/{name}"));
        [
            (metadata["repository"] == repository, "repository"),
            (metadata["documentation"] == page, "documentation"),
            (metadata["description"].is_string(), "description"),
            (metadata["license"] == "MIT OR Apache-2.0", "license"),
            (metadata["rust_version"].is_string(), "rust-version"),
            (metadata["readme"] == "README.md", "readme"),
            ((1..=5).contains(&list("keywords")), "1 to 5 keywords"),
            ((1..=5).contains(&list("categories")), "1 to 5 categories"),
            (docs_rs["all-features"] == true, "all-features on docs.rs"),
            (docs_rs["targets"].is_array(), "targets on docs.rs"),
            (
                library.contains("#![cfg_attr(docsrs, feature(doc_cfg))]"),
                "features in its documentation (doc_cfg)",
            ),
        ]
        .into_iter()
        .filter(|(holds, _)| !holds)
        .map(|(_, fault)| fault.to_owned())
        .collect()
    });
}

#[test]
fn every_published_crate_has_the_licences_of_the_repository() {
    each(|package| {
        ["LICENSE-APACHE", "LICENSE-MIT"]
            .into_iter()
            .filter(|name| {
                fs::read(package.folder.join(name)).ok() != fs::read(root().join(name)).ok()
            })
            .map(str::to_owned)
            .collect()
    });
}

/// With a version, the registry would look for that crate, which may itself depend on this one.
#[test]
fn a_published_crate_needs_its_siblings_in_tests_by_path_only_and_else_by_version() {
    each(|package| {
        siblings(package)
            .filter(|sibling| (sibling["kind"] == "dev") != (sibling["req"] == "*"))
            .map(|sibling| format!("{} {}", sibling["kind"], sibling["name"]))
            .collect()
    });
}

/// `make public-api` writes the files, and `make full` compares them.
#[test]
fn every_published_library_has_its_public_items_in_docs_api() {
    let mut libraries = published()
        .iter()
        // The commands' libraries are for their tests.
        .filter(|package| !["nostall", "nostall-lab"].contains(&package.name()))
        .map(|package| format!("{}.txt", package.name()))
        .collect::<Vec<_>>();
    libraries.sort();
    let folder = root().join("docs/api");
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).unwrap() {
        files.push(entry.unwrap().file_name().into_string().unwrap());
    }
    files.sort();
    assert_eq!(files, libraries, "make public-api");
    for file in files {
        let items = fs::read_to_string(folder.join(&file)).unwrap();
        let library = file.replace('-', "_").replace(".txt", "");
        assert_eq!(
            items.lines().next(),
            Some(&*format!("pub mod {library}")),
            "{file}"
        );
    }
}

/// The folders below `crates/`, and those whose crates their own may need.
const GROUPS: [(&str, &[&str]); 6] = [
    ("drivers", &[]),
    ("devices", &["drivers"]),
    ("records", &["drivers", "records"]),
    ("figures", &[]),
    ("nostall", &["drivers", "records", "figures"]),
    ("lab", &["drivers", "devices", "records", "figures", "lab"]),
];

/// Dependencies of drivers on one another, by folder. Each needs registers and clocks.
const OF_DRIVERS: [(&str, &str); 8] = [
    ("uart", "io"),
    ("console", "io"),
    // With its feature `uart`.
    ("console", "uart"),
    ("pci", "io"),
    ("spi", "io"),
    ("pstore", "io"),
    ("trace", "io"),
    ("trace", "trace-macros"),
];

#[test]
fn a_crate_needs_only_crates_of_the_folders_below_it() {
    let crates = root().join("crates");
    /// Returns the folder below `crates/`, and the last one.
    fn places<'a>(crates: &Path, folder: &'a Path) -> (&'a str, &'a str) {
        let inner = folder.strip_prefix(crates).unwrap();
        let mut names = inner.iter().map(|name| name.to_str().unwrap());
        let group = names.next().unwrap();
        (group, names.next().unwrap_or(group))
    }
    each(|package| {
        let (own, name) = places(&crates, &package.folder);
        let known = GROUPS.iter().find(|(group, _)| *group == own);
        let (_, below) = known.unwrap_or_else(|| panic!("{own} is not in the list"));
        let siblings = siblings(package).filter(|sibling| sibling["kind"] != "dev");
        let folders = siblings.map(|sibling| Path::new(sibling["path"].as_str().unwrap()));
        let is_wrong = |folder: &&Path| {
            let (other, sibling) = places(&crates, folder);
            let is_of_drivers = own == other && OF_DRIVERS.contains(&(name, sibling));
            !(below.contains(&other) || is_of_drivers)
        };
        let wrong = folders.filter(is_wrong);
        wrong.map(|folder| folder.display().to_string()).collect()
    });
}

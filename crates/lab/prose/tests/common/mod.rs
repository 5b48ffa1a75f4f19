//! The workspace's packages, as cargo lists them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The root of the repository.
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    root.canonicalize().unwrap()
}

/// A crate: its directory, and its entry in the workspace's metadata.
pub struct Package {
    pub folder: PathBuf,
    pub metadata: Value,
}

impl Package {
    pub fn name(&self) -> &str {
        self.metadata["name"].as_str().unwrap()
    }
}

/// Returns the crates of the workspace.
pub fn packages() -> Vec<Package> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "metadata",
        "--no-deps",
        "--offline",
        "--format-version",
        "1",
    ]);
    let output = cargo.current_dir(root()).output().unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let packages = packages.map(|metadata| Package {
        folder: Path::new(metadata["manifest_path"].as_str().unwrap())
            .parent()
            .unwrap()
            .to_owned(),
        metadata: metadata.clone(),
    });
    packages.collect()
}

//! The prose check of `make check`.
//!
//! It reads every file that git lists: comments, strings and names of Rust sources; documents
//! without their code; the whole text of scripts and manifests. Documents and comments of Rust have a
//! limit for the words of a sentence, and chapters of the book one for all their words. It prints
//! each finding with file, line and reason. Files in [`LIST`] are exceptions, with exactly the
//! listed number of findings. With `--update`, numbers in the list can only decrease.

#![forbid(unsafe_code)]

mod comments;
mod exceptions;
mod rules;
#[cfg(test)]
mod tests;
mod text;

use std::path::Path;
use std::process::{Command, ExitCode};

use exceptions::LIST;

fn main() -> ExitCode {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut found = Vec::new();
    for path in listed_by_git(root) {
        // A deleted file that is not yet committed has no text.
        if let Some(kind) = text::Kind::of(&path)
            && let Ok(source) = std::fs::read_to_string(root.join(&path))
        {
            let findings = rules::findings(&path, kind, &source);
            found.push((path, findings));
        }
    }
    let list = std::fs::read_to_string(root.join(LIST)).unwrap_or_default();
    if std::env::args().any(|argument| argument == "--update") {
        std::fs::write(root.join(LIST), exceptions::lowered(&list, &found))
            .expect("the list of exceptions must be writable");
        return ExitCode::SUCCESS;
    }
    let faults = exceptions::compare(&list, &found);
    for fault in &faults {
        println!("{fault}");
    }
    let total: usize = found.iter().map(|(_, findings)| findings.len()).sum();
    println!(
        "prose: {total} findings in {} files, {} of them listed",
        found.len(),
        list.lines().count()
    );
    ExitCode::from(u8::from(!faults.is_empty()))
}

/// Returns the files of the checkout, including new ones that are not ignored.
fn listed_by_git(root: &Path) -> Vec<String> {
    let listed = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .expect("git must be installed");
    assert!(
        listed.status.success(),
        "git ls-files failed: the check needs a checkout"
    );
    let paths = String::from_utf8_lossy(&listed.stdout);
    paths.split_terminator('\0').map(str::to_owned).collect()
}

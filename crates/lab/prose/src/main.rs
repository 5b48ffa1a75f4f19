//! The prose check of `make check`.
//!
//! It reads every file that git lists: comments, strings and names of Rust sources; documents
//! without their code; the whole text of scripts and manifests. Documents and comments of Rust have a
//! limit for the words of a sentence, and chapters of the book one for all their words. Test code may
//! not read a real clock. The check prints each finding with file, line and reason. There is no list
//! of exceptions.

#![forbid(unsafe_code)]

mod clocks;
mod comments;
mod rules;
#[cfg(test)]
mod tests;
mod text;

use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."));
    let (mut files, mut total) = (0, 0);
    for path in listed_by_git(root) {
        // A deleted file that is not yet committed has no text.
        if let Some(kind) = text::Kind::of(&path)
            && let Ok(source) = std::fs::read_to_string(root.join(&path))
        {
            let findings = rules::findings(&path, kind, &source);
            for finding in &findings {
                println!("{path}:{}: {}", finding.line, finding.reason);
            }
            files += 1;
            total += findings.len();
        }
    }
    println!("prose: {total} findings in {files} files");
    ExitCode::from(u8::from(total > 0))
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

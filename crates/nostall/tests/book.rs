//! The book: what it includes and points to is there. mdbook itself says nothing of an
//! anchor that is missing, and succeeds without a file.

use std::fs;
use std::path::{Path, PathBuf};

/// The chapters, with what is in them.
fn chapters() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|kind| kind == "md"))
        .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .collect()
}

/// What stands between `start` and `end`, wherever that is.
fn between<'a>(text: &'a str, start: &'a str, end: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(start)
        .skip(1)
        .filter_map(move |rest| Some(rest.split_once(end)?.0))
}

#[test]
fn every_piece_of_a_program_that_the_book_shows_is_there() {
    let mut pieces = 0;
    for (chapter, text) in chapters() {
        for include in between(&text, "{{#include ", "}}") {
            let (file, anchor) = include.split_once(':').unwrap_or((include, ""));
            let program = fs::read_to_string(chapter.parent().unwrap().join(file));
            let program = program.unwrap_or_else(|error| panic!("{include}: {error}"));
            for mark in ["ANCHOR: ", "ANCHOR_END: "] {
                let mark = format!("// {mark}{anchor}");
                let is_there = anchor.is_empty() || program.lines().any(|l| l.trim() == mark);
                assert!(is_there, "{}: {include}: {mark}", chapter.display());
            }
            pieces += 1;
        }
    }
    assert!(pieces > 5, "{pieces}");
}

#[test]
fn what_the_book_points_to_is_there_and_every_chapter_is_in_it() {
    let chapters = chapters();
    for (chapter, text) in &chapters {
        for target in between(text, "](", ")") {
            let file = target.split('#').next().unwrap_or_default();
            let elsewhere = file.is_empty() || file.contains("://");
            let path = chapter.parent().unwrap().join(file);
            assert!(
                elsewhere || path.exists(),
                "{}: {target}",
                chapter.display()
            );
        }
    }
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let (_, summary) = chapters
        .iter()
        .find(|(path, _)| name(path) == "SUMMARY.md")
        .unwrap();
    for chapter in chapters.iter().map(|(path, _)| name(path)) {
        let listed = summary.contains(&format!("({chapter})"));
        assert!(listed || chapter == "SUMMARY.md", "{chapter}");
    }
}

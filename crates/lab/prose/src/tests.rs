use crate::rules::findings;
use crate::text::Kind;

/// Returns the findings in `source`, each as line and reason.
fn check(path: &str, source: &str) -> Vec<(usize, String)> {
    let kind = Kind::of(path).unwrap();
    findings(path, kind, source)
        .into_iter()
        .map(|f| (f.line, f.reason))
        .collect()
}

/// Returns the lines of the findings in `source`.
fn lines(path: &str, source: &str) -> Vec<usize> {
    check(path, source)
        .into_iter()
        .map(|(line, _)| line)
        .collect()
}

#[test]
fn each_person_is_found_with_its_line() {
    for person in [
        "who",
        "whom",
        "whoever",
        "somebody",
        "someone",
        "nobody",
        "no one",
        "anybody",
        "anyone",
        "everybody",
        "everyone",
        "he",
        "him",
        "his",
        "himself",
        "she",
        "her",
        "herself",
    ] {
        let found = check("a.rs", &format!("fn f() {{}}\n// Asks {person} there.\n"));
        assert_eq!(found.len(), 1, "{person}");
        assert_eq!(found[0].0, 2);
        assert!(
            found[0].1.starts_with(&format!("\"{person}\" is a person")),
            "{}",
            found[0].1
        );
    }
}

#[test]
fn each_private_word_is_found_with_its_line() {
    for (source, line) in [
        ("\n\n// See the seed's table.", 3),
        ("// See the\n// seeds.", 1),
        ("// See DESIGN.", 1),
        ("// Seed 003.", 1),
    ] {
        let found = check("a.rs", source);
        assert_eq!(found.len(), 1, "{source}");
        assert_eq!(found[0].0, line);
        assert!(found[0].1.contains("private word"), "{}", found[0].1);
    }
    assert!(lines("a.rs", "// The generator's seed, by design.").is_empty());
}

#[test]
fn a_clause_as_a_noun_is_found_with_its_line() {
    for (path, source, line) in [
        ("a.rs", "\n/// Sends what the port takes.", 2),
        ("a.rs", "// The rest\n// of what was logged.", 2),
        ("a.rs", "/// What a log's lines\n/// have in common.", 1),
        ("a.rs", "\n\nlet s = \"more than what is left\";", 3),
        ("a.md", "It is here.\n\nWhat follows is one program.", 3),
        ("a.md", "A part of what is there.", 1),
    ] {
        let found = check(path, source);
        assert_eq!(found.len(), 1, "{source}");
        assert_eq!(found[0].0, line, "{source}");
        assert!(found[0].1.contains("no noun"), "{}", found[0].1);
    }
}

#[test]
fn a_question_a_title_and_a_name_may_have_what() {
    for (path, source) in [
        ("a.rs", "// What is it for? A lock."),
        ("a.rs", "// The error says what to do, and what is missing."),
        ("a.rs", "fn is(what: u8) {}\nlet of = what;"),
        ("a.md", "## What it does\n\nIt logs."),
        ("a.md", "Text with `what`. It is in somewhat short words."),
    ] {
        assert_eq!(check(path, source), [], "{source}");
    }
}

#[test]
fn every_kind_of_comment_string_and_name_is_read() {
    for prose in [
        "// he",
        "/// he",
        "//! he",
        "/* he */",
        "/* a\n/* nested */ he */",
        "\"he\"",
        "r#\"he\"#",
        "b\"he\"",
        "\"a\\nhe\"",
        "fn he_writes() {}",
        "// He's",
        "// (he)",
        "// HE",
    ] {
        assert_eq!(lines("a.rs", prose).len(), 1, "{prose}");
    }
}

#[test]
fn a_word_within_a_word_is_no_person() {
    assert!(
        lines(
            "a.rs",
            "// the whole header of this ghost; 'h', 0xhe; a wholesale shed"
        )
        .is_empty()
    );
}

#[test]
fn the_lifetime_before_a_string_does_not_hide_it() {
    assert_eq!(
        lines(
            "a.rs",
            "fn f<'a>(x: &'a str) {}\nlet c = '\"';\nlet s = \"\n he\";"
        ),
        [4]
    );
}

#[test]
fn manifests_and_scripts_are_read_whole() {
    for path in [
        "Cargo.toml",
        "Makefile",
        "scripts/setup",
        ".ci/run",
        "kernel/src/boot.s",
    ] {
        assert_eq!(lines(path, "a = 1\n# whoever\nb\n"), [2], "{path}");
    }
}

#[test]
fn documents_are_read_without_their_code() {
    let document = "# Who\n\nA `who` and\nhis.\n\n```sh\nwho\n```\n\n    who\n\n| `he` | he |\n| - | - |\n| `he` | *him* |\n";
    assert_eq!(lines("README.md", document), [1, 4, 12, 14]);
}

#[test]
fn a_sentence_of_more_than_25_words_is_found_in_a_document() {
    let sentence = |words: usize| format!("One.\n\n{}end.\n", "word ".repeat(words - 1));
    assert!(lines("README.md", &sentence(25)).is_empty());
    let found = check("README.md", &sentence(26));
    assert_eq!(
        found,
        [(3, "a sentence of 26 words: at most 25".to_owned())]
    );
    assert!(lines("a.rs", &format!("/* {} */", sentence(26))).is_empty());
}

#[test]
fn a_sentence_of_more_than_25_words_is_found_in_a_comment() {
    let sentence = |words: usize| format!("{}end.", "word ".repeat(words - 1));
    for mark in ["//", "///", "//!", "    ///", "////"] {
        let comment = |words| {
            format!(
                "fn f() {{}}\n{mark} One.\n{mark}\n{mark} {}\n",
                sentence(words)
            )
        };
        assert!(lines("a.rs", &comment(25)).is_empty(), "{mark}");
        assert_eq!(
            check("a.rs", &comment(26)),
            [(4, "a sentence of 26 words: at most 25".to_owned())],
            "{mark}"
        );
    }
    for other in ["#![doc = \"", "const A: &str = \""] {
        assert!(
            lines("a.rs", &format!("{other}{}\n\"", sentence(26))).is_empty(),
            "{other}"
        );
    }
}

#[test]
fn a_sentence_of_a_comment_ends_with_its_block() {
    let twenty = "word ".repeat(20);
    for separator in [
        "///\n",
        "/// - ",
        "/// # ",
        "/// | a |\n/// | - |\n/// | b |\n///\n",
        "/// ```\n/// code\n/// ```\n",
        "\n",
        "struct S;\n",
        "//! ",
        "// ",
    ] {
        let comment = format!("/// {twenty}\n{separator}\n/// {twenty}\n");
        assert!(lines("a.rs", &comment).is_empty(), "{separator:?}");
    }
    assert_eq!(
        lines("a.rs", &format!("\n/// {twenty}\n/// {twenty}\n")),
        [2]
    );
    for next in ["b, ", ""] {
        let beside_code = format!("a, // {twenty}\n{next}// {twenty}\n");
        assert!(lines("a.rs", &beside_code).is_empty());
    }
    let code = format!("/// ```\n/// // {twenty} {twenty}\n/// ```\n");
    assert!(lines("a.rs", &code).is_empty());
}

#[test]
fn the_target_of_a_link_has_no_words() {
    let words = "word ".repeat(24);
    for link in [
        "[`a b`]",
        "[end](https://a.org \"and its title\")",
        "[end][a]\n///\n/// [a]: https://a.org",
        "[end][`crate::a b`]",
    ] {
        let comment = format!("/// {words}{link}.\n");
        assert!(lines("a.rs", &comment).is_empty(), "{link}");
        assert_eq!(
            lines("a.rs", &comment.replacen("word", "one word", 1)),
            [1],
            "{link}"
        );
    }
}

#[test]
fn a_sentence_without_a_subject_is_found_by_its_beginning() {
    let check = |text: &str| check("a.rs", &format!("/// {text}\n"));
    for (text, start) in [
        ("Of Linux's, for the controller.", "Of"),
        ("It reads. Those that can be read.", "Those"),
        ("As it should look.", "As"),
        ("With which it ends.", "With which"),
    ] {
        let reason = format!("a sentence begins with \"{start}\": name its subject first");
        assert_eq!(check(text), [(1, reason)], "{text}");
    }
    assert!(check("With care, as it should be. Often.").is_empty());
}

#[test]
fn a_chapter_of_more_than_3000_words_is_found() {
    let chapter = |words: usize| "word.\n".repeat(words);
    assert!(lines("docs/src/a.md", &chapter(3000)).is_empty());
    assert_eq!(
        check("docs/src/a.md", &chapter(3001)),
        [(1, "a chapter of 3001 words: at most 3000".to_owned())]
    );
    let block = |language| format!("```{language}\n{}```\n", chapter(2999));
    assert_eq!(lines("docs/src/a.md", &block("sh")), [1]);
    assert!(lines("docs/src/a.md", &block("text")).is_empty());
    assert!(lines("CHANGELOG.md", &chapter(3001)).is_empty());
}

#[test]
fn sentences_end_with_blocks_and_code_is_one_word() {
    let twenty = "word ".repeat(20);
    for separator in [
        "\n\n",
        ".\n",
        "?\" ",
        " `a b`. ",
        "\n\n- ",
        "\n\n```\ncode\n```\n",
        "\n# ",
        "\n> ",
    ] {
        assert!(
            lines("README.md", &format!("{twenty}{separator}{twenty}")).is_empty(),
            "{separator:?}"
        );
    }
    for joint in [" e.g. ", "; ", "\n", " **.a** ", " [a](b) "] {
        assert_eq!(
            lines("README.md", &format!("{twenty}{joint}{twenty}")),
            [1],
            "{joint:?}"
        );
    }
    let code = format!("{}`{twenty}` end.", "word ".repeat(23));
    assert!(lines("README.md", &code).is_empty());
}

#[test]
fn files_without_prose_of_ours_are_not_read() {
    for path in [
        "LICENSE-MIT",
        "Cargo.lock",
        "docs/api/nostall-io.txt",
        "a/image.bin",
        "who.png",
    ] {
        assert!(Kind::of(path).is_none(), "{path}");
    }
}

#[test]
fn real_time_in_test_code_is_found_with_its_line() {
    for (path, source, line) in [
        (
            "crates/a/tests/a.rs",
            "use std::time::Instant;\nInstant::now()",
            2,
        ),
        ("crates/a/tests/a.rs", "let t = SystemTime::now();", 1),
        ("crates/a/src/tests.rs", "Instant::now()", 1),
        ("a.rs", "\n#[cfg(test)]\nmod tests {\n Instant::now()", 4),
        (
            "a.rs",
            "#[cfg(all(test, unix))]\nmod tests {\n Instant::now()",
            3,
        ),
        (
            "crates/a/tests/a.rs",
            "r.recv_timeout(Duration::from_secs(600))",
            1,
        ),
        ("crates/a/tests/a.rs", "thread::park_timeout(LIMIT)", 1),
        (
            "crates/a/tests/a.rs",
            "f(r.recv_timeout(LIMIT), HANG_LIMIT)",
            1,
        ),
        (
            "crates/a/tests/a.rs",
            "const HANG_LIMIT: Duration = Duration::from_secs(20);",
            1,
        ),
        (
            "crates/a/tests/a.rs",
            "const HANG_LIMIT: Duration = Duration::from_millis(600);",
            1,
        ),
    ] {
        let found = check(path, source);
        assert_eq!(found.len(), 1, "{source}");
        assert_eq!(found[0].0, line, "{source}");
    }
}

#[test]
fn real_time_outside_tests_and_a_limit_of_a_hang_pass() {
    for (path, source) in [
        ("a.rs", "Instant::now()"),
        (
            "a.rs",
            "#[cfg(test)]\nmod tests;\nfn f() { Instant::now() }",
        ),
        ("crates/a/benches/a.rs", "Instant::now()"),
        (
            "crates/a/tests/a.rs",
            "// An Instant.\nlet instant = \"Instant\";",
        ),
        (
            "crates/a/tests/a.rs",
            "use std::time::Instant;\nEvent::Instant(1)",
        ),
        ("crates/a/tests/a.rs", "r.recv_timeout(HANG_LIMIT)"),
        (
            "crates/a/tests/a.rs",
            "const HANG_LIMIT: Duration = Duration::from_secs(300);",
        ),
        (
            "crates/a/tests/a.rs",
            "c.wait_timeout(c.lock(), HANG_LIMIT)",
        ),
    ] {
        assert_eq!(check(path, source), [], "{source}");
    }
}

//! The refused words and sentences.

use crate::clocks;
use crate::text::{self, Kind, Word};

const PERSONS: &str = "who, whom, whoever, somebody, someone, nobody, no one, anybody, anyone, \
    everybody, everyone, he, him, his, himself, she, her, herself";
const PRIVATE: &str =
    "the seed, the seeds, seed 001, seed 002, seed 003, seed 004, seed 005, DESIGN";

/// Words after which `what` is a noun. After others (`says what to do`) it may be a question.
const BEFORE_NOUN: &str = "of, from, than, for, with, by, to, in, into, on, over, through, after, before, as, like, \
    is, are, was, were, sends, takes, puts, does, keeps, returns, reads";

/// Beginnings of sentences without a subject, such as "Of Linux's, for the controller".
const NO_SUBJECT: [&[&str]; 4] = [&["Of"], &["Those"], &["As"], &["With", "which"]];

/// Maximum number of words of a sentence in a document or a comment.
const LONGEST: usize = 25;

/// Maximum number of words of a chapter, its code included. Printed output does not count.
const LONGEST_CHAPTER: usize = 3000;

const CHAPTERS: &str = "docs/src/";

/// A refused phrase or sentence.
pub struct Finding {
    pub line: usize,
    pub reason: String,
}

/// Returns the findings in the file of this `kind` at `path`, in the order of lines.
pub fn findings(path: &str, kind: Kind, source: &str) -> Vec<Finding> {
    let words = text::words(kind, source);
    let mut findings = phrases(&words);
    findings.extend(nouns(&words));
    match kind {
        Kind::Rust => {
            let comments = text::comment_words(source);
            findings.extend(long_sentences(&comments));
            findings.extend(beginnings(&comments));
            let clocks = clocks::findings(path, source).into_iter();
            findings.extend(clocks.map(|(line, reason)| Finding { line, reason }));
        }
        Kind::Document => {
            findings.extend(long_sentences(&words));
            findings.extend(beginnings(&words));
            findings.extend(long_chapter(path, source));
        }
        Kind::Plain => {}
    }
    findings.sort_by_key(|finding| finding.line);
    findings
}

fn phrases(words: &[Word]) -> Vec<Finding> {
    // "nobody's" is split, and so is `who_writes`.
    let parts: Vec<(usize, &str)> = words
        .iter()
        .flat_map(|word| {
            word.text
                .split(|c: char| !c.is_alphanumeric())
                .map(|part| (word.line, part))
        })
        .filter(|(_, part)| !part.is_empty())
        .collect();
    let mut findings = Vec::new();
    for (at, &(line, part)) in parts.iter().enumerate() {
        let one = part.to_lowercase();
        let two = parts
            .get(at + 1)
            .map(|(_, next)| format!("{one} {}", next.to_lowercase()));
        let refused = |list: &str| {
            list.split(", ")
                .find(|&phrase| phrase == one || phrase == part || two.as_deref() == Some(phrase))
                .map(str::to_owned)
        };
        let reason = if let Some(phrase) = refused(PERSONS) {
            format!(
                "\"{phrase}\" is a person: name the role (producer, owner, caller, CPU, driver)"
            )
        } else if let Some(phrase) = refused(PRIVATE) {
            format!("\"{phrase}\" is a private word: name the patch, the article or the chapter")
        } else {
            continue;
        };
        findings.push(Finding { line, reason });
    }
    findings
}

/// Finds `what` as a noun: after a word such as `of`, and at the begin of a sentence that asks nothing.
/// A title, which has no full stop, may begin with it.
fn nouns(words: &[Word]) -> Vec<Finding> {
    let prose = words.iter().filter(|word| !word.is_name);
    let prose = prose.collect::<Vec<_>>();
    let bare = |word: &Word| {
        word.text
            .trim_matches(|c: char| !c.is_alphanumeric())
            .to_owned()
    };
    let mut findings = Vec::new();
    for (at, word) in prose.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| prose[before]);
        let is_noun = match &*bare(word) {
            "What" => {
                let mut rest = prose[at..].iter();
                let last = rest.find(|word| word.ends_sentence);
                last.is_some_and(|last| last.text.trim_end_matches(['"', ')']).ends_with('.'))
            }
            "what" => before.is_some_and(|before| {
                let goes_on = !before.ends_sentence && before.text.ends_with(char::is_alphanumeric);
                goes_on
                    && BEFORE_NOUN
                        .split(", ")
                        .any(|one| one == bare(before).to_lowercase())
            }),
            _ => false,
        };
        if is_noun {
            let reason = "\"what\" is no noun: name the thing".to_owned();
            findings.push(Finding {
                line: word.line,
                reason,
            });
        }
    }
    findings
}

fn beginnings(words: &[Word]) -> impl Iterator<Item = Finding> {
    let sentences = words.split_inclusive(|word| word.ends_sentence);
    sentences.filter_map(|sentence| {
        let begins = |start: &&&[&str]| {
            let words = sentence.iter().map(|word| word.text.as_str());
            words.take(start.len()).eq(start.iter().copied())
        };
        let start = NO_SUBJECT.iter().find(begins)?.join(" ");
        Some(Finding {
            line: sentence[0].line,
            reason: format!("a sentence begins with \"{start}\": name its subject first"),
        })
    })
}

fn long_sentences(words: &[Word]) -> impl Iterator<Item = Finding> {
    let sentences = words.split_inclusive(|word| word.ends_sentence);
    sentences
        .filter(|sentence| sentence.len() > LONGEST)
        .map(|sentence| Finding {
            line: sentence[0].line,
            reason: format!("a sentence of {} words: at most {LONGEST}", sentence.len()),
        })
}

fn long_chapter(path: &str, source: &str) -> Option<Finding> {
    if !path.starts_with(CHAPTERS) {
        return None;
    }
    // Without the printed output of commands, which is looked up and not read.
    let (mut words, mut is_output) = (0, false);
    for line in source.lines() {
        is_output = match line.trim() {
            "```text" => true,
            "```" => false,
            _ => is_output,
        };
        words += if is_output {
            0
        } else {
            line.split_whitespace().count()
        };
    }
    let reason = format!("a chapter of {words} words: at most {LONGEST_CHAPTER}");
    (words > LONGEST_CHAPTER).then_some(Finding { line: 1, reason })
}

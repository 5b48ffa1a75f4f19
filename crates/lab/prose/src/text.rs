//! The words of a file that are prose, with their lines.

use pulldown_cmark::{BrokenLink, Event, Options, Parser, Tag, TagEnd};
use ra_ap_rustc_lexer::{FrontmatterAllowed, LiteralKind, TokenKind, tokenize};

use crate::comments::comments;

/// Syntax of a file, which determines its prose.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Comments, strings and names count, and sentences of comments have a limit.
    Rust,
    /// Everything but code counts, and sentences have a limit.
    Document,
    /// Everything counts: scripts, manifests, assembly.
    Plain,
}

impl Kind {
    /// Returns the syntax of the file at `path`; `None` for a file without nostall's prose.
    pub fn of(path: &str) -> Option<Kind> {
        let name = path.rsplit('/').next()?;
        // These sources contain the patterns.
        if path.starts_with("crates/lab/prose/src/") {
            return None;
        }
        match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
            "rs" => Some(Kind::Rust),
            "md" => Some(Kind::Document),
            "toml" | "sh" | "s" | "ld" | "c" | "h" | "css" | "svg" => Some(Kind::Plain),
            "" if name == "Makefile" || path.starts_with("scripts/") => Some(Kind::Plain),
            _ => (path == ".ci/run").then_some(Kind::Plain),
        }
    }
}

/// A word of prose, with its punctuation.
pub struct Word {
    pub line: usize,
    pub text: String,
    /// Whether it is a name in code.
    pub is_name: bool,
    /// Whether it is the last word of a sentence.
    pub ends_sentence: bool,
}

/// Returns the words of `source` that are prose.
pub fn words(kind: Kind, source: &str) -> Vec<Word> {
    let mut words = Words::of(source, 1);
    match kind {
        Kind::Rust => words.rust(),
        Kind::Document => words.document(),
        Kind::Plain => words.add(0, source),
    }
    words.words
}

/// Returns the words of the comments of a Rust `source`, without their code.
pub fn comment_words(source: &str) -> Vec<Word> {
    let mut words = Vec::new();
    for comment in comments(source) {
        let mut comment_words = Words::of(&comment.text, comment.line);
        comment_words.document();
        words.append(&mut comment_words.words);
    }
    words
}

struct Words<'a> {
    source: &'a str,
    /// Byte offset that `line` belongs to.
    at: usize,
    line: usize,
    words: Vec<Word>,
}

impl<'a> Words<'a> {
    /// Returns no words yet of `source`, which begins in `line` of its file.
    fn of(source: &'a str, line: usize) -> Self {
        Self {
            source,
            at: 0,
            line,
            words: Vec::new(),
        }
    }

    fn rust(&mut self) {
        use LiteralKind::{ByteStr, CStr, RawByteStr, RawCStr, RawStr, Str};
        let source = self.source;
        let mut start = 0;
        for token in tokenize(source, FrontmatterAllowed::No) {
            let text = &source[start..start + token.len as usize];
            match token.kind {
                TokenKind::LineComment { .. } | TokenKind::BlockComment { .. } => {
                    self.add(start, text);
                }
                TokenKind::Ident => {
                    let first = self.words.len();
                    self.add(start, text);
                    for name in &mut self.words[first..] {
                        name.is_name = true;
                    }
                }
                TokenKind::Literal {
                    kind: Str { .. } | ByteStr { .. } | CStr { .. },
                    ..
                } => {
                    // An escape ends a word.
                    self.add(start, &text.replace("\\n", "  ").replace("\\t", "  "));
                }
                TokenKind::Literal {
                    kind: RawStr { .. } | RawByteStr { .. } | RawCStr { .. },
                    ..
                } => self.add(start, text),
                _ => {}
            }
            start += token.len as usize;
        }
    }

    fn document(&mut self) {
        let source = self.source;
        let mut in_code = false;
        // A path of Rust in brackets is a link, too. rustdoc finds its address.
        let path = |link: BrokenLink<'a>| Some((link.reference, "".into()));
        let options = Options::ENABLE_TABLES;
        let parser = Parser::new_with_broken_link_callback(source, options, Some(path));
        for (event, range) in parser.into_offset_iter() {
            match event {
                Event::Text(_) if !in_code => self.add(range.start, &source[range]),
                // Code within a sentence is one word.
                Event::Code(_) => self.add(range.start, "code"),
                Event::Start(
                    Tag::Emphasis | Tag::Strong | Tag::Link { .. } | Tag::Image { .. },
                )
                | Event::End(TagEnd::Emphasis | TagEnd::Strong | TagEnd::Link | TagEnd::Image) => {}
                Event::Start(tag) => {
                    in_code = matches!(tag, Tag::CodeBlock(_));
                    self.end_sentence();
                }
                Event::End(_) => {
                    in_code = false;
                    self.end_sentence();
                }
                _ => {}
            }
        }
    }

    /// Adds the words of `text`, which is at `start` of the source.
    fn add(&mut self, start: usize, text: &str) {
        self.line += self.source[self.at..start].matches('\n').count();
        self.at = start;
        for (line, text) in text.split('\n').enumerate() {
            for text in text.split_whitespace() {
                if text.contains(char::is_alphanumeric) {
                    let (line, text) = (self.line + line, text.to_owned());
                    self.words.push(Word {
                        line,
                        text,
                        is_name: false,
                        ends_sentence: false,
                    });
                }
                let bare = text
                    .trim_end_matches(['"', '\'', ')', '”'])
                    .trim_start_matches(['"', '(']);
                if bare.ends_with(['.', '!', '?']) && !matches!(bare, "e.g." | "i.e." | "vs.") {
                    self.end_sentence();
                }
            }
        }
    }

    fn end_sentence(&mut self) {
        if let Some(last) = self.words.last_mut() {
            last.ends_sentence = true;
        }
    }
}

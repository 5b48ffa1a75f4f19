//! The comments of a Rust source, as Markdown.

use ra_ap_rustc_lexer::{FrontmatterAllowed, TokenKind, tokenize};

/// Line comments of one kind (`//`, `///` or `//!`) in successive lines.
pub struct Comment {
    /// Line of the file that it begins in.
    pub line: usize,
    /// Its Markdown, a line for each line of the source.
    pub text: String,
}

/// Returns the line comments of `source`. Block comments are left out: hardly any has a sentence.
pub fn comments(source: &str) -> Vec<Comment> {
    let mut comments: Vec<Comment> = Vec::new();
    let (mut start, mut line) = (0, 1);
    // Line and kind of a comment that belongs to the last one.
    let mut next = None;
    // Line of the last code. A comment beside it is one of its own.
    let mut code = 0;
    for token in tokenize(source, FrontmatterAllowed::No) {
        let text = &source[start..start + token.len as usize];
        match token.kind {
            TokenKind::LineComment { doc_style } => {
                if next != Some((line, doc_style)) {
                    let text = String::new();
                    comments.push(Comment { line, text });
                }
                let markdown = text.trim_start_matches('/');
                let markdown = markdown.strip_prefix('!').unwrap_or(markdown);
                let markdown = markdown.strip_prefix(' ').unwrap_or(markdown);
                if let Some(comment) = comments.last_mut() {
                    comment.text.extend([markdown, "\n"]);
                }
                next = (code != line).then_some((line + 1, doc_style));
            }
            TokenKind::Whitespace => {}
            _ => {
                next = None;
                code = line + text.matches('\n').count();
            }
        }
        line += text.matches('\n').count();
        start += token.len as usize;
    }
    comments
}

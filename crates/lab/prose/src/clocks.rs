//! Real time in test code, which is refused.
//!
//! A busy machine pauses a test at any place, so a verdict on real time fails on some day. Tests
//! count accesses, steps and virtual time. A time limit may only end a hang: it is named `HANG_LIMIT`,
//! and has minutes.

use ra_ap_rustc_lexer::{FrontmatterAllowed, Token, TokenKind, tokenize};

/// Types that read a real clock.
const CLOCKS: [&str; 2] = ["Instant", "SystemTime"];

/// Functions of std that wait for a limited time.
const WAITS: [&str; 5] = [
    "park_timeout",
    "recv_timeout",
    "wait_timeout",
    "wait_timeout_while",
    "recv_deadline",
];

/// Name of a constant that ends a hang.
const LIMIT: &str = "HANG_LIMIT";

/// Minimum number of seconds of [`LIMIT`].
const MINUTES: u64 = 120;

/// Returns the lines and reasons of the findings in the test code of the Rust `source` at `path`.
pub fn findings(path: &str, source: &str) -> Vec<(usize, String)> {
    let mut tokens = Vec::new();
    let mut start = 0;
    for Token { kind, len } in tokenize(source, FrontmatterAllowed::No) {
        let text = &source[start..start + len as usize];
        let is_code = !matches!(
            kind,
            TokenKind::Whitespace | TokenKind::LineComment { .. } | TokenKind::BlockComment { .. }
        );
        if is_code && start >= test_code(path, source) {
            tokens.push((start, text));
        }
        start += len as usize;
    }
    let mut findings = Vec::new();
    for (at, &(start, text)) in tokens.iter().enumerate() {
        let rest = &tokens[at + 1..];
        let reads = |text: &str| CLOCKS.contains(&text) && texts(rest, 3) == [":", ":", "now"];
        let reason = if reads(text) {
            format!(
                "`{text}` in a test: assert counts or virtual time; wait with a count of pauses"
            )
        } else if WAITS.contains(&text) && !arguments(rest).any(|argument| argument == LIMIT) {
            format!(
                "`{text}` in a test: its limit may only end a hang, as a constant named `{LIMIT}`"
            )
        } else if text == "const" && texts(rest, 1) == [LIMIT] && !has_minutes(rest) {
            format!("`{LIMIT}` decides a verdict: at least {MINUTES} seconds, with `from_secs`")
        } else {
            continue;
        };
        let line = 1 + source[..start].matches('\n').count();
        findings.push((line, reason));
    }
    findings
}

/// Returns the offset of a source's test code: the whole file, or its inline module of tests.
fn test_code(path: &str, source: &str) -> usize {
    if path.contains("/tests/") || path.ends_with("tests.rs") {
        return 0;
    }
    let is_module = |at: &usize| {
        let mut lines = source[*at..].lines();
        let attribute = lines.next().unwrap_or_default();
        let item = lines.next().unwrap_or_default();
        attribute.contains("test") && item.starts_with("mod ") && item.ends_with('{')
    };
    let mut attributes = source.match_indices("#[cfg(").map(|(at, _)| at);
    attributes.find(is_module).unwrap_or(source.len())
}

/// Returns the tokens of the call whose parenthesis opens `rest`.
fn arguments<'a>(rest: &[(usize, &'a str)]) -> impl Iterator<Item = &'a str> {
    let mut depth = 0;
    rest.iter().map(|&(_, text)| text).take_while(move |&text| {
        depth += i32::from(text == "(") - i32::from(text == ")");
        depth > 0
    })
}

/// Whether the constant that `rest` continues has at least [`MINUTES`] seconds.
fn has_minutes(rest: &[(usize, &str)]) -> bool {
    let value = rest.windows(3).find(|part| part[0].1 == "from_secs");
    let seconds = value.and_then(|part| part[2].1.parse::<u64>().ok());
    seconds >= Some(MINUTES)
}

/// Returns the first `n` tokens.
fn texts<'a>(tokens: &[(usize, &'a str)], n: usize) -> Vec<&'a str> {
    tokens.iter().take(n).map(|&(_, text)| text).collect()
}

//! Documents of figures, as `--json` writes them. Every byte of one may be hostile.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::drawing::Drawing;
use super::file::is_stdout;
use crate::host::Host;
use nostall_figures::figure::Figure;

/// Version of the documents' form.
pub const SCHEMA: u32 = 2;

/// Bytes of a document, at most.
const LONGEST: u64 = 100 << 20;

const BYTE_ORDER_MARK: char = '\u{feff}';

const HINT: &str =
    "`nostall-lab run EXPERIMENT --json FILE` writes figures for `nostall-lab report`";

/// Document of figures.
pub struct Source {
    /// Name for the page's reader.
    pub name: String,
    /// The document itself.
    pub text: String,
    pub host: Host,
    pub figures: Vec<Figure>,
    pub drawings: Vec<Drawing>,
}

#[derive(Deserialize)]
struct Head {
    schema: Option<Value>,
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    host: Host,
    results: Vec<Figure>,
    #[serde(default)]
    drawings: Vec<Drawing>,
}

impl Source {
    /// Reads the document in the file at `path`; `-` is standard input.
    ///
    /// # Errors
    ///
    /// The file's name, the fault, and a way out.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let mut bytes = Vec::new();
        let read = match is_stdout(path) {
            true => io::stdin().take(LONGEST + 1).read_to_end(&mut bytes),
            false => {
                // Opening a pipe waits for its writer, and a device may have no end.
                let is_endless = fs::metadata(path).is_ok_and(|it| !it.is_file() && !it.is_dir());
                ensure!(
                    !is_endless,
                    "{name}: not a regular file: write the document to one, or pass it on \
                     standard input with `-`"
                );
                let file = File::open(path);
                file.and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes))
            }
        };
        read.with_context(|| name.clone())?;
        Self::of_bytes(name, bytes)
    }

    fn of_bytes(name: String, bytes: Vec<u8>) -> Result<Self> {
        ensure!(
            bytes.len() as u64 <= LONGEST,
            "{name}: longer than 100 MiB, so it has no figures of one machine: {HINT}"
        );
        let Ok(mut text) = String::from_utf8(bytes) else {
            bail!("{name}: not JSON, but bytes that are no UTF-8: {HINT}");
        };
        // Some editors and shells write a byte order mark.
        if text.starts_with(BYTE_ORDER_MARK) {
            text.remove(0);
        }
        Self::parse(name, text)
    }

    /// Reads the document `text`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`read`](Self::read).
    pub fn parse(name: String, text: String) -> Result<Self> {
        ensure!(
            text.trim_start().starts_with('{'),
            "{name}: not a JSON object: {HINT}"
        );
        let head: Head = serde_json::from_str(&text)
            .map_err(|error| anyhow!("{name}: not JSON: {error}: {HINT}"))?;
        match head.schema {
            Some(Value::Number(schema)) if schema.as_u64() == Some(SCHEMA.into()) => {}
            Some(schema) => {
                let schema: String = schema.to_string().chars().take(40).collect();
                bail!(
                    "{name}: its schema is {schema}, and this command reads {SCHEMA}: use the version of \
                     nostall that wrote it, or measure again"
                )
            }
            None => bail!("{name}: JSON without a schema, so not nostall's: {HINT}"),
        }
        let document: Document = serde_json::from_str(&text)
            .map_err(|error| anyhow!("{name}: not a document of figures: {error}: {HINT}"))?;
        Ok(Self {
            name,
            text,
            host: document.host,
            figures: document.results,
            drawings: document.drawings,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        let read = Source::of_bytes("a.json".to_owned(), text.as_bytes().to_vec());
        read.err().expect("refused").to_string()
    }

    #[test]
    fn json_that_is_not_a_document_of_figures_is_refused_with_its_name_and_a_way_out() {
        for (text, fault) in [
            ("", "a.json: not a JSON object: "),
            ("[1, 2]", "a.json: not a JSON object: "),
            ("{\"schema\": NaN}", "a.json: not JSON: "),
            ("{", "a.json: not JSON: "),
            ("{}", "a.json: JSON without a schema, so not nostall's: "),
            ("{\"schema\": 2}", "missing field `results`"),
            ("{\"schema\": 2, \"results\": 7}", "a.json: not a document"),
            (
                "{\"schema\": 2, \"results\": [{\"value\": 1e999}]}",
                "out of range",
            ),
        ] {
            let error = error(text);
            assert!(error.contains(fault), "{text}: {error}");
            assert!(error.ends_with(HINT), "{text}: {error}");
        }
        let binary = Source::of_bytes("a.json".to_owned(), vec![b'{', 0xff]);
        let error = binary.err().unwrap().to_string();
        assert!(error.contains("no UTF-8"), "{error}");
    }

    #[test]
    fn a_byte_order_mark_before_a_document_is_passed_over() {
        let text = "\u{feff}{\"schema\": 2, \"results\": []}";
        let source = Source::of_bytes("a.json".to_owned(), text.as_bytes().to_vec()).unwrap();
        assert!(source.text.starts_with('{'), "{}", source.text);
    }

    #[test]
    fn another_schema_is_named_with_the_version_to_use() {
        for schema in ["1", "\"2\"", "2.5", "-2"] {
            let error = error(&format!("{{\"schema\": {schema}, \"results\": []}}"));
            let start = format!("a.json: its schema is {schema}, and this command reads 2: ");
            assert!(error.starts_with(&start), "{error}");
        }
    }

    #[test]
    fn a_document_of_more_than_100_mib_is_refused() {
        let longest = vec![b' '; LONGEST as usize + 1];
        let read = Source::of_bytes("a.json".to_owned(), longest);
        let error = read.err().unwrap().to_string();
        assert!(error.starts_with("a.json: longer than 100 MiB"), "{error}");
    }

    #[test]
    fn unknown_fields_are_no_error_and_a_missing_value_is_none() {
        let text = r#"{"schema": 2, "new": {"a": [1]}, "host": {"moon": true, "peers": [
            {"name": "x", "release": "6.1", "new": 1}]}, "results": [
            {"path": "p", "strategy": "s", "on": "o", "metric": "m", "value": null, "new": 1}]}"#;
        let source = Source::parse(String::new(), text.to_owned()).unwrap();
        assert!(source.figures[0].value.is_nan());
        assert_eq!(source.figures[0].strategy, "s");
    }
}

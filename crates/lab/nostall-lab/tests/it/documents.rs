//! The book, the READMEs and their quick start: links, included programs, commands, lengths.
//! mdbook reports neither a missing anchor nor a missing file.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;

use crate::common::{crate_folder, crate_folders, root};

/// A Markdown file of the repository.
struct Document {
    path: PathBuf,
    text: String,
}

impl Document {
    fn read(path: PathBuf) -> Self {
        let text = fs::read_to_string(&path);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { path, text }
    }

    fn name(&self) -> String {
        let name = self.path.strip_prefix(root()).unwrap_or(&self.path);
        name.display().to_string()
    }

    /// The file that `link` points to; of a folder, its README.
    fn beside(&self, link: &str) -> PathBuf {
        let path = self.path.parent().unwrap().join(link);
        let readme = path.join("README.md");
        if readme.exists() { readme } else { path }
    }

    /// The number of words, as `wc -w` counts them.
    fn words(&self) -> usize {
        self.text.split_whitespace().count()
    }

    /// The text without its code blocks.
    fn prose(&self) -> String {
        self.text.split("```").step_by(2).collect()
    }

    /// The contents of the code blocks in `language`.
    fn blocks(&self, language: &str) -> Vec<&str> {
        let blocks = self.text.split("```").skip(1).step_by(2);
        let blocks = blocks.filter_map(|block| block.split_once('\n'));
        let blocks = blocks.filter(|(word, _)| *word == language);
        blocks.map(|(_, code)| code).collect()
    }

    /// The anchors that GitHub and mdbook make of the headings.
    fn anchors(&self) -> HashSet<String> {
        let prose = self.prose();
        let headings = prose.lines().filter(|line| line.starts_with('#'));
        let titles = headings.map(|line| line.trim_start_matches('#').trim());
        titles.map(anchor).collect()
    }
}

fn anchor(title: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
    let kept = title.chars().filter(kept);
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn document(name: &str) -> Document {
    Document::read(root().join(name))
}

/// The chapters of the book.
fn chapters() -> Vec<Document> {
    let files = fs::read_dir(root().join("docs/src")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|kind| kind == "md"))
        .map(Document::read)
        .collect()
}

/// The chapters that a newcomer copies from.
fn starts() -> Vec<Document> {
    let mut starts = chapters();
    starts.retain(|chapter| chapter.name().starts_with("docs/src/start-"));
    starts
}

/// The book, the READMEs of the repository and its crates, and the schemas beside two crates.
fn documents() -> Vec<Document> {
    let crates = crate_folders().into_iter();
    let crates = crates.map(|folder| folder.join("README.md"));
    let others = [
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "crates/drivers/README.md",
        "crates/lab/README.md",
        "crates/records/README.md",
        "crates/records/fleet/TABLES.md",
        "crates/records/postmortem/JSON.md",
        "kernel/README.md",
        "adoption/asterinas/README.md",
        "adoption/hermit/README.md",
        "examples/fleet/README.md",
        "examples/kernel/README.md",
        "examples/vmm/README.md",
        "linux/README.md",
        "python/README.md",
    ];
    let others = others.map(|name| root().join(name)).into_iter();
    let files = others.chain(crates).filter(|path| path.exists());
    files.map(Document::read).chain(chapters()).collect()
}

/// Returns each text between `start` and `end`.
fn between<'a>(text: &'a str, start: &'a str, end: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(start)
        .skip(1)
        .filter_map(move |rest| Some(rest.split_once(end)?.0))
}

/// Returns the lines of a program between the comments of an anchor, without the indentation that
/// they share. Without an anchor, returns the program.
fn excerpt(program: &str, anchor: Option<&str>) -> Option<String> {
    let is_mark = |line: &&str| line.trim().starts_with("// ANCHOR");
    let lines: Vec<&str> = match anchor {
        Some(anchor) => {
            let mark = |word: &str| format!("// {word}: {anchor}");
            let (start, end) = (mark("ANCHOR"), mark("ANCHOR_END"));
            let inside = program.lines().skip_while(|line| line.trim() != start);
            let inside: Vec<_> = inside.take_while(|line| line.trim() != end).collect();
            inside.get(1..)?.to_vec()
        }
        None => program.lines().collect(),
    };
    let lines = lines.into_iter().filter(|line| !is_mark(line));
    let lines: Vec<_> = lines.collect();
    let indent = |line: &&str| line.len() - line.trim_start().len();
    let words = lines.iter().filter(|line| !line.is_empty());
    let shared = words.map(indent).min()?;
    let lines = lines.iter().map(|line| line.get(shared..).unwrap_or(""));
    let code = lines.collect::<Vec<_>>().join("\n");
    Some(code.trim_matches('\n').to_owned())
}

/// The code is copied into the chapters, because a forge shows them as they are. A comment before
/// a block names the program and, after a colon, the anchor of the part.
///
/// With `NOSTALL_RECORD` set, the parts that have an anchor are copied again.
#[test]
fn the_code_in_a_chapter_is_that_of_the_program_that_it_names() {
    let mut pieces = 0;
    for chapter in chapters() {
        let mut text = chapter.text.clone();
        for block in between(&chapter.text, "\n<!-- ", "\n```\n") {
            let Some((role, rest)) = block.split_once(" -->\n```") else {
                continue;
            };
            let (fence, code) = rest.split_once('\n').unwrap();
            let (name, pasted) = match role.split_once(", to ") {
                Some((name, _)) => (name, true),
                None => (role, false),
            };
            if !name.starts_with("crates/") && !name.starts_with("examples/") {
                continue;
            }
            let (file, anchor) = match name.split_once(':') {
                Some((file, anchor)) => (file, Some(anchor)),
                None => (name, None),
            };
            let program = document(file).text;
            let expected = excerpt(&program, anchor);
            let expected = expected.unwrap_or_else(|| panic!("{}: {name}", chapter.name()));
            let is_same = match anchor {
                None if !pasted => format!("\n{program}").contains(&format!("\n{code}\n")),
                _ => expected == code,
            };
            if !is_same && anchor.is_some() && std::env::var_os("NOSTALL_RECORD").is_some() {
                let block = |code: &str| format!("<!-- {role} -->\n```{fence}\n{code}\n```\n");
                text = text.replacen(&block(code), &block(&expected), 1);
            } else {
                assert!(is_same, "{}: not in {name}:\n{code}", chapter.name());
            }
            pieces += 1;
        }
        if text != chapter.text {
            fs::write(&chapter.path, text).unwrap();
        }
    }
    assert!(pieces >= 40, "{pieces}");
}

#[test]
fn a_start_has_400_words_at_most_beside_its_code() {
    for chapter in starts() {
        let words = chapter.prose().split_whitespace().count();
        assert!(words <= 400, "{}: {words} words", chapter.name());
    }
}

/// `make starts` runs what a reader copies.
#[test]
fn every_start_has_commands_to_copy() {
    let starts = starts();
    assert_eq!(starts.len(), 7);
    for chapter in starts {
        let commands = chapter.blocks("sh").join("");
        let from_the_checkout =
            commands.contains("nostall/crates") || commands.contains("nostall/examples");
        assert!(
            from_the_checkout || commands.contains("cd nostall"),
            "{}",
            chapter.name()
        );
    }
}

#[test]
fn every_relative_link_of_a_document_leads_to_a_file_and_to_a_heading() {
    let mut broken = Vec::new();
    let mut links = 0;
    for document in documents() {
        for link in between(&document.prose(), "](", ")") {
            if link.contains("://") {
                continue;
            }
            links += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let path = match file {
                "" => document.path.clone(),
                file => document.beside(file),
            };
            let is_there = path.exists()
                && (heading.is_empty() || Document::read(path).anchors().contains(heading));
            if !is_there {
                broken.push(format!("{}: {link}", document.name()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(links > 50, "{links}");
}

/// Every block of Rust code of a document, with the line before it and the words behind its three
/// backquotes.
fn rust_blocks(document: &Document) -> Vec<(&str, &str, &str)> {
    let parts: Vec<_> = document.text.split("```").collect();
    let blocks = parts.chunks_exact(2).filter_map(|part| {
        let (words, code) = part[1].split_once('\n')?;
        Some((part[0].lines().next_back().unwrap_or_default(), words, code))
    });
    blocks
        .filter(|(_, words, _)| words.split(',').next() == Some("rust"))
        .collect()
}

/// Returns whether some file of the document's folder has these lines in a row, however indented.
fn is_excerpt(document: &Document, code: &str) -> bool {
    let plain = |text: &str| {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        format!("\n{}\n", lines.collect::<Vec<_>>().join("\n"))
    };
    let code = plain(code);
    let files = sources(document.path.parent().unwrap());
    files
        .iter()
        .filter(|path| path.extension().is_some_and(|kind| kind == "rs"))
        .any(|path| plain(&fs::read_to_string(path).unwrap()).contains(&code))
}

/// Returns the blocks of Rust code that no build compiles. The others are part of an example, a
/// test of their crate's documentation, or in the quick start's own test.
fn loose_blocks(document: &Document) -> Vec<String> {
    let folder = document.path.parent().unwrap();
    let is_readme_of_crate = crate_folders().contains(&folder.to_owned());
    let tested = fs::read_to_string(folder.join("src/lib.rs"))
        .is_ok_and(|code| code.contains("doc = include_str!(\"../README.md\")"));
    let mut loose = Vec::new();
    for (before, words, code) in rust_blocks(document) {
        let compiled = match document.name().as_str() {
            // The quick start.
            "crates/drivers/console/README.md" => true,
            _ if is_readme_of_crate => tested && !words.contains("ignore"),
            // A part of a program, as another test checks.
            name if name.starts_with("docs/") => {
                [QUICK_START, ON_RISC_V, ON_AARCH64].contains(&before)
                    || before.starts_with("<!-- ") && before.contains("examples/")
            }
            _ => is_excerpt(document, code),
        };
        if !compiled {
            let first = code.lines().next().unwrap_or_default();
            loose.push(format!("{}: {first}", document.name()));
        }
    }
    loose
}

#[test]
fn every_block_of_rust_code_in_a_document_is_compiled() {
    let documents = documents();
    let loose: Vec<_> = documents.iter().flat_map(loose_blocks).collect();
    assert!(loose.is_empty(), "not compiled:\n{}", loose.join("\n"));
    let blocks: usize = documents.iter().map(|one| rust_blocks(one).len()).sum();
    assert!(blocks > 30, "{blocks}");
}

#[test]
fn a_block_of_code_that_is_shown_twice_is_compiled_at_each_place() {
    let block = "```rust\nlet same = 1;\n```\n";
    let role = "<!-- examples/spi/src/threads.rs -->\n";
    let chapter = |text: String| Document {
        path: root().join("docs/src/planted.md"),
        text,
    };
    let both = chapter(format!("{role}{block}\nAgain:\n\n{role}{block}"));
    assert!(loose_blocks(&both).is_empty());
    let once = chapter(format!("{role}{block}\nAgain:\n\n{block}"));
    assert_eq!(loose_blocks(&once), ["docs/src/planted.md: let same = 1;"]);
}

/// An address outside the project is only checked for its form.
#[test]
fn every_address_in_a_document_has_a_scheme_a_host_and_no_blanks() {
    let mut addresses = 0;
    for document in documents() {
        for link in between(&document.prose(), "](", ")") {
            let Some((scheme, rest)) = link.split_once("://") else {
                continue;
            };
            let host = rest.split('/').next().unwrap();
            let well_formed = ["http", "https"].contains(&scheme)
                && host.contains('.')
                && !link.contains(char::is_whitespace);
            assert!(well_formed, "{}: {link}", document.name());
            addresses += 1;
        }
    }
    assert!(addresses >= 5, "{addresses}");
}

#[test]
fn every_picture_of_a_document_has_a_text_for_readers_without_pictures() {
    let mut pictures = 0;
    for document in documents() {
        for picture in between(&document.prose(), "![", ")") {
            let (text, file) = picture.split_once("](").unwrap();
            assert!(text.len() > 20, "{}: {picture}", document.name());
            if file.ends_with(".svg") {
                let svg = Document::read(document.beside(file));
                let is_titled = ["<title>", "viewBox=", "role=\"img\""]
                    .iter()
                    .all(|part| svg.text.contains(part));
                assert!(is_titled, "{}", svg.name());
            }
            pictures += 1;
        }
    }
    assert!(pictures >= 6, "{pictures}");
}

/// Needs Python, but not its package rich.
#[test]
fn a_picture_of_a_terminal_may_show_a_command_with_braces_and_brackets() {
    let fill = "import collections, runpy, sys; \
        frame = runpy.run_path(sys.argv[1])['frame']; \
        print(frame(sys.argv[2:]).format_map(collections.defaultdict(str)))";
    let script = root().join("scripts/terminal-picture");
    let filled = Command::new("python3")
        .args(["-B", "-c", fill])
        .arg(script)
        .args(["awk '{print $1}' < {} # {width}", "ls"])
        .output();
    let Ok(filled) = filled else {
        // The test harness captures the output of std's macros, so they are not used here.
        let _ = writeln!(std::io::stderr(), "SKIPPED: there is no python3");
        return;
    };
    let error = String::from_utf8_lossy(&filled.stderr);
    assert!(filled.status.success(), "{error}");
    let svg = String::from_utf8(filled.stdout).unwrap();
    let title = "<title>awk &#x27;{print $1}&#x27; &lt; {} # {width}; ls</title>";
    assert!(svg.contains(title), "{svg}");
}

/// The heights at which `architecture.svg` shows the crates, by name.
fn heights_of_crates(svg: &str) -> std::collections::HashMap<String, f64> {
    let marked = between(svg, "data-crate=\"", "\"");
    let names = marked.map(str::to_owned);
    let rows = svg.split("data-crate=\"").skip(1).map(|rest| {
        let tag = rest.split('>').next().unwrap();
        let y = between(tag, " y=\"", "\"").next().unwrap();
        y.parse::<f64>().unwrap()
    });
    names.zip(rows).collect()
}

/// A crate depends on crates in lower rows. The dependencies are those of the manifests, without
/// those of tests.
#[test]
fn the_picture_of_the_crates_has_every_crate_above_its_dependencies() {
    let heights = heights_of_crates(&document("docs/src/architecture.svg").text);
    // A feature's dependency, which the picture's last lines name.
    let exceptions = [("nostall-console", "nostall-uart")];
    let mut manifests = crate_folders();
    manifests.push(root().join("kernel"));
    let mut edges = 0;
    for folder in manifests {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let name = between(&manifest, "name = \"", "\"").next().unwrap();
        // The project's own tools, which no user meets.
        if ["nostall-bench", "nostall-pages", "nostall-prose"].contains(&name) {
            continue;
        }
        let height = heights.get(name);
        let height = height.unwrap_or_else(|| panic!("{name} is not in the picture"));
        let sections = manifest.split("\n[").filter(|section| {
            let head = section.split(']').next().unwrap();
            head.ends_with("dependencies") && !head.ends_with("dev-dependencies")
        });
        for line in sections.flat_map(str::lines) {
            let other = line.split(['.', ' ', '=']).next().unwrap();
            let Some(below) = heights.get(other) else {
                continue;
            };
            let excepted = exceptions.contains(&(name, other));
            assert!(excepted || height < below, "{name} needs {other}");
            edges += 1;
        }
    }
    assert!(edges > 30, "{edges}");
}

/// The part of `document` from the heading with this anchor to the next one of its level.
fn section<'a>(document: &'a Document, heading: &str) -> Option<&'a str> {
    let level = |line: &str| line.bytes().take_while(|&byte| byte == b'#').count();
    let mut in_code = false;
    let mut at = 0;
    let mut found = None;
    for line in document.text.split_inclusive('\n') {
        in_code ^= line.starts_with("```");
        if !in_code && line.starts_with('#') {
            match found {
                Some((start, depth)) if level(line) <= depth => {
                    return Some(&document.text[start..at]);
                }
                None if anchor(line.trim_start_matches('#').trim()) == heading => {
                    found = Some((at, level(line)));
                }
                _ => {}
            }
        }
        at += line.len();
    }
    found.map(|(start, _)| &document.text[start..])
}

/// The numbers of a text, without the commas of thousands.
fn numbers(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_ascii_digit() && c != '.' && c != ',');
    let words = words.map(|word| word.trim_end_matches(['.', ',']).replace(',', ""));
    words.filter(|word| word.parse::<f64>().is_ok())
}

/// A figure is written where its command is. Elsewhere it is a link to there.
#[test]
fn a_figure_that_is_a_link_is_in_the_linked_section() {
    let mut wrong = Vec::new();
    let mut figures = 0;
    for document in documents() {
        for link in document.prose().split("](").collect::<Vec<_>>().windows(2) {
            let text = link[0].rsplit('[').next().unwrap();
            let target = link[1].split(')').next().unwrap();
            let Some((file, heading)) = target.split_once('#') else {
                continue;
            };
            if !text.starts_with(|c: char| c.is_ascii_digit()) || target.contains("://") {
                continue;
            }
            let figure = numbers(text).next().unwrap();
            let decimals = figure.split_once('.').map_or(0, |(_, part)| part.len());
            let other = match file {
                "" => Document::read(document.path.clone()),
                file => Document::read(document.beside(file)),
            };
            let part = section(&other, heading).unwrap_or_default();
            let same = numbers(part).any(|number| {
                let number: f64 = number.parse().unwrap();
                format!("{number:.decimals$}") == figure
            });
            if !same {
                wrong.push(format!("{}: {text}: not in {target}", document.name()));
            }
            figures += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(figures > 15, "{figures}");
}

#[test]
fn every_source_file_that_a_document_names_exists() {
    let folders = ["bench/", "crates/", "fuzz/", "kernel/", "scripts/"];
    let mut paths = 0;
    for document in documents() {
        for path in document.prose().split('`').skip(1).step_by(2) {
            let placeholder = path.contains(['*', '<', ' ']) || path.contains("NAME");
            if !placeholder && folders.iter().any(|folder| path.starts_with(folder)) {
                assert!(root().join(path).exists(), "{}: {path}", document.name());
                paths += 1;
            }
        }
    }
    assert!(paths > 20, "{paths}");
}

/// The README of each folder of crates is short, and the places that it names exist.
#[test]
fn the_readme_of_a_folder_of_crates_has_15_lines_at_most_and_names_places_that_exist() {
    let mut places = 0;
    for folder in ["", "drivers/", "records/", "lab/"] {
        let document = document(&format!("crates/{folder}README.md"));
        assert!(document.text.lines().count() <= 15, "{folder}");
        let code = document.text.split('`').skip(1).step_by(2);
        for place in code.filter(|word| word.contains('/')) {
            assert!(document.beside(place).exists(), "{folder}: {place}");
            places += 1;
        }
    }
    assert!(places > 10, "{places}");
}

/// The Rust files below `folder`.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => sources(&path),
            false => vec![path],
        })
        .collect()
}

#[test]
fn every_file_on_the_ways_through_the_code_is_in_its_crate() {
    let page = document("CONTRIBUTING.md").text;
    let ways = page.split("\n### ").find(|part| part.starts_with("Ways "));
    let mut files = 0;
    for row in ways.unwrap().lines().filter(|line| line.starts_with('|')) {
        let mut known = Vec::new();
        for word in row.split([' ', '(']) {
            if let Some(folder) = word.strip_suffix(':').and_then(crate_folder) {
                known = sources(&folder.join("src"));
            }
            let Some(file) = word.split('`').find(|file| file.ends_with(".rs")) else {
                continue;
            };
            let is_there = known.iter().any(|path| path.ends_with(file));
            assert!(is_there || root().join(file).exists(), "{file}: {row}");
            files += 1;
        }
    }
    assert!(files > 50, "{files}");
}

#[test]
fn every_chapter_is_in_the_summary() {
    let summary = document("docs/src/SUMMARY.md").text;
    for chapter in chapters() {
        let file = chapter.path.file_name().unwrap().to_str().unwrap();
        let listed = summary.contains(&format!("({file})"));
        assert!(listed || file == "SUMMARY.md", "{file}");
    }
}

#[test]
fn the_glossary_defines_each_term_once_and_in_order() {
    let glossary = document("docs/src/glossary.md").text;
    let mut known = HashSet::new();
    for table in glossary.split("\n## ").skip(1) {
        let rows = table.lines().filter(|line| line.starts_with("| "));
        let terms = rows.filter_map(|row| row.split('|').nth(1));
        let terms = terms.map(|term| term.trim().to_lowercase().replace('`', ""));
        let terms: Vec<_> = terms
            .filter(|term| !["term", "---"].contains(&&**term))
            .collect();
        assert!(terms.len() > 20, "{terms:?}");
        assert!(terms.is_sorted(), "{terms:?}");
        for term in terms {
            assert!(known.insert(term.clone()), "{term}");
        }
    }
}

#[test]
fn the_readme_has_900_words_at_most_and_that_of_each_crate_400() {
    let words = document("README.md").words();
    assert!(words <= 900, "README.md: {words} words");
    let mut readmes = 0;
    for document in documents() {
        let name = document.name();
        if name.starts_with("crates/") && name.ends_with("/README.md") {
            assert!(
                document.words() <= 400,
                "{name}: {} words",
                document.words()
            );
            readmes += 1;
        }
    }
    assert!(readmes >= 13, "{readmes}");
}

/// The first block of a library's README is a program, and the manifest's lines follow.
#[test]
fn the_readme_of_a_library_begins_with_an_example_and_says_how_to_add_the_crate_and_its_limits() {
    let readmes = crate_folders()
        .into_iter()
        .map(|folder| folder.join("README.md"));
    for document in readmes.filter(|path| path.exists()).map(Document::read) {
        let name = document.name();
        let folder = name.strip_suffix("/README.md").unwrap();
        let short = folder.rsplit('/').next().unwrap();
        // The commands, and the crates whose first use is a command.
        let commands = ["nostall", "nostall-lab", "fleet", "postmortem"];
        if commands.contains(&short) {
            continue;
        }
        let first = document.text.split("```").nth(1).unwrap();
        assert!(first.starts_with("rust"), "{name}: {first}");
        // The attribute is added with the recorder that exports it.
        let folder = folder.trim_end_matches("-macros");
        let short = short.trim_end_matches("-macros");
        let path = format!("cargo add --path ../nostall/{folder}");
        assert!(document.text.contains(&path), "{name}: {path}");
        let registry = format!("# after release: cargo add nostall-{short}");
        assert!(document.text.contains(&registry), "{name}: {registry}");
        assert!(document.text.contains("\n## Limits\n"), "{name}: no limits");
    }
}

/// The name and arguments of each complete command of the project in a document: in its `sh` blocks, and
/// in the code of its tables. Capital letters stand for the reader's own words.
fn commands(document: &Document) -> Vec<Vec<String>> {
    let scripts = document.blocks("sh").join("\n").replace("\\\n", " ");
    let scripts = scripts.lines().map(str::to_owned);
    let tables = document.text.lines().filter(|line| line.starts_with('|'));
    let tables = tables.flat_map(|row| row.split('`').skip(1).step_by(2));
    let tables = tables.map(str::to_owned).collect::<Vec<_>>();
    let mut found = Vec::new();
    for line in scripts.chain(tables) {
        let line = line.split(['#', '|', '<', '>', '\'']).next().unwrap();
        let words = line.split_whitespace().map(str::to_owned);
        let words = words.collect::<Vec<_>>();
        let placeholder = |word: &String| word.chars().all(|c| c.is_ascii_uppercase());
        let is_ours = |word: &String| ["nostall", "nostall-lab"].contains(&&**word);
        if words.first().is_some_and(is_ours) && !words.iter().any(placeholder) {
            found.push(words);
        }
    }
    found
}

#[test]
fn every_command_of_the_documents_has_its_options() {
    let mut tried = HashSet::new();
    for document in documents() {
        for words in commands(&document) {
            if !tried.insert(words.clone()) {
                continue;
            }
            // Arguments are parsed up to `--help`: a wrong one before it is an error.
            let mut command = Command::new(cargo_bin(&words[0]));
            let output = command.args(&words[1..]).arg("--help").output().unwrap();
            assert!(
                output.status.success(),
                "{}: {}\n{}",
                document.name(),
                words.join(" "),
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
    assert!(tried.len() > 20, "{tried:?}");
}

/// The commands in the shell blocks of a document and in its code spans, in words.
fn shell_commands(document: &Document) -> Vec<Vec<String>> {
    let blocks = document.blocks("sh").join("\n").replace("\\\n", " ");
    let prose = document.prose();
    let spans = prose.split('`').skip(1).step_by(2);
    let lines = blocks.lines().chain(spans);
    let commands = lines.flat_map(|line| line.split(['#', '|', ';', '&', '(', ')']));
    commands
        .map(|line| {
            let line = line.trim().trim_start_matches("$ ");
            line.split_whitespace().map(str::to_owned).collect()
        })
        .collect()
}

/// Compares a listing with a command's output. A line `...` stands for any number of lines.
/// Returns the first line of the listing that the output lacks.
fn compare<'a>(listing: &'a str, output: &str) -> Result<(), &'a str> {
    let mut output = output.lines();
    let mut is_cut = false;
    for line in listing.lines() {
        let found = match line {
            "..." => {
                is_cut = true;
                continue;
            }
            line if is_cut => output.any(|other| other == line),
            line => output.next() == Some(line),
        };
        if !found {
            return Err(line);
        }
        is_cut = false;
    }
    match output.next() {
        Some(_) if !is_cut => Err("(more lines: end the listing with `...`)"),
        _ => Ok(()),
    }
}

/// The output on the model is the same everywhere. Such a listing begins with its command.
#[test]
fn a_listing_that_begins_with_a_run_on_the_model_is_the_output_of_that_command() {
    let mut listings = 0;
    for document in documents() {
        for block in document.blocks("text") {
            let Some((command, listing)) = block.split_once('\n') else {
                continue;
            };
            let Some(arguments) = command.strip_prefix("$ nostall-lab ") else {
                continue;
            };
            if !arguments.starts_with("run ") || !arguments.contains("--on model") {
                continue;
            }
            let mut nostall = Command::new(env!("CARGO_BIN_EXE_nostall-lab"));
            let output = nostall.args(arguments.split(' ')).output().unwrap();
            assert!(output.status.success(), "{}: {command}", document.name());
            let output = String::from_utf8(output.stdout).unwrap();
            if let Err(line) = compare(listing, &output) {
                panic!("{}: {command}\nnot printed: {line}", document.name());
            }
            listings += 1;
        }
    }
    assert!(listings >= 3, "{listings}");
}

#[test]
fn a_listing_differs_with_one_other_or_missing_line() {
    let output = "a\nb\nc\n";
    for same in ["a\nb\nc\n", "a\n...\n", "...\nb\n...\n", "...\nc\n"] {
        assert_eq!(compare(same, output), Ok(()), "{same}");
    }
    for (other, line) in [("a\nx\nc\n", "x"), ("...\nb\nd\n", "d"), ("c\n", "c")] {
        assert_eq!(compare(other, output), Err(line), "{other}");
    }
    assert!(compare("a\nb\n", output).is_err());
}

/// Targets of make, scripts, and the packages, examples, tests and benchmarks of cargo.
#[test]
fn every_command_of_the_project_that_a_document_names_exists() {
    let makefile = document("Makefile").text;
    let targets: HashSet<_> = makefile
        .lines()
        .filter(|line| !line.starts_with(['\t', ' ', '#']) && !line.contains(":="))
        .filter_map(|line| Some(line.split_once(':')?.0))
        .flat_map(str::split_whitespace)
        .collect();
    let mut wrong = Vec::new();
    let mut commands = 0;
    for document in documents() {
        for words in shell_commands(&document) {
            let after = |names: &[&str]| {
                let at = words
                    .iter()
                    .position(|word| names.contains(&word.as_str()))?;
                words.get(at + 1).map(String::as_str)
            };
            let missing = match words.first().map(String::as_str) {
                // Linux has targets of its own.
                Some("make") if !document.name().starts_with("linux/") => words[1..]
                    .iter()
                    .filter(|word| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'))
                    .any(|target| !targets.contains(target.as_str())),
                Some(script) if script.starts_with("scripts/") => !root().join(script).exists(),
                Some("cargo") => match after(&["-p", "--package"]) {
                    Some(package) if package.starts_with("nostall") => {
                        let folder = crate_folder(package);
                        let known = folder.is_some() || package == "nostall-kernel";
                        let folder = folder.unwrap_or_default();
                        let in_folder = |option: &str, part: &str| {
                            after(&[option]).is_none_or(|name| {
                                let file = folder.join(part).join(name);
                                file.exists() || file.with_extension("rs").exists()
                            })
                        };
                        !known
                            || !in_folder("--example", "examples")
                            || !in_folder("--test", "tests")
                            || !in_folder("--bench", "benches")
                    }
                    _ => continue,
                },
                _ => continue,
            };
            commands += 1;
            if missing {
                wrong.push(format!("{}: {}", document.name(), words.join(" ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(commands > 60, "{commands}");
}

#[test]
fn the_command_reference_has_every_metric() {
    let reference = document("docs/src/commands-run.md").text;
    let recorded = fs::read_dir(root().join("crates/lab/nostall-lab/fixtures/figures")).unwrap();
    let mut metrics = 0;
    for file in recorded.map(|file| Document::read(file.unwrap().path())) {
        for figure in file.text.lines() {
            let Some(metric) = figure.split_whitespace().nth(4) else {
                continue;
            };
            // The reference has one name for each kind of access and of text.
            // Schema 1, in which the files were recorded, has the case in the name.
            let metric = metric.trim_end_matches("_by_line");
            let metric = metric.split("_of_a_").next().unwrap();
            let metric = metric
                .trim_end_matches("_of_1")
                .trim_end_matches("_of_2500");
            let kinds = ["write", "scan", "init"];
            let metric = kinds.iter().fold(metric.to_owned(), |metric, kind| {
                let metric = metric.replace(&format!("_per_{kind}"), "_per_read");
                metric.replace(&format!("{kind}_time"), "read_time")
            });
            let known = reference.contains(&format!("`{metric}`"));
            assert!(known, "{}: {metric}", file.name());
            metrics += 1;
        }
    }
    assert!(metrics > 100, "{metrics}");
}

/// Returns the program with each line of `changes` in place of the line that begins like it.
#[cfg(unix)]
fn with_changes(program: &str, changes: &str) -> String {
    let key = |line: &str| {
        line.split_inclusive([':', '('])
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let mut lines: Vec<_> = program.lines().collect();
    for change in changes.lines() {
        let mut places = lines.iter_mut().filter(|line| key(line) == key(change));
        let (place, other) = (places.next(), places.next());
        assert!(other.is_none(), "ambiguous: {change}");
        *place.unwrap_or_else(|| panic!("replaces no line: {change}")) = change;
    }
    lines.join("\n")
}

/// Runs cargo in `folder`.
#[cfg(unix)]
fn try_cargo(folder: &Path, arguments: &[&str]) -> Output {
    let mut cargo = Command::new(env!("CARGO"));
    // A fresh crate: nothing of this one's build is in the way.
    for of_this_build in ["CARGO_TARGET_DIR", "RUSTFLAGS", "RUSTC_BOOTSTRAP"] {
        cargo.env_remove(of_this_build);
    }
    let output = cargo.current_dir(folder).args(arguments).output();
    output.unwrap()
}

/// Runs cargo in `folder`, without an error.
#[cfg(unix)]
fn cargo(folder: &Path, arguments: &[&str]) {
    let output = try_cargo(folder, arguments);
    assert!(
        output.status.success(),
        "cargo {}\n{}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The comment before the quick start with a timer.
const QUICK_START: &str = "<!-- the quick start -->";

/// The comment before its lines for RISC-V.
const ON_RISC_V: &str = "<!-- the quick start on RISC-V -->";

/// The comment before its lines for AArch64.
const ON_AARCH64: &str = "<!-- the quick start on AArch64 -->";

/// The functions of the reader's kernel, as the quick start calls them.
#[cfg(unix)]
const CPU: &str = "
    pub fn number() -> u16 { unimplemented!() }
    pub fn masked<T>(_: impl FnOnce() -> T) -> T { unimplemented!() }
    pub fn set_timer(_: nostall_console::Nanos) {}
    pub fn stop_timer() {}
    pub fn stop_others() {}
";

/// A number and a mask that compile and are wrong on several CPUs must not be in the example.
#[cfg(unix)]
#[test]
fn the_quick_start_compiles_in_an_empty_crate_only_with_the_functions_of_a_kernel() {
    let readme = document("crates/drivers/console/README.md");
    let first = readme.blocks("rust,ignore")[0];
    let chapter = document("docs/src/console-kernel.md");
    let after = |comment| {
        let mut blocks = rust_blocks(&chapter).into_iter();
        blocks.find(|(before, ..)| *before == comment).unwrap().2
    };
    let program = after(QUICK_START);
    let (x86_64, riscv64) = ("x86_64-unknown-none", "riscv64gc-unknown-none-elf");
    let aarch64 = "aarch64-unknown-none-softfloat";
    let of_timer = ["set_timer", "stop_timer", "stop_others"];
    let programs = [
        (x86_64, first.to_owned(), 16, &[][..]),
        (x86_64, program.to_owned(), 36, &of_timer),
        (
            riscv64,
            with_changes(program, after(ON_RISC_V)),
            36,
            &of_timer,
        ),
        (
            aarch64,
            with_changes(program, after(ON_AARCH64)),
            36,
            &of_timer,
        ),
    ];

    // The checkout is beside the reader's crate, as the commands have it.
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root(), folder.path().join("nostall")).unwrap();
    let mine = folder.path().join("mine");
    cargo(
        folder.path(),
        &["new", "--quiet", "--lib", "--vcs", "none", "mine"],
    );
    // The versions of this workspace: no registry is asked.
    fs::copy(root().join("Cargo.lock"), mine.join("Cargo.lock")).unwrap();
    let added = readme.blocks("sh").join("\n");
    let added = added
        .lines()
        .filter(|line| line.starts_with("cargo add --path "));
    let mut crates = 0;
    for line in added {
        let line = line.split('#').next().unwrap();
        let mut words = line.split_whitespace().skip(1).collect::<Vec<_>>();
        words.extend(["--offline", "--quiet"]);
        cargo(&mine, &words);
        crates += 1;
    }
    assert_eq!(crates, 1, "one crate to depend on");

    for (target, program, most, more) in programs {
        let program = format!("#![no_std]\n{program}");
        let lines = program.lines().map(str::trim);
        let other = |line: &str| {
            ["//", "use ", "#!["]
                .iter()
                .any(|head| line.starts_with(head))
        };
        let code = lines.filter(|line| !line.is_empty() && !other(line));
        assert!(code.count() <= most, "{program}");
        fs::write(mine.join("src/lib.rs"), program).unwrap();
        let build = ["build", "--offline", "--quiet", "--target", target];
        fs::write(mine.join("src/cpu.rs"), "").unwrap();
        let refused = String::from_utf8(try_cargo(&mine, &build).stderr).unwrap();
        for function in ["number", "masked"].iter().chain(more) {
            let missing = format!("cannot find function `{function}` in module `cpu`");
            assert!(refused.contains(&missing), "{missing}: {refused}");
        }
        fs::write(mine.join("src/cpu.rs"), CPU).unwrap();
        cargo(&mine, &build);
    }
}

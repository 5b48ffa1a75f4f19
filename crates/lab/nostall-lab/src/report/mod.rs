//! `nostall-lab report`: a page of figures.

mod beside;
pub mod drawing;
pub mod file;
pub mod group;
pub mod page;
pub mod part;
mod picture;
pub mod source;
mod text;

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::experiments;
use page::page;
use source::Source;

/// Make a page with charts from recorded figures
///
/// Reads documents that `nostall-lab run --json FILE` wrote, on this machine or on others, and
/// writes one page of HTML. Each document is a column of the page's tables. The page is one
/// file: it needs no network, and opens in any browser.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Documents of figures, as `nostall-lab run --json` writes them; `-` is standard input
    #[arg(required = true, value_name = "FILE.json")]
    documents: Vec<PathBuf>,

    /// Write the page to FILE
    ///
    /// An old FILE is replaced once the page is complete.
    #[arg(short, long, value_name = "FILE.html")]
    output: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  nostall-lab run uart --json uart.json
  nostall-lab report uart.json -o uart.html
                                    a page of one experiment
  nostall-lab report laptop.json server.json -o both.html
                                    two machines, side by side
  nostall-lab run --report tour.html    the tour and its page, in one step";

/// Writes the page.
///
/// # Errors
///
/// A document that cannot be read, or a page that cannot be written.
pub fn run(args: &Args) -> Result<()> {
    file::probe("--output", &args.output)?;
    for document in &args.documents {
        let is_same = |other: &PathBuf| document.canonicalize().ok() == other.canonicalize().ok();
        ensure!(
            !args.output.exists() || !is_same(&args.output),
            "--output {}: the page would replace a document",
            args.output.display()
        );
    }
    let sources: Result<Vec<_>> = args
        .documents
        .iter()
        .map(|path| Source::read(path))
        .collect();
    file::replace(
        "--output",
        &args.output,
        &page(
            &sources?,
            experiments::SUPPLIED,
            file::project(&args.output),
        ),
    )
}

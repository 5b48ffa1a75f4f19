//! `nostall trace report --view flame`: a flame graph, as SVG.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use inferno::flamegraph::{Options, from_lines};
use nostall_tracefile::export::{Folded, Weight};
use nostall_tracefile::graph::walk;
use nostall_tracefile::model::{ReadError, Source, TimeUnit};

use super::args::Args;
use super::input;
use super::watched::Watched;
use crate::escape::escape_name;
use crate::output::{note, to_stdout};

/// Prints the flame graph.
///
/// # Errors
///
/// If the input cannot be read or the output cannot be written.
pub fn run(args: &Args) -> Result<()> {
    let [path] = &args.inputs[..] else {
        bail!(
            "--view flame draws one input, and there are {}",
            args.inputs.len()
        );
    };
    let is_whole = args.functions.is_empty() && args.cpus.is_empty() && args.limit.is_none();
    ensure!(
        is_whole && !args.json,
        "--view flame draws the whole trace: --function, --cpu, --limit and --json are for the \
         other views"
    );
    let name = input::name(path);
    let drawn = draw(args, path, &name).with_context(|| name.clone())?;
    to_stdout(|out| out.write_all(&drawn))
}

fn draw(args: &Args, path: &Path, name: &str) -> Result<Vec<u8>> {
    let (mut lines, mut unit) = fold(args, path, name, Weight::SelfTime)?;
    if lines.is_empty() {
        // Without exits in the trace, calls are counted.
        (lines, unit) = fold(args, path, name, Weight::Calls)?;
    }
    ensure!(!lines.is_empty(), "the trace has no calls");
    let mut options = Options::default();
    options.title = name.to_owned();
    options.count_name = unit.to_owned();
    // The same trace makes the same picture.
    options.hash = true;
    options.deterministic = true;
    let mut svg = Vec::new();
    from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)?;
    Ok(svg)
}

/// Returns the folded stacks of the trace, and the name of their unit.
fn fold(
    args: &Args,
    path: &Path,
    name: &str,
    weight: Weight,
) -> Result<(Vec<String>, &'static str)> {
    let mut source = Watched::new(input::open(path, &args.reading)?);
    let mut folded = Folded::new(weight);
    let ended = walk(&mut source, |catalog, step| {
        folded.step(catalog, &step);
        Ok::<_, ReadError>(())
    });
    source.clear();
    if weight == Weight::SelfTime {
        for line in source.notes() {
            note(format_args!("{name}: {}", escape_name(line)));
        }
    }
    ended?;
    let unit = match (weight, source.unit()) {
        (Weight::Calls, _) => "calls",
        (_, TimeUnit::Nanoseconds) => "ns",
        (_, TimeUnit::Ticks) => "ticks",
    };
    Ok((folded.lines(source.catalog()), unit))
}

//! The file that a region lies in.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use nostall_postmortem::memory::open_file;

use super::args::Args;

/// Pieces of a new file that are all zero are not written.
const PIECE: usize = 64 << 10;

/// Before anything is done: whether the file may be written at the end.
pub fn may_be_written(args: &Args) -> Result<()> {
    let out = args.out.display();
    ensure!(
        args.out.as_os_str() != "-",
        "an image is a file, and not standard output: for a file of this name give ./-"
    );
    let Ok(there) = args.out.symlink_metadata() else {
        return Ok(());
    };
    ensure!(
        there.is_file() || there.is_symlink(),
        "{out} is not a file: --out must name one"
    );
    if let Some(into) = &args.into
        && let (Ok(from), Ok(to)) = (into.canonicalize(), args.out.canonicalize())
    {
        ensure!(
            from != to,
            "{out} is the image that is to be copied: give --out another name"
        );
    }
    ensure!(
        args.force,
        "{out} exists, and nothing was written: give --force to overwrite it, or another name"
    );
    Ok(())
}

/// The region in an image: of `size` bytes, or all from `offset` on.
pub fn region(image: &Path, offset: u64, size: Option<usize>) -> Result<Vec<u8>> {
    // A pipe without a writer is opened at once.
    let mut file = open_file(image)?;
    ensure!(file.metadata()?.is_file(), "not a file");
    let len = file.metadata()?.len();
    let there = len.saturating_sub(offset);
    let size = size.map_or(there, |size| size as u64);
    ensure!(
        size <= there,
        "the image has only {there} of the region's {size} bytes at --offset {offset:#x}"
    );
    // No region is larger: `Layout` refuses it.
    ensure!(
        size <= i32::MAX as u64,
        "{size} bytes from {offset:#x} on are no region: give its --size, less than 2G"
    );
    let mut bytes = vec![0; size as usize];
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Writes the file; there is all of it, or none.
pub fn write(args: &Args, region: &[u8]) -> Result<()> {
    if args.force
        && let Err(error) = fs::remove_file(&args.out)
        && error.kind() != ErrorKind::NotFound
    {
        // Not written through: it may be a link to somewhere else.
        return Err(error).with_context(|| args.out.display().to_string());
    }
    let written = File::create_new(&args.out).and_then(|file| {
        fill(file, args, region).inspect_err(|_| {
            // Half an image is none.
            let _ = fs::remove_file(&args.out);
        })
    });
    written.with_context(|| args.out.display().to_string())
}

fn fill(mut file: File, args: &Args, region: &[u8]) -> io::Result<()> {
    let copied = match &args.into {
        Some(image) => io::copy(&mut File::open(image)?, &mut file)?,
        None => {
            let len = args.offset.checked_add(region.len() as u64);
            file.set_len(len.ok_or(ErrorKind::FileTooLarge)?)?;
            0
        }
    };
    let mut at = args.offset;
    for piece in region.chunks(PIECE) {
        if copied > 0 || piece.iter().any(|&byte| byte != 0) {
            file.seek(SeekFrom::Start(at))?;
            file.write_all(piece)?;
        }
        at += piece.len() as u64;
    }
    Ok(())
}

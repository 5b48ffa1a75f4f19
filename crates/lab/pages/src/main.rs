//! Writes a man page for each command of nostall, and shell completions, into a folder.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::{env, fs};

use anyhow::{Context, Result};
use clap::ValueEnum;
use clap_complete::Shell;

fn main() -> Result<()> {
    let folder = env::args_os()
        .nth(1)
        .context("usage: nostall-pages FOLDER")?;
    let folder = PathBuf::from(folder);
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    fs::create_dir_all(&man)?;
    fs::create_dir_all(&completions)?;
    for mut command in [nostall::command(), nostall_lab::command()] {
        clap_mangen::generate_to(command.clone(), &man)?;
        let name = command.get_name().to_owned();
        for &shell in Shell::value_variants() {
            clap_complete::generate_to(shell, &mut command, &name, &completions)?;
        }
    }
    Ok(())
}

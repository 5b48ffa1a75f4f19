//! Writes the man pages and shell completions of both commands.
//!
//! `nostall-pages FOLDER` fills `FOLDER/COMMAND/share`, as a system's `/usr/share` has them.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::{env, fs};

use anyhow::{Context, Result};
use clap_complete::Shell;

fn main() -> Result<()> {
    let folder = env::args_os()
        .nth(1)
        .context("usage: nostall-pages FOLDER")?;
    for mut command in [nostall::command(), nostall_lab::command()] {
        let name = command.get_name().to_owned();
        let share = PathBuf::from(&folder).join(&name).join("share");
        let man = share.join("man/man1");
        fs::create_dir_all(&man)?;
        clap_mangen::generate_to(command.clone(), man)?;
        for (shell, file) in [
            (Shell::Bash, format!("bash-completion/completions/{name}")),
            (
                Shell::Fish,
                format!("fish/vendor_completions.d/{name}.fish"),
            ),
            (Shell::Zsh, format!("zsh/vendor-completions/_{name}")),
        ] {
            let file = share.join(file);
            fs::create_dir_all(file.parent().context("a file of a folder")?)?;
            clap_complete::generate(shell, &mut command, &name, &mut fs::File::create(file)?);
        }
    }
    Ok(())
}

//! The guest kernel: carried inside the command.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Empty where the command was built without it; see build.rs.
static EMBEDDED: &[u8] = include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL"));

/// The longest that is read: ours is a hundredth of it.
const LONGEST: u64 = 64 << 20;

/// What to do without one.
pub const MISSING: &str = "this nostall was built without its guest kernel: \
     give one by `--kernel FILE`, use `--on model`, or build it from a checkout after \
     `rustup target add x86_64-unknown-none`";

/// `given`, or else the one that the command carries.
pub fn find(given: Option<&Path>) -> Result<Option<Cow<'static, [u8]>>> {
    choose(given, EMBEDDED)
}

fn choose(given: Option<&Path>, embedded: &'static [u8]) -> Result<Option<Cow<'static, [u8]>>> {
    match given {
        Some(path) => {
            let name = || format!("kernel {}", path.display());
            let mut kernel = Vec::new();
            File::open(path)
                .and_then(|file| file.take(LONGEST + 1).read_to_end(&mut kernel))
                .with_context(name)?;
            ensure!(
                kernel.len() as u64 <= LONGEST,
                "{}: longer than {} MiB",
                name(),
                LONGEST >> 20
            );
            // QEMU would take it for an old Linux kernel, and say so.
            ensure!(
                kernel.starts_with(b"\x7fELF"),
                "{}: not an ELF file",
                name()
            );
            Ok(Some(kernel.into()))
        }
        None => Ok((!embedded.is_empty()).then_some(embedded.into())),
    }
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn the_embedded_kernel_is_taken_unless_one_is_given() {
        assert_eq!(choose(None, b"ELF").unwrap().unwrap(), &b"ELF"[..]);
        let given = tempfile::NamedTempFile::new().unwrap();
        fs::write(given.path(), b"\x7fELF, mine").unwrap();
        let chosen = choose(Some(given.path()), b"ELF").unwrap().unwrap();
        assert_eq!(chosen, &b"\x7fELF, mine"[..]);
    }

    #[test]
    fn built_without_one_there_is_none() {
        assert_eq!(choose(None, b"").unwrap(), None);
    }

    #[test]
    fn a_kernel_that_cannot_be_read_is_named() {
        let error = choose(Some(Path::new("/nonexistent")), b"ELF").unwrap_err();
        assert!(format!("{error:#}").contains("kernel /nonexistent: No such file"));
        let error = choose(Some(Path::new("/etc/hostname")), b"ELF").unwrap_err();
        assert!(format!("{error:#}").contains("kernel /etc/hostname: not an ELF file"));
    }

    #[test]
    fn a_kernel_without_an_end_is_not_read_to_it() {
        let error = choose(Some(Path::new("/dev/zero")), b"ELF").unwrap_err();
        assert_eq!(error.to_string(), "kernel /dev/zero: longer than 64 MiB");
    }

    /// Whether build.rs had all that it needs to build the kernel.
    fn can_be_built() -> bool {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel");
        let libdir = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()))
            .args([
                "--print",
                "target-libdir",
                "--target",
                "x86_64-unknown-none",
            ])
            .output()
            .unwrap();
        sources.is_dir() && Path::new(String::from_utf8_lossy(&libdir.stdout).trim()).is_dir()
    }

    #[test]
    fn the_release_image_is_under_a_mebibyte() {
        assert!(
            !EMBEDDED.is_empty() || option_env!("NOSTALL_KERNEL").is_some() || !can_be_built(),
            "the kernel could be built, and is not embedded"
        );
        assert!(EMBEDDED.len() < 1 << 20, "{} bytes", EMBEDDED.len());
    }
}

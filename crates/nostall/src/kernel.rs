//! The guest kernel: carried inside the command.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Empty where the command was built without it; see build.rs.
static EMBEDDED: &[u8] = include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL"));

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
            let kernel = fs::read(path).with_context(name)?;
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
    fn the_release_image_is_under_a_mebibyte() {
        assert!(EMBEDDED.len() < 1 << 20, "{} bytes", EMBEDDED.len());
    }
}

//! The guest kernels embedded in the command, one for each architecture.

use std::borrow::Cow;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use nostall_postmortem::cli::read_or;
use nostall_vm::qemu::Architecture;

/// The largest kernel that is read. Ours has a hundredth of this size.
const LONGEST: usize = 64 << 20;

/// Returns the embedded kernel, which is empty if the command was built without it (see
/// build.rs).
const fn embedded(architecture: Architecture) -> &'static [u8] {
    match architecture {
        Architecture::X86_64 => include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL")),
        Architecture::Riscv64 => include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL_RISCV64")),
        Architecture::Aarch64 => include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL_AARCH64")),
    }
}

/// Returns the kernel `given` after a check of its architecture, or else the embedded one.
pub fn find(given: Option<&Path>, architecture: Architecture) -> Result<Cow<'static, [u8]>> {
    choose(given, architecture, embedded(architecture))
}

fn choose(
    given: Option<&Path>,
    architecture: Architecture,
    embedded: &'static [u8],
) -> Result<Cow<'static, [u8]>> {
    match given {
        Some(path) => Ok(read(path, architecture)?.into()),
        None if embedded.is_empty() => bail!(
            "this nostall was built without its guest kernel for {architecture}: \
             give one by `--kernel FILE`, use {}, or build it from a checkout after \
             `rustup target add {}`",
            architecture.instead(),
            architecture.target()
        ),
        None => Ok(embedded.into()),
    }
}

fn read(path: &Path, architecture: Architecture) -> Result<Vec<u8>> {
    let name = || format!("kernel {}", path.display());
    let too_long = || anyhow!("longer than {} MiB", LONGEST >> 20);
    let kernel = read_or(path, LONGEST, too_long).with_context(name)?;
    // QEMU would load it as an old Linux kernel or as a raw image, and execute it.
    ensure!(
        kernel.starts_with(b"\x7fELF"),
        "{}: not an ELF file",
        name()
    );
    let is_for = Architecture::of_elf(&kernel);
    ensure!(
        is_for == Some(architecture),
        "{}: for {}, and this machine's CPUs are {architecture}",
        name(),
        is_for.map_or("another architecture".to_owned(), |is_for| is_for
            .to_string())
    );
    Ok(kernel)
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::fs;
    use std::process::Command;

    use Architecture::{Aarch64, Riscv64, X86_64};

    use super::*;

    /// Returns the start of a 64-bit ELF file.
    fn elf(machine: u8) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01".to_vec();
        file.resize(64, 0);
        file[18] = machine;
        file
    }

    #[test]
    fn the_embedded_kernel_is_taken_unless_one_is_given() {
        let taken = choose(None, X86_64, b"ELF").unwrap();
        assert_eq!(taken, &b"ELF"[..]);
        let given = tempfile::NamedTempFile::new().unwrap();
        fs::write(given.path(), elf(62)).unwrap();
        let chosen = choose(Some(given.path()), X86_64, b"ELF").unwrap();
        assert_eq!(chosen, elf(62));
    }

    #[test]
    fn built_without_one_it_says_how_to_have_it() {
        for (architecture, target) in [
            (X86_64, "x86_64-unknown-none"),
            (Riscv64, "riscv64gc-unknown-none-elf"),
            (Aarch64, "aarch64-unknown-none-softfloat"),
        ] {
            let error = choose(None, architecture, b"").unwrap_err().to_string();
            assert!(error.contains(&format!("for {architecture}: ")), "{error}");
            assert!(error.contains(&format!("target add {target}`")), "{error}");
        }
    }

    #[test]
    fn a_kernel_that_cannot_be_read_is_named() {
        let error = choose(Some(Path::new("/nonexistent")), X86_64, b"ELF").unwrap_err();
        assert!(format!("{error:#}").contains("kernel /nonexistent: No such file"));
        let error = choose(Some(Path::new("/etc/hostname")), X86_64, b"ELF").unwrap_err();
        assert!(format!("{error:#}").contains("kernel /etc/hostname: not an ELF file"));
    }

    #[test]
    fn a_kernel_for_other_cpus_is_refused() {
        for (machine, wanted, says) in [
            (
                62,
                Riscv64,
                "for x86-64, and this machine's CPUs are riscv64",
            ),
            (
                243,
                X86_64,
                "for riscv64, and this machine's CPUs are x86-64",
            ),
            (
                183,
                X86_64,
                "for aarch64, and this machine's CPUs are x86-64",
            ),
            (40, X86_64, "for another architecture, and this machine's"),
        ] {
            let given = tempfile::NamedTempFile::new().unwrap();
            fs::write(given.path(), elf(machine)).unwrap();
            let error = choose(Some(given.path()), wanted, b"").unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn a_kernel_without_an_end_is_not_read_to_it() {
        let error = choose(Some(Path::new("/dev/zero")), X86_64, b"ELF").unwrap_err();
        assert_eq!(format!("{error:#}"), "kernel /dev/zero: longer than 64 MiB");
    }

    /// Returns whether build.rs can build the kernel here.
    fn can_be_built(architecture: Architecture) -> bool {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../kernel");
        let libdir = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()))
            .args(["--print", "target-libdir", "--target"])
            .arg(architecture.target())
            .output()
            .unwrap();
        sources.is_dir() && Path::new(String::from_utf8_lossy(&libdir.stdout).trim()).is_dir()
    }

    #[test]
    fn each_release_image_is_under_a_mebibyte() {
        for architecture in [X86_64, Riscv64, Aarch64] {
            let kernel = embedded(architecture);
            assert!(
                !kernel.is_empty()
                    || option_env!("NOSTALL_KERNEL").is_some()
                    || !can_be_built(architecture),
                "the kernel for {architecture} could be built, and is not embedded"
            );
            assert!(kernel.len() < 1 << 20, "{} bytes", kernel.len());
            if !kernel.is_empty() {
                assert_eq!(Architecture::of_elf(kernel), Some(architecture));
            }
        }
    }
}

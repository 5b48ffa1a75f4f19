//! Builds the guest kernel, so that the command carries it.
//!
//! `NOSTALL_KERNEL=FILE` embeds that file instead; a relative name is looked up
//! from the workspace's root, and an empty file (`/dev/null`) is as good as no
//! kernel. Without the bare-metal target
//! or the kernel's sources (a crate from a registry has neither) nothing is
//! embedded, and the command says what to do when it needs a kernel.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "x86_64-unknown-none";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=NOSTALL_KERNEL");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let embedded = out.join("nostall-kernel");
    let given = env::var_os("NOSTALL_KERNEL").filter(|given| !given.is_empty());
    let kernel = match given {
        Some(given) => read(&root().join(given)),
        None => build(&out).map_or_else(Vec::new, |kernel| fs::read(kernel).unwrap()),
    };
    fs::write(&embedded, kernel).unwrap();
    println!(
        "cargo::rustc-env=NOSTALL_EMBEDDED_KERNEL={}",
        embedded.display()
    );
}

fn root() -> PathBuf {
    PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../..")
}

/// The kernel that was given by name.
fn read(given: &Path) -> Vec<u8> {
    println!("cargo::rerun-if-changed={}", given.display());
    let kernel =
        fs::read(given).unwrap_or_else(|e| panic!("NOSTALL_KERNEL={}: {e}", given.display()));
    assert!(
        kernel.is_empty() || kernel.starts_with(b"\x7fELF"),
        "NOSTALL_KERNEL={}: not an ELF file",
        given.display()
    );
    kernel
}

/// The built kernel; `None` where it cannot be built for want of something.
fn build(out: &Path) -> Option<PathBuf> {
    let root = root();
    if !root.join("kernel/Cargo.toml").is_file() {
        return None;
    }
    for source in [
        "kernel",
        "crates/nostall-io",
        "crates/nostall-pci",
        "crates/nostall-pstore",
        "crates/nostall-uart",
        "crates/nostall-work",
    ] {
        println!(
            "cargo::rerun-if-changed={}",
            root.join(source).join("src").display()
        );
        println!(
            "cargo::rerun-if-changed={}",
            root.join(source).join("Cargo.toml").display()
        );
    }
    for file in [
        "crates/nostall-uart/examples",
        "kernel/build.rs",
        "Cargo.toml",
        "Cargo.lock",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(file).display());
    }
    let libdir = target_libdir();
    if !libdir.is_dir() {
        // A file that is not there has always changed: looked at again by every
        // build, until the target is added.
        println!("cargo::rerun-if-changed={}", libdir.display());
        println!("cargo::warning=no guest kernel built in: rustup target add {TARGET}");
        return None;
    }
    // One for all profiles of the command: <target>/<profile>/build/<this>/out.
    let target = out.ancestors().nth(4).unwrap_or(out).join("kernel");
    let output = Command::new(env::var_os("CARGO").unwrap())
        .args([
            "build",
            "--locked",
            "--package",
            "nostall-kernel",
            "--profile",
            "kernel",
        ])
        .args(["--target", TARGET, "--target-dir"])
        .arg(&target)
        .current_dir(&root)
        // What the outer build was told is not meant for the kernel, nor is what
        // the user's configuration says: flags that are set, and none, come first.
        .env("CARGO_ENCODED_RUSTFLAGS", "")
        .env_remove("RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_BUILD_TARGET")
        .output()
        .expect("cargo runs cargo");
    assert!(
        output.status.success(),
        "the guest kernel does not build:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(target.join(TARGET).join("kernel/nostall-kernel"))
}

/// Where the target's libraries are, or would be.
fn target_libdir() -> PathBuf {
    let output = Command::new(env::var_os("RUSTC").unwrap())
        .args(["--print", "target-libdir", "--target", TARGET])
        .output()
        .expect("rustc can be run");
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}

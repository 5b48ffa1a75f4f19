//! Builds the guest kernel, so that the command carries it.
//!
//! `NOSTALL_KERNEL=FILE` embeds that file instead. Without the bare-metal target
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
    match env::var_os("NOSTALL_KERNEL").map(PathBuf::from) {
        Some(given) => {
            println!("cargo::rerun-if-changed={}", given.display());
            fs::copy(&given, &embedded)
                .unwrap_or_else(|e| panic!("NOSTALL_KERNEL={}: {e}", given.display()));
        }
        None => match build(&out) {
            Some(kernel) => {
                fs::copy(kernel, &embedded).unwrap();
            }
            None => fs::write(&embedded, []).unwrap(),
        },
    }
    println!(
        "cargo::rustc-env=NOSTALL_EMBEDDED_KERNEL={}",
        embedded.display()
    );
}

/// The built kernel; `None` where it cannot be built for want of something.
fn build(out: &Path) -> Option<PathBuf> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let root = here.join("../..");
    if !root.join("kernel/Cargo.toml").is_file() {
        return None;
    }
    for source in [
        "kernel",
        "crates/nostall-io",
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
    println!(
        "cargo::rerun-if-changed={}",
        root.join("crates/nostall-uart/examples").display()
    );
    println!(
        "cargo::rerun-if-changed={}",
        root.join("Cargo.toml").display()
    );
    if !has_target() {
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
        // What the outer build was told is not meant for the kernel.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
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

fn has_target() -> bool {
    let output = Command::new(env::var_os("RUSTC").unwrap())
        .args(["--print", "target-libdir", "--target", TARGET])
        .output();
    output.is_ok_and(|o| Path::new(String::from_utf8_lossy(&o.stdout).trim()).is_dir())
}

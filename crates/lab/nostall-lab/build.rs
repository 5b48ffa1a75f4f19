//! Builds the guest kernels that the command embeds, one for each architecture.
//!
//! `NOSTALL_KERNEL=FILE` embeds that file instead of the kernel for its architecture. A
//! relative name starts at the workspace's root, and an empty file (`/dev/null`) stands for
//! no kernel.
//!
//! A checkout builds its kernels. A crate from a registry lacks their sources, and has the kernels
//! themselves in `kernels/` (`scripts/package`). Their bytes do not depend on the folders of the
//! build. No kernel is embedded if both are missing, or a checkout has no bare-metal target for
//! an architecture. The command then reports what to do when it needs that kernel.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An architecture with a guest kernel.
struct Architecture {
    /// Rust's target.
    target: &'static str,
    /// The architecture's number in ELF files (e_machine).
    elf: u16,
    /// The environment variable with the kernel's path, for the command's build.
    variable: &'static str,
}

const ARCHITECTURES: [Architecture; 3] = [
    Architecture {
        target: "x86_64-unknown-none",
        elf: 62,
        variable: "NOSTALL_EMBEDDED_KERNEL",
    },
    Architecture {
        target: "riscv64gc-unknown-none-elf",
        elf: 243,
        variable: "NOSTALL_EMBEDDED_KERNEL_RISCV64",
    },
    Architecture {
        target: "aarch64-unknown-none-softfloat",
        elf: 183,
        variable: "NOSTALL_EMBEDDED_KERNEL_AARCH64",
    },
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=NOSTALL_KERNEL");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let given = env::var_os("NOSTALL_KERNEL").filter(|given| !given.is_empty());
    let given = given.map(|given| read(&root().join(given)));
    for Architecture {
        target,
        elf,
        variable,
    } in ARCHITECTURES
    {
        let kernel = match &given {
            Some((kernel, machine)) if machine.is_none_or(|machine| machine == elf) => {
                kernel.clone()
            }
            _ => {
                let ours = match root().join("kernel/Cargo.toml").is_file() {
                    true => build(&out, target),
                    false => packaged(&name(target)),
                };
                ours.map_or_else(Vec::new, |kernel| fs::read(kernel).unwrap())
            }
        };
        let embedded = out.join(name(target));
        fs::write(&embedded, kernel).unwrap();
        println!("cargo::rustc-env={variable}={}", embedded.display());
    }
}

fn root() -> PathBuf {
    manifest_dir().join("../../..")
}

fn manifest_dir() -> PathBuf {
    PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap())
}

/// Returns the file name of a target's kernel.
fn name(target: &str) -> String {
    format!("nostall-kernel-{target}")
}

/// Returns the kernel that a crate from a registry has, or `None`.
fn packaged(name: &str) -> Option<PathBuf> {
    let kernel = manifest_dir().join("kernels").join(name);
    println!("cargo::rerun-if-changed={}", kernel.display());
    kernel.is_file().then_some(kernel)
}

/// Reads the kernel of `NOSTALL_KERNEL`, and its number in ELF files, which is `None` if the
/// file is empty.
fn read(given: &Path) -> (Vec<u8>, Option<u16>) {
    println!("cargo::rerun-if-changed={}", given.display());
    let name = || format!("NOSTALL_KERNEL={}", given.display());
    let kernel = fs::read(given).unwrap_or_else(|e| panic!("{}: {e}", name()));
    if kernel.is_empty() {
        return (kernel, None);
    }
    assert!(
        kernel.len() >= 64 && kernel.starts_with(b"\x7fELF\x02\x01"),
        "{}: not an ELF file for a processor of 64 bits",
        name()
    );
    let machine = u16::from_le_bytes([kernel[18], kernel[19]]);
    let is_ours = ARCHITECTURES.iter().any(|known| known.elf == machine);
    assert!(
        is_ours,
        "{}: for none of x86-64, riscv64 and aarch64",
        name()
    );
    (kernel, Some(machine))
}

/// Builds the kernel. Returns `None` if the target is missing.
fn build(out: &Path, target: &str) -> Option<PathBuf> {
    let root = root();
    for source in [
        "kernel",
        "crates/drivers/console",
        "crates/devices",
        "crates/drivers/io",
        "crates/drivers/pci",
        "crates/drivers/pstore",
        "crates/drivers/spi",
        "crates/drivers/trace",
        "crates/drivers/uart",
        "crates/lab/work",
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
        "crates/drivers/uart/examples",
        "kernel/build.rs",
        "Cargo.toml",
        "Cargo.lock",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(file).display());
    }
    let libdir = target_libdir(target);
    if !libdir.is_dir() {
        // For cargo a missing file has always changed, so each build checks again, until the
        // target is added.
        println!("cargo::rerun-if-changed={}", libdir.display());
        println!("cargo::warning=no guest kernel built in: rustup target add {target}");
        return None;
    }
    // One folder for all profiles of the command: <target>/<profile>/build/<this>/out.
    let folder = out.ancestors().nth(4).unwrap_or(out).join("kernel");
    let output = Command::new(env::var_os("CARGO").unwrap())
        .args([
            "build",
            "--locked",
            "--package",
            "nostall-kernel",
            "--profile",
            "kernel",
        ])
        .args(["--target", target, "--target-dir"])
        .arg(&folder)
        .current_dir(&root)
        // The outer build's flags do not apply to the kernel, and neither do those of the user's
        // configuration. Flags from this variable take precedence.
        .env("CARGO_ENCODED_RUSTFLAGS", remapped_folders(&root))
        .env_remove("RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_BUILD_TARGET")
        .output()
        .expect("cargo runs cargo");
    assert!(
        output.status.success(),
        "the guest kernel for {target} does not build:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(folder.join(target).join("kernel/nostall-kernel"))
}

/// Returns rustc's flags that keep the folders of this build out of the kernel's messages.
fn remapped_folders(root: &Path) -> String {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| env::home_dir().map(|home| home.join(".cargo")));
    let registries = home.and_then(|home| fs::read_dir(home.join("registry/src")).ok());
    let registries = registries.into_iter().flatten().flatten();
    let root = root.canonicalize().unwrap();
    registries
        .map(|registry| (registry.path(), "/registry"))
        .chain([(root, "/nostall")])
        .map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display()))
        .collect::<Vec<_>>()
        .join("\x1f")
}

/// Returns the folder of the target's libraries, which may not exist.
fn target_libdir(target: &str) -> PathBuf {
    let output = Command::new(env::var_os("RUSTC").unwrap())
        .args(["--print", "target-libdir", "--target", target])
        .output()
        .expect("rustc can be run");
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}

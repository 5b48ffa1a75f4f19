//! Links the kernel at the address that its boot protocol expects.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("none") {
        return;
    }
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap();
    let dir = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let script = format!("{dir}/src/{arch}/link.ld");
    println!("cargo::rerun-if-changed={script}");
    println!("cargo::rustc-link-arg-bins=-T{script}");
    // Loaded at its link address, without relocations.
    println!("cargo::rustc-link-arg-bins=--no-pie");
    // Segments start on pages of 4 KiB in the file, too, not of 64 KiB as for AArch64.
    println!("cargo::rustc-link-arg-bins=-zmax-page-size=4096");
    // RISC-V code has thousands of local labels, which would be a quarter of the file.
    println!("cargo::rustc-link-arg-bins=--discard-locals");
}

//! The boards' memory, for the linker scripts of cortex-m-rt and riscv-rt.

use std::path::PathBuf;

/// LM3S6965 data sheet, "Memory Map".
const LM3S6965: &str =
    "MEMORY { FLASH : ORIGIN = 0, LENGTH = 256K RAM : ORIGIN = 0x20000000, LENGTH = 64K }";

/// OpenSBI is below.
const SIFIVE_U: &str = "MEMORY { RAM : ORIGIN = 0x80200000, LENGTH = 1M }
    REGION_ALIAS(REGION_TEXT, RAM) REGION_ALIAS(REGION_RODATA, RAM) REGION_ALIAS(REGION_DATA, RAM)
    REGION_ALIAS(REGION_BSS, RAM) REGION_ALIAS(REGION_HEAP, RAM) REGION_ALIAS(REGION_STACK, RAM)";

fn main() {
    let is = |board| std::env::var_os(format!("CARGO_FEATURE_{board}")).is_some();
    let (memory, arguments) = match () {
        () if is("LM3S6965EVB") => (LM3S6965, "lm3s6965evb=-Tlink.x"),
        () if is("SIFIVE_U") => (SIFIVE_U, "sifive_u=-Tlink.x"),
        () => return,
    };
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    std::fs::write(out.join("memory.x"), memory).expect("the output folder is writable");
    // cortex-m-rt wants this file. It is empty, because the board's vectors have numbers, not
    // names.
    std::fs::write(out.join("device.x"), "").expect("the output folder is writable");
    println!("cargo::rustc-link-search={}", out.display());
    println!("cargo::rustc-link-arg-bin={arguments}");
}
